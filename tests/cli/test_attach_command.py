"""`tracetui attach` beside processes that behave as Kineto does inside a job."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.attached_jobs import jobs_in, socket_folder
from tests.support.waiting import wait_until
from tracetui.errors import CannotRun
from tracetui.opening.attach_listener import Listener

LIMIT = 120

needs_linux = pytest.mark.skipif(not hasattr(socket, "SO_PASSCRED"), reason="Kineto asks for requests on Linux only")
pytestmark = [pytest.mark.full, needs_linux]


@pytest.fixture
def folder():
    with socket_folder() as made:
        yield made


@pytest.fixture
def start(folder, tmp_path, monkeypatch):
    # What is written is to lie where tests look for what is left.
    monkeypatch.setenv("KINETO_ONDEMAND_TRACE_DIR", str(tmp_path))
    with jobs_in(folder) as begin:
        yield begin


def attach(folder, *words, cwd):
    variables = {**os.environ, "KINETO_IPC_SOCKET_DIR": folder}
    command = [sys.executable, "-m", "tracetui", "attach", *map(str, words)]
    return subprocess.run(command, env=variables, cwd=cwd, capture_output=True, text=True, timeout=LIMIT)


def left(cwd):
    return sorted(str(path.relative_to(cwd)) for path in cwd.rglob("*") if path.is_file())


def test_a_trace_of_one_process(start, folder, tmp_path):
    job = start()
    done = attach(folder, job.pid, "--seconds", 0.5, "--shapes", "--no-open", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"traces/attach/pid{job.pid}_trace.json.gz\n"
    asked = json.loads(job.stdout.readline())
    assert asked["ACTIVITIES_DURATION_MSECS"] == "500" and asked["PROFILE_REPORT_INPUT_SHAPES"] == "true"
    shown = subprocess.run(
        [sys.executable, "-m", "tracetui", "show", "ops", done.stdout.strip()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "aten::mm" in shown.stdout
    # Nothing is left but the trace, and the job goes on.
    assert left(tmp_path) == [done.stdout.strip()]
    assert job.poll() is None


def test_where_temporary_files_are_is_nothing_to_the_job(start, folder, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    monkeypatch.delenv("KINETO_ONDEMAND_TRACE_DIR")
    done = attach(folder, start().pid, "--seconds", 0.5, "--no-open", "-o", "kept.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "kept.json\n"), done.stderr
    assert left(tmp_path) == ["kept.json"]


def test_allocations_that_are_not_there_are_told(start, folder, tmp_path):
    done = attach(folder, start().pid, "--memory", "--json", "-o", "kept.json", cwd=tmp_path)
    assert done.returncode == 0
    assert "is kept, but it has no allocations" in done.stderr
    assert "no allocations" in json.loads(done.stdout)["traces"][0]["lacks"]


def test_four_ranks_leave_a_folder(start, folder, tmp_path):
    jobs = [start(rank=rank) for rank in range(4)]
    done = attach(folder, *[job.pid for job in jobs], "--json", "-o", "ranks/", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert left(tmp_path) == [f"ranks/rank{rank}_trace.json.gz" for rank in range(4)]
    assert [row["rank"] for row in json.loads(done.stdout)["traces"]] == [0, 1, 2, 3]


def test_a_process_that_dies_costs_its_own_trace_only(start, folder, tmp_path):
    first, second = start(rank=0), start("dies", rank=1)
    done = attach(folder, first.pid, second.pid, "-o", "ranks/", cwd=tmp_path)
    assert done.returncode == 4
    assert f"process {second.pid} left no trace: it has ended." in done.stderr
    assert left(tmp_path) == ["ranks/rank0_trace.json.gz"]


def test_a_process_that_takes_no_request(start, folder, tmp_path):
    job = start("refuses")
    done = attach(folder, job.pid, cwd=tmp_path)
    assert done.returncode == 4
    assert "did not take the request" in done.stderr
    assert left(tmp_path) == []


def test_a_process_that_never_asks(start, folder, tmp_path):
    job = start("silent")
    done = attach(folder, job.pid, "--timeout", 1, cwd=tmp_path)
    assert done.returncode == 4
    assert "has not asked for 1 s" in done.stderr


def test_the_list_of_processes(start, folder, tmp_path):
    job = start(rank=2)
    done = attach(folder, "--json", cwd=tmp_path)
    rows = json.loads(done.stdout)["processes"]
    assert [(row["pid"], row["rank"]) for row in rows] == [(job.pid, 2)]


def test_ctrl_c_leaves_no_file_and_a_job_that_goes_on(start, folder, tmp_path):
    job = start("silent")
    variables = {**os.environ, "KINETO_IPC_SOCKET_DIR": folder}
    command = [sys.executable, "-m", "tracetui", "attach", str(job.pid)]
    running = subprocess.Popen(command, env=variables, cwd=tmp_path, stderr=subprocess.DEVNULL)
    wait_for_socket(folder)
    running.send_signal(signal.SIGINT)
    assert running.wait(LIMIT) == 130
    assert left(tmp_path) == [] and os.listdir(tmp_path) == []
    assert not Path(folder, "dynolog").exists()
    assert job.poll() is None


def wait_for_socket(folder):
    wait_until(lambda: Path(folder, "dynolog").exists(), "the socket is not there")


def test_processes_that_are_none(folder, tmp_path):
    done = attach(folder, 2**22 + 1, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, f"tracetui: There is no process {2**22 + 1} of yours.\n")
    plain = attach(folder, os.getpid(), cwd=tmp_path)
    assert plain.returncode == 3
    assert "KINETO_USE_DAEMON=1" in plain.stderr


def test_nothing_is_overwritten_without_a_word(start, folder, tmp_path):
    job = start()
    tmp_path.joinpath("mine.json").write_text("precious")
    done = attach(folder, job.pid, "-o", "mine.json", cwd=tmp_path)
    assert done.returncode == 2
    assert tmp_path.joinpath("mine.json").read_text() == "precious"


def test_a_second_program_is_told_who_listens(folder, tmp_path):
    with Listener(Path(folder)):
        done = attach(folder, cwd=tmp_path)
    assert done.returncode == 3
    assert f"process {os.getpid()}" in done.stderr and "KINETO_IPC_SOCKET_DIR" in done.stderr


def test_a_stale_socket_is_replaced(folder):
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stale.bind(f"{folder}/dynolog")
    stale.close()
    with Listener(Path(folder)) as listener:
        assert listener.receive(0.01) is None


def test_a_folder_that_may_not_be_written(tmp_path):
    with pytest.raises(CannotRun, match="cannot be opened"), Listener(Path("/proc")):
        pass
