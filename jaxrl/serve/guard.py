"""Access control: rejects other web sites and strangers, and bounds the number of connections.

On a loopback address the names by which a browser may call the server are fixed, so that no other site gets there by a
name of its own (DNS rebinding). Elsewhere a token is asked for: in the URL once, then it is a cookie that other sites'
requests do not carry. The owner's opens everything; a guest's opens one table, see
`jaxrl.serve.tables.invite_tokens`. What changes something, and every socket, must come from a page of this server
(`Origin`).
"""

from __future__ import annotations

import asyncio
import hmac

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jaxrl.serve.gate import INBOUND, STALLED, Gate, Inbound
from jaxrl.serve.server import GUEST, LARGER, LARGEST, ServerSettings
from jaxrl.serve.tables.invite_tokens import InviteTokens, table_of

COOKIE = "jaxrl"  # of the owner; of a guest with the name of the table behind it
STAYS = 30 * 86400  # seconds that a browser keeps one
STATIC = "/static/"  # files of every page
POLICY = (  # nothing inline, nothing from elsewhere: scripts set styles through their objects
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
SAFE = ("GET", "HEAD")


class Guard:
    """ASGI middleware that every request and websocket passes."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, guests: InviteTokens, gate: Gate):
        """Wraps `app`; for the settings see `jaxrl.serve.server.ServerSettings`."""
        self._app, self._settings, self._guests, self._gate = app, settings, guests, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers it with a refusal."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        inbound: Inbound = scope["state"][INBOUND]
        send = self._guarded(send, inbound)
        refusal = self._refusal(scope)
        if refusal is not None:
            return await _close(scope, receive, send, refusal)
        place = self._gate.take(inbound, GUEST.get(), table_of(scope["path"]))
        if place is None:
            return await _close(scope, receive, send, PlainTextResponse("the server is full: try again", 503))
        try:
            await self._app(scope, receive, send)
        finally:
            self._gate.give(place)

    def _guarded(self, send: Send, inbound: Inbound) -> Send:
        """Adds `HEADERS` to answers, and aborts a connection whose browser does not take what it asked for."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            try:
                async with asyncio.timeout(STALLED):
                    await send(message)
            except TimeoutError:
                self._gate.abort(inbound)

        return sending

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if self._settings.names and _name_of(host) not in self._settings.names:
            return PlainTextResponse("this server is not called so: open the address that it printed", 421)
        if _is_foreign(scope, headers, host):
            return PlainTextResponse("requests from other sites are refused", 403)
        if int(headers.get("content-length") or 0) > LARGER.get(scope["path"], LARGEST):
            return PlainTextResponse("too long", 413)
        return self._token_refusal(scope) if self._settings.token else None

    def _token_refusal(self, scope: Scope) -> Response | None:
        asked = HTTPConnection(scope)
        shown, table = asked.query_params.get("token", ""), table_of(scope["path"])
        owner, guest = self._right(shown), self._guests.fits(shown, table)
        if (owner or guest) and scope["type"] == "http" and scope["method"] == "GET":
            rest = asked.url.remove_query_params("token").query
            path = "/" + scope["path"].strip("/") + (f"?{rest}" if rest else "")
            answer = RedirectResponse(path, 303)
            name = COOKIE if owner else COOKIE + table
            answer.set_cookie(name, shown, httponly=True, samesite="lax", max_age=STAYS)
            return answer
        if self._right(asked.cookies.get(COOKIE, "")):
            return None
        GUEST.set(True)
        if self._is_guest(scope, asked.cookies, table):
            return None
        return PlainTextResponse("open the address with the token that the server printed", 401)

    def _is_guest(self, scope: Scope, cookies: dict[str, str], table: str) -> bool:
        """Returns whether a guest may have this: it belongs to the table of one of the cookies, or to every page."""
        if scope["type"] == "http" and scope["method"] not in SAFE and not scope["path"].endswith("/seat"):
            return False
        if scope["path"].startswith(STATIC):
            known = [name.removeprefix(COOKIE) for name in cookies if name.startswith(COOKIE)]
            return any(self._guests.fits(cookies[COOKIE + name], name) for name in known)
        return self._guests.fits(cookies.get(COOKIE + table, ""), table)

    def _right(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self._settings.token.encode())


def _name_of(host: str) -> str:
    """Returns the host name in "name:port", "name" or "[::1]:port"."""
    head, _, port = host.rpartition(":")
    return head if head and port.isdigit() else host


def _is_foreign(scope: Scope, headers: Headers, host: str) -> bool:
    """Returns whether another site made this request; a link from there to one of our pages does not count."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != host:
        return True
    if scope["type"] == "websocket" or scope["method"] not in SAFE:
        return origin is None
    site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
    link = mode == "navigate" and headers.get("sec-fetch-dest", "document") == "document"  # and no frame
    return site in ("cross-site", "same-site") and not link


async def _close(scope: Scope, receive: Receive, send: Send, refusal: Response) -> None:
    if scope["type"] == "websocket":  # closed before it is accepted: the browser gets 403
        await send({"type": "websocket.close", "code": 1008})
    else:
        await refusal(scope, receive, send)
