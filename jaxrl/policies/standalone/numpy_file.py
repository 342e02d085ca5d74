"""Writes a policy as one Python file that needs NumPy alone (`jaxrl export --numpy`)."""

from __future__ import annotations

import base64
import json
import os
import zlib
from pathlib import Path

from jaxrl.policies.export import ExportedPolicy, put
from jaxrl.policies.standalone.layers import layers_of

_SETTINGS, _WEIGHTS = 'json.loads("{}")', 'WEIGHTS = ""'  # places in the program where the policy goes
_LINE = 116  # letters of a line of weights


def save_numpy(path: str | os.PathLike[str], policy: ExportedPolicy) -> None:
    """Writes the program `numpy_policy.py` with a policy's settings and weights in it. Raises UserError: see
    `layers_of`; or the file cannot be written."""
    layers = layers_of(policy)
    settings = layers.settings | {"shapes": {name: list(leaf.shape) for name, leaf in layers.weights.items()}}
    data = b"".join(leaf.astype("<f4").tobytes() for leaf in layers.weights.values())
    text = base64.b85encode(zlib.compress(data, 9)).decode()
    program = Path(__file__).with_name("numpy_policy.py").read_text(encoding="utf-8")
    # Names may come from a stranger's policy file: `repr` of ASCII JSON keeps them inside one string.
    program = program.replace(_SETTINGS, f"json.loads({json.dumps(settings)!r})")
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    program = program.replace(_WEIGHTS, "\n".join(['WEIGHTS = """', *lines, '"""']))
    put(path, program.encode())
