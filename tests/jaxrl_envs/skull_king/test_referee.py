"""The plain-Python referee and its bots against the golden vectors: every recorded figure, 0 disagreements."""

from __future__ import annotations

from tests.jaxrl_envs.skull_king.referee import skull_king as referee
from tests.jaxrl_envs.skull_king.referee import skull_king_tricks as tricks
from tests.jaxrl_envs.skull_king.referee.skull_king_bots import BOTS
from tests.support.generate import read
from tests.support.paths import GOLDEN

FOLDER = GOLDEN / "skull_king"


def golden(name: str) -> list[dict]:
    return read(FOLDER / f"{name}.jsonl.gz")


def test_games() -> None:
    records = golden("games")
    assert len(records) == 800
    for record in records:
        game = referee.replay(record)
        for r, expected in enumerate(record["rounds"]):
            for decision in expected["dec"]:
                assert [game.actor, game.phase, game.legal()] == decision[:3], (record["game"], r, decision)
                game.step(decision[3])
            assert game.rounds[r] == expected, (record["game"], r)
        assert game.phase == referee.END
        assert (game.totals, game.rank) == (record["final"], record["rank"]), record["game"]


def test_tricks() -> None:
    records = golden("tricks")
    assert len(records) > 19_000
    for record in records:
        plays = [tricks.Play(seat, card, bool(flag)) for seat, (card, flag) in enumerate(record["plays"])]
        winner = tricks.winning_play(plays)
        found = {
            "win": -1 if winner is None else winner.seat,
            "next": tricks.next_leader(plays),
            "bonus": tricks.captured(plays),
            "ally": [list(pair) for pair in tricks.alliances(plays)],
        }
        assert found == {key: record[key] for key in found}, record


def test_bot_choices() -> None:
    checked = 0
    for record in golden("bot_choices"):
        game = referee.replay(record)
        checks = {check["i"]: check for check in record["checks"]}
        for i, action in enumerate(record["actions"]):
            if check := checks.get(i):
                assert (game.actor, game.phase) == (check["seat"], check["phase"])
                for bot in ("easy", "medium", "hard"):
                    assert BOTS[bot](game, tuple(check["k"])) == check[bot], (record["game"], check, bot)
                    checked += 1
            game.step(action)
        assert game.phase == referee.END and game.totals == record["final"]
    assert checked == 4_500


def test_shared_win_and_returns() -> None:
    points = [50, 70, 70, -20]
    assert tricks.competition_rank(points) == [3, 1, 1, 4]
    assert tricks.returns("win", points) == [0.0, 0.5, 0.5, 0.0]
    assert tricks.returns("rank", points) == [1 - 2 * 2 / 3, 1 - 2 * 0.5 / 3, 1 - 2 * 0.5 / 3, -1.0]
    assert abs(sum(tricks.returns("margin", points))) < 1e-9


def test_a_view_holds_no_secret_of_others() -> None:
    record = next(record for record in golden("games") if record["n"] == 4 and record["abilities"])
    game = referee.replay(record)
    for decision in (decision for entry in record["rounds"] for decision in entry["dec"]):
        for seat in range(4):
            view = game.view(seat)
            assert view["hand"] == sorted(game.hands[seat])
            assert (view["bids"] is None) == (game.phase == referee.BID)
            unseen = game.unseen(seat)
            others = {card for other in range(4) if other != seat for card in game.hands[other]}
            assert others <= unseen  # nothing of another hand is ever known
        game.step(decision[3])
