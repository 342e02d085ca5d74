"""The page of a game that needs no server (`jaxrl serve --site`).

A game has one if a module `browser` lies beside its rules, with

    TITLE: str                              what people call the game
    files(env) -> dict[str, bytes]          files by name; UserError: the page cannot show this table

Among the files are `scene.html` (the table, put into the page), `page.css`, `page.js` (the module that starts it) and
`cards.svg` (pictures by id, see `svg.sprites`). Beside them lie `table.js` and `table.css` (what tables share),
`style.css`, `network.js` and `policy.bin`, the network, whose input the game's files compute.
"""

from __future__ import annotations

from pathlib import Path

_KINDS = (".js", ".css", ".html")


def read(module: str) -> dict[str, bytes]:
    """Returns the files by name that lie beside a module, given by its `__file__`."""
    return {path.name: path.read_bytes() for path in sorted(Path(module).parent.iterdir()) if path.suffix in _KINDS}
