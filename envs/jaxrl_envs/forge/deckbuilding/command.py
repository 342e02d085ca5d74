"""`jaxrl forge decks`: lists decks with what is in them and whether this Forge knows it, or makes some by chance.

jaxrl forge decks                                        # those that come along, and yours in forge.decks
jaxrl forge decks --random 20 --out decks/train --seed 1
"""

from __future__ import annotations

import argparse
from pathlib import Path

from jaxrl_envs.forge.deckbuilding.deck import SUFFIX, cards_of, read_deck, unknown_cards
from jaxrl_envs.forge.deckbuilding.pool import pool_of
from jaxrl_envs.forge.deckbuilding.random_decks import make_decks
from jaxrl_envs.forge.deckbuilding.scripts import Scripts
from jaxrl_envs.forge.fleet.find import DECKS, find_decks, find_forge
from jaxrl_envs.forge.settings import add_settings, deployment_of, made
from jaxrl_envs.shared.errors import UserError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `jaxrl forge decks`."""
    parser.add_argument("--random", type=int, metavar="N", help="make N legal decks of 60 cards by chance")
    parser.add_argument("--out", metavar="DIR", help="where to write them")
    parser.add_argument("--seed", type=int, default=0, help="of the chance: the same Forge makes the same decks")
    add_settings(parser)


def main(args: argparse.Namespace) -> int:
    """Lists decks, or makes some."""
    deployment = deployment_of(args.settings)
    if args.random is not None:
        return write_random(args, find_forge(deployment.home).res)
    scripts, version = cards_of(deployment.home)
    print(f"cards as Forge {version} knows them" if scripts else "no Forge is found here: cards are not compared")
    folders = {"jaxrl": DECKS} | ({deployment.decks: find_decks(deployment.decks)} if deployment.decks else {})
    print("| deck | from | cards | different | remarks |\n|---|---|---|---|---|")
    for source, folder in folders.items():
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            print(f"| {path.stem} | {source} | {described(path, scripts)} |")
    return 0


def described(path: Path, scripts: Scripts | None) -> str:
    """Returns the cells of a deck: how many cards, how many different ones, and what is in its way."""
    deck = read_deck(path)
    strange = unknown_cards(deck, scripts) if scripts else []
    remarks = [f"not known: {', '.join(strange)}"] if strange else []
    remarks += ["a Commander deck: not played"] if deck.commanders else []
    return f"{sum(deck.cards.values())} | {len(deck.cards)} | {'; '.join(remarks)}"


def write_random(args: argparse.Namespace, res: Path) -> int:
    """Makes decks and writes them; those of the same names are replaced."""
    if args.random < 1 or not args.out:
        raise UserError("forge decks --random needs a number and a folder: --random 20 --out decks/train.")
    folder = made(args.out, "decks")
    decks = make_decks(pool_of(res), args.random, args.seed)
    for deck in decks:
        (folder / f"{deck.name}{SUFFIX}").write_text(deck.text(), encoding="utf-8")
    kinds = ", ".join(dict.fromkeys(deck.kind for deck in decks))
    print(f"{folder}: {len(decks)} decks ({kinds}); play with them by env.options.decks=['{folder}/*{SUFFIX}']")
    return 0
