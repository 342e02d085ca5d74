"""Settings of Forge and its daemons: the section `forge` of a configuration, or the arguments of `deploy`.

Nothing here decides a game: the same seed gives the same game on any deployment.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import typing
from collections.abc import Sequence
from pathlib import Path

from jaxrl_envs.forge.fleet.profiles import PROFILES
from jaxrl_envs.shared import files, user_code
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import Place, build, convert, limits_of, option
from jaxrl_envs.shared.resources import cores, free_bytes

AUTO = "auto"
LOCAL_HOST = "127.0.0.1"
PREFIX = "forge."  # of keys of this section
OVERHEAD_MB = 300  # what a JVM takes beside its heap: code, classes, stacks, the collector's own
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w-]{1,63}(?:\.[\w-]{1,63})*):([0-9]{1,5})", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Deployment:
    """The daemons of Forge, the engine of Magic. They decide no game: the same seed is the same game on any of them."""

    home: str = option("", "folder of a Forge release; empty: the environment variable FORGE_HOME", runs=user_code.path)
    java: str = option(
        "",
        "`java` of a JDK of version 17 or newer, or its folder; empty: JAVA_HOME, then PATH",
        runs=user_code.path,
    )
    daemons: int | str | tuple[str, ...] = option(
        AUTO,
        "JVMs on this machine (auto: one less than cores), or a list of HOST:PORT of daemons "
        "elsewhere, which are never restarted",
        parse=lambda value: _daemons(value),
        words="auto, a number of at least 1, or host:port (or a list of these)",
        runs=user_code.path,  # it is told the token
    )
    profile: str = option(
        "serial",
        "set of JVM flags; `python -m scripts.benchmark.forge --profiles` compares them",
        choices=tuple(PROFILES),
    )
    heap_mb: int = option(1024, "heap of a JVM in MiB, allocated at its start", minimum=256, maximum=1 << 20)
    jvm_options: tuple[str, ...] = option(
        (),
        "options for the JVMs, after ours, e.g. [-XX:+UseZGC, -XX:MaxRAMPercentage=40]",
        pattern=r"-\S.*",
        words="options that begin with -",
        runs=user_code.path,
    )
    record_jfr: str = option(
        "",
        "folder for a Java Flight Recorder file of every JVM, daemon-N.jfr, written when it ends; empty: none",
        runs=user_code.path,
    )
    decks: str = option("", "folder of your own decks, named by their files; empty: only the shipped ones")
    decision_timeout: float = option(
        120.0, "seconds after which a silent daemon is restarted and its game continued elsewhere", above=0.0
    )
    start_timeout: float = option(120.0, "seconds that a JVM may take to start, e.g. more on a busy machine", above=0.0)
    stock: bool = option(False, "run daemons without the shortcuts that save time and change no game, to check them")
    record: str = option(
        "",
        "folder for recordings of all conversations with daemons, in training/ and evaluation/; empty: none",
        runs=user_code.path,
    )
    log_dir: str = option(
        "", "folder of the daemons' logs; empty: the run directory, else a temporary one", runs=user_code.path
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, place = getattr(self, field.name), Place(path=f"forge.{field.name}")
            checked = convert(value, typing.get_type_hints(type(self))[field.name], limits_of(field), place)
            object.__setattr__(self, field.name, checked)

    @property
    def remote(self) -> bool:
        """Whether the daemons run elsewhere and are not started here."""
        return isinstance(self.daemons, tuple)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """(host, port) of every remote daemon."""
        return tuple(parse_address(text) for text in self.daemons) if isinstance(self.daemons, tuple) else ()

    def local_count(self) -> int:
        """Returns the number of JVMs to start here."""
        if isinstance(self.daemons, int):
            return self.daemons
        memory = available_mb()
        room = memory // (self.heap_mb + OVERHEAD_MB) if memory is not None else cores()
        return max(1, min(cores() - 1, room))


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The words `forge.key=value` of the commands `jaxrl forge …`, as everywhere else."""
    parser.add_argument("settings", nargs="*", metavar="forge.key=v", help="e.g. forge.home=~/forge forge.daemons=4")


def deployment_of(words: Sequence[str]) -> Deployment:
    """Returns the deployment that words like "forge.daemons=4" describe.

    Raises:
      UserError: one is of another form, or its value is wrong.
    """
    tree = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key.startswith(PREFIX):
            raise UserError(f"cannot understand {word!r}: settings are written forge.key=value, e.g. forge.daemons=4.")
        tree[key.removeprefix(PREFIX)] = files.parse(value, f"the value of {key}")
    return build(Deployment(), tree, Place(path=PREFIX.rstrip(".")))


def parse_address(text: str) -> tuple[str, int]:
    """("host", port) of "host:port"; an IPv6 host stands in brackets.

    Raises:
      UserError: it is no such address.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise UserError(f"forge.daemons: {text!r} is no address; write host:port, e.g. 192.168.0.7:17171.")
    return match[1].strip("[]"), int(match[2])


def made(path: str | Path, purpose: str) -> Path:
    """Returns a folder of the user's, made if need be.

    Raises:
      UserError: it cannot be made.
    """
    folder = Path(path).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder {path} for {purpose} cannot be made ({error.strerror}): choose another.") from None
    return folder


def available_mb() -> int | None:
    """Memory that programs may still take, in MiB; None where the system does not tell."""
    free = free_bytes()
    return None if free is None else free >> 20


def _daemons(value: object) -> str | int | tuple[str, ...] | None:
    """`daemons` in its one form; None if it has none."""
    if value == AUTO:
        return AUTO
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, str):
        value = (value,)
    if isinstance(value, Sequence) and value and all(isinstance(text, str) for text in value):
        for text in value:
            parse_address(text)
        return tuple(value)
    return None
