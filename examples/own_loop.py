"""A training loop of one's own: the compiled program of a configuration, and nothing else.

    python examples/own_loop.py skull_king_cpu train.total_steps=500_000

What `jaxrl train` does besides (checkpoints, evaluations, best responses, reports) are parts of `jaxrl.training`, each
of which can be left out.
"""

from __future__ import annotations

import sys

import jax

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.runs import metrics
from jaxrl.runs.checkpoints.checkpoint import params_hash
from jaxrl.training.make import make_program
from jaxrl.training.plan import make_plan


def main(preset: str, *overrides: str) -> str:
    """Trains; returns the hash of the parameters, which are those of `jaxrl train`."""
    plan = make_plan(configs.load(preset, overrides))
    xla.prepare_training(plan.config)
    program = make_program(plan.config, plan.stages[0][1].training)
    state, done = program.init(plan.config.run.seed), 0
    while done < plan.config.num_updates:
        state, found, updates = program.advance(state)
        done += updates
        print(f"update {done}: return {metrics.values(jax.device_get(found))['rollout/ep_rew_mean']:.3f}")
    program.close()
    return params_hash(state.learner.params)


if __name__ == "__main__":
    main(*sys.argv[1:])
