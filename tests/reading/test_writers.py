"""All events of a file are read, whatever follows a closing bracket, and what is odd there is told with its byte."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tracetui.cli.main import main
from tracetui.model.trace import Trace
from tracetui.reading import load as loading
from tracetui.reading.blocks import BlockReader
from tracetui.reading.load import load

COUNT = 60
EVENTS = [
    json.dumps(
        {"ph": "X", "cat": "cpu_op", "name": f"aten::op{n}", "pid": 1, "tid": 1, "ts": 10 * n, "dur": 5, "args": {}}
    )
    for n in range(COUNT)
]
DEVICES = '"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]'
ARRAY = f"[{', '.join(EVENTS)}]"
OBJECT = f'{{"schemaVersion": 1, {DEVICES}, "traceEvents": {ARRAY}, "traceName": "a.json"}}'
BLOCKS = (None, 64, 700)
Read = Callable[..., Trace]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """A function from the content of a file, and the size of a block, to a trace."""

    def opened(content: str | bytes, block: int | None = None) -> Trace:
        if block is not None:
            monkeypatch.setattr(loading, "BlockReader", partial(BlockReader, block=block))
        path = tmp_path / "trace.json"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return load(str(path))

    return opened


def names(trace: Trace) -> list[str]:
    """Names of all slices in the order of the file."""
    return [trace.name_of(row) for row in trace.slices.event.argsort().tolist()]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("whole", [ARRAY, OBJECT], ids=["array", "object"])
@pytest.mark.parametrize("number", [1, 7, COUNT - 1])
def test_events_behind_a_comma_that_became_a_bracket_are_read(
    read: Read, whole: str, number: int, block: int | None
) -> None:
    comma = whole.index(EVENTS[number]) - 2
    trace = read(f"{whole[:comma]}]{whole[comma + 1 :]}", block)
    assert names(trace) == [f"aten::op{n}" for n in range(COUNT)]
    assert (trace.quality.stray_brackets, trace.quality.dropped) == (1, 0)
    assert trace.quality.notes == [
        f"A closing bracket stands between events at byte {comma:,}: what follows it was read too."
    ]
    assert len(trace.devices) == (whole is OBJECT)


@pytest.mark.parametrize("block", BLOCKS)
def test_brackets_everywhere_between_events(read: Read, block: int | None) -> None:
    trace = read(f"[{']'.join(EVENTS)}]", block)
    assert names(trace) == [f"aten::op{n}" for n in range(COUNT)]
    assert trace.quality.stray_brackets == COUNT - 1
    assert "and in 58 more places" in trace.quality.notes[0]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("between", ["", "\n", ",", "\n\n"])
@pytest.mark.parametrize("whole", [ARRAY, OBJECT], ids=["array", "object"])
def test_two_traces_written_one_behind_the_other_are_both_read(
    read: Read, whole: str, between: str, block: int | None
) -> None:
    trace = read(whole + between + whole, block)
    assert names(trace) == [f"aten::op{n}" for n in range(COUNT)] * 2
    assert (trace.quality.further_arrays, trace.quality.dropped) == (1, 0)
    second = len(whole + between)
    assert (
        f"Several writers put 2 arrays of events into one file, the second at byte {second:,}" in trace.quality.notes[0]
    )


@pytest.mark.parametrize("block", BLOCKS)
def test_the_key_of_the_events_twice_in_one_object(read: Read, block: int | None) -> None:
    first = f'{{"schemaVersion": 1, "traceEvents": {ARRAY}, {DEVICES}, '
    trace = read(f'{first}"traceEvents": {ARRAY}, "more": {{"traceEvents": 1}}}}', block)
    assert trace.events == 2 * COUNT
    assert f"stands twice in the file, again at byte {len(first):,}" in trace.quality.notes[0]
    assert [device.name for device in trace.devices] == ["NVIDIA H100"]


def test_keys_around_and_between_two_traces_are_kept(read: Read) -> None:
    other = f'{{"traceEvents": {ARRAY}, "distributedInfo": {{"rank": 3}}}}'
    trace = read(OBJECT + other)
    assert trace.metadata["distributedInfo"] == {"rank": 3}
    assert trace.metadata["traceName"] == "a.json"
    assert [device.name for device in trace.devices] == ["NVIDIA H100"]


def test_two_members_of_a_zip_are_both_read(read: Read) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rank0.json", OBJECT)
        archive.writestr("__MACOSX/._rank0.json", b"\0\5\x16\7")
        archive.writestr("rank1.json", ARRAY)
    trace = read(packed.getvalue())
    assert trace.events == 2 * COUNT
    assert any("holds 2 files, read one after another: rank0.json, rank1.json" in note for note in trace.quality.notes)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    "garbage", ['ten::op7", "ts": 3}', "}}]}xx{", '"', '{"a": 1', "\0\0\0\0", '{"traceEvents": 5}']
)
def test_what_stands_between_two_traces_costs_itself_only(read: Read, garbage: str, block: int | None) -> None:
    trace = read(f"{OBJECT}{garbage}{OBJECT}", block)
    assert names(trace) == [f"aten::op{n}" for n in range(COUNT)] * 2
    assert trace.quality.further_arrays + trace.quality.unreadable >= 1


@pytest.mark.parametrize("whole", [ARRAY, OBJECT], ids=["array", "object"])
def test_what_follows_behind_a_trace_is_told(read: Read, whole: str) -> None:
    trace = read(f"{whole} and more")
    assert trace.events == COUNT
    assert trace.quality.notes == [f"1 piece of the file could not be read, at byte {len(whole) + 1:,}."]


def test_an_object_around_the_object_of_the_events_is_nothing_odd(read: Read) -> None:
    trace = read(f'{{"data": {OBJECT}, "status": "ok"}}')
    assert trace.events == COUNT
    assert trace.quality.notes == []


def test_events_are_found_where_their_key_is_misspelt_or_the_beginning_is_missing(read: Read) -> None:
    assert read(OBJECT.replace("traceEvents", "traceEvnts")).events == COUNT
    clipped = read(OBJECT[OBJECT.index(EVENTS[3]) + 20 :])
    assert clipped.events == COUNT - 4
    assert clipped.quality.unreadable == 1


def test_a_file_without_the_brace_at_its_end_is_cut_off_behind_its_last_event(read: Read) -> None:
    trace = read(f'{{"traceEvents": {ARRAY}')
    assert trace.events == COUNT
    assert "behind its last event" in trace.quality.notes[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (OBJECT.replace("}, {", "}] {", 1), "left out, a closing bracket between events"),
        (OBJECT + OBJECT, "the events of another trace were put into the one array"),
        (f'{{"traceEvents": {ARRAY}, "traceEvents": {ARRAY}}}', "the events of the second key traceEvents were put"),
        (ARRAY + "rest", "left out, it is no event: rest"),
        (OBJECT + "rest", "left out, it is no event: rest"),
    ],
    ids=["bracket", "two traces", "two keys", "rest of an array", "rest of an object"],
)
def test_repair_says_what_it_did_and_keeps_every_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    path, out = tmp_path / "odd.json", tmp_path / "out.json"
    path.write_text(content)
    before = load(str(path))
    assert main(["repair", str(path), "-o", str(out)]) == 0
    output = capsys.readouterr()
    assert said in output.out
    assert "is whole" not in output.err
    after = load(str(out))
    assert names(after) == names(before)
    assert not after.quality.notes
    assert [device.name for device in after.devices] == [device.name for device in before.devices]
    json.loads(out.read_text())


def test_check_does_not_pass_a_file_of_which_something_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(OBJECT.replace('"ts": 70', '"ts" 70'))
    assert main(["check", str(path), "count(ops) > 0"]) == 1
    assert "a piece of it could not be read" in capsys.readouterr().out
    path.write_text(OBJECT)
    assert main(["check", str(path), "count(ops) > 0"]) == 0
