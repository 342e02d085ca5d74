"""`python -m scripts.benchmark.card --minutes 10`: what one GPU does with jaxrl, the most telling figures first.

    pip install -e '.[cuda12,gpu-monitor]' && python -m scripts.benchmark.card --minutes 10
    JAX_PLATFORMS=cpu python -m scripts.benchmark.card --dry        # all of it with tiny sizes, on any machine

Every part is a process of its own, with XLA's flags for it, and a file of rows that are added as they come; the page
`card/README.md` is written again after each. Cut off, the same command goes on with the parts that have not ended.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orjson

from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.config import Config, command_line
from jaxrl.diagnose import device_parity, hardware, saturation
from jaxrl.diagnose.timing import Contestant, race, safe_ratio
from jaxrl.games import make_env
from jaxrl.runs.checkpoints.leaves import params_hash
from jaxrl.runs.directory import RunDirectory
from jaxrl.runs.metric_log import read_rows
from jaxrl.text_tables import align, count, duration, machine
from jaxrl.training.make import make_program
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
PAGE, LOG = "README.md", "log.txt"
LEAST = 20.0  # seconds that a part has to have, for a start and a first row
TURN = {False: 1.0, True: 0.01}  # by --dry: least seconds of a turn of what is timed
UPDATES = 20  # after which parameters are compared
GRAPHS = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION"
MODES = {  # XLA's ways to launch kernels
    "smallest graph 1": "--xla_gpu_graph_min_graph_size=1",
    "and loops in graphs": f"--xla_gpu_graph_min_graph_size=1 --xla_gpu_enable_command_buffer={GRAPHS},WHILE",
    "and branches": f"--xla_gpu_graph_min_graph_size=1 --xla_gpu_enable_command_buffer={GRAPHS},WHILE,CONDITIONAL",
    "and loops unrolled": f"--xla_gpu_graph_min_graph_size=1 --xla_gpu_enable_command_buffer={GRAPHS},WHILE,CONDITIONAL"
    " --xla_gpu_command_buffer_unroll_loops=true",
    "no products by Triton": "--xla_gpu_enable_triton_gemm=false",
}
DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
WIDE = ["network.compute_dtype=bfloat16", "ppo.minibatches=32", "train.num_envs=16384", "train.num_steps=32"]
TINY = ["network.hidden=[8]", "train.num_envs=64", "train.num_steps=4", "ppo.minibatches=1", "ppo.epochs=1"]
TINY += ["train.total_steps=2048", "train.updates_per_call=2", "train.checkpoint_every=2", "train.evaluate_every=2"]

GPU = "skull_king_gpu"

Row = dict[str, Any]


class Place(NamedTuple):
    """Where and how a part is measured."""

    folder: Path
    dry: bool
    seconds: float = 60.0  # left for the part

    def words(self, preset: str, *overrides: str) -> list[str]:
        """Returns arguments of `jaxrl train`; dry: Nim, with the overrides of `run` and the rules to stop alone."""
        if not self.dry:
            return ["--config", preset, *overrides]
        kinds = ("run.", "train.total", "train.stop", "train.evaluate_every=0")
        kept = [each for each in overrides if each.startswith(kinds)]
        return ["--config", str(ROOT / "examples/nim.yaml"), "--allow", "examples", *TINY, *kept]

    def config(self, preset: str, *overrides: str) -> Config:
        """Returns the configuration; without an early stop, because skipped passes would look like speed."""
        _, path, *words = self.words(preset, *overrides, *([] if self.dry else ["ppo.target_kl=0"]))
        return configs.load(path, [each for each in words if "=" in each], ["examples"] if self.dry else [])


class Part(NamedTuple):
    """A process of measurements."""

    name: str
    rows: Callable[[Place], Iterator[Row]]
    flags: str = ""  # of XLA
    most: float = 180.0  # seconds


# ---- what is measured ---------------------------------------------------------------------------------------------


def speed(preset: str, *overrides: str) -> Callable[[Place], Iterator[Row]]:
    """Returns a part that times whole updates, with a hash and the norm of the parameters after the first call."""

    def rows(place: Place) -> Iterator[Row]:
        config = place.config(preset, *overrides)
        program = make_program(config, make_env(config))
        state = [program.init(config.run.seed)]

        def block() -> None:
            state[0], _, _ = jax.block_until_ready(program.advance(state[0]))

        start = time.perf_counter()
        block()
        first, norm = time.perf_counter() - start, float(np.linalg.norm(parameters(state[0])))
        found = {"hash": params_hash(state[0].learner.params), "norm": norm}  # before the timing, which goes on with it
        steps = float(config.batch_size * config.train.updates_per_call * config.run.seeds)
        [rate] = race([Contestant("", steps, block)], rounds=3, seconds=TURN[place.dry])
        yield {
            "configuration": " ".join([preset, *overrides]),
            **{"games": config.train.num_envs * config.run.seeds, "training steps/s": rate.rate},
            **{"slowest": rate.low, "fastest": rate.high, "compiled and first call, s": first},
            **{"peak device MiB": hardware.memory()["peak_device_mib"], **found},
        }

    return rows


def parameters(state: Any) -> np.ndarray:
    """Returns all parameters of a training state, one after the other."""
    leaves = jax.tree.leaves(jax.device_get(state.learner.params))
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in leaves])


def rates(preset: str, *overrides: str) -> Callable[[Place], Iterator[Row]]:
    """Returns a part with the rates of playing and training by the number of games, up to the most that pays."""

    def rows(place: Place) -> Iterator[Row]:
        config = place.config(preset, *overrides)
        most = saturation.FIRST if place.dry else saturation.MOST
        for each in saturation.rates(config, make_env(config), TURN[place.dry], most):
            found = {"games": each.num_envs, "playing steps/s": each.playing, "training steps/s": each.training}
            yield {"configuration": " ".join([preset, *overrides]), **found, "peak device MiB": each.peak_mib}

    return rows


def parity(preset: str) -> Callable[[Place], Iterator[Row]]:
    """Returns a part that compares games, answers, an update and many updates with the CPU's."""

    def rows(place: Place) -> Iterator[Row]:
        config = place.config(preset)
        env, devices = make_env(config), (jax.devices("cpu")[0], jax.devices()[0])
        for each in device_parity.agreements(config, env, *devices):
            bound = each.bound if each.fine else f"{each.bound}, NOT KEPT"
            yield {"compared": each.what, "found": each.found, "bound": bound}
        small = device_parity.smaller(config)
        (start, one), (_, two) = (after(small, env, each) for each in devices)
        apart = safe_ratio(float(np.linalg.norm(two - one)), float(np.linalg.norm(one - start)))
        yield {"compared": f"parameters after {UPDATES} updates", "found": f"differ by {apart:.1e} of their way"}

    return rows


