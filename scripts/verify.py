"""`python scripts/verify.py …` is `jaxrl verify …`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["verify", *sys.argv[1:]]))
