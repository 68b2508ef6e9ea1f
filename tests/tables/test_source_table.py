"""The source pane: GPU and CPU time, kernels and gaps by line, and what text it reads."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, python
from tracetui.errors import UsageError
from tracetui.model.intervals import TimeRange
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES
from tracetui.tables.source_table import BY_COMPILED, BY_FUNCTION, NO_LINES, NO_PLACE, of_file

MAIN, BACKWARD = ("1", "main"), ("1", "backward")


def line(number: int, start: int, dur: int) -> Event:
    return Event(f"line: a.py:{number}", start, dur, Kind.LINE, MAIN)


def training(**fields: Any) -> Trace:
    """Line 3 launches a kernel, line 5 waits while another thread runs the backward pass of line 3."""
    node = "autograd::engine::evaluate_function: MmBackward0"
    forward = {"Sequence number": 7, "Fwd thread id": 0}
    events = [
        annotation("ProfilerStep#1", 0, 1_000, lane=MAIN),
        line(3, 100, 200),
        op("aten::mm", 150, 100, lane=MAIN, args=forward),
        launch(160, 10, 1, lane=MAIN),
        line(5, 400, 500),
        op(node, 500, 200, lane=BACKWARD, args={"Sequence number": 7, "Fwd thread id": 1}),
        op("aten::mm", 550, 100, lane=BACKWARD),
        launch(560, 10, 2, lane=BACKWARD),
        kernel("gemm", 300, 50, correlation=1),
        kernel("gemm", 800, 70, correlation=2),
    ]
    return make_trace(events, **fields)


def by_line(trace: Trace, part: Any = None) -> dict[object, dict[str, Any]]:
    return {row["line"]: row for row in PANES["source"].build(trace, part).rows()}


def test_a_backward_pass_on_a_thread_of_its_own_is_at_the_forward_line() -> None:
    rows = by_line(training(), 1)
    assert (rows["a.py:3"]["forward_gpu_us"], rows["a.py:3"]["backward_gpu_us"]) == (0.05, 0.07)
    assert (rows["a.py:3"]["forward_cpu_us"], rows["a.py:3"]["backward_cpu_us"]) == (0.2, 0.2)
    assert (rows["a.py:5"]["forward_cpu_us"], rows["a.py:5"]["kernels"]) == (0.3, 0)
    assert (rows["a.py:3"]["kernels"], rows["a.py:3"]["cpu_ops"]) == (2, 3)
    assert rows[None]["file"] == NO_PLACE and rows[None]["forward_cpu_us"] == 0.3


@pytest.mark.parametrize("part", [None, 1, TimeRange(120, 640)])
def test_sums_are_the_part(part: Any) -> None:
    table = PANES["source"].build(training(), part)
    whole = 0.52 if isinstance(part, TimeRange) else 1.0
    assert np.nansum([table["forward_cpu_us"].values, table["backward_cpu_us"].values]) == pytest.approx(whole)
    assert table["share_pct"].values.sum() == pytest.approx(100)


def test_a_gap_is_of_the_line_behind_it() -> None:
    assert by_line(training())["a.py:3"]["idle_us"] == PANES["gaps"].build(training())["dur_us"].values.sum() > 0


def test_kernels_are_grouped_by_line() -> None:
    (row,) = PANES["kernels"].build(training(), by="line").rows()
    assert (row["line"], row["calls"]) == ("a.py:3", 2)


@pytest.mark.parametrize(("digest", "has_text"), [("own", True), ("other", False), (None, False)])
def test_text_is_that_of_a_file_with_the_digest_alone(tmp_path: Path, digest: str | None, has_text: bool) -> None:
    path = tmp_path / "a.py"
    path.write_text("one\ntwo\n\tthree\nfour\n\x1b[2Jfive\n")
    own = hashlib.sha256(path.read_bytes()).hexdigest()
    entry = {"path": str(path), "sha256": own if digest == "own" else digest}
    trace = training(metadata={"tracetui": {"lines": {"files": {"a.py": entry}, "cost_pct": 1.25}}})
    table = PANES["source"].build(trace)
    expected = ["    three", "four", "\x1b[2Jfive"] if has_text else [None, None]
    assert [row["text"] for row in table.rows()] == [*expected, None]
    assert "1.2 %" in table.note and ("a.py, which changed" in table.note) is not has_text


def test_odd_metadata_and_odd_paths_are_passed_over() -> None:
    for files in (3, {"a.py": 4}, {"a.py": {"path": "/dev/zero", "sha256": 5}}, {"a.py": {"path": "a\0"}}):
        assert len(PANES["source"].build(training(metadata={"tracetui": {"lines": {"files": files}}}))) == 3


def test_a_file_is_asked_for_by_its_end() -> None:
    table = PANES["source"].build(training())
    assert len(of_file(table, "a.py")) == 2
    with pytest.raises(UsageError, match=r"Nothing of b\.py"):
        of_file(table, "b.py")


def test_without_lines_a_row_is_a_function_and_without_frames_there_is_none() -> None:
    events = [python("m.py(4): f", 0, 100, lane=MAIN), op("aten::mm", 10, 50, lane=MAIN)]
    table = PANES["source"].build(make_trace(events))
    (row,) = table.rows()
    assert (row["file"], row["line_number"], row["function"], row["line"]) == ("m.py", 4, "m.py(4): f", None)
    assert row["forward_cpu_us"] == 0.1 and table.note == BY_FUNCTION
    assert PANES["source"].build(make_trace(events[1:])).note.startswith(f"{NO_LINES}: record with")
    assert len(PANES["source"].build(make_trace([]))) == 0


STACKS = [
    'File "/home/u/a.py", line 3, in step\n    y = f(x)\n  File "/home/u/net.py", line 12, in forward\n    x + 1\n'
    '  File "/usr/lib/python3/site-packages/torch/nn/functional.py", line 9, in relu\n    pass\n',
    '  File "/home/u/net.py", line 14, in forward\n    return y.relu()',
]


def compiled(*stacks: object) -> Trace:
    """A compiled region that launches a kernel for each stack."""
    events = [annotation("ProfilerStep#1", 0, 1_000, lane=MAIN), op("Torch-Compiled Region: 0/0", 100, 800, lane=MAIN)]
    for number, stack in enumerate(stacks, 1):
        args = {} if stack is None else {"stack": stack}
        launched = kernel(f"triton_poi_fused_{number}", 1_000 + 100 * number, 50, correlation=number, args=args)
        events += [launch(100 + 20 * number, 10, number, lane=MAIN), launched]
    return make_trace(events)


def test_a_kernel_of_compiled_code_has_the_lines_that_it_was_fused_from() -> None:
    table = PANES["source"].build(compiled(STACKS, STACKS[:1], None))
    assert [(row["line"], row["line_number"], row["forward_gpu_us"]) for row in table.rows()] == [
        ("/home/u/net.py:12", 12, 0.05),
        ("/home/u/net.py:12, 14", 12, 0.05),
        (None, None, 0.05),
    ]
    assert table.note == BY_COMPILED


@pytest.mark.parametrize("stack", [3, "", [None, {"a": 1}], 'File "a.py", line 99999999999', "File " * 100_000, None])
def test_odd_stacks_are_no_lines(stack: object) -> None:
    assert [row["line"] for row in PANES["source"].build(compiled(stack, STACKS)).rows()][-1] is None


def test_a_kernel_of_many_lines_names_some() -> None:
    stacks = [f'File "n.py", line {number}, in f' for number in range(1, 12)]
    (row,) = PANES["kernels"].build(compiled(stacks), by="line").rows()
    assert row["line"] == "n.py:1, 2, 3, 4, 5, 6, 7, 8, 3 more"
