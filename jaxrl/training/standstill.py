"""Notices a training in which the policy does not move, which a return of 0 in self-play would not tell."""

from __future__ import annotations

from collections.abc import Mapping

LEAST_KL = 1e-4  # mean divergence of an update, above which a policy moves: it is around 1e-3 where something is learnt
LEAST_FALL = 0.02  # of the entropy, as a share of what it was at first
SHARE = 0.25  # of the run, after which it is said


class Standstill:
    """Watches the rows of a run from its first update on."""

    def __init__(self, updates: int):
        """Nothing is known yet; `updates` are those of the whole run."""
        self._due = SHARE * updates
        self._first: float | None = None  # entropy
        self._most = 0.0  # divergence
        self._done = False

    def __call__(self, update: int, row: Mapping[str, float]) -> str:
        """What there is to say after `update` updates, whose last ones `row` is of; empty: nothing, or it was said.

        Algorithms without the figures of a policy are not watched.
        """
        kl, clipped, loss = (row.get(f"train/{tag}") for tag in ("approx_kl", "clip_fraction", "entropy_loss"))
        if self._done or kl is None or clipped is None or loss is None:
            return ""
        self._first = -loss if self._first is None else self._first
        self._most = max(self._most, kl)
        fallen = -loss < (1.0 - LEAST_FALL) * self._first
        moves = self._most > LEAST_KL or clipped > 0.0 or fallen
        self._done = moves or update >= self._due
        if moves or not self._done:
            return ""
        return (
            f"the policy has hardly moved in {update} updates (KL at most {self._most:.1g}, nothing clipped, entropy "
            f"{-loss:.3g} as at the beginning): raise the learning rate, make more updates of smaller rollouts "
            "(train.num_envs, train.num_steps), or look whether the rewards of the game ever differ"
        )
