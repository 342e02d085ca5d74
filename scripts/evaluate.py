"""`python scripts/evaluate.py …` is `jaxrl evaluate …`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
