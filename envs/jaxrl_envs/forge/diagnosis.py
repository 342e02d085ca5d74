"""Diagnosis of a Forge installation: checks each part that games of Magic need, plays two games, reports problems."""

from __future__ import annotations

import dataclasses
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_envs.forge.deckbuilding.deck import SUFFIX
from jaxrl_envs.forge.deckbuilding.scripts import scripts_of
from jaxrl_envs.forge.fleet.daemon import Daemon
from jaxrl_envs.forge.fleet.find import DECKS, find_decks, find_forge, find_java
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.fleet.profiles import PROFILES
from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.recordings.record_ai import play
from jaxrl_envs.forge.recordings.recording import quoted
from jaxrl_envs.forge.settings import OVERHEAD_MB, Deployment, available_mb
from jaxrl_envs.forge.wire.link import LinkError
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, EngineError, make_buffers
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.resources import cores

DECK = "aggro"
GAME_SECONDS = 600.0
PLAYED = r"1\.6\.5[0345]\b"  # versions of Forge


def diagnose(**settings: Any) -> bool:
    """Prints a diagnosis of a deployment with these settings. Returns whether games can be played."""
    return Diagnosis(Deployment(**settings)).run()


class Diagnosis:
    """One diagnosis: `problems` are sentences about what prevents games, `advice` about what could be better."""

    def __init__(self, deployment: Deployment, say: Callable[[str], Any] = print):
        self.deployment, self.say = deployment, say
        self.problems: list[str] = []
        self.advice: list[str] = []

    def run(self) -> bool:
        """Runs all checks. Returns whether games can be played."""
        if self.deployment.remote:
            self._remote()
        else:
            self._local()
        if not self.problems:
            self._play()
        for sentence in self.advice:
            self.say(f"note: {sentence}")
        for sentence in self.problems:
            self.say(f"wrong: {sentence}")
        self.say("Magic can be played here." if not self.problems else "Magic cannot be played here yet.")
        return not self.problems

    def _tried(self, what: str, look: Callable[[], str]) -> None:
        """Notes one line of the report, or one problem."""
        try:
            self.say(f"{what:<9} {look()}")
        except UserError as error:
            self.say(f"{what:<9} missing")
            self.problems.append(str(error))

    # ---- what there is ----------------------------------------------------------------------------------------------

    def _local(self) -> None:
        deployment = self.deployment
        self._tried("Java", lambda: "{1} at {0}".format(*find_java(deployment.java)))
        self._tried("Forge", self._forge)
        self._tried("decks", self._decks)
        count, memory = deployment.local_count(), available_mb()
        wanted = count * (deployment.heap_mb + OVERHEAD_MB)
        there = "" if memory is None else f" of {memory} MiB that are free"
        self.say(f"{'daemons':<9} {count} on {cores()} cores, up to {wanted} MiB of memory{there}")
        if memory is not None and wanted > memory:
            self.advice.append(
                f"{count} daemons may need more memory than there is: lower forge.daemons or forge.heap_mb."
            )
        elif deployment.daemons == "auto" and count < cores() - 1:
            self.advice.append(f"memory has room for {count} daemons only, not for {cores() - 1}: lower forge.heap_mb.")
        flags = " ".join(PROFILES[deployment.profile])
        self.say(f"{'profile':<9} {deployment.profile} ({flags}), heap {deployment.heap_mb} MiB")

    def _forge(self) -> str:
        forge = find_forge(self.deployment.home)
        cards = len(scripts_of(forge.res))
        if not cards:
            raise UserError(f"{forge.res / 'cardsfolder'} is empty: unpack the Forge release again.")
        return f"{forge.version} at {forge.home} ({forge.jar.name}, {cards} cards)"

    def _decks(self) -> str:
        own_decks = sorted(find_decks(self.deployment.decks).glob(f"*{SUFFIX}")) if self.deployment.decks else []
        game = ForgeGame(decks=(DECK, *map(str, own_decks)), pairings="mirror")
        game.deploy(self.deployment)
        shipped = ", ".join(sorted(path.stem for path in DECKS.glob("*.dck")))
        own = f"; {len(own_decks)} of yours in {self.deployment.decks}" if self.deployment.decks else ""
        return f"{shipped}{own}"

    def _remote(self) -> None:
        for number, (host, port) in enumerate(self.deployment.addresses):
            daemon = Daemon(number, host, port)
            try:
                status = daemon.status(10.0)
            except OSError as error:
                self.problems.append(f"the daemon at {daemon.name} cannot be used: {error}.")
                continue
            known = ("Active games", "Waiting", "Total games played", "Memory")
            text = ", ".join(f"{name.lower()} {status[name]}" for name in known if name in status)
            self.say(f"{'daemon':<9} {daemon.name}, Forge {daemon.version}: {text}")

    # ---- what it does -----------------------------------------------------------------------------------------------

    def _play(self) -> None:
        """Plays a game of the engine's own AI and one of random players on one daemon."""
        with tempfile.TemporaryDirectory() as folder:
            one = dataclasses.replace(self.deployment, record=folder)
            game = ForgeGame(decks=(DECK,))
            game.deploy(one if one.remote else dataclasses.replace(one, daemons=1))
            fleet = game.fleet()
            try:
                self._start(fleet)
                self._watched(game, fleet)
                self._played(game, fleet)
            except (UserError, LinkError, EngineError) as error:
                self.problems.append(str(error))
            finally:
                fleet.close()
            self._left(folder)

    def _start(self, fleet: Fleet) -> None:
        began = time.monotonic()
        lease = fleet.lease()
        fleet.release(lease, finished=False)
        found = fleet.counters()["daemons"][lease.daemon.number]
        self.advice += lease.daemon.remarks
        if not re.match(PLAYED, version := str(found["version"])):
            self.advice.append(
                f"jaxrl was tested with Forge 1.6.50 and 1.6.53 to 1.6.55 and never played with Forge {version}: "
                "let `jaxrl forge record --games 20` show that games end by their rules before a long training."
            )
        cost = f", {found['cpu_seconds']:.1f} s of CPU, {found['rss_mib']:.0f} MiB resident" if "pid" in found else ""
        self.say(f"{'start':<9} {time.monotonic() - began:.1f} s until {found['name']} was ready{cost}")

    def _watched(self, game: ForgeGame, fleet: Fleet) -> None:
        """Plays a game with the engine's own AI in both seats."""
        (pair,), _ = game._located()
        began, before = time.monotonic(), self._cpu(fleet)
        found = play(fleet, f"NEWGAME {quoted(pair[0])} {quoted(pair[1])} -q -s 1", GAME_SECONDS)
        result = found.result.rpartition(" in ")[0]
        self.say(f"{'AI':<9} {result} after {time.monotonic() - began:.1f} s{self._cost(fleet, before)}")

    def _played(self, game: ForgeGame, fleet: Fleet) -> None:
        """Plays with random players in both seats, by the same way as in a training."""
        buffers, slot = make_buffers(game, 1), np.zeros(1, np.int32)
        choice, asked = np.full(1, RANDOM, np.int32), 0
        began, own, before = time.monotonic(), time.process_time(), self._cpu(fleet)
        with HostPool(game.engine(1, 1), threads=1, mode="async", timeout=GAME_SECONDS, follow=False) as pool:
            pool.begin(slot, buffers)
            pool.recv(count=1)
            while not (buffers.terminated[0] or buffers.truncated[0]):
                pool.send(choice, games=slot)
                pool.recv(count=1)
                asked += 1
        own, cost = time.process_time() - own, self._cost(fleet, before)
        turns = int(buffers.stats[0, 0, game.stat_names.index("turns")])
        self.say(
            f"{'random':<9} {asked} decisions in {turns} turns after {time.monotonic() - began:.1f} s{cost}, "
            f"{1e3 * own:.0f} ms of ours"
        )

    def _left(self, folder: str) -> None:
        """Reports the choices that the daemon left to Forge's AI unasked, as it counts them at the end of games."""
        left, asked = Counter[str](), 0
        for path in sorted(Path(folder).rglob(f"*{recording.SUFFIXES[0]}")):
            for conversation in recording.read(path):
                for line in conversation.lines:
                    if line.startswith(b'< INFO:{"info_type":"left"'):
                        told = recording.parsed(line.removeprefix(b"< INFO:"))
                        left.update(told["choices"])
                        asked += told["asked"]
        if asked:
            kinds = ", ".join(f"{count} {kind}" for kind, count in left.most_common()) or "nothing"
            self.say(f"{'left':<9} to Forge's AI beside {asked} choices: {kinds}")

    def _cpu(self, fleet: Fleet) -> float:
        return sum(each.get("cpu_seconds", 0.0) for each in fleet.counters()["daemons"])

    def _cost(self, fleet: Fleet, before: float) -> str:
        return "" if self.deployment.remote else f", {1e3 * (self._cpu(fleet) - before):.0f} ms of the JVM's CPU"
