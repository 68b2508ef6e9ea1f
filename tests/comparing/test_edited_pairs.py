"""A real trace beside itself with one thing changed: that is found, and nothing else is claimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.comparing import edited
from tests.support.comparing.edited import Edit, Recording
from tests.support.traces import loaded
from tracetui.comparing.kernel_changes import KernelChanges, kernel_changes
from tracetui.comparing.match import MATCH_KINDS, match
from tracetui.comparing.noise import representative
from tracetui.comparing.side import Side, side
from tracetui.model.table import Cell
from tracetui.reading.load import load

RESNET, EAGER_H100 = "d01_v100_torch1.9_6steps_mem_occ.json.gz", "d06_h100_stack_mem.json.gz"
MOE, NCCL = "d08_b200_cuda13_ep_moe.json", "d03_v100_2rank_5steps_mem_occ_nccl.json.gz"
COMPILED, GRAPH, STREAMS = "d09_rtx3090_compile_triton.json", "d10_cudagraph_stack.json", "d11_streams_4000_occ.json.gz"
MI300 = "d07_mi300x_8rank_3steps_stack.json.gz"
PUZZLER = "puzzlers/fusion_mwe_trace.json.gz"
QUIET = ("same", "cannot tell")
FULL = pytest.mark.full

Row = dict[str, Cell]
Shared = Callable[[str], Path]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Side]:
    """A function from a trace to its side, which is read once for all that it is put beside."""
    folder = tmp_path_factory.mktemp("untouched")

    @lru_cache
    def read(path: Path) -> Side:
        whole = folder / f"{path.name}.json"
        whole.write_bytes(edited.slim(path))
        return side(load(str(whole)))

    return read


Beside = Callable[[str, Edit], tuple[Side, Side]]


@pytest.fixture
def beside(shared_trace: Shared, untouched: Callable[[Path], Side], tmp_path: Path) -> Beside:
    """A function from a trace and an edit to the sides before and after it."""

    def sides(name: str, edit: Edit) -> tuple[Side, Side]:
        path = shared_trace(name)
        recording = Recording.of(path)
        edit(recording)
        return untouched(path), side(load(str(recording.write(tmp_path / "edited.json"))))

    return sides


def rows_of(changes: KernelChanges) -> list[Row]:
    return list(changes.table.rows())


def claims(rows: list[Row]) -> list[Row]:
    """Rows that say that something changed: a time, a name, a number of calls, a shape."""
    return [
        row
        for row in rows
        if row["mark"] not in QUIET or row["how"] != "same name" or abs(float(row["change_us"] or 0)) > 1e-6
    ]


def check_whole(a: Side, b: Side, changes: KernelChanges) -> None:
    """Every activity of both parts is in one row, and nothing else is."""
    for each, part, behind in ((a, changes.part_a, changes.rows_a), (b, changes.part_b, changes.rows_b)):
        rows, parts = each.activities()
        assert sorted(np.concatenate([*behind, rows[:0]]).tolist()) == sorted(rows[parts == part].tolist())
    for column, behind in (("calls_a", changes.rows_a), ("calls_b", changes.rows_b)):
        assert changes.table[column].values.tolist() == list(map(len, behind))


@pytest.mark.parametrize(
    "name",
    [MOE, COMPILED, GRAPH, *(pytest.param(name, marks=FULL) for name in (EAGER_H100, STREAMS, MI300, RESNET, NCCL))],
)
@pytest.mark.full
def test_a_trace_beside_itself_saves_nothing(beside: Beside, name: str) -> None:
    a, b = beside(name, lambda _: None)
    changes = kernel_changes(a, b)
    assert claims(rows_of(changes)) == []
    check_whole(a, b, changes)
    found = match(a, representative(a), b, representative(b))
    assert np.array_equal(found.partner, np.arange(len(found.rows_a)))


@pytest.mark.parametrize("name", [pytest.param(RESNET, marks=FULL), MOE])
def test_clocks_ids_and_demanglers_do_not_matter(beside: Beside, name: str) -> None:
    def edit(recording: Recording) -> None:
        for each in (edited.shift(5_000.0), edited.renumber(40, 1 << 24), edited.spell_otherwise):
            each(recording)

    a, b = beside(name, edit)
    assert all(row["mark"] in QUIET and row["how"] == "same name" for row in rows_of(kernel_changes(a, b)))


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        pytest.param(RESNET, "threshold_kernel_impl", marks=FULL),
        pytest.param(EAGER_H100, "sigmoid_kernel_cuda", marks=FULL),
        (MOE, "RadixSortOnesweep"),
        pytest.param(MI300, "Cijk", marks=FULL),
    ],
)
def test_a_kernel_of_another_name_is_the_same_work(beside: Beside, name: str, kernel: str) -> None:
    a, b = beside(name, edited.rename(kernel, "another_kernel"))
    changes = kernel_changes(a, b)
    found = claims(rows_of(changes))
    assert found
    assert all(kernel in str(row["name_a"]) and row["name_b"] == "another_kernel" for row in found)
    assert all(row["mark"] in QUIET and row["change_us"] == 0 for row in found)
    assert {row["how"] for row in found} <= {"same op and shapes", "same op and place"}
    check_whole(a, b, changes)


@FULL
def test_a_new_name_beside_one_that_is_gone(beside: Beside) -> None:
    """Two products stood side by side: the one that is left is not both of them."""
    gone, old = "volta_sgemm_64x64_tn", "volta_sgemm_64x64_nn"

    def edit(recording: Recording) -> None:
        for each in (edited.remove(gone), edited.rename(old, "another_sgemm")):
            each(recording)

    a, b = beside(NCCL, edit)
    changes = kernel_changes(a, b)
    lost, *others = claims(rows_of(changes))
    assert (lost["mark"], lost["name_a"], lost["calls_a"], lost["calls_b"]) == ("gone", gone, 11, 0)
    assert {(row["name_a"], row["name_b"], row["how"]) for row in others} == {
        (old, "another_sgemm", "same op and place")
    }
    assert sum(int(str(row["calls_b"])) for row in others) == 31
    assert all(row["mark"] in QUIET and row["calls_a"] == row["calls_b"] for row in others)
    check_whole(a, b, changes)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        (MOE, "RadixSortOnesweep"),
        pytest.param(RESNET, "threshold_kernel_impl", marks=FULL),
        pytest.param(EAGER_H100, "gelu", marks=FULL),
    ],
)
def test_a_slower_kernel(shared_trace: Shared, beside: Beside, name: str, kernel: str) -> None:
    every = Recording.of(shared_trace(name)).gpu()
    wanted = next(event["name"] for event in every if kernel.lower() in event["name"].lower())
    a, b = beside(name, edited.slow_down(wanted, 1.3))
    found = claims(rows_of(kernel_changes(a, b)))
    assert found
    for row in found:
        assert row["name_a"] == row["name_b"] == wanted
        assert (row["mark"], row["how"]) == ("slower", "same name")
        assert row["change_pct"] == pytest.approx(30, abs=0.1)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        (MOE, "sigmoid"),
        pytest.param(RESNET, "threshold_kernel_impl", marks=FULL),
        pytest.param(NCCL, "Memcpy DtoD", marks=FULL),
    ],
)
def test_a_kernel_that_is_gone(beside: Beside, name: str, kernel: str) -> None:
    a, b = beside(name, edited.remove(kernel))
    changes = kernel_changes(a, b)
    found = claims(rows_of(changes))
    assert found
    assert {row["mark"] for row in found} == {"gone"}
    assert all(kernel in str(row["name_a"]) and row["name_b"] is None for row in found)
    assert all(row["calls_b"] == 0 == row["b_us"] and row["change_us"] == -float(str(row["a_us"])) for row in found)
    check_whole(a, b, changes)


@pytest.mark.parametrize(
    ("name", "kernel"), [pytest.param(EAGER_H100, "sigmoid_kernel_cuda", marks=FULL), (MOE, "RadixSortOnesweep")]
)
def test_fewer_and_more_calls_are_one_row(beside: Beside, name: str, kernel: str) -> None:
    for edit, how, sign in ((edited.remove(kernel, 2), "fewer calls", 1), (edited.double(kernel), "more calls", -1)):
        a, b = beside(name, edit)
        changes = kernel_changes(a, b)
        found = [row for row in rows_of(changes) if kernel in str(row["name_a"])]
        assert {row["how"] for row in found} == {how}
        for row in found:
            calls = int(str(row["calls_a"])), int(str(row["calls_b"]))
            assert calls[1] == (calls[0] * 2 if sign < 0 else calls[0] // 2)
            assert float(str(row["change_us"])) * sign < 0
        assert [row for row in claims(rows_of(changes)) if kernel not in str(row["name_a"])] == []
        check_whole(a, b, changes)


@pytest.mark.full
def test_what_was_fused_is_beside_its_kernel(shared_trace: Shared, beside: Beside) -> None:
    generated = "triton_per_fused_add_native_layer_norm_3"
    first, second = "CUDAFunctor_add<c10::BFloat16>", "vectorized_layer_norm_kernel"
    pairs = Counter(pairwise(neighbours(shared_trace(EAGER_H100))))
    expected = sum(count for (one, two), count in pairs.items() if first in one and second in two)
    a, b = beside(EAGER_H100, edited.fuse(first, second, generated))
    changes = kernel_changes(a, b)
    (row,) = [row for row in rows_of(changes) if row["mark"] == "fused into"]
    assert (row["name_b"], row["calls_a"], row["calls_b"]) == (generated, 2 * expected, expected)
    assert first in str(row["name_a"]) and second in str(row["name_a"])
    assert row["op"] == "aten::add, aten::native_layer_norm"
    assert [each for each in claims(rows_of(changes)) if each != row and each["mark"] not in QUIET] == []
    check_whole(a, b, changes)


def neighbours(path: Path) -> list[str]:
    return [event["name"] for event in Recording.of(path).gpu()]


def test_other_shapes_are_told(beside: Beside) -> None:
    a, b = beside(EAGER_H100, edited.change_shapes("sigmoid_kernel_cuda", 2))
    found = claims(rows_of(kernel_changes(a, b)))
    assert found
    assert all("sigmoid" in str(row["name_a"]) and row["how"] == "same name, other shapes" for row in found)
    assert all(row["change_us"] == 0 for row in found)


@pytest.mark.full
def test_another_order_changes_nothing(beside: Beside) -> None:
    a, b = beside(EAGER_H100, edited.swap("sigmoid_kernel_cuda", "MulFunctor"))
    moved = match(a, representative(a), b, representative(b))
    assert (np.diff(moved.partner) < 0).any()
    assert {MATCH_KINDS[how] for how in moved.how.tolist()} == {"same name"}
    assert all(row["mark"] in QUIET for row in rows_of(kernel_changes(a, b)))


TOGETHER = "layer_norm<f32>, tanh<f32> vec4 → fused per"
FUSED = ("fused into", "fused")
CAT = {"cat<f32>": ("gone", None, 1, 0, 13.0, 0.0)}
RELU = {"clamp<f32> vec4 → fused(relu) #1": ("same", "same op, generated", 1, 1, 3.0, 3.0)}
AS_BEFORE = {
    "GEMV f32 T": ("same", "same name", 1, 1, 8.0, 8.0),
    "copy<f32> strided": ("same", "same name", 1, 1, 4.0, 4.0),
}
REGIONS: list[tuple[str, str, dict[str, tuple[Any, ...]]]] = [
    (
        "unfused[1]",
        "fused[1]",
        {
            "tanh<f32> vec4": ("faster", "fewer calls", 16, 1, 64.0, 8.0),
            "layer_norm<f32>": ("faster", "fewer calls", 16, 1, 96.0, 43.0),
            "clamp<f32> vec4": ("same", "same name", 1, 1, 3.0, 3.0),
            **CAT,
        },
    ),
    ("unfused[1]", "unfused[2]", {f"{TOGETHER}(layer_norm,tanh) #0": (*FUSED, 32, 16, 160.0, 80.0)} | CAT | RELU),
    ("fused[1]", "fused[2]", {f"{TOGETHER}(Linear,layer_norm,tanh,…) #0": (*FUSED, 2, 1, 51.0, 11.0)} | RELU),
]


@pytest.mark.parametrize(("before", "after", "expected"), REGIONS)
def test_the_puzzle_of_one_trace(
    shared_trace: Shared, before: str, after: str, expected: dict[str, tuple[Any, ...]]
) -> None:
    trace = loaded(shared_trace(PUZZLER))
    a, b = side(trace, before), side(trace, after)
    changes = kernel_changes(a, b)
    told = ("mark", "how", "calls_a", "calls_b", "a_us", "b_us")
    found = {str(row["short_name"]): tuple(row[name] for name in told) for row in rows_of(changes)}
    assert found == expected | AS_BEFORE
    check_whole(a, b, changes)
