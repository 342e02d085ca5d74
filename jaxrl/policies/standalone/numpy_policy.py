"""A trained policy of jaxrl in NumPy alone. This file is a program: run it only if you trust where it comes from.

    policy = NumpyPolicy()
    policy.reset()                         # when a game begins, for recurrent policies
    action = policy.act(features, mask)    # the most probable legal action

The input is the encoded features of the game, float32[F] (in jaxrl: `env.features(observation)`), not the packed
observation, and the mask of legal actions, bool[A]; SETTINGS names F ("features") and A ("actions"). If "canonical" is
true there, features, mask and actions are those of the canonical observation (`env.canonical(observation)`).
"""

import base64
import json
import zlib
from typing import Any

import numpy as np

SETTINGS = json.loads("{}")


class NumpyPolicy:
    """The network with its weights. It computes in float32; leading axes are allowed in all arguments."""

    def __init__(self) -> None:
        data = zlib.decompress(base64.b85decode("".join(WEIGHTS.split())))
        numbers, at, self.weights = np.frombuffer(data, "<f4"), 0, {}
        for name, shape in SETTINGS["shapes"].items():
            size = int(np.prod(shape))
            self.weights[name] = numbers[at : at + size].reshape(shape)
            at += size
        self.reset()

    def reset(self) -> None:
        """Clears the recurrent state: when a game begins, or for another seat."""
        self.memory = self.empty_memory()

    def empty_memory(self, *batch: int) -> tuple[Any, ...]:
        """The recurrent state at the beginning of a game: (state, cell) of each layer, float32[..., W]; () without."""
        zeros = np.zeros((*batch, SETTINGS["width"]), np.float32)
        return tuple((zeros, zeros) for _ in range(SETTINGS["cells"]))

    def act(self, features: Any, mask: Any, greedy: bool = True, random: Any = None) -> int:
        """Chooses one action and updates the recurrent state.

        Args:
          features: float32[F].
          mask: bool[A], True = legal.
          greedy: the most probable action instead of a sampled one.
          random: np.random.Generator of the sampling.
        """
        logits, _, self.memory = self.evaluate(features, mask, self.memory)
        if greedy:
            return int(np.argmax(logits))
        weights = np.exp(logits.astype(np.float64) - logits.max())
        return int((random or np.random.default_rng()).choice(len(weights), p=weights / weights.sum()))

    def evaluate(self, features: Any, mask: Any, memory: tuple[Any, ...] = ()) -> tuple[Any, Any, tuple[Any, ...]]:
        """Maps features float32[..., F], mask bool[..., A] and recurrent state to (logits float32[..., A], -1e9 for
        illegal actions; value float32[...], the expected return; new recurrent state)."""
        x = np.asarray(features, np.float32)
        if x.shape[-1:] != (SETTINGS["features"],) or np.shape(mask)[-1:] != (SETTINGS["actions"],):
            raise ValueError(f"features {x.shape} and mask {np.shape(mask)} must end with the sizes in SETTINGS")
        if SETTINGS["normalize"]:
            mean, variance = self.weights["normaliser/mean"], self.weights["normaliser/variance"]
            scale = np.where(variance > 1e-8, 1 / np.sqrt(variance + np.float32(1e-8)), np.float32(1))
            x = np.clip((x - mean) * scale, -10, 10)
        activation = ACTIVATIONS[SETTINGS["activation"]]
        for layer in range(SETTINGS["dense"]):
            x = self._dense(x, f"dense_{layer}")
            if SETTINGS["layer_norm"]:
                x = self._norm(x, f"norm_{layer}")
            x = activation(x)
        after = []
        for layer in range(SETTINGS["cells"]):
            step = getattr(self, f"_{SETTINGS['cell']}")
            after.append(step(x, *memory[layer], f"{SETTINGS['cell']}_{layer}/"))
            x = after[-1][0]
        logits = np.where(mask, self._dense(x, "policy"), np.float32(-1e9))
        return logits, self._dense(x, "value")[..., 0], tuple(after)

    def _dense(self, x: Any, name: str) -> Any:
        y = x @ self.weights[f"{name}/kernel"]
        bias = self.weights.get(f"{name}/bias")
        return y if bias is None else y + bias

    def _norm(self, x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6))
        return x * self.weights[f"{name}/scale"] + self.weights[f"{name}/bias"]

    def _lstm(self, x: Any, state: Any, cell: Any, name: str) -> tuple[Any, Any]:
        def gate(g: str) -> Any:
            return self._dense(x, f"{name}i{g}") + self._dense(state, f"{name}h{g}")

        cell = sigmoid(gate("f")) * cell + sigmoid(gate("i")) * np.tanh(gate("g"))
        return sigmoid(gate("o")) * np.tanh(cell), cell

    def _gru(self, x: Any, state: Any, cell: Any, name: str) -> tuple[Any, Any]:
        r, z = (sigmoid(self._dense(x, f"{name}i{g}") + self._dense(state, f"{name}h{g}")) for g in "rz")
        new = np.tanh(self._dense(x, f"{name}in") + r * self._dense(state, f"{name}hn"))
        return (1 - z) * new + z * state, cell


def sigmoid(x: Any) -> Any:
    """Returns the logistic function, without overflow."""
    return (1 + np.tanh(x / 2)) / 2


ACTIVATIONS: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "gelu": lambda x: x * (1 + np.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * x**3))) / 2,
    "silu": lambda x: x * sigmoid(x),
}

# float32 arrays one after the other in the order of SETTINGS["shapes"], compressed (zlib), as text (base85)
WEIGHTS = ""
