"""An imitation of the Hugging Face hub on 127.0.0.1, with the faults of a network."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

REVISION = "1" * 40
LARGE = 1_000  # bytes from which a file is stated with its SHA-256, as git-lfs has it


@dataclass
class FakeHub:
    """A hub with one repository.

    Attributes:
        files: contents by name.
        address: of the hub.
        requested: names of the files that were asked for, and the bytes they were asked from.
        cut: number of bytes after which the content of a file ends, by name.
        altered: names of files of which the first byte differs from what is stated.
        refused: names of files that get the status 403.
        ignores_ranges: whether each answer begins with the first byte.
    """

    files: Mapping[str, bytes]
    address: str = ""
    requested: list[tuple[str, int]] = field(default_factory=list)
    cut: dict[str, int] = field(default_factory=dict)
    altered: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    ignores_ranges: bool = False

    def description(self, repository: str) -> dict[str, Any]:
        """Return what the hub states about the repository."""
        return {"id": repository, "sha": REVISION, "siblings": list(map(self._row, self.files))}

    def _row(self, name: str) -> dict[str, Any]:
        content = self.files[name]
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        row: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": blob.hexdigest()}
        if len(content) >= LARGE:
            sha256 = hashlib.sha256(content).hexdigest()
            row["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 100}
        return row


@contextmanager
def serving(hub: FakeHub, repository: str) -> Iterator[FakeHub]:
    """Run a hub with one repository."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0].removeprefix("/")
            if path == f"api/models/{repository}":
                self.answer(200, json.dumps(hub.description(repository)).encode())
                return
            name = path.removeprefix(f"{repository}/resolve/{REVISION}/")
            if name not in hub.files or name in hub.refused:
                self.answer(403 if name in hub.refused else 404, b"{}")
                return
            self.send_file(name)

        def send_file(self, name: str) -> None:
            content = hub.files[name]
            if name in hub.altered:
                content = bytes([content[0] ^ 1]) + content[1:]
            asked_from = int(self.headers.get("Range", "bytes=0-").split("=")[1].rstrip("-"))
            start = 0 if hub.ignores_ranges else asked_from
            hub.requested.append((name, asked_from))
            end = hub.cut.get(name, len(content))
            self.answer(206 if start else 200, content[start:end], len(content) - start)

        def answer(self, status: int, content: bytes, length: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content) if length is None else length))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        hub.address = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield hub
        finally:
            running.shutdown()
            thread.join()
