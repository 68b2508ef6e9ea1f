"""What files beside a trace say about its graphs holds also for a trace from the cache, and is not kept there."""

from __future__ import annotations

from pathlib import Path

from tests.support.captures import CapturedLaunch, captured, write_trace
from tests.support.graphs import replay
from tracetui.model.trace import Trace
from tracetui.opening.trace_opening import OpenOptions, keep_opened, open_trace
from tracetui.panes import PANES

MM = {"Input Dims": [[8, 16], [16, 4]], "Input type": ["float", "float"]}
GRAPH = [CapturedLaunch("aten::mm", "gemm_kernel", "Linear_0", op_args=MM), CapturedLaunch("aten::add", "add_kernel")]


def ops(trace: Trace) -> list[object]:
    return [row["op"] for row in PANES["kernels"].build(trace).rows()]


def test_a_capture_that_is_found_later_is_used_and_one_that_has_gone_is_not(tmp_path: Path) -> None:
    path = str(write_trace(tmp_path / "rank0.json", replay(10_000, 91, ["gemm_kernel", "add_kernel"])))
    alone = open_trace(path)
    without = ops(alone)
    for name in ("health", "modules", "ops", "roofline", "summary"):
        PANES[name].build(alone)
    assert keep_opened(alone) and ops(open_trace(path)) == without
    capture = write_trace(tmp_path / "capture_traces" / "bs_32_rank0.json", captured([GRAPH]))
    beside = open_trace(path)
    anew = open_trace(path, OpenOptions(uses_cache=False))
    assert ops(beside) == ops(anew) == ["aten::mm", "aten::add"] != without
    for name in ("health", "modules", "ops", "roofline", "summary"):
        assert list(PANES[name].build(beside).rows()) == list(PANES[name].build(anew).rows())
    assert [row["flops"] for row in PANES["roofline"].build(beside).rows()] == [1024]
    assert not keep_opened(beside)
    capture.unlink()
    assert ops(open_trace(path)) == without


def test_a_trace_that_was_first_read_with_a_capture_is_kept_without_it(tmp_path: Path) -> None:
    path = str(write_trace(tmp_path / "rank0.json", replay(10_000, 91, ["gemm_kernel", "add_kernel"])))
    capture = write_trace(tmp_path / "capture_traces" / "bs_32_rank0.json", captured([GRAPH]))
    first = open_trace(path)
    assert ops(first) == ["aten::mm", "aten::add"] and keep_opened(first)
    assert ops(open_trace(path)) == ["aten::mm", "aten::add"]
    capture.unlink()
    assert ops(open_trace(path)) == ops(open_trace(path, OpenOptions(uses_cache=False))) != ["aten::mm", "aten::add"]
