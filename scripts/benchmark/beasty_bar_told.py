"""`python told.py pad | judge RUN ...`: what being told which of the ten bots sits opposite is worth at Beasty Bar.

Save it as told.py. `pad` writes told.jaxrl, the policy of the zoo with rows of zeros for ten more inputs, from which
`jaxrl train env.id=told:Told train.from_run=told.jaxrl` goes on. `judge` plays the newest policy of runs against the
ten bots, told the truth, a lie and nothing.
"""

from __future__ import annotations

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl import config as configs
from jaxrl import zoo
from jaxrl.algorithms.registry import trained_player
from jaxrl.policies.export import load_policy, save_policy
from jaxrl.runs.directory import TrainedRun, load_run
from jaxrl.statistics import Z95
from jaxrl_envs.beasty_bar import bots, observe
from jaxrl_envs.beasty_bar.deal import Pile
from jaxrl_envs.beasty_bar.env import BeastyBar, BeastyBarState
from jaxrl_envs.contract.env import Key, State

BOTS = len(bots.NAMES)
WEIGHTS = {"random": 0.3, "outcome": 1.5, "distilled": 1.5}  # how often each sits opposite, as in the preset
SHARES = np.array([WEIGHTS.get(name, 1.0) for name in bots.NAMES])
TURNS, BATCH, BATCHES = 24, 10_000, 4
SEED = 20250101


@struct.dataclass
class ToldState(BeastyBarState):
    """A game against one of the bots."""

    who: jax.Array  # i32[]


class Told(BeastyBar):
    """Beasty Bar against the bot `drawn`, which is one of the ten in each game."""

    id = "beasty_bar_told"
    reference_bot = "drawn"

    def __init__(self, *, reward: str = "outcome", lookahead: bool = True, told: str = "truth"):
        """Makes a table; `told`: truth | lie | nothing."""
        super().__init__(reward=reward, lookahead=lookahead)
        self.told = told
        self.switch = bots.make_switch(bots.NAMES)

    def _begin(self, piles: tuple[Pile, ...], key: Key) -> ToldState:
        start_key, who_key = jax.random.split(key)
        state = super()._begin(piles, start_key)
        leaves = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
        return ToldState(**leaves, who=jax.random.categorical(who_key, jnp.log(SHARES)).astype(jnp.int32))

    @property
    def bots(self):
        return {"drawn": lambda state, key: self.switch(state, state.who, key)}

    def bot_switch(self, names):
        return lambda state, index, key: self.switch(state, state.who, key)

    def observe(self, state: State, seat: jax.Array) -> jax.Array:
        """Returns the words of the game and the number of the bot; a lie names the one from the list's other end."""
        who = BOTS - 1 - state.who if self.told == "lie" else state.who
        return jnp.append(observe.pack(state.game, seat), who.astype(jnp.uint32))

    def features(self, observation: jax.Array) -> jax.Array:
        """Returns those of the game and ten more, all 0 where nothing is told."""
        who = (jnp.arange(BOTS) == observation[-1]) & (self.told != "nothing")
        return jnp.concatenate([super().features(observation[:-1]), who.astype(jnp.float32)])


def pad() -> None:
    """Writes told.jaxrl."""
    params = jax.tree.map(np.asarray, load_policy(zoo.FOLDER / "beasty_bar.jaxrl").params)
    first = params["params"]["dense_0"] if "params" in params else params["dense_0"]
    first["kernel"] = np.concatenate([first["kernel"], np.zeros((BOTS, first["kernel"].shape[1]), np.float32)])
    config = configs.load("beasty_bar", ["env.id=told:Told"], ("told",))
    save_policy("told.jaxrl", TrainedRun("told", config, Told(), 0, [params], ""))


def judge(name: str, told: str) -> None:
    """Prints the games that a run wins against each bot."""
    run = load_run(name, "newest", ("told",))
    env = Told(told=told)
    player = trained_player(run.config, env, name, None, greedy=True)

    def play(number: jax.Array, key: Key) -> jax.Array:
        deal_key, play_key = jax.random.split(key)
        me = number // BOTS % 2
        state = env._with_observation(env.init(deal_key).replace(who=number % BOTS))

        def turn(state: State, key: Key) -> tuple[State, jax.Array]:
            bot_key, step_key = jax.random.split(key)
            own = player.act(run.params[0], (), state, bot_key)[0]
            action = jnp.where(state.current_player == me, own, env.switch(state, state.who, bot_key))
            state = env.step(state, action.astype(jnp.int32), step_key)
            return state, state.rewards[me]

        return jax.lax.scan(turn, state, jax.random.split(play_key, TURNS))[1].sum() > 0

    batch = jax.jit(lambda key: jax.vmap(play)(jnp.arange(BATCH), jax.random.split(key, BATCH)))
    keys = jax.random.split(jax.random.key(SEED), BATCHES)
    won = np.stack([np.asarray(batch(key)) for key in keys]).reshape(-1, BOTS).mean(axis=0)
    half = Z95 * np.sqrt(np.sum(won * (1 - won) / (BATCH * BATCHES / BOTS))) / BOTS
    each = " ".join(f"{bot} {100 * share:.1f}" for bot, share in zip(bots.NAMES, won, strict=True))
    print(f"{name}, told {told}: {100 * won.mean():.2f} (± {100 * half:.2f}): {each}")


if __name__ == "__main__":
    if sys.argv[1:] == ["pad"]:
        pad()
    for run_name in sys.argv[2:]:
        for answer in ("truth", "lie", "nothing"):
            judge(run_name, answer)
