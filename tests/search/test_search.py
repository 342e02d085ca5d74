"""Search at play time on games whose best play is known, and what it may not know."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from examples.nim import Nim
from jaxrl import xla
from jaxrl.matches.match import GameKeys, SeatedPlayer, play_match
from jaxrl.players.player import any_bot
from jaxrl.search.belief import resample
from jaxrl.search.halving import survivors
from jaxrl.search.player import Search, make_search
from jaxrl.search.playout import choose, won
from jaxrl.search.policies import SearchParams, bot_policy, no_guide, switch_policy, types_policy
from jaxrl.search.settings import SearchSettings
from jaxrl.search.sparse import where_needed
from jaxrl_envs.contract.env import Env, Key, PyTree, State, public_fields
from jaxrl_envs.shared.errors import UserError
from tests.support.games import HighCard, RockPaperScissors, keys_of

NOTHING = SearchParams(own=None, model=None)


jitted = functools.partial(jax.jit, compiler_options=xla.plain_options())


@struct.dataclass
class SecretState(State):
    card: jax.Array  # i32[], seat 1's
    time: jax.Array  # i32[]
    spoken: jax.Array  # i32[], the last word, 4 = none


class Secret(Env):
    """Seat 1 holds one of four cards and says two words; then seat 0 guesses the card: +1 if right, else -1.

    Against "honest", who names the card, the best guess always wins; against "half", who says only whether it is high,
    every second one; without listening every fourth.
    """

    id, version = "secret", "1"
    num_players, num_actions = 2, 4

    def _init(self, key: Key) -> SecretState:
        fields = public_fields(num_players=2, num_actions=4) | {"current_player": jnp.int32(1)}
        card = jax.random.randint(key, (), 0, 4)
        return SecretState(observation=None, card=card, time=jnp.int32(0), spoken=jnp.int32(4), **fields)

    def _step(self, state: SecretState, action: jax.Array, key: Key) -> SecretState:
        over = state.time == 2
        right = jnp.where(action == state.card, 1.0, -1.0)
        return state.replace(
            current_player=jnp.where(state.time == 0, 1, 0),
            time=state.time + 1,
            spoken=jnp.asarray(action, jnp.int32),
            rewards=jnp.where(over, jnp.stack([right, -right]), 0.0),
            terminated=over,
        )

    def observe(self, state: SecretState, seat: jax.Array) -> jax.Array:
        return jnp.stack([jnp.where(seat == 1, state.card, -1), state.time, state.spoken])

    def permute_hidden(self, state: SecretState, seat: jax.Array, key: Key) -> SecretState:
        return state.replace(card=jnp.where(seat == 1, state.card, jax.random.randint(key, (), 0, 4)))

    def reconcile(
        self, particle: SecretState, actual: SecretState, seat: jax.Array, key: Key
    ) -> tuple[SecretState, jax.Array]:
        return actual.replace(card=jnp.where(seat == 1, actual.card, particle.card)), jnp.bool_(True)

    @property
    def bots(self):
        return {
            "random": self.random_action,
            "honest": lambda state, key: state.card,
            "half": lambda state, key: state.card // 2,
        }


def search_of(env: Env, model: str, own: str = "random", **settings) -> Search:
    chosen = SearchSettings(**({"simulations": 64, "particles": 32} | settings))
    return make_search(env, chosen, own=bot_policy(env.bots[own]), guide=no_guide, model=bot_policy(env.bots[model]))


SPEAKERS = ("honest", "half", "random")


def guesses(games: int, **settings):
    """A function (the model's number, the opponent's number) -> the mean return of guessing by search in `Secret`."""
    env = Secret()
    model = switch_policy(env, SPEAKERS)
    chosen = SearchSettings(**({"simulations": 32, "particles": 32, "doubt": 0.0} | settings))
    search = make_search(env, chosen, own=bot_policy(env.bots["random"]), guide=no_guide, model=model)
    holders = jnp.ones((games, 2), jnp.int32).at[:, 0].set(0)
    keys = GameKeys(keys_of(1, games), keys_of(2, games), keys_of(3, games))

    def mean(taken_for: jax.Array, speaker: jax.Array) -> jax.Array:
        searching = SeatedPlayer(search.player(), SearchParams(None, taken_for), np.array([True, False]))
        speaking = SeatedPlayer(any_bot(env, SPEAKERS), speaker, np.array([False, True]), number=1)
        played = play_match(env, [searching, speaking], holders, keys)
        return jnp.mean(played.figures["return"][:, 0])

    program = jitted(mean)
    return lambda taken_for, speaker: float(program(SPEAKERS.index(taken_for), SPEAKERS.index(speaker)))


def test_nim_is_played_perfectly_against_a_known_opponent():
    env = Nim(largest=11)
    search = search_of(env, "perfect", simulations=192)
    stones = jnp.array([n for n in range(2, 12) if n % 4], jnp.int32)
    state = jax.vmap(env.init)(keys_of(0, len(stones)))
    state = state.replace(stones=stones, legal_action_mask=jnp.arange(3) < stones[:, None])

    @jitted
    def decide(state: State, keys: jax.Array) -> jax.Array:
        memory = jax.vmap(search.belief.init, in_axes=(None, 0, 0, 0))(NOTHING, state, state.current_player, keys)
        return jax.vmap(search.act, in_axes=(None, 0, 0, 0))(NOTHING, memory, state, keys)[0]

    actions = decide(state, keys_of(1, len(stones)))
    np.testing.assert_array_equal(actions, stones % 4 - 1)
    np.testing.assert_array_equal(actions, decide(state, keys_of(1, len(stones))))  # and again


@pytest.mark.thorough
def test_a_belief_hears_what_the_others_actions_say():
    play = guesses(256, objective="wins")
    assert play("honest", "honest") == 1.0
    assert abs(play("half", "half")) < 0.25  # every second guess is right; four standard errors
    # A model that is wrong, in whose worlds what was said is impossible, leaves guesses no worse than blind ones.
    assert abs(play("honest", "random") + 0.5) < 0.22  # every fourth
    assert abs(guesses(256, particles=0)("honest", "honest") + 0.5) < 0.22


DOUBT = 0.1


def listening(particles: int, env: Env | None = None) -> Search:
    """Seat 0's search in `Secret`, where seat 1 is "honest", "half" or the policy itself, which names 3 - card."""
    env = env or Secret()
    own = bot_policy(lambda state, key: 3 - state.card)
    settings = SearchSettings(simulations=16, particles=particles, doubt=DOUBT)
    return make_search(env, settings, own=own, guide=no_guide, model=types_policy(env, ("honest", "half"), draws=1))


