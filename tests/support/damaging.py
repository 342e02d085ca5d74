"""Damages bytes as disks and transfers do, and changes values in a tree as a hostile program does."""

from __future__ import annotations

import contextlib
import copy
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

KINDS = ("flipped", "cut", "zeroed", "mixed", "shortened", "longer")


def damaged(random_: random.Random, files: Sequence[bytes], which: int | None = None) -> bytes:
    """One of several files with a damage: flipped bits, cut, a zeroed block, a block of another file, a hole, a tail.

    Args:
      random_: chooses everything.
      files: the contents, none empty.
      which: the file that is damaged; None: any.
    """
    data = bytearray(random_.choice(files) if which is None else files[which])
    other, before = random_.choice(files), bytes(data)
    start, end = sorted(random_.randrange(len(data) + 1) for _ in range(2))
    match random_.choice(KINDS):
        case "flipped":
            for _ in range(random_.randrange(1, 5)):
                data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        case "cut":
            del data[start:]
        case "zeroed":
            data[start:end] = bytes(end - start)
        case "mixed":
            data[start:end] = other[start:end]
        case "shortened":
            del data[start:end]
        case _:
            data += random_.randbytes(random_.randrange(1, 100))
    return bytes(data) if data != before else damaged(random_, files, which)


def odd(random_: random.Random) -> Any:
    """Returns a value that does not belong where it is put."""
    deep: Any = 1
    for _ in range(random_.choice((10, 70, 200))):
        deep = [deep] if random_.random() < 0.5 else {"a": deep}
    values = [
        *(None, True, -1, 0, 2**31, 2**32 - 1, 2**63, 2**64, 2**70, -(2**70), 10**400),
        *(1e308, -0.5, 1e-320, float("inf"), float("nan")),
        *("", "x", "x" * 5000, "\x1b[2J\x07", "a\nb", "../../escaped", "/etc/passwd", "nul\0", "os:abort", "mark:call"),
        *("javascript:alert(1)", "<script>", "1", "答", "\ud800"),
        *([], {}, [[]], [1] * 3000, [None], {"": 1}, {"a": {}}, deep),
    ]
    return random_.choice(values)


def changed(random_: random.Random, tree: Any, times: int = 1) -> Any:
    """A copy of a tree of dicts and lists in which some values are odd, missing, doubled or in another's place."""
    tree = {"root": copy.deepcopy(tree)}
    for _ in range(times):
        places = _places(tree)
        parent, key = random_.choice(places)
        match random_.randrange(6):
            case 0 if parent is not tree:
                del parent[key]
            case 1 if isinstance(parent, list):
                parent.insert(key, copy.deepcopy(parent[key]))
            case 1 if parent is not tree:
                parent[str(odd(random_))[:50]] = odd(random_)
            case 2:
                other, at = random_.choice(places)
                parent[key] = copy.deepcopy(other[at])
            case _:
                parent[key] = odd(random_)
    return tree["root"]


def changed_to(value: Any, random_: random.Random, tree: Any) -> Any:
    """Returns a copy of a tree in which one value is another."""
    if not isinstance(tree, (dict, list)) or not tree or random_.random() < 0.1:
        return value
    key = random_.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
    new = changed_to(value, random_, tree[key])
    return {**tree, key: new} if isinstance(tree, dict) else [*tree[:key], new, *tree[key + 1 :]]


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Returns every (container, key) in a tree, at most some thousand, outermost first."""
    found, rest = [], [tree]
    while rest and len(found) < 5000:
        node = rest.pop(0)
        keys = list(node) if isinstance(node, dict) else range(min(len(node), 50))
        found += [(node, key) for key in keys]
        rest += [node[key] for key in keys if isinstance(node[key], (dict, list))]
    return found


@contextlib.contextmanager
def soon(seconds: float = 10.0) -> Iterator[None]:
    """Asserts that a block takes at most some seconds of computing, and six times that on a busy machine."""
    busy, began = time.process_time(), time.monotonic()
    try:
        yield
    finally:
        assert time.process_time() - busy < seconds and time.monotonic() - began < 6 * seconds
