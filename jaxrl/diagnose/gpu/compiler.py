"""Compiles the programs of a configuration for a GPU that is absent, and reports kernels, waits and memory."""

from __future__ import annotations

import dataclasses
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import yaml
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from jaxrl.config import Config
from jaxrl.diagnose.gpu import thunks
from jaxrl.diagnose.gpu.cards import Card
from jaxrl.diagnose.gpu.hlo import Loop, kernels_of, read
from jaxrl.diagnose.gpu.programs import Lowerable, programs
from jaxrl.games import GameForms
from jaxrl.text_tables import table
from jaxrl_envs.shared.errors import UserError

KINDS = ("fusion", "copy", "product", "sort", "custom-call")  # columns; others are summed up
COSTLIEST = 10  # source lines
PARTS = {"step": "rollout", "minibatch": "minibatches"}  # part of an update -> the scope whose loop makes it
LIMITS = ("kernels", "copies", "waits")  # of a part, in a budget


class Compiled(NamedTuple):
    """Facts that the compiler reports about a program."""

    name: str
    seconds: float  # processor time of compiling
    memory: dict[str, int]  # bytes by kind
    program: Loop
    updates: int  # per call; 0 for what is no training
    captured: dict[str, thunks.Captured] = {}  # by a part of an update
    assembled: list[thunks.Assembled] = []  # the largest kernels


def compile_programs(config: Config, games: GameForms, card: Card, names: Sequence[str]) -> Iterator[Compiled]:
    """Compiles those of a configuration's programs that are named, as far as they exist. Raises UserError if the
    compiler does not accept the description of the card."""
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, devices=1))
    try:
        devices = topologies.get_topology_desc("gpu", "cuda", target_config=card.target, topology="1x1x1").devices
    except jax.errors.JaxRuntimeError as error:
        raise UserError(f"the compiler does not accept the description of {card.name}: {error}") from error
    for program in programs(config, games, devices):
        if program.name in names:
            training = program.name in ("training", "best response")
            yield _compiled(program, devices[0], config.train.updates_per_call if training else 0)


def _compiled(program: Lowerable, device: jax.Device, updates: int) -> Compiled:
    place = SingleDeviceSharding(device)
    forms = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), program.arguments)
    lowered = program.function.lower(*forms)
    with tempfile.TemporaryDirectory(prefix="jaxrl-xla-") as dump:
        start = time.process_time()
        try:
            compiled = lowered.compile(compiler_options=thunks.OPTIONS | {"xla_dump_to": dump})
        except jax.errors.JaxRuntimeError as error:
            raise UserError(f"XLA does not compile its {program.name}: {str(error).splitlines()[0]}") from error
        seconds, found = time.process_time() - start, compiled.memory_analysis()
        captured, assembled = thunks.captured(Path(dump)), thunks.assembled(Path(dump))
    memory = {
        "arguments": found.argument_size_in_bytes,
        "results beside them": found.output_size_in_bytes - found.alias_size_in_bytes,
        "temporary": found.temp_size_in_bytes,
    }
    # A match ends long before the bound of its steps; nearly all minibatches of an update are due.
    text = compiled.as_text()
    by_part = {
        part: captured[name]
        for part, scope in PARTS.items()
        for name, op_name in re.findall(r"^\s*(?:ROOT )?%?(while[\w.]*) = .*op_name=\"([^\"]*)\"", text, re.MULTILINE)
        if _makes(op_name, scope) and name in captured
    }
    return Compiled(program.name, seconds, memory, read(text, bounded=updates > 0), updates, by_part, assembled)


# ---- parts and budgets --------------------------------------------------------------------------------------------


def parts(found: Compiled, config: Config) -> dict[str, Counter[str]]:
    """Counts kernels and waits by kind of one step of all lanes and of one minibatch, if the program has them."""
    loops = {}
    for part, scope in PARTS.items():
        for loop, _ in found.program.walk():
            if _makes(loop.op_name, scope):
                # A network with a memory plays in chunks: loops within the loop.
                rounds = config.train.num_steps / loop.rounds if part == "step" else 1
                counts = loop.count() + Counter(waits=int(loop.by_data))
                loops[part] = Counter({kind: round(number / rounds) for kind, number in counts.items()})
                break
    return loops


def limited(counts: Counter[str]) -> dict[str, int]:
    """Returns the figures of a part that a budget limits."""
    return dict(zip(LIMITS, (kernels_of(counts), counts["copy"], counts["waits"]), strict=True))


