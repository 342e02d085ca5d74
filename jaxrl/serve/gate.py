"""Bounds of connections: the time in which a request must arrive, places by address and table, the owner's reserve.

uvicorn waits for the rest of a header for ever and counts connections only once it has come. Here a connection without
a request in hand may be closed to make room for a new one, so that a whole request always gets an answer.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import ipaddress
import resource
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HEADER = 10.0  # seconds for the header of a request, also between two requests
CLOSING = 10.0  # seconds in which a browser takes what was left for it when its connection was closed
STALLED = 30.0  # seconds in which a part of an answer must be taken
UNREAD = 1 << 22  # bytes that may wait to be sent when more is received
SWEEP = 1.0  # seconds between two looks
SPARE = 100  # connections beside those with a request in hand
INBOUND = "jaxrl.inbound"  # in the state of a scope: the `Inbound` of a request


@dataclasses.dataclass(eq=False)
class Inbound:
    """A connection of a browser.

    Attributes:
      transport: asyncio's transport.
      address: address of the browser; the network of an IPv6 address.
      local: whether the browser is on this machine.
      idle: time since when it has no request in hand, by the monotonic clock; None if it has one.
      closing: time since when it is being closed; None if it is not.
    """

    transport: asyncio.Transport
    address: str
    local: bool
    idle: float | None
    closing: float | None = None


class Gate:
    """The connections of a server, and the places of their requests."""

    def __init__(self, places: int):
        """`places` is the number of requests and sockets at a time; descriptors of the process bound it, too."""
        self.most = min(places + SPARE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self.places = min(places, max(1, 3 * self.most // 4))
        self.guests = self.places - max(1, self.places // 6)  # the rest is the owner's
        self.each = max(2, self.places // 5)  # requests of the guests of an address, or of a table
        self._connections: dict[Inbound, None] = {}  # the oldest first
        self._taken: collections.Counter[str] = collections.Counter()
        self._sweeping: asyncio.TimerHandle | None = None

    # ---- connections ------------------------------------------------------------------------------------------------

    def enter(self, transport: asyncio.Transport) -> Inbound:
        """Counts a new connection, and closes one without a request if there are too many."""
        address, local = _origin(transport.get_extra_info("peername"))
        inbound = Inbound(transport, address, local, time.monotonic())
        self._connections[inbound] = None
        near = [each for each in self._connections if each.address == address]
        if len(self._connections) > self.most:
            self._close_one(self._connections)
        elif not local and len(near) > self.most // 4:
            self._close_one(near)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP, self._sweep)
        return inbound

    def leave(self, inbound: Inbound) -> None:
        """Forgets a connection that is closed."""
        self._connections.pop(inbound, None)

    def _close_one(self, among: Any) -> None:
        """Aborts the oldest connection without a request, of the address that has most."""
        count = collections.Counter(each.address for each in among)
        waiting = [each for each in among if each.idle is not None or each.closing is not None]
        chosen = max(waiting, key=lambda each: (count[each.address], -(each.idle or 0.0)), default=None)
        self.abort(next(reversed(self._connections)) if chosen is None else chosen)

    def abort(self, inbound: Inbound) -> None:
        """Closes a connection at once; what was left for the browser is lost."""
        self.leave(inbound)
        inbound.transport.abort()

    def _sweep(self) -> None:
        now = time.monotonic()
        for inbound in list(self._connections):
            if inbound.transport.is_closing():
                inbound.closing = inbound.closing or now
            late = inbound.idle is not None and now - inbound.idle > HEADER
            if late or inbound.closing is not None and now - inbound.closing > CLOSING:
                self.abort(inbound)
        again = asyncio.get_running_loop().call_later
        self._sweeping = again(SWEEP, self._sweep) if self._connections else None

    # ---- requests ---------------------------------------------------------------------------------------------------

    def take(self, inbound: Inbound, guest: bool, table: str) -> list[str] | None:
        """Takes a place for a request; returns what `give` wants back, or None if all are taken."""
        wanted = {"": self.places}
        if guest:
            wanted |= {"guests": self.guests} | ({f"table {table}": self.each} if table else {})
            wanted |= {f"address {inbound.address}": self.each} if not inbound.local else {}
        if any(self._taken[name] >= most for name, most in wanted.items()):
            return None
        self._taken.update(wanted.keys())
        return list(wanted)

    def give(self, taken: list[str]) -> None:
        """Gives a place back."""
        self._taken.subtract(taken)
        self._taken = +self._taken


class GatedHTTP(H11Protocol):
    """HTTP/1.1 of a connection that a gate has counted."""

    def __init__(self, gate: Gate, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self._gate = gate

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._inbound = self._gate.enter(transport)
        self.app_state = self.app_state | {INBOUND: self._inbound}

    def connection_lost(self, exc: Exception | None) -> None:
        self._gate.leave(self._inbound)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note_request()

    def _note_request(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete or self.transport.get_protocol() is not self:
            self._inbound.idle = None

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None:
            self.cycle.disconnected = True  # what the application answers would be a second answer
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # an answer has begun
            self.transport.abort()

    def on_response_complete(self) -> None:
        self._inbound.idle = time.monotonic()
        super().on_response_complete()  # which may begin with a request that came meanwhile
        self._note_request()


class GatedSocket(WebSocketsSansIOProtocol):
    """A websocket of a connection that a gate has counted."""

    def __init__(self, gate: Gate, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self._gate = gate

    def connection_lost(self, exc: Exception | None) -> None:
        self._gate.leave(self.app_state[INBOUND])
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.get_write_buffer_size() > UNREAD:  # pings are answered, whether the answers are read or not
            self._gate.abort(self.app_state[INBOUND])


def _origin(peer: Any) -> tuple[str, bool]:
    """Returns the address of a browser, of IPv6 its network, and whether it is this machine."""
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except (ValueError, TypeError, IndexError):
        return str(peer), False
    address = getattr(address, "ipv4_mapped", None) or address
    network = ipaddress.ip_network((address, 64 if address.version == 6 else 32), strict=False)
    return str(network.network_address), address.is_loopback
