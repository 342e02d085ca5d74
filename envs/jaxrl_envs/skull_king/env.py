"""The environment of Skull King: options, dealing ahead, rewards and statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxrl_envs.contract.env import (
    Bot,
    CameTrue,
    ClickArea,
    Key,
    PartScores,
    State,
    Tokens,
    public_fields,
    select,
)
from jaxrl_envs.shared import kernels
from jaxrl_envs.shared.card_beliefs import CardBeliefs
from jaxrl_envs.shared.cards import get_field, nth_set_bit, scale
from jaxrl_envs.shared.display.forms import TwoForms
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.skull_king import bots, goals, holders, observe, rules, worlds
from jaxrl_envs.skull_king import deal as dealing
from jaxrl_envs.skull_king.cards import card_name
from jaxrl_envs.skull_king.deal import NUM_ROUNDS, Deal, Setup
from jaxrl_envs.skull_king.display import drawing, events, position, render, upright
from jaxrl_envs.skull_king.display.how_to_play import COLOURS, TEXT
from jaxrl_envs.skull_king.rules import NUM_ACTIONS, SkullKingGame

REWARDS = ("points", "points_dense", "points_tricks", "margin", "rank", "win")
EPISODES = ("game", "round")
NETWORKS = ("table", "any")


@struct.dataclass
class SkullKingState(State):
    """The public leaves, the position, and the legal actions as four u32 words (see `rules.legal_words`)."""

    game: SkullKingGame
    legal: tuple[jax.Array, ...]
    by_round: dict[str, jax.Array]  # figures of the rounds scored, f32[10, P]; empty without the option


class SkullKing(TwoForms):
    """Skull King for 2 to 8 players, ten rounds, 100 actions.

    An episode is the whole game or, for faster learning, a single round. A single round starts from random totals, so
    that a network sees all the scores it will meet in whole games.

    Dealing: a full deal in every lane and step would cost more than the game, so each step deals `draws` random cards
    of the *next* round's deal, and a new round or game only takes the finished deal over. Only a game that follows one
    cut short by an illegal action is dealt from a few deals shuffled in advance (`deal.spare_deal`).
    """

    id = "skull_king"
    version = "1"
    multi_output_fusion = True
    reference_bot = "hard"
    how_to_play, colours = TEXT, COLOURS
    phases = goals.PHASES
    wide, tall = drawing, upright
    free_options: tuple[str, ...] = ("reward", "episode", "round_weights", "by_round", "network")

    def __init__(
        self,
        *,
        players: int = 4,
        expansion: bool = True,
        abilities: bool = True,
        reward: str = "points_dense",
        episode: str = "game",
        round_weights: Sequence[float] = (1.0,) * NUM_ROUNDS,
        history: bool = False,
        by_round: bool = False,
        network: str = "table",
    ):
        """Makes a table.

        Args:
          players: number of seats, 2 to 8.
          expansion: play with the Kraken, the White Whale and the two Loot cards.
          abilities: play with the five pirates' abilities.
          reward: points | points_dense | points_tricks | margin | rank | win (specification section 9; points_tricks
            pays each trick's change in the points that the round promises, in sum points_dense).
          episode: game (ten rounds) | round (a single round, for training).
          round_weights: relative frequency of rounds 1..10 when the episode is a single round.
          history: seats also see which seat played which card in which trick of the round, not only which are gone.
          by_round: the figures of a game also tell points and bid error (tricks too many or too few) of each round.
          network: tables that a network plays: table (like this one) | any (it reads eight seats, some of them empty,
            and the rules in play: one network for two to eight players with or without expansion and abilities).
        """
        if not 2 <= players <= 8:
            raise UserError(f"skull_king: players must be 2 to 8, not {players}")
        if reward not in REWARDS:
            raise UserError(f"skull_king: reward must be one of {', '.join(REWARDS)}, not {reward!r}")
        if episode not in EPISODES:
            raise UserError(f"skull_king: episode must be one of {', '.join(EPISODES)}, not {episode!r}")
        if episode == "round" and reward in ("rank", "win"):
            raise UserError(f"skull_king: reward {reward!r} ranks whole games; set episode to 'game'")
        if episode == "round" and by_round:
            raise UserError("skull_king: by_round tells the rounds of whole games; set episode to 'game'")
        if network not in NETWORKS:
            raise UserError(f"skull_king: network must be one of {', '.join(NETWORKS)}, not {network!r}")
        if network == "any":
            if history:
                raise UserError("skull_king: a history is of one number of players: leave it out, or network 'any'")
            self.free_options = (*self.free_options, "players", "expansion", "abilities")
        weights = np.asarray(round_weights, np.float32)
        if weights.shape != (NUM_ROUNDS,) or not np.all(np.isfinite(weights) & (weights >= 0)) or weights.sum() <= 0:
            raise UserError("skull_king: round_weights must be ten numbers >= 0 with a positive sum")
        self.num_players = players
        self.num_actions = NUM_ACTIONS
        self.reward, self.by_round = reward, by_round
        self.round_weights = weights / weights.sum()
        self.setup = Setup(
            players=players,
            expansion=bool(expansion),
            abilities=bool(abilities),
            single_round=episode == "round",
            draws=dealing.draws_needed(players, self.round_weights if episode == "round" else None),
            history=bool(history),
            padded=network == "any",
        )

    # ---- the contract -------------------------------------------------------------------------------------------

    def _init(self, key: Key) -> SkullKingState:
        number_key, deal_key, game_key = jax.random.split(key, 3)
        number = self._draw_number(number_key)
        bits = jax.random.bits(deal_key, (self.setup.players * self.setup.max_hand + 2,))
        deal = self._deal_all(Deal.empty(self.setup.players), number, bits)
        return self._begin(number, deal, game_key)

    def reset(self, state: State, key: Key) -> SkullKingState:
        spare_key, game_key = jax.random.split(key)
        number, deal = state.game.next_number, state.game.next
        spare = dealing.spare_deal(number, jax.random.bits(spare_key), self.setup)
        deal = select(dealing.is_dealt(deal, number, self.setup), deal, spare)
        return self._with_observation(self._begin(number, deal, game_key))

    def _step(self, state: State, action: jax.Array, key: Key) -> SkullKingState:
        bits = jax.random.bits(key, (self.setup.draws,))
        game, result = rules.step(state.game, action.astype(jnp.int32), bits, self.setup)
        ended = game.phase == rules.END
        rewards = self._rewards(state.game, game, result, ended)
        scored = self._with_round(state.by_round, result, state.game.number)
        return self._wrap(state, game).replace(rewards=rewards, terminated=ended, by_round=scored)

    def observe(self, state: State, seat: jax.Array) -> jax.Array:
        return observe.pack(state.game, seat, self.setup)

    def features(self, observation: jax.Array) -> jax.Array:
        return observe.features(observation, self.setup)

    def tokens(self, observation: jax.Array) -> Tokens:
        return observe.tokens(observation, self.setup)

    def canonical(self, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        return observe.canonical(observation, self.setup)

    def from_canonical(self, logits: jax.Array, names: jax.Array) -> jax.Array:
        return observe.from_canonical(logits, names)

    def privileged(self, state: State, seat: jax.Array) -> jax.Array:
        return observe.privileged(state.game, seat, self.setup)

    def privileged_features(self, privileged: jax.Array) -> jax.Array:
        return observe.privileged_features(privileged, self.setup)

    def manages(self, observation: jax.Array) -> jax.Array:
        """bool[]: a bid is asked."""
        return observe.unpack(observation, self.setup).phase == rules.BID

    def came_true(self, before: State, action: jax.Array, after: State) -> CameTrue | None:
        """Returns the bids that a scored round made true, where rewards are the points of rounds."""
        if self.reward not in ("points_dense", "points_tricks"):
            return None
        found = goals.came_true(before.game, action.astype(jnp.int32), self.setup)
        return CameTrue(jnp.where(after.illegal_action, -1, found.goal), found.reward / 100)

    def relabelled(self, observation: jax.Array, mask: jax.Array, goal: jax.Array) -> tuple[jax.Array, jax.Array]:
        return goals.relabelled(observation, mask, goal, self.setup)

    def phase(self, observation: jax.Array) -> dict[str, jax.Array]:
        return goals.phase(observation, self.setup)

    def is_legal(self, state: State, action: jax.Array) -> jax.Array:
        action = jnp.asarray(action).astype(jnp.int32)
        bit = rules.bit_of_action(jnp.clip(action, 0, NUM_ACTIONS - 1))
        word = jnp.uint32(0)
        for i, legal in enumerate(state.legal):
            word = jnp.where(bit >> 5 == i, legal, word)
        legal = ((word >> (bit & 31).astype(jnp.uint32)) & 1).astype(bool)
        return legal & (action >= 0) & (action < NUM_ACTIONS)

    def random_action(self, state: State, key: Key) -> jax.Array:
        count = sum(lax.population_count(word) for word in state.legal)
        k = scale(jax.random.bits(key), jnp.asarray(count))
        return rules.action_of_bit(nth_set_bit(state.legal, k))

    @property
    def bots(self) -> Mapping[str, Bot]:
        return bots.make_bots(self.setup)

    def permute_hidden(self, state: State, seat: jax.Array, key: Key) -> SkullKingState:
        return self._wrap(state, worlds.permute_hidden(state.game, seat, key, self.setup))

    def card_beliefs(self, observation: jax.Array) -> CardBeliefs:
        return holders.card_beliefs(observation, self.setup)

    def holders(self, observation: jax.Array, privileged: jax.Array) -> jax.Array:
        return holders.holders(observation, privileged, self.setup)

    def world_with(self, state: State, seat: jax.Array, holders: jax.Array, key: Key) -> SkullKingState:
        return self._wrap(state, worlds.world_with(state.game, seat, holders, key, self.setup))

    def with_secret_choices(self, state: State, seat: jax.Array, choose: Bot, key: Key) -> SkullKingState:
        """Returns the bids that others have made face down."""

        def bid(other: jax.Array) -> jax.Array:
            asked = self._wrap(state, state.game.replace(actor=other, phase=jnp.int32(rules.BID)))
            return choose(self._with_observation(asked), jax.random.fold_in(key, other))

        bids = jax.vmap(bid)(jnp.arange(self.num_players, dtype=jnp.int32))
        return self._wrap(state, worlds.with_bids(state.game, seat, bids, self.setup))

    def part(self, state: State) -> jax.Array:
        return state.game.number

    def standing(self, state: State) -> jax.Array:
        return worlds.standing(state.game, self.setup)

    def episode_stats(self, state: State) -> dict[str, jax.Array]:
        """points: points of the episode; win_share: 1/k for k tied winners; exact_bids: share of exact bids. With
        `by_round` also points_round_1 .. 10 and bid_error_round_1 .. 10."""
        game = state.game
        if self.setup.single_round:
            points, rounds = rules.score_round(game.round, game.number, self.setup)[0], 1
        else:
            points, rounds = game.scores, NUM_ROUNDS
        exact = get_field(game.exact, np.arange(self.num_players))
        return {
            "points": points.astype(jnp.float32),
            "win_share": rules.ranking(points)[2],
            "exact_bids": exact.astype(jnp.float32) / rounds,
            **{f"{name}_round_{n + 1}": each[n] for name, each in state.by_round.items() for n in range(NUM_ROUNDS)},
        }

    def render(self, state: State, seat: int | None = None) -> str:
        return render.render_text(self, state, seat)

    def render_svg(self, state: State, seat: int | None = None) -> str:
        return str(self.form(seat).draw(position.look(self, state, seat)))

    def settled_svg(self, before: State, action: int, after: State, seat: int | None = None) -> str:
        table = position.full_trick(self, before, int(action), seat)
        return str(self.form(seat).draw(table)) if table else ""

    def part_scores(self, before: State, action: int, after: State) -> PartScores | None:
        return events.round_scores(before, int(action), after)

    def click_areas(self, state: State, seat: int) -> list[ClickArea]:
        areas: list[ClickArea] = self.form(seat).click_areas(position.look(self, state, seat), seat)
        return areas

    def action_note(self, state: State, action: int) -> str:
        return events.promise(self, state, action)

    def worth(self, value: float, standing: bool = False) -> str:
        kind = ("margin" if self.setup.single_round else "win") if standing else self.reward
        if kind == "margin":
            return f"{100 * value:+.0f} points from the others' mean"
        if kind.startswith("points"):
            return f"{100 * value:+.0f} points" + " in this round" * self.setup.single_round
        return f"{np.clip(100 * value, 0, 100):.0f} % to win" if kind == "win" else super().worth(value)

    def event(self, before: State, action: Any, after: State, seat: int | None = None) -> str:
        return events.describe(self, before, int(action), after, seat)

    def action_name(self, action: int) -> str:
        if action < rules.FIRST_PLAY:
            return f"bid {action}"
        if action < rules.PLAY_TIGRESS_PIRATE:
            return card_name(action - rules.FIRST_PLAY)
        if action == rules.PLAY_TIGRESS_PIRATE:
            return "Tigress (pirate)"
        if action < rules.FIRST_ROATAN:
            return f"seat +{action - rules.FIRST_ROSIE} leads"
        if action < rules.FIRST_HARRY:
            return f"wager {10 * (action - rules.FIRST_ROATAN)}"
        return f"bid {action - rules.FIRST_HARRY - 1:+d}"

    # ---- given decks --------------------------------------------------------------------------------------------

    def init_from_decks(self, decks: jax.Array, first: jax.Array) -> SkullKingState:
        """Returns a whole game from given deck orders.

        Args:
          decks: integers [10, 74] (70 without the expansion; further columns are ignored), the deck of each round.
          first: i32[], the seat that starts round 1.
        """
        if self.setup.single_round:
            raise UserError("skull_king: given decks need episode 'game'")
        game = rules.game_from_decks(jnp.asarray(decks), first, self.setup)
        return self._with_observation(self._wrap(self._blank(game), game))

    def init_deal(self, key: Key) -> SkullKingState:
        if self.setup.single_round:
            return self._with_observation(self._init(key))
        deck_key, first_key = jax.random.split(key)
        order = jnp.arange(self.setup.deck_size)
        decks = jax.vmap(lambda k: jax.random.permutation(k, order))(jax.random.split(deck_key, NUM_ROUNDS))
        return self.init_from_decks(decks, jax.random.randint(first_key, (), 0, self.num_players))

    # ---- private ------------------------------------------------------------------------------------------------

    def _deal_all(self, deal: Deal, number: jax.Array, bits: jax.Array) -> Deal:
        def one(deal, bits):
            return dealing.deal_card(deal, number, bits, self.setup), None

        return lax.scan(one, deal, bits)[0]

    def _draw_number(self, key: Key) -> jax.Array:
        """Returns the round of an episode: 1, or drawn by weight when episodes are single rounds."""
        if not self.setup.single_round:
            return jnp.int32(1)
        below = jnp.asarray(np.cumsum(self.round_weights, dtype=np.float32)[:-1])
        return 1 + kernels.total(jax.random.uniform(key) >= below)

    def _begin(self, number: jax.Array, deal: Deal, key: Key) -> SkullKingState:
        """Returns a new episode; `observation` still has to be filled in."""
        first_key, next_key, score_key = jax.random.split(key, 3)
        first = scale(jax.random.bits(first_key), jnp.int32(self.num_players))
        game = rules.begin_game(number, deal, first, self.setup)
        if self.setup.single_round:
            spread = 30 * (number - 1)
            scores = jax.random.uniform(score_key, (self.num_players,), minval=-1.0, maxval=2.0) * spread
            game = game.replace(next_number=self._draw_number(next_key), scores=10 * (scores / 10).astype(jnp.int32))
        return self._wrap(self._blank(game), game)

    def _blank(self, game: SkullKingGame) -> SkullKingState:
        public = public_fields(num_players=self.num_players, num_actions=NUM_ACTIONS)
        nothing = jnp.zeros((NUM_ROUNDS, self.num_players), jnp.float32)
        by_round = dict.fromkeys(("points", "bid_error"), nothing) if self.by_round else {}
        return SkullKingState(observation=None, game=game, legal=(jnp.uint32(0),) * 4, by_round=by_round, **public)

    def _with_round(
        self, by_round: dict[str, jax.Array], result: rules.RoundResult, number: jax.Array
    ) -> dict[str, jax.Array]:
        """`SkullKingState.by_round` after a step in a round, which it may have scored."""
        if not by_round:
            return by_round
        bids, won = (get_field(each, np.arange(self.num_players)) for each in (result.round.bids, result.round.won))
        now = (np.arange(NUM_ROUNDS) == number - 1)[:, None] & result.scored
        figures = {"points": result.points, "bid_error": jnp.abs(bids - won)}
        return {name: jnp.where(now, figures[name].astype(jnp.float32), each) for name, each in by_round.items()}

    def _wrap(self, state: State, game: SkullKingGame) -> SkullKingState:
        assert isinstance(state, SkullKingState)
        legal = rules.legal_words(game, self.setup)
        mask = observe.expand_legal(legal)
        return state.replace(game=game, legal=legal, current_player=game.actor, legal_action_mask=mask)

    def _rewards(
        self, before: SkullKingGame, game: SkullKingGame, result: rules.RoundResult, ended: jax.Array
    ) -> jax.Array:
        """f32[P], specification section 9, of the step between two positions."""
        points = result.points if self.setup.single_round else game.scores
        own = points.astype(jnp.float32) / 100
        if self.reward == "points_dense":
            return result.points.astype(jnp.float32) / 100
        if self.reward == "points_tricks":
            old, new = (goals.promised(position.round, position.number, self.setup) for position in (before, game))
            return (jnp.where(result.scored, result.points, new) - old).astype(jnp.float32) / 100
        if self.reward == "points":
            final = own
        elif self.reward == "margin":
            final = (own - jnp.mean(own)) * (self.num_players / (self.num_players - 1))
        else:
            _, rank_return, win_share = rules.ranking(game.scores)
            final = rank_return if self.reward == "rank" else win_share
        return jnp.where(ended, final, 0.0)
