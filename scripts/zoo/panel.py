"""`python -m scripts.zoo.panel NAME`: measures a policy of the zoo by its panel and its best responses, for its card.

The panel is that of `jaxrl evaluate --panel`: players that training has met, which are marked, and strangers. What a
card has already is not played again. The best responses are those of `jaxrl exploit` from the policy's parameters,
spent on a weaker control too.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import yaml

from jaxrl import cli, zoo
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.matches.evaluate import evaluate_players
from jaxrl.matches.evaluate_policy import find_panel, met_in_training
from jaxrl.matches.tables import Row
from jaxrl.players.spec import SEARCHER
from jaxrl.policies.find import Lookup, find_player
from jaxrl.runs.directory import enable_compilation_cache
from jaxrl.text_tables import align
from jaxrl.training.exploit.exploitability import measure_exploitability
from scripts.zoo import board

TITLE = "\n## The panel\n"
BEGUN = {"skull_king_any": "skull_king", "car_soccer": "car_soccer_duel"}  # with whose weights a training began
KEPT = ("policy", "start", "settings", "fair_share", "gain", "outcomes")  # of a record of `jaxrl exploit`


def main(argv: list[str] | None = None) -> int:
    """Adds both measurements to the card of one policy, and writes the board."""
    parser = argparse.ArgumentParser(prog="python -m scripts.zoo.panel", description=__doc__)
    parser.add_argument("name", choices=zoo.names())
    parser.add_argument("--deals", type=int, default=400, help="deals against each policy and bot (default: 400)")
    parser.add_argument("--searched", type=int, default=30, help="deals against a searcher, slow ones (default: 30)")
    parser.add_argument(
        "--control", help="a weaker policy for the same best responses; without it no best responses are trained"
    )
    parser.add_argument("--updates", type=int, default=80, help="updates of each best response (default: 80)")
    args = parser.parse_args(argv)
    return cli.guarded(lambda: add(args))


def add(args: argparse.Namespace) -> int:
    """Measures, and writes the card and the board."""
    card = zoo.card_file(args.name)
    told, text = zoo.split_card(card.read_text(encoding="utf-8"), str(card))
    told["panel"] = play(args.name, told["evaluation"]["rows"] + told.get("panel", []), args.deals, args.searched)
    if args.control:
        settings = [f"exploit.updates={args.updates}", "exploit.seeds=1", "exploit.start=policy"]
        found = measure_exploitability(
            f"{zoo.PREFIX}{args.name}",
            "newest",
            ["run.devices=0", f"evaluate.deals={args.deals}", *settings],
            same_budget=False,
            control=args.control,
            deviators=(),
            allow=(),
        )
        told["best_responses"] = [{key: each[key] for key in KEPT} for each in found]
    head = yaml.safe_dump(told, sort_keys=False, width=120)
    tables = describe(told)
    card.write_text(
        f"{zoo.DASHES}{head}{zoo.DASHES}{text.split(TITLE)[0].rstrip()}\n{TITLE}\n{tables}", encoding="utf-8"
    )
    print(f"{tables}written: {card}")
    board.write()
    return 0


def counted(row: Row) -> dict[str, Any]:
    """Returns the games of a row as a card has them."""
    assert row.samples.outcomes is not None  # a game of one side has no opponents
    tally, effect = row.samples.outcomes.tally(), row.samples.outcomes.design().effect
    return {"opponent": row.opponent, "games": tally.games, **tally._asdict(), "design_effect": effect}


def play(name: str, known: list[dict[str, Any]], deals: int, searched: int) -> list[dict[str, Any]]:
    """Returns the rows of a panel. `known`: those of the card, whose games are not played again."""
    candidate = find_player(f"{zoo.PREFIX}{name}", Lookup())
    enable_compilation_cache(candidate.config.run.cache_dir)
    others = find_panel(candidate, Lookup())
    met, rows = met_in_training(candidate, others), {row["opponent"]: row for row in known}
    if parent := BEGUN.get(name):
        earlier = find_player(f"{zoo.PREFIX}{parent}", Lookup())
        met = [*met, earlier.name, *met_in_training(earlier, others)]
    for other in others:
        if other.name not in rows:
            count = searched if other.name.startswith(SEARCHER) else deals
            [row] = evaluate_players(candidate.env, candidate.players, [other], deals=count, seed=EVALUATION_SEED)
            rows[other.name] = counted(row)
    return [rows[other.name] | {"met": other.name in met} for other in others]


def describe(told: dict[str, Any]) -> str:
    """Returns the tables below the title."""
    name, rows = f"{zoo.PREFIX}{told['name']}", told["panel"]
    body = [["opponent", "games", "won (95 %)", "in training"]]
    body += [[row["opponent"], str(row["games"]), board.won(row), "met" if row["met"] else "stranger"] for row in rows]
    text = f"`jaxrl evaluate {name} --panel`, in as many games:\n\n{align(body)}\n\n"
    for who, group in (("all", rows), ("strangers", [row for row in rows if not row["met"]])):
        if group:
            least = board.least(group)
            text += (
                f"{who}: median {board.median(group):.1%}, the least {board.won(least)} against {least['opponent']}\n"
            )
    if responses := told.get("best_responses"):
        lines = [["policy", "its best response won (95 %)", "fair", "gain"]]
        for each in responses:
            gain, fair = each["gain"], f"{each['fair_share']:.1%}"
            lines += [
                [each["policy"], board.won(each["outcomes"]), fair, f"{gain['mean']:.3f} ± {gain['half_width_95']:.3f}"]
            ]
        settings = responses[0]["settings"]
        command = f"jaxrl exploit {name} --from policy --seeds 1 --updates {settings['updates']}"
        text += f"\n`{command} --deals {settings['deals']}`, and a control:\n\n{align(lines)}\n"
    return text


if __name__ == "__main__":
    sys.exit(main())
