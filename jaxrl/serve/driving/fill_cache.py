"""Compiles the usual match of a server into its cache of compiled programs, in a process of its own:
`python -m jaxrl.serve.driving.fill_cache SETTINGS`. Pages go first: XLA takes all cores for a minute."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from jaxrl.runs.directory import enable_compilation_cache
from jaxrl.serve.driving.routes import DrivingRoutes
from jaxrl.serve.server import Server, ServerSettings

NICE = 5  # not more: beside a training it would never come to an end


def main(text: str) -> None:
    """Compiles with the settings of a server, as JSON; ends when standard input does, with the server."""
    os.nice(NICE)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
    told = json.loads(text)
    settings = ServerSettings(**told | {"runs": Path(told["runs"])})
    enable_compilation_cache(settings.cache_dir)
    DrivingRoutes(Server(settings)).compile_usual()


if __name__ == "__main__":
    main(sys.argv[1])
