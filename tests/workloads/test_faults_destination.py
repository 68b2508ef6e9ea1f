"""The place of a trace fails: a full disk, a folder that goes, something else of that name."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess

import pytest
from tracetui_workloads.recording.trace_file import MAX_NAME_BYTES

from tests.support.workloads.children import needs_torch
from tests.support.workloads.faults import light, own

pytestmark = pytest.mark.full

FAST = "import torch\ndef step():\n    for _ in range({}): torch.ones(4) + 1\n"
CLOSING = """
import os, shutil, torch
from tracetui_workloads.api import Prepared
def close():
    {}
def step() -> Prepared:
    return Prepared(lambda: torch.ones(4) + 1, "closing", close=close)
"""
"""Does something once the trace is written and has no name yet."""


@pytest.fixture
def small_disk(tmp_path):
    """A folder `out` on a disk of 64 kB."""
    folder = tmp_path / "out"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@needs_torch
@pytest.mark.parametrize(
    ("calls", "said"),
    [(50, "The trace could not be written in"), (2, "No space left on device. Choose another path with -o.")],
)
def test_a_disk_that_is_full(small_disk, tmp_path, calls, said):
    """While the profiler writes, and while its file is turned into the one to be kept."""
    (small_disk / "x.json").write_bytes(b"older")
    (small_disk / "other").write_bytes(b"x" * 20_000)
    ended = own(tmp_path, FAST.format(calls), "--force").ended()
    ended.left_nothing()
    assert ended.code == 4
    assert said in ended.sentence, ended
    assert ended.files == {"x.json": b"older", "other": b"x" * 20_000}


def test_a_disk_that_is_read_only_by_now(small_disk, tmp_path):
    source = FAST.format(1) + f"    import os; os.system('mount -o remount,ro {small_disk}')"
    light(tmp_path, source).ended().failed(4, "Read-only file system. Choose another path with -o.")


@needs_torch
def test_a_file_that_may_not_grow(tmp_path):
    ended = own(tmp_path, FAST.format(5), shell="ulimit -f 16").ended()
    ended.failed(4, "The trace could not be written in")


def test_a_folder_that_may_not_be_written_to_any_more(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("this user may write everywhere")
    source = FAST.format(1) + "    import os; os.chmod('../out', 0o500)"
    light(tmp_path, source).ended().failed(4, "Permission denied. Choose another path with -o.")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("shutil.rmtree('../out')", "No such file or directory"),
        ("shutil.rmtree('../out'); open('../out', 'w').close()", "Not a directory"),
        ("os.mkdir('../out/x.json')", "it is a folder"),
        ("os.mkfifo('../out/x.json')", "it is not a regular file"),
        ("os.mkdir('../out/x.txt')", "it is a folder"),
    ],
)
def test_a_place_that_changes_at_the_last_moment(tmp_path, change, said):
    light(tmp_path, CLOSING.format(change), "--table").ended().failed(4, said)


def test_a_folder_that_became_a_file_while_it_ran(tmp_path):
    source = FAST.format(1) + "    import os, shutil; shutil.rmtree('../out', True); open('../out', 'w').close()"
    light(tmp_path, source).ended().failed(4, "The trace cannot be written")


def test_what_is_no_plain_file_is_refused_and_stays(tmp_path):
    fifo, device = tmp_path / "out" / "fifo", tmp_path / "out" / "device"
    fifo.parent.mkdir()
    os.mkfifo(fifo)
    # A name for it, lest a test that fails replaces the one of this machine.
    device.symlink_to(os.devnull)
    for path in (fifo, device):
        light(tmp_path, FAST.format(1), out=str(path)).ended().failed(4, "cannot be written: it is not a regular file")
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert stat.S_ISCHR(device.stat().st_mode)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("../out/" + "x" * (MAX_NAME_BYTES + 1), "its name is longer than"),
        ("../out/" + "x" * 300 + "/x.json", "File name too long"),
        ("own.py/x.json", "is not a folder"),
    ],
)
def test_a_name_that_cannot_be(tmp_path, out, said):
    light(tmp_path, FAST.format(1), out=out).ended().failed(4, said)


def test_a_name_that_is_as_long_as_it_may_be(tmp_path):
    name = "x" * (MAX_NAME_BYTES - 8) + ".json.gz"
    ended = light(tmp_path, FAST.format(1), out=f"../out/{name}").ended()
    ended.left_nothing()
    assert (ended.code, list(ended.files)) == (0, [name])


def test_an_older_trace_is_replaced_at_once_and_whole(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.json.gz").write_bytes(b"older")
    source = FAST.format(5) + "    assert open('../out/x.json.gz').read() == 'older'"
    ended = light(tmp_path, source, "--force", out="../out/x.json.gz").ended()
    assert ended.code == 0, ended
    assert len(json.loads(gzip.decompress(ended.files["x.json.gz"]))["traceEvents"]) > 15
    assert "x.json.gz existed and is replaced." in ended.stderr


def test_a_command_in_a_folder_that_is_gone(tmp_path):
    run = light(tmp_path, FAST.format(1), out="x.json", shell="mkdir gone; cd gone; rmdir ../gone")
    run.ended().failed(4, "x.json cannot be written: No such file or directory")
