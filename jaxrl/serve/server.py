"""What all pages of a server share: settings, players, and threads for long work."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import functools
import string
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from jaxrl.serve.player_catalog import PlayerCatalog
from jaxrl.serve.tables.invite_tokens import InviteTokens
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

STATIC = Path(__file__).resolve().parent / "static"
THREADS = {
    "work": 4,  # what computes, or reads more than a small file
    "read": 2,  # small files of runs
    "ponder": 2,  # slow requests of pages, such as lists of games and players
    "build": 2,  # what compiles, perhaps for a minute
    "think": 2,  # searches
}
GUEST = contextvars.ContextVar("guest", default=False)  # whether this task serves a guest, see `jaxrl.serve.guard`
PATIENCE, SLOWEST = 10.0, 1 << 17  # seconds for a request's body, and bytes a second of a long one
LARGEST = 1 << 16  # bytes of a request's body
LARGER = {"/replays/bring": 1 << 24}  # by path

P = ParamSpec("P")
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """The settings of a server.

    Attributes:
      token: the owner's access token; empty: none, allowed on loopback addresses only.
      names: host names by which browsers may call it, in lower case; empty: any, protected by the token.
      folder: folder of tables.
      runs: the folder of runs.
      replays: folders below which recordings are found.
      games: ids of the games on offer.
      tables: most tables at a time.
      connections: most websockets and streams open at once.
      allow: modules that files of runs may name, see `jaxrl.config.trust`.
      cache_dir: folder of compiled programs.
    """

    token: str = ""
    names: frozenset[str] = frozenset({"localhost", "127.0.0.1", "[::1]"})
    folder: Path = Path("runs/.tables")
    runs: Path = Path("runs")
    replays: tuple[Path, ...] = (Path("runs"),)
    games: tuple[str, ...] = ()
    tables: int = 100
    connections: int = 300
    allow: tuple[str, ...] = ()
    cache_dir: str = ""


class Server:
    """State that all pages share for the life of a server: settings, invitation tokens, players, threads."""

    def __init__(self, settings: ServerSettings):
        """Starts no thread yet."""
        self.settings, self.guests = settings, InviteTokens(settings.folder)
        self.opening: list[Callable[[], Any]] = []  # coroutine functions, awaited when the server starts
        self.closing: list[Callable[[], Any]] = []  # and when it ends
        self._building: dict[Hashable, asyncio.Future[None]] = {}
        self._preparing: asyncio.Future[Any] | None = None
        self._threads = {name: ThreadPoolExecutor(most, f"serve-{name}") for name, most in THREADS.items()}
        self._guests = {name: asyncio.Semaphore(most // 2) for name, most in THREADS.items()}

    @functools.cached_property
    def catalog(self) -> PlayerCatalog:
        """The games and players."""
        return PlayerCatalog(self.settings.games, self.settings.runs, self.settings.allow)

    async def prepare(self) -> None:
        """Begins to make the games in a thread, for which the first page would wait; returns at once."""
        self._preparing = asyncio.ensure_future(self.run("ponder", self.catalog.describe))

    async def run(self, pool: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function in a thread of one of the pools `THREADS`; guests together have half of its threads, so that
        no owner waits behind all of them."""
        async with self._guests[pool] if GUEST.get() else contextlib.nullcontext():
            call = functools.partial(function, *args, **kwargs)
            return await asyncio.get_running_loop().run_in_executor(self._threads[pool], call)

    async def build_once(self, key: Hashable, function: Callable[[], None]) -> None:
        """Runs in the pool "build"; callers with an equal key wait for one call, which goes on if one is cancelled."""
        if key not in self._building:
            owner = contextvars.Context()  # it is no guest for whom the others wait
            self._building[key] = asyncio.get_running_loop().create_task(self.run("build", function), context=owner)
            self._building[key].add_done_callback(lambda _: self._building.pop(key))
        await asyncio.shield(self._building[key])

    def close(self) -> None:
        """Lets the threads end after their current work."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)


def in_address(host: str) -> str:
    """Returns a host as it stands in the address of a page."""
    return f"[{host}]" if ":" in host else host


def page(module: str, title: str = "", *, look: bool = False, wide: bool = False) -> Callable[[Request], Any]:
    """Makes an endpoint that answers with a page: `static/shell.html`, filled in.

    Args:
      module: name of the script in `static/` that draws the page.
      title: title of the window; empty: the module's name.
      look: whether to use the sheet of replays and runs.
      wide: whether to leave out the margins of a text.
    """
    shell = string.Template((STATIC / "shell.html").read_text(encoding="utf-8"))
    sheets = [f'  <link rel="stylesheet" href="/static/{each}.css">' for each in ("style", *(["look"] if look else []))]
    filled = {"title": title or module, "sheets": "\n".join(sheets), "module": module}
    filled["wide"] = ' class="wide"' if wide else ""

    async def answer(request: Request) -> Response:
        guest = " data-guest" if GUEST.get() else ""
        return HTMLResponse(shell.substitute(filled, guest=guest), headers={"cache-control": "no-cache"})

    return answer


async def body_of(request: Request) -> dict[str, Any]:
    """Returns the JSON object in a request's body. Raises UserError: it is too long, too slow, or not an object."""
    text = await bytes_of(request, LARGEST)
    if len(text) > LARGEST:
        raise UserError(f"a request may bring {LARGEST} bytes at most.")
    found = files.parse(text.decode("utf-8", "replace"), "the request", json_text=True)
    if not isinstance(found, dict):
        raise UserError("the request must bring a JSON object.")
    return found


async def bytes_of(request: Request, most: int) -> bytes:
    """Returns a request's body, or the beginning of one of more than `most` bytes. Raises UserError: it is too slow."""
    data = bytearray()
    try:
        async with asyncio.timeout(PATIENCE + most / SLOWEST):
            async for chunk in request.stream():
                data += chunk
                if len(data) > most:
                    break
    except TimeoutError:
        raise UserError("the request came too slowly.") from None
    return bytes(data)