def after(config: Config, env: Env, device: jax.Device) -> tuple[np.ndarray, np.ndarray]:
    """Returns the parameters before the first and after the last of `UPDATES` updates on a device."""
    program = make_program(config, env, devices=[device])
    state, done = program.init(config.run.seed), 0
    first = parameters(state)
    while done < UPDATES:
        state, _, made = program.advance(state)
        done += made
    return first, parameters(state)


def same_bits(place: Place) -> Iterator[Row]:
    """Times two trainings, whose hashes are to be equal: the flags of this part ask for the same bits."""
    for _ in range(2):
        yield from speed(GPU)(place)


def kill_and_resume(place: Place) -> Iterator[Row]:
    """Compares the state of a run that is killed after a checkpoint and goes on with that of one that is not."""
    size = ["train.total_steps=1024"] if place.dry else ["train.total_steps=4194304", "train.checkpoint_every=2"]
    size += ["run.deterministic=true", f"run.directory={place.folder / 'runs'}"]
    words = place.words(GPU, *size, "train.evaluate_every=0")
    arrays, killed = [], 0
    for name in ("whole", "killed"):
        run = RunDirectory(place.folder / "runs" / name)
        shutil.rmtree(run.path, ignore_errors=True)
        if name == "killed":
            with jaxrl("train", *words, "--name", name, "--continue") as training:
                while training.poll() is None and not run.checkpoints().steps():
                    time.sleep(0.05)
                killed = max(run.checkpoints().steps())
        with jaxrl("train", *words, "--name", name, "--continue") as training:
            if training.wait():
                raise UserError(f"the training {name!r} ended with exit code {training.returncode}.")
        arrays.append(run.checkpoints().newest().arrays)
    whole, resumed = arrays
    same = sum(np.array_equal(whole[leaf], resumed[leaf], equal_nan=True) for leaf in whole)
    yield {"killed after update": killed, "arrays of the state": len(whole), "equal": same}


