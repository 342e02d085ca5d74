"""`python scripts/resume.py …` is `jaxrl resume …`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

if __name__ == "__main__":
    sys.exit(main(["resume", *sys.argv[1:]]))
