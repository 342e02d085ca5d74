"""The one exception that means "the user can fix this": bad options, unknown names, missing optional packages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONG = 100  # letters of a name, beyond which the search for the nearest would take too long
MANY = 15  # names, of which a message gives some


class UserError(Exception):
    """One clear sentence that says what is wrong and what to do; the command line prints it and exits with code 2."""


def printable(text: str) -> str:
    """Escapes control characters in `text` from an untrusted file, so that a terminal does not execute them."""
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt `name`: the first of its words that is one of the `known` names, as in "outcome_heuristic";
    else the nearest of them, or if none is near, all or, of many, some."""
    known = sorted(known)
    words = [word for word in name[:LONG].split("_") if word in known]
    match = words or difflib.get_close_matches(name[:LONG], known, n=1, cutoff=0.5)
    if match:
        return f"did you mean {match[0]!r}?"
    if len(known) > MANY:
        return f"known are {len(known)}, such as {', '.join(difflib.get_close_matches(name[:LONG], known, cutoff=0.0))}"
    return f"known: {', '.join(known)}" if known else "there are none"
