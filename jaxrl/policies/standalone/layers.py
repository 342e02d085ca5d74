"""A trained network as a list of named float32 arrays and a few settings, for programs that do not know jaxrl."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.networks.factory import INNER, STATISTICS
from jaxrl.policies.export import ExportedPolicy
from jaxrl_envs.shared.errors import UserError


class Layers(NamedTuple):
    """A dense or recurrent network."""

    # values that the arrays alone do not say, in JSON: policy, game, game_version, update, features (F), actions (A),
    # dense (number of layers), activation, layer_norm, normalize, canonical, cell ("", "lstm" or "gru"), cells
    # (number of recurrent layers), width (of their state)
    settings: dict[str, Any]
    # f32 arrays by name: dense_0/kernel [inputs, outputs], dense_0/bias, norm_0/scale, lstm_0/ii/kernel,
    # policy/kernel, value/kernel, normaliser/mean, ...
    weights: dict[str, np.ndarray]


def layers_of(policy: ExportedPolicy) -> Layers:
    """Returns the layers of a policy. Raises UserError: it is no multi-layer perceptron, alone or below recurrent
    layers, with a policy and a value head."""
    network = policy.config.network
    cell = network.recurrent.cell if network.kind == "recurrent" else ""
    weights = _weights(policy) if network.reader[0] == "mlp" else {}
    if not {"policy/kernel", "value/kernel"} <= weights.keys():
        heads = " and other heads" if weights else ""
        raise UserError(
            "--numpy and --onnx write dense networks with a policy and a value head, also with recurrent layers; this "
            f"one has network.{network.reader[1]} {network.reader[0]}{heads}: use the policy file of `jaxrl export`."
        )
    settings = {
        "policy": policy.name,
        "game": policy.config.env.id,
        "game_version": policy.env.version,
        "update": policy.update,
        "features": policy.env.num_features,
        "actions": policy.env.num_actions,
        "dense": len(network.hidden),
        "activation": network.activation,
        "layer_norm": network.layer_norm,
        "normalize": network.normalize,
        "canonical": network.canonical,
        "cell": cell,
        "cells": network.recurrent.layers if cell else 0,
        "width": network.recurrent.width if cell else 0,
    }
    return Layers(settings, weights)


def _weights(policy: ExportedPolicy) -> dict[str, np.ndarray]:
    """Returns parameters by name; the names of a normalised network, of a torso and of the heads are shortened."""
    found = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(policy.player().params)[0]:
        steps = [step.key for step in path if step.key not in (INNER, "torso", "heads")]
        if steps != [STATISTICS, "decisions"]:
            found["/".join(steps)] = np.ascontiguousarray(leaf, np.float32)
    return found
