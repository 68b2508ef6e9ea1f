"""Processes, sockets and files that are not what they seem: ids of others, pipes and links, names that never end."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.support.attached_jobs import socket_folder
from tests.support.terminal.hostile import PAYLOADS, steered
from tracetui.errors import CannotRun
from tracetui.opening.attach_listener import MAX_COMMAND_BYTES, Call, Job, Listener, Question, job_of, still_runs
from tracetui.opening.attached_capture import Capture, State, TraceRequest

pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_PASSCRED"), reason="Kineto asks for requests on Linux only")
ASKS = struct.pack("=Q32s", 24, b"req") + struct.pack("=iiq2i", 3, 2, 0, 8589, 8500)


@pytest.fixture
def folder():
    with socket_folder() as made:
        yield Path(made)


def started(*words: str, **variables: str) -> subprocess.Popen:
    """A process that says `ready` and waits."""
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    job = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None and job.stdout.readline() == "ready\n"
    return job


def ended(job: subprocess.Popen) -> None:
    job.communicate()


class Sink:
    """What takes the place of the socket of an answer."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def sendto(self, data: bytes, _: object) -> None:
        self.sent.append(data)


def test_a_process_that_has_the_id_of_one_that_ended_is_not_asked(tmp_path):
    other = started()
    try:
        now = job_of(other.pid)
        assert now is not None and now.began > 0 and still_runs(now)
        chosen = Job(other.pid, "python train.py", seconds=60.0, began=now.began - 1)
        assert not still_runs(chosen)
        capture = Capture([chosen], TraceRequest(), lambda job: tmp_path, 100.0)
        sink = Sink()
        capture.hear(Call(other.pid, Question(other.pid, True), cast(socket.socket, sink), "sender"))
        assert sink.sent == [struct.pack("=Q32s", 0, b"req")]
        capture.look()
        assert capture.targets[other.pid].state is State.FAILED
        assert list(tmp_path.iterdir()) == []
    finally:
        ended(other)
    assert not still_runs(now)


@pytest.mark.parametrize("rank", ["9" * 5000, "-1", "٣", "1e3", "\x1b[2J", " 3"])
def test_a_rank_that_is_none(rank):
    job = started(RANK=rank)
    try:
        found = job_of(job.pid)
        assert found is not None and found.rank is None
    finally:
        ended(job)


def test_a_command_line_cannot_steer_the_terminal_and_is_cut_off():
    payloads = [each for each in PAYLOADS.values() if "\ud800" not in each]
    job = started(*payloads, "x" * 100_000)
    try:
        found = job_of(job.pid)
        assert found is not None and not steered(found.command.encode(), has_left=False)
        assert len(found.command) < 4 * MAX_COMMAND_BYTES
    finally:
        ended(job)


@pytest.mark.parametrize("pid", [0, -1, 2**31, 10**400])
def test_an_id_that_is_none(pid):
    assert job_of(pid) is None
    assert not still_runs(Job(pid, ""))


@pytest.mark.parametrize("kind", ["file", "link to a file", "folder", "pipe"])
def test_what_is_no_socket_is_never_removed(folder, kind):
    place, other = folder / "dynolog", folder / "precious"
    other.write_text("precious")
    if kind == "file":
        place.write_text("precious")
    elif kind == "link to a file":
        place.symlink_to(other)
    elif kind == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    with pytest.raises(CannotRun, match="something else has that name"), Listener(folder):
        pass
    assert place.exists() and other.read_text() == "precious"


def test_a_socket_of_somebody_else_stays(folder, monkeypatch):
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stale.bind(f"{folder}/dynolog")
    stale.close()
    real = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    with pytest.raises(CannotRun, match="Another program answers"), Listener(folder):
        pass
    assert (folder / "dynolog").is_socket()


def test_a_folder_whose_name_is_too_long_for_a_socket(tmp_path):
    long = tmp_path / ("x" * 200)
    long.mkdir()
    with pytest.raises(CannotRun, match="cannot be opened"), Listener(long):
        pass


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 40, b"\xff" * 60_000, ASKS[:-1], ASKS + b"\0", ASKS.replace(b"req", b"\x1b[2")]
)
def test_what_is_no_datagram_of_kineto_is_passed_over(folder, data):
    with Listener(folder) as listener, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.bind(str(folder / "sender"))
        sender.sendto(data, str(folder / "dynolog"))
        assert listener.receive(1.0) is None
        sender.sendto(ASKS, str(folder / "dynolog"))
        call = listener.receive(10.0)
        assert call is not None and (call.pid, call.message) == (os.getpid(), Question(8589, True))


def test_a_datagram_of_another_user_is_ignored(folder, monkeypatch):
    real = os.getuid()
    with Listener(folder) as listener, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.bind(str(folder / "sender"))
        monkeypatch.setattr(os, "getuid", lambda: real + 1)
        sender.sendto(ASKS, str(folder / "dynolog"))
        assert listener.receive(1.0) is None


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_a_process_did_not_write_is_not_taken_for_its_trace(tmp_path, kind):
    job = started()
    try:
        chosen = job_of(job.pid)
        assert chosen is not None
        capture = Capture([chosen], TraceRequest(), lambda _: tmp_path, 100.0)
        capture.hear(Call(job.pid, Question(job.pid, True), cast(socket.socket, Sink()), "sender"))
        target = capture.targets[job.pid]
        assert target.state is State.ASKED and target.folder is not None
        place, other = target.folder / "trace.json", tmp_path / "other.json"
        other.write_text('{"traceEvents": []}')
        {"pipe": os.mkfifo, "link": lambda at: at.symlink_to(other), "folder": Path.mkdir}[kind](place)
        for _ in range(3):
            capture.look()
        assert target.state is State.ASKED
        place.rmdir() if kind == "folder" else place.unlink()
        place.write_text('{"traceEvents": []}')
        # A file is finished when it has not grown since the last look.
        capture.look()
        capture.look()
        assert target.file == place
    finally:
        ended(job)
