"""Writing to the cache: by two processes at once, by one that is killed, to a full disk, and no more than fits."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.same_columns import columns_of
from tests.support.waiting import PROCESS_SECONDS
from tracetui.errors import TraceError
from tracetui.linking.links import links
from tracetui.linking.steps import steps
from tracetui.opening import cache_folder, kept_traces
from tracetui.opening.cache_folder import SIZE_VARIABLE
from tracetui.opening.kept_traces import clear_cache, keep_trace, kept_entries, read_trace
from tracetui.opening.trace_opening import OpenOptions, keep_opened, open_trace
from tracetui.reading.load import load


def trace_file(folder: Path, name: str = "t.json", events: int = 3) -> str:
    event = {"ph": "X", "pid": 1, "tid": 1, "dur": 2, "cat": "cpu_op", "name": "aten::mm"}
    path = folder / name
    path.write_text(json.dumps([{**event, "ts": 10 * number} for number in range(events)]))
    return str(path)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return trace_file(tmp_path)


def keep(path: str) -> bool:
    return keep_trace(read_trace(path))


def test_nobody_else_can_read_what_is_kept(path: str, cache: Path) -> None:
    before = os.umask(0)
    try:
        assert keep(path)
    finally:
        os.umask(before)
    (entry,) = cache.iterdir()
    assert (cache.stat().st_mode & 0o777, entry.stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize("change", ["longer", "newer", "other ends", "gone and back"])
def test_a_trace_that_has_changed_is_read_from_its_file(change: str, path: str, read_again: list[str]) -> None:
    keep(path)
    file, status = Path(path), os.stat(path)
    text = file.read_text()
    if change == "longer":
        file.write_text(text.replace("aten::mm", "aten::addmm", 1))
    elif change == "newer":
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    elif change == "other ends":
        file.write_text(text.replace("aten::mm", "aten::bm", 1))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        file.unlink()
        file.write_text(text)
    read_again.clear()
    assert columns_of(read_trace(path)) == columns_of(load(path)) and read_again == [path]


def test_args_of_a_trace_that_changes_while_it_is_open_are_refused(path: str, read_again: list[str]) -> None:
    keep(path)
    trace = read_trace(path)
    assert len(read_again) == 1
    Path(path).write_text("[]" + " " * 1000)
    with pytest.raises(TraceError, match="has changed since it was opened"):
        trace.event_of(2)


def test_a_trace_that_changes_while_it_is_read_is_not_kept(path: str) -> None:
    def change(progress: object) -> None:
        os.utime(path, ns=(0, 0))

    assert not keep_trace(read_trace(path, change))


def test_a_trace_that_has_changed_since_it_was_read_is_not_written(path: str, cache: Path) -> None:
    trace = read_trace(path)
    os.utime(path, ns=(0, 0))
    assert not keep_trace(trace) and not list(cache.iterdir())


@pytest.mark.full
def test_small_traces_and_standard_input_are_not_kept(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_traces, "MIN_TRACE_BYTES", os.path.getsize(path) + 1)
    assert not keep(path)
    monkeypatch.setattr(kept_traces, "MIN_TRACE_BYTES", os.path.getsize(path) - 10)
    assert keep(path)
    monkeypatch.setattr(kept_traces, "MIN_TRACE_BYTES", 0)
    with open(path, "rb") as file:
        said = subprocess.run(
            [sys.executable, "-m", "tracetui", "show", "summary", "-"],
            stdin=file, cwd=ROOT, capture_output=True, check=True,
        )  # fmt: skip
    assert said.stdout and len(kept_entries()) == 1


def test_without_the_cache_nothing_is_read_from_it_or_written(path: str, cache: Path, read_again: list[str]) -> None:
    trace = open_trace(path, OpenOptions(uses_cache=False))
    assert not keep_opened(trace) and not cache.exists()
    keep(path)
    used = cache.stat().st_mtime_ns, next(cache.iterdir()).stat().st_mtime_ns
    read_again.clear()
    open_trace(path, OpenOptions(uses_cache=False))
    assert (cache.stat().st_mtime_ns, next(cache.iterdir()).stat().st_mtime_ns) == used and not read_again


@pytest.mark.parametrize("options", [OpenOptions(steps_by="aten::mm"), OpenOptions(device="H100")])
def test_what_the_user_says_about_a_trace_is_not_kept(options: OpenOptions, path: str) -> None:
    chosen = open_trace(path, options)
    links(chosen), steps(chosen)
    assert keep_opened(chosen)
    again = open_trace(path)
    assert again.steps_by == "" and again.devices == () and len(steps(again)) == 0


def test_the_least_recently_used_go_first(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [trace_file(tmp_path, f"{number}.json") for number in range(4)]
    for age, path in zip((400, 300, 200), paths, strict=False):
        keep(path)
        newest = max(cache.iterdir(), key=lambda entry: entry.stat().st_mtime)
        os.utime(newest, (time.time() - age, time.time() - age))
    read_trace(paths[0])
    size = max(entry.stat().st_size for entry in cache.iterdir())
    monkeypatch.setenv(SIZE_VARIABLE, str(3 * size + size // 2))
    keep(paths[3])
    assert {each.path for each in kept_entries()} == {paths[0], paths[2], paths[3]}
    monkeypatch.setenv(SIZE_VARIABLE, str(size + size // 2))
    Path(paths[3]).touch()
    keep(paths[3])
    assert [each.path for each in kept_entries()] == [paths[3]]
    monkeypatch.setenv(SIZE_VARIABLE, "10")
    assert not keep(paths[1])


def test_size_zero_is_no_cache(path: str, cache: Path, monkeypatch: pytest.MonkeyPatch, read_again: list[str]) -> None:
    keep(path)
    monkeypatch.setenv(SIZE_VARIABLE, "0")
    read_again.clear()
    assert not keep(path) and read_again == [path]


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("", 10 << 30),
        ("nonsense", 10 << 30),
        ("20GB", 20 * 10**9),
        ("1.5 GiB", 3 << 29),
        ("500m", 500 * 10**6),
        ("7", 7),
    ],
)
def test_sizes_in_the_variable(text: str, bytes_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SIZE_VARIABLE, text)
    assert cache_folder.max_cache_bytes() == bytes_


def test_some_of_the_disk_is_left_free(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_folder, "MIN_FREE_BYTES", 1 << 60)
    assert not keep(path) and not kept_entries()


def test_a_disk_that_takes_no_more_leaves_no_file_and_no_error(
    path: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    written: list[int] = []

    def full(file: int, data: memoryview) -> int:
        if len(written) == 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(file)
        return write(file, data)

    monkeypatch.setattr(os, "write", full)
    assert not keep(path) and not list(cache.iterdir())


def test_writing_that_is_given_up_leaves_no_file(path: str, cache: Path) -> None:
    assert not keep_trace(read_trace(path), lambda: True) and not list(cache.iterdir())


@pytest.mark.parametrize("place", ["file", "dangling", "nothing may be written", "link to a folder"])
def test_where_no_folder_can_be_made_there_is_no_cache(place: str, path: str, cache: Path, tmp_path: Path) -> None:
    cache.parent.mkdir(parents=True)
    if place == "file":
        cache.write_text("")
    elif place == "dangling":
        cache.symlink_to(tmp_path / "none")
    elif place == "link to a folder":
        cache.symlink_to(tmp_path)
    elif os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    else:
        cache.parent.chmod(0o500)
    assert not keep(path) and not kept_entries()
    assert clear_cache() == (0, 0) and Path(path).exists()


def test_only_what_is_named_is_cleared(tmp_path: Path) -> None:
    paths = [trace_file(tmp_path, f"{number}.json") for number in range(3)]
    assert all(map(keep, paths))
    assert clear_cache([paths[1]])[0] == 1
    assert {each.path for each in kept_entries()} == {paths[0], paths[2]}
    assert clear_cache()[0] == 2 and not kept_entries()


KEEP = """
import sys
from tracetui.opening import kept_traces
kept_traces.MIN_TRACE_BYTES = 0
trace = kept_traces.read_trace(sys.argv[1])
print("read", flush=True)
sys.stdin.readline()
{}
"""
KEEP_MANY = KEEP.format("""
for _ in range(30):
    kept_traces._readings[trace.store].is_kept = False
    assert kept_traces.keep_trace(trace)
