"""`python -m scripts.measured [SECTION]`: makes the tables of a section of the measurements again.

Sections are those of the pages of docs/results in NAMES. A section's own block of commands is run, line by line as it
stands there, in a clone at a clean commit; before it stands what a table must name: commit, machine, date.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxrl import cli
from jaxrl.diagnose import hardware
from jaxrl_envs.shared.errors import UserError, nearest

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("measured", "skull_king", "beasty_bar", "battle", "car_soccer", "archive")
PAGES = [ROOT / "docs" / "results" / f"{name}.md" for name in NAMES]


def sections() -> dict[str, str]:
    """Returns the commands that make the tables of each section again, by its title."""
    texts = (re.split(r"^#{2,3} (.*)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:] for page in PAGES)
    parts = [part for text in texts for part in text]
    blocks = (re.search(r"```bash\n(.*?)```", text, re.DOTALL) for text in parts[1::2])
    return {title: block[1] for title, block in zip(parts[::2], blocks, strict=True) if block}


def stamp() -> str:
    """Returns commit, machine and date."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    changed = " with changes that are not committed" if git("status", "--porcelain", "--untracked-files=no") else ""
    today = datetime.datetime.now(datetime.UTC).date()
    machine = ", ".join(f"{key} {value}" for key, value in hardware.describe().items())
    return f"commit {git('rev-parse', '--short', 'HEAD')}{changed} ({today}); {machine}"


def main(argv: Sequence[str] | None = None) -> int:
    """Lists the sections, or runs the commands of one."""
    words = sys.argv[1:] if argv is None else list(argv)
    known = sections()
    if not words:
        print("\n".join(known))
        return 0
    title = " ".join(words)
    if title not in known:
        raise UserError(f"there is no section {title!r} with commands: {nearest(title, known)}")
    print(stamp(), flush=True)
    return subprocess.run(["bash", "-euxo", "pipefail", "-c", known[title]]).returncode


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
