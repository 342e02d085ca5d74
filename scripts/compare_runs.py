"""`python scripts/compare_runs.py A B` is `jaxrl compare A B`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["compare", *sys.argv[1:]]))
