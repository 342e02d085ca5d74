"""Recorded Skull King games, single tricks and bot choices, and the same by the compiled engine.

Everything recorded is compared: who is asked and what is legal at every decision, winners, next leaders, captures and
alliances of every trick, every figure of every round, the final scores and ranks, and what the bots choose.

Games of one table (players and switches) are one program: `lax.scan` over the decisions, `jax.vmap` over the games.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxrl_envs.shared.cards import get_field
from jaxrl_envs.shared.golden import Disagreement, Kind, Record, batches, require, taken, unlike
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.bots import CHOOSE
from jaxrl_envs.skull_king.cards import KRAKEN, NUM_CARDS, TIGRESS, TIGRESS_PIRATE
from jaxrl_envs.skull_king.deal import Deal, Setup
from jaxrl_envs.skull_king.rules import NUM_ACTIONS, NUM_ROUNDS, SkullKingGame
from jaxrl_envs.skull_king.trick import Trick, resolve

CHECKED_BOTS = ("easy", "medium", "hard")
PHASES = ("BID", "PLAY", "ROSIE", "BENDT", "ROATAN", "HARRY", "END")
MAX_GAMES = 512  # of one call of a program: bounds the memory of the outputs
AT_ONCE = 1_500  # games: bounds the memory of the replayed ones
FLAG, ACTION, PHASE = range(2), range(NUM_ACTIONS), range(len(PHASES))


class Decided(NamedTuple):
    """One decision of a game by the engine; [games, decisions, ...]. P seats."""

    seat: jax.Array  # i32[], the seat asked
    phase: jax.Array  # i32[]
    number: jax.Array  # i32[], the round
    legal: jax.Array  # u32[4], `rules.legal_words`
    choices: jax.Array  # i32[3], what the three bots would do
    # After the action, before the next round is dealt:
    bids: jax.Array  # i32[P], after Harry
    won: jax.Array  # i32[P]
    captured: jax.Array  # i32[P], points
    wagers: jax.Array  # i32[P], points
    alliances: jax.Array  # i32[4], Loot player + 1 and trick winner + 1 of each Loot
    leader: jax.Array  # i32[], leads the current or next trick
    total: jax.Array  # i32[P]


# ---- what games look like -------------------------------------------------------------------------------------------


def actions_of(record: Record) -> list[int]:
    """Returns all actions of a game, in order."""
    if "actions" in record:
        return record["actions"]
    return [decision[3] for entry in record["rounds"] for decision in entry["dec"]]


def _max_decisions(players: int) -> int:
    """Returns the longest possible game: bids, plays and five ability decisions a round (specification section 6)."""
    most = 8 if players == 8 else 10
    return players * sum(1 + min(number, most) for number in range(1, NUM_ROUNDS + 1)) + 5 * NUM_ROUNDS


def _check_head(record: Record) -> None:
    n, cards = record["n"], list(range(NUM_CARDS if record["expansion"] else KRAKEN))
    require(record["first"] < n, "first must be a seat")
    require(all(sorted(deck) == cards for deck in record["decks"]), "a deck is not a permutation of the cards")
    require(len(record["final"]) == n, "final needs one number per seat")
    require(0 < len(actions_of(record)) <= _max_decisions(n), "the number of actions is impossible")


def _check_game(record: Record) -> None:
    _check_head(record)
    for entry in record["rounds"]:
        # Decisions are laid out as the bids, then the plays of each trick, so the two must belong together.
        phases = [decision[1] for decision in entry["dec"]]
        fits = phases.count(rules.PLAY) == record["n"] * len(entry["tricks"])
        require(fits, "plays and tricks do not belong together")
        require(phases[: record["n"]] == [rules.BID] * record["n"], "a round must begin with one bid per seat")


def _check_bots(record: Record) -> None:
    _check_head(record)
    fits = all(check["i"] < len(record["actions"]) for check in record["checks"])
    require(fits, "a check needs the index of an action")


# ---- games and bot choices ------------------------------------------------------------------------------------------


def _compare_all(records: list[Record], *, bots: bool) -> list[list[Disagreement]]:
    """Disagreements of each game; `bots`: in bot choices, at every decision named in `checks`."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for index, record in enumerate(records):
        groups.setdefault((record["n"], record["expansion"], record["abilities"]), []).append(index)
    results: dict[int, list[Disagreement]] = {}
    # Compiling is most of the work and does not hold the interpreter lock.
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        work = [(table, [records[i] for i in members]) for table, members in groups.items()]
        done = pool.map(lambda item: list(_compare_group(*item, bots=bots)), work)
        for members, found in zip(groups.values(), done, strict=True):
            results.update(zip(members, found, strict=True))
    return [results[index] for index in range(len(records))]


