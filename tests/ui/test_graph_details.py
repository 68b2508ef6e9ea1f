"""What the details, the summary and Health say about a kernel inside a graph."""

from __future__ import annotations

from dataclasses import replace

from tests.support.build import make_trace
from tests.support.captures import CapturedLaunch, captured, recording
from tests.support.graphs import replay
from tracetui.health.health_table import doubts
from tracetui.health.summary import facts
from tracetui.model.trace import Trace
from tracetui.ui.trace.slice_description import chain_of, describe

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
