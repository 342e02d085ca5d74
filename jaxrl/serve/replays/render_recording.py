"""Renders recorded games in a process of its own: `python -m jaxrl.serve.replays.render_recording FOLDER FILE ...`.

Files may come from strangers. They are read by the readers that everything here uses, nothing that they name is run,
and this process may use so much time, memory and disk and no more. What it finds lies in FOLDER, packed by gzip: the
results of the replays and their last positions as 0, 1, ..., see `glance`; or of the game `--game` of one file:

    head       JSON: `Playback.record`, and "done": false while more of it is to come; or {"error": a sentence}
    0, 1, ...  the picture of each frame, in order of time
    and a file of `jaxrl.serve.replays.state_store`, where policies can judge the game
    games      JSON: what the games of the file are called, where it holds several
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gzip
import json
import os
import re
import resource
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.serve.replays import state_store
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl_envs.shared.display import svg
from jaxrl_envs.shared.display.playback import LIMIT, Playback, PlaybackMoment, of_states
from jaxrl_envs.shared.errors import UserError

SECONDS, MEMORY, DISK = 300, 12 << 30, 1 << 28  # of computing; bytes of data; bytes of one file that is written
MOST = 1 << 22  # values of the first line of a file
NICE = 2  # pages go first
FILM, FILM_FRAMES = 1 << 25, 10  # bytes of a film; frames a second
_SVG = "{http://www.w3.org/2000/svg}svg"
_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)s")
UNSOUND = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, EOFError)
STORY = "This game has neither drawings nor words for its table: its story stands beside."
HALF = "every few moments as the file holds them; the whole of it is being played"


def main(argv: list[str]) -> int:
    """Renders a game, or looks at several; returns 1 if one cannot be opened."""
    parser = argparse.ArgumentParser("jaxrl.serve.replays.render_recording")
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--game", type=int)
    parser.add_argument("--allow", action="append", default=[])
    parser.add_argument("--cache", default="")
    args = parser.parse_args(argv)
    _limit()
    failed = False
    for number, file in enumerate(args.files):
        try:
            if args.game is None:
                _write(args.folder / str(number), glance(file, args.allow))
            else:
                _unroll(file, args)
            continue
        except UserError as error:
            why = str(error).replace(f"{file.parent}{os.sep}", "")
        except MemoryError:
            why = f"{file.name} needs more memory than may be used for it."
        except UNSOUND as error:
            why = f"{file.name} cannot be shown, it is damaged ({type(error).__name__}: {error})."
        failed = True
        _write(args.folder / (str(number) if args.game is None else "head"), {"error": why})
    return int(failed)


def _limit() -> None:
    os.nice(NICE)
    cpu, data, file, core = resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE
    for what, most in ((cpu, SECONDS), (data, MEMORY), (file, DISK), (core, 0)):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def _unroll(path: Path, args: argparse.Namespace) -> None:
    playback = None
    for playback, done in opened(path, args.game, args.allow, args.cache):
        if playback.decided is not None:
            with contextlib.suppress(OSError, ValueError, TypeError):  # then it cannot be annotated
                state_store.write(args.folder, playback.decided)
        _write(args.folder / "head", playback.record() | {"done": done})
    if playback is None:
        raise UserError(f"{path.name} is no recording that can be shown here.")
    for frame in range({"space": 0, "film": 1}.get(playback.view, playback.frames)):
        _pack(args.folder / str(frame), playback.picture(frame))
    module = None if path.name.endswith((".replay", ".svg")) else _reader(path)
    _write(args.folder / "games", module.games(path) if module else [])


def glance(path: Path, allow: list[str]) -> dict[str, Any]:
    """Returns the result and the last position of a replay from the numbers that its file holds; nothing is played.
    `allow` as in `opened`. Raises UserError: it is no replay."""
    from jaxrl.matches.recording import replays
    from jaxrl_envs.contract.env import State
    from jaxrl_envs.contract.sides import of_sides

    found = replays.read(str(path), allow=allow)
    env, replay, last = found.env, found.replay, found.last()
    won = np.asarray(env.outcome(of_sides(np.array(replay.returns, np.float32), env.sides)))[list(env.sides)].tolist()
    figures, board = {}, ""
    if not isinstance(last, State):
        board = _from_above(registry.game_module(replay.game, "playback").space(env, [last]))
    else:
        figures = {name: np.asarray(each).tolist() for name, each in env.episode_stats(last).items()}
        with contextlib.suppress(NotImplementedError):
            board = env.render_svg(last)
    told = {"game": replay.game, "players": replay.players, "returns": replay.returns, "won": won}
    return told | {"figures": figures, "board": board}


def _from_above(space: Mapping[str, Any]) -> str:
    """Returns the first moment of a scene (`Playback.space`) from above, with the second axis to the right."""
    outline = space["arena"]["outline"]
    wide, deep = (1.1 * max(point[axis] for point in outline) for axis in (1, 0))
    floor = " ".join(f"{wide + y:.0f},{deep - x:.0f}" for x, y in outline)
    parts = [f'<polygon points="{floor}" fill="#3b7358" stroke="#e3f2ea" stroke-width="80"/>']
    for body in reversed(space["bodies"]):
        colour = "#f2ead7" if body["team"] < 0 else space["colours"][body["team"]]
        parts.append(svg.circle(wide + body["places"][1], deep - body["places"][0], 300, colour))
    return svg.document(2 * wide, 2 * deep, parts)


def opened(path: Path, number: int, allow: list[str], cache: str = "") -> Iterator[tuple[Playback, bool]]:
    """Yields the playback of a game, first perhaps in part, each with whether it is complete.

    Args:
      path: path of the file.
      number: number of one of its games, from 0 on.
      allow: modules and paths that it may name, see `jaxrl.config.trust`.
      cache: folder of compiled programs; empty: none.

    Raises:
      UserError: it cannot be shown.
    """
    if path.name.endswith(".svg"):
        yield film(path), True
    elif path.name.endswith(".replay"):
        yield from _replayed(path, allow, cache)
    else:
        module = _reader(path)
        if "jax" in sys.modules:
            _prepare(cache)
        yield module.play(path, number), True


def film(path: Path) -> Playback:
    """Returns an animated SVG document (`jaxrl film`) as a playback. The document is sent as it is, under a policy with
    which nothing in it runs or is loaded (`jaxrl.serve.replays.routes`).

    Raises:
      UserError: the file is not such a document.
    """
    text = files.unpacked(path, FILM)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UserError(f"{path.name} declares entities: no film of ours does.")
    if text.count("<") > files.MOST:
        raise UserError(f"{path.name} has more than {files.MOST:,} elements: no film of ours does.")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UserError(f"{path.name} is no SVG document ({error}).") from None
    if root.tag != _SVG:
        raise UserError(f"{path.name} is no SVG document.")
    durations = [_DURATION.fullmatch(node.get("dur", "")) for node in root.iter()]
    seconds = max([float(each[1]) for each in durations if each], default=0.0)
    frames = max(1, round(seconds * FILM_FRAMES))
    moments = [PlaybackMoment(0, "a film" if seconds else "a picture")]
    return Playback(path.name, [], "film", frames, lambda frame: text, moments, seconds=1 / FILM_FRAMES)


def _reader(path: Path) -> Any:
    """Returns the playback module of the game that a file records."""
    first = _first(path)
    for game in registry.games_with("playback"):
        module = registry.game_module(game, "playback")
        if hasattr(module, "fits") and module.fits(path.name, first):
            return module
    raise UserError(f"{path.name} is no recording that can be shown here.")


def _first(path: Path) -> Mapping[str, Any]:
    """Returns the JSON object of a file's first line, or {} if the line does not hold one."""
    try:
        found = files.json_value(files.unpacked(path, LIMIT).lstrip().partition("\n")[0], MOST)
    except (ValueError, RecursionError, UserError):
        return {}
    return found if isinstance(found, dict) else {}


