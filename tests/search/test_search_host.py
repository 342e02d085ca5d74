"""Search in games whose engine lives on the host: bots play simulated games on inside it, and nothing is foreseen."""

from __future__ import annotations

import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.cli import main
from jaxrl.matches.evaluate import Matchup
from jaxrl.players.player import bot_player
from jaxrl.search.player import Search, make_search
from jaxrl.search.playout import TO_THE_END, Lineup, play_on
from jaxrl.search.policies import SearchParams, bot_guide, bot_policy, named_policy
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.contract import registry
from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.host import env as host_env
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.shared.errors import UserError
from tests.support.host_games import LAYOUT, HostTicTacToe, TicTacToeGame

pytestmark = pytest.mark.thorough

NOTHING = SearchParams(own=None, model=None)


def keys_of(seed: int, count: int) -> jax.Array:
    return jax.random.split(jax.random.key(seed), count)


def search_of(env: Env, own: str, model: str, **settings) -> Search:
    policies = {"own": named_policy(env, own), "guide": bot_guide(env.bots[own]), "model": named_policy(env, model)}
    return make_search(env, SearchSettings(**({"simulations": 48} | settings)), **policies)


def plans_of(search: Search, state: State, keys: jax.Array):
    """What the seat asked finds in N states."""

    @jax.jit
    def plan(state, keys):
        memory = jax.vmap(search.belief.init, in_axes=(None, 0, 0, 0))(NOTHING, state, state.current_player, keys)
        return jax.vmap(search.plan, in_axes=(None, 0, 0, 0))(NOTHING, memory, state, keys)

    return jax.device_get(plan(state, keys))


def battles(env: HostEnv, decisions: int, count: int) -> State:
    """`count` running battles after `decisions` decisions of two scripts."""

    def step(state, key):
        action = jax.vmap(env.bots["balanced"])(state, jax.random.split(key, count))
        return jax.vmap(env.step)(state, action, jax.random.split(key, count)), None

    start = jax.vmap(env.init)(keys_of(0, count))
    return jax.jit(lambda: jax.lax.scan(step, start, keys_of(1, decisions))[0])()


@pytest.fixture(scope="module")
def battle():
    return registry.make("battle", rounds=3)


@pytest.mark.parametrize("turns", [0, 1, 2, TO_THE_END])
def test_bots_inside_the_engine_play_as_they_do_outside(turns):
    """TicTacToe in which both take the lowest free cell: nothing is random."""
    env, count = HostTicTacToe(opening=True), 16
    state = jax.vmap(env.init)(keys_of(0, count))
    action = jax.vmap(env.bots["lowest"])(state, keys_of(1, count)) + 1  # not the lowest: some are illegal
    action = jnp.where(jax.vmap(env.is_legal)(state, action), action, jnp.argmax(state.legal_action_mask, axis=1))
    seat = state.current_player

    def played(policy):
        lineup = Lineup(env, policy, policy)
        memories = lineup.memories(NOTHING, (), state, seat, keys_of(2, count))
        run = jax.jit(lambda: play_on(lineup, NOTHING, state, memories, action, seat, keys_of(2, count), turns=turns))
        return jax.device_get(run())

    inside, outside = played(named_policy(env, "lowest")), played(bot_policy(env.bots["lowest"]))
    assert inside.time == 0 < outside.time
    np.testing.assert_array_equal(inside.returns, outside.returns)
    over = inside.state.terminated
    for name in ("observation", "current_player", "legal_action_mask", "terminated"):
        ours, theirs = getattr(inside.state, name), getattr(outside.state, name)
        np.testing.assert_array_equal(ours[~over], theirs[~over])
        np.testing.assert_array_equal(over, outside.state.terminated)
    assert over.all() if turns == TO_THE_END else not over.all()


