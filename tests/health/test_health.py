"""Doubts about a trace: each check on a trace made for it, all of them on real and on damaged files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.health import H200, SHAPES, plain
from tests.support.paths import SHARED
from tests.support.shortened import shortened
from tests.support.traces import given_traces, loaded
from tracetui.drawing.text.export import render
from tracetui.errors import TraceError
from tracetui.health.health_table import CHECKS, doubtful_checks, doubts
from tracetui.health.link_checks import Doubt
from tracetui.model.trace import Device, Kind, Quality, Trace
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.ui.widgets.columns import layout_of


def marks(trace: Trace, column: str) -> list[str]:
    """The checks that make a column doubtful."""
    return [check.name for check in doubtful_checks(trace) if column in check.touches]


def found(trace: Trace) -> dict[str, int]:
    """How many each check found, of those that found any."""
    return {name: doubt.count for name, doubt in doubts(trace).items() if doubt is not None and doubt.count}


def doubt(trace: Trace, name: str) -> Doubt:
    """What a check found in a trace in which it makes sense."""
    result = doubts(trace)[name]
    assert result is not None
    return result


def named(trace: Trace, name: str) -> str:
    """The name of the slice to which a doubt jumps."""
    return trace.name_of(doubt(trace, name).row)


OPTIONS = {"no stack": 1, "no memory": 1}
"""What the plain trace was recorded without."""


def test_a_plain_trace_leaves_no_doubt() -> None:
    trace = plain()
    assert found(trace) == OPTIONS
    assert doubtful_checks(trace) == []
    table = PANES["health"].build(trace)
    assert len(table) == len(CHECKS)
    assert "No check found a problem with the numbers" in table.note
    assert PANES["kernels"].build(trace).doubts == {}


def test_every_check_has_its_own_name_and_names_columns_of_a_pane() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        for place in check.touches:
            assert place.partition(".")[0] in PANES


def test_the_worst_stands_first_and_what_was_not_asked_last() -> None:
    trace = make_trace([op("a", 0, 11, args=SHAPES)], quality=Quality(dropped=1, repaired=3))
    rows = list(PANES["health"].build(trace).rows())
    assert [(row["severity"], row["check"], row["count"]) for row in rows[:2]] == [
        ("wrong", "dropped events", 1),
        ("doubt", "mended events", 3),
    ]
    last = rows[-1]
    assert (last["severity"], last["count"], last["share_pct"]) == (None, None, None)
    ranks = [["wrong", "doubt", "note", "fine", None].index(row["severity"]) for row in rows]  # type: ignore[arg-type]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("name", "quality", "count"),
    [
        ("file cut off", Quality(truncated_at=1_234), 1),
        ("loading stopped", Quality(partial=True), 1),
        ("dropped events", Quality(dropped=2), 2),
        ("mended events", Quality(repaired=3), 3),
        ("unfinished slices", Quality(unfinished=4), 4),
        ("unmatched ends", Quality(unmatched_ends=5), 5),
        ("negative durations", Quality(negative=6), 6),
        ("impossible ends", Quality(clipped=7), 7),
        ("overlapping slices", Quality(overlaps=8), 8),
        ("skipped phases", Quality(skipped_phases={"V": 9, "v": 1}), 10),
    ],
)
def test_what_the_reader_counted_is_said(name: str, quality: Quality, count: int) -> None:
    assert found(plain(quality=quality)) == {name: count} | OPTIONS


def test_the_first_offenders_are_listed_with_their_bytes() -> None:
    examples = [(17, 'mended: {"odd'), (99, 'unreadable: {"worse')]
    trace = plain(quality=Quality(dropped=1, repaired=1, examples=examples))
    assert doubt(trace, "dropped events").example == 'byte 99: unreadable: {"worse; more: --by offender'
    table = PANES["health"].build(trace, by="offender")
    assert [tuple(row.values()) for row in table.rows()] == examples
    assert "as it stands" in PANES["health"].build(plain(), by="offender").note


def test_a_category_that_means_nothing_here() -> None:
    trace = plain(Event("weird", 200, 10, Kind.OTHER))
    assert found(trace) == {"unknown categories": 1} | OPTIONS
    assert doubt(trace, "unknown categories").example == "category 'other', for example weird"
    assert doubts(make_trace([Event("x", 0, 1, Kind.OTHER)], is_torch=False))["unknown categories"] is None


def test_work_before_its_launch_shows_how_far_the_clocks_are_apart() -> None:
    trace = plain(
        launch(500, 10, 2),
        kernel("early", 400, 20, correlation=2),
        launch(5_600, 10, 3),
        kernel("earliest", 2_600, 20, correlation=3),
    )
    assert found(trace) == {"work before its launch": 2} | OPTIONS
    assert named(trace, "work before its launch") == "earliest"
    assert doubt(trace, "work before its launch").example == "by 1.6 µs in the median, 3.0 µs at most: earliest"


def test_work_that_runs_past_later_work_of_its_stream() -> None:
    later = [kernel(f"k{i}", 2_000 + 100 * i, 51, correlation=10 + i) for i in range(4)]
    calls = [launch(300 + 20 * i, 5, 10 + i) for i in range(4)]
    trace = plain(launch(200, 5, 2), kernel("stuck", 1_500, 9_000, correlation=2), *calls, *later)
    assert found(trace) == {"work that runs past others": 1, "overlaps on a stream": 1} | OPTIONS
    assert named(trace, "work that runs past others") == "stuck"
    assert "past 4 later ones" in doubt(trace, "work that runs past others").example
    graph = [kernel(f"k{i}", 2_000 + 100 * i, 51, correlation=2) for i in range(4)]
    trace = plain(launch(200, 5, 2, "cudaGraphLaunch"), kernel("branch", 1_500, 9_000, correlation=2), *graph)
    assert doubt(trace, "work that runs past others").count == 0


def test_kernels_of_one_stream_that_overlap() -> None:
    trace = plain(launch(60, 5, 2), kernel("dependent", 140, 50, correlation=2))
    assert found(trace) == {"overlaps on a stream": 1} | OPTIONS
    aside = plain(launch(60, 5, 2), kernel("aside", 140, 50, "stream 13", correlation=2))
    assert doubt(aside, "overlaps on a stream").count == 0


def test_kernels_without_length_and_a_coarse_clock() -> None:
    trace = make_trace([launch(0, 1_000, 1), kernel("k", 2_000, 0, correlation=1)], devices=[H200])
    assert found(trace) == {"kernels of no duration": 1, "whole microseconds": 2}


def test_python_frames_make_cpu_times_doubtful() -> None:
    trace = plain(Event("train.py(3): step", 5, 120, Kind.PYTHON))
    assert found(trace) == {"python frames": 1, "no memory": 1}
    assert marks(trace, "ops.self_cpu_us") == ["python frames"]


def test_the_profilers_own_time_and_its_last_wait() -> None:
    trace = plain(
        Event("Buffer Flush", 300, 100, Kind.OVERHEAD, ("-1", "0")),
        Event("cudaDeviceSynchronize", 600, 300, Kind.RUNTIME),
    )
    assert found(trace) == {"profiler overhead": 1, "profiler's last wait": 1} | OPTIONS
    assert doubt(trace, "profiler overhead").example == "100 ns, 10.0 % of the trace, the longest Buffer Flush"
    assert named(trace, "profiler's last wait") == "cudaDeviceSynchronize"


def test_work_without_launch_is_told_from_work_launched_before_the_capture() -> None:
    trace = plain(kernel("old", 1, 20, correlation=77), kernel("lost", 300, 20, correlation=78))
    assert found(trace) == {"work without launch": 1, "work from before the capture": 1} | OPTIONS
    assert named(trace, "work without launch") == "lost"
    assert named(trace, "work from before the capture") == "old"


def test_without_any_launch_nothing_is_known_to_be_older() -> None:
    trace = make_trace([kernel("a", 0, 11), kernel("b", 20, 11)], devices=[H200])
    assert found(trace) == {"work without launch": 2}


def test_launches_without_work_and_those_at_the_start() -> None:
    trace = plain(launch(5, 2, 8), launch(60, 2, 9))
    assert found(trace) == {"launches without work": 2, "lost first kernels": 1} | OPTIONS
    assert marks(trace, "steps.kernels") == ["launches without work", "lost first kernels"]


def test_repeated_ids_and_ids_that_name_no_op() -> None:
    trace = plain(launch(60, 5, 1, "cudaStreamSynchronize"))
    assert found(trace) == {"repeated correlation ids": 1} | OPTIONS
    own = make_trace([launch(0, 5, 7, external=7), kernel("k", 11, 21, correlation=7, external=7)], devices=[H200])
    assert found(own) == {"External ids not used": 1}


def test_devices_that_are_not_described() -> None:
    assert found(plain(devices=[])) == {"device not described": 1} | OPTIONS
    assert found(plain(devices=[Device(0, ""), Device(1, "")])) == {"device without a name": 1} | OPTIONS


def test_an_occupancy_of_zero_by_mistake() -> None:
    args = {"shared memory": 100_000, "est. achieved occupancy %": 0}
    small = {"shared memory": 1_000, "est. achieved occupancy %": 0}
    trace = plain(
        launch(60, 5, 2),
        launch(70, 5, 3),
        kernel("nvjet", 200, 51, correlation=2, args=args),
        kernel("tiny", 300, 51, correlation=3, args=small),
    )
    assert found(trace) == {"occupancy of 0 % by mistake": 1} | OPTIONS
    assert named(trace, "occupancy of 0 % by mistake") == "nvjet"


def test_a_grid_that_counts_threads() -> None:
    trace = plain(launch(60, 5, 2, "hipExtModuleLaunchKernel"), kernel("Cijk", 200, 51, correlation=2))
    assert {"grid in threads": 1}.items() <= found(trace).items()


def loop(work: Sequence[int]) -> Trace:
    """Steps that launch so many kernels each."""
    events: list[Event] = [op("aten::mm", 1, 3, args=SHAPES)]
    for number, count in enumerate(work):
        at = 10_000 * number
        events.append(step(number, at, 9_999))
        for i in range(count):
            ident = 100 * number + i + 1
            events += [launch(at + 10 * i + 1, 3, ident), kernel("k", at + 100 * i + 500, 51, correlation=ident)]
    return make_trace(events, devices=[H200])


def test_a_last_step_that_was_cut_short() -> None:
    assert found(loop([10, 10, 10, 4])) == {"steps cut short": 1} | OPTIONS
    assert doubt(loop([10, 10, 10, 4]), "steps cut short").example == "ProfilerStep#3"
    assert found(loop([10, 7, 10])) == OPTIONS
    assert doubts(loop([10, 4]))["steps cut short"] is None


def test_steps_that_are_numbered_oddly_or_run_side_by_side() -> None:
    trace = make_trace([step(3, 0, 101), step(3, 200, 101), step(7, 400, 101)])
    assert found(trace) == {"step numbers": 2}
    aside = make_trace([step(1, 0, 101), step(1, 50, 101, lane=("1", "2"))])
    assert found(aside) == {"steps side by side": 1}


def test_options_that_were_off() -> None:
    assert found(make_trace([op("a", 0, 11)])) == {"no shapes": 1, "no stack": 1, "no memory": 1}
    assert doubts(make_trace([kernel("k", 0, 11)]))["no shapes"] is None


def test_a_doubt_marks_the_columns_that_carry_it_everywhere() -> None:
    trace = plain(launch(500, 10, 2), kernel("early", 400, 20, correlation=2))
    table = PANES["kernels"].build(trace)
    assert table.doubts == {"work before its launch": ("launch_delay_us",)}
    assert "launch→start~" in render(table, trace, "kernels", "table")
    assert "| launch→start~ |" in render(table, trace, "kernels", "md")
    assert "work before its launch: launch→start" in render(table, trace, "kernels", "table")
    document = orjson.loads(render(table, trace, "kernels", "json"))
    assert document["doubts"] == [{"doubt": "work before its launch", "columns": ["launch_delay_us"]}]
    assert "launch_delay_us" in document["rows"][0]
    assert "launch_delay_us," in render(table, trace, "kernels", "csv").splitlines()[0]
    assert "launch→start~" in [shown.title for shown in layout_of("kernels", table)]


def test_a_doubt_about_the_whole_file_is_said_once_and_marks_no_column() -> None:
    trace = plain(quality=Quality(truncated_at=12))
    table = PANES["steps"].build(trace)
    assert table.doubts == {"file cut off": ()}
    text = render(table, trace, "steps", "table")
    assert "file cut off: all" in text
    assert "step~" not in text


@pytest.mark.parametrize("name", given_traces("d*.json*", rest=pytest.mark.full))
def test_real_traces_have_the_doubts_that_a_plain_script_counted(
    shared_trace: Callable[[str], Path], name: str
) -> None:
    trace = loaded(shared_trace(name))
    expected = json.loads((SHARED / "expected.json").read_text())[name]
    facts = expected["facts"]
    found_here = {check: doubt.count if doubt else 0 for check, doubt in doubts(trace).items()}
    assert found_here["overlaps on a stream"] == facts["kernel_overlaps_in_stream"]
    alone = found_here["work without launch"] + found_here["work from before the capture"]
    # The script counted kernels, and here copies count too.
    assert alone >= facts["kernels_without_launch"]
    assert (alone == 0) == (facts["kernels_without_launch"] == 0)
    assert found_here["python frames"] == expected["categories"].get("python_function", 0)
    assert found_here["profiler overhead"] == expected["categories"].get("overhead", 0)


def test_the_launches_of_a_lagging_queue_are_older_than_the_capture(shared_trace: Callable[[str], Path]) -> None:
    trace = loaded(shared_trace("d07_mi300x_8rank_3steps_stack.json.gz"))
    assert doubt(trace, "work from before the capture").count == 968
    assert doubt(trace, "work without launch").count == 0


GUESSED = {"steps are guessed": 3}
"""What the whole file has: three calls of a module, named by nothing."""


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("e01_truncated_mid_event.json", {"file cut off": 1}),
        ("e03_array_unclosed_trailing_comma.json", {"device not described": 42, **GUESSED}),
        ("e05_unescaped_quotes_in_name.json", {"mended events": 2}),
        ("e07_control_chars_in_name.json", {}),
        ("e13_ts_dur_strings_absolute.json", GUESSED),
        ("e15_negative_and_missing_dur.json", {"unfinished slices": 1, "negative durations": 2}),
        ("e17_impossible_kernel_duration.json", {"work that runs past others": 1, **GUESSED}),
        ("e21_integers_over_int64.json", {}),
        ("e23_missing_pid_tid_name_ts.json", {"dropped events": 1}),
        (
            "e25_legacy_missing_quote.json",
            {"dropped events": 30, "device not described": 30, "work without launch": 30},
        ),
        ("e35_child_outlives_parent.json", {"overlapping slices": 2, **GUESSED}),
    ],
)
def test_damaged_files_have_the_doubts_that_were_put_in(
    shared_trace: Callable[[str], Path], name: str, wanted: dict[str, int]
) -> None:
    trace = loaded(shared_trace(f"edge/{name}"))
    listed = {check.name for check in doubtful_checks(trace)}
    assert {check: number for check, number in found(trace).items() if check in listed | set(wanted)} == wanted


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("e05_unescaped_quotes_in_name.json", ["mended", "mended"]),
        ("e15_negative_and_missing_dur.json", ["negative duration", "negative duration", "no end"]),
        ("e23_missing_pid_tid_name_ts.json", ["no time"]),
        ("e25_legacy_missing_quote.json", ["unreadable"] * 20),
    ],
)
def test_offenders_stand_where_they_are_said_to(
    shared_trace: Callable[[str], Path], name: str, reasons: list[str]
) -> None:
    path = shared_trace(f"edge/{name}")
    text, examples = path.read_bytes(), load(str(path)).quality.examples
    assert sorted(what.partition(": ")[0] for _, what in examples) == reasons
    for byte, what in examples:
        assert text[byte:].startswith(what.partition(": ")[2].encode())


@pytest.mark.full
def test_no_damaged_file_stops_the_panes(shared_trace: Callable[[str], Path], tmp_path: Path) -> None:
    for path in sorted(shared_trace("edge").glob("[er]*")):
        if path.name == "expected.json":
            continue
        try:
            trace = load(str(shortened(path, tmp_path)))
        except TraceError:
            continue
        for by in (None, "op", "device", "copy"):
            assert len(PANES["memory"].build(trace, by=by).column_names)
        assert len(PANES["health"].build(trace)) == len(CHECKS)
        assert doubt(trace, "dropped events").count == trace.quality.dropped


def test_what_a_protobuf_file_lacks_is_counted() -> None:
    quality = Quality(packets=9, not_shown={"sys_stats": 1, "ftrace_events": 3}, losses=2, lost_names=1)
    trace = replace(plain(), quality=quality)
    assert found(trace) == OPTIONS | {"packets not shown": 4, "packets lost": 2, "names lost": 1}
    assert doubt(trace, "packets not shown").example == "ftrace_events 3, sys_stats 1"


def test_only_protobuf_files_are_asked_for_packets() -> None:
    names = ("packets not shown", "packets lost", "names lost")
    whole = replace(plain(), quality=Quality(packets=9))
    assert [doubts(plain())[name] for name in names] == [None] * 3
    assert [doubt(whole, name).count for name in names] == [0] * 3