def to_a_mark(place: Place) -> Iterator[Row]:
    """Trains until the policy wins 80 % of its games against "hard", or for as long as there is time."""
    mark = "train.stop.win_rate=0.8" if place.dry else "train.stop.win_rate={hard: 0.8}"
    words = place.words(GPU, mark, f"run.directory={place.folder / 'runs'}", "train.evaluate_every=50")
    end, start = time.monotonic() + place.seconds, time.monotonic()
    with jaxrl("train", *words, "--name", "mark", "--continue") as training:
        while training.poll() is None and time.monotonic() < end:
            time.sleep(0.2)
        training.send_signal(signal.SIGTERM)
        training.wait()
    figures: Row = {"seconds": time.monotonic() - start}
    for row in read_rows(place.folder / "runs" / "mark" / "metrics.jsonl"):
        figures |= {tag: value for tag, value in row.items() if tag == "steps" or tag.endswith("win_rate")}
    yield figures


@contextlib.contextmanager
def jaxrl(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a command of jaxrl, which ends with the block at the latest; its words go to stderr."""
    with subprocess.Popen([sys.executable, "-m", "jaxrl", *words], cwd=ROOT, stdout=2) as process:
        try:
            yield process
        finally:
            process.kill()


PARTS = [  # the most telling first: three minutes answer how fast and whether right
    Part("speed", speed(GPU)),
    Part("beside the CPU: Skull King", parity("skull_king")),
    Part("one kernel: car soccer", speed("car_soccer", *WIDE)),
    *(Part(f"launches: {name}", speed(GPU), flags) for name, flags in MODES.items()),
    Part("by games: Skull King", rates(GPU)),
    Part("one kernel: Skull King", speed(GPU, "run.one_kernel=true")),
    Part("one kernel: shots", speed("car_soccer_shoot")),
    Part("one kernel: shots by XLA", speed("car_soccer_shoot", "run.one_kernel=false")),
    Part("by games: Beasty Bar", rates("beasty_bar_gpu")),
    Part("by games: car soccer", rates("car_soccer")),
    Part("population", speed(GPU, "run.seeds=16", "train.num_envs=1024")),
    Part("the same bits", same_bits, DETERMINISTIC),
    Part("kill and resume", kill_and_resume, DETERMINISTIC),
    Part("to 80 % against hard", to_a_mark, most=math.inf),
    Part("beside the CPU: Beasty Bar", parity("beasty_bar")),
    Part("beside the CPU: car soccer", parity("car_soccer_shoot")),
    *(Part(f"launches, cars: {name}", speed("car_soccer", *WIDE), flags) for name, flags in MODES.items()),
    Part("by games: car soccer 2v2", rates("car_soccer", "env.options.teams=[2,2]")),
    Part("by games: car soccer 3v3", rates("car_soccer", "env.options.teams=[3,3]")),
]


# ---- results ------------------------------------------------------------------------------------------------------


def add(file: Path, **found: Any) -> None:
    """Adds a line to the results of a part."""
    with file.open("ab") as lines:
        lines.write(orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE))


def file_of(part: Part, folder: Path) -> Path:
    """Returns the file with the results of a part."""
    return folder / f"{PARTS.index(part):02} {part.name}.jsonl"


def lines_of(part: Part, folder: Path) -> list[Row]:
    """Returns the results of a part since its latest start."""
    file = file_of(part, folder)
    return read_rows(file) if file.exists() else []


def missing(folder: Path) -> list[Part]:
    """Returns the parts that have not ended well."""
    return [part for part in PARTS if not any("end" in line for line in lines_of(part, folder))]


def section(part: Part, folder: Path) -> str:
    """Returns the results of a part as a section of the page; "" without any."""
    lines = lines_of(part, folder)
    rows = [line["row"] for line in lines if "row" in line]
    tags = list(dict.fromkeys(tag for row in rows for tag in row))
    text = [align([tags, *([cell(row.get(tag)) for tag in tags] for row in rows)])] if rows else []
    told = (f"{what}: {line[what]}" for line in lines for what in ("flags", "failed", "machine") if line.get(what))
    return "\n\n".join([f"## {part.name[0].upper()}{part.name[1:]}", *text, *told]) + "\n" if lines else ""


def cell(value: Any) -> str:
    """Formats a cell of a table."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else count(value) if abs(value) >= 1e4 else f"{value:.6g}"


# ---- processes ----------------------------------------------------------------------------------------------------


def measure(part: Part, place: Place) -> int:
    """Measures a part in this process, and adds its rows to the results."""
    start, file = time.perf_counter(), file_of(part, place.folder)
    for row in part.rows(place):
        add(file, row=row)
    gpus = [" ".join(f"{key} {value}" for key, value in gpu.items()) for gpu in hardware.gpus()]
    add(file, end=time.perf_counter() - start, machine=" · ".join([machine(hardware.describe()), *gpus]))
    return 0


def launch(part: Part, place: Place) -> None:
    """Measures a part in a process of its own, which ends when its time is over."""
    words = ["--part", part.name, "--out", str(place.folder), "--seconds", f"{place.seconds:g}"]
    command = [sys.executable, "-m", "scripts.benchmark.card", *words, *(["--dry"] * place.dry)]
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(place.folder / "cache"))
    flags = f"{os.environ.get('XLA_FLAGS', '')} {part.flags}".strip()
    more = {"XLA_FLAGS": flags, "JAX_COMPILATION_CACHE_DIR": cache, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    with (place.folder / LOG).open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | more, stderr=log, start_new_session=True)
        try:
            why = f"exit code {process.wait(place.seconds + LEAST / 2)}"
        except subprocess.TimeoutExpired:
            why = "its time was over"
        finally:
            with contextlib.suppress(ProcessLookupError):  # with the trainings that it has started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        last = (place.folder / LOG).read_text(errors="replace").strip().splitlines()[-1:]
        add(file_of(part, place.folder), failed=": ".join([why, *last]))


