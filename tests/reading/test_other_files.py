"""Files that are no traces get their name and what to do with them, whichever way they come in."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sqlite3
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import SAMPLES
from tracetui.cli.main import main
from tracetui.errors import OtherKind
from tracetui.reading.file_layout import read_rank_header
from tracetui.reading.load import RawEvents, load
from tracetui.reading.other_files import OTHER_FILES, other_file
from tracetui.ui.opening.trace_files import looks_like_trace


def snapshot() -> bytes:
    block = {"device": 0, "address": 1 << 40, "total_size": 2, "blocks": []}
    return pickle.dumps({"segments": [block], "device_traces": [[]], "allocator_settings": {}})


def zipped(name: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(name, pickle.dumps({"w": 1}))
    return data.getvalue()


def tarred() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        info = tarfile.TarInfo("trace.json")
        info.size = 2
        archive.addfile(info, io.BytesIO(b"[]"))
    return data.getvalue()


def database(folder: Path, table: str) -> bytes:
    path = folder / "made.db"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {table} (start INTEGER)")
    connection.commit()
    connection.close()
    return path.read_bytes()


SAFETENSORS = struct.pack("<Q", 30) + b'{"w": {"dtype": "F32"}}       '
TENSORBOARD = struct.pack("<QI", 24, 7) + b"\x09\0\0\0\0\0\0\0\0\x1a\x0dbrain.Event:2" + b"abcd"
KINDS = {
    "memory snapshot": snapshot(),
    "checkpoint": zipped("archive/data.pkl"),
    "Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "HTML": b"\n<!doctype HTML><title>404</title>",
    "XML": b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
    "Nsight Compute": b"NVR\0\x10\0\0\0",
    "safetensors": SAFETENSORS,
    "TensorBoard": TENSORBOARD,
    "tar archive": tarred(),
    "ELF": b"\x7fELF\2\1\1",
    "Parquet": b"PAR1\x15\x04",
    "NumPy": b"\x93NUMPY\x01\0v\0{'descr'",
    "CSV": b'Name,Calls,"Self CPU total"\r\naten::mm,1,2\r\n',
    "key_averages": b"-------  ------  ------  ------\n   Name  Self CPU %  CPU total  Calls\n",
    "export_stacks": b"train.py(3): main;torch/nn/modules/linear.py(1): forward;aten::mm 42\n",
    "Chakra": b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1, "name": "aten::mm"}]}',
    "rocprofv3": b'{"rocprofiler-sdk-tool": [{"metadata": {}}]}',
    "pickle": pickle.dumps([1, 2]),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_file_is_named_by_its_content(name, packed, tmp_path):
    # The name says that it is a trace: what the bytes say counts.
    path = tmp_path / "trace.json"
    if packed and KINDS[name].startswith(b"PK"):
        pytest.skip("an archive in another one is not looked into")
    path.write_bytes(gzip.compress(KINDS[name]) if packed else KINDS[name])
    with pytest.raises(OtherKind, match=name) as raised:
        load(str(path))
    assert str(raised.value).count("trace.json is ") == 1
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("rocpd_op", "ROCm profile"),
        ("users", "SQLite database"),
    ],
)
def test_databases_are_told_apart_by_their_tables(table, said, tmp_path):
    path = tmp_path / "trace"
    path.write_bytes(database(tmp_path, table))
    with pytest.raises(OtherKind, match=said):
        load(str(path))


@pytest.mark.parametrize("said", ["memory snapshot", "safetensors"])
def test_every_way_in_for_traces_says_the_same(said, tmp_path, capsys):
    path, trace = tmp_path / "trace.json", next(SAMPLES.glob("*.json*"))
    path.write_bytes(KINDS[said])
    for way in (load, read_rank_header, lambda name: list(RawEvents(name))):
        with pytest.raises(OtherKind, match=said):
            way(str(path))
    assert looks_like_trace(path) == (said == "memory snapshot")
    for command in (["show", "summary", str(path)], ["compare", str(trace), str(path)], ["ranks", str(tmp_path)]):
        # A snapshot is known, and has panes of its own.
        assert main(command) == (2 if said == "memory snapshot" and command[0] != "ranks" else 1)
        assert said in capsys.readouterr().err


def test_a_folder_of_other_files_is_told_once_for_all(tmp_path, capsys):
    for rank in range(3):
        (tmp_path / f"rank_{rank}.json").write_bytes(SAFETENSORS)
    assert main(["ranks", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "3 files" in said
    assert said.count("safetensors") == 1


def test_a_report_of_nsight_compute_is_known_by_its_name_where_its_bytes_say_nothing(tmp_path):
    path = tmp_path / "report1.ncu-rep"
    path.write_bytes(b"\x01\0\x02\0 anything")
    with pytest.raises(OtherKind, match="Nsight Compute report by its name"):
        load(str(path))


EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5.5, "dur": 20}


@pytest.mark.parametrize(
    "before",
    [b"", b"\n\n", b"some words, and, more\n", b'chemaVersion": 1, "traceEvents": ', b"-- a -- b\nx;y 3\n", b"%!PS\n"],
)
def test_no_trace_is_taken_for_another_file(before, tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(before + json.dumps([EVENT]).encode())
    assert load(str(path)).events == 1


def test_no_sample_is_taken_for_another_file():
    for path in SAMPLES.glob("*.json*"):
        data = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
        assert other_file(data[: 1 << 16]) is None


def test_the_files_that_lie_beside_traces(shared_trace):
    folder = shared_trace("beside")
    paths = list(folder.glob("memory/*"))
    assert paths
    for path in paths:
        with pytest.raises(OtherKind, match="memory snapshot"):
            load(str(path))


def test_advice_is_half_a_sentence():
    for kind in OTHER_FILES:
        assert not kind.advice.endswith(".")
        assert not kind.name.endswith(".")
