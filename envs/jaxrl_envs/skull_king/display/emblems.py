"""The pictures on the cards: small vector drawings of our own, 32 units wide around the origin."""

from __future__ import annotations

from typing import NamedTuple

from jaxrl_envs.skull_king import cards as c


class Style(NamedTuple):
    """The look of a kind of card."""

    ink: str  # colour of the frame, the number and the picture
    paper: str
    picture: str  # SVG elements; INK and PAPER stand for the two colours


_SKULL = (
    '<path d="M-14,8 L14,14 M14,8 L-14,14" stroke="INK" stroke-width="3.4" stroke-linecap="round"/>'
    '<path d="M-10.5,-4 C-10.5,-18 10.5,-18 10.5,-4 C10.5,1 8,3 6,4.5 L6,9.5 L-6,9.5 L-6,4.5 C-8,3 -10.5,1 '
    '-10.5,-4 Z" '
    'fill="INK" stroke="PAPER" stroke-width="1.4"/>'
    '<circle cx="-4.3" cy="-4" r="3" fill="PAPER"/><circle cx="4.3" cy="-4" r="3" fill="PAPER"/>'
    '<path d="M0,-0.5 L-1.8,3 L1.8,3 Z M-2.2,6 L-2.2,9.5 M2.2,6 L2.2,9.5" fill="PAPER" stroke="PAPER"/>'
)
_PARROT = (
    '<path d="M-9,16 C-15,3 -10,-13 3,-14 C10,-14 13,-8 11,-4 C14,-4 15,0 12,4 C12,1 10,0 8,0 C7,8 1,10 -3,11 Z" '
    'fill="INK"/><path d="M-6,3 C-3,-5 4,-4 5,0 C2,7 -3,9 -7,9 Z" fill="PAPER" opacity="0.55"/>'
    '<circle cx="5" cy="-8" r="2" fill="PAPER"/><circle cx="5.4" cy="-8" r="0.9" fill="INK"/>'
)
_CHEST = (
    '<path d="M-14,-2 C-14,-14 14,-14 14,-2 Z" fill="INK"/>'
    '<rect x="-14" y="-0.5" width="28" height="13" rx="1.5" fill="INK"/>'
    '<path d="M-8.5,-10 L-8.5,12.5 M8.5,-10 L8.5,12.5" stroke="PAPER" stroke-width="1.3" opacity="0.7"/>'
    '<rect x="-3.2" y="-4" width="6.4" height="8" rx="1.4" fill="PAPER"/>'
    '<circle cx="0" cy="-0.6" r="1.3" fill="INK"/>'
)
_MAP = (
    '<path d="M-14,-10 L-5,-13 L5,-10 L14,-13 L14,10 L5,13 L-5,10 L-14,13 Z" fill="INK"/>'
    '<path d="M-5,-13 L-5,10 M5,-10 L5,13" stroke="PAPER" stroke-width="0.8" opacity="0.6"/>'
    '<path d="M-11,7 C-8,-2 -3,4 0,-2 C1,-4 2,-5 4,-5" fill="none" stroke="PAPER" stroke-width="1.7" '
    'stroke-dasharray="2.6 2"/>'
    '<path d="M6.5,-7.5 L11.5,-2.5 M11.5,-7.5 L6.5,-2.5" stroke="PAPER" stroke-width="2.2" stroke-linecap="round"/>'
)
_FLAG = (
    '<path d="M-9,-15 L-9,16" stroke="INK" stroke-width="2.4" stroke-linecap="round"/>'
    '<path d="M-9,-13 C-1,-18 4,-8 14,-12 L14,3 C4,7 -1,-3 -9,2 Z" fill="INK" opacity="0.8"/>'
)
_SABRE = '<path d="M-13,-13 C-3,-10 6,-2 9.5,8 L6.5,10 C2,2 -6,-7 -13,-13 Z M4.5,13.5 L13,7.5 M9,10.5 L13,16" '
_SABRES = (
    f'<g fill="INK" stroke="INK" stroke-width="2" stroke-linejoin="round" stroke-linecap="round">{_SABRE}/>'
    f'<g transform="scale(-1,1)">{_SABRE}/></g></g>'
)
_TIGRESS = (
    '<path d="M-12,-14 L-4,-11 L4,-11 L12,-14 L13,-2 C13,8 6,14 0,14 C-6,14 -13,8 -13,-2 Z" fill="INK"/>'
    '<path d="M0,-11 L0,-5 M-4,-10.5 L-3,-6.5 M4,-10.5 L3,-6.5 M-13,0 L-8.5,1 M-11.5,5 L-7.5,4.5 M13,0 L8.5,1 '
    'M11.5,5 L7.5,4.5" '
    'stroke="PAPER" stroke-width="1.7" stroke-linecap="round"/>'
    '<path d="M-8,-3 L-3,-1.5 L-7,0.5 Z M8,-3 L3,-1.5 L7,0.5 Z M-2.4,5 L2.4,5 L0,7.8 Z" fill="PAPER"/>'
    '<path d="M0,7.8 L0,9.5 M-3.5,11 C-2,11 -0.5,10.5 0,9.5 C0.5,10.5 2,11 3.5,11" fill="none" stroke="PAPER" '
    'stroke-width="1"/>'
)
_CROWN = (
    f'<g transform="translate(0,5) scale(0.82)">{_SKULL}</g>'
    '<path d="M-11,-7 L-13,-17 L-6,-12.5 L0,-19 L6,-12.5 L13,-17 L11,-7 Z" fill="#d9a521" stroke="PAPER" '
    'stroke-width="1"/>'
    '<circle cx="0" cy="-10" r="1.5" fill="INK"/><circle cx="-6" cy="-9.6" r="1.1" fill="INK"/>'
    '<circle cx="6" cy="-9.6" r="1.1" fill="INK"/>'
)
_MERMAID = (
    '<path d="M-2,-15 C9,-11 9,3 2,7 C5,9 10,9 13,14 C6,17 1,14 -0.5,11 C-3,15 -8,16 -13,13 C-9,10 -5,9 -3,7 '
    'C-9,1 -9,-9 -2,-15 Z" '
    'fill="INK"/><path d="M-5,-7 C-2,-5 2,-5 5,-7 M-6,-2.5 C-2,-0.5 2,-0.5 6,-2.5 M-5,2 C-2,3.6 2,3.6 4.6,2" '
    'fill="none" '
    'stroke="PAPER" stroke-width="1.3" opacity="0.75"/>'
)
_KRAKEN = (
    '<path d="M-8,1 C-12,-17 12,-17 8,1 Z" fill="INK"/>'
    '<g fill="none" stroke="INK" stroke-width="3" stroke-linecap="round">'
    '<path d="M-6.5,0 C-7,9 -14,6 -14,0"/><path d="M6.5,0 C7,9 14,6 14,0"/><path d="M-2.6,0 C-2,12 -9,15 -12,11"/>'
    '<path d="M2.6,0 C2,12 9,15 12,11"/></g>'
    '<circle cx="-3.4" cy="-4.5" r="2.1" fill="PAPER"/><circle cx="3.4" cy="-4.5" r="2.1" fill="PAPER"/>'
)
_WHALE = (
    '<path d="M-15,3 C-15,-9 5,-11 8,0 C10,1 11,-4 10,-8 C13,-7 13,-5 14,-5 C15,-6 16,-7 16,-8 C17,0 15,7 9,9 '
    'C3,12 -14,13 -15,3 Z" '
    'fill="INK"/><circle cx="-9" cy="1" r="1.4" fill="PAPER"/>'
    '<path d="M-14,6 C-10,9 -3,9 1,6" fill="none" stroke="PAPER" stroke-width="1.2"/>'
    '<path d="M-5,-10 C-5,-14 -9,-15 -10,-12 M-5,-10 C-5,-15 -1,-16 0,-12.5" fill="none" stroke="INK" '
    'stroke-width="1.8" '
    'stroke-linecap="round"/>'
)
_COIN = (
    '<circle r="8" fill="INK" stroke="PAPER" stroke-width="1.6"/>'
    '<circle r="4.6" fill="none" stroke="PAPER" stroke-width="1"/>'
)
_COINS = "".join(f'<g transform="translate({x},{y})">{_COIN}</g>' for x, y in ((-7.5, 7), (7.5, 7), (0, -6)))

