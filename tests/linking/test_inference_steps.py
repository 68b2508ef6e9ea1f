"""Steps of inference servers against the facts that a slow script found in real traces."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import SHARED
from tests.support.traces import loaded
from tracetui.linking.step_sources import step_sources
from tracetui.linking.steps import steps
from tracetui.panes import PANES
from tracetui.reading.load import load

FACTS = SHARED / "inference/expected.json"
FILES = list(json.loads(FACTS.read_text())) if FACTS.exists() else ["expected.json"]


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    if not FACTS.exists():
        pytest.skip("needs ../shared/traces/inference/expected.json, which is not there")
    return json.loads(FACTS.read_text())


def wanted_rows(found: list[dict[str, Any]], fact: dict[str, Any]) -> list[dict[str, Any]]:
    """The facts of the series that was chosen: of nested ones either is right."""
    rows = fact["steps"]
    for other in fact["other_candidates"].values():
        if [row["name"] for row in other] == [row["slice"] for row in found]:
            rows = [{**row, **theirs} for row, theirs in zip(rows, other, strict=True)]
            only = {"name", "start_us", "dur_us", "kind", "kernels"}
            return [{key: value for key, value in row.items() if key in only} for row in rows]
    return rows


@pytest.mark.parametrize("file", FILES)
@pytest.mark.full
def test_steps_are_those_that_a_slow_search_finds(shared_trace, facts: dict[str, Any], file: str) -> None:
    trace, fact = loaded(shared_trace(f"inference/{file}")), facts[file]
    table = PANES["steps"].build(trace)
    found = [{**row, "slice": trace.name_of(int(steps(trace).row[i]))} for i, row in enumerate(table.rows())]
    wanted = wanted_rows(found, fact)
    assert [row["slice"] for row in found] == [row["name"] for row in wanted]
    for row, truth in zip(found, wanted, strict=True):
        is_certain = truth.get("kind_certain", True)
        assert row["kind"] == (truth["kind"] if is_certain else "unknown")
        for key in ("requests", "tokens", "kernels", "copies", "graph_replays", "kernels_in_graphs", "comm_kernels"):
            assert row[key] == truth.get(key, row[key]), (key, row, truth)
        for key in ("start_us", "dur_us", "kernel_us", "comm_us", "gpu_busy_us", "gpu_start_us", "gpu_end_us"):
            # Whole nanoseconds here, and sums of rounded microseconds there.
            if key in truth:
                assert (row[key] or 0) == pytest.approx(truth[key], abs=0.02), (key, row, truth)


@pytest.mark.parametrize("file", FILES)
def test_every_series_is_offered_with_what_it_covers(shared_trace, facts: dict[str, Any], file: str) -> None:
    trace, fact = loaded(shared_trace(f"inference/{file}")), facts[file]
    offered = {source.way: source for source in step_sources(trace)}
    for name, covered in fact["work_covered"].items():
        way = name if name.split(" ")[0] in ("frame", "module", "op") else f"annotation {name}"
        inside, total = map(int, covered.split(" of "))
        assert offered[way].activities == inside, name
        assert total == fact["kernels"] + fact["copies"]
    for name, runs in fact.get("candidates", {}).items():
        # Runs are counted on the busiest thread here.
        assert offered.get(f"annotation {name}") is None or len(offered[f"annotation {name}"].rows) <= runs


def test_how_the_steps_were_found_is_said(shared_trace, facts: dict[str, Any]) -> None:
    for file in ("i03_mi300x_vllm_tp4_no_annotations.json.gz", "i06_cpu_transformers_generate_no_stack.json.gz"):
        trace = loaded(shared_trace(f"inference/{file}"))
        found_by = steps(trace).found_by
        assert found_by == facts[file]["found_by"]
        column = PANES["steps"].build(trace)["found_by"]
        assert {column.cell(row) for row in range(len(column))} == {found_by + " ~" * steps(trace).is_guess}


def test_the_recording_of_a_graph_and_overlapping_stages_have_no_steps(shared_trace) -> None:
    captured = loaded(shared_trace("inference/i01c_capture_bs32.json.gz"))
    assert "recording of a CUDA graph" in PANES["steps"].build(captured).note
    stages = loaded(shared_trace("inference/i04_mtia_serving_stages.json.gz"))
    assert len(steps(stages)) == 0 and re.search(r"--steps-by can name 'Stage::", PANES["steps"].build(stages).note)


HIDDEN = {"frames": ("python_function",), "all": ("python_function", "user_annotation", "gpu_user_annotation")}
"""Categories that a recording could lack."""


@pytest.mark.parametrize(
    ("file", "without", "found_by", "count"),
    [
        ("i01_mi300x_vllm_decode_full_graph.json.gz", "frames", "annotation execute_context", 1),
        # The cycles of a single step are its layers.
        ("i01_mi300x_vllm_decode_full_graph.json.gz", "all", "profiler step", 0),
        ("i02_mi300x_sglang_decode_nested.json.gz", "all", "profiler step", 0),
        ("i05_cpu_transformers_generate_stack.json.gz", "all", "op aten::embedding", 12),
        ("i07_assembled_vllm_async_decode.json.gz", "all", "repeating graph", 14),
        # The prefill replays no graph.
        pytest.param(
            "i03_mi300x_vllm_tp4_no_annotations.json.gz", "all", "repeating kernels", 10, marks=pytest.mark.full
        ),
    ],
)
def test_what_a_recording_lacks_is_replaced_by_the_next_rule(
    shared_trace, tmp_path: Path, file: str, without: str, found_by: str, count: int
) -> None:
    document = json.loads(gzip.decompress(shared_trace(f"inference/{file}").read_bytes()))
    events = document["traceEvents"] if isinstance(document, dict) else document
    path = tmp_path / "less.json"
    path.write_text(json.dumps({"traceEvents": [each for each in events if each.get("cat") not in HIDDEN[without]]}))
    trace = load(str(path))
    assert (steps(trace).found_by, len(steps(trace))) == (found_by, count)
    if count == 0:
        assert "kernels and loops that repeat" in PANES["steps"].build(trace).note


def test_nested_annotations_say_which_one_was_taken(shared_trace) -> None:
    trace = loaded(shared_trace("inference/i02_mi300x_sglang_decode_nested.json.gz"))
    assert PANES["steps"].build(trace).note == "Steps are `step[..]` annotations, inside `execute_context_..`."
