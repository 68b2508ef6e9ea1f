"""`tracetui repair`: what it writes is valid and holds the same slices, and it says at which byte it did what."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import orjson
import pytest

from tests.support.paths import SHARED
from tests.support.traces import loaded
from tracetui.cli.main import main
from tracetui.model.trace import Trace
from tracetui.reading.load import load

EVENT = '{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":5.500,"dur":20}'
EDGE = sorted(path.name for path in SHARED.glob("edge/[er][0-9]*"))
NOTHING_IN_THEM = ("e19", "e29")


@pytest.fixture
def repaired(tmp_path, capsys):
    """A function from the bytes of a file, or its path, to what was written and the list of what was done."""

    def repair(content: bytes | Path) -> tuple[bytes, list[dict]]:
        path = content if isinstance(content, Path) else tmp_path / "damaged.json"
        if isinstance(content, bytes):
            path.write_bytes(content)
        out = tmp_path / "repaired.json"
        assert main(["repair", str(path), "-o", str(out), "--format", "json", "--force"]) == 0
        return out.read_bytes(), json.loads(capsys.readouterr().out)["done"]

    return repair


def same_slices(one: Trace, other: Trace) -> bool:
    """Whether two traces have equal slices, in names and times."""
    columns = ("start", "dur", "kind", "lane", "parent", "correlation")
    names = [[trace.name_of(row) for row in range(len(trace.slices))] for trace in (one, other)]
    return names[0] == names[1] and all(
        np.array_equal(getattr(one.slices, name), getattr(other.slices, name)) for name in columns
    )


LONG = {"r02_json_lines_real.pfw.gz"}
"""Files of which every event is mended, tens of thousands of them."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.full] if name in LONG else [])
        for name in EDGE
        if not name.startswith(NOTHING_IN_THEM)
    ],
)
def test_every_damaged_file_becomes_a_whole_one(name, repaired, tmp_path):
    before = loaded(SHARED / "edge" / name)
    data, done = repaired(SHARED / "edge" / name)
    whole = json.loads(data.decode())
    after = load(str(tmp_path / "repaired.json"))
    assert len(whole if isinstance(whole, list) else whole["traceEvents"]) == before.events == after.events
    assert same_slices(before, after)
    assert after.quality.truncated_at is None
    assert after.quality.repaired == 0
    was_damaged = before.quality.truncated_at is not None or before.quality.repaired or before.quality.dropped
    assert bool(done) or not was_damaged or name.startswith("e23")


def test_valid_events_stay_the_bytes_that_they_are(repaired):
    damaged = EVENT.replace('"ts":5.500', '"ts":N/A')
    data, done = repaired(f"[{EVENT},{damaged},{EVENT}]".encode())
    assert data.count(EVENT.encode()) == 2
    assert [(each["offset"], each["done"].split(":")[0]) for each in done] == [(len(EVENT) + 2, "mended")]


def test_what_is_left_out_is_told_with_its_byte(repaired):
    data, done = repaired(f'[{EVENT},{{"ph":"X","na,{EVENT}]'.encode())
    assert len(json.loads(data)) == 2
    assert done == [
        {"offset": len(EVENT) + 2, "done": "left out, it cannot be read", "shown": '{"ph":"X","na,'},
    ]


def test_offsets_count_bytes_and_not_characters(repaired):
    first = EVENT.replace("aten::mm", "ü🙂")
    damaged = EVENT.replace("20}", "nan}")
    _, done = repaired(f"[{first},{damaged}]".encode())
    assert done[0]["offset"] == len(first.encode()) + 2


def test_bytes_that_are_no_text_do_not_shift_the_offsets(repaired):
    first = EVENT.encode().replace(b"aten::mm", b"\xff\xfe\xfd")
    damaged = EVENT.replace("20}", "nan}").encode()
    _, done = repaired(b"[" + first + b"," + damaged + b"]")
    assert [each["offset"] for each in done] == [1, len(first) + 2]


def test_a_file_that_stops_is_closed(repaired):
    data, done = repaired(f'{{"schemaVersion": 1, "traceEvents": [{EVENT},{EVENT[:30]}'.encode())
    assert json.loads(data) == {"schemaVersion": 1, "traceEvents": [json.loads(EVENT)]}
    assert [each["done"] for each in done] == [
        "left out, the file ends within it",
        "the array and the object around it were closed",
    ]


def test_a_whole_file_is_copied(repaired):
    _, done = repaired(f'{{"traceEvents": [{EVENT}], "displayTimeUnit": "ms"}}'.encode())
    assert done == []


def test_lines_become_an_array(repaired):
    data, done = repaired(f"{EVENT}\n{EVENT}\n".encode())
    assert len(json.loads(data)) == 2
    assert [each["done"] for each in done] == ["the lines became an array"]


def test_missing_commas_are_counted_and_not_listed_one_by_one(repaired):
    data, done = repaired(f"[{EVENT}{EVENT}{EVENT}{EVENT}]".encode())
    assert len(json.loads(data)) == 4
    assert len(done) == 1
    assert done[0]["offset"] == len(EVENT) + 1
    assert "in 2 more places" in done[0]["done"]


def test_a_damaged_gzip_stream_is_told(tmp_path, capsys):
    path = tmp_path / "damaged.json.gz"
    path.write_bytes(gzip.compress(f"[{EVENT},{EVENT}]".encode())[:-8])
    assert main(["repair", str(path), "-o", str(tmp_path / "out.json.gz")]) == 0
    said = capsys.readouterr()
    assert "gzip stream" in said.out
    assert len(json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))) == 2


def test_the_list_does_not_steer_the_terminal(tmp_path, capsys):
    path = tmp_path / "damaged.json"
    path.write_bytes(f'[{EVENT},{{"ph":"X","na\x1b]0;x\x07\x1b[31m,{EVENT}]'.encode())
    assert main(["repair", str(path), "-o", str(tmp_path / "out.json")]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_with_the_trace_on_standard_output_the_list_goes_elsewhere(tmp_path, capfdbinary):
    path = tmp_path / "damaged.json"
    path.write_text(f"[{EVENT},")
    assert main(["repair", str(path), "-o", "-"]) == 0
    said = capfdbinary.readouterr()
    assert json.loads(said.out) == [json.loads(EVENT)]
    assert b"closed" in said.err


def test_half_a_character_behind_an_escaped_backslash_is_written_as_a_sign(repaired):
    damaged = EVENT.replace("20}", r'nan,"args":{"a":"\\ud83d\ude00"}}')
    data, _ = repaired(f"[{EVENT},{damaged}]".encode())
    assert orjson.loads(data)[1]["args"] == {"a": "\\ud83d\ufffd"}
