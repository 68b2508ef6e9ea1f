"""Details of the row under the cursor, of a kernel inside a graph too, and what makes them turn to the selection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tests.support.app import Shown, keys, shown
from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.captures import CapturedLaunch, captured, recording
from tests.support.graphs import replay
from tests.support.waiting import until
from tracetui.health.health_table import doubts
from tracetui.health.summary import facts
from tracetui.model.trace import Trace
from tracetui.ui.trace.slice_description import chain_of, describe
from tracetui.ui.widgets.table_view import TableView

KERNELS = (("add", "aten::add", 9_000), ("sgemm", "aten::mm", 12_000), ("relu", "aten::relu", 3_000))


def _trace() -> Trace:
    """Three steps in which the GPU waits for the CPU nearly always; in the last a kernel takes twice as long."""
    events = []
    for number in range(3):
        at = number * 1_000_000
        events.append(step(number + 1, at, 900_000))
        for index in range(9):
            start, correlation = at + 20_000 + index * 100_000, number * 10 + index + 1
            name, called, dur = KERNELS[index % 3]
            events += [op(called, start, 30_000), launch(start + 20_000, 5_000, correlation)]
            twice = 2 if number == 2 and name == "sgemm" else 1
            events.append(kernel(name, start + 30_000, dur * twice, correlation=correlation))
    return make_trace(events)


def _details(app: Shown) -> str:
    return "\n".join(line.text for line in app.view.panes.details.lines)


def _cursor_line(view: TableView) -> str:
    return next(
        line for strip in view.render_lines(view.size.region) if (line := strip.text)[:1] in "▸▹" and line.strip()
    )


async def test_a_list_describes_its_first_row_as_soon_as_it_is_opened() -> None:
    """The selection is still the first kernel: the details are about the operator, with its kernels."""
    async with shown(_trace(), (200, 50)) as (app, pilot):
        await keys(pilot, "2")
        await until(pilot, lambda: "its kernels" in _details(app))
        assert _details(app).startswith("aten::mm") and _cursor_line(app.list).startswith("▹aten::mm")
        await keys(pilot, "j")
        await until(pilot, lambda: _details(app).startswith("aten::add"))
        assert _cursor_line(app.list).startswith("▸aten::add")


async def test_a_finding_has_its_evidence_drawn() -> None:
    async with shown(_trace(), (200, 50)) as (app, pilot):
        await keys(pilot, "7")
        await until(pilot, lambda: "evidence" in _details(app))
        assert any(
            piece == "█" * len(piece) for line in app.view.panes.details.lines for piece, hue in line.pieces if hue
        )


def _says(app: Shown, words: str) -> bool:
    return words in _details(app)


async def test_a_step_says_what_it_was_spent_on() -> None:
    async with shown(_trace(), (200, 50)) as (app, pilot):
        await keys(pilot, "8")
        for words in ("GPU by family", "idle because of", "heaviest kernels"):
            await until(pilot, partial(_says, app, words))


async def test_the_next_kernel_and_the_lanes_turn_the_details_to_the_selection() -> None:
    """A key that goes to a slice shows the slice, wherever the list is; the list shows its row again."""
    async with shown(_trace(), (200, 50)) as (app, pilot):
        await keys(pilot, "2")
        await until(pilot, lambda: "its kernels" in _details(app))
        await keys(pilot, "full_stop")
        await until(pilot, lambda: "category" in _details(app) and not _details(app).startswith("aten::"))
        await keys(pilot, "k", "j")
        await until(pilot, lambda: _details(app).startswith("aten::add"))
        app.view.lanes.focus()
        await until(pilot, lambda: "category" in _details(app).split("\n")[1])
        app.list.focus()
        await until(pilot, lambda: "calls" in _details(app).split("\n")[1])


async def test_a_failing_analysis_costs_the_parts_of_a_row_alone(breaks: Callable[[str], None]) -> None:
    breaks("tracetui.ui.trace.described_list.row_parts")
    async with shown(_trace(), (200, 50)) as (app, pilot):
        await keys(pilot, "2")
        await until(pilot, lambda: "What the row is made of" in _details(app))
        assert _details(app).startswith("aten::mm") and "self GPU" in _details(app)


async def test_reading_health_leaves_the_lanes_where_they_are() -> None:
    async with shown(_trace(), (200, 50)) as (app, pilot):
        await keys(pilot, "H")
        window, selected = app.view.window, app.view.selected
        await keys(pilot, "j", "j", "j")
        assert (app.view.window, app.view.selected) == (window, selected)


async def test_times_that_say_nothing_take_no_room() -> None:
    """GPU wall equals total GPU wherever that has a time; text output has both."""
    async with shown(_trace(), (250, 50)) as (app, pilot):
        await keys(pilot, "2")
        assert "self_device_us" in app.list.shown_columns
        assert not {"gpu_wall_us", "backward_gpu_us"} & set(app.list.shown_columns)
        assert app.list.table is not None and "gpu_wall_us" in app.list.table


GRAPH = [
    CapturedLaunch("aten::mm", "gemm_kernel", "Linear_0", "model.py(9): \x1b[31mproject"),
    CapturedLaunch("aten::add", "add_kernel"),
]
REPLAYED = replay(10_000, 91, ["gemm_kernel", "add_kernel"])


def described(trace: Trace, name: str) -> list[str]:
    row = next(row for row in range(len(trace.slices)) if trace.name_of(row) == name)
    return [line.text.rstrip() for line in describe(trace, row, chain_of(trace, row), 80)]


def said(trace: Trace) -> dict[str, object]:
    return {fact.key: fact.value for fact in facts(trace)}


def test_a_node_says_what_captured_it_by_which_file_and_its_text_is_harmless():
    lines = described(replace(make_trace(REPLAYED), graph_recordings=(recording([GRAPH]),)), "gemm_kernel")
    assert "captured by       ~aten::mm" in lines
    assert "captured in       ~Linear_0" in lines
    assert "capture file      capture.json" in lines
    assert any(line.startswith("captured from     ~model.py(9):") for line in lines)
    assert not any("\x1b" in line for line in lines)
    assert "                  ~aten::mm" in lines[lines.index("capture file      capture.json") :]


def test_a_node_of_a_capture_in_the_same_trace_leads_to_the_call():
    trace = make_trace([*captured([GRAPH]), *REPLAYED])
    row = next(row for row in range(len(trace.slices)) if trace.name_of(row) == "add_kernel")
    (line,) = [each for each in describe(trace, row, chain_of(trace, row), 80) if each.text.startswith("captured by")]
    assert trace.name_of(line.row) == "hipLaunchKernel"
    assert "capture file      the capture in this trace" in described(trace, "add_kernel")


def test_a_node_without_a_capture_says_why_it_is_unknown():
    lines = described(make_trace(REPLAYED), "gemm_kernel")
    start = lines.index("captured by       unknown: inside a CUDA graph: 2 nodes, recorded once at")
    assert lines[start + 1].strip() == "capture"
    by_position = [replace(each, kernel=None) for each in GRAPH]
    lines = described(replace(make_trace(REPLAYED), graph_recordings=(recording([by_position]),)), "add_kernel")
    assert "captured by       ~aten::add, by position only" in lines


def test_summary_and_health_say_which_file_and_how_many():
    known = replace(make_trace(REPLAYED), graph_recordings=(recording([GRAPH]),))
    assert (said(known)["in_graphs"], said(known)["captured_by"]) == (2, "2 of 2 by capture.json")
    inferred, unknown = (doubts(known)[f"operators of graphs {word}"] for word in ("inferred", "unknown"))
    assert inferred is not None and unknown is not None
    assert (inferred.count, inferred.of, inferred.example, unknown.count) == (2, 2, "2 of 2 by capture.json", 0)
    refused = replace(make_trace(REPLAYED), graph_recordings=(recording([GRAPH[:1]]),))
    assert (said(refused)["in_graphs"], said(refused)["captured_by"]) == (2, None)
    doubt = doubts(refused)["operators of graphs unknown"]
    assert doubt is not None
    assert (doubt.count, refused.name_of(doubt.row)) == (2, "gemm_kernel")
    assert "no graph of capture.json has 90 % of its names in order" in doubt.example
    plain = make_trace(captured([GRAPH]))
    assert "in_graphs" not in said(plain)
    assert doubts(plain)["operators of graphs unknown"] is None
