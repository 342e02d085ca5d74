"""The environment of Beasty Bar: options, dealing ahead, rewards and statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxrl_envs.beasty_bar import bots, lookahead, observe, rules
from jaxrl_envs.beasty_bar.cards import HAND_SIZE, SPECIES, card_name, of_seat
from jaxrl_envs.beasty_bar.deal import Pile, deal_all, deal_card, given, spare_pile
from jaxrl_envs.beasty_bar.display import drawing, events, position, render, upright
from jaxrl_envs.beasty_bar.display.how_to_play import TEXT
from jaxrl_envs.beasty_bar.rules import NUM_ACTIONS, BeastyBarGame, Zones
from jaxrl_envs.contract.env import Bot, ClickArea, Key, State, Tokens, public_fields, select
from jaxrl_envs.shared.cards import nth_set_bit, scale
from jaxrl_envs.shared.display.forms import TwoForms
from jaxrl_envs.shared.errors import UserError

REWARDS = ("outcome", "wins", "margin", "shaped")


@struct.dataclass
class BeastyBarState(State):
    """The public leaves, the position, the legal actions as one word, and the deal of the next game so far."""

    game: BeastyBarGame
    legal: jax.Array  # u32[], bit = action
    next: tuple[Pile, Pile]


class BeastyBar(TwoForms):
    """Beasty Bar for two players, 31 actions, 21 to 24 turns.

    Dealing: each turn deals one card per seat of the *next* game, whose deal is complete after twelve turns. A game
    that follows one cut short by an illegal action is dealt from piles shuffled in advance (`deal.spare_pile`).
    """

    id = "beasty_bar"
    version = "1"
    public_actions = True
    multi_output_fusion = True
    reference_bot = "distilled"
    how_to_play = TEXT
    free_options = ("reward",)
    wide, tall = drawing, upright

    def __init__(self, *, reward: str = "outcome", start: int = -1, lookahead: bool = False):
        """Makes a table.

        Args:
          reward: outcome (+1 win, 0 draw, -1 loss) | wins (+1 win, -1 otherwise, for both) | margin (points / 36) |
            shaped (the outcome, larger for larger margins); always on the last turn, specification section 10.
          start: the seat that begins, 0 or 1; -1: drawn for each game.
          lookahead: features of dense networks also tell what each action would do to the table in this turn; card
            tokens, which a transformer reads, stay as they are.
        """
        if reward not in REWARDS:
            raise UserError(f"beasty_bar: reward must be one of {', '.join(REWARDS)}, not {reward!r}")
        if start not in (-1, 0, 1):
            raise UserError(f"beasty_bar: start must be 0, 1 or -1 (drawn), not {start}")
        self.num_players, self.num_actions = 2, NUM_ACTIONS
        self.reward, self.start, self.lookahead = reward, start, lookahead

    # ---- the contract -------------------------------------------------------------------------------------------

    def _init(self, key: Key) -> BeastyBarState:
        keys = jax.random.split(key, 3)
        piles = tuple(deal_all(Pile.full(), 0, HAND_SIZE, keys[seat]) for seat in range(2))
        return self._begin(piles, keys[2])

    def reset(self, state: State, key: Key) -> BeastyBarState:
        spare_key, start_key = jax.random.split(key)
        bits = jax.random.bits(spare_key, (2,))
        piles = [select(pile.is_dealt, pile, spare_pile(bits[i])) for i, pile in enumerate(state.next)]
        return self._with_observation(self._begin(tuple(piles), start_key))

    def _step(self, state: State, action: jax.Array, key: Key) -> BeastyBarState:
        bits = jax.random.bits(key, (2,))
        dealt = tuple(deal_card(pile, state.game.ply, HAND_SIZE, bits[i]) for i, pile in enumerate(state.next))
        state = self._wrap(state.replace(next=dealt), rules.step(state.game, action.astype(jnp.int32)))
        ended = rules.is_over(state.game.table)
        return state.replace(
            rewards=jnp.where(ended, self._final(state.game.table), 0.0),
            terminated=ended,
        )

    def observe(self, state: State, seat: jax.Array) -> jax.Array:
        return observe.pack(state.game, seat)

    def features(self, observation: jax.Array) -> jax.Array:
        compact = observe.features(observation)
        return jnp.concatenate([compact, lookahead.effects(observation)]) if self.lookahead else compact

    def tokens(self, observation: jax.Array) -> Tokens:
        return observe.tokens(observation)

    def privileged(self, state: State, seat: jax.Array) -> jax.Array:
        return observe.privileged(state.game, seat)

    def privileged_features(self, privileged: jax.Array) -> jax.Array:
        return observe.privileged_features(privileged)

    def is_legal(self, state: State, action: jax.Array) -> jax.Array:
        action = jnp.asarray(action).astype(jnp.int32)
        bit = (state.legal >> jnp.clip(action, 0, NUM_ACTIONS - 1).astype(jnp.uint32)) & 1
        return (bit != 0) & (action >= 0) & (action < NUM_ACTIONS)

    def random_action(self, state: State, key: Key) -> jax.Array:
        count = lax.population_count(state.legal).astype(jnp.int32)
        return nth_set_bit([state.legal], scale(jax.random.bits(key), count))

    @property
    def bots(self) -> Mapping[str, Bot]:
        return bots.make_bots()

    def bot_switch(self, names: Sequence[str]) -> Callable[[State, jax.Array, Key], jax.Array]:
        self._require_bots(names)
        return bots.make_switch(names)

    def bot_odds(self, names: Sequence[str]) -> Callable[[State, jax.Array], jax.Array]:
        self._require_bots(names)
        return bots.make_odds(names)

    def permute_hidden(self, state: State, seat: jax.Array, key: Key) -> BeastyBarState:
        return self._wrap(state, observe.redraw_hidden(state.game, seat, key))

    def reconcile(self, particle: State, actual: State, seat: jax.Array, key: Key) -> tuple[BeastyBarState, jax.Array]:
        game, possible = observe.reconcile(particle.game, actual.game, seat, key)
        return self._wrap(actual, game), possible

    def episode_stats(self, state: State) -> dict[str, jax.Array]:
        """points: in the bar; starter: 1 for the seat that began."""
        return {
            "points": rules.scores(state.game.table).astype(jnp.float32),
            "starter": (np.arange(2) == state.game.start).astype(jnp.float32),
        }

    def render(self, state: State, seat: int | None = None) -> str:
        return render.render_text(self, state, seat)

    def render_svg(self, state: State, seat: int | None = None) -> str:
        return str(self.form(seat).draw(position.look(state, seat)))

    def settled_svg(self, before: State, action: int, after: State, seat: int | None = None) -> str:
        table = position.settled(before, int(action), after, seat)
        return str(self.form(seat).draw(table)) if table else ""

    def click_areas(self, state: State, seat: int) -> list[ClickArea]:
        legal = np.flatnonzero(np.asarray(state.legal_action_mask)).tolist()
        areas: list[ClickArea] = self.form(seat).click_areas(position.look(state, seat), seat, legal)
        return areas

    def worth(self, value: float, standing: bool = False) -> str:
        if self.reward in ("outcome", "wins"):
            return f"{np.clip(50 * (1 + value), 0, 100):.0f} % to win"
        return f"{36 * value:+.0f} points" if self.reward == "margin" else super().worth(value)

    def event(self, before: State, action: Any, after: State, seat: int | None = None) -> str:
        return events.describe(self, before, int(action), after, seat)

    def action_name(self, action: int) -> str:
        if action < rules.FIRST_KANGAROO:
            return card_name(0 if action == 0 else 3 if action == 1 else action + 3)
        if action < rules.FIRST_PARROT:
            return f"kangaroo over {action - rules.FIRST_KANGAROO + 1}"
        if action < rules.FIRST_CHAMELEON:
            return f"parrot at place {action - rules.FIRST_PARROT + 1}"
        place, choice = divmod(action - rules.FIRST_CHAMELEON, 4)
        return f"chameleon as place {place + 1}" + (f", choice {choice + 1}" if choice else "")

    # ---- given deals --------------------------------------------------------------------------------------------

    def init_from_decks(self, decks: jax.Array, start: jax.Array) -> BeastyBarState:
        """Returns a game from given card orders.

        Args:
          decks: integers [2, 12], strengths: the first four are the seat's hand, the rest its deck from the top.
          start: i32[], the seat that begins.
        """
        piles = (given(decks[0]), given(decks[1]))
        return self._with_observation(self._deal(piles, jnp.asarray(start).astype(jnp.int32)))

    # ---- private ------------------------------------------------------------------------------------------------

    def _begin(self, piles: tuple[Pile, ...], key: Key) -> BeastyBarState:
        drawn = (jax.random.bits(key) >> 31).astype(jnp.int32)
        return self._deal(piles, drawn if self.start < 0 else jnp.int32(self.start))

    def _deal(self, piles: tuple[Pile, ...], start: jax.Array) -> BeastyBarState:
        """Returns a new game; `observation` still has to be filled in."""
        nothing = jnp.uint32(0)
        game = BeastyBarGame(
            table=Zones(queue=nothing, bar=nothing, out=nothing),
            hands=piles[0].hand | piles[1].hand << SPECIES,
            deck0=piles[0].deck,
            deck1=piles[1].deck,
            ply=jnp.int32(0),
            start=start,
        )
        public = public_fields(num_players=2, num_actions=NUM_ACTIONS)
        state = BeastyBarState(observation=None, game=game, legal=nothing, next=(Pile.full(), Pile.full()), **public)
        return self._wrap(state, game)

    def _wrap(self, state: State, game: BeastyBarGame) -> BeastyBarState:
        assert isinstance(state, BeastyBarState)
        seat = game.seat
        over = rules.is_over(game.table)
        possible = rules.legal_word(game.table, of_seat(game.hands, seat))
        legal = jnp.where(over, jnp.uint32((1 << NUM_ACTIONS) - 1), possible)
        mask = ((legal >> np.arange(NUM_ACTIONS, dtype=np.uint32)) & 1).astype(bool)
        return state.replace(game=game, legal=legal, current_player=seat, legal_action_mask=mask)

    def _final(self, table: Zones) -> jax.Array:
        """f32[2]: what the seats earn when the game is over."""
        points = rules.scores(table)
        margin = (points - points[::-1]).astype(jnp.float32)
        sign = jnp.sign(margin)
        if self.reward == "outcome":
            return sign
        if self.reward == "wins":
            return jnp.where(sign > 0, 1.0, -1.0)
        if self.reward == "margin":
            return margin / 36
        return sign * jnp.minimum(1 + 0.1 * jnp.abs(margin), 2.0)
