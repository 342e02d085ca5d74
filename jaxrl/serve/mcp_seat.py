"""A seat for a language model: tools of the Model Context Protocol over standard input and output (extra `mcp`).

A model opens tables as the owner does, and sits down by the door of programs, with the invitation of a guest: it sees
what the page of its seat sees, within the limits of guests. A seat is named by its link, as on the page; nothing is
remembered between two calls.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from jaxrl.serve.guard import COOKIE

STORY = 24  # lines of the story that are shown
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy of the environment gets no token
GUIDE = """Games against trained agents and people. Open a table (or get a seat's link from a person), then look, and
play one of the numbered actions, until the game is over."""


class SeatTools:
    """The tools, which reach a server by its address alone."""

    def __init__(self, address: str, token: str):
        """Connects to nothing yet; `token` is the owner's, with which tables are opened."""
        self._address, self._token = address, token

    async def games(self) -> str:
        """Lists the games on offer: name, seats, what they are about, and the usual opponent."""
        found = [each for each in await self._ask("/api/games") if each["seats"] and each["people"]]
        return "\n".join(f"{each['id']}: {each['seats']} seats, {each['about']} ({each['opponent']})" for each in found)

    async def open_table(self, game: str, seats: list[str] | None = None) -> str:
        """Opens a table. Returns the links of the seats that were asked for as "person": take one, give away others.

        Args:
          game: name of the game.
          seats: a player for every seat: "person" for you and people, "bot:NAME", "zoo:NAME"; the usual ones without.
        """
        made = await self._ask("/api/tables", {"game": game, "pace": 0} | ({"seats": seats} if seats else {}))
        links = [f"{self._address}/table/{made['id']}?token={made['guest']}#{key}" for key in made["keys"] if key]
        return "\n".join(["seats, by their links:", *links])

    async def look(self, seat: str) -> str:
        """Waits until a seat is asked for an action, or the game is over, and returns what it sees.

        Args:
          seat: link of the seat.
        """
        return await self._seated(seat, None)

    async def play(self, seat: str, action: str) -> str:
        """Plays an action; returns what the seat sees when it is asked again, or the game is over.

        Args:
          seat: link of the seat.
          action: number or name of a legal action.
        """
        return await self._seated(seat, action)

    async def _ask(self, path: str, body: Any = None, cookie: str = "") -> Any:
        headers = {"Cookie": cookie or f"{COOKIE}={self._token}", "Origin": self._address}
        request = urllib.request.Request(self._address + path, body and json.dumps(body).encode(), headers)
        try:
            return json.loads(await asyncio.to_thread(lambda: DIRECT.open(request).read()))
        except urllib.error.HTTPError as error:
            raise ToolError(json.loads(error.read())["error"] if error.code == 400 else str(error)) from None

    async def _seated(self, seat: str, action: str | None) -> str:
        """Plays an action, if one is given, and waits for the next view in which this seat is asked."""
        link = urllib.parse.urlsplit(seat)
        table, token = link.path.rpartition("/")[2], urllib.parse.parse_qs(link.query).get("token", [""])[0]
        path, key = f"/api/tables/{urllib.parse.quote(table)}/seat", {"key": link.fragment}
        cookie = f"{COOKIE}{table}={token}"
        try:
            view = await self._ask(path, key, cookie)
            if action is not None and not view["late"]:
                move = {"action": _number(view, action), "at": view["time"]}
                view = await self._ask(path, key | move, cookie)
        except OSError as error:
            raise ToolError(f"the server is not reached ({error}): is the link of this server?") from None
        return _told(view)


def _number(view: dict[str, Any], action: str) -> int:
    """Returns the number of a legal action. Raises ToolError: the game is over, or no legal action is called so."""
    for number, name, _ in view["legal"]:
        if action.strip().casefold() in (str(number), name.casefold()):
            return int(number)
    raise ToolError("the game is over." if view["over"] else f"{action!r} is not legal now: {_actions(view)}")


def _actions(view: dict[str, Any]) -> str:
    return "\n".join(["your actions:", *(f"{number}: {name} {note}".rstrip() for number, name, note in view["legal"])])


def _told(view: dict[str, Any]) -> str:
    """Returns a view as a text for a model."""
    if "seats" not in view:
        return "The table is still being laid: look again."
    names = ", ".join(f"seat {number} {each['name']}" for number, each in enumerate(view["seats"]))
    parts = [f"{view['title']}: you are seat {view['you']}; {names}", view["text"]]
    story = list(filter(None, view["story"]["lines"][-STORY:]))
    parts += ["\n".join(["story:", *story]) if story else ""]
    if view["over"]:
        result = {1: "won", 0: "drawn", -1: "lost"}[view["won"][view["you"]]] if view["you"] is not None else "over"
        parts.append(f"The game is over: {result}; returns by seat: {view['returns']}.")
    else:
        parts.append("The others still decide: look again." if view["late"] else _actions(view))
    return "\n\n".join(filter(None, parts))


def run(server: uvicorn.Server, sockets: list[Any], address: str, token: str) -> None:
    """Runs a server, and the tools on standard input and output until that is closed."""

    async def both() -> None:
        seats, door = SeatTools(address, token), MCPServer("jaxrl", instructions=GUIDE, log_level="ERROR")
        for tool in (seats.games, seats.open_table, seats.look, seats.play):
            door.tool()(tool)
        serving = asyncio.create_task(server.serve(sockets=sockets))
        while not server.started and not serving.done():
            await asyncio.sleep(0.05)
        await door.run_stdio_async()
        server.should_exit = True
        await serving

    asyncio.run(both())