def _compare_group(table: tuple[int, int, int], records: list[Record], *, bots: bool) -> Iterator[list[Disagreement]]:
    players, expansion, abilities = table
    setup = Setup(players=players, expansion=bool(expansion), abilities=bool(abilities))
    length, compare = _max_decisions(players), _compare_choices if bots else _compare_game
    for chunk, size in batches(records, MAX_GAMES):
        program = _compile(setup, len(chunk), length, bots)
        final, rank, ended, steps = jax.device_get(program(*_inputs(chunk, length)))
        for i, record in enumerate(chunk[:size]):
            played = SimpleNamespace(**{name: leaf[i].tolist() for name, leaf in steps._asdict().items()})
            played.legal = [a | b << 32 | c << 64 | d << 96 for a, b, c, d in played.legal]
            end = {"game over": bool(ended[i]), "final": final[i].tolist(), "rank": rank[i].tolist()}
            expected = {"game over": True, "rank": end["rank"], **record}
            found = [*compare(record, played), *unlike(len(actions_of(record)), "end", expected, end)]
            yield sorted(found, key=lambda entry: entry.decision)


def _compare_choices(record: Record, played: Any) -> Iterator[Disagreement]:
    for i, action in enumerate(record["actions"]):
        if not played.legal[i] & _MASKS[action]:
            yield Disagreement(i, f"decision {i}", "action", action, taken(action, _legal_list(played.legal[i])))
    for check in record["checks"]:
        i = check["i"]
        got = {"seat": played.seat[i], "phase": played.phase[i]}
        got |= dict(zip(CHECKED_BOTS, played.choices[i], strict=True))
        yield from unlike(i, f"decision {i} with k = {check['k']}", check, got)


def _compare_game(record: Record, played: Any) -> Iterator[Disagreement]:
    """Yields all differences in a recorded game, but for its end."""
    begin, before = 0, [0] * record["n"]
    for entry in record["rounds"]:
        where = f"round {entry['r']}"
        yield from _compare_decisions(entry["dec"], played, begin, where)
        yield from _compare_round(entry, played, begin, before, where)
        yield from _compare_tricks(entry, played, begin, record["n"], where)
        begin += len(entry["dec"])
        before = played.total[begin - 1]


def _compare_decisions(decisions: list, played: Any, begin: int, where: str) -> Iterator[Disagreement]:
    for i, (seat, phase, legal, action) in enumerate(decisions, begin):
        expected = 0
        for allowed in legal:
            expected |= _MASKS[allowed]
        if (seat, phase, expected) == (played.seat[i], played.phase[i], played.legal[i]) and expected & _MASKS[action]:
            continue
        found = _legal_list(played.legal[i])
        got = {"seat": played.seat[i], "phase": PHASES[played.phase[i]]}
        got |= {"legal actions": found, "action": taken(action, found)}
        values = {"seat": seat, "phase": PHASES[phase], "legal actions": sorted(legal), "action": action}
        yield from unlike(i, f"{where}, decision {i}", values, got)


def _compare_round(entry: Record, played: Any, begin: int, before: list, where: str) -> Iterator[Disagreement]:
    end = begin + len(entry["dec"]) - 1
    bids, effective = played.bids[begin + len(before) - 1], played.bids[end]
    harry: list[int] = []
    if played.phase[end] == rules.HARRY:
        harry = [played.seat[end], effective[played.seat[end]] - bids[played.seat[end]]]
    got = {
        "r": played.number[begin],
        "h": len(_legal_list(played.legal[begin])) - 1,
        "starter": played.seat[begin],
        "bids": bids,
        "harry": harry,
        "eff": effective,
        "won": played.won[end],
        "bonus": played.captured[end],
        "bet": played.wagers[end],
        "ally": _alliances(played.alliances[end]),
        "exact": [int(won == bid) for won, bid in zip(played.won[end], effective, strict=True)],
        "scores": [total - earlier for total, earlier in zip(played.total[end], before, strict=True)],
        "total": played.total[end],
    }
    yield from unlike(end, where, entry | {"ally": sorted(entry["ally"])}, got)