def run(args: argparse.Namespace) -> int:
    """Measures all parts that have not ended, as far as the time goes; 1 if one has not."""
    end, folder = time.monotonic() + 60 * args.minutes, Path(args.out).resolve()
    if args.part:
        return measure(next(part for part in PARTS if part.name == args.part), Place(folder, args.dry, args.seconds))
    if xla.on_cpu() and not args.dry:
        raise UserError("there is no GPU that jax sees: install the driver and the extra cuda12, or try --dry.")
    folder.mkdir(parents=True, exist_ok=True)
    for part in missing(folder):
        if (left := end - time.monotonic()) < LEAST:
            break
        print(f"{part.name} ({duration(left)} left)", flush=True)
        file_of(part, folder).write_bytes(b"")
        add(file_of(part, folder), flags=part.flags)
        launch(part, Place(folder, args.dry, min(part.most, left - LEAST / 2)))
        print(section(part, folder), flush=True)
        sections = filter(None, (section(each, folder) for each in PARTS))
        files.write(folder / PAGE, "\n".join(["# jaxrl on one GPU\n", *sections]).encode())
    rest = ", ".join(part.name for part in missing(folder))
    print(f"{folder / PAGE}: " + (f"the same command goes on with {rest}" if rest else "complete"))
    return 1 if rest else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = cli.Parser(prog="python -m scripts.benchmark.card", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=command_line.real, default=10.0, help="by the clock (default: 10)")
    parser.add_argument("--out", default="card", metavar="FOLDER", help="folder of the results (default: card)")
    parser.add_argument("--dry", action="store_true", help="tiny sizes, also on a CPU: whether every part works")
    parser.add_argument("--part", choices=[part.name for part in PARTS], help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=command_line.real, default=60.0, help=argparse.SUPPRESS)
    return cli.guarded(functools.partial(run, parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
