"""The part of `jaxrl diagnose` for games on the host: actors, engine threads, buffers and counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jaxrl.benchmark import hardware
from jaxrl.benchmark.timing import race, safe_ratio
from jaxrl.config import Config

if TYPE_CHECKING:
    import jax

    from envs.core import Env

LEARNING = ("replay_sample", "forward", "backward")  # counters of the learner


Block = Callable[[], Any]


def measure(
    config: Config,
    env: Env,
    seconds: float,
    latency: Callable[[Block, float], dict[str, float]],
    gpus_during: Callable[[Block], list[dict[str, str]]],
) -> dict[str, Any]:
    """What a report says about a game on the host, beside machine and cache.

    Args:
      config: what would be trained.
      env: its game, one on the host.
      seconds: how long each measurement takes at least.
      latency: percentiles of the time of one call in ms.
      gpus_during: what the GPUs report while a block runs.
    """
    from jaxrl.benchmark.host import Table
    from jaxrl.benchmark.host_training import Training

    training = Training(config, env, profile=True)
    facts = training.facts
    game: Any = env.game  # type: ignore[attr-defined]  # an envs.host.env.HostEnv
    threads = config.sebulba.threads or len(hardware.usable_cores())
    try:
        with Table(game, facts["num_envs"]) as table:
            contestants = [training.contestant("training"), table.bridge(0, threads=threads)]
            whole, bridge = race(contestants, rounds=3, seconds=seconds / 3)
        busy = {"cpu_cores_busy": safe_ratio(whole.rate, whole.cpu_rate), "gpus": gpus_during(training.block)}
    finally:
        training.close()
    share = facts["num_envs"] // (config.sebulba.actors * config.sebulba.groups)
    per_update = 1e3 * config.batch_size
    learning = sum(facts["counters"].get(name, 0.0) for name in LEARNING)  # ms per 1,000 steps
    return {
        "environment": {"steps_per_second": bridge.rate, "share": safe_ratio(whole.rate, bridge.rate)},
        "training": {
            "steps_per_second": whole.rate,
            "iteration_ms": per_update / whole.rate,
            "rollout_ms": None,  # playing goes on while the learner learns
            "update_ms": learning * config.batch_size / 1e3,
        },
        "inference_ms": {str(batch): latency(_inference(config, env, batch), seconds) for batch in sorted({1, share})},
        "first_call_seconds": {"training": whole.first_seconds, "environment": bridge.first_seconds},
        "utilisation": busy,
        "host": facts,
    }


def _inference(config: Config, env: Env, batch: int) -> Block:
    """Decisions of `batch` games from the arrays that the engine writes, as an actor asks for them."""
    import jax
    import numpy as np

    from jaxrl.algorithms.registry import make_algorithm
    from jaxrl.networks import distributions

    network = make_algorithm(config, env).network
    params = network.init(jax.random.key(0))
    spec = env.observation_spec
    observation = jax.tree.map(lambda leaf: np.zeros((batch, *leaf.shape), leaf.dtype), spec)
    mask = np.ones((batch, env.num_actions), bool)

    def choose(params: Any, observation: Any, mask: Any) -> jax.Array:
        evaluate = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0))
        _, logits, _ = evaluate(params, network.memory(()), observation, mask)
        return distributions.greedy(logits)

    program = jax.jit(choose)
    return lambda: np.asarray(program(params, observation, mask))


def figures(facts: dict[str, Any]) -> dict[str, tuple[float | None, bool]]:
    """Name -> (figure, whether more is better), of the part "host" of a report."""
    found: dict[str, tuple[float | None, bool]] = {}
    for name, value in facts["counters"].items():
        found[f"{name.replace('_', ' ')}, ms per 1,000 steps"] = (value, False)
    for name, value in facts["figures"].items():
        found[name.replace("_", " ")] = (value, name == "engine_busy")
    found["threads"] = (float(sum(facts["threads"].values())), False)
    found["buffers MiB"] = (facts["buffer_mib"], False)
    return found


def describe(facts: dict[str, Any]) -> str:
    """What `figures` has no room for."""
    threads = ", ".join(f"{number} {name}" for name, number in sorted(facts["threads"].items()))
    return (
        f"{facts['algorithm']} with {facts['actors']} actor(s), {facts['num_envs']} games in "
        f"{facts['actors'] * facts['groups']} block(s), lag {facts['lag']}; threads: {threads}\n"
        "counters are sums over threads, which overlap; they were on while all this was measured"
    )
