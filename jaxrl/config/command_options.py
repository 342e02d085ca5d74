"""The options of every command.

They stand apart from what the commands do, because `jaxrl COMMAND --help` and the shell's completion read them alone:
nothing here imports jax.
"""

from __future__ import annotations

from argparse import ArgumentParser

from jaxrl.config import command_arguments
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.zoo import names as zoo_names
from jaxrl_envs.contract import registry

MIN_GAIN, MAX_DROP = 10.0, 3.0  # of `compare`: per cent of throughput, points of win rate
SLOWEST, FASTEST = 0.1, 20.0  # of `film`: pace


def train(parser: ArgumentParser) -> None:
    """`jaxrl train`."""
    _training(parser)
    help = "go on with the run of that name if it is saved already; refuses other settings than it was begun with"
    parser.add_argument("--continue", action="store_true", dest="goes_on", help=help)
    command_arguments.distributed(parser)


def launch(parser: ArgumentParser) -> None:
    """`jaxrl launch`; what follows the other command is that one's."""
    parser.add_argument("-n", type=command_arguments.whole, required=True, dest="processes", help="how many processes")
    help = "start all of them again, from the newest checkpoint, so many times after one has died (default: 3)"
    parser.add_argument("--restarts", type=command_arguments.whole, default=3, metavar="N", help=help)


def _training(parser: ArgumentParser) -> None:
    """What is trained."""
    command_arguments.devices(parser)
    command_arguments.config(
        parser, "a YAML file or the name of a shipped configuration (default: the defaults, for env.id=GAME)"
    )
    command_arguments.allow(parser)
    parser.add_argument("--name", help="name of the run (default: run.name, else that of the configuration or game)")
    command_arguments.overrides(parser)


def ablate(parser: ArgumentParser) -> None:
    """`jaxrl ablate`."""
    _training(parser)
    parser.add_argument(
        "--over",
        required=True,
        metavar="PATH",
        help="the option of the game that is a mapping of weights, e.g. env.options.rewards: each of them is left out",
    )
    parser.add_argument("--only", metavar="A,B", help="leave out these alone (default: all weights that are not 0)")
    parser.add_argument(
        "--seeds",
        type=command_arguments.whole,
        help="of each training, in one program (default: run.seeds, at least 3)",
    )


def resume(parser: ArgumentParser) -> None:
    """`jaxrl resume`."""
    command_arguments.run(parser)
    command_arguments.allow(parser)
    parser.add_argument("--steps", help="train to this many environment steps (train.total_steps)")
    command_arguments.distributed(parser)
    command_arguments.overrides(parser, "configuration keys to change from here on")


def evaluate(parser: ArgumentParser) -> None:
    """`jaxrl evaluate`."""
    command_arguments.entrant(parser)
    help = "another run, file, zoo:NAME or bot:NAME: paired on the same deals"
    command_arguments.completed(
        parser.add_argument("--against", metavar="RUN2", help=help), command_arguments.trained_names
    )
    help = "bots, searcher-200, zoo:NAME or policy files at the other seats (default: evaluate.opponents)"
    parser.add_argument("--opponents", metavar="A,B", help=help)
    parser.add_argument("--deals", type=command_arguments.whole, help="deals per opponent (default: evaluate.deals)")
    parser.add_argument("--seed", type=command_arguments.seed, help=f"seed of the deals (default: {EVALUATION_SEED})")
    parser.add_argument(
        "--simulator",
        metavar="NAME",
        help="another program that plays the game: the same deals there too, side by side",
    )
    command_arguments.search(parser)


def tournament(parser: ArgumentParser) -> None:
    """`jaxrl tournament`."""
    action = parser.add_argument(
        "players",
        nargs="+",
        metavar="PLAYER",
        help="RUN, RUN@UPDATE, RUN@best, RUN@all (checkpoints), a policy file, zoo:NAME, bot:NAME, bot:searcher-200, "
        "bots (all of the game); a.b=v changes a configuration key, of the game too if only bots play",
    )
    command_arguments.completed(action, command_arguments.trained_names)
    command_arguments.config(parser, "if only bots play: the configuration that names the game")
    command_arguments.allow(parser)
    parser.add_argument(
        "--deals",
        type=command_arguments.whole,
        default=1000,
        help="deals per pair, each from every side (default: 1000)",
    )
    parser.add_argument("--seed", type=command_arguments.seed, default=0, help="seed of the deals (default: 0)")
    parser.add_argument("--sampled", action="store_true", help="sample from the policies even if they are greedy")
    parser.add_argument("--self", action="store_true", dest="self_pairs", help="players also meet themselves")
    parser.add_argument("--anchor", metavar="PLAYER", help="whose rating is fixed (default: bot:random, or the first)")
    parser.add_argument(
        "--anchor-rating", type=command_arguments.real, default=0.0, metavar="R", help="that rating (default: 0)"
    )
    parser.add_argument("--out", metavar="FOLDER", help="write matrix.json, table.md and heatmap.png there")
    parser.add_argument("--no-picture", action="store_true", help="leave heatmap.png out (it needs matplotlib)")
    parser.add_argument("--reference", metavar="FILE", help="a matrix to agree with, as matrix.json; else exit code 1")


