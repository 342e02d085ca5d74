"""`python scripts/imitate.py …` is `jaxrl imitate …`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["imitate", *sys.argv[1:]]))
