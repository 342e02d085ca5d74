"""The report of these scripts: machine, rates of contestants that take turns, and ratios to peers among them."""

from __future__ import annotations

from collections.abc import Sequence

from jaxrl.diagnose import hardware
from jaxrl.diagnose.timing import Contestant, Speed, race, safe_ratio
from jaxrl.text_tables import count, machine, table

COLUMNS = ("per CPU s", "per second", "slowest", "fastest", "first run s", "games per CPU s")


def compare(
    title: str, ours: Sequence[Contestant], theirs: Sequence[Contestant] = (), *, rounds: int = 7, seconds: float = 0.5
) -> list[Speed]:
    """Times all contestants in turn, prints their rates and our fastest over each peer, and returns our speeds.

    Args:
      title: unit of the rates, at the head of the table.
      ours: contestants of jaxrl.
      theirs: contestants of peers; their units must be comparable with ours.
      rounds: turns of each contestant, of which the median counts.
      seconds: least duration of a turn.
    """
    print(f"\n{machine(hardware.describe())}", flush=True)
    found = race([*ours, *theirs], rounds=rounds, seconds=seconds)
    print(table([f"{title}, {hardware.vector_width()}", *COLUMNS], [_row(each) for each in found]))
    speeds, peers = found[: len(ours)], found[len(ours) :]
    for peer in peers:
        cpu = safe_ratio(max(each.cpu_rate for each in speeds), peer.cpu_rate)
        clock = safe_ratio(max(each.rate for each in speeds), peer.rate)
        print(f"our fastest: {cpu:.2f} x {peer.name} by CPU time, {clock:.2f} x by the clock")
    return speeds


def _row(speed: Speed) -> list[str]:
    rates = [count(rate) for rate in (speed.cpu_rate, speed.rate, speed.low, speed.high)]
    length = speed.info.get("decisions_per_game")
    return [speed.name, *rates, f"{speed.first_seconds:.1f}", count(speed.cpu_rate / length) if length else ""]
