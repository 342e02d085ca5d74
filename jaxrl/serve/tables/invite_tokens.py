"""Invitation tokens: each opens one table and nothing else.

A token is HMAC-SHA256 (RFC 2104) of the table's name with a key that lies beside the tables, readable by its owner
alone: so invitations outlive the server. Removing the key revokes all of them.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

FILE, BYTES = ".key", 32
PATHS = re.compile("/table/([^/]+)|/api/tables/([^/]+)/(socket|replay|seat)")  # a table's page, and what it asks for


class InviteTokens:
    """The invitation tokens of all tables in a folder; used in the server's event loop alone."""

    def __init__(self, folder: Path):
        """Reads nothing yet."""
        self._path = folder / FILE

    @functools.cached_property
    def key(self) -> bytes:
        """The key in its file, made with mode 600 at the first use. Raises UserError: that cannot be done."""
        try:
            with contextlib.suppress(FileExistsError):
                with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(secrets.token_bytes(BYTES))
            key = files.contents(self._path)
        except OSError as error:
            raise UserError(f"{self._path}, the key of invitations: {error.strerror or error}.") from None
        if len(key) != BYTES:
            raise UserError(f"{self._path} is no key of invitations: remove it, and invite people again.")
        return key

    def token(self, table: str) -> str:
        """Returns the token of a table. Raises UserError as `key` does."""
        digest = hmac.digest(self.key, f"table {table}".encode("utf-8", "replace"), hashlib.sha256)
        return base64.urlsafe_b64encode(digest[:24]).decode()

    def fits(self, token: str, table: str) -> bool:
        """Returns whether `token` is the token of this table, compared in constant time."""
        shown = token.encode("utf-8", "replace")
        return bool(token and table) and hmac.compare_digest(shown, self.token(table).encode())


def table_of(path: str) -> str:
    """Returns the table whose page, or part of that, a path asks for; empty for all other paths."""
    found = PATHS.fullmatch(path)
    return found[1] or found[2] if found else ""
