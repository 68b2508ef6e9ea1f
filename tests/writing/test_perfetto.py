"""The server for ui.perfetto.dev: over real sockets, as a browser asks, and as it must not be asked."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest
import zstandard

from tests.support.paths import ROOT, SAMPLES
from tests.support.perfetto.writer import BEGIN, event, packet
from tests.support.processes import free_port, loaded_after, tracetui
from tests.support.waiting import POLL_SECONDS, PROCESS_SECONDS, wait_until
from tracetui.errors import CannotRun, NotATrace, NotFound, UsageError
from tracetui.writing.perfetto_server import PAGE, PerfettoServer, ServedFile

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"


@pytest.fixture
def serving():
    """A function that serves a file, and gives the server and what it told."""
    running = []

    def serve(path=EAGER, once=False):
        told: list[str] = []
        server = PerfettoServer(ServedFile(str(path)), free_port(), once, told.append)
        thread = threading.Thread(target=server.serve)
        thread.start()
        running.append((server, thread))
        return server, told, thread

    yield serve
    for server, thread in running:
        server.shutdown()
        thread.join(POLL_SECONDS)


def ask(server, method="GET", path=None, host=None, **headers):
    """Status, headers and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PROCESS_SECONDS)
    try:
        connection.putrequest(method, server.place if path is None else path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{server.port}")
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET\r\n\r\n", b"400"),
        (b"GET / HTTP/x.y\r\n\r\n", b"400"),
        (b"GET / b c HTTP/1.1\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"),
        (b"GET / HTTP/9.0\r\n\r\n", b"505"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n", b"431"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
    ],
)
def test_a_malformed_request_gets_an_answer(serving, request_bytes, status):
    server, told, _ = serving()
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(4096):
                answer += part
    assert answer.split(b" ")[1] == status
    assert told == []
    assert ask(server)[0] == 200


def test_the_page_gets_the_bytes_of_the_file(serving):
    server, told, _ = serving()
    for _ in range(2):
        status, headers, body = ask(server, Origin=PAGE)
        assert (status, body) == (200, EAGER.read_bytes())
        assert headers["Access-Control-Allow-Origin"] == PAGE
        assert headers["Cache-Control"] == "no-store"
        assert headers["Content-Encoding"] is None
    wait_until(lambda: len(told) == 2)
    assert told == [f"sent {EAGER.stat().st_size:,} bytes to the browser"] * 2


def test_a_head_has_no_body(serving):
    server, told, _ = serving(once=True)
    status, headers, body = ask(server, "HEAD", Origin=PAGE)
    assert (status, body, told) == (200, b"", [])
    assert int(headers["Content-Length"]) == EAGER.stat().st_size


def test_a_preflight_is_answered_also_about_private_networks(serving):
    server, _, _ = serving()
    asked = {"Origin": PAGE, "Access_Control_Request_Method": "GET"}
    status, headers, body = ask(server, "OPTIONS", **asked)
    assert (status, body) == (204, b"")
    assert headers["Access-Control-Allow-Origin"] == PAGE
    assert "GET" in headers["Access-Control-Allow-Methods"]
    assert headers["Access-Control-Allow-Private-Network"] is None
    _, headers, _ = ask(server, "OPTIONS", **asked, Access_Control_Request_Private_Network="true")
    assert headers["Access-Control-Allow-Private-Network"] == "true"


@pytest.mark.parametrize("path", ["/", "/trace.json", "/../../etc/passwd", "/x/mlp_eager_cpu.json.gz", "*", "//"])
def test_no_other_path_leads_anywhere(serving, path):
    server, told, _ = serving()
    status, _, body = ask(server, path=path, Origin=PAGE)
    assert (status, body, told) == (404, b"", [])


def test_the_name_without_the_secret_is_not_enough(serving):
    server, _, _ = serving()
    secret = server.place.split("/")[1]
    assert len(secret) >= 20
    assert ask(server, path=f"/{secret}/")[0] == 404
    assert ask(server, path=server.place.upper())[0] == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9001", "127.0.0.1.evil.example", "[::1]", "localhost.x"]
)
def test_a_name_that_was_led_here_is_refused(serving, host):
    server, told, _ = serving()
    for method in ("GET", "HEAD", "OPTIONS"):
        status, headers, body = ask(server, method, host=host)
        assert (status, body, told) == (403, b"", [])
        assert headers["Access-Control-Allow-Origin"] is None


@pytest.mark.parametrize("host", ["127.0.0.1:9001", "localhost:9001", "127.0.0.1"])
def test_a_forwarded_port_is_welcome(serving, host):
    assert ask(serving()[0], host=host)[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://ui.perfetto.dev", f"{PAGE}.evil.example"])
def test_other_pages_are_refused(serving, origin):
    server, told, _ = serving()
    for method in ("GET", "OPTIONS"):
        status, headers, body = ask(server, method, Origin=origin)
        assert (status, body, told) == (403, b"", [])
        assert headers["Access-Control-Allow-Origin"] is None


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_only_reading_is_allowed(serving, method):
    server, _, _ = serving()
    status, headers, _ = ask(server, method, path="/status", Origin=PAGE)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD, OPTIONS"


def test_only_this_machine_is_listened_to(serving):
    assert serving()[0].server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "wrap", [zstandard.compress, lambda data: data.decode().encode("utf-16")], ids=["zstd", "utf16"]
)
def test_what_the_page_cannot_unpack_is_unpacked(serving, tmp_path, wrap):
    text = gzip.decompress(EAGER.read_bytes())
    path = tmp_path / "t.json.zst"
    path.write_bytes(wrap(text))
    server, _, _ = serving(path)
    assert server.place.endswith("/t.json.zst.json")
    status, headers, body = ask(server, Origin=PAGE)
    assert (status, body) == (200, text)
    assert headers["Transfer-Encoding"] == "chunked"


