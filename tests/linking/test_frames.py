"""Python frames: who called, which line of the user, which module, and what seems to call and does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.support.autograd import ENGINE_THREAD, MAIN
from tests.support.build import Event, kernel, launch, make_trace, op
from tests.support.frames import frame, model
from tests.support.traces import loaded
from tracetui.linking.chains import chain
from tracetui.linking.frames import compiled_region, frames, is_own, module_paths
from tracetui.linking.links import links
from tracetui.model.trace import Kind, Trace


def row_of(trace: Trace, name: str) -> int:
    return int(np.flatnonzero(trace.slices.name == trace.names.find(name))[0])


def named(trace: Trace, rows: np.ndarray, name: str) -> str | None:
    row = int(rows[row_of(trace, name)])
    return trace.name_of(row) if row >= 0 else None


def test_an_op_and_its_kernel_have_caller_user_frame_and_module() -> None:
    trace = make_trace(model())
    found = frames(trace)
    for name in ("aten::linear", "gemm"):
        assert named(trace, found.caller, name) == "<built-in function linear>"
        assert named(trace, found.user, name) == "model.py(3): forward"
        assert module_paths(trace).of(row_of(trace, name)) == "GPT_0 / MLP_3"
    assert named(trace, found.user, "aten::zero_") == "train.py(9): step"
    assert module_paths(trace).of(row_of(trace, "aten::zero_")) == ""


def test_a_backward_kernel_is_of_the_module_of_its_forward_op() -> None:
    trace = make_trace(model())
    assert module_paths(trace).of(row_of(trace, "gemm_back")) == "backward of GPT_0 / MLP_3"
    assert named(trace, frames(trace).user, "gemm_back") == "model.py(3): forward"
    assert named(trace, frames(trace).caller, "gemm_back") is None


def test_a_forward_pass_that_is_computed_again_has_its_own_module() -> None:
    again = [
        Event("nn.Module: Checkpointed_1", 620, 50, Kind.PYTHON, ENGINE_THREAD),
        op("aten::relu", 625, 20, lane=ENGINE_THREAD),
    ]
    trace = make_trace([*model(), *again])
    assert module_paths(trace).of(row_of(trace, "aten::relu")) == "Checkpointed_1"


def test_a_c_call_that_never_returned_calls_nobody() -> None:
    events = [
        frame("train.py(9): step", 0, 1_000),
        frame("<built-in method lost>", 100, 900),
        frame("torch/x.py(1): f", 200, 100),
        op("aten::mm", 210, 50, lane=MAIN),
        op("aten::add", 400, 50, lane=MAIN),
        frame("<built-in method add>", 390, 100),
        op("aten::sub", 600, 50, lane=MAIN),
    ]
    trace = make_trace(events)
    assert named(trace, frames(trace).caller, "aten::mm") == "torch/x.py(1): f"
    assert named(trace, frames(trace).caller, "aten::add") == "<built-in method add>"
    assert named(trace, frames(trace).caller, "aten::sub") == "train.py(9): step"


def test_the_same_module_in_the_same_place_is_one_path() -> None:
    calls = [frame("nn.Module: A_0", at, 100) for at in (0, 200)]
    inner = [frame("nn.Module: B_0", at, 50) for at in (10, 210)]
    ops = [op(name, at, 5, lane=MAIN) for name, at in (("one", 20), ("two", 220))]
    trace = make_trace([*calls, *inner, *ops])
    paths = module_paths(trace)
    assert paths.id[row_of(trace, "one")] == paths.id[row_of(trace, "two")] >= 0
    assert paths.of(row_of(trace, "two")) == "A_0 / B_0"


@pytest.mark.parametrize(
    "name",
    [
        "train.py(3): main",
        "transformers/models/x.py(410): forward",
        "/tmp/ipykernel_12/3.py(1): <module>",
        "<ipython-input-2-af>(1): f",
        "my_torch/layers.py(2): f",
        "nn.Module: MLP_0",
    ],
)
def test_the_users_code_is_told_from_libraries(name: str) -> None:
    assert is_own(name)


@pytest.mark.parametrize(
    "name",
    [
        "torch/nn/modules/linear.py(2): forward",
        "/opt/env/lib/python3.11/site-packages/torch/_tensor.py(1): backward",
        "C:\\env\\Lib\\site-packages\\torch\\_tensor.py(1): backward",
        "<frozen os>(808): getenv",
        "<string>(1): launcher",
        "<built-in method matmul of type object at 0x7f>",
        "contextlib.py(81): inner",
        "/tmp/torchinductor_me/xy/cxy.py(107): call",
        "multiprocessing/process.py(108): run",
    ],
)
def test_libraries_are_told_from_the_users_code(name: str) -> None:
    assert not is_own(name)


def test_the_innermost_compiled_region_is_named() -> None:
    trace = make_trace(
        [
            Event("Torch-Compiled Region: 0/0", 0, 500, Kind.ANNOTATION, MAIN),
            op("CompiledFunction", 10, 400, lane=MAIN),
            op("triton_poi_fused_add_0", 50, 50, lane=MAIN),
            launch(60, 5, 1, lane=MAIN),
            kernel("triton_poi_fused_add", 90, 10, correlation=1),
            op("aten::relu", 600, 5, lane=MAIN),
        ]
    )
    found = compiled_region(trace, chain(trace, row_of(trace, "triton_poi_fused_add")))
    assert trace.name_of(found) == "CompiledFunction"
    assert compiled_region(trace, chain(trace, row_of(trace, "aten::relu"))) == -1


def test_a_trace_without_frames_has_none() -> None:
    trace = make_trace([op("aten::mm", 0, 10)])
    assert frames(trace).caller.tolist() == [-1]
    assert module_paths(trace).of(0) == ""


def up(trace: Trace, row: int, wanted: Callable[[str], bool]) -> int:
    """The first frame above a slice whose name is wanted, by climbing."""
    above = int(trace.slices.parent[row])
    while above >= 0:
        if trace.slices.kind[above] == Kind.PYTHON and wanted(trace.name_of(above)):
            return above
        above = int(trace.slices.parent[above])
    return -1


@pytest.mark.full
def test_a_real_trace_agrees_with_climbing_from_each_launch(shared_trace: Callable[[str], Path]) -> None:
    trace = loaded(shared_trace("d06_h100_stack_mem.json.gz"))
    found, paths = frames(trace), module_paths(trace)
    kernels = links(trace).gpu[::7].tolist()
    for row in kernels:
        launched = int(links(trace).launch[row])
        assert found.caller[row] == up(trace, launched, lambda name: True)
        assert found.user[row] == up(trace, launched, lambda name: is_own(name) and not name.startswith("nn.Module"))
        modules, above = [], launched
        while (above := up(trace, above, lambda name: name.startswith("nn.Module: "))) >= 0:
            modules.append(trace.name_of(above).removeprefix("nn.Module: "))
        assert paths.of(row) == " / ".join(reversed(modules))


def test_the_profilers_own_ids_of_callers_agree_with_time(shared_trace: Callable[[str], Path]) -> None:
    trace = loaded(shared_trace("d06_h100_stack_mem.json.gz"))
    rows = trace.slices.of_kind(Kind.PYTHON)
    own, parents = trace.args_of(rows, ["Python id", "Python parent id"])
    row_by_id = dict(zip(own, rows.tolist(), strict=True))
    expected = [row_by_id.get(parent, -1) for parent in parents]
    assert differing(frames(trace).caller[rows], expected) == 0
    assert len(rows) == 65_313


def differing(found: np.ndarray, expected: Sequence[int]) -> int:
    return int((found != np.array(expected)).sum())
