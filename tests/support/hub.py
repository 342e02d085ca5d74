"""A stand-in of the Hugging Face hub: what its package asks of it to make a repository, commit and fetch files."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub(ThreadingHTTPServer):
    """The repositories: {repository: {path: content}}; `heard` are the requests that changed something."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.heard: list[tuple[str, str]] = []  # path, user agent
        self.asked: list[str] = []  # paths of files whose heads were asked for
        self.address = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def _answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"content-length": str(len(content))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self) -> None:
        repository, _, rest = self.path[1:].partition("/resolve/")
        revision, _, path = rest.partition("/")
        found = self.server.repositories.get(repository)
        if self.command == "HEAD":
            self.server.asked.append(path)
        wrong = "RepoNotFound" if found is None else "RevisionNotFound" if revision != "main" else ""
        if wrong or path not in found:
            return self._answer(404, x_error_code=wrong or "EntryNotFound")
        etag = hashlib.sha256(found[path]).hexdigest()
        commit = hashlib.sha1(repr(sorted(found.items())).encode()).hexdigest()
        self._answer(200, found[path], etag=f'"{etag}"', x_repo_commit=commit)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.heard.append((self.path, self.headers.get("user-agent", "")))
        if not self.headers.get("authorization"):
            return self._answer(401)
        answer: dict[str, Any] = {}
        if self.path == "/api/repos/create":
            self.server.repositories.setdefault("ann/bears", {})
            answer = {"url": f"{self.server.address}/ann/bears"}
        elif "/preupload/" in self.path:
            paths = [each["path"] for each in json.loads(body)["files"]]
            answer = {"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]}
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.server.repositories["ann/bears"][line["value"]["path"]] = content
            oid = "0" * 40
            answer = {"success": True, "commitUrl": f"{self.server.address}/ann/bears/commit/{oid}", "commitOid": oid}
        self._answer(200, json.dumps(answer).encode(), content_type="application/json")


@contextlib.contextmanager
def hub() -> Iterator[Hub]:
    """A hub in a thread."""
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
