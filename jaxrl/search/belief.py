"""What a seat believes about what it cannot see: particles, kept and weighed during the game.

A particle is a state that looks to the seat like the real one. After every step each particle takes the same step; it
is weighed by how likely the model of the others was to choose the seen action there, and what the step made visible is
taken over from the real state (`Env.reconcile`). A model with a memory is asked with an empty one: what it would
remember is kept in no particle. Nothing else of the real state is read, so a belief knows no more than its seat. See
Doucet & Johansen 2009, "A tutorial on particle filtering and smoothing".

Where each of the others may be one of T types of players (`Lineup.types`), every particle also says how likely each
type is, given all that was chosen if that particle is the real world. This is Bayes' rule, exact for the particles that
there are: only worlds are sampled, types are summed over (Rao-Blackwellised; section 4.6 there).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl.search.playout import Lineup
from jaxrl.search.policies import SearchParams
from jaxrl.search.sparse import where_needed
from jaxrl_envs.contract.env import Env, Key, PyTree, State, is_over, select
from jaxrl_envs.shared import card_beliefs
from jaxrl_envs.shared.errors import UserError

DEAD = -1e30  # the log weight of a particle that cannot be the real world
Believe = Callable[[PyTree, PyTree], jax.Array]
MIN_EFFECTIVE_SHARE = 0.5  # particles are drawn anew when their effective number falls below this share


@struct.dataclass
class BeliefMemory:
    """What a searching seat keeps during one game. K particles, P seats, T types of players."""

    seat: jax.Array  # i32[]
    returns: jax.Array  # f32[P], earned so far
    own: PyTree  # of its policy, after its decision before
    particles: State | None  # K states, None without a belief
    log_weights: jax.Array  # f32[K], normalised
    types: jax.Array  # f32[K, P, T], log-probabilities of the type that holds a seat, in the world of each particle

    @property
    def posterior(self) -> jax.Array:
        """f32[P, T]: how likely each seat is held by each type."""
        return jnp.einsum("k,kpt->pt", jnp.exp(self.log_weights), jnp.exp(self.types))


@dataclasses.dataclass(frozen=True)
class Belief:
    """The rules of a belief.

    Attributes:
      lineup: the game, and the model of how the others choose.
      particles: K; 0 keeps none.
      doubt: the share of the others' choices that are uniformly random for all that the model knows.
      batch: particles to be weighed side by side.
      believe: (parameters, observation) -> odds of who holds what is hidden, see `jaxrl_envs.shared.card_beliefs`;
      worlds are then
        drawn by them.
    """

    lineup: Lineup
    particles: int
    doubt: float
    batch: int
    believe: Believe | None = None

    @property
    def env(self) -> Env:
        """The game."""
        return self.lineup.env

    def init(self, params: SearchParams, state: State, seat: jax.Array, key: Key) -> BeliefMemory:
        """The memory of `seat` (i32[]) before the first action."""
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
        """The memory after one step; see `jaxrl.players.player.Observe`."""
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
        """`count` worlds as `memory.seat` may believe them, in random order, each of the same weight, and who holds the
        seats there, by number of type: i32[count, P]."""
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
        """One uniformly drawn world. Raises UserError if the game cannot draw it."""
        world = self.env.permute_hidden(state, seat, key)
        if world is None:
            raise UserError(
                f"{self.env.id} cannot be searched: it does not say what a seat cannot see. If that is nothing, set "
                "perfect_information = True in the game; else write permute_hidden."
            )
        return self._seen(world)

    def _dealer(self, params: SearchParams, state: State, seat: jax.Array) -> Callable[[Key], State]:
        """Draws worlds: uniformly, or as the learnt belief has it, which is asked once for all of them."""
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
        """A world in which the others have chosen in secret as the model of them would with their cards there."""
        draw_key, choice_key = jax.random.split(key)
        model, its_params = self.lineup.others(params)

        def choose(world: State, key: Key) -> jax.Array:
            return model.act(its_params, model.memory(its_params, world, world.current_player, key), world, key)[0]

        world = deal(draw_key)
        return self._seen(self.env.with_secret_choices(world, seat, choose, choice_key))

    def _seen(self, world: State) -> State:
        """A world with the observation of the seat asked there, which may be another one than in the real state."""
        return world.replace(observation=self.env.observe(world, world.current_player))

    # ---- the filter -----------------------------------------------------------------------------------------------

    def _fresh(self, state: State, seat: jax.Array, key: Key) -> State:
        keys = jax.random.split(key, self.particles)
        return jax.vmap(lambda k: self.permuted(state, seat, k))(keys)

    def _reconciled(self, particles: State, actual: State, seat: jax.Array, key: Key) -> tuple[State, jax.Array]:
        count = particles.terminated.shape[0]

        def one(particle: State, k: Key) -> tuple[State, jax.Array]:
            result = self.env.reconcile(particle, actual, seat, k)
            assert result is not None  # `can_believe` was asked before
            return self._seen(result[0]), result[1]

        return jax.vmap(one)(particles, jax.random.split(key, count))

    def _weigh(self, params: SearchParams, lanes: tuple[State, jax.Array, Key]) -> jax.Array:
        """Log-likelihoods f32[C, K, T] of the seen actions in the particles of C games."""

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
        """The particles of one game after a step of `actor` (i32[]), weighed by f32[K, T] log-likelihoods and drawn
        anew if need be."""
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
        # Where none is left, worlds are drawn anew; of types what was heard in the old ones stays, this move included.
        heard = memory.replace(log_weights=jax.nn.log_softmax(memory.log_weights + likelihood), types=types).posterior
        fresh = self._fresh(after, memory.seat, fresh_key), jnp.broadcast_to(jnp.log(heard), types.shape)
        (particles, types), weights = select(jnp.any(alive), (kept, weights), (fresh, uniform))
        return memory.replace(particles=particles, log_weights=weights, types=types)


def can_believe(env: Env) -> bool:
    """Whether a game implements what a belief needs: `permute_hidden` and `reconcile`."""

    def ask(key: Key) -> bool:
        state = env.init(key)
        return env.reconcile(state, state, jnp.int32(0), key) is not None

    answers: list[bool] = []
    jax.eval_shape(lambda key: answers.append(ask(key)), jax.eval_shape(lambda: jax.random.key(0)))
    return answers[0]


def resample(log_weights: jax.Array, key: Key, count: int) -> jax.Array:
    """Systematic resampling: i32[count] indices, each particle as often as its share of f32[K] weights, up to one."""
    cumulative = jnp.cumsum(jax.nn.softmax(log_weights))
    points = (jnp.arange(count) + jax.random.uniform(key)) / count * cumulative[-1]
    index = jnp.searchsorted(cumulative, points, side="right")
    return jnp.minimum(index, log_weights.shape[0] - 1).astype(jnp.int32)
