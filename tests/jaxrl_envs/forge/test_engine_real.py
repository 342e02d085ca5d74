"""The engine on a real Forge: needs FORGE_HOME, and is skipped with a message without it. Minutes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jaxrl_envs import conformance
from jaxrl_envs.forge.engine.games import INFO_NAMES
from jaxrl_envs.forge.engine.state import ENDS
from jaxrl_envs.forge.env import ForgeEnv
from jaxrl_envs.forge.fleet.find import DECKS
from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM
from tests.jaxrl_envs.forge.test_encoder import compare
from tests.support.forge.play import row_of, running_daemon, trace
from tests.support.pools import begun

NAMES = tuple(sorted(path.stem for path in DECKS.glob("*.dck")))
PATIENCE = 900.0  # of pools; the machine may be busy
__all__ = ["running_daemon"]


def deployed(deployment, **options):
    game = ForgeGame(**options)
    game.deploy(deployment)
    return game


def play(engine, steps, **options):
    """(rows of all games) for each step."""
    return trace(engine, steps, threads=engine.num_games, timeout=PATIENCE, **options)


def test_random_games_of_all_decks(running_daemon, tmp_path):
    """No answer is refused, every game has a result, and the referee reads every line as the engine does."""
    recorded = dataclasses.replace(running_daemon, record=str(tmp_path))
    game = deployed(running_daemon, decks=NAMES, pairings="all", max_decisions=400)
    fleet, game.deployment = game.fleet(), recorded
    engine = game.engine_on(fleet, 2, seed=11, first_slot=3)
    played = [row for rows in play(engine, 250) for row in rows]
    del engine
    assert max(row[7][INFO_NAMES.index("refused_answers")] for row in played) == 0
    assert max(row[7][INFO_NAMES.index("unknown_types")] for row in played) == 0
    ends = {ENDS[row[7][INFO_NAMES.index("end")]] for row in played if row[5] or row[6]}
    assert ends and ends <= {"won", "draw", "cut"}
    lines = 0
    for path in recording.find([tmp_path]):
        for conversation in recording.read(path):
            for number, line in enumerate(conversation.lines):
                if line.startswith(b"< DECISION:"):
                    compare(line[len(b"< DECISION:") :], number, looks=2)
                    lines += 1
    assert lines > 200


def test_a_game_continues_in_another_engine_from_every_position(running_daemon):
    game = deployed(running_daemon, decks=("aggro", "walkers"), max_decisions=25)
    engine = game.engine(1, 3)
    saved = []
    with begun(engine, threads=1, timeout=PATIENCE) as (pool, out, act):
        for _ in range(25):
            before = row_of(out, 0)
            saved.append((pool.save(), pool.length.copy(), before[:3]))
            act(np.full(1, RANDOM, np.int32))
            saved[-1] += (row_of(out, 0),)
    with HostPool(game.engine(1, 4), threads=1, timeout=PATIENCE) as pool:
        for states, length, shown, after in reversed(saved):  # backwards: nothing that is alive helps
            pool.load(states, [[-1, -1]], out, length=length)
            assert row_of(out, 0)[:3] == shown and np.array_equal(pool.save(), states)
            act(np.full(1, RANDOM, np.int32))
            assert row_of(out, 0) == after


@pytest.mark.parametrize("bot", ["forge", "forge:Reckless"])
def test_forges_ai_plays(running_daemon, bot):
    game = deployed(running_daemon, decks=("aggro",))
    engine = game.engine(2, 21)
    number = game.bots.index(bot)
    played = play(engine, 30, controllers=[[-1, number], [number, -1]])
    for row in (row for rows in played for row in rows):
        assert row[7][INFO_NAMES.index("refused_answers")] == 0
    assert {row[0] for rows in played for row in rows[:1]} == {0} and {rows[1][0] for rows in played} == {1}
    lost = [np.frombuffer(row[4], np.float32)[seat] for rows in played for seat, row in enumerate(rows) if row[5]]
    assert len(lost) >= 1 and np.mean(lost) < 0  # against a player who does anything


def test_the_contract(running_daemon):
    """What of the conformance suite is cheap enough: every state is one to be played again."""
    env = ForgeEnv(decks=("aggro", "aggro"), max_decisions=12)
    env.game.deploy(running_daemon)
    names = (
        *("attributes", "shapes_and_dtypes", "random_play_terminates", "seat_to_move", "legal_action_exists"),
        *("mask_all_true_at_end", "absorbing_end", "rewards", "truncation", "episode_stats", "deterministic_by_key"),
        *("reset_starts_a_game", "observation_is_the_movers", "bots_are_legal", "rendering", "action_names"),
    )
    report = conformance.check(env, games=2, only=names)
    assert report.ok, report
