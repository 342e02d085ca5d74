"""Writes a policy as an ONNX model (`jaxrl export --onnx`, extra `onnx`), by the package `onnx` alone.

Inputs: features f32[B, F], mask bool[B, A] and, for recurrent layers, state_0, cell_0, state_1, ... f32[B, W].
Outputs: logits f32[B, A] (-1e9 for illegal actions), value f32[B, 1], and next_state_0, next_cell_0, ...; a GRU has no
cells. All recurrent inputs are zeros when a game begins.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from jaxrl.networks.distributions import MASK_FILL
from jaxrl.networks.normaliser import REACH, STILL
from jaxrl.policies.export import ExportedPolicy, put
from jaxrl.policies.standalone.layers import Layers, layers_of
from jaxrl_envs.shared.errors import UserError

OPSET, IR = 20, 9  # of 2023: read by every onnxruntime since 1.17


def save_onnx(path: str | os.PathLike[str], policy: ExportedPolicy) -> None:
    """Writes a policy as an ONNX model.

    Raises:
      UserError: see `layers_of`; the package `onnx` is missing, or the file cannot be written.
    """
    layers = layers_of(policy)
    try:
        import onnx
    except ImportError as error:
        raise UserError("--onnx needs the package onnx: pip install 'jaxrl[onnx]' (or -e '.[onnx]').") from error
    model = _Graph(layers).model()
    onnx.checker.check_model(model, full_check=True)
    put(path, model.SerializeToString())


class _Graph:
    """The nodes of a model; methods add nodes and return the name of their output."""

    def __init__(self, layers: Layers):
        from onnx import helper

        self.helper, (self.settings, self.weights) = helper, layers
        self.nodes: list[Any] = []
        self.constants = dict(self.weights)

    def model(self) -> Any:
        """Returns the whole model."""
        from onnx import TensorProto, numpy_helper

        settings, helper, number = self.settings, self.helper, TensorProto.FLOAT
        x = self._normalised("features")
        for layer in range(settings["dense"]):
            x = self.dense(x, f"dense_{layer}")
            if settings["layer_norm"]:
                names = [f"norm_{layer}/scale", f"norm_{layer}/bias"]
                x = self.node("LayerNormalization", x, *names, epsilon=1e-6)
            x = self._active(x)
        carried = []
        for layer in range(settings["cells"]):
            step = self._lstm if settings["cell"] == "lstm" else self._gru
            x = step(x, layer)
            carried += [f"state_{layer}", f"cell_{layer}"][: 2 if settings["cell"] == "lstm" else 1]
        self.node("Where", "mask", self.dense(x, "policy"), self.constant(MASK_FILL), output="logits")
        self.node("Identity", self.dense(x, "value"), output="value")

        def tensor(name: str, size: int, kind: int = number) -> Any:
            return helper.make_tensor_value_info(name, kind, ["B", size])

        memory = [tensor(name, settings["width"]) for name in carried]
        seen = [tensor("features", settings["features"]), tensor("mask", settings["actions"], TensorProto.BOOL)]
        out = [tensor("logits", settings["actions"]), tensor("value", 1)]
        out += [tensor(f"next_{name}", settings["width"]) for name in carried]
        stored = [numpy_helper.from_array(leaf, name) for name, leaf in self.constants.items()]
        graph = helper.make_graph(self.nodes, "policy", [*seen, *memory], out, stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="jaxrl")
        model.ir_version = IR
        helper.set_model_props(model, {"jaxrl": json.dumps(settings)})
        return model

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, value: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value, np.float32)
        return name

    def dense(self, x: str, name: str) -> str:
        y = self.node("MatMul", x, f"{name}/kernel")
        return self.node("Add", y, f"{name}/bias") if f"{name}/bias" in self.weights else y

    def _normalised(self, x: str) -> str:
        if not self.settings["normalize"]:
            return x
        variance = self.constants.pop("normaliser/variance")
        scale = np.where(variance > STILL, 1.0 / np.sqrt(variance + np.float32(STILL)), 1.0)
        x = self.node("Mul", self.node("Sub", x, "normaliser/mean"), self.constant(scale))
        return self.node("Clip", x, self.constant(-REACH), self.constant(REACH))

    def _active(self, x: str) -> str:
        kind = self.settings["activation"]
        if kind == "silu":
            return self.node("Mul", x, self.node("Sigmoid", x))
        return self.node("Gelu", x, approximate="tanh") if kind == "gelu" else self.node(kind.capitalize(), x)

    def _gate(self, x: str, layer: int, gate: str) -> str:
        name = f"{self.settings['cell']}_{layer}"
        return self.node("Add", self.dense(x, f"{name}/i{gate}"), self.dense(f"state_{layer}", f"{name}/h{gate}"))

    def _lstm(self, x: str, layer: int) -> str:
        i, f, o = (self.node("Sigmoid", self._gate(x, layer, gate)) for gate in "ifo")
        new = self.node("Mul", i, self.node("Tanh", self._gate(x, layer, "g")))
        kept = self.node("Mul", f, f"cell_{layer}")
        cell = self.node("Add", kept, new, output=f"next_cell_{layer}")
        return self.node("Mul", o, self.node("Tanh", cell), output=f"next_state_{layer}")

    def _gru(self, x: str, layer: int) -> str:
        r, z = (self.node("Sigmoid", self._gate(x, layer, gate)) for gate in "rz")
        heard = self.node("Mul", r, self.dense(f"state_{layer}", f"gru_{layer}/hn"))
        new = self.node("Tanh", self.node("Add", self.dense(x, f"gru_{layer}/in"), heard))
        change = self.node("Mul", z, self.node("Sub", f"state_{layer}", new))  # (1 - z) new + z state
        return self.node("Add", new, change, output=f"next_state_{layer}")
