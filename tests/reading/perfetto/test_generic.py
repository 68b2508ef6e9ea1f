"""Files of other producers than torch: what they show, and what is said of the rest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import SHARED
from tests.support.perfetto import writer as w
from tests.support.perfetto.reader import read
from tests.support.perfetto.writer import BEGIN, COUNTER, END, INSTANT, NEEDS_STATE, STATE, packet
from tracetui.errors import NoEvents
from tracetui.model.trace import Kind, LaneKind
from tracetui.panes import PANES
from tracetui.reading.load import load

FILE = SHARED / "pftrace" / "generic.pftrace"
CLOCK = packet(w.snapshot({6: 1000, 1: 5000}), time=1000, sequence=1)
PROCESS = packet(w.process(6, 77, "browser"))
THREAD = packet(w.thread(7, 77, 78, "io", parent=6))
START = CLOCK + PROCESS + THREAD


@pytest.fixture
def opened(tmp_path):
    """A function that opens some bytes."""

    def open_bytes(*data):
        path = tmp_path / "t.pftrace"
        path.write_bytes(b"".join(data))
        return load(str(path))

    return open_bytes


def slices(trace):
    """Name, lane, start and duration of every slice; starts count from the first event."""
    rows = range(len(trace.slices))
    start, dur, lane = (getattr(trace.slices, name).tolist() for name in ("start", "dur", "lane"))
    return [(trace.name_of(row), trace.lanes[lane[row]].name, start[row], dur[row]) for row in rows]


def instants(trace):
    """Name, lane and time of every instant."""
    found = trace.instants
    columns = zip(found.name.tolist(), found.lane.tolist(), found.time.tolist(), strict=True)
    return [(trace.names[name], trace.lanes[lane].name, time) for name, lane, time in columns]


def counters(trace):
    """Samples by the name of the counter."""
    return {each.name: list(zip(each.time.tolist(), each.value.tolist(), strict=True)) for each in trace.counters}


def event(kind, time, *fields, track=7, sequence=1, flags=0, **more):
    """A packet with a track event."""
    return packet(w.event(kind, track, *fields, **more), time=time, sequence=sequence, flags=flags)


@pytest.mark.skipif(not FILE.is_file(), reason="needs ../shared/traces/pftrace, which is not there")
def test_the_facts_of_a_file_with_one_of_each():
    facts = json.loads((FILE.parent / "expected.json").read_bytes())[FILE.name]["facts"]
    trace = load(str(FILE))
    first = 1000
    found = [[name, lane, start + first, dur] for name, lane, start, dur in slices(trace)]
    unfinished = [[name, lane, start] for name, lane, start, _ in found if [name, lane, start] in facts["unfinished"]]
    assert unfinished == facts["unfinished"]
    assert trace.quality.unfinished == len(unfinished)
    whole = [each for each in found if each[:3] not in unfinished]
    assert sorted(each for each in whole if each[0] != "[No name]") == sorted(facts["slices"])
    assert [each[1:] for each in whole if each[0] == "[No name]"] == facts["name_unknown_state_lost"]
    assert trace.quality.lost_names == len(facts["name_unknown_state_lost"])
    assert trace.quality.unmatched_ends == facts["ends_of_nothing"]
    assert [[name, lane, time + first] for name, lane, time in instants(trace)] == facts["instants"]
    samples = {name: [[time + first, value] for time, value in each] for name, each in counters(trace).items()}
    assert samples == facts["counters"]
    ends = {int(event): int(phase) for event, phase in zip(trace.flows.event, trace.flows.phase, strict=True)}
    rows = {int(number): row for row, number in enumerate(trace.slices.event)}
    arrows = [trace.name_of(rows[number]) for number, _ in sorted(ends.items(), key=lambda end: end[1])]
    assert [arrows] == facts["flows"]
    load_row = next(row for row in range(len(trace.slices)) if trace.name_of(row) == "Load")
    assert trace.event_of(load_row)["args"] == facts["args"]["Load"]
    assert trace.quality.not_shown == facts["packets_not_shown"]
    assert trace.quality.losses == facts["packets_dropped_by_the_writer"]
    assert trace.origin_ns == facts["wall_clock_of_5_s_ns"] + first
    assert not trace.is_torch
    headline = PANES["summary"].build(trace).headline
    assert (
        "4 packets that tracetui does not show: android_log 1, ftrace_events 1, process_tree 1, sys_stats 1" in headline
    )


def test_every_pane_of_it_can_be_made(opened):
    trace = opened(START, event(BEGIN, 1000, name="x"), event(END, 2000))
    for pane in PANES.values():
        for by in (None, *pane.groups):
            pane.build(trace, by=by)


def test_nested_slices_have_parents_on_threads_and_other_tracks(opened):
    trace = opened(
        START,
        packet(w.track(8, "work", parent=6)),
        *(
            event(*each, track=track)
            for track in (7, 8)
            for each in ((BEGIN, 1000), (BEGIN, 1100), (END, 1200), (END, 1500))
        ),
    )
    assert trace.slices.parent.tolist() == [-1, 0, -1, 2]
    assert trace.slices.dur.tolist() == [500, 100, 500, 100]
    assert [lane.kind for lane in trace.lanes] == [LaneKind.CPU, LaneKind.ASYNC]


def test_tracks_of_one_name_are_lanes_of_their_own(opened):
    tracks = [packet(w.track(uuid, "work", parent=6)) for uuid in (8, 9)]
    events = [event(kind, time, track=uuid) for uuid in (8, 9) for kind, time in ((BEGIN, 1000), (END, 2000))]
    trace = opened(START, *tracks, *events)
    assert sorted(lane.name for lane in trace.lanes) == ["work", "work #2"]
    assert trace.quality.overlaps == 0


def test_a_track_without_a_name_has_that_of_its_parent(opened):
    trace = opened(
        START,
        packet(w.track(8, "pool", parent=6)),
        packet(w.track(9, "", parent=8)),
        event(BEGIN, 1000, track=9, name="x"),
        event(END, 2000, track=9),
    )
    assert [(lane.name, lane.process) for lane in trace.lanes] == [("pool", "browser 77")]


def test_states_last_until_the_next(opened):
    states = [event(STATE, time, name=name) for time, name in ((1000, "idle"), (1500, "busy"), (1700, "idle"))]
    trace = opened(START, *states)
    assert [each[0::2] for each in slices(trace)][:2] == [("idle", 0), ("busy", 500)]
    assert trace.slices.dur.tolist()[:2] == [500, 200]
    assert trace.quality.unfinished == 1


def test_counters_have_units_and_multipliers(opened):
    trace = opened(
        START,
        packet(w.counter_track(20, "heap", unit=3, multiplier=1024, parent=6)),
        packet(w.counter_track(21, "power", unit_name="mW", parent=6)),
        *(event(COUNTER, time, w.number(30, value), track=20) for time, value in ((1000, 1), (2000, -3))),
        event(COUNTER, 1000, w.double(44, 2.5), track=21),
    )
    assert counters(trace) == {"heap": [(0, 1024.0), (1000, -3072.0)], "power": [(0, 2.5)]}
    assert {each.name: (each.unit, each.process) for each in trace.counters} == {
        "heap": ("bytes", "browser"),
        "power": ("mW", "browser"),
    }


def legacy(phase, *fields):
    """The field with an event as JSON has it."""
    return w.message(6, w.number(2, ord(phase)), *fields)


def test_events_as_json_has_them(opened):
    trace = opened(
        START,
        event(0, 1000, legacy("X", w.number(3, 5)), name="complete"),
        event(0, 2000, legacy("B"), name="begun"),
        event(0, 2500, legacy("i", w.number(14, 1)), name="moment"),
        event(0, 3000, legacy("E")),
        event(0, 4000, legacy("b", w.number(6, 1)), w.data(22, "net"), name="a"),
        event(0, 4100, legacy("b", w.number(6, 2)), w.data(22, "net"), name="b"),
        event(0, 4500, legacy("e", w.number(6, 1)), w.data(22, "net"), name="a"),
        event(0, 4600, legacy("e", w.number(6, 2)), w.data(22, "net"), name="b"),
        event(0, 5000, legacy("O"), name="object"),
    )
    assert slices(trace) == [
        ("complete", "io", 0, 5000),
        ("begun", "io", 1000, 1000),
        ("a", "net", 3000, 500),
        ("b", "net", 3100, 500),
    ]
    assert instants(trace) == [("moment", "io", 1500)]
    assert trace.instants.scope.tolist() == [2]
    assert trace.quality.skipped_phases == {"O": 1}


def test_counters_as_json_has_them(opened):
    args = w.annotation("used", w.number(4, 3)) + w.annotation("free", w.double(5, 1.5))
    trace = opened(START, event(0, 1000, legacy("C"), args, name="memory"))
    assert {(each.name, each.series): each.value.tolist() for each in trace.counters} == {
        ("memory", "used"): [3.0],
        ("memory", "free"): [1.5],
    }


def test_events_name_a_thread_themselves(opened):
    trace = opened(
        START,
        packet(w.thread(9, 5, 6, "other")),
        event(BEGIN, 1000, w.message(6, w.number(18, 5), w.number(19, 6)), name="x"),
        event(END, 2000, w.message(6, w.number(18, 5), w.number(19, 6))),
    )
    assert slices(trace) == [("x", "other", 0, 1000)]


def test_the_thread_of_a_sequence_is_that_of_its_events(opened):
    described = packet(w.message(44, w.number(1, 3), w.number(2, 4), w.data(5, "main")), sequence=5, flags=1)
    begin, end = (packet(w.event(kind, None, name="x"), time=1000 * kind, sequence=5) for kind in (BEGIN, END))
    assert slices(opened(START, described, begin, end)) == [("x", "main", 0, 1000)]


def test_defaults_hold_until_the_state_is_cleared(opened):
    first = packet(w.defaults(track_uuid=7), sequence=1, flags=1)
    events = [packet(w.event(kind, None, name="x"), time=1000 * kind, sequence=1) for kind in (BEGIN, END)]
    other = packet(w.event(INSTANT, None, name="elsewhere"), time=3000, sequence=2)
    cleared = packet(sequence=1, flags=1) + packet(w.event(INSTANT, None, name="later"), time=4000, sequence=1)
    trace = opened(START, first, *events, other, cleared)
    assert slices(trace) == [("x", "io", 0, 1000)]
    assert {name: lane for name, lane, _ in instants(trace)} == {"elsewhere": "track 0", "later": "track 0"}


def test_arguments_are_interned_and_nested(opened):
    names = packet(w.interned(w.entry(3, 1, "url"), w.entry(29, 4, "here")), sequence=1, flags=1)
    old = w.message(
        8, w.data(2, "a"), w.message(3, w.number(5, 7)), w.data(2, "b"), w.message(3, w.message(4, w.data(8, "t")))
    )
    trace = opened(
        START,
        names,
        event(
            BEGIN,
            1000,
            w.message(4, w.number(1, 1), w.number(17, 4)),
            w.annotation("old", old),
            w.annotation("json", w.data(9, '{"x": [1]}')),
            w.annotation("at", w.number(7, 255)),
            flags=NEEDS_STATE,
            name="x",
        ),
        event(END, 2000),
    )
    args = trace.event_of(0)["args"]
    assert args == {"url": "here", "old": {"a": 7, "b": ["t"]}, "json": {"x": [1]}, "at": "0xff"}


def test_an_arrow_leads_over_several_events(opened):
    flows = [(BEGIN, 1000, w.fixed(47, 5)), (BEGIN, 2000, w.fixed(47, 5)), (BEGIN, 3000, w.fixed(48, 5))]
    later = event(BEGIN, 4000, w.fixed(47, 5)), event(BEGIN, 5000, w.fixed(47, 5)), event(BEGIN, 6000, w.fixed(47, 8))
    trace = opened(START, *(event(kind, time, field) for kind, time, field in flows), *later)
    assert trace.flows.phase.tolist() == [0, 0, 1, 2, 2] or sorted(
        zip(trace.flows.time.tolist(), trace.flows.phase.tolist(), strict=True)
    ) == [(0, 0), (1000, 1), (2000, 2), (3000, 0), (4000, 2)]


def test_events_with_a_correlation_id_are_joined_by_arrows(opened):
    """A number, a text and an interned text; a number is no text, and an unknown one belongs to nothing."""
    interned = w.interned(w.entry(43, 4, "request 9"))
    trace = opened(
        START,
        packet(w.event(BEGIN, 7, w.number(52, 9), name="a"), interned, time=1000, sequence=1, flags=1),
        event(END, 1500, w.number(52, 9)),
        event(BEGIN, 2000, w.number(52, 9), name="b"),
        event(BEGIN, 3000, w.data(53, "request 9"), name="c"),
        event(INSTANT, 4000, w.number(54, 4), name="d"),
        event(BEGIN, 5000, w.number(54, 4), name="e"),
        event(BEGIN, 6000, w.number(54, 5), name="f"),
        event(BEGIN, 7000, w.data(53, "9"), name="g"),
        event(BEGIN, 8000, w.fixed(47, 0), name="h"),
        event(BEGIN, 9000, w.fixed(47, 0), name="i"),
    )
    flows = trace.flows
    families: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for key, number, time, phase in zip(
        *(getattr(flows, n).tolist() for n in ("key", "id", "time", "phase")), strict=True
    ):
        families.setdefault((key, number), []).append((time, phase))
    assert sorted(sorted(each) for each in families.values()) == [
        [(0, 0), (1000, 2)],
        [(2000, 0), (3000, 1), (4000, 2)],
        [(7000, 0), (8000, 2)],
    ]


def test_threads_and_instants_that_have_no_slice_are_counted(opened):
    trace = opened(
        START, packet(w.thread(8, 77, 79, "ui")), event(BEGIN, 1000, name="x"), event(INSTANT, 1500, track=8)
    )
    table = PANES["summary"].build(trace)
    facts = {table["key"].cell(row): table["value"].cell(row) for row in range(len(table))}
    assert (facts["threads"], facts["slices"], facts["instants"], facts["counter_series"]) == ("2", "1", "1", "0")


def test_times_without_a_clock_are_left_out_and_counted(opened):
    trace = opened(START, event(BEGIN, 1000, name="x"), event(END, 2000), packet(w.event(INSTANT, 7), time=5, clock=70))
    assert slices(trace) == [("x", "io", 0, 1000)]
    assert len(trace.instants) == 0
    assert trace.quality.dropped == 1


def test_a_file_of_packets_that_are_not_shown_is_refused_and_one_with_an_instant_opens(opened):
    others = (CLOCK, packet(w.data(1, "ftrace"), time=1000) * 3, packet(w.data(7, ""), time=1000))
    with pytest.raises(NoEvents, match="ftrace_events 3, sys_stats 1"):
        opened(*others)
    trace = opened(*others, event(INSTANT, 2000, name="mark"))
    assert trace.quality.not_shown == {"ftrace_events": 3, "sys_stats": 1}
    assert "4 packets" in PANES["summary"].build(trace).headline
    for pane in PANES.values():
        pane.build(trace)


TIMES = st.integers(1000, 3000)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just(BEGIN), TIMES, st.sampled_from("abc")),
        st.tuples(st.sampled_from([END, INSTANT, STATE]), TIMES, st.sampled_from("abc")),
    ),
    max_size=25,
)


# A sequence writes the events of a track in order of time.
@given(
    st.lists(
        st.tuples(st.integers(1, 2), st.sampled_from([7, 8]), EVENTS),
        min_size=1,
        max_size=4,
        unique_by=lambda part: part[:2],
    )
)
def test_what_is_read_is_what_a_plain_reader_reads(tmp_path_factory, sequences):
    tracks = THREAD + packet(w.track(8, "work"))
    data = b"".join(
        event(kind, time, track=track, sequence=sequence, name=name)
        for sequence, track, events in sequences
        for kind, time, name in sorted(events, key=lambda each: each[1])
    )
    # One event that is always there gives the first time.
    data = START + tracks + event(INSTANT, 900, name="first") + data
    path = tmp_path_factory.mktemp("plain") / "t.pftrace"
    path.write_bytes(data)
    trace, plain = load(str(path)), read(data)
    names = {number: track.name for number, track in plain.tracks.items()}
    first = round(trace.origin_us * 1000)
    found = sorted((name, lane, start + first, dur) for name, lane, start, dur in slices(trace))
    expected = sorted((name, names[track], start, dur) for name, track, start, dur in plain.slices)
    for each in expected:
        found.remove(each)
    assert sorted(each[:3] for each in found) == sorted(
        (name, names[track], start) for name, track, start in plain.unfinished
    )
    assert sorted(instants(trace)) == sorted((name, names[track], time - first) for name, track, time in plain.instants)
    assert (trace.quality.unfinished, trace.quality.unmatched_ends) == (len(plain.unfinished), plain.stray_ends)


SPECIFICATIONS = w.message(
    7, *(w.message(2, w.data(1, name)) for name in ("Compute", "Graphics")), w.message(3, w.data(1, "Fragment"))
)


def stage(start, dur, *fields):
    """A packet with a render stage that knows its queue and its stage by numbers."""
    return packet(w.message(53, w.number(2, dur), *fields), time=start, sequence=1)


def test_stages_with_a_list_of_names_are_slices_and_no_kernels(opened):
    numbered = w.number(3, 1), w.number(4, 0)
    trace = opened(CLOCK, stage(1000, 50, SPECIFICATIONS, *numbered), stage(2000, 60, *numbered, w.data(17, "pass 2")))
    assert slices(trace) == [("Fragment", "Graphics", 0, 50), ("pass 2", "Graphics", 1000, 60)]
    assert trace.lanes[0].process == "GPU 0"
    assert len(trace.slices.of_kind(Kind.KERNEL)) == 0


@pytest.mark.parametrize(("category", "kernels"), [(0, 0), (1, 0), (2, 1)])
def test_a_stage_of_computations_is_a_kernel(opened, category, kernels):
    specification = [
        w.message(24, w.number(1, iid), w.data(2, name), w.number(4, kind))
        for iid, name, kind in ((1, "[3] queue", 0), (2, "dispatch", category))
    ]
    names = packet(w.interned(*specification, w.entry(2, 9, "gemm")), sequence=1, flags=1)
    trace = opened(CLOCK, names, w.stage(1000, 50, w.number(20, 9), queue=1, stage_iid=2))
    assert len(trace.slices.of_kind(Kind.KERNEL)) == kernels
    assert trace.name_of(0) == "gemm"


def test_a_stage_without_a_name_has_that_of_its_kernel(opened):
    kernel = w.message(1000, w.number(1, 5), w.data(2, "_Z4gemmv"))
    other = w.message(1000, w.number(1, 6), w.data(2, "_Z4gemvv"), w.data(3, "gemv()"))
    names = packet(w.interned(kernel, other), sequence=1, flags=1)
    stages = [w.stage(1000 * iid, 50, w.number(19, iid)) for iid in (5, 6)]
    trace = opened(CLOCK, names, *stages)
    assert [trace.name_of(row) for row in range(2)] == ["_Z4gemmv", "gemv()"]
    assert len(trace.slices.of_kind(Kind.KERNEL)) == 2


def gpu_sample(time, value, *fields, sequence=1):
    """A packet with a sample of the counter 4 of GPU 1."""
    sample = w.message(2, w.number(1, 4), w.double(3, value))
    return packet(w.message(52, w.number(3, 1), sample, *fields), time=time, sequence=sequence)


def test_counters_of_gpus_whose_descriptor_stands_among_them(opened):
    spec = w.message(1, w.number(1, 4), w.data(2, "Read"), w.number(7, 9), w.number(8, 22))
    trace = opened(
        CLOCK, gpu_sample(1000, 1.5, w.message(1, spec)), gpu_sample(2000, 2.5), gpu_sample(2000, 9, sequence=2)
    )
    found = {(each.process, each.name): each.value.tolist() for each in trace.counters}
    assert found == {("GPU 1 Counters", "Read (MB/s)"): [1.5, 2.5], ("GPU 1 Counters", "counter 4"): [9]}


def test_arguments_of_many_events_mean_what_their_state_says(opened):
    """The same number is another name behind each clear, and a later entry takes the place of one before."""
    data = [START]
    for number in range(300):
        names = w.interned(w.entry(3, 1, f"k{number}"), w.entry(29, 1, "old"), w.entry(29, 1, f"v{number}"))
        data.append(packet(names, sequence=1, flags=w.CLEARED))
        data.append(event(BEGIN, 1000 + number, w.message(4, w.number(1, 1), w.number(17, 1)), name=f"s{number}"))
        data.append(event(END, 1000 + number))
    trace = opened(*data)
    rows = {trace.name_of(row): row for row in range(len(trace.slices))}
    assert {name: trace.event_of(row)["args"] for name, row in rows.items()} == {
        f"s{number}": {f"k{number}": f"v{number}"} for number in range(300)
    }


@pytest.mark.parametrize(
    ("field", "shown"), [(w.number(52, 7), 7), (w.data(53, "request"), "request"), (w.number(54, 3), "job")]
)
def test_the_id_that_events_share_is_an_argument(opened, field, shown):
    names = packet(w.interned(w.entry(43, 3, "job")), sequence=1, flags=w.CLEARED)
    trace = opened(START, names, event(BEGIN, 1000, field, name="x"), event(END, 2000))
    assert trace.event_of(0)["args"] == {"correlation id": shown}
