"""`python scripts/play.py …` is `jaxrl play …`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["play", *sys.argv[1:]]))