def rate(parser: ArgumentParser) -> None:
    """`jaxrl rate`."""
    action = parser.add_argument(
        "players",
        nargs="*",
        metavar="PLAYER",
        help="RUN, RUN@UPDATE, RUN@best, RUN@all (checkpoints), a policy file, zoo:NAME, bot:NAME, bot:searcher-200, "
        "or bots, who are the scale itself; nobody: print it; a.b=v changes a configuration key, of the game too if "
        "only bots play",
    )
    command_arguments.completed(action, command_arguments.trained_names)
    command_arguments.config(parser, "if only bots play: the configuration that names the game")
    command_arguments.allow(parser)
    parser.add_argument("--file", metavar="FILE", help="the scale (default: ratings/GAME.yaml)")
    parser.add_argument("--sampled", action="store_true", help="sample from the policies even if they are greedy")
    parser.add_argument("--anchors", metavar="A,B", help="of a new scale: the bots that define it (default: all)")
    parser.add_argument(
        "--deals", type=command_arguments.whole, help="with every anchor, each from all sides (default: as the scale)"
    )


def exploit(parser: ArgumentParser) -> None:
    """`jaxrl exploit`."""
    command_arguments.devices(parser)
    command_arguments.run(parser)
    command_arguments.allow(parser)
    parser.add_argument(
        "--checkpoint", default="newest", metavar="A,B", help="newest, best, numbers of updates, or all that are kept"
    )
    parser.add_argument("--updates", help="updates of each best response (default: exploit.updates)")
    parser.add_argument("--budget", choices=("same",), help="same: as many decisions as the policy itself has had")
    parser.add_argument("--seeds", help="best responses side by side (default: exploit.seeds)")
    parser.add_argument("--from", dest="start", help="policy, scratch, or both (default: exploit.start)")
    parser.add_argument("--memory", help="lstm or gru: give one to the best responses (default: exploit.memory)")
    parser.add_argument("--deals", help="deals that measure the best of them (default: evaluate.deals)")
    command_arguments.overrides(
        parser, "configuration keys to change, e.g. exploit.learning_rate=1e-3; not the game, not the network"
    )


def distill(parser: ArgumentParser) -> None:
    """`jaxrl distill`."""
    command_arguments.run(parser, "the run whose network searches and learns")
    command_arguments.allow(parser)
    parser.add_argument("--name", required=True, help="name of the new run, beside RUN")
    parser.add_argument("--opponents", metavar="A,B", help="bots, or self (default: evaluate.opponents)")
    command_arguments.checkpoint(parser)
    parser.add_argument(
        "--iterations", type=command_arguments.whole, default=20, help="turns of playing and learning (default: 20)"
    )
    parser.add_argument("--games", type=command_arguments.whole, default=256, help="games per turn (default: 256)")
    unit = (
        "searched decisions per step; a network that remembers learns whole games, as many as have so many moves of "
        "all seats"
    )
    values = "; values are learnt in the game as evaluated"
    command_arguments.learning(parser, 2, "passes over the games of a turn", 512, unit, 3e-4, values)
    command_arguments.search(parser, required=True)
    command_arguments.overrides(parser, "configuration keys to change in the new run; not the game, not the network")


