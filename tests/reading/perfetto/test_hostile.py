"""Perfetto files that are torn, damaged or made to harm: a sentence or a trace, in bounded memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.support.peak_memory import peak_of_loading
from tests.support.perfetto import writer as w
from tests.support.perfetto.writer import BEGIN, END, NEEDS_STATE, packet
from tests.support.terminal.hostile import PAYLOADS, steered
from tracetui.cli.main import main
from tracetui.errors import NotATrace, TraceError
from tracetui.model.trace import Trace
from tracetui.panes import PANE_FILES
from tracetui.reading import source
from tracetui.reading.load import load
from tracetui.reading.perfetto import packet_collector, packets

CLOCK = packet(w.snapshot({6: 1000, 1: 5000}), time=1000, sequence=1)
THREAD = packet(w.thread(7, 77, 78, "io"))
NAMES = packet(w.interned(w.entry(2, 1, "Load"), w.entry(2, 2, "Parse")), sequence=1, flags=w.CLEARED)


def slice_of(name: str, start: int, dur: int, *fields: bytes, track: int = 7) -> bytes:
    """A begin and its end."""
    return packet(w.event(BEGIN, track, *fields, name=name), time=start, sequence=1) + packet(
        w.event(END, track), time=start + dur, sequence=1
    )


WHOLE = CLOCK + THREAD + NAMES + slice_of("first", 1000, 10) + slice_of("second", 2000, 20)
LAST = slice_of("last", 3000, 30)


def opened(folder: Path, data: bytes) -> Trace:
    """The trace in some bytes."""
    path = folder / "t.pftrace"
    path.write_bytes(data)
    return load(str(path))


def named(trace: Trace) -> list[tuple[str, int]]:
    """Names and durations of all slices."""
    rows = range(len(trace.slices))
    return sorted((trace.name_of(row), int(trace.slices.dur[row])) for row in rows)


@pytest.mark.full
def test_a_file_that_is_cut_off_anywhere_opens_as_far_as_it_goes(tmp_path):
    ends = [len(CLOCK + THREAD + NAMES)]
    for each in (slice_of("first", 1000, 10), slice_of("second", 2000, 20)):
        ends.append(ends[-1] + len(each))
    for size in range(3, len(WHOLE)):
        whole = sum(end <= size for end in ends[1:])
        try:
            trace = opened(tmp_path, WHOLE[:size])
        except TraceError as error:
            assert whole == 0, error
            assert "\n" not in str(error)
            continue
        done = [("first", 10), ("second", 20)][:whole]
        assert [each for each in named(trace) if each in done] == done
        assert len(trace.slices) <= whole + 1


def test_a_file_that_is_cut_off_says_where(tmp_path):
    trace = opened(tmp_path, WHOLE + LAST[:-3])
    assert trace.quality.is_part
    assert trace.quality.truncated_at == len(WHOLE + LAST) - 3
    assert any("cut off" in note for note in trace.quality.notes)


DAMAGED = {
    "a field beyond its packet": w.data(1, w.number(8, 5) + w.tag(11, 2) + b"\x7f"),
    "an event beyond its packet": w.data(1, w.number(8, 5) + w.tag(11, 2) + w.varint(1 << 40)),
    "a varint of eleven bytes": w.data(1, w.tag(8, 0) + b"\xff" * 10 + b"\x01"),
    "a tag of eleven bytes": w.data(1, b"\xff" * 10 + b"\x01"),
    "a group": w.data(1, w.tag(8, 3)),
    "field 0": w.data(1, b"\x00\x05"),
    "an event with a torn annotation": packet(w.event(BEGIN, 7, w.data(4, w.tag(10, 2) + b"\x7f")), time=1),
    "an event with a torn legacy event": packet(w.event(0, 7, w.data(6, w.tag(2, 0) + b"\xff")), time=1),
    "a torn descriptor": packet(w.data(60, w.number(1, 9) + w.tag(4, 2) + b"\x7f\x08")),
    "a torn clock": packet(w.data(6, w.data(1, w.tag(2, 0) + b"\xff")), time=1),
    "torn interned data": packet(w.data(12, w.data(2, w.tag(2, 2) + b"\x70")), sequence=1),
    "torn defaults": packet(w.data(59, w.tag(58, 0) + b"\xff"), sequence=1),
    "a torn stage": packet(w.data(53, w.tag(2, 0) + b"\xff"), time=1),
    "a torn counter": packet(w.data(52, w.data(2, w.tag(1, 0) + b"\xff")), time=1),
    "torn packed packets": packet(w.data(50, b"\x78\x9c\x01")),
    "packed packets that are none": packet(w.data(133, b"nothing")),
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("copies", [1, 100])
def test_a_damaged_packet_costs_no_other(tmp_path, damaged, copies):
    trace = opened(tmp_path, WHOLE + damaged * copies + LAST)
    assert {("first", 10), ("second", 20), ("last", 30)} <= set(named(trace))


def test_damaged_packets_are_counted_in_a_note(tmp_path):
    trace = opened(tmp_path, WHOLE + DAMAGED["a field beyond its packet"] * 3 + LAST)
    assert trace.quality.dropped == 3
    assert any("could not be read" in note for note in trace.quality.notes)


def test_what_follows_on_something_else_is_left_out_and_said(tmp_path):
    trace = opened(tmp_path, WHOLE + b"\x00garbage" * 9 + LAST)
    assert {("first", 10), ("second", 20)} <= set(named(trace))
    assert trace.quality.dropped >= 1


@pytest.mark.parametrize("size", [2, 4, 5, 10])
def test_padded_lengths_change_nothing(tmp_path, size):
    padded = packet(w.event(BEGIN, 7, name="padded", iid=0), time=3000, sequence=1, size=size)
    padded += packet(w.message(11, w.number(9, END), w.number(11, 7), size=size), time=3030, sequence=1, size=size)
    assert ("padded", 30) in named(opened(tmp_path, WHOLE + padded))


def test_numbers_of_names_that_mean_nothing(tmp_path):
    odd = b"".join(
        packet(w.event(BEGIN, 7, iid=iid), time=time, sequence=1, flags=NEEDS_STATE)
        + packet(w.event(END, 7), time=time + 1, sequence=1)
        for time, iid in enumerate((3, 2**63, 2**64 - 1, 2**32), 4000)
    )
    assert len(opened(tmp_path, WHOLE + odd).slices) == 6


def test_a_number_that_is_interned_a_million_times(tmp_path):
    names = packet(w.interned(*(w.entry(2, 5, f"n{number}") for number in range(20_000))), sequence=1)
    use = packet(w.event(BEGIN, 7, iid=5), time=9000, sequence=1) + packet(w.event(END, 7), time=9001, sequence=1)
    assert ("n19999", 1) in named(opened(tmp_path, WHOLE + names + use))


def test_tracks_that_are_their_own_parents(tmp_path):
    loop = (
        packet(w.track(20, "a", parent=21)) + packet(w.track(21, "b", parent=20)) + packet(w.track(22, "c", parent=22))
    )
    trace = opened(tmp_path, loop + slice_of("x", 5000, 5, track=20) + slice_of("y", 5000, 5, track=22))
    assert named(trace) == [("x", 5), ("y", 5)]


def nested(depth: int, field: int) -> bytes:
    """An annotation in lists or dictionaries of some depth."""
    value = w.data(10, "x") + w.number(4, 1)
    for _ in range(depth):
        value = w.data(10, "k") + w.data(field, value)
    return w.data(4, value)


@pytest.mark.parametrize("field", [11, 12])
@pytest.mark.parametrize("depth", [63, 64, 65, 3000])
def test_arguments_that_are_nested_deeply(tmp_path, field, depth):
    trace = opened(tmp_path, WHOLE + slice_of("deep", 5000, 5, nested(depth, field)))
    event = trace.event_of(next(row for row in range(len(trace.slices)) if trace.name_of(row) == "deep"))
    assert "k" in event["args"]


def test_packed_packets_within_packed_packets(tmp_path):
    data = LAST
    for _ in range(100):
        data = w.deflated(data)
    trace = opened(tmp_path, WHOLE + data + slice_of("after", 6000, 6))
    assert {("first", 10), ("after", 6)} <= set(named(trace))
    assert trace.quality.dropped >= 1


@pytest.mark.parametrize("pack", [w.deflated, w.zstd_packed])
def test_packed_packets_are_read(tmp_path, pack):
    assert ("last", 30) in named(opened(tmp_path, WHOLE + pack(LAST)))


@pytest.mark.parametrize("pack", [w.deflated, w.zstd_packed])
def test_a_bomb_of_packed_packets_costs_no_other(tmp_path, pack, monkeypatch):
    monkeypatch.setattr(packets, "MAX_UNPACKED", 1 << 20)
    bomb = pack(w.data(1, w.data(23, bytes(2 << 20))))
    trace = opened(tmp_path, WHOLE + bomb + LAST)
    assert {("first", 10), ("last", 30)} <= set(named(trace))
    assert any("unpack" in note for note in trace.quality.notes)


def test_bombs_around_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "HARMLESS", 1 << 20)
    long = WHOLE + packet(w.data(23, bytes(4 << 20)))
    for data in (gzip.compress(long, 9), zstandard.compress(long)):
        trace = opened(tmp_path, data)
        assert {("first", 10), ("second", 20)} <= set(named(trace))
        assert trace.quality.is_part


def test_a_packet_longer_than_any_is_damage(tmp_path):
    trace = opened(tmp_path, WHOLE + b"\x0a" + w.varint(1 << 28) + bytes(1000))
    assert {("first", 10), ("second", 20)} <= set(named(trace))
    assert trace.quality.dropped or trace.quality.is_part


def test_more_tracks_than_any_trace_has(tmp_path, monkeypatch):
    monkeypatch.setattr(packet_collector, "MAX_KEYS", 2000)
    data = b"".join(packet(w.event(BEGIN, number, name="x"), time=number, sequence=1) for number in range(1000, 3500))
    with pytest.raises(NotATrace, match="more than 2,000 threads"):
        opened(tmp_path, data)


@pytest.mark.parametrize("time", [2**63, 2**64 - 1, 2**62])
def test_times_that_cannot_be_are_left_out(tmp_path, time):
    trace = opened(tmp_path, WHOLE + packet(w.event(BEGIN, 7, name="far"), time=time, sequence=1))
    assert named(trace) == [("first", 10), ("second", 20)]
    assert trace.quality.dropped == 1


def test_names_are_no_text_and_too_long(tmp_path):
    trace = opened(tmp_path, WHOLE + slice_of("x" * 3_000_000, 5000, 5) + slice_of("\x1b[31m", 6000, 5))
    bad = packet(w.message(11, w.number(9, BEGIN), w.number(11, 7), w.data(23, b"\xff\xfe")), time=9, sequence=1)
    assert max(map(len, trace.names)) < 100_000
    assert len(opened(tmp_path, WHOLE + bad).slices) == 3


def test_no_event_is_said_in_a_sentence(tmp_path):
    with pytest.raises(TraceError, match="nothing to show"):
        opened(tmp_path, CLOCK + THREAD + NAMES)


@given(st.data())
@pytest.mark.full
def test_any_damage_leaves_a_trace_or_a_sentence(tmp_path_factory, data):
    raw = bytearray(WHOLE + w.deflated(LAST) + LAST)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    try:
        trace = opened(tmp_path_factory.mktemp("damage"), bytes(raw))
    except TraceError as error:
        assert "\n" not in str(error)
        return
    for row in range(len(trace.slices)):
        trace.event_of(row)


MB = 1 << 20
SHAPES = {
    "tiny packets": lambda: CLOCK + b"\x0a\x00" * MB + LAST,
    "begins": lambda: CLOCK + packet(w.event(BEGIN, 7), time=9) * 200_000,
    "ends": lambda: LAST + packet(w.event(END, 7), time=9) * 200_000,
    "interned texts": lambda: (
        LAST + b"".join(packet(w.interned(w.entry(2, n, f"{n}")), sequence=1) for n in range(200_000))
    ),
    "sequences": lambda: LAST + b"".join(packet(time=n, sequence=n, flags=1) for n in range(1, 300_000)),
    "clocks": lambda: LAST + CLOCK * 100_000,
    "descriptors": lambda: LAST + b"".join(packet(w.track(n, "t")) for n in range(200_000)),
    "counters": lambda: b"".join(packet(w.event(4, n, w.number(30, 1)), time=n) for n in range(1000, 100_000)),
    "annotations": lambda: LAST + slice_of("x", 1, 2, w.annotation("a", w.number(4, 1)) * 500_000),
    "lists of numbers": lambda: LAST + slice_of("x", 1, 2, w.packed(3, [1] * (4 * MB))),
    "one long packet": lambda: WHOLE + packet(w.data(23, bytes(60 * MB))),
    "a long name": lambda: WHOLE + slice_of("n" * (30 * MB), 5000, 5),
    "kinds of packets": lambda: LAST + b"".join(packet(w.data(n, b"x")) for n in range(200, 200_000)),
}
MAX_RATIO = 30
"""Bytes of memory for a byte of the file; an event is half as long as the shortest one in JSON."""


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the /proc of Linux")
@pytest.mark.parametrize("shape", SHAPES)
def test_memory_is_in_proportion_to_the_file(tmp_path, shape):
    path = tmp_path / "shape.pftrace"
    path.write_bytes(SHAPES[shape]())
    assert peak_of_loading(path, "import tracetui.reading.perfetto.load") < MAX_RATIO * path.stat().st_size + 32 * MB


def test_a_packet_that_is_passed_over_costs_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(packets, "MAX_KEPT_PACKET", 2 << 20)
    trace = opened(tmp_path, WHOLE + packet(w.data(23, bytes(3 << 20))) + LAST)
    assert {("first", 10), ("second", 20), ("last", 30)} <= set(named(trace))
    assert trace.quality.dropped == 1
    assert not trace.quality.is_part


def test_packets_behind_garbage_are_found_again(tmp_path):
    trace = opened(tmp_path, WHOLE + b"\x00\x0a\x05garbage\x0a" * 50 + LAST + slice_of("more", 4000, 40))
    assert {("first", 10), ("last", 30), ("more", 40)} <= set(named(trace))
    assert trace.quality.dropped >= 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_numbers_at_the_ends_of_64_bits_make_no_noise(tmp_path, number):
    flows = w.fixed(47, number), w.fixed(48, number)
    events = [
        packet(w.event(kind, number, flow, name="x"), time=5000 + kind, sequence=number)
        for kind, flow in zip((BEGIN, END), flows, strict=True)
    ]
    trace = opened(tmp_path, CLOCK + b"".join(events))
    assert named(trace) == [("x", 1)]


@pytest.mark.full
def test_texts_of_packets_cannot_steer_the_terminal(tmp_path, capsys):
    """In names of slices, threads, processes, tracks and counters, in arguments and in the file's own name."""
    texts = [each.encode("utf-8", "replace").decode() for each in PAYLOADS.values()]
    data = CLOCK + b"".join(
        packet(w.thread(100 + number, 77 + number, 78 + number, text))
        + packet(w.track(300 + number, text))
        + slice_of(text, 1000 + 100 * number, 10, w.annotation(text, w.data(6, text)), track=100 + number)
        + slice_of(text, 1000 + 100 * number, 10, track=300 + number)
        for number, text in enumerate(texts)
    )
    path = tmp_path / "\x1b]0;OWNED\x07.pftrace"
    path.write_bytes(data)
    for pane in PANE_FILES:
        for form in ((), ("--format", "json")):
            assert main(["show", pane, str(path), *form]) in (0, 1)
            said = capsys.readouterr()
            assert not steered((said.out + said.err).encode("utf-8", "surrogatepass"), has_left=False), pane
            assert "failed with" not in said.err


@pytest.mark.parametrize("value", [0, -1, 2**31, 2**63 - 1, -(2**63)])
def test_ids_of_threads_and_processes_of_any_size_are_shown(tmp_path, capsys, value):
    number = value % (1 << 64)
    path = tmp_path / "ids.pftrace"
    path.write_bytes(CLOCK + packet(w.thread(7, number, number, "io")) + slice_of("first", 1000, 10))
    assert main(["show", "summary", str(path)]) == 0
    assert "failed with" not in capsys.readouterr().err
