"""One file served on loopback, for the page ui.perfetto.dev and nobody else.

The page's content security policy lets it load from 127.0.0.1 at one port only, and a browser shows it the answer
when the answer names the page's origin. Whoever asks must know a path that cannot be guessed, and must have been told
to ask 127.0.0.1: a page that makes its own host name lead here is refused.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tracetui.errors import CannotRun, UsageError
from tracetui.reading.other_files import is_database
from tracetui.reading.perfetto.recognition import PROBED_BYTES, is_perfetto
from tracetui.reading.source import open_source

PORT = 9001
"""The only port that the page may load from."""
ADDRESS = "127.0.0.1"
PAGE = "https://ui.perfetto.dev"
_HOSTS = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?", re.IGNORECASE)
_AS_IT_IS = ("plain", "gzip")
"""Wrappings that the page opens itself; others are taken off while the file is sent."""
_CHUNK = 1 << 18
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_METHODS = "GET, HEAD, OPTIONS"
_POLL_SECONDS = 60
"""Seconds after which a browser that stopped listening is given up."""


class ServedFile:
    """A trace as the page gets it."""

    def __init__(self, path: str) -> None:
        """Read its wrapping.

        Raises: UsageError for standard input; NotFound and NotATrace for what cannot be served.
        """
        if path == "-":
            raise UsageError("Standard input cannot be read anew for each visit: save it to a file, and name that.")
        source = open_source(path)
        try:
            if is_database(source.peek(PROBED_BYTES)):
                raise UsageError(f"{source.label} is SQLite, which Perfetto's page does not open.")
            is_unpacked = source.wrapping not in _AS_IT_IS
            start = bytearray(PROBED_BYTES if is_unpacked else 0)
            count = source.readinto(memoryview(start)) if is_unpacked else 0
        finally:
            source.close()
        suffix = ".pftrace" if is_perfetto(bytes(start[:count]), is_whole=False) else ".json"
        self.path = path
        self.is_unpacked = is_unpacked
        """True where the content of the wrapping is sent, not the bytes of the file."""
        self.name = _UNSAFE.sub("_", Path(path).name) + (suffix if is_unpacked else "")
        """Name on the page."""

    def size(self) -> int | None:
        """Number of bytes that will be sent, None where it is not known before.

        Raises: OSError when the file has gone.
        """
        size = os.stat(self.path).st_size
        return None if self.is_unpacked else size

    def parts(self) -> Iterator[bytes]:
        """The bytes to send.

        Raises: TraceError or OSError when the file cannot be read any more.
        """
        if not self.is_unpacked:
            with open(self.path, "rb") as file:
                while data := file.read(_CHUNK):
                    yield data
            return
        source = open_source(self.path)
        buffer = memoryview(bytearray(_CHUNK))
        try:
            while count := source.readinto(buffer):
                yield bytes(buffer[:count])
        finally:
            source.close()


class PerfettoServer(ThreadingHTTPServer):
    """Serves one file until it is told to stop, or `once` until it has been sent whole."""

    daemon_threads = True

    def __init__(self, file: ServedFile, port: int, once: bool, tell: Callable[[str], None]) -> None:
        """Take the port; `tell` gets a sentence for every visit.

        Raises: CannotRun when the port is taken or may not be used.
        """
        self.file, self.once, self.tell = file, once, tell
        self.place = f"/{secrets.token_urlsafe(16)}/{file.name}"
        """The only path that leads to something."""
        self.sent = threading.Event()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise CannotRun(_refused(port, error)) from error

    @property
    def port(self) -> int:
        """The port that was taken."""
        return int(self.server_address[1])

    @property
    def link(self) -> str:
        """The address for a browser that reaches this server at `PORT`."""
        return f"{PAGE}/#!/?url=http://{ADDRESS}:{PORT}{self.place}"

    def serve(self) -> None:
        """Answer until ctrl+c, or with `once` until the file was sent."""
        try:
            self.serve_forever(poll_interval=0.2)
        finally:
            self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a browser that left in the middle, without a traceback."""
        self.tell("a visit was broken off")