def test_copies_play_on_alike_whatever_the_threads(battle, monkeypatch):
    """A saved state is played on to the same bytes, in every place of a batch and by any number of threads."""
    state = battles(battle, 20, 6)
    again = np.tile(np.arange(6), 5)
    copies = jax.tree.map(lambda leaf: leaf[again], state)
    first = jnp.argmax(copies.legal_action_mask, axis=1)
    keys, bots = keys_of(3, 6)[again], jnp.ones((30, 2), jnp.int32)

    def played(cores):
        monkeypatch.setattr(host_env, "cores", lambda: cores)
        env = HostEnv(battle.game)
        turns = jnp.full(30, TO_THE_END)
        end, returns = jax.vmap(env.play_on)(copies, first, bots, copies.current_player, turns, keys)
        return np.asarray(end.blob), np.asarray(returns), np.asarray(end.terminated)

    blob, returns, over = played(1)
    assert over.all() and len(np.unique(blob, axis=0)) == 6 and set(returns.sum(axis=1)) == {0.0}
    np.testing.assert_array_equal(blob, blob[again])
    for one, other in zip((blob, returns), played(3)[:2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_choice_follows_from_the_key_alone(battle, monkeypatch):
    state, keys = battles(battle, 20, 4), keys_of(5, 4)
    plan = plans_of(search_of(battle, "balanced", "balanced"), state, keys)
    monkeypatch.setattr(host_env, "cores", lambda: 3)
    other = HostEnv(battle.game)
    jax.tree.map(np.testing.assert_array_equal, plan, plans_of(search_of(other, "balanced", "balanced"), state, keys))
    assert (plan.results != plans_of(search_of(other, "balanced", "balanced"), state, keys_of(6, 4)).results).any()


def test_dice_and_the_secrets_of_bots_are_not_foreseen(battle):
    """Battles of which only what is drawn later differs are searched alike; so are those of a `mixed` player whose
    style differs, because its style is hidden."""
    count = 24
    before = battles(battle, 16, count)
    action = jax.vmap(battle.bots["balanced"])(before, keys_of(0, count))
    step = jax.jit(jax.vmap(battle.step))
    one, other = step(before, action, keys_of(7, count)), step(before, action, keys_of(8, count))
    public = ("observation", "info", "legal_action_mask", "current_player")
    same = np.all([(getattr(one, name) == getattr(other, name)).reshape(count, -1).all(axis=1) for name in public], 0)
    same &= ~np.asarray(one.terminated)
    one, other = (jax.tree.map(lambda leaf: leaf[same], state) for state in (one, other))
    other = jax.vmap(battle.permute_hidden)(other, other.current_player, keys_of(9, len(other.terminated)))
    assert same.sum() > 5 and (one.blob != other.blob).any(axis=1).all()
    theirs = jax.vmap(battle.permute_hidden)(one, 1 - one.current_player, keys_of(9, len(one.terminated)))
    ends = [jax.vmap(battle.bots["mixed"])(state, keys_of(0, len(state.terminated))) for state in (one, other, theirs)]
    assert (ends[0] == ends[1]).all(), "it has forgotten its own style"
    assert (ends[0] != ends[2]).any(), "the other one knows its style"
    keys, search = keys_of(10, len(one.terminated)), search_of(battle, "balanced", "mixed")
    plan = plans_of(search, one, keys)
    jax.tree.map(np.testing.assert_array_equal, plan, plans_of(search, other, keys))
    assert (plan.results.std(axis=1) > 0).any(), "nothing was searched"


def test_a_forced_win_and_a_forced_answer_are_found():
    """X to move with and without two in a row of its own; O has two in a row, and takes the lowest cell."""
    env = HostTicTacToe()
    rows = {4: [1, 1, -1, 0, -1, 0, -1, -1, -1], 2: [1, 1, -1, -1, 0, -1, -1, -1, -1]}
    blobs = [struct.pack(LAYOUT, *cells, 0, 0, 0, 7, 0, 0, 0) for cells in rows.values()]
    state = jax.vmap(env.init)(keys_of(0, 2))
    cells = np.array(list(rows.values()))
    state = state.replace(
        blob=jnp.asarray(np.stack([np.frombuffer(blob, np.uint8) for blob in blobs])),
        legal_action_mask=jnp.asarray(cells < 0),
        current_player=jnp.zeros(2, jnp.int32),
    )
    search = search_of(env, "random", "lowest", simulations=256, objective="wins", prior=0.0)
    np.testing.assert_array_equal(plans_of(search, state, keys_of(1, 2)).action, list(rows))


def test_a_game_of_another_process_is_not_searched():
    game = TicTacToeGame()
    game.remote = True
    for env in (HostEnv(game), registry.make("forge")):
        with pytest.raises(UserError, match="cannot be searched: another process plays it"):
            search_of(env, env.game.bots[-1], env.game.bots[-1])


def test_evaluate_searches_battles_and_says_how(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["evaluate", "bot:balanced", "--config", "battle_balance", "env.options.rounds=1", "--deals", "2"]
    search = ["--search", "8", "--search-model", "bot:gunline", "--search-rollouts"]
    assert main([*words, "--opponents", "turtle", *search, "bot:objective"]) == 0
    printed = capsys.readouterr().out
    assert "search with 8 simulations a move (halving, model bot:gunline, rollouts bot:objective" in printed
    assert main([*words, *search, "objective"]) == 2
    assert "--search-rollouts must be self or bot:NAME, got 'objective'" in capsys.readouterr().err
    assert main([*words, *search, "bot:objektive"]) == 2
    assert "--search-rollouts: there is no bot 'objektive' in this game" in capsys.readouterr().err


@pytest.mark.slow  # python -m pytest tests/search/test_search_host.py -m slow; a minute
def test_search_makes_a_script_stronger():
    """Against itself a script wins half of what is decided; its search with 100 simulations wins far more."""
    env = registry.make("battle")
    search = search_of(env, "balanced", "balanced", simulations=100)
    rival = bot_player(env, "balanced").named("balanced", None)
    matchup = Matchup(env, search.player(), [rival], deals=40, seed=1)
    tally = matchup.play(NOTHING).outcomes.tally()
    assert tally.interval()[0] > 0.6, tally
