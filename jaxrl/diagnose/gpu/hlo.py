"""Reads the text of a compiled XLA module: loops, and the kernels of one round of each."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "call", "after-all", "partition-id", "domain"}
PRODUCT = re.compile(r"__cublas|__triton_gemm|__cudnn")
LIBRARIES = "site-packages/"
CALLED = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")


class Operation(NamedTuple):
    """An instruction of a computation."""

    name: str
    type: str
    kind: str
    text: str  # behind the kind: operands and attributes


class Kernel(NamedTuple):
    """Unit of work that a GPU launches once: a fusion, a copy, a sort, a call of a library."""

    kind: str  # "fusion", "copy", "product" (by a library or Triton), or XLA's name of another operation
    op_name: str  # jax's name, e.g. "jit(f)/while/body/add"
    source: str  # "path:line" of the innermost frame outside of libraries; empty if XLA names none


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop of a program, or the whole program as one round."""

    op_name: str  # origin, as of a kernel
    source: str
    rounds: int  # repetitions; for an end that depends on data the bound in its condition, or 1 without a bound
    by_data: bool  # whether the end depends on data: the host then reads the condition before each round
    kernels: tuple[Kernel, ...]  # of one round, without inner loops; with those of a condition that the host reads
    branches: int  # branches in a round that the host decides
    inner: tuple[Loop, ...]  # loops within; of the branches of a decision, the one with the most kernels

    def walk(self, times: int = 1) -> Iterator[tuple[Loop, int]]:
        """Yields (loop, rounds in all) for this loop and those within, in one round of this loop."""
        yield self, times
        for loop in self.inner:
            yield from loop.walk(times * loop.rounds)

    def count(self) -> Counter[str]:
        """Counts kernels by kind in one round with inner loops, and as "waits" how often the host reads a value."""
        found: Counter[str] = Counter()
        for loop, times in self.walk():
            for kind, number in loop.own().items():
                found[kind] += times * number
            found["waits"] += times * (loop.branches + sum(1 + each.rounds for each in loop.inner if each.by_data))
        return found

    def own(self) -> Counter[str]:
        """Counts kernels by kind in one round without inner loops."""
        return Counter(kernel.kind for kernel in self.kernels)


def kernels_of(found: Counter[str]) -> int:
    """Counts the kernels of a `Loop.count`."""
    return sum(number for kind, number in found.items() if kind != "waits")


def read(text: str, bounded: bool = True) -> Loop:
    """Returns the program of an optimised HLO module, from `jax.stages.Compiled.as_text`; loops whose end depends on
    data run to the bound in their condition if `bounded`, else they count once."""
    return _Module(text, bounded).program()