def _refused(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} is taken, perhaps by another trace that is being served: end that, or take another port with "
            f"--port N and forward it to {PORT} of the machine with the browser."
        )
    return f"Port {port} cannot be used: {error.strerror or error}."


class _Handler(BaseHTTPRequestHandler):
    server: PerfettoServer
    protocol_version = "HTTP/1.1"
    # Of a request whose version cannot be read; the usual 0.9 has answers without a status.
    default_request_version = "HTTP/1.1"
    server_version = "tracetui"
    sys_version = ""
    timeout = _POLL_SECONDS

    def do_GET(self) -> None:
        """Send the file."""
        if self._is_allowed():
            self._send(with_body=True)

    def do_HEAD(self) -> None:
        """Say how long it is."""
        if self._is_allowed():
            self._send(with_body=False)

    def do_OPTIONS(self) -> None:
        """Tell a browser what the page may ask for."""
        if not self._is_allowed():
            return
        self.send_response(HTTPStatus.NO_CONTENT)
        self.send_header("Access-Control-Allow-Methods", _METHODS)
        if self.headers.get("Access-Control-Request-Private-Network") == "true":
            self.send_header("Access-Control-Allow-Private-Network", "true")
        self.end_headers()

    def _not_allowed(self) -> None:
        """Refuse other methods: with POST the page asks every server at this port whether it is Perfetto's own."""
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED)

    do_POST = do_PUT = do_DELETE = do_PATCH = _not_allowed

    def _is_allowed(self) -> bool:
        """True where the request comes from the page, to this server, for the file; refuses it otherwise."""
        if not _HOSTS.fullmatch(self.headers.get("Host", "")):
            return self._refuse(HTTPStatus.FORBIDDEN)
        if self.headers.get("Origin", PAGE) != PAGE:
            return self._refuse(HTTPStatus.FORBIDDEN)
        if not secrets.compare_digest(self.path.partition("?")[0].encode(), self.server.place.encode()):
            return self._refuse(HTTPStatus.NOT_FOUND)
        return True

    def _refuse(self, status: HTTPStatus) -> bool:
        self.close_connection = True
        self.send_response(status)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", _METHODS)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()
        return False

    def _send(self, with_body: bool) -> None:
        try:
            size = self.server.file.size()
        except OSError as error:
            self.server.tell(f"the file cannot be read any more: {error.strerror}")
            self._refuse(HTTPStatus.GONE)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/octet-stream")
        if size is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(size))
        self.end_headers()
        if with_body:
            self._end_visit(self._send_parts(size), size)

    def _send_parts(self, size: int | None) -> int:
        """Send the body; returns its bytes without those of the chunks."""
        count = 0
        for part in self.server.file.parts():
            count += len(part)
            self.wfile.write(part if size is not None else b"%x\r\n%b\r\n" % (len(part), part))
        if size is None:
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        return count

    def _end_visit(self, count: int, size: int | None) -> None:
        if size is not None and count != size:
            # Fewer bytes than announced: the browser must not wait for the rest.
            self.close_connection = True
            self.server.tell(f"the file changed while it was sent: {count:,} of {size:,} bytes")
            return
        self.server.tell(f"sent {count:,} bytes to the browser")
        self.server.sent.set()
        if self.server.once:
            self.close_connection = True
            threading.Thread(target=self.server.shutdown, daemon=True).start()

    def end_headers(self) -> None:
        """Name the page in every answer, and forbid to keep it."""
        # A request whose first line or headers cannot be read is refused before there are any headers.
        headers = getattr(self, "headers", None)
        if headers is not None and headers.get("Origin") == PAGE:
            self.send_header("Access-Control-Allow-Origin", PAGE)
        self.send_header("Vary", "Origin")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: visits are reported as sentences."""
