"""Makes an entry of the zoo: `python -m scripts.zoo NAME` trains the policy, exports it, measures it, writes its card.

What is trained already (runs/zoo_NAME) is not trained again, and what was stopped is resumed. When the version of a
game has changed, remove runs/zoo_NAME and run it again.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import hashlib
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import jax
import yaml

from jaxrl import cli, zoo
from jaxrl import config as configs
from jaxrl.diagnose import hardware
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.matches.evaluate import evaluate_players, opponent_names
from jaxrl.matches.tables import format_table
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.players.player import bot_player
from jaxrl.policies.agreement import count_equal_choices
from jaxrl.policies.export import load_policy, save_policy
from jaxrl.runs.directory import RunDirectory, TrainedRun, enable_compilation_cache, find_run, load_run
from jaxrl.text_tables import cores
from jaxrl.training.imitation import command_imitate
from jaxrl_envs.shared.errors import UserError
from scripts.zoo import board, panel, widened

RECIPES = {  # what `jaxrl train` is told
    "skull_king": "--config skull_king_cpu run.devices=1 train.total_steps=240_000_000 train.evaluate_every=500",
    "skull_king_any": "--config skull_king_any run.devices=1 train.evaluate_every=0 "
    "train.from_run=runs/zoo_skull_king_widened.jaxrl",
    "skull_king_selfplay": "--config skull_king_selfplay run.devices=1 run.seed=1 train.evaluate_every=0",
    "beasty_bar": "--config beasty_bar evaluate.deals=1000",
    "battle": "--config battle_zoo train.from_run=runs/zoo_battle_shown",
    "battle_anywhere": "--config battle_anywhere train.from_run=runs/zoo_battle_anywhere_shown",
    "car_soccer": "--config car_soccer_match run.devices=1",
    "car_soccer_duel": "--config car_soccer_duel",
    "car_soccer_2v2": "--config car_soccer_curriculum run.devices=1 train.total_steps=24_000_000",
}
SHOWN = {  # what `jaxrl` is told before, to make the run that the training goes on from
    "battle": "imitate battle_zoo --data bot:balanced --games 4000 --epochs 12 --minibatch 512 --name zoo_battle_shown",
    "battle_anywhere": "imitate battle_anywhere --data bot:balanced --games 8000 --epochs 6 --minibatch 512 --deals 0 "
    "--name zoo_battle_anywhere_shown",
}
WIDENED = Path("runs/zoo_skull_king_widened.jaxrl")  # begins the recipe that names it
NOT_KEPT = ("config", "overrides", "allow", "name", "deals")  # arguments of imitate that imitation.json leaves out
MOST = 2_000_000  # bytes of a policy file
RATED = 50  # deals of each pair in the tournament that rates a policy
ANCHOR = "random"  # has the rating 0
FIELD = {  # who rates a policy, if not all bots of its game: a pair of teams takes two minutes of a core
    "car_soccer_2v2": ("random", "chase", "rule_policy", "striker")
}


def main(argv: list[str] | None = None) -> int:
    """Makes one entry."""
    parser = argparse.ArgumentParser(prog="python -m scripts.zoo", description=__doc__)
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("--checkpoint", default="newest", help="newest, best, or a number of updates (default: newest)")
    parser.add_argument("--note", default="", help="what else the card should say, e.g. that the machine was shared")
    args = parser.parse_args(argv)
    return cli.guarded(lambda: make(args.name, args.checkpoint, args.note))


def make(name: str, checkpoint: str, note: str) -> int:
    """Trains, exports, measures; writes the policy file and its card."""
    command = f"train {RECIPES[name]} --name zoo_{name}"
    if str(WIDENED) in command:
        widened.write(WIDENED)
    code = show(f"zoo_{name}_shown", SHOWN[name]) if name in SHOWN else 0
    code = code or train(f"zoo_{name}", command)
    if code:
        return code
    found = find_run(f"zoo_{name}")
    enable_compilation_cache(found.config().run.cache_dir)
    run = load_run(found.path, checkpoint)
    file = zoo.FOLDER / f"{name}.jaxrl"
    save_policy(file, run, half=True)
    if file.stat().st_size > MOST:
        raise UserError(f"{file} has {file.stat().st_size:,} bytes, an entry of the zoo at most {MOST:,}: train less.")
    figures, text = measure(name, run)
    told = {
        "name": name,
        "game": run.config.env.id,
        "game_version": run.env.version,
        "made": datetime.date.today().isoformat(),
        "command": f"jaxrl {command}",
        "data": data_of(name),
        **training(found, run),
        "note": note,
        "bytes": file.stat().st_size,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        **figures,
    }
    head = yaml.safe_dump(told, sort_keys=False, width=120)
    card = file.with_suffix(".md")
    card.write_text(f"{zoo.DASHES}{head}{zoo.DASHES}\n{text}", encoding="utf-8")
    print(f"{text}\nwritten: {file}, {card}")
    board.write()
    return 0


def show(name: str, command: str) -> int:
    """Makes the run of that name learn what `command` shows it; returns an exit code. Raises UserError if there is one
    that was made otherwise."""
    try:
        run = find_run(name)
    except UserError:
        return cli.main(shlex.split(command))
    parser = argparse.ArgumentParser()
    command_imitate.add_options(parser)
    args = parser.parse_intermixed_args(shlex.split(command)[1:])
    wanted = configs.named(configs.load(args.config, args.overrides), name)
    told = json.loads(run.imitation_file.read_text(encoding="utf-8")) if run.imitation_file.exists() else {}
    settings = {key: value for key, value in vars(args).items() if key not in NOT_KEPT}
    if not settings.items() <= told.items() or configs.to_dict(wanted) != configs.to_dict(run.config()):
        raise UserError(f"run {name!r} was made otherwise than by `jaxrl {command}`: remove it.")
    return 0


def train(name: str, command: str) -> int:
    """Trains the run of that name to its end by `command`; returns an exit code. Raises UserError if there is one that
    was trained otherwise."""
    try:
        run = find_run(name)
    except UserError:
        return cli.main(shlex.split(command))
    words = shlex.split(command)
    wanted = configs.named(configs.load(words[2], [word for word in words if "=" in word]), name)
    made = run.config()  # which names the checkpoint that it began with
    made = dataclasses.replace(made, train=dataclasses.replace(made.train, from_run=made.train.from_name))
    if configs.to_dict(wanted) != configs.to_dict(made):
        raise UserError(f"run {name!r} was trained otherwise than by `jaxrl {command}`: remove it.")
    return cli.main(["resume", str(run.path)])


def training(found: RunDirectory, run: TrainedRun) -> dict[str, Any]:
    """Describes how a run was trained, by its log and this machine."""
    rows = [json.loads(line) for line in found.metrics_file.read_text(encoding="utf-8").splitlines()]
    timed = [row for row in rows if "time/time_elapsed" in row and row["update"] <= run.update]
    facts = hardware.describe()
    network = run.config.network
    return {
        "decisions": int(timed[-1]["steps"]),
        "updates": run.update,
        "seconds": round(timed[-1]["time/time_elapsed"], 1),
        "hardware": f"{facts['cpu']}, {cores(facts)}, {facts['backend']}, jax {facts['jax']}",
        "algorithm": run.config.train.algorithm,
        "network": network.kind,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(run.params[0])),
    }


def data_of(name: str) -> str:
    """Describes what a policy has learnt from."""
    shown = f", after games that bots played (`jaxrl {SHOWN[name]}`)" if name in SHOWN else ""
    return f"games that it played itself in training{shown}; none of people, none recorded"


def measure(name: str, run: TrainedRun) -> tuple[dict[str, Any], str]:
    """Measures how strong the exported policy is, for the head of its card, and the tables below it."""
    policy = load_policy(zoo.policy_file(name))
    config, env = policy.config, policy.env
    player = policy.player(f"{zoo.PREFIX}{name}", greedy=config.evaluate.greedy)
    counts = count_equal_choices(config, env, run.params[0], player.params)
    settings = {"deals": config.evaluate.deals, "seed": EVALUATION_SEED}
    rows = evaluate_players(env, [player], [bot_player(env, bot) for bot in opponent_names(config, env)], **settings)
    field = [player, *(bot_player(env, bot) for bot in FIELD.get(name, env.bots))]
    results = Tournament(env, field, deals=RATED).run()
    ratings = results.ratings(ANCHOR)
    half = {"decisions": counts.decisions, "equal": counts.equal}
    rating = {"value": float(ratings.rating[0]), "half_width_95": float(ratings.half[0]), "anchor": ANCHOR}
    figures = {
        "half_precision": half,
        "evaluation": settings | {"greedy": config.evaluate.greedy, "rows": list(map(panel.counted, rows))},
        "rating": rating | {"deals": RATED},
    }
    return figures, tables(name, run, format_table(rows, env), results.rating_table(ratings), half)


def tables(name: str, run: TrainedRun, evaluation: str, rating: str, half: dict[str, int]) -> str:
    """Returns the text of a card."""
    entry, share = f"{zoo.PREFIX}{name}", half["equal"] / half["decisions"]
    field = " ".join(f"bot:{bot}" for bot in FIELD[name]) if name in FIELD else "bots"
    return f"""# {entry}

Plays {run.config.env.id}: `jaxrl play {entry}`. How it was trained stands above; `python -m scripts.zoo {name}` makes
it again. Its weights are float16; with float32 it chooses the same in {share:.2%} of {half["decisions"]:,} decisions.

`jaxrl evaluate {entry}`:

{evaluation}

`jaxrl tournament {entry} {field} --deals {RATED}`:

{rating}
"""


if __name__ == "__main__":
    sys.exit(main())
