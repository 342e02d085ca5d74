"""`python -m scripts.benchmark`: environment speed, training speed and compile time of one game, peers beside it."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.config import command_line as common
from jaxrl.games import make_games
from jaxrl_envs.shared.errors import UserError
from scripts.benchmark import compiled, forge, host
from scripts.benchmark.report import Effort, measure

PROGRAM = "python -m scripts.benchmark"


def arguments() -> argparse.ArgumentParser:
    """The program's options."""
    parser = cli.Parser(prog=PROGRAM, description="measure environment and training speed", allow_abbrev=False)
    parser.add_argument("--env", metavar="ID", help="the game (default: the one of the configuration)")
    parser.add_argument("--config", metavar="FILE", help="what is trained (default: the defaults of every key)")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="a.b=value",
        help="changes to the configuration; forge: what games cost whose engine is another program",
    )
    parser.add_argument("--devices", type=int, metavar="N", help="devices to use (on a CPU: virtual ones, as threads)")
    parser.add_argument("--deterministic", action="store_true", help="the same bits every time on a GPU too; slower")
    common.allow(parser)
    parser.add_argument("--peer", action="store_true", help="run the installed peers too, in turn with ours")
    every = dict.fromkeys((*compiled.PARTS, *host.PARTS, *forge.PARTS))
    parser.add_argument("--only", choices=tuple(every), action="append", help="leave out the other parts")
    parser.add_argument("--out", metavar="FILE", help="write the report there too, as JSON")
    parser.add_argument("--quick", action="store_true", help="fewer batch sizes, shorter rounds: a first impression")
    parser.add_argument(
        "--machine", action="append", metavar="CORES:PRICE", help="forge: a machine to estimate; its price per hour"
    )
    parser.add_argument("--sweep", action="store_true", help="forge: try all JVM profiles and keep the best one")
    return parser


def run(args: argparse.Namespace) -> int:
    """Measures, prints each part as soon as it is known, writes the JSON; 1 if a part failed.

    Raises:
      UserError: nothing can be measured like this.
    """
    target = Path(args.out) if args.out else None
    if target is not None and not target.resolve().parent.is_dir():
        raise UserError(f"--out {args.out!r}: there is no folder {str(target.parent)!r}.")
    games = [text for text in args.overrides if "=" not in text]
    overrides = [text for text in args.overrides if "=" in text]
    overrides += [f"env.id={game}" for game in (games or [args.env])[:1] if game]
    overrides += [f"run.devices={args.devices}"] if args.devices is not None else []
    overrides += ["run.deterministic=true"] if args.deterministic else []
    config = configs.load(args.config, overrides, args.allow)
    xla.set_devices(compiled.device_count(config), config.run.deterministic)
    batches = compiled.batches()
    effort = Effort(3, 0.2, batches[1:2]) if args.quick else Effort(7, 0.5, batches)
    tree = configs.to_dict(config)
    say = functools.partial(print, flush=True)
    if games:
        _has_its_own(games[0])
        report = measure(forge.plan(config, args, say), tree["forge"], say, named=bool(args.only or args.sweep))
    elif args.sweep:
        raise UserError(f"--sweep is about JVMs: `{PROGRAM} forge --sweep`.")
    else:
        make_games(config)  # what does not fit is said before anything is measured
        kind = host if host.on_host(config) else compiled
        report = measure(kind.plan(config, effort, args.only, args.peer), tree, say)
    if target is not None:
        target.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if report["failures"] else 0


def _has_its_own(game: str) -> None:
    """Raises UserError unless a game is measured in a way of its own."""
    from jaxrl_envs.contract import registry

    registry.game_class(game)
    if game != "forge":
        raise UserError(f"{game} is measured like other games: `{PROGRAM} --env {game}`.")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; mistakes of the user end in one sentence."""
    return cli.guarded(lambda: run(arguments().parse_intermixed_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
