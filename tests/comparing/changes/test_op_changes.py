"""What changed among the operators: the ops pane's numbers, a plain script's, and the tutorial's claims."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, step
from tests.support.comparing import tutorial
from tests.support.paths import SAMPLES
from tests.support.slow import slow_events
from tests.support.traces import loaded
from tracetui.comparing.measures import is_compile, is_generated, ops_within, shared_name, versionless_name
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.side import side
from tracetui.model.trace import Kind, Trace
from tracetui.operators.ops import ops
from tracetui.reading.load import load

SHARED = (
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    "d03_v100_2rank_5steps_mem_occ_nccl.json.gz",
    "d07_mi300x_8rank_3steps_stack.json.gz",
    "d08_b200_cuda13_ep_moe.json",
)
Row = dict[str, Any]


def changed(a: Trace, b: Trace, scope_a: str = "", scope_b: str = "", unfold: bool = False) -> dict[str, Row]:
    """The rows of the table by name."""
    table = op_changes(side(a, scope_a), side(b, scope_b), unfold)
    return {str(row["name"]): dict(row) for row in table.rows()}


def marks(rows: dict[str, Row], mark: str) -> set[str]:
    return {name for name, row in rows.items() if row["mark"] == mark}


def slow_ops(path: Path) -> dict[str, dict[str, list[float]]]:
    """Calls and self time by name and step: one stack per thread, one event after another."""
    kept = ("cpu_op", "user_annotation", "cuda_runtime")
    events = [e for e in slow_events(path) if e.get("ph") == "X" and e.get("cat") in kept]
    windows = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith("ProfilerStep#"))
    own = {id(event): event["dur"] for event in events}
    open_of: dict[Any, list[Any]] = defaultdict(list)
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        stack = open_of[event["pid"], event["tid"]]
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
            stack.pop()
        if stack:
            own[id(stack[-1])] -= event["dur"]
        stack.append(event)
    found: dict[str, dict[str, list[float]]] = defaultdict(
        lambda: {"calls": [0.0] * len(windows), "self": [0.0] * len(windows)}
    )
    for event in events:
        for place, (begin, end) in enumerate(windows):
            if begin <= event["ts"] < end and not event["name"].startswith("ProfilerStep#"):
                found[shared_name(event["name"])]["calls"][place] += 1
                found[shared_name(event["name"])]["self"][place] += own[id(event)]
    return found


@pytest.mark.parametrize("pair", ["mlp", "linear", "split_stack", "matmul_add_4096_warm"])
def test_a_slow_script_finds_the_same(pair):
    paths = [SAMPLES / f"{pair}_{mode}_cpu.json.gz" for mode in ("eager", "compile")]
    eager, compiled = (load(str(path)) for path in paths)
    rows = changed(eager, compiled, unfold=True)
    slow = [slow_ops(path) for path in paths]
    assert {versionless_name(name) for name in rows} == {versionless_name(name) for name in {*slow[0], *slow[1]}}
    for name, row in rows.items():
        for letter, found in zip("ab", slow, strict=True):
            wanted = found.get(name, {"calls": [0], "self": [0]})
            assert row[f"calls_{letter}"] == median(wanted["calls"]), name
            assert row[f"self_cpu_{letter}_us"] == pytest.approx(median(wanted["self"]), abs=0.01), name


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.full
def test_a_step_has_the_numbers_of_the_ops_pane(name, shared_trace):
    trace = loaded(shared_trace(name))
    number = int(side(trace).number[0]) if side(trace).part_kind == "step" else None
    pane = {(row["name"], row["kind"]): row for row in ops(trace, number).rows()}
    table = op_changes(side(trace, str(number) if number is not None else "all"), side(trace, "all"), unfold=True)
    compared = 0
    for row in table.rows():
        kind = {"wait": "runtime"}.get(str(row["kind"]), row["kind"])
        wanted = pane.get((row["name"], kind))
        if wanted is None or row["kind"] == "wait":
            continue
        assert (row["calls_a"], row["self_cpu_a_us"]) == pytest.approx((wanted["calls"], wanted["self_cpu_us"]))
        assert row["cpu_a_us"] == pytest.approx(wanted["cpu_total_us"])
        compared += 1
    assert compared > 0.9 * (len(pane) - 3)


@pytest.mark.parametrize("name", ["mlp_eager", "mlp_train", "split_stack_eager"])
def test_folding_moves_time_and_loses_none(name):
    trace = loaded(SAMPLES / f"{name}_cpu.json.gz")
    folded, whole = (changed(trace, trace, "3", "4", unfold) for unfold in (False, True))
    assert len(folded) < len(whole)
    for column in ("self_cpu_a_us", "self_cpu_b_us"):
        total = sum(row[column] for row in whole.values())
        assert sum(row[column] for row in folded.values()) == pytest.approx(total)


def test_the_tutorials_mlp():
    rows = changed(tutorial.mlp(), tutorial.mlp(tutorial.COMPILED))
    assert marks(rows, "fused into") == {"aten::gelu", "aten::mul"}
    assert rows["aten::gelu"]["fused_into"] == tutorial.GEGLU
    assert rows["aten::linear"]["mark"] == rows["aten::matmul"]["mark"] == "gone"
    assert rows["aten::linear"]["folded"] == "aten::t, aten::transpose, aten::as_strided"
    assert rows["aten::linear"]["folded_change"] == "aten::t, aten::transpose, aten::as_strided gone"
    assert (rows["aten::mm"]["calls_a"], rows["aten::mm"]["calls_b"]) == (3, 3)
    compile_rows = {name for name, row in rows.items() if row["kind"] == "compile"}
    assert compile_rows == {
        "TorchDynamo Cache Lookup",
        "Torch-Compiled Region",
        "AOTDispatcher Runtime Wrapper Prologue",
        "Pregraph bytecode",
        "## Call CompiledFxGraph ##",
    }
    assert compile_rows <= marks(rows, "new")


def test_what_the_cpp_compiler_fused():
    eager, compiled = (loaded(SAMPLES / f"mlp_{mode}_cpu.json.gz") for mode in ("eager", "compile"))
    rows = changed(eager, compiled)
    assert marks(rows, "fused into") == {"aten::gelu", "aten::mul"}
    assert rows["aten::mul"]["fused_into"] == "graph_0_cpp_fused__unsafe_view_gelu_mul_0"


def test_compiled_beside_compiled_finds_its_rows():
    trace = loaded(SAMPLES / "mlp_compile_cpu.json.gz")
    rows = changed(trace, trace, "2", "3")
    assert not marks(rows, "gone") | marks(rows, "new")
    assert rows["## Call CompiledFxGraph ##"]["calls_b"] == 1


def two_runs(*names: str) -> Trace:
    events = [step(number, 1000 * number, 900) for number in (1, 2, 3)]
    for number in (1, 2, 3):
        events += [op(name, 1000 * number + 100 * place, 50) for place, name in enumerate(names)]
    return make_trace(events)


def test_generated_kernels_meet_where_only_their_place_in_the_module_differs():
    rows = changed(two_runs("triton_poi_fused_add_mul_3", "x"), two_runs("triton_poi_fused_add_mul_5", "x"))
    assert set(rows) == {"triton_poi_fused_add_mul", "x"}
    exact = changed(two_runs("triton_poi_fused_add_mul_3"), two_runs("triton_poi_fused_add_mul_3"))
    assert set(exact) == {"triton_poi_fused_add_mul_3"}


def test_views_fold_into_what_called_them_and_stand_alone_otherwise():
    trace = make_trace(
        [
            step(1, 0, 1000),
            op("aten::linear", 10, 100),
            op("aten::t", 20, 40),
            op("aten::transpose", 30, 20),
            op("aten::t", 200, 50),
            op("aten::transpose", 210, 20),
            op("aten::reshape", 300, 100),
            op("aten::clone", 310, 50),
        ]
    )
    rows = changed(trace, trace)
    assert rows["aten::linear"]["folded"] == "aten::t, aten::transpose"
    assert rows["aten::linear"]["self_cpu_a_us"] == pytest.approx(0.1)
    assert (rows["aten::t"]["calls_a"], rows["aten::t"]["self_cpu_a_us"]) == (1, pytest.approx(0.05))
    assert rows["aten::t"]["folded"] == "aten::transpose"
    assert "aten::transpose" not in rows
    assert {"aten::reshape", "aten::clone"} <= set(rows)
    unfolded = changed(trace, trace, unfold=True)
    assert (unfolded["aten::t"]["calls_a"], unfolded["aten::transpose"]["calls_a"]) == (2, 2)


def test_queries_fold_into_the_operator_that_asks():
    rows = changed(tutorial.matmul_add(), tutorial.matmul_add(tutorial.COMPILED))
    assert rows["aten::mm"]["folded"].startswith("cudaOccupancy")
    assert not any(name.startswith("cudaOccupancy") for name in rows)


def test_view_ops_at_another_rate_are_told():
    def program(count: int) -> Trace:
        inner = [op("aten::view", 20 + 10 * place, 5) for place in range(count)]
        return make_trace([step(1, 0, 1000), op("aten::linear", 10, 500), *inner])

    assert changed(program(3), program(1))["aten::linear"]["folded_change"] == "aten::view 3 → 1"


def test_a_wait_is_no_work_and_the_profilers_own_is_left_out():
    def program(wait: int) -> Trace:
        return make_trace(
            [
                step(1, 0, 100_000),
                launch(10, 5, 1),
                kernel("k", 50, 10, correlation=1),
                launch(100, wait, 2, "cudaStreamSynchronize"),
                launch(60_000, 30, 3),
                kernel("k", 60_050, 10, correlation=3),
                Event("cudaDeviceSynchronize", 90_000, 500, Kind.RUNTIME),
            ]
        )

    rows = changed(program(5000), program(100))
    assert rows["cudaStreamSynchronize"]["kind"] == "wait"
    assert "cudaDeviceSynchronize" not in rows


def test_annotations_and_operators_of_one_name_are_two_rows():
    trace = make_trace([step(1, 0, 1000), annotation("work", 10, 500), op("work", 600, 100)])
    table = op_changes(side(trace), side(trace))
    assert sorted(str(row["kind"]) for row in table.rows()) == ["annotation", "op"]


def test_what_changes_most_is_on_top_and_what_is_the_same_below():
    def program(**times: int) -> Trace:
        events = [step(number, 10_000 * number, 9_000) for number in (1, 2, 3)]
        for number in (1, 2, 3):
            clock = 10_000 * number
            for name, dur in times.items():
                events.append(op(name, clock, dur))
                clock += dur
        return make_trace(events)

    rows = changed(
        program(same=5000, better=300, worse=100, lost=50), program(same=5000, better=100, worse=1000, born=7)
    )
    assert list(rows) == ["worse", "better", "lost", "born", "same"]
    assert [row["mark"] for row in rows.values()] == ["slower", "faster", "gone", "new", "same"]
    assert [row["change_pct"] for row in rows.values()][:3] == pytest.approx([900, -200 / 3, -100])
    assert rows["born"]["change_pct"] is None


def test_rows_lead_to_a_slice_of_the_side_that_has_it():
    a, b = tutorial.mlp(), tutorial.mlp(tutorial.COMPILED)
    table = op_changes(side(a), side(b))
    assert table.slices is not None
    for row, at in zip(table.rows(), table.slices.tolist(), strict=True):
        trace = b if row["mark"] == "new" else a
        assert shared_name(trace.name_of(at)) == row["name"]


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("## Call CompiledFxGraph f57trjty6d3dozgozahcbhbhgr4koghrc7l ##", "## Call CompiledFxGraph ##"),
        ("Torch-Compiled Region: 0/0", "Torch-Compiled Region"),
        ("Torch-Compiled Region: 12/3", "Torch-Compiled Region"),
        ("TorchDynamo Cache Lookup", "TorchDynamo Cache Lookup"),
        ("AOTDispatcher Runtime Wrapper Prologue", "AOTDispatcher Runtime Wrapper Prologue"),
        ("CompiledFunctionBackward", "CompiledFunctionBackward"),
        ("autograd::engine::evaluate_function: CompiledFunctionBackward", None),
    ],
)
def test_machinery_of_the_compiler(name, shared):
    assert is_compile(name)
    assert shared_name(name) == (shared or name)


@pytest.mark.parametrize(
    ("name", "loose", "within"),
    [
        (
            "triton_poi_fused__unsafe_view_gelu_mul_0",
            "triton_poi_fused__unsafe_view_gelu_mul",
            {"aten::gelu", "aten::mul"},
        ),
        ("graph_0_cpp_fused__unsafe_view_gelu_mul_0", "cpp_fused__unsafe_view_gelu_mul", {"aten::gelu", "aten::mul"}),
        (
            "triton_per_fused_layer_norm_tanh_0_0d1d2d3d4d",
            "triton_per_fused_layer_norm_tanh",
            {"aten::layer_norm", "aten::tanh"},
        ),
        ("triton_poi_fused_addmm_relu_1", "triton_poi_fused_addmm_relu", {"aten::relu"}),
        ("triton_poi_fused_8", "triton_poi_fused_8", set()),
    ],
)
def test_names_of_generated_kernels(name, loose, within):
    assert is_generated(name)
    assert not is_compile(name)
    assert versionless_name(name) == loose
    assert ops_within(name) == within


@pytest.mark.parametrize("name", ["aten::mm", "Optimizer.step#AdamW.step", "my_fused_op", "triton_kernel_of_mine"])
def test_names_that_stay_as_they_are(name):
    assert shared_name(name) == versionless_name(name) == name
    assert not is_compile(name)
    assert not is_generated(name)
