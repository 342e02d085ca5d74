"""Invitation tokens: each opens one table and nothing else.

It is HMAC-SHA256 (RFC 2104) of the table's name with a key that lies beside the tables, for its owner's eyes alone: so
invitations outlive the server. Removing the key revokes all of them.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
import threading
from pathlib import Path

from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

FILE, BYTES = ".key", 32
PAGE, API = "/table/", "/api/tables/"
PARTS = ("socket", "replay")  # of a table's interface: what its page asks for


class InviteTokens:
    """The invitation tokens of all tables in a folder."""

    def __init__(self, folder: Path):
        """Reads nothing yet."""
        self._folder, self._key, self._lock = folder, b"", threading.Lock()

    def ready(self) -> None:
        """Reads the key, or creates it with mode 600. Raises UserError: that cannot be done."""
        path = self._folder / FILE
        with self._lock:
            try:
                with contextlib.suppress(FileExistsError):
                    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                        file.write(secrets.token_bytes(BYTES))
                key = files.contents(path)
            except OSError as error:
                raise UserError(f"{path}, the key of invitations: {error.strerror or error}.") from None
        if len(key) != BYTES:
            raise UserError(f"{path} is no key of invitations: remove it, and invite people again.")
        self._key = key

    def token(self, table: str) -> str:
        """Returns the token of a table. Raises UserError as `ready` does."""
        if not self._key:
            self.ready()
        digest = hmac.digest(self._key, f"table {table}".encode("utf-8", "replace"), hashlib.sha256)
        return base64.urlsafe_b64encode(digest[:24]).decode()

    def fits(self, token: str, table: str) -> bool:
        """Returns whether `token` is the token of this table, compared in constant time."""
        return bool(token and table) and hmac.compare_digest(
            token.encode("utf-8", "replace"), self.token(table).encode()
        )


def table_of(path: str) -> str:
    """Returns the table whose page, or part of that, a path asks for; empty for all other paths."""
    if path.startswith(PAGE):
        table, part = path.removeprefix(PAGE), PARTS[0]
    else:
        table, _, part = path.removeprefix(API).rpartition("/") if path.startswith(API) else ("", "", "")
    return table if part in PARTS and "/" not in table else ""
