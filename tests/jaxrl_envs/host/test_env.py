"""A host game as a pure JAX function: the conformance suite and large batches on several devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs import conformance
from jaxrl_envs.contract import registry
from jaxrl_envs.contract.wrappers import auto_reset
from jaxrl_envs.host.env import HostEnv
from tests.jaxrl_envs.host.test_faults import raises_in
from tests.support.games import TicTacToe
from tests.support.host_games import HostPicks, HostTicTacToe, PicksGame, TicTacToeGame
from tests.support.pools import begun
from tests.support.training import on_devices

NOT_SAID = [  # by a game of an engine
    *("privileged_view", "beliefs", "card_beliefs", "clickable", "event_keeps_secrets"),
    "launches_on_a_gpu",
]


def test_conformance():
    report = conformance.check(HostTicTacToe(opening=True, limit=6), games=8)
    assert report.ok, str(report)
    assert [result.name for result in report.results if result.status == conformance.SKIP] == NOT_SAID


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{"limit": 3}, {"num_players": 3}])
def test_conformance_of_a_game_that_asks_all_seats_at_once(options):
    report = conformance.check(HostPicks(**options), games=8)
    assert report.ok, str(report)
    assert [result.name for result in report.results if result.status == conformance.SKIP] == NOT_SAID


def test_the_events_of_all_seats_are_told():
    host = HostPicks(num_players=3)
    before = host.init(jax.random.key(0))
    after = host.step(before, jnp.array([3, 0, 1]), jax.random.key(1))
    assert host.event(before, jnp.array([3, 0, 1]), after) == "seat 0: 3, seat 1: 0, seat 2: 1"
    assert host.render(after).startswith("picked [3, 0, 1], lucky is ")


def test_it_is_the_game_that_the_compiled_one_is():
    """The same actions in the host game, in the compiled game and in the pool: the same fields at every step."""
    compiled, host = TicTacToe(), HostTicTacToe()
    n, key = 32, jax.random.key(4)
    keys = jax.random.split(key, n)
    one, other = jax.jit(jax.vmap(compiled.init))(keys), jax.jit(jax.vmap(host.init))(keys)
    choose = jax.jit(jax.vmap(compiled.random_action))
    steps = [jax.jit(jax.vmap(auto_reset(env).step)) for env in (compiled, host)]
    engine = host.game.engine(n, 0)
    ended = 0
    with begun(engine) as (_, rows, act):
        for time in range(20):
            keys = jax.random.split(jax.random.fold_in(key, time), n)
            action = choose(one, keys)
            (one, final), (other, host_final) = steps[0](one, action, keys), steps[1](other, action, keys)
            act(np.asarray(action))
            for name in ("current_player", "legal_action_mask"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
                np.testing.assert_array_equal(getattr(one, name), getattr(rows, name))
            np.testing.assert_array_equal(one.observation.reshape(n, 18), other.observation)
            np.testing.assert_array_equal(other.observation, rows.observation)
            for name in ("rewards", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(final, name), getattr(host_final, name))
                np.testing.assert_array_equal(getattr(final, name), getattr(rows, name))
            over = np.asarray(final.over)
            ended += over.sum()
            np.testing.assert_array_equal(host_final.observation[over], rows.final_observation[over])
            for k, name in enumerate(host.game.stat_names):
                np.testing.assert_array_equal(host_final.stats[name][over], rows.stats[over, :, k])
    assert ended > n


def test_the_key_is_all_the_randomness():
    host = HostTicTacToe(opening=True)
    keys = jax.random.split(jax.random.key(0), 64)
    state = jax.jit(jax.vmap(host.init))(keys)
    again = jax.vmap(jax.vmap(host.init))(keys.reshape(8, 8))  # other shapes, uncompiled, another engine or the same
    np.testing.assert_array_equal(state.blob, again.blob.reshape(state.blob.shape))
    assert len(np.unique(np.asarray(state.observation), axis=0)) > 20
    action = jax.vmap(host.bots["lowest"])(state, keys)
    np.testing.assert_array_equal(action, np.asarray(state.legal_action_mask).argmax(axis=1))
    switch = host.bot_switch(["lowest", "random"])
    index = jnp.arange(64) % 2
    mixed = np.asarray(jax.jit(jax.vmap(switch))(state, index, keys))
    assert (mixed[::2] == np.asarray(action)[::2]).all() and (mixed[1::2] != np.asarray(action)[1::2]).any()


class Varied(TicTacToeGame):
    """Three set-ups: slot + episode decides which corner is taken from the start."""

    varieties = 3

    def engine(self, num_games, seed, *, first_slot=0):
        engine = super().engine(num_games, seed, first_slot=first_slot)
        for board in engine.games:
            board.start = lambda board=board: begin(board)
        return engine


def begin(board):
    type(board).start(board)
    board.cells[(board.slot + board.episode) % 3] = 1


def test_every_variety_is_dealt():
    host = HostEnv(Varied())
    state = jax.jit(jax.vmap(host.init))(jax.random.split(jax.random.key(0), 90))
    taken = (~np.asarray(state.legal_action_mask)[:, :3]).argmax(axis=1)
    assert (np.bincount(taken, minlength=3) > 15).all()
    keys = jax.random.split(jax.random.key(1), 90)
    reset = jax.jit(jax.vmap(host.reset))(state.replace(terminated=jnp.ones(90, bool)), keys)
    np.testing.assert_array_equal((~np.asarray(reset.legal_action_mask)[:, :3]).argmax(axis=1), (taken + 1) % 3)


def test_an_exception_in_the_engine_reaches_the_caller():
    host = HostEnv(TicTacToeGame(fault=raises_in(0, ZeroDivisionError("no points"), move=0)))
    state = jax.vmap(host.init)(jax.random.split(jax.random.key(0), 4))
    keys = jax.random.split(jax.random.key(1), 4)
    with pytest.raises(Exception, match="EngineError: game 0: ZeroDivisionError: no points"):
        jax.block_until_ready(jax.jit(jax.vmap(host.step))(state, jnp.zeros(4, jnp.int32), keys))


def test_sizes_that_do_not_agree_are_told():
    game = TicTacToeGame()
    game.engine, game.num_features = TicTacToeGame().engine, 17
    with pytest.raises(Exception, match=r"the game says .*17.* its engine .*18"):
        jax.block_until_ready(HostEnv(game).init(jax.random.key(0)))
    game = PicksGame()
    game.engine, game.simultaneous = PicksGame().engine, False
    with pytest.raises(Exception, match="do not agree whether all seats are asked at once"):
        jax.block_until_ready(HostEnv(game).init(jax.random.key(0)))


class Unknown(TicTacToeGame):
    """Forgets the rewards of the first stone."""

    def engine(self, num_games, seed, *, first_slot=0):
        engine = super().engine(num_games, seed, first_slot=first_slot)
        for board in engine.games:
            board.rewards = lambda board=board: [float("nan") if max(board.cells) == 0 else 0.0] * 2
        return engine


def test_numbers_that_are_not_finite_are_refused():
    host = HostEnv(Unknown())
    state = host.init(jax.random.key(0))
    with pytest.raises(Exception, match="EngineError: game 0: an observation or a reward is not finite"):
        jax.block_until_ready(host.step(state, jnp.int32(0), jax.random.key(1)))


def test_where_buffers_cannot_be_had(monkeypatch):
    """The way of accelerators gives the same games."""
    keys = jax.random.split(jax.random.key(0), 8)

    def play():
        host = HostTicTacToe(opening=True)
        state = jax.jit(jax.vmap(host.init))(keys)

        @jax.jit
        def step(state):
            return jax.vmap(auto_reset(host).step)(state, jax.vmap(host.bots["lowest"])(state, keys), keys)[0]

        for _ in range(6):
            state = step(state)
        return state

    expected = play()
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *arguments, cpu, default: default(*arguments))
    jax.tree.map(np.testing.assert_array_equal, expected, play())


LARGE = """
import faulthandler, json
faulthandler.dump_traceback_later(100, exit=True)
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as Spec
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import prng
from jaxrl_envs.contract.wrappers import auto_reset
auto = auto_reset(registry.make("battle"))
mesh = Mesh(np.array(jax.devices()), ("env",))