PACKETS = b"".join(packet(event(BEGIN, 7, name="x" * 300), time=time) for time in range(5))


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_protobuf_trace_is_served_as_it_is(serving, tmp_path, pack):
    path = tmp_path / "t.pftrace.gz"
    path.write_bytes(pack(PACKETS))
    server, _, _ = serving(path)
    assert server.place.endswith("/t.pftrace.gz")
    status, headers, body = ask(server, Origin=PAGE)
    assert (status, body) == (200, pack(PACKETS))
    assert headers["Content-Type"] == "application/octet-stream"


def test_an_unpacked_protobuf_trace_is_not_called_json(serving, tmp_path):
    path = tmp_path / "t.pftrace.zst"
    path.write_bytes(zstandard.compress(PACKETS))
    server, _, _ = serving(path)
    assert server.place.endswith("/t.pftrace.zst.pftrace")
    assert ask(server, Origin=PAGE)[2] == PACKETS


def test_once_ends_with_the_first_whole_visit(serving):
    server, _, thread = serving(once=True)
    ask(server, path="/status")
    assert thread.is_alive()
    assert ask(server)[0] == 200
    thread.join(POLL_SECONDS)
    assert not thread.is_alive()


def test_a_file_that_has_gone_is_said(serving, tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": []}')
    server, told, _ = serving(path)
    path.unlink()
    assert ask(server)[0] == 410
    assert "cannot be read any more" in told[0]


def test_names_are_fit_for_a_link(serving, tmp_path):
    path = tmp_path / "a b&url=http:\x1b#ü.json"
    path.write_text('{"traceEvents": []}')
    server, _, _ = serving(path)
    assert re.fullmatch(
        r"https://ui\.perfetto\.dev/#!/\?url=http://127\.0\.0\.1:9001/[\w-]+/a_b_url_http_.json", server.link
    )
    assert ask(server)[0] == 200


def test_a_port_that_is_taken_is_said():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CannotRun, match=f"Port {port} is taken"):
            PerfettoServer(ServedFile(str(EAGER)), port, False, print)
        result = tracetui("perfetto", EAGER, "--port", port)
        assert result.returncode == 3
        assert result.stdout == ""


def test_what_cannot_be_served(tmp_path):
    (tmp_path / "empty.json").touch()
    with pytest.raises(NotATrace):
        ServedFile(str(tmp_path / "empty.json"))
    with pytest.raises(NotFound):
        ServedFile(str(tmp_path / "missing.json"))
    with pytest.raises(UsageError, match="Standard input"):
        ServedFile("-")
    assert tracetui("perfetto", EAGER, "--port", "0").returncode == 2
    assert tracetui("perfetto", EAGER, "--steps-by", "x").returncode == 2


@pytest.fixture
def started():
    """A function that runs the command in a process of its own, and gives it with its port and the path of its link."""
    running = []

    def start(*words, **more):
        port = free_port()
        command = [sys.executable, "-m", "tracetui", "perfetto", str(EAGER), "--port", str(port), *words]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        child = subprocess.Popen(command, cwd=ROOT, text=True, stdout=pipe, stderr=pipe, stdin=nothing, **more)
        running.append(child)
        assert child.stdout is not None
        link = child.stdout.readline().strip()
        assert link.startswith("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/")
        return child, port, link.partition(":9001")[2]

    yield start
    for child in running:
        child.kill()
        child.communicate()


def fetched(port, path):
    """The body that the page would get."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PROCESS_SECONDS)
    try:
        connection.request("GET", path, headers={"Origin": PAGE})
        return connection.getresponse().read()
    finally:
        connection.close()


def test_the_command_prints_the_link_and_nothing_else(started):
    child, port, path = started("--once")
    assert fetched(port, path) == EAGER.read_bytes()
    out, err = child.communicate(timeout=PROCESS_SECONDS)
    assert (child.returncode, out) == (0, "")
    assert f"ssh -L 9001:127.0.0.1:{port} " in err
    assert all(line.startswith("tracetui: ") for line in err.splitlines())


def test_ctrl_c_ends_it_well(started):
    child, port, path = started()
    assert fetched(port, path) == EAGER.read_bytes()
    os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=PROCESS_SECONDS)
    assert child.returncode == 0
    assert "Traceback" not in err


@pytest.mark.full
def test_a_part_is_served_and_leaves_no_file(started, tmp_path):
    child, port, path = started("--steps", "3", "--once", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert path.endswith("/mlp_eager_cpu.cut.json.gz")
    assert len(json.loads(gzip.decompress(fetched(port, path)))["traceEvents"]) == 46
    child.communicate(timeout=PROCESS_SECONDS)
    assert os.listdir(tmp_path) == []


def test_serving_a_whole_file_loads_nothing_heavy():
    assert not loaded_after("import tracetui.writing.perfetto_server") & {"numpy", "textual", "rich", "torch"}
