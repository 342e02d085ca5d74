"""A discrete-event simulation of a training with a fleet of workers, from measured times.

docs/operations/workers.md describes what is simulated: every actor plays its blocks one after the other; a block's
games are shared by all workers of the actor, each gets one call a step, and the block goes on when the last of them has
answered. Policy and learner are on the first machine, whose cores they share with its workers. Parameters are never
sent to workers, so their broadcast cannot become the limit.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Generator
from typing import Any, NamedTuple

Process = Generator["float | Signal", None, None]
"""A generator that yields seconds to wait, or a signal to wait for."""
LATENCY = 2e-4  # seconds from one machine to another and back, an assumption
CALLS = 2_000  # in a simulated rollout at most; a longer one is cut, with its update
SLICE = 1e-3  # seconds of an update after which other processes get the core
WARM, COUNTED = 3, 4  # updates before and while the rate is taken


class Linear(NamedTuple):
    """Seconds for `n` games: fixed + each * n."""

    fixed: float
    each: float

    def at(self, games: float) -> float:
        """Seconds for `games` games."""
        return self.fixed + self.each * games


class Times(NamedTuple):
    """Measured seconds of each part of a training."""

    engine: float  # of a decision in the engine, on one core
    engine_cpu: float  # of these, computing; the rest is waiting, which takes no core
    transport: Linear  # of a worker's call, in the learner's process
    remote: Linear  # of the same, computing in the worker's process
    waiting: float  # of the same, when neither computes
    answers: Linear  # of the policy for a block
    update: float  # of learning, for each environment step
    network: float  # of a decision on the way to another machine

    def twice(self, part: str) -> Times:
        """These times with one part twice as fast."""
        names = {"engine": ("engine", "engine_cpu"), "transport": ("transport", "remote", "waiting")}.get(part, (part,))
        return self._replace(**{name: _half(getattr(self, name)) for name in names})


PARTS = ("engine", "transport", "network", "answers", "update")


def _half(value: Any) -> Any:
    return Linear(value.fixed / 2, value.each / 2) if isinstance(value, Linear) else value / 2


class SimulatedFleet(NamedTuple):
    """The size of a fleet and of its training."""

    workers: int
    part: int  # games of a worker in each block
    actors: int  # a divisor of `workers`
    groups: int  # blocks of each actor
    steps: int  # of a rollout
    lag: int  # `sebulba.lag`
    threads: int  # of a worker, for each block
    machines: int
    cores: int  # of each machine

    @property
    def games(self) -> int:
        """Number of parallel games of all workers."""
        return self.workers * self.part * self.groups


class Forecast(NamedTuple):
    """The predicted performance of a fleet."""

    rate: float  # decisions/s
    engines: float  # share of the time that the workers' threads are at work on decisions
    learner: float  # share of the time that the learner updates
    limit: str  # the part whose halving gains most
    gain: float  # that gain, as a share of the rate


def predict(times: Times, fleet: SimulatedFleet) -> Forecast:
    """Simulates a fleet, and the gain from halving the time of each part."""
    simulation = Simulation(times, fleet)
    rate, seconds = simulation.run()
    gains = {part: Simulation(times.twice(part), fleet).run()[0] / rate - 1.0 for part in PARTS}
    limit = max(gains, key=lambda part: gains[part])
    threads = fleet.workers * min(fleet.threads, fleet.part) * fleet.groups
    return Forecast(rate, simulation.played / threads / seconds, simulation.learnt / seconds, limit, gains[limit])


class Signal:
    """An event that processes wait for."""

    def __init__(self) -> None:
        self.given = False
        self.waiting: list[tuple[Process, Signal]] = []


class Resource:
    """`capacity` units of something, served first come, first served: cores, an interpreter, a network."""

    def __init__(self, capacity: int):
        self._free = [0.0] * capacity

    def until(self, now: float, seconds: float) -> float:
        """Seconds until a request of `seconds` that arrives now is done."""
        end = max(now, heapq.heappop(self._free)) + seconds
        heapq.heappush(self._free, end)
        return end - now


class EventClock:
    """Runs processes in the order of their events."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Process, Signal]] = []
        self._number = itertools.count()

    def start(self, process: Process) -> Signal:
        """Starts a process now; returns the signal of its end."""
        ended = Signal()
        self._at(self.now, process, ended)
        return ended

    def give(self, signal: Signal) -> None:
        """Gives a signal: all processes that wait for it go on."""
        signal.given = True
        for process, ended in signal.waiting:
            self._at(self.now, process, ended)

    def run(self) -> None:
        """Runs until no event is left."""
        while self._events:
            self.now, _, process, ended = heapq.heappop(self._events)
            wish = next((wish for wish in process if not (isinstance(wish, Signal) and wish.given)), None)
            if wish is None:
                self.give(ended)
            elif isinstance(wish, Signal):
                wish.waiting.append((process, ended))
            else:
                self._at(self.now + wish, process, ended)

    def _at(self, time: float, process: Process, ended: Signal) -> None:
        heapq.heappush(self._events, (time, next(self._number), process, ended))


