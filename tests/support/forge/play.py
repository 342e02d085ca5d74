"""Games of Magic for tests, played step by step by fake daemons or by the engine itself, and all that came of it."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from jaxrl_envs.forge.engine.games import ForgeEngine
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.fleet.supervisor import Patience
from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.forge.wire.lease import Lease
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, Buffers, make_buffers
from tests.support.forge.fake import FakeDaemon, Fault, Mischief, RecordedGame, Source, scripted
from tests.support.pools import begun

MISSING = "FORGE_HOME is not set: tests against the real engine need the folder of a Forge release"
HASTY = Patience(answer=0.5, abort=0.5, stop=0.5, idle=0.01, look=0.01, restart=0.02, longest=0.1)
DECKS = ("aggro", "aggro")  # not recorded: every seed chooses among all recordings
STEPS = 220
BOTS = [[-1, -1], [-1, 1], [3, -1], [-1, -1]]  # who holds the seats: the learner, or Forge's AI


def forge_home() -> str:
    """Returns the folder of the release to test against; the test is skipped without one."""
    home = os.environ.get("FORGE_HOME", "")
    if not home:
        pytest.skip(MISSING)
    return home


@pytest.fixture(scope="session")
def running_daemon() -> Iterator[Deployment]:
    """A deployment of two real daemons, which run until the tests are over."""
    deployment = Deployment(home=forge_home(), daemons=2, heap_mb=512, start_timeout=300.0)
    fleet = Fleet.shared(deployment)
    yield deployment
    fleet.close()


# ---- fleets of fake daemons -----------------------------------------------------------------------------------------


class FakeFleet(Fleet):
    """A fleet of fake daemons elsewhere, which notes what is asked of it.

    Attributes:
      fakes: the daemons; `mischief`: their faults.
      failures, finished: reasons and ends, in order; `replays`: leases for games that are played again.
    """

    def __init__(self, fakes: Sequence[FakeDaemon], **settings: Any):
        super().__init__(Deployment(daemons=tuple(each.address for each in fakes), **settings), HASTY)
        self.fakes, self.mischief = list(fakes), fakes[0].mischief
        self.failures: list[str] = []
        self.finished: list[str] = []
        self.replays = 0

    @property
    def held(self) -> list[Lease]:
        """What is lent at the moment."""
        return [each.lease for each in self.daemons if each.lease is not None]

    def lease(self, timeout: float | None = 20.0, *, replay: bool = False) -> Lease:
        self.replays += replay
        return super().lease(timeout, replay=replay)

    def game_finished(self, seconds: float, how: str) -> None:
        assert seconds >= 0.0
        self.finished.append(how)
        super().game_finished(seconds, how)

    def failed(self, lease: Lease, reason: str) -> None:
        self.failures.append(reason)
        super().failed(lease, reason)


@contextlib.contextmanager
def faking(
    games: Sequence[RecordedGame] | Source = scripted,
    count: int = 1,
    faults: Sequence[Fault] = (),
    *,
    strict: bool = False,
    length: int = 12,
    **settings: Any,
) -> Iterator[FakeFleet]:
    """A fleet of fake daemons, which count their games together."""
    mischief = Mischief(faults)
    fakes = [FakeDaemon(games, mischief, strict=strict, length=length) for _ in range(count)]
    try:
        with FakeFleet(fakes, **settings) as fleet:
            yield fleet
    finally:
        for each in fakes:
            each.close()


# ---- play -----------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """All that a step told about a game, hashable; observations and masks by their checksums."""

    player: int
    observation: int
    mask: int
    action: int
    rewards: bytes
    terminated: bool
    truncated: bool
    info: tuple[int, ...]
    stats: tuple[float, ...]
    opening: tuple[Any, ...]
    final_player: int
    final_observation: int
    length: int


def row_of(out: Buffers, game: int) -> Row:
    """Returns a row of the buffers."""
    over = bool(out.terminated[game] or out.truncated[game])
    return Row(
        player=int(out.current_player[game]),
        observation=zlib.crc32(np.ascontiguousarray(out.observation[game])),
        mask=zlib.crc32(np.ascontiguousarray(out.legal_action_mask[game])),
        action=int(out.action[game]),
        rewards=out.rewards[game].tobytes(),
        terminated=bool(out.terminated[game]),
        truncated=bool(out.truncated[game]),
        info=tuple(out.info[game].tolist()),
        stats=tuple(out.stats[game].ravel().tolist()) if over else (),
        opening=tuple(out.opening[game].tolist()),
        final_player=int(out.final_player[game]),
        final_observation=zlib.crc32(np.ascontiguousarray(out.final_observation[game])) if over else 0,
        length=int(out.length[game]),
    )


def trace(
    engine: ForgeEngine, steps: int, *, actions: int = RANDOM, threads: int = 1, **options: Any
) -> list[list[Row]]:
    """Plays all games for `steps` steps. Returns what each step and game told."""
    games = range(engine.num_games)
    with begun(engine, threads=threads, **options) as (_, out, act):
        found = [[row_of(out, game) for game in games]]
        for _ in range(steps):
            act(np.full(engine.num_games, actions, np.int32))
            found.append([row_of(out, game) for game in games])
        return found


class Played(NamedTuple):
    """What happened."""

    rows: list[list[Row]]  # by game, then by step
    counters: dict[str, Any]  # of the fleet
    replays: dict[str, int]  # how often a game was played again, by reason
    state: np.ndarray  # u8[N, S]
    length: np.ndarray  # i32[N], of the running games

    @property
    def ended(self) -> int:
        """Games that ended."""
        return sum(row.terminated or row.truncated for rows in self.rows for row in rows)


def play(
    fleet: Fleet,
    *,
    games: int = 8,
    steps: int = STEPS,
    threads: int = 4,
    after: Played | None = None,
    watch: Callable[[int], None] = lambda step: None,
) -> Played:
    """Plays all games at random and at once: 0, 4, ... and 3, 7, ... by themselves, the others against Forge's AI.

    Args:
      fleet: lends daemons.
      games, steps, threads: how many.
      after: what was played before, to go on from there.
      watch: called before every step, with its number.
    """
    game = ForgeGame(decks=DECKS)
    game.game_limit = 0.1  # a daemon may be silent for twice as long when Forge's AI plays
    game.deploy(fleet.deployment)
    engine = game.engine_on(fleet, games, 7)
    controllers = np.array([BOTS[i % 4] for i in range(games)], np.int8)
    buffers, actions = make_buffers(game, games), np.full(games, RANDOM, np.int32)
    rows: list[list[Row]] = [[] for _ in range(games)]
    with HostPool(engine, threads=threads, controllers=controllers, timeout=60.0) as pool:
        if after is None:
            pool.start(buffers)
        else:
            pool.load(after.state, controllers, buffers, length=after.length)
        for step in range(steps):
            watch(step)
            pool.send(actions, buffers)
            pool.recv()
            for i in range(games):
                rows[i].append(row_of(buffers, i))
        state, length = np.array(pool.save()), pool.length.copy()
    return Played(rows, fleet.counters(), dict(engine.replays), state, length)