def _compare_tricks(entry: Record, played: Any, begin: int, seats: int, where: str) -> Iterator[Disagreement]:
    decisions = entry["dec"]
    plays = [begin + i for i, decision in enumerate(decisions) if decision[1] == rules.PLAY]
    for number, trick in enumerate(entry["tricks"]):
        first, last = plays[number * seats], plays[(number + 1) * seats - 1]
        following = plays[(number + 1) * seats : (number + 1) * seats + 1]
        won = [b - a for a, b in zip(played.won[first - 1], played.won[last], strict=True)]
        pairs = zip(played.alliances[first - 1], played.alliances[last], strict=True)
        got = {
            "lead": played.seat[first],
            "plays": [_play(played.seat[i], decisions[i - begin][3]) for i in plays[number * seats :][:seats]],
            "win": won.index(1) if 1 in won else -1,
            "next": played.leader[following[0] - 1] if following else -1,
            "bonus": sum(played.captured[last]) - sum(played.captured[first - 1]),
            "ally": _alliances([b - a for a, b in pairs]),
        }
        expected = trick | {"ally": sorted(trick["ally"])}
        yield from unlike(last, f"{where}, trick {number + 1} (decision {last})", expected, got)


_MASKS = [1 << bit for bit in rules.BITS.tolist()]  # the legal mask of each single action, as one 128-bit integer


def _legal_list(mask: int) -> list[int]:
    return [action for action, bit in enumerate(_MASKS) if mask & bit]


def _alliances(entries: list[int]) -> list[list[int]]:
    pairs = [entries[0:2], entries[2:4]]
    return sorted([looter - 1, winner - 1] for looter, winner in pairs if looter > 0)


def _play(seat: int, action: int) -> list[int]:
    pirate = action == rules.PLAY_TIGRESS_PIRATE
    return [seat, TIGRESS if pirate else action - rules.FIRST_PLAY, int(pirate)]


# ---- the program of one table ---------------------------------------------------------------------------------------


def _inputs(records: list[Record], length: int) -> tuple[np.ndarray, ...]:
    decks = np.zeros((len(records), NUM_ROUNDS, NUM_CARDS), np.uint8)
    actions = np.zeros((len(records), length), np.int32)
    draws = np.zeros((len(records), length, 3), np.int32)
    for i, record in enumerate(records):
        rows = np.asarray(record["decks"], np.uint8)
        decks[i, :, : rows.shape[1]] = rows
        played = actions_of(record)
        actions[i, : len(played)] = played
        for check in record.get("checks", ()):
            draws[i, check["i"]] = check["k"]
    first = np.asarray([record["first"] for record in records], np.int32)
    return decks, first, actions, draws


@cache
def _compile(setup: Setup, batch: int, length: int, bots: bool) -> Callable:
    """Compiles the program for one table. Compiling is nearly all of the work, so the expensive passes are left out."""
    shapes = (
        jax.ShapeDtypeStruct((batch, NUM_ROUNDS, NUM_CARDS), jnp.uint8),
        jax.ShapeDtypeStruct((batch,), jnp.int32),
        jax.ShapeDtypeStruct((batch, length), jnp.int32),
        jax.ShapeDtypeStruct((batch, length, 3), jnp.int32),
    )
    options: dict[str, str | bool] | None = None
    if jax.default_backend() == "cpu":
        options = {"xla_backend_optimization_level": "0", "xla_llvm_disable_expensive_passes": True}
    program = jax.jit(jax.vmap(partial(_play_game, setup=setup, bots=bots)))
    return program.lower(*shapes).compile(compiler_options=options)


def _play_game(decks: jax.Array, first: jax.Array, actions: jax.Array, draws: jax.Array, *, setup: Setup, bots: bool):
    """Returns final scores i32[P], ranks i32[P], bool[] ended, and `Decided` with a leading axis of decisions."""
    game = rules.game_from_decks(decks, first, setup)
    game, steps = lax.scan(partial(_decide, setup=setup, bots=bots), game, (actions, draws))
    return game.scores, rules.ranking(game.scores)[0], game.phase == rules.END, steps


def _decide(
    game: SkullKingGame, inputs: tuple[jax.Array, jax.Array], *, setup: Setup, bots: bool
) -> tuple[SkullKingGame, Decided]:
    action, k = inputs
    legal = rules.legal_words(game, setup)
    choices = jnp.zeros(3, jnp.int32)
    if bots:
        choices = jnp.stack([CHOOSE[name](game, legal, k, setup) for name in CHECKED_BOTS])
    # With `single_round` a step stops after scoring, so that the finished round can still be read.
    unused = jnp.zeros(setup.draws, jnp.uint32)
    settled, _ = rules.step(game, action, unused, setup._replace(single_round=True))
    after, _ = rules.step(game, action, unused, setup)
    over = game.phase == rules.END
    after = rules.select(over, game, after)
    r = settled.round
    seats = jnp.arange(setup.players)
    decided = Decided(
        seat=game.actor,
        phase=game.phase,
        number=game.number,
        legal=jnp.stack(legal),
        choices=choices,
        bids=get_field(r.bids, seats),
        won=get_field(r.won, seats),
        captured=10 * get_field(jnp.where(seats < 4, r.captured[0], r.captured[1]), seats & 3, 8),
        wagers=10 * get_field(r.wagers, seats),
        alliances=get_field(r.alliances, jnp.arange(4)),
        leader=r.leader,
        total=settled.scores,
    )
    return after.replace(next=Deal.empty(setup.players)), decided


