"""The options of every command.

They stand apart from what the commands do, because `jaxrl COMMAND --help` and the shell's completion read them alone:
nothing here imports jax.
"""

from __future__ import annotations

import contextlib
import math
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jaxrl.config import EVALUATION_SEED, Config, presets
from jaxrl.envs import registry
from jaxrl.envs.errors import UserError
from jaxrl.envs.values import all_paths
from jaxrl.search.settings import OBJECTIVES, PLANNERS, SearchSettings
from jaxrl.zoo import PREFIX as OF_THE_ZOO
from jaxrl.zoo import names as zoo_names

MIN_GAIN, MAX_DROP = 10.0, 3.0  # of `compare`: per cent of throughput, points of win rate
SLOWEST, FASTEST = 0.1, 20.0  # of `film`: pace

# ---- what several commands have -----------------------------------------------------------------------------------


def _int(text: str, most: int = 2**31 - 1) -> int:
    """The type of an option that is a whole number of at least 0."""
    with contextlib.suppress(ValueError):
        if 0 <= (value := int(text)) <= most:
            return value
    raise ArgumentTypeError(f"must be a whole number from 0 to {most}, got {text!r}")


def _seed(text: str) -> int:
    """The type of an option that is a seed."""
    return _int(text, 2**32 - 1)


def _real(text: str) -> float:
    """The type of an option that is a finite number."""
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise ArgumentTypeError(f"must be a number, got {text!r}")


def _completed(action: Action, names: Callable[[], Iterable[str]]) -> None:
    """The shell completes what is written for `action` with these names."""
    action.completer = lambda **_: list(names())  # type: ignore[attr-defined]  # argcomplete's


def _run(parser: ArgumentParser, help: str = "a run directory, or the name of a run in runs/", **more: Any) -> None:
    action = parser.add_argument(more.pop("dest", "run"), metavar=more.pop("metavar", "RUN"), help=help, **more)
    _completed(action, _run_names)


def _run_names() -> list[str]:
    return [path.parent.name for path in Path("runs").glob("*/config.yaml")]


def _trained_names() -> list[str]:
    """Of runs, and of the policies that come with us."""
    return [*_run_names(), *(f"{OF_THE_ZOO}{name}" for name in zoo_names())]


def _config(parser: ArgumentParser, help: str, name: str = "--config", **more: Any) -> None:
    _completed(parser.add_argument(name, help=help, **more), presets.shipped)


def _overrides(parser: ArgumentParser, help: str = "configuration keys to change", metavar: str = "a.b=v") -> None:
    action = parser.add_argument("overrides", nargs="*", metavar=metavar, help=help)
    _completed(action, lambda: (f"{path}=" for path in all_paths(Config)))


def _checkpoint(parser: ArgumentParser) -> None:
    parser.add_argument("--checkpoint", default="newest", help="newest, best, or a number of updates")


def allow(parser: ArgumentParser) -> None:
    """What a file may name, see `jaxrl.config.trust`."""
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="MODULE",
        help="what a file may name to run or fill: a module, a package, a path; repeatable (JAXRL_ALLOW=A,B: always)",
    )


def _devices(parser: ArgumentParser) -> None:
    """Short for two configuration keys."""
    parser.add_argument("--devices", metavar="N", help="devices to use (on a CPU: virtual ones, as threads)")
    parser.add_argument("--deterministic", action="store_true", help="the same bits every time on a GPU too; slower")


def _entrant(
    parser: ArgumentParser, who: str = "a run, a policy file, zoo:NAME, or a bot as bot:NAME, bot:searcher-200"
) -> None:
    """Who plays, and the game of a bot; see `jaxrl.matches.entrants.find_entrant`."""
    _completed(parser.add_argument("candidate", metavar="RUN", help=who), _trained_names)
    parser.add_argument("--sampled", action="store_true", help="sample from the policy instead of playing greedily")
    _checkpoint(parser)
    allow(parser)
    _config(parser, "for bots: the configuration that names the game (default: its defaults)")
    _overrides(parser, "configuration keys to change, of a bot its game: env.id=battle env.options.x=v")


def _at_the_table(parser: ArgumentParser, whose: str, *who: str) -> None:
    """One game between RUN and others."""
    _entrant(parser, *who)
    parser.add_argument("--seat", type=_int, default=0, help=f"{whose} (default: 0)")
    help = "bots, zoo:NAME or policy files for the other seats, in turn (default: RUN itself)"
    parser.add_argument("--opponents", metavar="A,B", help=help)