def _replayed(path: Path, allow: list[str], cache: str) -> Iterator[tuple[Playback, bool]]:
    """Yields the playback of a file of `jaxrl.matches.recording.replays`; what needs no replaying comes first."""
    from jaxrl.matches.recording import replays

    found = replays.read(str(path), allow=allow)
    _prepare(cache)
    module = registry.find_module(found.replay.game, "playback")
    offers = vars(module) if module is not None else {}
    half = None
    if "space" in offers and found.replay.thinned:
        half = Playback(
            found.replay.title,
            found.replay.players,
            "space",
            len(found.replay.actions) + 1,
            seconds=getattr(found.env, "seconds", 0.0),
            space=offers["space"](found.env, found.replay.thinned),
            note=HALF,
        )
        yield half, False
    try:
        states, actions = found.play()
    except UserError as error:
        if half is None:
            raise
        note = f"only every few moments, as the file holds them: {str(error).replace(str(path), path.name)}"
        yield dataclasses.replace(half, note=note), True
        return
    replay = found.replay
    about = replay.title, replay.players, offers
    whole = of_states(found.env, states, actions, *about, game=replay.game, options=replay.options)
    yield _drawable(found.env, states, whole), True


def _drawable(env: Any, states: list[Any], found: Playback) -> Playback:
    """Returns the playback as drawings, as text where the game has none, or else with its story alone."""
    ways = [found.picture, lambda frame: env.render(states[frame]), lambda frame: STORY]
    for number, way in enumerate(ways if found.view == "pictures" else ()):
        with contextlib.suppress(NotImplementedError):
            way(0)
            return dataclasses.replace(found, view="text" if number else "pictures", picture=way)
    return found


def _prepare(cache: str) -> None:
    from jaxrl.runs.directory import enable_compilation_cache

    enable_compilation_cache(cache)


def _write(path: Path, tree: Any) -> None:
    _pack(path, json.dumps(tree, separators=(",", ":"), allow_nan=False))


def _pack(path: Path, text: str) -> None:
    """Writes a file atomically, without fsync: it is not needed after a crash."""
    part = path.with_name(f".{path.name}")
    part.write_bytes(gzip.compress(text.encode(), 3, mtime=0))
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