def imitate(parser: ArgumentParser) -> None:
    """`jaxrl imitate`."""
    command_arguments.config(parser, "a YAML file or the name of a shipped configuration", "config", metavar="CONFIG")
    command_arguments.allow(parser)
    parser.add_argument(
        "--data",
        nargs="+",
        action="extend",
        required=True,
        metavar="PATH",
        help="recorded games: files or folders, of which PATH@500 takes 500 games and PATH@x0.5 counts each half; "
        "bot:NAME: games that this bot plays (several: against each other)",
    )
    parser.add_argument(
        "--held-out-data", nargs="+", action="extend", default=[], metavar="PATH", help="games to report on alone"
    )
    help = "games that bots play, and the learner in each round (default: 2000)"
    parser.add_argument("--games", type=command_arguments.whole, default=2000, help=help)
    help = "rounds in which it plays and learns what an expert would have done (default: 0)"
    parser.add_argument("--dagger", type=command_arguments.whole, default=0, metavar="ROUNDS", help=help)
    parser.add_argument(
        "--expert", default="", metavar="BOT", help="who knows (default: the game's own player, else its reference bot)"
    )
    help = "deals of the games at the end against evaluate.opponents; 0: none (default: evaluate.deals)"
    parser.add_argument("--deals", type=command_arguments.whole, help=help)
    parser.add_argument("--name", help="name of the run (default: that of the configuration, with -imitated behind)")
    unit = "decisions per step; a network that remembers learns whole games, as many as fit"
    command_arguments.learning(parser, 30, "most passes over the games", 256, unit, 1e-3, "")
    parser.add_argument(
        "--patience",
        type=command_arguments.whole,
        default=4,
        help="passes without progress before the end (default: 4)",
    )
    parser.add_argument(
        "--check", type=command_arguments.real, default=0.15, help="share of the games to check with (default: 0.15)"
    )
    command_arguments.overrides(parser)


def play(parser: ArgumentParser) -> None:
    """`jaxrl play`."""
    who = "a run, a policy file, zoo:NAME (or NAME alone, if no run is called so), or a bot as bot:NAME"
    command_arguments.at_the_table(parser, "your seat", who)
    parser.add_argument("--seed", type=command_arguments.seed, help="seed of the deal (default: a new one, printed)")