def _learning(parser: ArgumentParser, epochs: int, of: str, minibatch: int, unit: str, rate: float, more: str) -> None:
    """How a network is taught: passes `of` what, a minibatch in which unit, and `more` about values."""
    parser.add_argument("--epochs", type=_int, default=epochs, help=f"{of} (default: {epochs})")
    parser.add_argument("--minibatch", type=_int, default=minibatch, help=f"{unit} (default: {minibatch})")
    parser.add_argument("--learning-rate", type=_real, default=rate, help=f"of Adam (default: {rate:g})")
    parser.add_argument("--value-coef", type=_real, default=0.5, help=f"weight of the value loss{more} (default: 0.5)")
    parser.add_argument("--seed", type=_seed, default=0, help="of all randomness (default: 0)")


def check_learning(args: Namespace) -> None:
    """Raises UserError for a way to teach that is out of range."""
    for name in ("iterations", "games", "epochs", "patience", "minibatch"):
        if getattr(args, name, 1) < 1:
            raise UserError(f"--{name} must be at least 1, got {getattr(args, name)}.")
    if not 0.0 < args.learning_rate < math.inf:
        raise UserError(f"--learning-rate must be above 0, got {args.learning_rate}.")
    if not 0.0 <= args.value_coef < math.inf:
        raise UserError(f"--value-coef must be at least 0, got {args.value_coef}.")


def _search(parser: ArgumentParser, *, required: bool = False) -> None:
    """What describes a search; options that are not given are None."""
    known = SearchSettings()
    parser.add_argument(
        "--search", type=_int, metavar="SIMS", required=required, help="look ahead: simulated games per move"
    )
    parser.add_argument(
        "--search-model",
        metavar="MODEL",
        help="who the others are taken for: self (the policy itself), opponent (who it is), bot:NAME (default: self)",
    )
    parser.add_argument(
        "--search-rollouts",
        metavar="WHO",
        help="who moves for the searching seat in simulated games: self, bot:NAME (default: self); with bots on all "
        "seats a game on the host plays them inside its engine, much faster",
    )
    parser.add_argument(
        "--search-planner",
        choices=PLANNERS,
        help=f"tree wants a network trained on the reward and episode evaluated (default: {known.planner})",
    )
    parser.add_argument(
        "--search-objective", choices=OBJECTIVES, help=f"what is maximised (default: {known.objective})"
    )
    parser.add_argument("--worlds", type=_int, help="hidden cards drawn per move (default: auto)")
    parser.add_argument(
        "--search-depth",
        type=_int,
        metavar="MOVES",
        help="own moves before the network judges (halving), which wants one trained on the reward and episode "
        f"evaluated; 0: play to the end (default: {known.depth})",
    )
    parser.add_argument("--particles", type=_int, help=f"worlds of the belief; 0: none (default: {known.particles})")


# ---- the commands -------------------------------------------------------------------------------------------------


def train(parser: ArgumentParser) -> None:
    """`jaxrl train`."""
    _devices(parser)
    _config(parser, "a YAML file or the name of a shipped configuration (default: the defaults, for env.id=GAME)")
    allow(parser)
    parser.add_argument("--name", help="name of the run (default: run.name, else that of the configuration or game)")
    _overrides(parser)


def ablate(parser: ArgumentParser) -> None:
    """`jaxrl ablate`."""
    train(parser)
    parser.add_argument(
        "--over",
        required=True,
        metavar="PATH",
        help="the option of the game that is a mapping of weights, e.g. env.options.rewards: each of them is left out",
    )
    parser.add_argument("--only", metavar="A,B", help="leave out these alone (default: all weights that are not 0)")
    parser.add_argument("--seeds", type=_int, help="of each training, in one program (default: run.seeds, at least 3)")


def resume(parser: ArgumentParser) -> None:
    """`jaxrl resume`."""
    _run(parser)
    allow(parser)
    parser.add_argument("--steps", help="train to this many environment steps (train.total_steps)")
    _overrides(parser, "configuration keys to change from here on")


def evaluate(parser: ArgumentParser) -> None:
    """`jaxrl evaluate`."""
    _entrant(parser)
    help = "another run, file, zoo:NAME or bot:NAME: paired on the same deals"
    _completed(parser.add_argument("--against", metavar="RUN2", help=help), _trained_names)
    help = "bots, searcher-200, zoo:NAME or policy files at the other seats (default: evaluate.opponents)"
    parser.add_argument("--opponents", metavar="A,B", help=help)
    parser.add_argument("--deals", type=_int, help="deals per opponent (default: evaluate.deals)")
    parser.add_argument("--seed", type=_seed, help=f"seed of the deals (default: {EVALUATION_SEED})")
    parser.add_argument(
        "--simulator",
        metavar="NAME",
        help="another program that plays the game: the same deals there too, side by side",
    )
    _search(parser)


