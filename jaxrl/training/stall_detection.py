"""Notices a training in which the policy does not move, which a return of 0 in self-play would not tell."""

from __future__ import annotations

import math
from collections.abc import Mapping

LEAST_WAY = 0.1  # sum over updates of the root of the KL divergence; where something is learnt, three updates go so far
SHARE = 0.25  # of the run, after which it is said
LEAST_UPDATES = 20  # fewer say nothing


class StallDetector:
    """Watches the rows of a run from its first update on."""

    def __init__(self, updates: int):
        """Nothing is known yet; `updates` are those of the whole run."""
        self._due = max(LEAST_UPDATES, SHARE * updates)
        self._way = 0.0
        self._done = False

    def __call__(self, update: int, row: Mapping[str, float]) -> str:
        """Returns the warning due after `update` updates, whose last ones `row` is of; empty: none, or it was given.

        Algorithms without the metrics of a policy are not watched.
        """
        divergence = row.get("train/approx_kl")
        if self._done or divergence is None:
            return ""
        self._way += row["train/updates"] * math.sqrt(max(divergence, 0.0))
        self._done = self._way > LEAST_WAY or update >= self._due
        if not self._done or self._way > LEAST_WAY:
            return ""
        clipped, entropy = row["train/clip_fraction"], -row["train/entropy_loss"]
        return (
            f"the policy has hardly moved in {update} updates (KL {divergence:.1g}, clip fraction {clipped:.1g}, "
            f"entropy {entropy:.3g}): raise the learning rate, make more updates of smaller rollouts (train.num_envs, "
            "train.num_steps), or look whether the rewards of the game ever differ"
        )
