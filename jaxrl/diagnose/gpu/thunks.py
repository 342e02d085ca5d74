"""Reads what XLA dumps beside a compiled module: what CUDA graphs capture, and which kernels spill registers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

OPTIONS: dict[str, str | bool] = {"xla_dump_hlo_as_text": True}  # of the compilation, beside xla_dump_to
LARGEST = 8  # kernels that are assembled again, by the length of their code
THUNK = re.compile(r"^( *)(\d+): (k\w+)")
LOOP, GRAPH, HOST_READS = "kWhile", "kCommandBuffer", "kConditional"
CONDITION = re.compile(r"^condition:\n(?:(?! *body:).*\n)*", re.MULTILINE)  # not run where the rounds are known
WHOLE = "kDynamicSliceFusion"  # one launch, made of others
FREE = {LOOP, GRAPH, HOST_READS, "kSequential"}


class Captured(NamedTuple):
    """Launches of one round of a loop without inner loops, as XLA divides them."""

    graphs: int  # CUDA graphs, each one launch of the host
    inside: int  # kernels and copies that graphs launch
    alone: int  # kernels and copies that the host launches
    waits: int  # branches that the host decides; those inside of a graph are not counted

    def __str__(self) -> str:
        found = f"{self.inside} launches in {self.graphs} CUDA graphs, {self.alone} alone"
        return found + (f", {self.waits} branches that the host decides" if self.waits else "")


class Assembled(NamedTuple):
    """A kernel as `ptxas` assembles it."""

    name: str
    registers: int
    spilled: int  # bytes a thread


def captured(folder: Path) -> dict[str, Captured]:
    """Returns what graphs capture in each loop by XLA's name of its instruction, and as "" outside of loops; nothing if
    this version of XLA dumps no thunks."""
    found = sorted(folder.glob("*.thunk_sequence*.txt"))  # the last one is that after the passes, if they did anything
    if not found:
        return {}
    facts = (folder / f"{found[-1].name.partition('.thunk_sequence')[0]}.thunk_metadata.txt").read_text()
    told = re.findall(r'profile_annotation: "([^"]*)"(?:\s+thunk_id: (\d+))?', facts)
    names = {int(number or 0): name for name, number in told if name.startswith("while")}
    counts: dict[str, list[int]] = {}
    for loop, graph, kind in _walk(found[-1].read_text()):
        count = counts.setdefault(names.get(loop, str(loop)) if loop >= 0 else "", [0, 0, 0, 0])
        count[0] += kind == GRAPH
        count[1] += graph and kind not in FREE
        count[2] += not graph and kind not in FREE
        count[3] += not graph and kind == HOST_READS
    return {name: Captured(*count) for name, count in counts.items()}


def _walk(text: str) -> Iterator[tuple[int, bool, str]]:
    """Yields (number of the innermost loop or -1, whether in a graph, kind) of each thunk that is not part of one."""
    above: list[tuple[int, int, str]] = []  # indentation, number, kind
    for found in filter(None, map(THUNK.match, CONDITION.sub("", text).splitlines())):
        depth, number, kind = len(found[1]), int(found[2]), found[3]
        while above and above[-1][0] >= depth:
            above.pop()
        if all(outer != WHOLE for _, _, outer in above):
            loops = [each for _, each, outer in above if outer == LOOP]
            yield loops[-1] if loops else -1, any(outer == GRAPH for _, _, outer in above), kind
        above.append((depth, number, kind))


def assembled(folder: Path) -> list[Assembled]:
    """Returns the largest kernels of a dump with registers and spills, the one that spills most first."""
    kernels = []
    for path in sorted(folder.glob("*.ptx"), key=lambda path: path.stat().st_size, reverse=True)[:LARGEST]:
        text = path.read_text()
        target, name = re.search(r"^\.target (\w+)", text, re.MULTILINE), re.search(r"\.entry ([\w$.]+)", text)
        if target and name:
            command = ["ptxas", "-v", f"-arch={target[1]}", "-o", os.devnull, str(path)]
            told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
            registers = [int(number) for number in re.findall(r"Used (\d+) registers", told)]
            spilled = [int(number) for number in re.findall(r"(\d+) bytes spill stores", told)]
            kernels.append(Assembled(name[1], max(registers, default=0), max(spilled, default=0)))
    return sorted(kernels, key=lambda each: (each.spilled, each.registers), reverse=True)
