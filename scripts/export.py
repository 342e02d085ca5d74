"""`python scripts/export.py …` is `jaxrl export …`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["export", *sys.argv[1:]]))
