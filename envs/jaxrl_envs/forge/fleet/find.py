"""Finds Forge and Java on the user's machine, and says in one sentence what is missing."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import NamedTuple

from jaxrl_envs.shared.errors import UserError

RELEASES = "github.com/Card-Forge/forge/releases"
OLDEST_JAVA = 17
COMPILER = "jdk.compiler"  # the daemon is compiled where it runs
DECKS = Path(__file__).resolve().parents[1] / "decks"
_ENGINE, _MANIFEST = "forge/game/Game.class", "META-INF/MANIFEST.MF"
_JAR = re.compile(r"forge-gui-desktop-(.+)-jar-with-dependencies\.jar")
_PATIENCE = 60.0  # seconds for `java --list-modules`


class ForgeRelease(NamedTuple):
    """A Forge release on disk."""

    home: Path
    jar: Path
    res: Path
    version: str  # as the jar's name tells it, or else its manifest; "" if neither does


class Java(NamedTuple):
    """A Java that can run the daemon."""

    path: Path
    version: str


# ---- Forge ----------------------------------------------------------------------------------------------------------


def find_forge(home: str = "") -> ForgeRelease:
    """Returns the release in the folder `home`, or in FORGE_HOME.

    Raises:
      UserError: Forge is not found, or a part of it is missing.
    """
    name, where = ("forge.home", home) if home else ("FORGE_HOME", os.environ.get("FORGE_HOME", ""))
    if not where:
        raise UserError(
            "Forge is not known here: set forge.home or the environment variable FORGE_HOME to the folder of a Forge "
            f"release, which holds forge-gui-desktop-*-jar-with-dependencies.jar and res/ (releases: {RELEASES})."
        )
    folder = Path(where).expanduser().absolute()
    if not folder.is_dir():
        raise UserError(f"{name} is {where!r}, but there is no such folder; unpack a Forge release there ({RELEASES}).")
    jars = {path: match[1] for path in folder.glob("*.jar") if (match := _JAR.fullmatch(path.name))}
    if not jars:  # renamed, or of a build of one's own
        jars = {path: version for path in folder.glob("*.jar") if (version := _forge_in(path)) is not None}
    if not jars:
        raise UserError(
            f"{name} is {where!r}, but that folder holds no forge-gui-desktop-*-jar-with-dependencies.jar; "
            f"set it to the folder of an unpacked Forge release ({RELEASES})."
        )
    missing = [part for part in ("cardsfolder", "editions") if not (folder / "res" / part).is_dir()]
    if missing:
        part = "res" if not (folder / "res").is_dir() else f"res/{missing[0]}"
        raise UserError(f"{name} is {where!r}, but {part}/ is missing there; unpack the release again ({RELEASES}).")
    newest = max(jars, key=lambda path: _numbers(jars[path]))
    return ForgeRelease(folder, newest, folder / "res", jars[newest])


def _forge_in(jar: Path) -> str | None:
    """Returns the version of Forge in the manifest of a jar, "" without one; None: the jar is not Forge's."""
    try:
        with zipfile.ZipFile(jar) as packed:
            packed.getinfo(_ENGINE)
            manifest = packed.read(_MANIFEST).decode(errors="replace") if _MANIFEST in packed.namelist() else ""
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    version = re.search(r"^Implementation-Version: (\S+)", manifest, re.MULTILINE)
    return version[1] if version else ""


def _numbers(version: str) -> tuple[tuple[int, ...], bool]:
    """For comparisons; a release is newer than its snapshots."""
    return tuple(map(int, re.findall(r"\d+", version))), "SNAPSHOT" not in version


def find_decks(decks: str = "") -> Path:
    """Returns the folder of the user's decks, or of those that come along.

    Raises:
      UserError: there is no such folder.
    """
    folder = Path(decks).expanduser().absolute() if decks else DECKS
    if not folder.is_dir():
        raise UserError(f"forge.decks is {decks!r}, but there is no such folder; put your .dck files into one.")
    return folder


# ---- Java -----------------------------------------------------------------------------------------------------------


def find_java(java: str = "") -> Java:
    """Returns the Java at `java`, else the first that will do of JAVA_HOME and PATH.

    Raises:
      UserError: none will do, with what is wrong about those that there are.
    """
    if java:
        path = _program(Path(java).expanduser().absolute())
        if path is None:
            raise UserError(f"forge.java is {java!r}, but there is no java; set it to the `java` of a JDK.")
        candidates = [("forge.java", path)]
    else:
        candidates = _candidates()
    problems = []
    for name, path in candidates:
        found, problem = _examined(str(path), path.stat().st_mtime_ns)
        if found is not None:
            return found
        problems.append(f"{name} ({path}) {problem}")
    there = "; ".join(problems) or "there is no java in JAVA_HOME or on the PATH"
    needed = f"a JDK of version {OLDEST_JAVA} or newer"
    raise UserError(f"Forge needs {needed}: {there}. Install one, or set forge.java to it.")


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        path = _program(Path(home).expanduser().absolute())
        found += [("JAVA_HOME", path)] if path is not None else []
    if on_path := shutil.which("java"):
        found.append(("PATH", Path(on_path).absolute()))
    return found


def _program(place: Path) -> Path | None:
    """Returns the program `java` at a place: itself, or in the folder of a JDK."""
    for path in (place, place / "bin" / "java", place / "bin" / "java.exe"):
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


@functools.lru_cache(maxsize=16)
def _examined(path: str, changed: int) -> tuple[Java | None, str]:
    """(the Java, "") or (None, what is wrong with it); `changed` is when the file did, so that a new one is asked."""
    del changed
    command = (path, "--list-modules")  # each with a version, that of Java
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"cannot be run ({str(error).splitlines()[0]})"
    modules = dict(re.findall(r"^([\w.]+)@(\S+)", done.stdout.decode(errors="replace"), re.MULTILINE))
    version = re.match(r"(\d+)\S*", modules.get("java.base", ""))
    if version is None:
        return None, "is older than Java 9, or none"
    if int(version[1]) < OLDEST_JAVA:
        return None, f"is Java {version[0]}"
    if COMPILER not in modules:
        return None, f"is a Java {version[0]} without a compiler (a JRE, not a JDK)"
    return Java(Path(path), version[0]), ""
