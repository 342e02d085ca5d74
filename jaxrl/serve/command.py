"""`jaxrl serve`: tables to play at, recorded games and runs in a browser."""

from __future__ import annotations

import argparse
import importlib.util
import ipaddress
import secrets
import socket
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING

from jaxrl import config as configs
from jaxrl import zoo
from jaxrl.config import command_line as arguments
from jaxrl.players import names
from jaxrl.serve.site import NETWORK, PAGE
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

if TYPE_CHECKING:
    from jaxrl.serve.server import ServerSettings

PACKAGES = ("starlette", "uvicorn", "websockets")
TOKEN = 16  # bytes
RUNS, PORT = "runs", 8765  # by default


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl serve`."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine)")
    help = "default: 8765; with --mcp any that is free, unless another is named"
    parser.add_argument("--port", type=arguments.port, default=PORT, help=help)
    parser.add_argument(
        "--token",
        help="what your browser must show; guests have others (default: a new one; none on a loopback address)",
    )
    parser.add_argument("--folder", metavar="DIR", help="where tables are kept (default: .tables in --runs)")
    parser.add_argument("--runs", default=RUNS, metavar="DIR", help="where runs are (default: runs)")
    parser.add_argument("--replays", nargs="*", default=[], metavar="DIR", help="more folders with recorded games")
    help = "also offer this game: pgx:connect_four, my_file:MyGame; repeatable"
    parser.add_argument("--game", action="append", default=[], metavar="ID", help=help)
    parser.add_argument(
        "--tables", type=arguments.whole, default=100, metavar="N", help="most tables at a time (default: 100)"
    )
    help = "also seat a language model: tools of the Model Context Protocol on standard input and output"
    parser.add_argument("--mcp", action="store_true", help=help)
    help = "write a page there that needs no server, on which one plays --policy, and end: a new folder, or such a page"
    parser.add_argument("--site", type=_page_folder, metavar="FOLDER", help=help)
    help = "of --site: zoo:NAME, a run or a policy file (default: of the zoo)"
    names.add_player(parser, "--policy", metavar="POLICY", help=help)
    arguments.checkpoint(parser)
    arguments.allow(parser)


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl serve` until Ctrl-C, or writes a page that needs no server."""
    from jaxrl import xla
    from jaxrl.runs.directory import enable_compilation_cache

    if args.site is not None:
        return _write_site(args)
    packages, extra = ((*PACKAGES, "mcp"), "mcp") if args.mcp else (PACKAGES, "web")
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if absent:
        raise UserError(f"{' and '.join(absent)} is not installed: python -m pip install 'jaxrl[{extra}]'.")
    from jaxrl.serve.app import make_server
    from jaxrl.serve.server import Server, in_address

    host, settings = settings_of(args)
    if xla.on_cpu():
        xla.fuse()  # for the games that ask for it: their programs alone are compiled so
    for game in args.game:
        registry.options_of(game)
    with _listen(host, 0 if args.mcp and args.port == PORT else args.port) as listening:
        files.check_folder(settings.folder)
        settings.folder.mkdir(parents=True, exist_ok=True)
        server = Server(settings)
        if settings.token:
            server.guests.token("")  # a damaged key is told now
        enable_compilation_cache(settings.cache_dir)
        server.opening.append(server.prepare)
        shown = f"?token={settings.token}" if settings.token else ""
        address = f"http://{in_address(host)}:{listening.getsockname()[1]}"
        print(f"open {address}/{shown}", flush=True, file=sys.stderr if args.mcp else None)
        if args.mcp:
            from jaxrl.serve import mcp_seat

            mcp_seat.run(make_server(server), [listening], address, settings.token)
        else:
            make_server(server).run(sockets=[listening])
    return 0


def _page_folder(text: str) -> Path:
    """Returns the type of the option --site."""
    folder = Path(text)
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or (folder / NETWORK).is_file())):
        raise UserError(f"{folder} exists and is no page of `jaxrl serve --site`: name a new folder, or an empty one.")
    files.check_folder(folder)
    return folder


def _write_site(args: argparse.Namespace) -> int:
    """Writes a page without a server."""
    from jaxrl.policies.find import find_policy
    from jaxrl.serve.site.build import build

    text = args.policy or zoo.PREFIX + next(name for name in zoo.names() if name in registry.games_with(PAGE))
    policy, _ = find_policy(text, args.checkpoint, args.allow)
    written = build(args.site, policy, text)
    size = sum(path.stat().st_size for path in written)
    print(f"{args.site}: {len(written)} files, {size / 1e6:.1f} MB; play against {text} on index.html")
    print(f"any web server can show them, e.g. python3 -m http.server -d {args.site} (http://localhost:8000)")
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UserError(f"cannot listen on {host}, port {port}: {error.strerror}.") from None


def settings_of(args: argparse.Namespace) -> tuple[str, ServerSettings]:
    """Returns host and settings from the command line. Raises UserError: the host is not an address."""
    from jaxrl.serve.server import ServerSettings, in_address

    try:
        address = ipaddress.ip_address("127.0.0.1" if args.host == "localhost" else args.host)
    except ValueError:
        raise UserError(f"--host must be an address such as 127.0.0.1 or 0.0.0.0, got {args.host!r}.") from None
    for option, folder in [("--runs", args.runs), *(("--replays", folder) for folder in args.replays)]:
        if folder != RUNS and not Path(folder).expanduser().is_dir():  # the default of --runs may be made
            raise UserError(f"{option}: there is no folder {folder}: check the path.")
    defaults = configs.load(None, [])
    return args.host if args.host == "localhost" else str(address), ServerSettings(
        token=args.token or ("" if address.is_loopback and not args.mcp else secrets.token_urlsafe(TOKEN)),
        names=ServerSettings.names | {in_address(str(address))} if address.is_loopback else frozenset(),
        folder=Path(args.folder or Path(args.runs) / ".tables").expanduser(),
        runs=Path(args.runs).expanduser(),
        replays=(Path(args.runs), *map(Path, args.replays)),
        games=tuple(dict.fromkeys([*registry.registered(), *args.game])),
        tables=args.tables,
        allow=(*args.allow, *(name for game in args.game for name in registry.permissions(game)[:1])),
        cache_dir=defaults.run.cache_dir,
    )
