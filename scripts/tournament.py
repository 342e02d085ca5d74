"""`python scripts/tournament.py …` is `jaxrl tournament …`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["tournament", *sys.argv[1:]]))