def tournament(parser: ArgumentParser) -> None:
    """`jaxrl tournament`."""
    action = parser.add_argument(
        "players",
        nargs="+",
        metavar="PLAYER",
        help="RUN, RUN@UPDATE, RUN@best, RUN@all (checkpoints), a policy file, zoo:NAME, bot:NAME, bot:searcher-200, "
        "bots (all of the game); a.b=v changes a configuration key, of the game too if only bots play",
    )
    _completed(action, _trained_names)
    _config(parser, "if only bots play: the configuration that names the game")
    allow(parser)
    parser.add_argument("--deals", type=_int, default=1000, help="deals per pair, each from every side (default: 1000)")
    parser.add_argument("--seed", type=_seed, default=0, help="seed of the deals (default: 0)")
    parser.add_argument("--sampled", action="store_true", help="sample from the policies even if they are greedy")
    parser.add_argument("--self", action="store_true", dest="self_pairs", help="players also meet themselves")
    parser.add_argument("--anchor", metavar="PLAYER", help="whose rating is fixed (default: bot:random, or the first)")
    parser.add_argument("--anchor-rating", type=_real, default=0.0, metavar="R", help="that rating (default: 0)")
    parser.add_argument("--out", metavar="FOLDER", help="write matrix.json, table.md and heatmap.png there")
    parser.add_argument("--no-picture", action="store_true", help="leave heatmap.png out (it needs matplotlib)")
    parser.add_argument("--reference", metavar="FILE", help="a matrix to agree with, as matrix.json; else exit code 1")


def rate(parser: ArgumentParser) -> None:
    """`jaxrl rate`."""
    _run(
        parser,
        "RUN, RUN@UPDATE, RUN@best, RUN@all (checkpoints), a policy file, bot:NAME, or bots, who are the scale itself; "
        "nobody: print it; a.b=v changes a configuration key, of the game too if only bots play",
        dest="players",
        metavar="PLAYER",
        nargs="*",
    )
    _config(parser, "if only bots play: the configuration that names the game")
    allow(parser)
    parser.add_argument("--file", metavar="FILE", help="the scale (default: ratings/GAME.yaml)")
    parser.add_argument("--sampled", action="store_true", help="sample from the policies even if they are greedy")
    parser.add_argument("--anchors", metavar="A,B", help="of a new scale: the bots that define it (default: all)")
    parser.add_argument("--deals", type=_int, help="with every anchor, each from all sides (default: as the scale)")


def exploit(parser: ArgumentParser) -> None:
    """`jaxrl exploit`."""
    _devices(parser)
    _run(parser)
    allow(parser)
    parser.add_argument(
        "--checkpoint", default="newest", metavar="A,B", help="newest, best, numbers of updates, or all that are kept"
    )
    parser.add_argument("--updates", help="updates of each best response (default: exploit.updates)")
    parser.add_argument("--budget", choices=("same",), help="same: as many decisions as the policy itself has had")
    parser.add_argument("--seeds", help="best responses side by side (default: exploit.seeds)")
    parser.add_argument("--from", dest="start", help="policy, scratch, or both (default: exploit.start)")
    parser.add_argument("--memory", help="lstm or gru: give one to the best responses (default: exploit.memory)")
    parser.add_argument("--deals", help="deals that measure the best of them (default: evaluate.deals)")
    _overrides(parser, "configuration keys to change, e.g. exploit.learning_rate=1e-3; not the game, not the network")


def distill(parser: ArgumentParser) -> None:
    """`jaxrl distill`."""
    _run(parser, "the run whose network searches and learns")
    allow(parser)
    parser.add_argument("--name", required=True, help="name of the new run, beside RUN")
    parser.add_argument("--opponents", metavar="A,B", help="bots, or self (default: evaluate.opponents)")
    _checkpoint(parser)
    parser.add_argument("--iterations", type=_int, default=20, help="turns of playing and learning (default: 20)")
    parser.add_argument("--games", type=_int, default=256, help="games per turn (default: 256)")
    unit = (
        "searched decisions per step; a network that remembers learns whole games, as many as have so many moves of "
        "all seats"
    )
    values = "; values are learnt in the game as evaluated"
    _learning(parser, 2, "passes over the games of a turn", 512, unit, 3e-4, values)
    _search(parser, required=True)
    _overrides(parser, "configuration keys to change in the new run; not the game, not the network")


def imitate(parser: ArgumentParser) -> None:
    """`jaxrl imitate`."""
    _config(parser, "a YAML file or the name of a shipped configuration", "config", metavar="CONFIG")
    allow(parser)
    parser.add_argument(
        "--data", nargs="+", action="extend", required=True, metavar="PATH", help="recorded games: files or folders"
    )
    parser.add_argument("--name", help="name of the run (default: that of the configuration, with -imitated behind)")
    unit = "decisions per step; a network that remembers learns whole games, as many as fit"
    _learning(parser, 30, "most passes over the games", 256, unit, 1e-3, "")
    parser.add_argument("--patience", type=_int, default=4, help="passes without progress before the end (default: 4)")
    parser.add_argument("--check", type=_real, default=0.15, help="share of the games to check with (default: 0.15)")
    _overrides(parser)


