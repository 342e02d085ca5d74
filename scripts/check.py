"""`python scripts/check.py …` is `jaxrl check …`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["check", *sys.argv[1:]]))
