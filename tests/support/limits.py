"""Commands under limits of the shell."""

from __future__ import annotations

from collections.abc import Sequence


def limited(command: Sequence[str], *limits: str) -> list[str]:
    """The command after `ulimit` with each of these options, e.g. "-n 64"; by bash, because Python code between fork
    and exec would run beside JAX's threads."""
    first = [f"ulimit {limit}" for limit in limits]
    return ["bash", "-c", " && ".join([*first, 'exec "$@"']), "bash", *command]