def play(parser: ArgumentParser) -> None:
    """`jaxrl play`."""
    who = "a run, a policy file, zoo:NAME (or NAME alone, if no run is called so), or a bot as bot:NAME"
    _at_the_table(parser, "your seat", who)
    parser.add_argument("--seed", type=_seed, help="seed of the deal (default: a new one, printed)")


def film(parser: ArgumentParser) -> None:
    """`jaxrl film`."""
    _at_the_table(parser, "the seat of RUN", "a run, a policy file, zoo:NAME, bot:NAME, or a file of RUN/replays")
    parser.add_argument("--seed", type=_seed, default=0, help="seed of the game (default: 0)")
    parser.add_argument("--file", default="film.svg", help="where to write it (default: film.svg)")
    parser.add_argument("--rewards", metavar="FILE", help="also draw what each component of the rewards brought, there")
    parser.add_argument("--pace", type=_real, default=1.0, help=f"2 is twice as fast, up to {FASTEST:g} (default: 1)")


def export(parser: ArgumentParser) -> None:
    """`jaxrl export`."""
    _run(parser)
    allow(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", help="the policy file (default: RUN.jaxrl)")
    _checkpoint(parser)
    parser.add_argument("--seed-index", type=_int, default=0, help="which seed of a run with several")
    parser.add_argument("--half", action="store_true", help="weights in half precision; says what that costs")


def zoo(parser: ArgumentParser) -> None:
    """`jaxrl zoo`."""
    help = "list the policies, show the card of one, or get its file and its card (default: list)"
    parser.add_argument("what", choices=("list", "show", "get"), nargs="?", default="list", help=help)
    _completed(parser.add_argument("name", nargs="?", metavar="NAME", help="of the policy"), zoo_names)
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="where to put them (default: here)")


def check(parser: ArgumentParser) -> None:
    """`jaxrl check`."""
    parser.add_argument("env", help="a registered game, LIBRARY:NAME, or your own package.module:Class")
    parser.add_argument("options", nargs="*", metavar="option=value", help="options of the game")
    parser.add_argument("--games", type=_int, default=16, help="random games to play (default %(default)s)")
    parser.add_argument("--seed", type=_seed, default=0, help="of all randomness in the checks (default %(default)s)")
    parser.add_argument("--max-steps", type=_int, default=5000, help="limit of a random game (default %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="run this check alone; repeatable")


def compare(parser: ArgumentParser) -> None:
    """`jaxrl compare`."""
    _run(parser, "the run that is compared with: a path, or a name in runs/", dest="before", metavar="A")
    _run(parser, "the run that should be faster and play as well", dest="after", metavar="B")
    allow(parser)
    parser.add_argument("--min-gain", type=_real, default=MIN_GAIN, help="throughput that B must gain (default: 10 %%)")
    parser.add_argument("--max-drop", type=_real, default=MAX_DROP, help="win rate that B may lose (default: 3 points)")
    parser.add_argument("--json", metavar="FILE", help="write the comparison there too")


def diagnose(parser: ArgumentParser) -> None:
    """`jaxrl diagnose`."""
    _devices(parser)
    engines = ", ".join(registry.games_with("diagnosis"))
    help = "diagnose the configuration of this run, or what a game needs whose engine is another program: "
    _run(parser, help + engines, nargs="?")
    _overrides(parser, "changes to the configuration", "a.b=value")
    _config(parser, "diagnose this configuration (default: the defaults)", metavar="FILE")
    allow(parser)
    parser.add_argument("--save", metavar="FILE", help="write the report there, for --compare")
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"), help="compare two saved reports")
    parser.add_argument("--seconds", type=_real, default=2.0, help="how long each measurement takes (default: 2)")


def config(parser: ArgumentParser) -> None:
    """`jaxrl config`."""
    help = "print this configuration, complete, with the origin of each value"
    _config(parser, help, "preset", metavar="PRESET", nargs="?")
    _config(parser, "the same", metavar="PRESET")
    allow(parser)
    parser.add_argument("--env", metavar="ID", help="print the options and settings of this game instead")
    _overrides(parser, "changes to the configuration", "key.key=value")


def games(parser: ArgumentParser) -> None:
    """`jaxrl games`."""


def runs(parser: ArgumentParser) -> None:
    """`jaxrl runs`."""
    parser.add_argument("folder", nargs="?", default="runs", help="where the runs are (default: runs)")


def verify(parser: ArgumentParser) -> None:
    """`jaxrl verify`."""
    parser.add_argument("game", nargs="?", help="a registered game, e.g. skull_king")
    parser.add_argument("file", nargs="*", help="its recordings: JSON lines, plain or .gz")