PAPER = "#fbf5e4"
SUITS = (
    Style("#2c8a4b", PAPER, _PARROT),
    Style("#b98412", PAPER, _CHEST),
    Style("#7546a0", PAPER, _MAP),
    Style("#22252b", PAPER, _SKULL),
)
ESCAPE = Style("#5b93bd", PAPER, _FLAG)
PIRATE = Style("#b02a24", PAPER, _SABRES)
TIGRESS = Style("#cf6a1f", PAPER, _TIGRESS)
KING = Style("#f3e3b8", "#5c1430", _CROWN)
MERMAID = Style("#16888f", PAPER, _MERMAID)
KRAKEN = Style("#d8d0f5", "#372a75", _KRAKEN)
WHALE = Style("#eaf3f8", "#456d86", _WHALE)
LOOT = Style("#a2781c", PAPER, _COINS)


def style_of(play: int) -> Style:
    """Returns the look of a play 0..74."""
    if play < 56:
        return SUITS[play // 14]
    if play < c.ROSIE:
        return ESCAPE
    if play <= c.HARRY:
        return PIRATE
    special = {c.TIGRESS: TIGRESS, c.TIGRESS_PIRATE: TIGRESS, c.KING: KING, c.KRAKEN: KRAKEN, c.WHALE: WHALE}
    return special.get(play, MERMAID if play in c.MERMAIDS else LOOT)
