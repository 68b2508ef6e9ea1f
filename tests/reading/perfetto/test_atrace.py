"""Marks of atrace in packets of ftrace: slices of threads, counters, instants; what is no mark stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.perfetto import writer as w
from tests.support.perfetto.writer import packet
from tracetui.cli.main import main
from tracetui.errors import NoEvents, TraceError
from tracetui.model.trace import LaneKind
from tracetui.reading.load import load
from tracetui.reading.perfetto import packets
from tracetui.reading.perfetto.packets import EMPTY_NAME, read_mark

TREE = packet(
    w.message(
        2,
        w.message(1, w.number(1, 77), w.data(3, "system_server")),
        w.message(2, w.number(1, 78), w.data(2, "ui"), w.number(3, 77)),
    )
)


def printed(time, tid, line):
    """An event of ftrace in which a thread wrote a line."""
    return w.message(2, w.number(1, time), w.number(2, tid), w.message(3, w.number(1, 9), w.data(2, line)))


def switched(time):
    """An event of ftrace that is not shown."""
    return w.message(2, w.number(1, time), w.number(2, 0), w.message(4, w.data(1, "swapper")))


def bundle(*events, cpu=0, more=b""):
    """A packet with events of a CPU."""
    return packet(w.message(1, w.number(1, cpu), *events, more))


@pytest.fixture
def opened(tmp_path):
    """A function that opens some bytes."""

    def open_bytes(*data):
        path = tmp_path / "t.pftrace"
        path.write_bytes(b"".join(data))
        return load(str(path))

    return open_bytes


def slices(trace):
    """Name, process, lane, start and duration of every slice; starts count from the first event."""
    columns = (getattr(trace.slices, name).tolist() for name in ("lane", "start", "dur"))
    found = []
    for row, (number, start, dur) in enumerate(zip(*columns, strict=True)):
        lane = trace.lanes[number]
        found.append((trace.name_of(row), lane.process, lane.name, start, dur))
    return found


def test_begins_and_ends_of_a_thread_are_slices_on_whatever_cpu_it_ran(opened):
    trace = opened(
        TREE,
        bundle(printed(3000, 78, "E|77"), printed(4000, 78, "E\n"), cpu=1),
        bundle(printed(1000, 78, "B|77|draw|frame 3\n"), switched(1500), printed(2000, 78, "B|77|")),
    )
    name = EMPTY_NAME.decode()
    assert slices(trace) == [
        ("draw|frame 3", "system_server 77", "ui", 0, 3000),
        (name, "system_server 77", "ui", 1000, 1000),
    ]
    assert trace.slices.parent.tolist() == [-1, 0]
    assert trace.quality.not_shown == {"ftrace_events": 1}


def test_counters_instants_and_asynchronous_slices(opened):
    trace = opened(
        bundle(
            printed(1000, 78, "C|77|heap|5"),
            printed(1100, 78, "C|77|heap|-7|Blob"),
            printed(1200, 78, "I|77|VSYNC"),
            printed(1300, 78, "N|77|focus|lost"),
            printed(1400, 78, "S|77|launch|12"),
            printed(1500, 79, "F|77|launch|12"),
            printed(1600, 78, "G|77|jank|frame|9"),
            printed(1700, 79, "H|77|jank|9"),
        )
    )
    assert [(each.name, each.time.tolist(), each.value.tolist()) for each in trace.counters] == [
        ("heap", [-400, -300], [5.0, -7.0])
    ]
    assert [trace.names[name] for name in trace.instants.name.tolist()] == ["VSYNC", "lost"]
    assert [(name, start, dur) for name, _, _, start, dur in slices(trace)] == [
        ("launch", 0, 100),
        ("frame", 200, 100),
    ]
    assert {lane.kind for lane in trace.lanes if lane.last > lane.first} == {LaneKind.ASYNC}
    assert trace.quality.not_shown == {}


@pytest.mark.parametrize(
    "line",
    ["hello", "", "B|x|n", "Error|3|x", "C|1|n|x", "C|1||3", "S|1|n", "G|1|t|n", "H|1|t|x", "N|1|t", "I|1|", "B|",
     "trace_event_clock_sync: parent_ts=1", "E3", "C|1|n|" + "9" * 30, "B|" + "9" * 30 + "|n"],
)  # fmt: skip
def test_other_lines_are_no_marks(line):
    assert read_mark(line.encode()) is None or line.startswith("B|9")


def test_clocks_of_ftrace_lead_to_boot_time(opened):
    shifted = w.number(5, 2) + w.number(6, 500) + w.number(7, 5500)
    trace = opened(
        bundle(printed(6000, 78, "B|77|a"), printed(7000, 78, "E")),
        bundle(printed(1000, 79, "B|77|b"), printed(2000, 79, "E"), cpu=1, more=shifted),
    )
    assert [(name, start, dur) for name, *_, start, dur in slices(trace)] == [("a", 0, 1000), ("b", 0, 1000)]


def test_events_that_were_lost_are_mentioned(opened):
    trace = opened(bundle(printed(1000, 78, "B|77|a"), printed(2000, 78, "E"), more=w.number(3, 1)))
    assert trace.quality.losses == 1


def test_what_is_written_again_has_the_same_slices(opened, tmp_path, capsys):
    events = [bundle(printed(1000 * n, 78, line), switched(1000 * n)) for n, line in enumerate(["B|77|a", "E"] * 5, 1)]
    trace = opened(TREE, *events)
    path, out = str(tmp_path / "t.pftrace"), str(tmp_path / "o.pftrace")
    assert main(["cut", path, "--range", "0us+3us", "-o", out]) == 0
    assert [each[:3] for each in slices(load(out))] == [each[:3] for each in slices(trace)][:2]


def test_nothing_to_show_is_an_error_that_names_the_kinds(opened):
    with pytest.raises(NoEvents, match=r"holds nothing that tracetui shows \(ftrace_events 2, sys_stats 1\)"):
        opened(bundle(switched(1)), bundle(printed(5, 1, "hello")), packet(w.data(7, "")))


def test_what_is_not_shown_stands_in_front_of_all_tables(opened, tmp_path, capsys):
    opened(bundle(printed(1000, 78, "B|77|a"), printed(2000, 78, "E"), switched(3000)))
    for pane in ("summary", "kernels", "ops"):
        assert main(["show", pane, str(tmp_path / "t.pftrace"), "--no-cache"]) == 0
        assert "1 packet that tracetui does not show: ftrace_events 1" in capsys.readouterr().out.splitlines()[0]


LINES = st.sampled_from(["B|77|a", "B|77|b", "E|77", "E", "C|77|q|3", "I|77|i", "hello", "S|77|x|1", "F|77|x|1"])
EVENTS = st.lists(st.tuples(st.integers(1, 50), st.integers(76, 79), LINES, st.integers(0, 2)), min_size=1, max_size=30)


def slow_slices(events):
    """Closed slices of threads, with a stack for each."""
    stacks: dict[int, list[tuple[str, int]]] = {}
    found = []
    for time, tid, line, _ in events:
        if line.startswith("B"):
            stacks.setdefault(tid, []).append((line[5:], time))
        elif line.startswith("E") and stacks.get(tid):
            name, start = stacks[tid].pop()
            found.append((name, tid, start, time - start))
    return sorted(found)


@given(EVENTS, st.booleans())
def test_slices_are_those_of_a_stack_for_each_thread(tmp_path_factory, events, has_others):
    times = 1000
    timed = []
    for gap, *rest in events:
        times += gap
        timed.append((times, *rest))
    path = tmp_path_factory.mktemp("atrace") / "t.pftrace"
    data = b""
    for cpu in range(3):
        own = [printed(*each[:3]) for each in timed if each[3] == cpu]
        data += bundle(*own, *([switched(5)] if has_others else []), cpu=cpu) if own else b""
    path.write_bytes(data)
    expected = slow_slices(timed)
    try:
        trace = load(str(path))
    except NoEvents:
        assert not expected
        return
    first = trace.origin_ns
    threads = [lane.kind == LaneKind.CPU for lane in trace.lanes]
    found = [
        (trace.name_of(row), int(trace.lanes[lane].tid), start + first, dur)
        for row, (lane, start, dur) in enumerate(
            zip(*(getattr(trace.slices, name).tolist() for name in ("lane", "start", "dur")), strict=True)
        )
        if threads[lane]
    ]
    assert [each for each in expected if each not in found] == []
    assert len(found) - len(expected) <= trace.quality.unfinished


WHOLE = TREE + bundle(printed(1000, 78, "B|77|a"), switched(5), printed(2000, 78, "E|77"), printed(3, 78, "C|77|q|3"))


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(WHOLE)))
def test_damage_ends_in_a_trace_or_a_sentence(tmp_path_factory, changes, size):
    data = bytearray(WHOLE)
    for at, value in changes:
        data[at] = value
    path = tmp_path_factory.mktemp("atrace") / "t.pftrace"
    path.write_bytes(data[:size])
    try:
        trace = load(str(path))
    except TraceError as error:
        assert "\n" not in str(error)
        return
    for row in range(len(trace.slices)):
        trace.event_of(row)


def test_where_blocks_are_cut_decides_nothing(opened, monkeypatch):
    events = [
        bundle(*(printed(1000 * n + k, 78 + n % 2, line) for k, line in enumerate(["B|77|a", "E"]))) for n in range(50)
    ]
    whole = slices(opened(TREE, *events))
    monkeypatch.setattr(packets, "BLOCK", 64)
    assert slices(opened(TREE, *events)) == whole
