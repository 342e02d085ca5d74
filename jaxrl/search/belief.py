"""A seat's belief about hidden information: a particle filter over worlds, updated during the game.

A particle is a state that the seat cannot tell from the real one. After every step each particle takes the same step;
its weight is multiplied by the likelihood of the observed action under the opponent model, and what the step revealed
is copied from the real state (`Env.reconcile`). A recurrent model is asked with an empty memory, because particles do
not store one. Nothing else of the real state is read, so a belief knows no more than its seat. See Doucet & Johansen
2009, "A tutorial on particle filtering and smoothing".

If each of the other seats may be one of T types of players (`Lineup.types`), every particle also holds the posterior of
the types, given the observed actions and the particle's world. It is exact by Bayes' rule: only worlds are sampled,
types are summed over (Rao-Blackwellised; section 4.6 there).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
from flax import struct

from jaxrl.search.playout import Lineup
from jaxrl.search.policies import SearchParams
from jaxrl.search.sparse import where_needed
from jaxrl_envs.contract.env import Env, Key, PyTree, State, is_over, select
from jaxrl_envs.shared import card_beliefs
from jaxrl_envs.shared.errors import UserError

DEAD = -1e30  # the log weight of a particle that contradicts the observations
Believe = Callable[[PyTree, PyTree], jax.Array]
MIN_EFFECTIVE_SHARE = 0.5  # particles are resampled when their effective sample size falls below this share


@struct.dataclass
class BeliefMemory:
    """The memory of a searching seat during one game. K particles, P seats, T types of players."""

    seat: jax.Array  # i32[]
    returns: jax.Array  # f32[P], earned so far
    own: PyTree  # of its policy, after its last decision
    particles: State | None  # K states, None without a belief
    log_weights: jax.Array  # f32[K], normalised
    types: jax.Array  # f32[K, P, T], log-posterior of the type of each seat, by particle

    @property
    def posterior(self) -> jax.Array:
        """The posterior of the types that hold each seat, f32[P, T]."""
        return jnp.einsum("k,kpt->pt", jnp.exp(self.log_weights), jnp.exp(self.types))


def permuted(env: Env, state: State, seat: jax.Array, key: Key) -> State:
    """Returns `Env.permute_hidden`. Raises UserError if the game does not say what is hidden."""
    world = env.permute_hidden(state, seat, key)
    if world is None:
        raise UserError(
            f"{env.id} cannot be searched: it does not say what a seat cannot see. If nothing is hidden, set "
            "perfect_information = True in the game; else write permute_hidden."
        )
    return world


@dataclasses.dataclass(frozen=True)
class Belief:
    """A belief over the worlds of one game: how it begins, how it is updated, and how worlds are drawn."""

    lineup: Lineup  # the game, and the opponent model
    particles: int  # K; 0 keeps none
    doubt: float  # the share of the others' actions that is assumed to be uniformly random
    batch: int  # particles that are weighed side by side
    # a learned belief: (parameters, observation) -> odds of where hidden cards are, see
    # `jaxrl_envs.shared.card_beliefs`; worlds are then drawn by these odds
    believe: Believe | None = None

    @property
    def env(self) -> Env:
        """The game."""
        return self.lineup.env

    def init(self, params: SearchParams, state: State, seat: jax.Array, key: Key) -> BeliefMemory:
        """Returns the memory of `seat` (i32[]) before the first action."""
        own_key, fresh_key = jax.random.split(key)
        own = self.lineup.own.memory(params.own, state, seat, own_key)
        particles = self._fresh(state, seat, fresh_key) if self.particles else None
        weights = jnp.full(self.particles, -jnp.log(max(self.particles, 1)), jnp.float32)
        shape = (self.particles, self.env.num_players, self.lineup.types)
        types = jnp.full(shape, -jnp.log(self.lineup.types), jnp.float32)
        return BeliefMemory(seat, jnp.zeros_like(state.rewards), own, particles, weights, types)

    def update(
        self,
        params: SearchParams,
        memory: BeliefMemory,
        before: State,
        action: jax.Array,
        after: State,
        seat: jax.Array,
        key: Key,
    ) -> BeliefMemory:
        """Returns the memory after one step; see `jaxrl.players.player.Observe`."""
        memory = memory.replace(returns=memory.returns + after.rewards)
        weigh_key, move_key, own_key = jax.random.split(key, 3)
        if jax.tree.leaves(memory.own):
            mine = (before.current_player == seat) & ~is_over(before)
            remembered = self.lineup.own.act(params.own, memory.own, before, own_key)[1]
            memory = memory.replace(own=select(mine, remembered, memory.own))
        if memory.particles is None:
            return memory
        chunk = max(1, self.batch // self.particles)
        others = (before.current_player != seat) & ~is_over(before)
        weigh = where_needed(self._weigh, chunk)
        nothing = jnp.zeros((self.particles, self.lineup.types))
        gained = weigh(others, nothing, params, (memory.particles, action, weigh_key))
        move = where_needed(lambda _, lanes: jax.vmap(self._move)(*lanes), chunk)
        return move(~is_over(after), memory, (), (memory, gained, before.current_player, action, after, move_key))

    def worlds(
        self, params: SearchParams, state: State, memory: BeliefMemory, key: Key, count: int
    ) -> tuple[State, jax.Array]:
        """Draws `count` equally weighted worlds from the belief of `memory.seat`, in random order, and the types that
        hold the seats there, i32[count, P]."""
        if memory.particles is None:
            deal = self._dealer(params, state, memory.seat)
            worlds = jax.vmap(lambda k: self._chosen(params, memory.seat, deal, k))(jax.random.split(key, count))
            return worlds, jnp.zeros((count, self.env.num_players), jnp.int32)
        draw_key, order_key, luck_key, type_key = jax.random.split(key, 4)
        index = jax.random.permutation(order_key, resample(memory.log_weights, draw_key, count))
        chosen = jax.tree.map(lambda leaf: leaf[index], memory.particles)
        types = jax.random.categorical(type_key, memory.types[index]).astype(jnp.int32)
        return self._reconciled(chosen, state, memory.seat, luck_key)[0], types

    def permuted(self, state: State, seat: jax.Array, key: Key) -> State:
        """Draws one world uniformly. Raises UserError if the game cannot draw it."""
        return self._seen(permuted(self.env, state, seat, key))

    def _dealer(self, params: SearchParams, state: State, seat: jax.Array) -> Callable[[Key], State]:
        """Returns a function that draws worlds: uniformly, or from the learned belief, which is evaluated once for all
        of them."""
        if self.believe is None:
            return lambda key: self.permuted(state, seat, key)
        observation = self.env.observe(state, seat)
        odds, about = self.believe(params.belief, observation), self.env.card_beliefs(observation)
        assert about is not None  # `make_search` has asked

        def deal(key: Key) -> State:
            draw_key, rest_key = jax.random.split(key)
            holders = card_beliefs.draw(odds, about, draw_key)
            return self._seen(self.env.world_with(state, seat, holders, rest_key))

        return deal

    def _chosen(self, params: SearchParams, seat: jax.Array, deal: Callable[[Key], State], key: Key) -> State:
        """Draws a world in which the opponent model has made the others' secret choices from their cards there."""
        draw_key, choice_key = jax.random.split(key)
        model, its_params = self.lineup.others(params)

        def choose(world: State, key: Key) -> jax.Array:
            return model.act(its_params, model.memory(its_params, world, world.current_player, key), world, key)[0]

        world = deal(draw_key)
        return self._seen(self.env.with_secret_choices(world, seat, choose, choice_key))

    def _seen(self, world: State) -> State:
        """Returns the world with the observation of the seat asked there, which may differ from the real state's."""
        return world.replace(observation=self.env.observe(world, world.current_player))

    # ---- the filter -----------------------------------------------------------------------------------------------

    def _fresh(self, state: State, seat: jax.Array, key: Key) -> State:
        keys = jax.random.split(key, self.particles)
        return jax.vmap(lambda k: self.permuted(state, seat, k))(keys)

    def _reconciled(self, particles: State, actual: State, seat: jax.Array, key: Key) -> tuple[State, jax.Array]:
        count = particles.terminated.shape[0]

        def one(particle: State, k: Key) -> tuple[State, jax.Array]:
            result = self.env.reconcile(particle, actual, seat, k)
            assert result is not None  # `supports_particles` was asked before
            return self._seen(result[0]), result[1]

        return jax.vmap(one)(particles, jax.random.split(key, count))

    def _weigh(self, params: SearchParams, lanes: tuple[State, jax.Array, Key]) -> jax.Array:
        """Returns log-likelihoods of the observed actions in the particles of C games, f32[C, K, T]."""

        def one(particle: State, action: jax.Array, key: Key) -> jax.Array:
            likelihood = self.lineup.likelihoods(params, particle, action, key)
            uniform = 1.0 / jnp.maximum(jnp.sum(particle.legal_action_mask), 1)
            return jnp.log((1.0 - self.doubt) * likelihood + self.doubt * uniform + 1e-12)

        particles, action, key = lanes
        keys = jax.vmap(lambda k: jax.random.split(k, self.particles))(key)
        return jax.vmap(jax.vmap(one, in_axes=(0, None, 0)))(particles, action, keys)

    def _move(
        self, memory: BeliefMemory, gained: jax.Array, actor: jax.Array, action: jax.Array, after: State, key: Key
    ) -> BeliefMemory:
        """Moves the particles of one game along a step of the seat `actor` (i32[]), reweighs them by log-likelihoods
        `gained` f32[K, T], and resamples them where their effective sample size is small."""
        step_key, reconcile_key, draw_key, fresh_key = jax.random.split(key, 4)
        assert memory.particles is not None
        legal = jax.vmap(self.env.is_legal, in_axes=(0, None))(memory.particles, action)
        keys = jax.random.split(step_key, self.particles)
        stepped = jax.vmap(self.env.step, in_axes=(0, None, 0))(memory.particles, action, keys)
        particles, possible = self._reconciled(stepped, after, memory.seat, reconcile_key)
        alive = legal & possible & (memory.log_weights > 0.5 * DEAD)
        joint = memory.types[:, actor] + gained
        likelihood = jax.nn.logsumexp(joint, axis=1)
        types = memory.types.at[:, actor].set(joint - likelihood[:, None])
        weights = jnp.where(alive, memory.log_weights + likelihood, DEAD)
        weights = jnp.where(alive, weights - jax.nn.logsumexp(weights), DEAD)
        effective = 1.0 / jnp.sum(jnp.exp(2.0 * weights))
        index = resample(weights, draw_key, self.particles)
        redrawn = jax.tree.map(lambda leaf: leaf[index], (particles, types))
        uniform = jnp.full_like(weights, -jnp.log(self.particles))
        degenerate = effective < MIN_EFFECTIVE_SHARE * self.particles
        kept, weights = select(degenerate, (redrawn, uniform), ((particles, types), weights))
        # If no particle survives, new worlds are drawn; the marginal posterior of the types is kept, this action
        # included.
        heard = memory.replace(log_weights=jax.nn.log_softmax(memory.log_weights + likelihood), types=types).posterior
        fresh = self._fresh(after, memory.seat, fresh_key), jnp.broadcast_to(jnp.log(heard), types.shape)
        (particles, types), weights = select(jnp.any(alive), (kept, weights), (fresh, uniform))
        return memory.replace(particles=particles, log_weights=weights, types=types)


def supports_particles(env: Env) -> bool:
    """Returns whether a game implements what a particle filter needs: `permute_hidden` and `reconcile`."""

    def ask(key: Key) -> bool:
        state = env.init(key)
        return env.reconcile(state, state, jnp.int32(0), key) is not None

    answers: list[bool] = []
    jax.eval_shape(lambda key: answers.append(ask(key)), jax.eval_shape(lambda: jax.random.key(0)))
    return answers[0]


def resample(log_weights: jax.Array, key: Key, count: int) -> jax.Array:
    """Resamples systematically: returns indices i32[count], in which each particle occurs count times its share of the
    weights f32[K], rounded up or down."""
    chex.assert_rank(log_weights, 1)
    cumulative = jnp.cumsum(jax.nn.softmax(log_weights))
    points = (jnp.arange(count) + jax.random.uniform(key)) / count * cumulative[-1]
    index = jnp.searchsorted(cumulative, points, side="right")
    return jnp.minimum(index, log_weights.shape[0] - 1).astype(jnp.int32)
