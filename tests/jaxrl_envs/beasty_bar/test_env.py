"""The Beasty Bar environment, turn by turn, against the referee: what each seat sees, masks, rewards, opponents."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_envs import conformance
from jaxrl_envs.beasty_bar import bots
from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar.display.position import look
from jaxrl_envs.beasty_bar.env import REWARDS, BeastyBar
from jaxrl_envs.shared.errors import UserError
from tests.jaxrl_envs.beasty_bar.referee import beasty_bar as referee
from tests.jaxrl_envs.beasty_bar.referee import beasty_bar_bots as referee_bots
from tests.jaxrl_envs.beasty_bar.referee import beasty_bar_generate as generate

GAMES, TURNS = 64, 24


@cache
def recorded() -> list[dict]:
    return list(generate.games(3, GAMES))


@cache
def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decks, starting seats and actions (padded) of the recorded games."""
    actions = np.zeros((GAMES, TURNS), np.int32)
    for row, record in zip(actions, recorded(), strict=True):
        row[: len(record["moves"])] = [move[2] for move in record["moves"]]
    decks = np.asarray([record["decks"] for record in recorded()], np.int32)
    return decks, np.asarray([record["start"] for record in recorded()], np.int32), actions


def referee_games(record: dict) -> list[referee.Game]:
    """The game before every turn and after the last."""
    games = [referee.new_game(record["decks"], record["start"])]
    for move in record["moves"]:
        games.append(games[-1].after(move[2]))
    return games


@cache
def played():
    """States before every turn [games, turns], with both seats' features; rewards and end after it."""
    env = BeastyBar()

    def step(state, action):
        views = jax.vmap(lambda seat: env.features(env.observe(state, seat)))(jnp.arange(2))
        after = env.step(state, action, jax.random.key(0))
        return after, (state, views, after.rewards, after.terminated)

    def play(decks, start, actions):
        return jax.lax.scan(step, env.init_from_decks(decks, start), actions)

    return env, jax.device_get(jax.jit(jax.vmap(play))(*inputs()))


def test_every_seat_sees_what_it_may_see() -> None:
    _, (_, (states, views, _, _)) = played()
    for g, record in enumerate(recorded()):
        for t, game in enumerate(referee_games(record)[:-1]):
            expected = [referee.observation(game, seat) for seat in range(2)]
            np.testing.assert_allclose(views[g, t], expected, atol=1e-6, err_msg=f"game {g}, turn {t}")
            assert states.current_player[g, t] == game.actor
            assert np.flatnonzero(states.legal_action_mask[g, t]).tolist() == game.legal()


def test_rewards_end_and_statistics() -> None:
    env, (final, (_, _, rewards, terminated)) = played()
    for g, record in enumerate(recorded()):
        last = len(record["moves"]) - 1
        assert np.flatnonzero(terminated[g])[0] == last
        assert not rewards[g, :last].any() and not rewards[g, last + 1 :].any()
        assert rewards[g, last].tolist() == referee.rewards("win", record["points"])
    stats = jax.vmap(env.episode_stats)(final)
    assert stats["points"].tolist() == [record["points"] for record in recorded()]
    assert stats["starter"].tolist() == [[1.0 - record["start"], record["start"]] for record in recorded()]
    assert np.all(final.legal_action_mask)  # a finished game: everything is "legal"