class _Module:
    """The computations and the table of source lines of one module."""

    def __init__(self, text: str, bounded: bool):
        self._bounded = bounded
        self.computations: dict[str, list[Operation]] = {}
        self.entry = ""
        body: list[Operation] = []
        for line in text.splitlines():
            head = re.match(r"^(ENTRY )?%?([\w.\-]+) .*\{$", line)
            if head:
                body = self.computations[head.group(2)] = []
                self.entry = head.group(2) if head.group(1) else self.entry
            elif operation := _operation(line):
                body.append(operation)
        self._files, self._places, self._frames = (
            _table(text, name) for name in ("FileNames", "FileLocations", "StackFrames")
        )

    def program(self) -> Loop:
        """Returns the entry computation with all that it calls."""
        return self._loop(self.entry, "", "", 1, False)

    def _loop(self, name: str, op_name: str, source: str, rounds: int, by_data: bool) -> Loop:
        kernels: list[Kernel] = []
        inner: list[Loop] = []
        branches = 0
        for each in self.computations.get(name, []):
            if each.kind == "while":
                inner.append(self._while(each))
            elif each.kind == "conditional":
                branches += 1
                inner.append(self._branch(each))
            elif each.kind == "call":
                for called in CALLED.findall(each.text):
                    part = self._loop(called, "", "", 1, False)
                    kernels += part.kernels
                    inner += part.inner
                    branches += part.branches
            elif each.kind not in FREE and not each.kind.endswith("-done"):
                kernels.append(self._kernel(each))
        return Loop(op_name, source, rounds, by_data, tuple(kernels), branches, tuple(inner))

    def _while(self, each: Operation) -> Loop:
        known = re.search(r'known_trip_count":\{"n":"(\d+)"', each.text)
        rounds = int(known.group(1)) if known else self._bound(_attribute(each, "condition"))
        loop = self._loop(_attribute(each, "body"), *self._origin(each), rounds, known is None)
        if known:
            return loop
        asked = self._loop(_attribute(each, "condition"), "", "", 1, False)
        return dataclasses.replace(loop, kernels=loop.kernels + asked.kernels)

    def _branch(self, each: Operation) -> Loop:
        names = re.findall(r"(?:true|false)_computation=%?([\w.\-]+)", each.text)
        listed = re.search(r"branch_computations=\{([^}]*)\}", each.text)
        names += re.findall(r"[\w.\-]+", listed.group(1)) if listed else []
        branches = [self._loop(name, *self._origin(each), 1, False) for name in names]
        return max(branches, key=lambda branch: kernels_of(branch.count()))

    def _bound(self, condition: str) -> int:
        """Returns the largest number that a condition compares with, or 1."""
        body = self.computations.get(condition, ())
        called = [condition, *(name for each in body for name in CALLED.findall(each.text))]
        operations = [each for name in called for each in self.computations.get(name, ())]
        if not self._bounded or not any(each.kind == "compare" and "direction=LT" in each.text for each in operations):
            return 1
        constants = [each.text for each in operations if each.kind == "constant" and each.type[0] in "su"]
        return max(1, 1, *(int(number) for text in constants for number in re.findall(r"^(\d+)\)", text)))

    def _kernel(self, each: Operation) -> Kernel:
        called = [self.computations[name] for name in CALLED.findall(each.text) if name in self.computations]
        kind = "copy" if each.kind == "copy-start" else each.kind
        if PRODUCT.search(each.text):
            kind = "product"
        if any(operation.kind == "sort" for body in called for operation in body):
            kind = "sort"
        return Kernel(kind, *self._origin(each))

    def _origin(self, each: Operation) -> tuple[str, str]:
        """Returns (op_name, "path:line") of the metadata."""
        op_name = re.search(r'op_name="([^"]*)"', each.text)
        source = ""
        if frame := re.search(r"stack_frame_id=(\d+)", each.text):
            source = self._line(int(frame.group(1)))
        elif place := re.search(r'source_file="([^"]*)".*?source_line=(\d+)', each.text):
            source = f"{place.group(1)}:{place.group(2)}"
        return (op_name.group(1) if op_name else "", source)

    def _line(self, frame: int) -> str:
        """Returns the innermost line that is not of a library, or else the innermost one."""
        lines: list[str] = []
        while frame in self._frames and not (lines and LIBRARIES not in lines[-1]):
            entry = self._frames[frame]
            place = self._places.get(_number(entry, "file_location_id"), "")
            name = self._files.get(_number(place, "file_name_id"), "").strip('"')
            lines.append(f"{name}:{_number(place, 'line')}")
            frame = _number(entry, "parent_frame_id") - 1
        return next((line for line in reversed(lines) if LIBRARIES not in line), lines[0] if lines else "")


def _operation(line: str) -> Operation | None:
    """Returns the instruction on a line, if there is one."""
    plain = re.sub(r"/\*.*?\*/", "", line)
    found = re.match(r"^\s+(?:ROOT )?%?([\w.\-]+) = (\((?:[^()]|\([^()]*\))*\)|\S+) ([\w\-]+)\((.*)$", plain)
    if not found:
        return None
    return Operation(*found.groups())


def _table(text: str, name: str) -> dict[int, str]:
    """Returns a table at the head of a module: number -> rest of its line."""
    found = re.search(rf"^{name}\n((?:\d+ .*\n)+)", text, re.MULTILINE)
    lines = found.group(1).splitlines() if found else []
    return {int(number): rest for number, _, rest in (line.partition(" ") for line in lines)}


def _number(text: str, name: str) -> int:
    found = re.search(rf"\b{name}=(\d+)", text)
    return int(found.group(1)) if found else 0


def _attribute(each: Operation, name: str) -> str:
    found = re.search(rf"\b{name}=%?([\w.\-]+)", each.text)
    return found.group(1) if found else ""