def bayes(words: np.ndarray) -> np.ndarray:
    """f[4, 3]: how likely each card and speaker is after some words, by hand."""
    card = np.arange(4)[:, None]
    says = np.concatenate([card, card // 2, 3 - card], axis=1)  # [card, speaker]
    likely = np.prod([(1 - DOUBT) * (says == word) + DOUBT / 4 for word in words], axis=0)
    return likely / likely.sum()


@pytest.mark.thorough
def test_what_the_policy_is_sure_of_is_not_searched():
    """The uniform prior gives every word a quarter: from 0.25 on it is sure, and guesses the first card."""
    assert guesses(128, sure=0.26)("honest", "honest") == 1.0
    assert guesses(128, sure=0.25)("honest", "honest") < 0.0


def test_who_speaks_is_heard_as_bayes_says():
    search, seat = listening(4096), jnp.int32(0)
    env, words = search.lineup.env, jnp.array([(0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (1, 2)])

    @jitted
    def hear(words: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        state = env.init(key)
        memory = search.belief.init(NOTHING, state, seat, key)
        for i in range(2):
            after = env.step(state, words[i], key)
            k = jax.random.fold_in(key, i)
            memory = search.belief.update(NOTHING, memory, state, words[i], after, seat, k)
            state = after
        worlds, types = search.belief.worlds(NOTHING, state, memory, key, 4096)
        return memory.posterior[1], worlds.card * 3 + types[:, 1]

    posterior, drawn = jax.vmap(hear)(words, keys_of(7, len(words)))
    for pair, heard, pairs in zip(words, posterior, drawn, strict=True):
        right = bayes(np.asarray(pair))
        # Cards are dealt to 4,096 particles at random: a share of a quarter has a standard error of 0.7 %.
        np.testing.assert_allclose(heard, right.sum(axis=0), atol=0.03)
        np.testing.assert_allclose(np.bincount(pairs, minlength=12).reshape(4, 3) / 4096, right, atol=0.04)


class Unbelievable(Secret):
    """Every particle turns out to be another world than the real one."""

    def reconcile(self, particle: State, actual: State, seat: jax.Array, key: Key) -> tuple[State, jax.Array]:
        return super().reconcile(particle, actual, seat, key)[0], jnp.bool_(False)


def test_what_a_move_says_of_its_player_outlives_the_worlds_it_was_heard_in():
    search, seat = listening(4096, Unbelievable()), jnp.int32(0)

    @jitted
    def hear(key: Key) -> jax.Array:
        state = search.lineup.env.init(key)
        memory = search.belief.init(NOTHING, state, seat, key)
        after = search.lineup.env.step(state, jnp.int32(2), key)
        return search.belief.update(NOTHING, memory, state, jnp.int32(2), after, seat, key).posterior[1]

    right = bayes(np.array([2])).sum(axis=0)
    assert right[1] < 0.1  # who says half the card never says 2
    np.testing.assert_allclose(hear(keys_of(3, 1)[0]), right, atol=0.03)


def test_simulated_games_are_played_by_the_types_of_their_worlds():
    search = listening(4)
    lineup, keys = search.lineup, keys_of(8, 3)
    state = jax.vmap(lineup.env.init)(keys).replace(card=jnp.array([2, 2, 2]))
    types, seat = jnp.array([[0, 0], [0, 1], [0, 2]]), jnp.zeros(3, jnp.int32)
    memories = lineup.memories(NOTHING, (), state, seat, keys, types)
    assert choose(lineup, NOTHING, state, memories, seat, keys)[0].tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    ("game", "particles"), [(Secret(), 0), (Nim(largest=5), 8)], ids=["no particles", "no reconcile"]
)
def test_who_the_others_are_cannot_be_heard_everywhere(game: Env, particles: int):
    model, settings = types_policy(game, ["random"]), SearchSettings(particles=particles)
    with pytest.raises(UserError, match="name the model of the others instead"):
        make_search(game, settings, own=bot_policy(game.bots["random"]), guide=no_guide, model=model)


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["half", "one of several"])
def test_search_does_not_depend_on_what_its_seat_cannot_see(model: str):
    env = Secret()
    search = search_of(env, "half", simulations=16, particles=16) if model == "half" else listening(16)
    count, seat = 32, jnp.int32(0)

    @jitted
    def think(world: State, action: jax.Array, keys: jax.Array) -> tuple[PyTree, ...]:
        memory = jax.vmap(lambda s, k: search.belief.init(NOTHING, s, seat, k))(world, keys)
        plan = jax.vmap(lambda s, k, m: search.plan(NOTHING, m, s, k))(world, keys, memory)
        after = jax.vmap(env.step)(world, action, keys)
        kept = jax.vmap(lambda *x: search.belief.update(NOTHING, *x[:4], seat, x[4]))(
            memory, world, action, after, keys
        )
        return tuple(plan), (kept.particles.card, kept.log_weights, kept.types)

    state = jax.vmap(env.init)(keys_of(4, count))
    asked = jnp.arange(count) % 2 == 0  # in half of the games the two words have been said
    state = state.replace(
        time=jnp.where(asked, 2, 0), spoken=jnp.where(asked, 1, 4), current_player=jnp.where(asked, 0, 1)
    )
    other = jax.vmap(lambda s, k: env.permute_hidden(s, seat, k))(state, keys_of(5, count))
    assert (state.card != other.card).any()
    action, keys = jnp.zeros(count, jnp.int32), keys_of(6, count)
    (plan, kept), (other_plan, other_kept) = think(state, action, keys), think(other, action, keys)
    for left, right in zip((*plan, *kept), (*other_plan, *other_kept), strict=True):
        np.testing.assert_array_equal(left, right)
    assert (plan[1][asked] != 0.25).any(), "nothing was searched"
    assert (np.exp(kept[1][~asked]).std(axis=1) > 0).any(), "nothing was heard"
    assert model == "half" or kept[2][~asked][:, :, 1].std(axis=-1).max() > 0, "nothing was told from the word"


def test_one_program_models_any_bot():
    env = Secret()
    names = ("honest", "half")
    policy = switch_policy(env, names, draws=1)
    state = env.init(jax.random.key(3))
    for index, name in enumerate(names):
        expected = env.bots[name](state, jax.random.key(0))
        assert policy.act(jnp.int32(index), (), state, jax.random.key(0))[0] == expected
        assert policy.likelihood(jnp.int32(index), state, expected, jax.random.key(0)) == 1.0


def test_where_needed_computes_only_what_is_needed():
    calls = []

    def double(shared: jax.Array, lanes: jax.Array) -> jax.Array:
        jax.debug.callback(lambda x: calls.append(x.shape), lanes)
        return shared * lanes

    call = jax.jit(jax.vmap(where_needed(double, chunk=4), in_axes=(0, 0, None, 0)))
    needed = jnp.arange(11) % 2 == 1  # five lanes: two chunks
    result = call(needed, -jnp.arange(11), jnp.int32(2), jnp.arange(11))
    np.testing.assert_array_equal(result, np.where(needed, 2 * np.arange(11), -np.arange(11)))
    jax.effects_barrier()
    assert calls == [(3,), (3,)]  # a quarter of the lanes


def test_survivors_fall_from_all_to_two():
    fields = [int(survivors(jnp.int32(15), number, 4)) for number in range(4)]
    assert fields == [15, 8, 4, 2]
    assert [int(survivors(jnp.int32(2), number, 4)) for number in range(4)] == [2] * 4
    assert [int(survivors(jnp.int32(1), number, 4)) for number in range(4)] == [1] * 4


def test_resampling_keeps_the_shares():
    index = resample(jnp.log(jnp.array([0.5, 1e-30, 0.25, 0.25])), jax.random.key(0), 8)
    np.testing.assert_array_equal(np.bincount(index, minlength=4), [4, 0, 2, 2])


def test_a_draw_is_not_a_win():
    rounded = jnp.float32(0.1) + jnp.float32(0.2)  # a little above 0.3
    returns = jnp.array([[1.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, -1.0, 1.0], [rounded, 0.3, 0.0]])
    np.testing.assert_array_equal(won(HighCard(), returns, jnp.array([0, 0, 2, 0])), [False, True, True, False])


class Undeclared(Nim):
    """What does not say that nothing is hidden may hide something."""

    perfect_information = False


@pytest.mark.parametrize(
    ("game", "settings", "sentence"),
    [
        (lambda: Undeclared(), {}, "perfect_information = True in the game; else write permute_hidden"),
        (lambda: RockPaperScissors(), {}, "all seats at once"),
        (lambda: HighCard(), {"simulations": 1}, "at least 4 simulations"),
        (lambda: HighCard(), {"planner": "guess"}, "halving, tree"),
        (lambda: HighCard(), {"objective": "fun"}, "return, wins"),
        (lambda: HighCard(), {"doubt": 2.0}, "between 0 and 1"),
        (lambda: HighCard(), {"particles": -1}, "at least 0"),
    ],
)
def test_mistakes_are_explained(game, settings, sentence):
    with pytest.raises(UserError, match=sentence):
        search_of(game(), "random", **settings)
