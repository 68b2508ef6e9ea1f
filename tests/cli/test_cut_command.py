"""`tracetui cut` in a process of its own: files that appear whole or not at all, exit codes, and what is said."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from tests.support.paths import ROOT, SAMPLES, SHARED
from tests.support.processes import tracetui, tracetui_process
from tests.support.shortened import shortened
from tracetui.cli.main import main
from tracetui.errors import CannotWrite
from tracetui.reading.load import load
from tracetui.writing.output import output

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"


def read(path: Path):
    """A document, however it is packed."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(data) if path.suffix == ".zst" else data)


def ended(*words):
    """The exit code of a command in this process, for what needs none of its own."""
    try:
        return main([*map(str, words)])
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.json.zst"])
def test_the_suffix_says_how_it_is_packed(name, tmp_path):
    out = tmp_path / name
    result = tracetui("cut", EAGER, "--steps", "3", "-o", out)
    assert result.returncode == 0
    assert result.stdout == ""
    assert "kept 46 of 122 events" in result.stderr
    document = read(out)
    assert len(document["traceEvents"]) == 46
    assert document["schemaVersion"] == read(EAGER)["schemaVersion"]
    assert os.listdir(tmp_path) == [name]
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_same_part_is_the_same_bytes(tmp_path):
    for name in ("a.json.gz", "b.json.gz"):
        assert tracetui("cut", EAGER, "--steps", "2:3", "-o", tmp_path / name).returncode == 0
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


@pytest.mark.full
def test_from_a_pipe_into_a_pipe():
    result = tracetui_process("cut", "-", "--window", ":5ms", "-o", "-", input=EAGER.read_bytes())
    assert result.returncode == 0, result.stderr
    assert 0 < len(json.loads(result.stdout)["traceEvents"]) < 122


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--steps", "9"], 2, "numbered 2, 3, 4"),
        (["--steps", "4:2"], 2, "ends before it begins"),
        (["--steps", "x"], 2, "write 3, 2:4"),
        (["--steps", ":"], 2, "write 3, 2:4"),
        (["--window", "5:6"], 2, "12.5us"),
        (["--window", "5ms"], 2, "1.2ms:3.4ms"),
        (["--window", "6ms:5ms"], 2, "ends before it begins"),
        (["--window", "900s:901s"], 2, "Nothing of mlp_eager_cpu.json.gz is left"),
        (["--lanes", "no such lane"], 2, "Nothing of mlp_eager_cpu.json.gz is left"),
        (["--steps", "3", "--window", ":1ms"], 2, "exclude each other"),
        (["--salt", "s"], 2, "--hash-names"),
        (["--steps-by", "nothing"], 2, "cannot mark the steps"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_no_file(words, code, told, tmp_path, capsys):
    assert ended("cut", EAGER, "-o", tmp_path / "out.json", *words) == code
    output = capsys.readouterr()
    assert told in output.err
    assert "Traceback" not in output.err
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_said():
    result = tracetui("cut", EAGER, "-o", "/dev/full", "--force")
    assert result.returncode == 1
    assert "/dev/full cannot be written: No space left on device" in result.stderr
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="descriptors have no names on this system")
@pytest.mark.full
def test_what_is_open_already_is_written_on(tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    words = [sys.executable, "-m", "tracetui", "cut", str(EAGER), "--steps", "3", "-o", "/dev/stdout", "--force"]
    with log.open("a") as file:
        subprocess.run(words, cwd=ROOT, stdout=file, stderr=subprocess.DEVNULL, check=True)
    before, _, document = log.read_text().partition("\n")
    assert before == "before"
    assert len(json.loads(document)["traceEvents"]) == 46
    assert os.listdir(tmp_path) == ["log"]


def test_nothing_half_done_is_left_under_any_name(tmp_path):
    with pytest.raises(CannotWrite, match="No space left"), output(str(tmp_path / "out.json.gz")) as sink:
        sink.write(b"x" * 1000)
        raise OSError(28, "No space left on device")
    with pytest.raises(KeyboardInterrupt), output(str(tmp_path / "out.json")) as sink:
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_cut_off_is_cut_as_far_as_it_goes(tmp_path):
    path, out = tmp_path / "t.json", tmp_path / "out.json"
    text = gzip.decompress(EAGER.read_bytes())
    path.write_bytes(text[: len(text) * 2 // 3])
    result = tracetui("cut", path, "-o", out)
    assert result.returncode == 1
    assert "cut off" in result.stderr
    assert 0 < len(read(out)["traceEvents"]) < 122


@pytest.mark.parametrize("name", sorted(path.name for path in SHARED.glob("edge/[er][0-9]*")))
@pytest.mark.full
def test_damaged_files_end_as_json_or_in_a_sentence(name, shared_trace, tmp_path, capsys):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    path, out = shortened(shared_trace(f"edge/{name}"), before), after / "part.json"
    code = ended("cut", path, "-o", out)
    told = capsys.readouterr().err
    assert "Traceback" not in told
    if code == 0 or out.exists():
        document = json.loads(out.read_bytes())
        events = document["traceEvents"] if isinstance(document, dict) else document
        assert len(events) == load(str(path)).events
    else:
        assert code == 1
        assert told.startswith("tracetui: ")
    assert list(after.iterdir()) == ([out] if out.exists() else [])
