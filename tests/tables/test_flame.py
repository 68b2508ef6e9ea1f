"""The flame tree: names that share a row, and sums that are those of Kernels, Ops, Modules and Gaps."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from tests.support.build import annotation, kernel, launch, make_trace, op, python, step
from tests.support.frames import model
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.linking.placement import step_labels
from tracetui.model.intervals import Part, TimeRange
from tracetui.model.table import Table
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.tables.flame import GROUPINGS, shared_beginning, time_columns

D03 = "d03_v100_2rank_5steps_mem_occ_nccl.json.gz"
D06 = "d06_h100_stack_mem.json.gz"
D10 = "d10_cudagraph_stack.json"


def flame(trace: Trace, part: Part | None = None, by: str | None = None) -> Table:
    return PANES["flame"].build(trace, part, by)


def times(table: Table) -> dict[str, float]:
    """The time of each path."""
    return dict(zip(map(str, (row["path"] for row in table.rows())), time_columns(table)[0].values, strict=True))


def layers(count: int = 3) -> Trace:
    """A step in which a model calls layers of one class, each with a launch; the last kernel has no operator."""
    events = [step(1, 0, 9_000), python("nn.Module: TinyModel_0", 100, 8_000)]
    for layer in range(count):
        at = 200 + 1_000 * layer
        events += [
            python(f"nn.Module: TinyLayer_{layer}", at, 800),
            op("aten::linear", at + 10, 500),
            op("aten::mm", at + 20, 400),
            launch(at + 30, 50, layer + 1),
            kernel("gemm", at + 300, 100 * (layer + 1), correlation=layer + 1),
        ]
    events += [python("nn.Module: TinyHead_0", 7_000, 100), launch(7_010, 5, 99)]
    return make_trace([*events, kernel("loss", 7_100, 50, correlation=99)])


def test_layers_of_one_class_share_a_row_without_what_all_class_names_begin_with() -> None:
    table = flame(layers(), 1)
    assert times(table) == {
        "step 1": 0.65,
        "step 1;Model": 0.65,
        "step 1;Model;Layer": 0.6,
        "step 1;Model;Layer;aten::linear": 0.6,
        "step 1;Model;Layer;aten::linear;aten::mm": 0.6,
        "step 1;Model;Layer;aten::linear;aten::mm;gemm": 0.6,
        "step 1;Model;Head": 0.05,
        "step 1;Model;Head;loss": 0.05,
    }
    layer = table.row(2)
    assert (layer["merged"], layer["calls"]) == (3, 3) and layer["pct"] == pytest.approx(100 * 0.6 / 0.65)


def test_a_row_leads_to_its_longest_slice() -> None:
    trace = layers()
    gpu, cpu = flame(trace, 1).slices, flame(trace, 1, "cpu").slices
    assert gpu is not None and cpu is not None
    starts = trace.slices.start[gpu]
    assert starts.tolist()[:3] == [2_500] * 3, "the longest kernel"
    names = [trace.name_of(int(row)) for row in cpu]
    assert "nn.Module: TinyLayer_0" in names and "aten::mm" in names


def test_what_is_below_no_module_keeps_its_operators_and_annotations() -> None:
    events = [
        annotation("Optimizer.step", 0, 500),
        op("aten::add_", 10, 100),
        launch(20, 5, 1),
        kernel("add", 200, 30, correlation=1),
        launch(600, 5, 2),
        kernel("lone", 700, 7, correlation=2),
    ]
    assert times(flame(make_trace(events))) == {
        "whole trace": 0.037,
        "whole trace;Optimizer.step": 0.03,
        "whole trace;Optimizer.step;aten::add_": 0.03,
        "whole trace;Optimizer.step;aten::add_;add": 0.03,
        "whole trace;lone": 0.007,
    }


def test_a_backward_kernel_is_below_the_module_of_its_forward_operator() -> None:
    paths = times(flame(make_trace(model())))
    node = "whole trace;GPT;MLP;autograd::engine::evaluate_function: LinearBackward0;LinearBackward0;gemm_back"
    assert paths[node] == 0.01
    assert paths["whole trace;GPT;MLP;aten::linear;gemm"] == 0.01


def test_a_module_between_an_operator_and_its_launch_keeps_both() -> None:
    events = [
        op("compiled", 0, 500),
        python("nn.Module: Net_0", 10, 400),
        launch(20, 5, 1),
        kernel("gemm", 200, 30, correlation=1),
    ]
    assert times(flame(make_trace(events)))["whole trace;Net;compiled;gemm"] == 0.03


def test_names_cannot_break_a_path() -> None:
    trace = make_trace([op("a;b\nc", 0, 9), launch(1, 2, 1), kernel("k", 20, 5, correlation=1)])
    assert list(times(flame(trace)))[-1] == "whole trace;a,b c;k"


def test_the_first_word_of_most_classes_is_left_out_and_no_other() -> None:
    assert shared_beginning(["GPT2Model", "GPT2Block", "GPT2MLP", "Linear", "LayerNorm"]) == "GPT2"
    assert shared_beginning(["BertLayer", "BertModel", "Linear"]) == ""
    trace = make_trace([python(f"nn.Module: TinyNet{name}_0", 10 * at, 9) for at, name in enumerate("ABC")])
    assert "whole trace;NetA" in times(flame(trace, None, "cpu"))


def self_times(table: Table, column: str) -> dict[str, float]:
    times: dict[str, float] = defaultdict(float)
    for row in table.rows():
        times[str(row["name"])] += float(str(row[column] or 0))
    return times


def own_by_name(table: Table, kinds: tuple[str, ...]) -> dict[str, float]:
    """The time of the kernels right below each name."""
    stack: list[str] = []
    times: dict[str, float] = defaultdict(float)
    for row in table.rows():
        stack = [*stack[: int(str(row["depth"]))], str(row["tree"]).strip()]
        if row["kind"] in kinds and len(stack) > 1:
            times[stack[-2]] += float(str(row["gpu_us"]))
    return times


def check_sums(trace: Trace, part: Part | None) -> None:
    """Compare every grouping with the panes that have the same numbers."""
    modules, ops = PANES["modules"].build(trace, part), PANES["ops"].build(trace, part)
    gpu = within_kernels(trace, part)
    for by, (rows, measure) in GROUPINGS.items():
        table = flame(trace, part, by)
        total, own = (column.values.astype(float) for column in time_columns(table))
        assert own.sum() == pytest.approx(total[0]), by
        if total[0] <= 0:
            continue
        if measure == "gpu" and "gpu_us" in table:
            assert total[0] == pytest.approx(gpu), by
            if len(modules):
                assert total[0] == pytest.approx(modules["own_gpu_us"].values.sum()), by
            if rows != "frame":
                found = own_by_name(table, ("kernel", "memcpy", "memset"))
                for name, spent in self_times(ops, "self_device_us").items():
                    assert found[name] == pytest.approx(spent, abs=0.01), (by, name)
        elif measure == "idle" and len(modules):
            assert total[0] == pytest.approx(modules["idle_us"].values[modules["depth"].values == 0].sum()), by
        elif measure == "cpu" and rows == "op":
            assert total[0] == pytest.approx(ops["self_cpu_us"].values.sum())
            by_name: dict[str, float] = defaultdict(float)
            for row in table.rows():
                by_name[str(row["tree"]).strip()] += float(str(row["own_cpu_us"]))
            for row in filter(lambda row: row["kind"] in ("op", "runtime"), ops.rows()):
                assert by_name[str(row["name"])] == pytest.approx(row["self_cpu_us"], abs=0.01), row["name"]


def within_kernels(trace: Trace, part: Part | None) -> float:
    table = PANES["kernels"].build(trace, part, by="family")
    return float(table["total_us"].values.sum())


def parts(trace: Trace) -> list[Part | None]:
    begin, end = trace.window
    return [None, *step_labels(trace)[:1], TimeRange(begin + (end - begin) // 3, begin + (end - begin) // 2)]


@pytest.mark.parametrize("made", [layers(), make_trace(model())], ids=["layers", "backward"])
@pytest.mark.full
def test_sums_are_those_of_the_other_panes(made: Trace) -> None:
    for part in parts(made):
        check_sums(made, part)


@pytest.mark.parametrize("name", ["mlp_train_cpu", "combined_compile_cpu"])
def test_sums_of_samples_without_a_gpu_are_those_of_ops(name: str) -> None:
    trace = loaded(SAMPLES / f"{name}.json.gz")
    assert "cpu_us" in flame(trace), "what has no GPU has its time on the CPU"
    for part in parts(trace):
        check_sums(trace, part)


@pytest.mark.parametrize("name", [D03, D06, D10])
@pytest.mark.full
def test_sums_of_real_traces_are_those_of_the_other_panes(shared_trace: Any, name: str) -> None:
    trace = loaded(shared_trace(name))
    for part in parts(trace):
        check_sums(trace, part)


def test_totals_of_modules_are_those_of_the_modules_pane(shared_trace: Any) -> None:
    trace = loaded(shared_trace(D06))
    table, modules = flame(trace), PANES["modules"].build(trace)
    encoders = [row for row in modules.rows() if re.search(r"Vision.*EncoderLayer_\d+$", str(row["path"]))]
    found = [row for row in table.rows() if str(row["tree"]).strip() == "EncoderLayer"]
    largest = max(found, key=lambda row: float(str(row["gpu_us"])))
    assert (largest["merged"], len(encoders)) == (24, 24)
    assert largest["gpu_us"] == pytest.approx(sum(float(str(row["gpu_us"])) for row in encoders))
    assert np.all(np.diff([row["gpu_us"] for row in table.rows() if row["depth"] == 1]) <= 0), "largest first"