""")
KEEP_SLOWLY = KEEP.format("""
import time
def stopped():
    print("writing", flush=True)
    time.sleep(1000)
kept_traces.keep_trace(trace, stopped)
""")
KEEP_LITTLE = KEEP.format("""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
print(kept_traces.keep_trace(trace))
""")


def started(script: str, path: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, path], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "read\n"
    return process


@pytest.mark.full
def test_two_processes_write_the_same_trace_while_a_third_reads_it(path: str, cache: Path) -> None:
    wanted = columns_of(load(path))
    writers = [started(KEEP_MANY, path) for _ in range(2)]
    for each in writers:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    while any(each.poll() is None for each in writers):
        assert columns_of(read_trace(path)) == wanted
    assert [each.wait(PROCESS_SECONDS) for each in writers] == [0, 0]
    for each in writers:
        each.communicate()
    assert len(list(cache.iterdir())) == 1 and columns_of(read_trace(path)) == wanted


@pytest.mark.full
def test_what_a_killed_process_left_is_cleared_by_the_next_and_not_while_it_lives(path: str, cache: Path) -> None:
    writer = started(KEEP_SLOWLY, path)
    assert writer.stdin is not None and writer.stdout is not None
    writer.stdin.write("\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "writing\n"
    (part,) = cache.iterdir()
    assert keep(path) and part.exists() and len(list(cache.iterdir())) == 2
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert part.exists() and [each.path for each in kept_entries()] == [path]
    Path(path).touch()
    assert keep(path) and not part.exists() and len(list(cache.iterdir())) == 1


@pytest.mark.full
def test_a_file_that_may_not_grow_is_no_error(path: str, cache: Path) -> None:
    writer = started(KEEP_LITTLE, path)
    assert writer.communicate("\n", timeout=PROCESS_SECONDS)[0] == "False\n" and writer.returncode == 0
    assert not list(cache.iterdir())


def test_an_old_file_is_cleared_where_there_are_no_locks(
    path: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    keep(path)
    parts = [cache / f".{name}.part" for name in ("old", "new")]
    for part in parts:
        part.touch(mode=0o600)
    os.utime(parts[0], (0, 0))
    Path(path).touch()
    assert keep(path)
    assert [part.exists() for part in parts] == [False, True]
