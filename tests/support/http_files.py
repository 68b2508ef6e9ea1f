"""A web server for files, which can break off, forget ranges, ask for a password, and changes what it serves."""

from __future__ import annotations

import re
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


@dataclass
class HttpFiles:
    """What is served, by path, and how."""

    files: dict[str, bytes] = field(default_factory=dict)
    address: str = ""
    takes_ranges: bool = True
    etag: str = '"1"'
    password: str = ""
    """What a client must name as user and password, empty for no question."""
    max_bytes: int | None = None
    """Bytes of an answer after which the connection breaks off, None for never."""
    silent_seconds: float = 0.0
    """Seconds before an answer."""
    breaks: int = 1000
    """How often it breaks off."""
    leads_to: dict[str, str] = field(default_factory=dict)
    """Where a path redirects to."""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path with its query, and range of each request."""

    def url(self, path: str) -> str:
        """The URL of a path."""
        return f"http://{self.address}{path}"

    @property
    def fetched(self) -> list[str]:
        """The ranges that were asked for."""
        return [wanted for method, _, wanted in self.asked if method == "GET"]


@contextmanager
def served(files: dict[str, bytes]) -> Iterator[HttpFiles]:
    """Serve files until the block ends."""
    state = HttpFiles(files)
    handler = type("Handler", (_Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: ClassVar[HttpFiles]
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""

    def _answer(self, with_body: bool) -> None:
        state = self.state
        path, wanted = self.path.partition("?")[0], self.headers.get("Range", "")
        state.asked.append((self.command, self.path, wanted))
        time.sleep(state.silent_seconds)
        if (
            state.password
            and self.headers.get("Authorization") != f"Basic {b64encode(state.password.encode()).decode()}"
        ):
            self._send(403, b"", with_body)
        elif path in state.leads_to:
            self._send(302, b"", with_body, {"Location": state.leads_to[path]})
        elif path in state.files:
            self._send_file(state.files[path], wanted if state.takes_ranges else "", with_body)
        elif path.endswith("/") and any(name.startswith(path) for name in state.files):
            below = sorted(
                {
                    name[len(path) :].partition("/")[0] + ("/" if "/" in name[len(path) :] else "")
                    for name in state.files
                    if name.startswith(path)
                }
            )
            self._send(200, "".join(f'<a href="{name}">{name}</a>\n' for name in below).encode(), with_body)
        else:
            self._send(404, b"", with_body)

    def _send_file(self, data: bytes, wanted: str, with_body: bool) -> None:
        found = _RANGE.match(wanted)
        if found is None:
            self._send(200, data, with_body, {"ETag": self.state.etag})
            return
        first, last = int(found[1]), min(int(found[2]), len(data) - 1)
        span = {"ETag": self.state.etag, "Content-Range": f"bytes {first}-{last}/{len(data)}"}
        self._send(206, data[first : last + 1], with_body, span)

    def _send(self, status: int, data: bytes, with_body: bool, headers: dict[str, str] | None = None) -> None:
        state = self.state
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if not with_body:
            return
        if state.max_bytes is not None and len(data) > state.max_bytes and state.breaks > 0:
            state.breaks -= 1
            self.wfile.write(data[: state.max_bytes])
            self.close_connection = True
            self.connection.shutdown(2)
            return
        try:
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            # The client has seen enough.
            self.close_connection = True
