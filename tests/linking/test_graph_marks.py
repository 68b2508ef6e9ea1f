"""What a program called kernels when it captured them: names and streams of torch's annotations (R2.24)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.build import kernel, launch, make_trace
from tests.support.paths import SHARED
from tests.support.traces import loaded
from tracetui.linking.replays import MARKED
from tracetui.tables.kernels import kernels

NODE = {"graph id": 5, "graph node id": 1}


def row(args: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The row of a kernel with some args."""
    trace = make_trace([launch(0, 5, 1), kernel("gemm", 10, 5, correlation=1, args=args)], metadata=metadata)
    return next(iter(kernels(trace).rows()))


@pytest.mark.parametrize(
    ("args", "mark"),
    [
        ({"annotation": '[{"name": "block0"}]'}, "block0"),
        ({"annotation": '[{"name": "block0"}, {"name": "mlp", "pg": "dp"}]'}, "block0 / mlp"),
        ({"annotation": [{"name": "block0"}]}, "block0"),
        ({"annotation": {"name": "block0"}}, "block0"),
        ({"annotation": "block0"}, "block0"),
        ({"annotation": "7"}, "7"),
        ({"annotation": "[" * 100_000}, "[" * 100_000),
        (NODE | {"name": "block0"}, "block0"),
        ({"graph id": 5, "name": "block0"}, "block0"),
    ],
    ids=[*"abcdef", "deep", *"gh"],
)
def test_a_kernel_has_the_name_that_it_was_captured_under(args: dict[str, Any], mark: str) -> None:
    assert row(args)["graph_mark"] == mark


@pytest.mark.parametrize("args", [NODE, {"name": "block0"}, {}, {"annotation": None}])
def test_without_marks_there_is_no_such_column(args: dict[str, Any]) -> None:
    assert "graph_mark" not in row(args)


def test_an_annotation_without_a_name_is_no_mark() -> None:
    assert "graph_mark" not in row({"annotation": '[{"pg": "dp"}, 7]'}, **{MARKED: True})


def test_streams_of_marks_and_of_moved_lanes() -> None:
    marked = row(NODE | {"annotated_stream": 1000, "stream": 7})
    assert (marked["annotated_stream"], "original_stream" in marked) == (1000, False)
    moved = row(NODE | {"original_stream": 20, "stream": 7})
    assert (moved["original_stream"], "annotated_stream" in moved) == (20, False)
    kept = row(NODE | {"name": "block0", "stream": 20})
    assert kept["original_stream"] == 20
    assert "original_stream" not in row(NODE | {"name": "block0", "stream": 7})


@pytest.mark.skipif(not (SHARED / "pftrace").exists(), reason="no shared traces beside the checkout")
@pytest.mark.parametrize("name", ["graph_counters.json", "graph_counters.pftrace.gz", "kineto_counters.json"])
def test_the_marks_of_shared_traces(name: str) -> None:
    expected = json.loads((SHARED / "pftrace" / "expected.json").read_text())
    rows = [each for each in kernels(loaded(SHARED / "pftrace" / name)).rows() if each["graph_mark"]]
    assert {each["graph_mark"] for each in rows} == {"block0", "allreduce"}
    if name.startswith("kineto"):
        facts = expected["kineto_counters.json"]["facts"]
        (stream,) = {each["annotated_stream"] for each in rows if each["stream"] == 20}
        assert stream == facts["annotated_stream_of_stream_20"]
        return
    facts = expected["graph_counters.pftrace.gz"]["facts"]
    for lane in (1000, 1001):
        (stream,) = {each["original_stream"] for each in rows if each["stream"] == lane}
        assert stream == facts[f"capture_stream_of_lane_{lane}"]
