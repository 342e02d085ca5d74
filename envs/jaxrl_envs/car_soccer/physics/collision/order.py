"""Visiting order of a mesh's triangles, as in the reference.

A body keeps at most four contacts with a mesh, and they are solved one after the other, so that it matters which
triangle comes first. The reference (Bullet's `btQuantizedBvh`) sorts triangles into a tree of boxes: halves are made by
the mean of the boxes' centres, which are rounded to 16 bits, along the axis on which they vary most. It visits the tree
in subtrees of at most 2,048 bytes, the leaves of each from the first to the last. A half that is such a subtree comes
after those within the other half, also if it is the first one.
"""

from __future__ import annotations

import numpy as np

UNIT = np.float32(0.02)  # of the reference's lengths per uu
SUBTREE = 64  # triangles, whose 127 nodes have 16 bytes each
ONE, SCALE = np.float32(1), np.float32(65533)
THIN, THICKEN = np.float32(0.002), np.float32(0.001)  # boxes flatter than that are made thicker


def visits(corners: np.ndarray) -> np.ndarray:
    """i64[N]: the numbers of triangles, f64[N, 3, 3] in uu, in the order of the visits."""
    order = np.arange(len(corners))
    subtrees = _sorted(_centres(corners.astype(np.float32) * UNIT), order, 0, len(corners))
    return np.concatenate([order[subtree] for subtree in subtrees or [slice(None)]])


def _sorted(centres: np.ndarray, order: np.ndarray, start: int, end: int) -> list[slice]:
    """Sorts `order[start:end]` into the leaves of a tree; its subtrees in the order of the visits."""
    if end - start == 1:
        return []
    split = _split(centres, order, start, end)
    halves = (start, split), (split, end)
    found = [subtree for half in halves for subtree in _sorted(centres, order, *half)]
    if end - start > SUBTREE:
        found += [slice(*half) for half in halves if half[1] - half[0] <= SUBTREE]
    return found


def _centres(corners: np.ndarray) -> np.ndarray:
    """f32[N, 3]: centres of the triangles' boxes, of 16-bit corners."""
    low, high = corners.min(1), corners.max(1)
    flat = high - low < THIN
    low, high = low - flat * THICKEN, high + flat * THICKEN
    first, last = corners.min((0, 1)) - ONE, corners.max((0, 1)) + ONE
    # the grid is widened until its rounding is safe at the first corner, then at the last one
    first = np.minimum(first, _rounded(first, first, SCALE / (last - first), 0) - ONE)
    last = np.maximum(last, _rounded(last, first, SCALE / (last - first), 1) + ONE)
    scale = SCALE / (last - first)
    return np.float32(0.5) * (_rounded(high, first, scale, 1) + _rounded(low, first, scale, 0))


def _rounded(points: np.ndarray, first: np.ndarray, scale: np.ndarray, upper: int) -> np.ndarray:
    """Returns points on the 16-bit grid: upper corners of boxes are odd numbers, lower ones even."""
    step = ((points - first) * scale + np.float32(upper)).astype(np.uint16)
    return (step & 0xFFFE | upper).astype(np.float32) / scale + first


def _split(centres: np.ndarray, order: np.ndarray, start: int, end: int) -> int:
    """Sorts `order[start:end]` into two halves, larger centres first; where the second begins."""
    here, number = centres[order[start:end]], np.float32(end - start)
    mean = np.add.accumulate(here)[-1] * (ONE / number)  # one after another, in f32
    spread = np.add.accumulate((here - mean) ** 2)[-1] * (ONE / (number - ONE))
    axis = int(np.argmax(spread))
    split = start
    for index, is_larger in enumerate((here[:, axis] > mean[axis]).tolist(), start):
        if is_larger:
            order[[index, split]] = order[[split, index]]
            split += 1
    third = (end - start) // 3
    is_unbalanced = split <= start + third or split >= end - 1 - third
    return start + (end - start) // 2 if is_unbalanced else split
