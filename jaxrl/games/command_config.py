"""`jaxrl config`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from jaxrl.config import command_line as arguments


def add_options(parser: ArgumentParser) -> None:
    """Adds the options of `jaxrl config`."""
    help = "print this configuration, complete, with the origin of each value"
    arguments.config(parser, help, "preset", metavar="PRESET", nargs="?")
    arguments.config(parser, "the same", metavar="PRESET")
    arguments.allow(parser)
    parser.add_argument("--env", metavar="ID", help="print the options and settings of this game instead")
    arguments.overrides(parser, "changes to the configuration", "key.key=value")


def main(args: Namespace) -> int:
    """Prints the table of keys, the options of a game, or a resolved configuration."""
    from jaxrl.config import load, to_dict
    from jaxrl.config.describe import describe, options_of, origins, resolved
    from jaxrl.games import make_stages
    from jaxrl_envs.shared.errors import UserError

    if args.env:
        for number, section in enumerate(options_of(args.env)):
            print("\n" * (number > 0) + "\n".join(f"{key}  {text}\n    {doc}" for key, text, doc in section.rows))
    elif args.preset or args.config or args.overrides:
        name, overrides = args.config or args.preset, args.overrides
        if args.preset and "=" in args.preset:  # the first override
            name, overrides = args.config, [args.preset, *overrides]
        elif args.preset and args.config:
            raise UserError(f"give one configuration, not both {args.preset} and {args.config}.")
        config = load(name, overrides, args.allow)
        make_stages(config)  # says what does not fit the game
        print("\n".join(resolved(to_dict(config), origins(name, overrides))))
    else:
        print(describe())
    return 0
