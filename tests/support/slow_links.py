"""Networks in which every packet is late and some are lost: namespaces of Linux, joined by a router in this process.

Every namespace has one TUN device (https://docs.kernel.org/networking/tuntap.html) whose other end is held here. Needs
root; `tc netem` would do the same, but not every kernel has it.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import itertools
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time

import pytest

SET_INTERFACE, TUN_WITHOUT_HEADER = 0x400454CA, 0x1001  # TUNSETIFF; IFF_TUN | IFF_NO_PI
needs_networks = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/net/tun") or shutil.which("ip") is None,
    reason="needs root, /dev/net/tun and iproute2",
)


class SlowLinks:
    """`count` namespaces with one address each, as a context manager that removes them.

    Attributes:
      delay, loss: seconds that every packet takes, and the share of them that never arrives.
      addresses: addresses of the namespaces, by number.
      carried, lost: packets so far.
    """

    def __init__(self, count: int, *, delay: float, loss: float):
        self.delay, self.loss = delay, loss
        self.addresses = [f"10.77.0.{1 + number}" for number in range(count)]
        self.carried = self.lost = 0
        self._names = [f"jaxrl{os.getpid()}-{number}" for number in range(count)]
        self._ends: dict[bytes, int] = {}  # by address
        self._wake, self._woken = os.pipe()
        self._router = threading.Thread(target=self._route, daemon=True, name="router")

    def inside(self, number: int) -> list[str]:
        """The command prefix that runs a command in that namespace."""
        return ["ip", "netns", "exec", self._names[number]]

    def __enter__(self) -> SlowLinks:
        try:
            for name, address in zip(self._names, self.addresses, strict=True):
                self._ends[bytes(map(int, address.split(".")))] = _device(name, address)
        except BaseException:
            self._remove()
            raise
        self._router.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._woken, b"x")
        self._router.join()
        self._remove()

    def _remove(self) -> None:
        for end in (*self._ends.values(), self._wake, self._woken):
            os.close(end)
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def _route(self) -> None:
        """Receives packets, and delivers each after its delay, until `_wake` is written to."""
        drawn, numbers = random.Random(0), itertools.count()
        late: list[tuple[float, int, int, bytes]] = []  # when, in which order, to whom, what
        while True:
            pause = max(0.0, late[0][0] - time.monotonic()) if late else None
            ready, _, _ = select.select([self._wake, *self._ends.values()], [], [], pause)
            if self._wake in ready:
                return
            for end in ready:
                packet = os.read(end, 65536)
                receiver = self._ends.get(packet[16:20]) if packet[0] >> 4 == 4 else None
                if receiver is None or drawn.random() < self.loss:
                    self.lost += receiver is not None
                else:
                    heapq.heappush(late, (time.monotonic() + self.delay, next(numbers), receiver, packet))
            while late and late[0][0] <= time.monotonic():
                _, _, receiver, packet = heapq.heappop(late)
                with contextlib.suppress(OSError):  # a device that is not up
                    os.write(receiver, packet)
                    self.carried += 1


def _device(name: str, address: str) -> int:
    """Makes a namespace with a device, and returns its other end."""
    end, device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK), f"jx{address.rpartition('.')[2]}"
    fcntl.ioctl(end, SET_INTERFACE, struct.pack("16sH", device.encode(), TUN_WITHOUT_HEADER))
    within = ["ip", "-n", name]
    for command in (
        ["ip", "netns", "add", name],
        ["ip", "link", "set", device, "netns", name],
        [*within, "link", "set", "lo", "up"],
        [*within, "addr", "add", f"{address}/24", "dev", device],
        [*within, "link", "set", device, "up"],
        [*within, "route", "add", "default", "dev", device],  # by which a program finds out its own address
    ):
        subprocess.run(command, check=True, capture_output=True)
    return end
