"""`python scripts/film.py …` is `jaxrl film …`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["film", *sys.argv[1:]]))
