"""`python scripts/forge.py …` is `jaxrl forge …`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["forge", *sys.argv[1:]]))