def play(keys):
    def step(state, _):
        state, final = jax.vmap(auto.step)(state, jax.vmap(auto.env.bots["balanced"])(state, keys), keys)
        return state, final.rewards
    state, rewards = jax.lax.scan(step, jax.vmap(auto.init)(keys), None, length=20)
    return state.blob, rewards

specs = {"in_specs": Spec("env"), "out_specs": (Spec("env"), Spec(None, "env")), "check_vma": False}
blob, rewards = jax.jit(jax.shard_map(play, mesh=mesh, **specs))(jax.random.split(prng.fast_key(0), 1024))
print(json.dumps([int(np.asarray(blob).astype(np.int64).sum()), len(jax.devices())]))
"""


def test_large_batches_do_not_stop_for_ever():
    """1,024 states of a kilobyte each in a scan; `jax.pure_callback` stops here on two devices."""
    one, two = on_devices(LARGE, 1), on_devices(LARGE, 2)
    assert one[0] == two[0] and (one[1], two[1]) == (1, 2)


def test_dice_are_not_fixed_by_the_deal():
    both, only = (battle(), TicTacToe()), ["duplicate_deals"]
    notes = [conformance.check(env, games=4, only=only).results[0].note for env in both]
    assert "chance is not fixed" in notes[0] and "every chance event is fixed" in notes[1]


def battle():
    return registry.make("battle", rounds=2)