@pytest.mark.parametrize("kind", REWARDS)
def test_kinds_of_rewards(kind: str) -> None:
    tables = played()[1][0].game.table
    got = jax.vmap(BeastyBar(reward=kind)._final)(tables)
    points = [record["points"] for record in recorded()]
    if kind == "wins":
        expected = [[1.0 if a > b else -1.0 for a, b in ((p, q), (q, p))] for p, q in points]
    else:
        expected = [referee.rewards("win" if kind == "outcome" else kind, pair) for pair in points]
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_every_card_is_in_one_zone_of_dealt_games() -> None:
    """Through the automatic deals too: a later game takes the cards dealt during the one before."""
    env, turns = BeastyBar(), 30

    def one(state, key):
        keys = jax.random.split(key, 3)
        state = env.step(state, env.random_action(state, keys[0]), keys[1])
        fresh = jax.tree.map(lambda a, b: jnp.where(state.terminated, a, b), env.reset(state, keys[2]), state)
        return fresh, fresh

    def play(key):
        return jax.lax.scan(one, env.init(key), jax.random.split(jax.random.fold_in(key, 1), turns))[1]

    states = jax.device_get(jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(4), 40)))
    starts, fresh = set(), 0
    for g in range(40):
        for t in range(turns):
            table = look(jax.tree.map(lambda leaf, g=g, t=t: leaf[g, t], states))
            fresh += table.ply == 0
            starts.add(table.start)
            for number, seat in enumerate(table.seats):
                queued = [code % c.SPECIES + 1 for code in table.queue if code // c.SPECIES == number]
                everything = [*queued, *seat.bar, *seat.out, *(seat.hand or ()), *(seat.deck or ())]
                assert sorted(everything) == [*range(1, 13)]
                assert len(seat.hand or ()) == min(4, 12 - (table.ply + (number == table.start)) // 2)
    assert fresh >= 40 and starts == {0, 1}


@cache
def positions() -> tuple[np.ndarray, jax.Array]:
    """States in mid-game with more than one legal id, one of each recorded game."""
    _, (_, (states, _, _, _)) = played()
    turns = [next(t for t in range(g % 14, TURNS) if states.legal_action_mask[g, t].sum() > 1) for g in range(GAMES)]
    return np.asarray(turns), jax.tree.map(lambda leaf: jnp.asarray(leaf[np.arange(GAMES), turns]), states)


def test_hidden_cards_change_nothing_but_themselves() -> None:
    env, (_, states) = BeastyBar(), positions()

    weights = np.stack([bots.weights_of(name) for name in bots.NAMES])

    @jax.jit
    @jax.vmap
    def redraw(state, key):
        seat = state.current_player
        pair = jax.tree.map(lambda *leaves: jnp.stack(leaves), state, env.permute_hidden(state, seat, key))

        def seen(state):
            scores = jax.vmap(lambda row: bots.scores(state, bots.legal_slots(state.legal), row))(weights)
            return scores, env.observe(state, seat), state.legal_action_mask, state.current_player, state.legal

        return jax.vmap(seen)(pair), pair.game

    both, pair = jax.device_get(redraw(states, jax.random.split(jax.random.key(1), GAMES)))
    before, after = (jax.tree.map(lambda leaf, i=i: leaf[:, i], pair) for i in range(2))
    for leaf in both:
        np.testing.assert_array_equal(leaf[:, 0], leaf[:, 1])
    jax.tree.map(np.testing.assert_array_equal, before.table, after.table)
    changed = (before.hands != after.hands) | (before.deck0 != after.deck0) | (before.deck1 != after.deck1)
    assert changed.mean() > 0.8
    for i in range(GAMES):
        for game in (before, after):
            one = jax.tree.map(lambda leaf, i=i: leaf[i], game)
            decks = [[int(word) >> 4 * k & 15 for k in range(8)] for word in (one.deck0, one.deck1)]
            left = [8 - min((int(one.ply) + (seat == int(one.start))) // 2, 8) for seat in range(2)]
            for seat in range(2):
                table = int(one.table.bar) | int(one.table.out)
                queue = {(int(one.table.queue) >> 5 * k & 31) - 1 for k in range(5)}
                gone = {s for s in range(12) if table >> 12 * seat + s & 1 or 12 * seat + s in queue}
                hand = {s for s in range(12) if int(one.hands) >> 12 * seat + s & 1}
                assert gone | hand | set(decks[seat][: left[seat]]) == set(range(12))


# ---- the opponents --------------------------------------------------------------------------------------------------


def choices(name: str, count: int) -> np.ndarray:
    """i32[GAMES, count]: what an opponent plays in every position with `count` keys."""
    _, states = positions()
    index = jnp.int32(bots.NAMES.index(name))
    return np.asarray(_ask(states, index, jax.random.split(jax.random.key(2), count)))


@jax.jit
def _ask(states, index, keys):
    play = BeastyBar().bot_switch(bots.NAMES)
    return jax.vmap(lambda state: jax.vmap(lambda key: play(state, index, key))(keys))(states)


@cache
def odds() -> np.ndarray:
    """f[GAMES, actions, bots]: how likely each opponent is to choose each action in every position."""
    play, env = BeastyBar().bot_odds(bots.NAMES), BeastyBar()
    each = jax.vmap(jax.vmap(play, in_axes=(None, 0)), in_axes=(0, None))
    return np.asarray(jax.jit(each)(positions()[1], jnp.arange(env.num_actions)))


@cache
def referee_positions() -> list[referee.Game]:
    turns, _ = positions()
    return [referee_games(record)[t] for record, t in zip(recorded(), turns, strict=True)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in bots.NAMES if name != "noisy"])
def test_opponents_draw_uniformly_from_their_best_ids(name: str) -> None:
    count, told = 1_000, odds()[:, :, bots.NAMES.index(name)]
    for game, chosen, likely in zip(referee_positions(), choices(name, count), told, strict=True):
        best = referee_bots.best(name, game)
        np.testing.assert_allclose(likely, np.isin(np.arange(31), best) / len(best), atol=1e-6)
        shares = np.bincount(chosen, minlength=31) / count
        assert set(np.flatnonzero(shares)) == set(best)
        np.testing.assert_allclose(shares[best], 1 / len(best), atol=0.08)


def test_noisy_is_heuristic_with_one_normal_noise_per_legal_id() -> None:
    count, rng, undecided = 1_000, np.random.default_rng(0), 0
    told = odds()[:, :, bots.NAMES.index("noisy")]
    for game, chosen, likely in zip(referee_positions(), choices("noisy", count), told, strict=True):
        legal, scores = game.legal(), np.asarray(referee_bots.scores("heuristic", game))
        drawn = np.argmax(scores + rng.normal(0, 0.15, (4 * count, len(legal))), axis=1)
        expected = np.bincount(drawn, minlength=len(legal)) / len(drawn)
        shares = np.asarray([np.mean(chosen == number) for number in legal])
        np.testing.assert_allclose(shares, expected, atol=0.08)
        np.testing.assert_allclose(likely[legal], expected, atol=0.04)  # five standard errors of 4,000 draws
        np.testing.assert_allclose(likely.sum(), 1.0, atol=1e-3)
        undecided += expected.max() < 0.9
    assert undecided >= 5


# ---- the contract ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_conformance() -> None:
    report = conformance.check(BeastyBar(), games=16)
    assert report.ok, str(report)


@pytest.mark.parametrize("options", [{"reward": "points"}, {"start": 2}])
def test_wrong_options(options: dict) -> None:
    with pytest.raises(UserError, match="beasty_bar: "):
        BeastyBar(**options)


def test_the_starting_seat_can_be_fixed() -> None:
    keys = jax.random.split(jax.random.key(0), 40)
    starters = {start: jax.jit(jax.vmap(BeastyBar(start=start).init))(keys).current_player for start in (1, -1)}
    assert starters[1].tolist() == [1] * 40 and 5 < int(starters[-1].sum()) < 35


def test_the_game_after_an_illegal_action_is_dealt_in_full() -> None:
    env = BeastyBar()

    def cut(key):
        after = env.step(env.init(key), jnp.int32(-1), key)
        return after, env.reset(after, key)

    after, fresh = jax.jit(jax.vmap(cut))(jax.random.split(jax.random.key(3), 256))
    assert np.all(after.illegal_action) and not np.any(fresh.illegal_action | fresh.terminated)
    for seat, deck in enumerate((fresh.game.deck0, fresh.game.deck1)):
        hands = np.asarray(fresh.game.hands)[:, None] >> (12 * seat + np.arange(12)) & 1
        decks = np.asarray(deck)[:, None] >> 4 * np.arange(8, dtype=np.uint32) & 15
        both = [sorted([*np.flatnonzero(hand), *below]) for hand, below in zip(hands, decks, strict=True)]
        assert both == [list(range(12))] * len(both)
        assert len(np.unique(decks, axis=0)) > 100  # not always the same cards