class Simulation:
    """A simulated training of a few updates.

    Attributes:
      played: seconds that all engine threads spent on decisions.
      learnt: seconds of updates.
    """

    def __init__(self, times: Times, fleet: SimulatedFleet):
        """Creates the resources; nothing runs yet."""
        self._times, self._fleet, self._clock = times, fleet, EventClock()
        self._steps = max(4, min(fleet.steps, CALLS // (fleet.workers * fleet.groups)))
        self._cores = [Resource(fleet.cores) for _ in range(fleet.machines)]
        self._python, self._wire = Resource(1), Resource(1)  # the learner's process calls one worker after the other
        updates = WARM + COUNTED
        ahead = min(fleet.lag, 2)  # as many rollouts are stored as `Sebulba.storages`
        self._may_begin = [Signal() for _ in range(updates + ahead + 1)]
        self._filled = [Signal() for _ in range(updates)]
        self._delivered, self._ahead, self._ends = [0] * updates, ahead, [0.0] * updates
        self.played = self.learnt = 0.0

    def run(self) -> tuple[float, float]:
        """Returns decisions/s after the first updates, and the seconds of all updates."""
        for signal in self._may_begin[: self._ahead + 1]:
            signal.given = True
        for _ in range(self._fleet.actors):
            self._clock.start(self._actor())
        self._clock.start(self._learner())
        self._clock.run()
        seconds = self._ends[-1] - self._ends[WARM - 1]
        return COUNTED * self._steps * self._fleet.games / seconds, self._ends[-1]

    def _learner(self) -> Process:
        """The learner: learns from one rollout after the other, in slices so that others get the core."""
        seconds = self._times.update * self._steps * self._fleet.games
        slices = max(1, min(1000, round(seconds / SLICE)))
        for number, filled in enumerate(self._filled):
            yield filled
            for _ in range(slices):
                yield self._core(0, seconds / slices)
            self.learnt += seconds
            self._ends[number] = self._clock.now
            self._clock.give(self._may_begin[number + self._ahead + 1])

    def _actor(self) -> Process:
        """An actor (`jaxrl.training.sebulba.actor`): plays its blocks in turn, one rollout after the other."""
        fleet, times = self._fleet, self._times
        calls = fleet.workers // fleet.actors
        for number, filled in enumerate(self._filled):
            yield self._may_begin[number]
            under_way: list[list[Signal]] = [[] for _ in range(fleet.groups)]
            for _ in range(self._steps):
                for group in range(fleet.groups):
                    yield from self._receive(under_way[group])
                    yield self._core(0, times.answers.at(calls * fleet.part))
                    under_way[group] = yield from self._send(calls)
            for calls_of_block in under_way:
                yield from self._receive(calls_of_block)
            saving = times.transport.fixed + times.remote.fixed  # of every worker, once a rollout of the real length
            yield self._python_for(calls * fleet.groups * saving * self._steps / fleet.steps)
            self._delivered[number] += 1
            if self._delivered[number] == fleet.actors:
                self._clock.give(filled)

    def _send(self, calls: int) -> Generator[float | Signal, None, list[Signal]]:
        begun = []
        for worker in range(calls):
            yield self._python_for(self._times.transport.at(self._fleet.part) / 2)
            begun.append(self._clock.start(self._call(worker % self._fleet.machines)))
        return begun

    def _receive(self, calls: list[Signal]) -> Process:
        for call in calls:
            yield call
            yield self._python_for(self._times.transport.at(self._fleet.part) / 2)

    def _call(self, machine: int) -> Process:
        """A call to a worker: its part of a step."""
        times, fleet = self._times, self._fleet
        yield times.waiting
        if machine:
            yield LATENCY + self._wire.until(self._clock.now, times.network * fleet.part)
        yield self._core(machine, times.remote.at(fleet.part))
        threads = min(fleet.threads, fleet.part)
        shares = [fleet.part // threads + (i < fleet.part % threads) for i in range(threads)]
        yield from [self._clock.start(self._play(machine, games)) for games in shares]

    def _play(self, machine: int, games: int) -> Process:
        """A thread of a worker: decides in `games` games, one after the other."""
        times = self._times
        self.played += games * times.engine
        yield self._core(machine, games * times.engine_cpu)
        yield games * (times.engine - times.engine_cpu)

    def _core(self, machine: int, seconds: float) -> float:
        return self._cores[machine].until(self._clock.now, seconds)

    def _python_for(self, seconds: float) -> float:
        """Seconds of a thread of the learner's process, whose threads share one interpreter, on a core."""
        return max(self._core(0, seconds), self._python.until(self._clock.now, seconds))