def beyond(path: Path, name: str, found: dict[str, Counter[str]]) -> list[str]:
    """Returns sentences about what exceeds the budget of a configuration.

    Args:
      path: a YAML file, configuration -> part -> figure -> most.
      name: name of the configuration.
      found: its parts.

    Raises:
      UserError: the file cannot be read, or has no budget of this configuration.
    """
    try:
        budgets = yaml.safe_load(path.read_text(encoding="utf-8"))
        budget = {part: {limit: int(most) for limit, most in each.items()} for part, each in budgets[name].items()}
    except OSError as error:
        raise UserError(f"--budget {str(path)!r}: {error.strerror}.") from error
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"--budget {str(path)!r} has no budget of {name!r} (part: {{figure: most}}).") from error
    sentences = []
    for part, limits in budget.items():
        counts = limited(found.get(part, Counter()))
        for limit, most in limits.items():
            if limit not in counts or part not in PARTS:
                raise UserError(f"--budget {str(path)!r}: {part}.{limit} is no figure of {', '.join(PARTS)}.")
            if part not in found or counts[limit] > most:
                is_now = counts[limit] if part in found else "not found"
                sentences.append(f"{name}: {limit} of a {part}: {is_now}, where the budget is {most}.")
    return sentences


# ---- text ---------------------------------------------------------------------------------------------------------


def describe(found: Compiled, config: Config, card: Card) -> str:
    """Returns a report as text."""
    memory = ", ".join(f"{kind} {size / 1e6:.1f}" for kind, size in found.memory.items())
    head = ["loop", "rounds", "kernels in a round", *KINDS, "other", "waits", "line"]
    text = [
        f"{found.name} for {card.name}: compiled in {found.seconds:.0f} CPU s; MB of memory: {memory}",
        table(head, [_row(loop, depth) for loop, depth in _deep(found.program, 0)]),
        table(["source line", "kernels", "mostly"], list(_costliest(found.program))),
    ]
    for part, counts in parts(found, config).items():
        limits = ", ".join(f"{number} {what}" for what, number in limited(counts).items())
        text.append(f"a {part}: {limits}" + (f"; {found.captured[part]}" if part in found.captured else ""))
    if found.assembled:
        most = ", ".join(f"{each.name} {each.spilled} ({each.registers})" for each in found.assembled[:3])
        text.append(f"bytes that a thread spills (registers), of the {len(found.assembled)} largest kernels: {most}")
    if found.updates:
        counts = found.program.count()
        kernels, waits = kernels_of(counts) / found.updates, counts["waits"] / found.updates
        text.append(
            f"an update of {config.batch_size:,} steps: {kernels:,.0f} kernels, {waits:,.0f} waits for the host; "
            "a loop that ends by data runs to its bound, without one once"
        )
    return "\n\n".join(text)


def _deep(loop: Loop, depth: int) -> Iterator[tuple[Loop, int]]:
    yield loop, depth
    for inner in loop.inner:
        yield from _deep(inner, depth + 1)


def _row(loop: Loop, depth: int) -> list[str]:
    counts, own = loop.count(), loop.own()
    return [
        "- " * depth + _title(loop),
        "by data" if loop.by_data and loop.rounds == 1 else f"{loop.rounds}" + (" by data" if loop.by_data else ""),
        f"{kernels_of(counts):,}",
        *(str(own[kind] or "") for kind in KINDS),
        str(sum(number for kind, number in own.items() if kind not in KINDS) or ""),
        str(counts["waits"] or ""),
        short(loop.source),
    ]


def _title(loop: Loop) -> str:
    """Returns the scope that a loop makes, or what it is."""
    scopes = [scope for scope in PARTS.values() if _makes(loop.op_name, scope)]
    return scopes[0] if scopes else "branch" if loop.op_name.endswith("cond") else "loop" if loop.source else "program"


def _makes(op_name: str, scope: str) -> bool:
    """Returns whether jax's name of a loop is that of a named scope."""
    return re.search(rf"\b{scope}\)*/while$", op_name) is not None


def _costliest(program: Loop) -> Iterator[list[str]]:
    """Returns rows of the source lines with most kernels, each with the operation that is most of them."""
    lines: dict[str, Counter[str]] = {}
    for loop, times in program.walk():
        for kernel in loop.kernels:
            line = short(kernel.source) or f"{_title(loop)} {short(loop.source)}".strip()
            name = "/".join(kernel.op_name.split("/")[-2:]) or kernel.kind
            lines.setdefault(line, Counter())[name] += times
    for line, names in sorted(lines.items(), key=lambda each: each[1].total(), reverse=True)[:COSTLIEST]:
        yield [line, f"{names.total():,}", names.most_common(1)[0][0]]


def short(source: str) -> str:
    """Returns a source line from its package on."""
    found: Any = re.search(r"(?:site-packages/|/(?=(?:jaxrl|jaxrl_envs|tests|examples)/))([^/].*)$", source)
    return found.group(1) if found else source
