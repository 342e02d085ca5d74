"""The Skull King environment, decision by decision, against the referee: what each seat sees, masks and rewards."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs.shared.card_beliefs import draw, uniform
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.skull_king import cards, history, observe
from jaxrl_envs.skull_king.env import SkullKing
from tests.jaxrl_envs.skull_king.referee import skull_king as referee
from tests.jaxrl_envs.skull_king.referee import skull_king_tricks as tricks
from tests.support import generate

TABLES = [(4, 1, 1), (7, 0, 1)]  # 7 players without expansion: the stock is empty in round 10
GAMES = 5


@cache
def recorded(table: tuple[int, int, int]) -> list[dict]:
    first, cycle = generate.CONFIGURATIONS.index(table), len(generate.CONFIGURATIONS)
    return [generate.random_game(11, first + cycle * i) for i in range(GAMES)]


def actions(record: dict) -> list[int]:
    return [decision[3] for entry in record["rounds"] for decision in entry["dec"]]


@cache
def played(table: tuple[int, int, int]):
    """Per game and decision: (views of all seats, current player, legal mask) before it; rewards and end after it; what
    all seats remember and cannot see before it."""
    n, expansion, abilities = table
    env = SkullKing(
        players=n,
        expansion=bool(expansion),
        abilities=bool(abilities),
        reward="points_dense",
        history=True,
        by_round=True,
    )
    records = recorded(table)
    length = max(len(actions(record)) for record in records)
    moves = np.zeros((GAMES, length), np.int32)
    decks = np.zeros((GAMES, 10, 74), np.uint8)
    for i, record in enumerate(records):
        moves[i, : len(actions(record))] = actions(record)
        decks[i, :, : len(record["decks"][0])] = record["decks"]

    def step(state, action):
        seats = jnp.arange(n)
        packed = jax.vmap(lambda seat: observe.pack(state.game, seat, env.setup))(seats)
        views = jax.vmap(lambda words: observe.unpack(words, env.setup))(packed)
        own = jax.tree.map(lambda leaf: leaf[state.current_player], views)
        same = jnp.all(observe.unpack(state.observation, env.setup).hand == own.hand)
        after = env.step(state, action, jax.random.key(0))
        before = (views, state.current_player, state.legal_action_mask, same)
        remembered = jax.vmap(partial(history.expand, setup=env.setup))(
            packed[:, observe.NUM_WORDS :], views.seen, views.tricks
        )
        hidden = jax.vmap(lambda seat: env.privileged_features(env.privileged(state, seat)))(seats)
        return after, (*before, after.rewards, after.terminated, after.illegal_action, (*remembered, hidden))

    def play(decks, first, moves):
        return jax.lax.scan(step, env.init_from_decks(decks, first), moves)

    first = np.asarray([record["first"] for record in records], np.int32)
    return env, jax.device_get(jax.jit(jax.vmap(play))(decks, first, moves))


def words(card_ids) -> list[int]:
    """A set of cards as the three words of a `CardSet`."""
    total = sum(1 << cards.slot_of(card) for card in card_ids)
    return [total >> (32 * i) & 0xFFFFFFFF for i in range(3)]


def expected_view(game: referee.Game, seat: int) -> dict:
    """The unpacked observation of a seat from the referee's account of what it may see."""
    view, n = game.view(seat), game.n
    around = [(seat + i) % n for i in range(n)]

    def relative(other: int | None) -> int:
        return -1 if other is None else (other - seat) % n

    table: list[tricks.Play] = view["table"]
    winner = tricks.winning_play(table)
    bids = [view["bids"][s] if view["bids"] else view["own_bid"] if s == seat else None for s in around]
    beasts = [play for play in table if play.beast]
    suit = tricks.suit_to_follow(table)
    drawers = [s for s in range(n) if view["bendt_drawn"][s]]
    return {
        "hand": words(view["hand"]),
        "seen": words({play.card for play in view["played"]}),
        "out": words({*view["own_discarded"], *(view["own_jade_view"] or ())}),
        "plays": [next((1 + (74 if p.as_pirate else p.card) for p in table if p.seat == s), 0) for s in around],
        "bids": [bid or 0 for bid in bids],
        "bid_known": [bid is not None for bid in bids],
        "won": [view["won"][s] for s in around],
        "captured": [view["bonus"][s] // 10 for s in around],
        "wagers": [view["bets"][s] // 10 for s in around],
        "voids": [sum(1 << void for void in view["shown_void"][s]) for s in around],
        "allies": [sum(s != seat and s in pair and seat in pair for pair in view["allies"]) for s in around],
        "score_gap": [view["totals"][s] - view["totals"][seat] for s in around],
        "phase": game.phase,
        "actor": relative(game.actor),
        "winner": relative(winner.seat if winner else None),
        "trick_size": len(table),
        "tricks": len(view["tricks"]),
        "number": game.round,
        "harry": relative(view["harry_owner"]),
        "bendt": relative(drawers[0] if drawers else None),
        "bendt_drawn": sum(view["bendt_drawn"]),
        "bendt_left": game.discards_left,
        "beast": 0 if not beasts else 1 if beasts[-1].card == tricks.KRAKEN else 2,
        "stock": view["stock_size"],
        **({"leader": relative(table[0].seat if table else game.actor)} if game.phase == referee.PLAY else {}),
        **({"follow": 5} if table and table[0].frees_trick else {"follow": 4 if suit is None else suit}),
    }


def winners(game: referee.Game) -> tuple[list[int], list[int], bool]:
    """Words of the unplayed cards that would win now, of the played cards, and whether the Tigress as pirate would."""
    gone = {play.card for play in game.played}

    def wins(play: tricks.Play) -> bool:
        return tricks.winning_play([*game.table, play]) is play

    able = [card for card in range(74) if card not in gone and wins(tricks.Play(game.actor, card))]
    return words(able), words(gone), wins(tricks.Play(game.actor, tricks.TIGRESS, True))


@pytest.mark.thorough
@pytest.mark.parametrize("table", TABLES)
def test_every_seat_sees_what_it_may_see(table: tuple[int, int, int]) -> None:
    _, (_, steps) = played(table)
    views, own_observation_matches = steps[0], steps[3]
    assert np.all(own_observation_matches)
    for g, record in enumerate(recorded(table)):
        game = referee.replay(record)
        leaves = {name: leaf[g].tolist() for name, leaf in views._asdict().items()}
        for i, action in enumerate(actions(record)):
            able, gone, tigress = winners(game)
            for seat in range(game.n):
                got = {name: leaf[i][seat] for name, leaf in leaves.items()}
                expected = expected_view(game, seat)
                assert {name: got[name] for name in expected} == expected, (record["game"], i, seat)
                assert [w & ~out for w, out in zip(got["winners"], gone, strict=True)] == able, (record["game"], i)
                assert tigress == got["tigress_wins"] or tricks.TIGRESS in {play.card for play in game.played}
            game.step(action)


@pytest.mark.parametrize("table", TABLES)
def test_player_mask_reward_and_end(table: tuple[int, int, int]) -> None:
    _, (_, steps) = played(table)
    _, players, masks, _, rewards, terminated, illegal, _ = steps
    assert not np.any(illegal)
    for g, record in enumerate(recorded(table)):
        game = referee.replay(record)
        taken = actions(record)
        for i, action in enumerate(taken):
            assert players[g, i] == game.actor
            assert np.flatnonzero(masks[g, i]).tolist() == game.legal()
            before = game.totals
            game.step(action)
            earned = [(b - a) / 100 for a, b in zip(before, game.totals, strict=True)]
            np.testing.assert_allclose(rewards[g, i], earned, atol=1e-6)
            assert terminated[g, i] == (game.phase == referee.END)
        assert np.all(masks[g, len(taken) :])  # a finished game: everything is "legal", nothing is earned
        assert not np.any(rewards[g, len(taken) :])


def flags(card_ids) -> np.ndarray:
    """f32[74], 1 for each of these cards."""
    return np.isin(np.arange(74), list(card_ids)).astype(np.float32)


def memory_of(game: referee.Game, seat: int) -> np.ndarray:
    """f32[74, P + 2] of `history.expand` from the referee's list of plays."""
    found = np.zeros((74, game.n + 2), np.float32)
    for i, play in enumerate(game.played):
        found[play.card, (play.seat - seat) % game.n] = 1
        found[play.card, game.n :] = (len(game.tricks) - i // game.n) / 10, i % game.n == 0
    return found


def hidden_from(game: referee.Game, seat: int) -> np.ndarray:
    """f32[85 * P + 63] of `Env.privileged_features` from the referee's account of everything."""
    others = [(seat + i) % game.n for i in range(1, game.n)]
    sets = [*(game.hands[other] for other in others), game.stock, [] if any(game.bendt_drawn) else game.stock[:2]]
    bids = [np.arange(11) == (-1 if game.bids[other] is None else game.bids[other]) for other in others]
    return np.concatenate([*map(flags, sets), *bids]).astype(np.float32)


@pytest.mark.thorough
@pytest.mark.parametrize("table", TABLES)
def test_what_a_seat_remembers_and_what_a_critic_sees(table: tuple[int, int, int]) -> None:
    """Every card of the round by who played it, in which trick, and whether it was led; all cards that are hidden."""
    _, (_, steps) = played(table)
    remembered, pirate, hidden = steps[-1]
    for g, record in enumerate(recorded(table)):
        game = referee.replay(record)
        for i, action in enumerate(actions(record)):
            for seat in range(game.n):
                np.testing.assert_allclose(remembered[g, i, seat], memory_of(game, seat), atol=1e-6)
                np.testing.assert_array_equal(hidden[g, i, seat], hidden_from(game, seat))
            assert np.all(pirate[g, i] == any(play.as_pirate for play in game.played))
            game.step(action)


def test_networks_read_the_history() -> None:
    """It stands behind what was there before, in the features and in the flags of the cards."""
    plain, full = SkullKing(), SkullKing(history=True)
    assert plain.num_features == 518 and full.num_features == 518 + 74 * 6 + 1
    words = np.arange(50, dtype=np.uint32) * 0x9E3779B1
    tokens, longer = plain.tokens(words[:28]), full.tokens(words)
    np.testing.assert_array_equal(longer.features[:, :8], tokens.features)
    np.testing.assert_array_equal(longer.context[:-1], tokens.context)
    np.testing.assert_array_equal(full.features(words)[518:-1].reshape(74, 6), longer.features[:, 8:])
    assert full.observation_spec.shape == (28 + history.num_words(full.setup),)


@pytest.mark.thorough
def test_what_another_seat_saw_with_jade_reaches_no_world() -> None:
    """Neither worlds drawn by the rules nor those with given holders: both draw the stock, and what was seen of it."""
    env = SkullKing(players=3, episode="round", round_weights=[0, 0, 0, 0, 0, 0, 1, 0, 0, 0])

    @jax.jit
    @jax.vmap
    def after_tricks(key):
        def step(state, key):
            return env.step(state, env.random_action(state, key), key), None

        first, rest = jax.random.split(key)
        return jax.lax.scan(step, env.init(first), jax.random.split(rest, 20))[0]

    @jax.jit
    @jax.vmap
    def worlds(state, seat, key):
        keys = jax.random.split(key, 3)
        known = env.card_beliefs(env.observe(state, seat))
        given = env.world_with(state, seat, draw(uniform(known), known, keys[0]), keys[1])
        return [world.replace(observation=None) for world in (given, env.permute_hidden(state, seat, keys[2]))]

    states = after_tricks(jax.random.split(jax.random.key(0), 1024))
    looked = np.flatnonzero((states.game.round.jade >= 0) & ~states.terminated)[:32]
    assert len(looked) == 32
    states = jax.tree.map(lambda leaf: leaf[looked], states)
    r = states.game.round
    view = jax.tree.map(lambda leaf: jnp.roll(leaf, 1, axis=0), r.jade_view)  # of other games
    other = states.replace(game=states.game.replace(round=r.replace(jade_view=view)))
    seats, keys = (r.jade + 1) % 3, jax.random.split(jax.random.key(1), 32)
    first, second = worlds(states, seats, keys), worlds(other, seats, keys)
    assert any(bool((a != b).any()) for a, b in zip(jax.tree.leaves(states), jax.tree.leaves(other), strict=True))
    jax.tree.map(np.testing.assert_array_equal, first, second)


def test_returns_at_the_end() -> None:
    table = TABLES[0]
    env, (final, _) = played(table)
    game = final.game
    for kind in ("points", "margin", "rank", "win"):
        rewarding = partial(SkullKing(players=env.num_players, reward=kind)._rewards, ended=jnp.bool_(True))
        got = jax.vmap(lambda game, rewarding=rewarding: rewarding(game, game, None))(game)
        expected = [tricks.returns(kind, record["final"]) for record in recorded(table)]
        np.testing.assert_allclose(got, expected, atol=1e-5, err_msg=kind)
    stats = jax.vmap(env.episode_stats)(final)
    exact = [[sum(r["exact"][s] for r in record["rounds"]) / 10 for s in range(4)] for record in recorded(table)]
    np.testing.assert_allclose(stats["exact_bids"], exact, atol=1e-6)
    np.testing.assert_array_equal(stats["points"], [record["final"] for record in recorded(table)])
    for n in range(10):
        rounds = [record["rounds"][n] for record in recorded(table)]
        errors = [np.abs(np.subtract(entry["eff"], entry["won"])) for entry in rounds]
        np.testing.assert_array_equal(stats[f"points_round_{n + 1}"], [entry["scores"] for entry in rounds])
        np.testing.assert_array_equal(stats[f"bid_error_round_{n + 1}"], errors)
    with pytest.raises(UserError, match="whole games"):
        SkullKing(episode="round", by_round=True)


@pytest.mark.thorough
@pytest.mark.parametrize(("players", "expansion"), [(2, True), (4, True), (7, False), (8, True)])
def test_the_game_after_an_illegal_action_is_dealt_in_full(players: int, expansion: bool) -> None:
    env = SkullKing(players=players, expansion=expansion, episode="round")
    keys = jax.random.split(jax.random.key(3), 256)

    def cut(key):
        after = env.step(env.init(key), jnp.int32(99), key)
        return after, env.reset(after, key)

    after, fresh = jax.jit(jax.vmap(cut))(keys)
    assert np.all(after.illegal_action) and not np.any(fresh.illegal_action | fresh.terminated)
    number, hands = np.asarray(fresh.game.number), fresh.game.round.hands
    sets = np.stack([jax.vmap(lambda hands, s=seat: hands.of(jnp.int32(s)).bits())(hands) for seat in range(players)])
    assert set(number) == set(range(1, 11))
    np.testing.assert_array_equal(sets.sum(axis=2), np.minimum(number, env.setup.max_hand) * np.ones((players, 1)))
    top = np.asarray(jax.vmap(lambda cards: cards.bits())(fresh.game.round.top))
    left = env.setup.deck_size - players * np.minimum(number, env.setup.max_hand)
    np.testing.assert_array_equal(top.sum(axis=1), np.minimum(2, left))
    together = sets.sum(axis=0) + top
    assert together.max() == 1 and not together[:, ~np.isin(np.arange(96), cards.SLOTS[: env.setup.deck_size])].any()
    assert len(np.unique(sets[0], axis=0)) > 150  # not always the same cards