def serve(parser: ArgumentParser) -> None:
    """`jaxrl serve`."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine)")
    parser.add_argument("--port", type=command_arguments.port, default=8765, help="default: 8765")
    parser.add_argument(
        "--token",
        help="what your browser must show; guests have others (default: a new one; none on a loopback address)",
    )
    parser.add_argument("--folder", metavar="DIR", help="where tables are kept (default: .tables in --runs)")
    parser.add_argument("--runs", default="runs", metavar="DIR", help="where runs are (default: runs)")
    parser.add_argument("--replays", nargs="*", default=[], metavar="DIR", help="more folders with recorded games")
    help = "also offer this game: pgx:connect_four, my_file:MyGame; repeatable"
    parser.add_argument("--game", action="append", default=[], metavar="ID", help=help)
    parser.add_argument(
        "--tables", type=command_arguments.whole, default=100, metavar="N", help="at most so many (default: 100)"
    )
    command_arguments.allow(parser)


def film(parser: ArgumentParser) -> None:
    """`jaxrl film`."""
    command_arguments.at_the_table(
        parser, "the seat of RUN", "a run, a policy file, zoo:NAME, bot:NAME, or a file of RUN/replays"
    )
    parser.add_argument("--seed", type=command_arguments.seed, default=0, help="seed of the game (default: 0)")
    parser.add_argument("--file", default="film.svg", help="where to write it (default: film.svg)")
    parser.add_argument("--rewards", metavar="FILE", help="also draw what each component of the rewards brought, there")
    parser.add_argument(
        "--pace", type=command_arguments.real, default=1.0, help=f"2 is twice as fast, up to {FASTEST:g} (default: 1)"
    )


def export(parser: ArgumentParser) -> None:
    """`jaxrl export`."""
    command_arguments.run(parser)
    command_arguments.allow(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", help="the policy file (default: RUN.jaxrl)")
    command_arguments.checkpoint(parser)
    parser.add_argument(
        "--seed-index", type=command_arguments.whole, default=0, help="which seed of a run with several"
    )
    parser.add_argument("--half", action="store_true", help="weights in half precision; says what that costs")


def zoo(parser: ArgumentParser) -> None:
    """`jaxrl zoo`."""
    help = "list the policies, show the card of one, or get its file and its card (default: list)"
    parser.add_argument("what", choices=("list", "show", "get"), nargs="?", default="list", help=help)
    command_arguments.completed(parser.add_argument("name", nargs="?", metavar="NAME", help="of the policy"), zoo_names)
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="where to put them (default: here)")


def check(parser: ArgumentParser) -> None:
    """`jaxrl check`."""
    parser.add_argument("env", help="a registered game, LIBRARY:NAME, or your own package.module:Class")
    parser.add_argument("options", nargs="*", metavar="option=value", help="options of the game")
    parser.add_argument(
        "--games", type=command_arguments.whole, default=16, help="random games to play (default %(default)s)"
    )
    parser.add_argument(
        "--seed", type=command_arguments.seed, default=0, help="of all randomness in the checks (default %(default)s)"
    )
    parser.add_argument(
        "--max-steps", type=command_arguments.whole, default=5000, help="limit of a random game (default %(default)s)"
    )
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="run this check alone; repeatable")


def compare(parser: ArgumentParser) -> None:
    """`jaxrl compare`."""
    command_arguments.run(
        parser, "the run that is compared with: a path, or a name in runs/", dest="before", metavar="A"
    )
    command_arguments.run(parser, "the run that should be faster and play as well", dest="after", metavar="B")
    command_arguments.allow(parser)
    parser.add_argument(
        "--min-gain", type=command_arguments.real, default=MIN_GAIN, help="throughput that B must gain (default: 10 %%)"
    )
    parser.add_argument(
        "--max-drop", type=command_arguments.real, default=MAX_DROP, help="win rate that B may lose (default: 3 points)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the comparison there too")


def diagnose(parser: ArgumentParser) -> None:
    """`jaxrl diagnose`."""
    command_arguments.devices(parser)
    engines = ", ".join(registry.games_with("diagnosis"))
    help = "diagnose the configuration of this run, or what a game needs whose engine is another program: "
    command_arguments.run(parser, help + engines, nargs="?")
    command_arguments.overrides(parser, "changes to the configuration", "a.b=value")
    command_arguments.config(parser, "diagnose this configuration (default: the defaults)", metavar="FILE")
    command_arguments.allow(parser)
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="lower all that it would compile for a GPU, also on a machine without one; with one, compare the CPU and "
        "measure rates by batch",
    )
    parser.add_argument("--into", metavar="FILE", help="put the rates by batch there (--gpu; docs/results/measured.md)")
    parser.add_argument("--save", metavar="FILE", help="write the report there, for --compare")
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"), help="compare two saved reports")
    parser.add_argument(
        "--seconds", type=command_arguments.real, default=2.0, help="how long each measurement takes (default: 2)"
    )


def plan(parser: ArgumentParser) -> None:
    """`jaxrl plan`."""
    command_arguments.config(parser, "what would be trained (default: the defaults, for env.id=GAME)")
    command_arguments.allow(parser)
    command_arguments.overrides(parser)
    parser.add_argument("--steps", help="decisions of the training (default: train.total_steps)")
    parser.add_argument("--num-envs", help="games side by side (default: train.num_envs)")
    parser.add_argument(
        "--machines", type=command_arguments.whole, help="of the fleet (default: as many as its workers need)"
    )
    parser.add_argument("--cores", type=command_arguments.whole, help="of each machine (default: those of this one)")
    parser.add_argument(
        "--workers", type=command_arguments.whole, help="of the largest fleet (default: one for each core)"
    )
    parser.add_argument(
        "--price", type=command_arguments.real, help="of a machine (with --card: of the card) for an hour"
    )
    parser.add_argument(
        "--gbit", type=command_arguments.real, default=10.0, help="Gbit/s between machines (default: 10)"
    )
    parser.add_argument(
        "--seconds", type=command_arguments.real, default=2.0, help="how long each measurement takes (default: 2)"
    )
    parser.add_argument("--card", nargs="+", metavar="CARD", help="estimate for graphics cards instead: h100, rtx16")
    parser.add_argument("--all", action="store_true", help="with --card: all shipped configurations")


def config(parser: ArgumentParser) -> None:
    """`jaxrl config`."""
    help = "print this configuration, complete, with the origin of each value"
    command_arguments.config(parser, help, "preset", metavar="PRESET", nargs="?")
    command_arguments.config(parser, "the same", metavar="PRESET")
    command_arguments.allow(parser)
    parser.add_argument("--env", metavar="ID", help="print the options and settings of this game instead")
    command_arguments.overrides(parser, "changes to the configuration", "key.key=value")


def games(parser: ArgumentParser) -> None:
    """`jaxrl games`."""


def runs(parser: ArgumentParser) -> None:
    """`jaxrl runs`."""
    parser.add_argument("folder", nargs="?", default="runs", help="where the runs are (default: runs)")


def verify(parser: ArgumentParser) -> None:
    """`jaxrl verify`."""
    parser.add_argument("game", nargs="?", help="a registered game, e.g. skull_king")
    parser.add_argument("file", nargs="*", help="its recordings: JSON lines, plain or .gz")


def status(parser: ArgumentParser) -> None:
    """`jaxrl status`."""
    action = parser.add_argument("run", nargs="?", help="a run's folder or name (default: a table of all)")
    command_arguments.completed(action, command_arguments.run_names)
    parser.add_argument("--directory", default="runs", help="where the runs are (default: runs)")
    parser.add_argument("--json", action="store_true", help="print it as JSON, for programs")
