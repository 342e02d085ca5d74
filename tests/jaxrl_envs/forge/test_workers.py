"""Magic on workers elsewhere, each with two daemons of its own; one is lost with them in the middle of its games."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from jaxrl.training.sebulba.remote.worker import EngineBlock
from jaxrl.training.sebulba.remote.worker_pool import WorkerPool
from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, make_buffers
from tests.support.forge.fake import scripted
from tests.support.forge.play import BOTS, DECKS, FakeFleet, faking, row_of
from tests.training.sebulba.test_workers import Elsewhere

GAMES, STEPS, SEED = 4, 60, 7  # two games on each worker


class Magic(ForgeGame):
    """Magic on a given fleet."""

    def __init__(self, fleet: FakeFleet):
        super().__init__(decks=DECKS)
        self.game_limit, self.given = 0.1, fleet
        self.deploy(fleet.deployment)

    def fleet(self) -> FakeFleet:
        return self.given


class Machine(contextlib.ExitStack):
    """Makes games of Magic with two new daemons; those of the one before are gone.

    Attributes:
      fleets: all that were made.
    """

    def __init__(self):
        super().__init__()
        self.fleets: list[FakeFleet] = []

    def __call__(self) -> Magic:
        if self.fleets:
            for each in self.fleets[-1].fakes:
                each.close()
        self.fleets.append(self.enter_context(faking(scripted, 2)))
        return Magic(self.fleets[-1])


def played(pool, game: ForgeGame) -> tuple[list, np.ndarray]:
    """Every row of some steps of random play, and the states at the end; all is saved in between."""
    rows, told = make_buffers(game, GAMES), []
    pool.controllers[:] = pool.next_controllers[:] = np.array([BOTS[i % 4] for i in range(GAMES)], np.int8)
    pool.start(rows)
    for step in range(STEPS):
        if step == STEPS // 2:
            pool.save()
        pool.send(np.full(GAMES, RANDOM, np.int32), rows)
        pool.recv()
        told.append([row_of(rows, i) for i in range(GAMES)])
    return told, np.array(pool.save())


@pytest.fixture(scope="module")
def at_home():
    with faking(scripted, 4) as fleet:
        game = Magic(fleet)
        with HostPool(game.engine(GAMES, SEED), threads=GAMES, timeout=60.0) as pool:
            return played(pool, game)


@pytest.mark.parametrize("lives", [[], [23], [3, 9, 31]], ids=["well", "lost once", "lost again and again"])
def test_a_worker_that_is_lost_with_its_daemons_plays_the_same_games(at_home, lives):
    machines = [Machine(), Machine()]
    with machines[0], machines[1]:
        blocks = [[EngineBlock(2 * number, 2, SEED, 1, 60.0)] for number in (0, 1)]
        workers = [Elsewhere(machine, *each) for machine, *each in zip(machines, blocks, [lives, []], strict=True)]
        game = Magic(machines[1].fleets[0])  # for its sizes
        with WorkerPool(game, workers, GAMES, 1, threads=GAMES, tries=5) as pool:
            found = played(pool, game)
    assert len(machines[0].fleets) == 1 + len(lives)
    rows, states = at_home
    assert sum(row.terminated or row.truncated for step in rows for row in step) >= 4
    assert found[0] == rows
    assert np.array_equal(found[1], states)
