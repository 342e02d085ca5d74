"""Writes a policy as a folder for RLBot v5 (`jaxrl export --rlbot`)."""

from __future__ import annotations

from pathlib import Path

from jaxrl.policies.export import ExportedPolicy, put
from jaxrl.policies.standalone.numpy_file import save_numpy
from jaxrl_envs.shared.errors import UserError


def save_rlbot(folder: Path, policy: ExportedPolicy) -> None:
    """Writes the program and the settings that the game has for such a bot, and the policy in NumPy. Raises UserError:
    the game has no such bots, or refuses this one; see `layers_of`; or a file cannot be written."""
    make = getattr(policy.env, "rlbot", None)
    if make is None:
        raise UserError(f"--rlbot writes policies of car_soccer; this one plays {policy.env.id}.")
    texts = make(policy.name, policy.update)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}.") from error
    save_numpy(folder / "policy.py", policy)
    for name, text in texts.items():
        put(folder / name, text.encode())
