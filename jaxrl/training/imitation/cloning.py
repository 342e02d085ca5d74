"""Behaviour cloning: actions by cross-entropy and returns by regression, with early stopping on held-out games.

Shape letters: N questions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms import optimizer
from jaxrl.networks.base import Network
from jaxrl.networks.distributions import log_prob
from jaxrl.training.imitation.constant_policies import Prediction
from jaxrl.training.imitation.demonstrations import Examples, Questions
from jaxrl.training.imitation.supervised import LabelledDecisions, evaluate_all, make_step
from jaxrl_envs.contract.env import PyTree
from jaxrl_envs.shared.errors import UserError

CHECKED_AT_A_TIME = 256


class CloningSettings(NamedTuple):
    """Settings for learning from demonstrations."""

    epochs: int  # at most
    minibatch: int  # questions
    learning_rate: float
    value_coef: float
    patience: int  # epochs without progress before the end
    seed: int


class Checked(NamedTuple):
    """Performance of a network on games that it has not learnt from."""

    prediction: Prediction
    value_error: float  # squared
    value_variance: float  # of what it has to predict
    value_share: float  # 0 .. 1: this share of its values would be nearest to what it has to predict

    @property
    def surprise(self) -> float:
        """Mean cross-entropy in nats."""
        return float(self.prediction.surprise.mean())

    @property
    def accuracy(self) -> float:
        """Share of answers that are its first choice."""
        return float(self.prediction.right.mean())


def labelled(batch: Questions, weight: np.ndarray) -> LabelledDecisions:
    """Returns questions with the recorded action as their label."""
    policy = (np.arange(batch.mask.shape[-1]) == batch.action[..., None]).astype(np.float32)
    return LabelledDecisions(batch.observation, batch.mask, policy, batch.value, weight)  # type: ignore[arg-type]  # NumPy


def minibatches(examples: Examples, size: int, generator: np.random.Generator) -> Iterator[LabelledDecisions]:
    """All units once, shuffled, about `size` questions at a time; the last minibatch is filled up with weight 0."""
    order, rows = generator.permutation(len(examples.units)), examples.units_of(size)
    for first in range(0, len(order), rows):
        index = examples.units[np.resize(order[first : first + rows], rows)]
        index[len(order) - first :] = -1
        yield labelled(examples.batch(index), np.where(index >= 0, examples.weight[index], np.float32(0.0)))


def make_check(network: Network) -> Callable[[PyTree, Examples], Checked]:
    """Returns the function (params, examples) -> how well they are predicted; compiled once."""

    @jax.jit
    def predict(params: PyTree, observation: Any, mask: Any, action: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        logits, value = evaluate_all(network, params, observation, mask)
        return jnp.argmax(logits, axis=-1) == action, -log_prob(logits, action), value

    def check(params: PyTree, examples: Examples) -> Checked:
        parts = np.zeros((3, len(examples)))
        rows = examples.units_of(CHECKED_AT_A_TIME)
        for first in range(0, len(examples.units), rows):
            units = examples.units[first : first + rows]
            index = np.resize(units, (rows, *units.shape[1:]))
            batch = examples.batch(index)
            found = jax.device_get(predict(params, batch.observation, batch.mask, batch.action))
            parts[:, index[index >= 0]] = [part[index >= 0] for part in found]
        right, surprise, value = parts
        target = examples.value.astype(np.float64)
        share = float(np.clip(value @ target / max(float(value @ value), 1e-12), 0.0, 1.0))
        error = float(np.square(value - target).mean())
        return Checked(Prediction("learnt", right, surprise), error, float(np.var(target)), share)

    return check


def shrunk(params: PyTree, share: float) -> PyTree:
    """Scales a policy's values by `share`.

    All decisions of a game tell of one result, so values learn games by heart long before answers do, and are sure of
    themselves on other games too. PPO would have to unlearn that first.
    """

    def scaled(path: Any, leaf: Any) -> Any:  # heads may stand below a torso
        return np.float32(share) * leaf if "['heads']['value']" in jax.tree_util.keystr(path) else leaf

    return jax.tree_util.tree_map_with_path(scaled, params)


class CloningResult(NamedTuple):
    """The network after cloning."""

    params: PyTree  # of the best epoch
    checked: Checked
    epoch: int  # the number of that one
    epochs: int  # begun so far
    stopped: bool  # on request, before the last epoch


def clone(
    network: Network,
    train: Examples,
    check: Examples,
    settings: CloningSettings,
    on_epoch: Callable[[int, dict[str, float]], None],
    *,
    should_stop: Callable[[], bool] = lambda: False,
    before: CloningResult | None = None,
) -> CloningResult:
    """Trains a network, from its first parameters or from an earlier result. Raises UserError: the learning diverged.
    `should_stop`: asked after each step. The result is then the best epoch so far, or the one under way if it is the
    first. `before`: result on earlier games; its epochs are counted on."""
    step = jax.jit(make_step(network, settings.learning_rate, settings.value_coef), donate_argnums=(0, 1))
    predict = make_check(network)
    first = 0 if before is None else before.epochs
    generator = np.random.default_rng([settings.seed, first])
    # Copied, for a step writes over what it is given.
    params = network.init(jax.random.key(settings.seed)) if before is None else jax.tree.map(jnp.array, before.params)
    opt_state, best, stopped, epoch = optimizer.init(params), None, False, first
    if before is not None:
        best = before._replace(checked=predict(params, check))
    while epoch < first + settings.epochs and not stopped:
        epoch += 1
        batches = minibatches(train, min(settings.minibatch, len(train)), generator)
        params, opt_state, metrics, stopped = _one_epoch(step, params, opt_state, batches, should_stop)
        if stopped and best is not None:
            break
        found = predict(params, check)
        if not math.isfinite(found.surprise):
            if best is None:
                raise UserError("the learning diverged: lower --learning-rate.")
            break  # the best epoch stays
        metrics["imitate/cross_entropy"] = found.surprise
        metrics["imitate/accuracy"], metrics["imitate/value_error"] = found.accuracy, found.value_error
        on_epoch(epoch, metrics)
        if best is None or found.surprise < best.checked.surprise:
            best = CloningResult(jax.device_get(params), found, epoch, epoch, stopped)
        elif epoch - max(best.epoch, first) >= settings.patience:
            break
    assert best is not None  # there is at least one epoch
    return best._replace(epochs=epoch, stopped=stopped)


def _one_epoch(
    step: Callable[..., Any],
    params: PyTree,
    opt_state: Any,
    batches: Iterator[LabelledDecisions],
    should_stop: Callable[[], bool],
) -> tuple[PyTree, Any, dict[str, float], bool]:
    """Runs minibatches until they end or a stop is requested; returns (params, opt_state, metrics, stopped)."""
    start, sums, count = time.perf_counter(), np.zeros(3), 0
    for batch in batches:
        params, opt_state, losses = step(params, opt_state, batch)
        weight = float(np.sum(batch.weight))
        sums += weight, weight * float(losses.policy), weight * float(losses.value)
        count += int(np.count_nonzero(batch.weight))
        if stopped := should_stop():
            break
    metrics = {
        "imitate/train_cross_entropy": sums[1] / sums[0],
        "imitate/train_value_error": sums[2] / sums[0],
        "time/decisions_per_s": count / (time.perf_counter() - start),
    }
    return params, opt_state, metrics, stopped


def calibrated(network: Network, learnt: CloningResult, check: Examples) -> CloningResult:
    """Returns the result with values scaled to what held-out games support, see `shrunk`."""
    params = shrunk(learnt.params, learnt.checked.value_share)
    return learnt._replace(params=params, checked=make_check(network)(params, check))