# ---- single tricks --------------------------------------------------------------------------------------------------


def _compare_single_tricks(records: list[Record]) -> Iterator[Iterator[Disagreement]]:
    plays = np.full((len(records), 8), -1, np.int32)
    for row, record in zip(plays, records, strict=True):
        row[: len(record["plays"])] = [TIGRESS_PIRATE if pirate else card for card, pirate in record["plays"]]
    trick, outcome = jax.device_get(jax.jit(jax.vmap(_resolve_trick))(plays))
    for i, record in enumerate(records):
        winner = int(outcome.winner[i])
        got: dict[str, Any] = {"win": winner, "next": int(outcome.next_leader[i])}
        got["bonus"] = 10 * int(outcome.bonus[i])
        looters = [int(loots[i]) for loots in trick.loots]
        got["ally"] = sorted([p, winner] for p in looters if winner >= 0 and p >= 0 and p != winner)
        yield unlike(0, f"plays {record['plays']}", record | {"ally": sorted(record["ally"])}, got)


def _resolve_trick(plays: jax.Array):
    def add(trick: Trick, item):
        seat, play = item
        return rules.select(play >= 0, trick.add(seat, jnp.maximum(play, 0)), trick), None

    seats = jnp.arange(plays.shape[0], dtype=jnp.int32)
    trick, _ = lax.scan(add, Trick.empty(), (seats, plays))
    return trick, resolve(trick, jnp.int32(0))


# ---- the kinds ------------------------------------------------------------------------------------------------------


def _label(record: Record, place: int) -> str:
    """Returns the number of a game, if it has one."""
    return f"game {record.get('game', place)}"


_CARD, _NUMBERS = range(NUM_CARDS), [int]
_HEAD = {
    **{"n": range(2, 9), "expansion": FLAG, "abilities": FLAG, "first": range(8)},
    **{"decks": ([_CARD],) * NUM_ROUNDS, "final": _NUMBERS},
}
_OUTCOME = {"win": int, "next": int, "bonus": int, "ally": [_NUMBERS]}
_ROUND = {
    **dict.fromkeys(("r", "h", "starter"), int),
    **dict.fromkeys(("bids", "harry", "eff", "won", "bonus", "bet", "exact", "scores", "total"), _NUMBERS),
    "ally": [_NUMBERS],
    "dec": [(range(8), PHASE, [ACTION], ACTION)],
    "tricks": [{"lead": int, "plays": [_NUMBERS], **_OUTCOME}],
}
_CHECK = {
    **{"i": range(1000), "k": (range(1000),) * 3, "seat": range(8), "phase": PHASE},
    **dict.fromkeys(CHECKED_BOTS, ACTION),
}
GAMES = Kind(
    name="games",
    key="rounds",
    shape=_HEAD | {"rounds": (_ROUND,) * NUM_ROUNDS, "rank": _NUMBERS},
    check=_check_game,
    compare=partial(_compare_all, bots=False),
    label=_label,
    counts=lambda record: {"games": 1, "decisions": len(actions_of(record))},
    at_once=AT_ONCE,
)
BOT_CHOICES = Kind(
    name="bot choices",
    key="checks",
    shape=_HEAD | {"actions": [ACTION], "checks": [_CHECK]},
    check=_check_bots,
    compare=partial(_compare_all, bots=True),
    label=_label,
    counts=lambda record: {
        "games": 1,
        "decisions": len(actions_of(record)),
        "bot choices": len(CHECKED_BOTS) * len(record["checks"]),
    },
    at_once=AT_ONCE,
)
TRICKS = Kind(
    name="tricks",
    key="plays",
    shape={"plays": [(_CARD, FLAG)], **_OUTCOME},
    check=lambda record: require(1 <= len(record["plays"]) <= 8, "a trick has 1..8 plays"),
    compare=_compare_single_tricks,
    label=lambda record, place: f"trick {place}",
    counts=lambda record: {"tricks": 1},
)
KINDS = (GAMES, BOT_CHOICES, TRICKS)
