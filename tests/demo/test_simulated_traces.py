"""Simulated traces show what the series shows, through the panes of a recording, and say that they are simulated."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from tracetui_workloads.registry import built_in

from tests.support.paths import SAMPLES
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.demo.catalogue import DEMOS, PAIRS, file_name, metadata, write
from tracetui.drawing.text.export import markdown
from tracetui.health.health_table import doubtful_checks
from tracetui.model.table import Table
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.verification import lesson_lines, recording_metadata, verify

MAX_KEYS = 4
"""From opening a trace to an observation."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trace]:
    """A function from the name of a demo to its trace."""
    folder, traces = tmp_path_factory.mktemp("demo"), dict[str, Trace]()

    def find(name: str) -> Trace:
        if name not in traces:
            traces[name] = load(str(write(name, folder)))
        return traces[name]

    return find


def rows(trace: Trace, pane: str, step: int | None = 3) -> list[dict]:
    return list(PANES[pane].build(trace, step).rows())


def fact(trace: Trace, key: str) -> object:
    return next(row["value"] for row in rows(trace, "summary", None) if row["key"] == key)


def kernels(trace: Trace) -> list[str]:
    return [str(row["short_name"]) for row in rows(trace, "kernels")]


# What the workloads promise, and the published figures


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_shows_what_its_workload_promises(demo, name):
    trace = demo(name)
    about = recording_metadata(trace)
    checked = verify(built_in(about["workload"]), about, trace)
    assert len(checked.table) >= 2
    assert [row["expectation"] for row in checked.table.rows() if not row["holds"]] == []


@pytest.mark.parametrize("name", DEMOS)
def test_health_finds_nothing_odd_in_a_simulated_trace(demo, name):
    assert doubtful_checks(demo(name)) == []


@pytest.mark.parametrize(
    ("name", "key", "us"),
    [
        ("matmul_add_64_cold", "self_cpu_total_us", 2314),
        ("matmul_add_64_cold", "self_device_total_us", 23.104),
        ("matmul_add_4096", "self_device_total_us", 4495),
    ],
)
def test_sums_are_those_of_the_published_table(demo, name, key, us):
    assert float(str(fact(demo(name), key))) == pytest.approx(us, rel=0.001)


@pytest.mark.parametrize(("name", "span", "busy"), [("split_stack", 1613, 188), ("combined", 191, 66)])
def test_spans_and_sums_of_the_puzzler_are_the_published_ones(demo, name, span, busy):
    for row in rows(demo(name), "steps", None):
        assert (row["gpu_span_us"], row["gpu_busy_us"]) == (pytest.approx(span, abs=1), pytest.approx(busy, abs=0.1))


# The observations of the series


def test_small_matrices_are_overhead_bound_and_large_ones_compute_bound(demo):
    assert fact(demo("matmul_add_64"), "verdict") == fact(demo("linear"), "verdict") == "overhead-bound"
    assert fact(demo("matmul_add_4096"), "verdict") == fact(demo("mlp"), "verdict") == "compute-bound"
    assert "Launch overhead" in str(rows(demo("matmul_add_64"), "findings", None)[0]["title"])


def test_the_cold_step_is_a_finding(demo):
    assert any("is cold" in str(row["title"]) for row in rows(demo("matmul_add_64_cold"), "findings", None))


def test_one_kernel_of_4096_is_slower_than_the_same_kernel_in_other_steps(demo):
    taken = [
        row["dur_us"] for row in rows(demo("matmul_add_4096"), "kernels", None) if "GEMM" in str(row["short_name"])
    ]
    assert taken[0] == pytest.approx(580) and taken[2] == pytest.approx(580) and taken[1] > 5 * 580


def test_a_transposition_launches_nothing_and_stands_before_addmm(demo):
    trace = demo("linear")
    views = {row["name"]: row["launched"] for row in rows(trace, "views")}
    assert views == {"aten::t": 0, "aten::transpose": 0, "aten::as_strided": 0}
    ops = {str(row["name"]): row for row in rows(trace, "ops")}
    assert ops["aten::t"]["device_total_us"] == 0 and ops["aten::addmm"]["device_total_us"] > 0


def test_the_bias_of_a_linear_layer_is_no_kernel_and_the_lesson_says_where_it_is(demo):
    trace = demo("linear")
    assert len(kernels(trace)) == 1 and "aten::add" not in {row["name"] for row in rows(trace, "ops")}
    about = recording_metadata(trace)
    assert "epilogue" in " ".join(lesson_lines(built_in("linear"), verify(built_in("linear"), about, trace)))


def test_five_kernels_with_queries_on_the_three_matrix_products_only(demo):
    trace = demo("mlp")
    assert [name.split()[0] for name in kernels(trace)] == ["GEMM", "GEMM", "gelu<bf16>", "mul<bf16>", "GEMM"]
    asked = rows(trace, "occupancy")
    assert len(asked) == 3 and {row["op"] for row in asked} == {"aten::mm"}


def test_the_narrow_product_has_another_tile_and_is_ten_per_cent_faster(demo):
    gate, up, _, _, down = rows(demo("mlp"), "kernels")
    assert "128x128" in gate["name"] and gate["name"] == up["name"] and "128x256" in down["name"]
    assert gate["flops"] == down["flops"]
    assert down["dur_us"] / gate["dur_us"] == pytest.approx(0.9, abs=0.02)


def test_compiled_gelu_and_the_multiplication_are_one_kernel(demo):
    comparison = Comparison(side(demo("mlp"), ""), side(demo("mlp_compile"), ""))
    told = " ".join(comparison.statement)
    assert "gelu and mul became triton_poi_fused__unsafe_view_gelu_mul_0" in told
    assert "All 3 GEMMs are the same kernels" in told


def test_one_tensor_is_more_than_eight_times_as_fast_as_sixteen(demo):
    comparison = Comparison(side(demo("split_stack"), ""), side(demo("combined"), ""))
    assert "8.45 times as fast" in " ".join(comparison.statement)


def test_no_observation_is_further_away_than_four_keys():
    for each in DEMOS.values():
        ways = [re.match(r"\s*((?:\S )+)", way) for way in each.keys.split(",")]
        assert all(way and len(way[1].split()) <= MAX_KEYS for way in ways), each.keys
    assert {name for a, b, _ in PAIRS for name in (a, b)} <= set(DEMOS)


# Taken for no measurement


def test_a_renamed_trace_still_says_that_it_is_simulated(demo, tmp_path):
    path = tmp_path / "a.json.gz"
    path.write_bytes(write("linear", tmp_path).read_bytes())
    trace = load(str(path))
    table: Table = PANES["kernels"].build(trace)
    assert trace.label == "simulated a.json.gz" and str(fact(trace, "simulated")).startswith("yes")
    assert "simulated, nothing was measured" in markdown(table, trace, "kernels")


def test_a_recording_is_not_called_simulated():
    samples = sorted(SAMPLES.glob("*.json.gz"))
    assert samples and not [
        path for path in samples if orjson.loads(gzip.decompress(path.read_bytes()))["tracetui"].get("simulated")
    ]
    trace = load(str(samples[0]))
    assert trace.label == samples[0].name and "simulated" not in {row["key"] for row in rows(trace, "summary", None)}


def test_file_name_and_metadata_say_that_a_demo_is_simulated():
    assert all(file_name(name).startswith("simulated_") and metadata(name)["simulated"] for name in DEMOS)


def test_a_demo_is_the_same_each_time(tmp_path: Path):
    first = write("mlp", tmp_path).read_bytes()
    assert write("mlp", tmp_path).read_bytes() == first
