"""The table of what changed on the GPU: its rows, their times over all parts, and the bytes that fusing saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.build import Event, make_trace, op, step
from tests.support.comparing.recording import Call, Work, record
from tests.support.comparing.small import fused, pointwise, product, programs, trace
from tests.support.comparing.tutorial import COMPILED, EAGER, FUSED, attention, linear, matmul_add, mlp
from tracetui.comparing.kernel_changes import KernelChanges, kernel_changes
from tracetui.comparing.noise import representative
from tracetui.comparing.side import side
from tracetui.model.table import Cell
from tracetui.model.trace import Kind, Trace

MB = 1_000_000
Row = dict[str, Cell]
MIRRORED = {
    "gone": "new",
    "new": "gone",
    "faster": "slower",
    "slower": "faster",
    "fused into": "split into",
    "split into": "fused into",
}


def changes(a: Trace, b: Trace, scopes: tuple[str, str] = ("", "")) -> KernelChanges:
    return kernel_changes(side(a, scopes[0]), side(b, scopes[1]))


def rows(a: Trace, b: Trace) -> list[Row]:
    return list(changes(a, b).table.rows())


def number(row: Row, name: str) -> float:
    value = row[name]
    assert isinstance(value, int | float)
    return value


class TestTheTutorial:
    def test_gelu_and_mul_are_one_kernel_and_a_hundred_megabytes_less(self) -> None:
        first, *others = rows(mlp(), mlp(COMPILED))
        assert (first["mark"], first["how"], first["calls_a"], first["calls_b"]) == ("fused into", "fused", 2, 1)
        assert first["op"] == "aten::gelu, aten::mul"
        assert first["name_b"] == "triton_poi_fused__unsafe_view_gelu_mul_0"
        assert number(first, "change_us") == pytest.approx(-59.6, abs=1)
        assert number(first, "change_pct") == pytest.approx(-40, abs=1)
        assert (number(first, "a_bytes"), number(first, "b_bytes")) == (251_658_240, 150_994_944)
        assert number(first, "change_bytes") == pytest.approx(-101 * MB, rel=0.01)
        assert first["change"] == "less"
        assert [(row["mark"], row["how"], row["name_a"] == row["name_b"]) for row in others] == [
            ("same", "same name", True)
        ] * 2

    def test_by_hand_it_is_the_same_story(self) -> None:
        table = changes(mlp(), mlp(FUSED)).table
        row = table.row(0)
        assert (row["mark"], row["how"], row["b_bytes"]) == ("fused into", "same place", 150_994_944)
        assert any("b_bytes" in columns for columns in table.doubts.values())

    def test_what_was_recorded_is_no_guess(self) -> None:
        assert changes(mlp(), mlp(COMPILED)).table.doubts == {}

    def test_without_shapes_bytes_are_null(self) -> None:
        row = rows(mlp(shapes=False), mlp(COMPILED, shapes=False))[0]
        assert (row["mark"], row["a_bytes"], row["b_bytes"], row["change_bytes"]) == ("fused into", None, None, None)

    def test_a_result_in_place_of_an_input_hides_a_third_of_the_bytes(self) -> None:
        """Two tensors are recorded where one of them is read and written; the operators tell of three."""
        within = [1024, 64]
        eager = trace(
            Call("aten::gelu", [within], ["float"], work=(Work("gelu_kernel", 9_000),)),
            Call("aten::mul", [within, within], ["float", "float"], work=(Work("mul_kernel", 9_000),)),
        )
        name = "triton_poi_fused_gelu_mul_0"
        compiled = trace(Call(name, [within, within], ["float", "float"], work=(Work(name, 9_000),)))
        row = rows(eager, compiled)[0]
        assert (row["a_bytes"], row["b_bytes"]) == (5 * 4 * 1024 * 64, 3 * 4 * 1024 * 64)

    def test_the_sum_in_the_product(self) -> None:
        found = {str(row["short_name"]): row for row in rows(matmul_add(), matmul_add(COMPILED))}
        assert {name: row["mark"] for name, row in found.items()} == {
            "add<bf16> vec4": "gone",
            "Memcpy DtoD (Device -> Device)": "new",
            "GEMM bf16 128x256x64 NN": "same",
        }

    def test_a_linear_layer_is_one_kernel_either_way(self) -> None:
        (row,) = rows(linear(), linear(COMPILED))
        assert (row["mark"], row["how"], row["calls_a"], row["calls_b"]) == ("same", "same name", 1, 1)

    def test_a_copy_less_in_place(self) -> None:
        first, *others = rows(attention("naive"), attention("in-place"))
        assert (first["mark"], first["name_a"]) == ("gone", "Memcpy DtoD (Device -> Device)")
        assert {row["mark"] for row in others} <= {"same", "cannot tell"}


class TestTimes:
    def made(self, *durations: Sequence[int], name: str = "some_kernel") -> Trace:
        """Steps that launch a kernel so often, for so long."""
        events: list[Event] = []
        correlation = 0
        for place, times in enumerate(durations):
            begin = 1_000_000 * place
            events += [step(place + 1, begin, 900_000), op("aten::exp", begin + 10, 800_000)]
            for order, dur in enumerate(times):
                correlation += 1
                moment = begin + 100 + 1_000 * order
                work = Call("aten::exp", work=(Work(name, dur),)).work[0]
                events.append(Event("cudaLaunchKernel", moment, 50, Kind.RUNTIME, correlation=correlation))
                lane = ("0", "stream 7")
                events.append(Event(work.name, moment + 500, work.dur, Kind.KERNEL, lane, correlation=correlation))
        return make_trace(events)

    def test_the_middle_of_all_parts_and_how_far_they_lie_apart(self) -> None:
        (row,) = rows(self.made([1_000], [3_000], [2_000]), self.made([5_000], [5_100], [5_050]))
        assert (row["a_us"], row["b_us"], row["noise_us"]) == (2.0, 5.05, 2.0)
        assert number(row, "change_us") == pytest.approx(3.05)
        assert (row["mark"], row["change"]) == ("slower", "more")

    def test_less_than_the_noise_cannot_be_told(self) -> None:
        (row,) = rows(self.made([1_001], [3_003], [2_000]), self.made([1_500], [1_600], [1_550]))
        assert (row["mark"], row["change"]) == ("cannot tell", "cannot tell")

    def test_of_one_part_the_noise_is_null(self) -> None:
        (row,) = rows(self.made([1_000]), self.made([4_000]))
        assert (row["mark"], row["noise_us"]) == ("slower", None)

    def test_a_part_with_more_calls_counts_with_its_mean(self) -> None:
        """Two of three steps launch it twice: a step with four calls of 1 µs has 2 µs for two."""
        a = self.made([1_000, 1_000], [1_000, 1_000, 1_000, 1_000], [1_100, 1_100])
        (row,) = changes(a, self.made([1_000, 1_000]), ("1:3", "")).table.rows()
        assert (row["calls_a"], row["calls_b"]) == (2, 2)
        assert row["a_us"] == 2.0
        assert number(row, "noise_us") == pytest.approx(0.2)

    def test_a_part_without_any_is_left_out(self) -> None:
        (row,) = rows(self.made([1_000], [1_000], []), self.made([1_000]))
        assert (row["a_us"], row["noise_us"], row["mark"]) == (1.0, 0.0, "same")

    def test_calls_that_stay_keep_their_own_times(self) -> None:
        """The first of two calls is fused away: what the second takes is not the mean of both."""
        slow, fast = pointwise("exp", dur=9_000), pointwise("exp", dur=1_000)
        between = product(64, 64, 64)
        found = rows(trace(slow, between, fast), trace(fused("triton_poi_fused_exp_0"), between, fast))
        kept = next(row for row in found if row["name_a"] == row["name_b"] == "exp_kernel")
        assert (kept["a_us"], kept["b_us"], kept["mark"]) == (1.0, 1.0, "same")


class TestRows:
    def test_more_calls_are_in_the_row_of_their_like(self) -> None:
        add = pointwise("add")
        (row,) = rows(trace(add), trace(add, add, add))
        assert (row["mark"], row["how"], row["calls_a"], row["calls_b"]) == ("slower", "more calls", 1, 3)
        assert row["change_us"] == pytest.approx(10)

    def test_another_size_that_is_gone_is_a_row_of_its_own(self) -> None:
        small, large = pointwise("add", (8, 8)), pointwise("add", (64, 64))
        found = {(row["mark"], row["calls_a"], row["calls_b"]) for row in rows(trace(small, large), trace(small))}
        assert found == {("same", 1, 1), ("gone", 1, 0)}

    def test_one_operator_in_one_generated_kernel_is_judged_by_time(self) -> None:
        (row,) = rows(trace(pointwise("exp", dur=9_000)), trace(fused("triton_poi_fused_exp_0")))
        assert (row["mark"], row["how"]) == ("faster", "same op, generated")

    def test_another_algorithm_is_one_row(self) -> None:
        call = Call("aten::cudnn_convolution", [[1, 3, 8, 8], [4, 3, 3, 3]], ["float"] * 2)
        before = trace(replace(call, work=(Work("pad", 1_000), Work("winograd", 8_000))))
        after = trace(replace(call, work=(Work("implicit", 4_000), Work("reduce", 500), Work("add_bias", 500))))
        (row,) = rows(before, after)
        assert (row["mark"], row["how"], row["calls_a"], row["calls_b"]) == ("faster", "same op and shapes", 2, 3)
        assert (row["name_a"], row["name_b"]) == ("pad + winograd", "implicit + reduce + add_bias")

    def test_what_changed_most_is_on_top_and_what_is_the_same_below(self) -> None:
        big, gone, new = pointwise("exp", dur=90_000), pointwise("add", dur=2_000), product(64, 8, 16)
        found = rows(trace(big, gone), trace(big, new))
        assert [row["mark"] for row in found] == ["new", "gone", "same"]

    def test_nothing_on_the_gpu(self) -> None:
        nothing = make_trace([step(1, 0, 100), op("aten::add", 5, 10)])
        assert len(changes(nothing, nothing).table) == 0
        (row,) = rows(nothing, trace(pointwise("add")))
        assert (row["mark"], row["a_us"], row["change_pct"]) == ("new", 0.0, None)

    def test_names_are_data(self) -> None:
        (row,) = rows(trace(pointwise("add", (), "[bold]x")), trace(pointwise("add", (), "[bold]x")))
        assert row["name_a"] == "[bold]x"


class TestProperties:
    @settings(max_examples=40)
    @given(programs(), st.integers(1, 3))
    @pytest.mark.full
    def test_every_activity_is_in_one_row_with_its_times_in_all_steps(
        self, both: tuple[list[Call], list[Call]], steps: int
    ) -> None:
        a, b = (make_trace(record("forward", program, steps, jitter=0.3)) for program in both)
        found = changes(a, b)
        for each, part, behind, calls, us in (
            (side(a), found.part_a, found.rows_a, "calls_a", "a_us"),
            (side(b), found.part_b, found.rows_b, "calls_b", "b_us"),
        ):
            work, parts = each.activities()
            mine = work[parts == part]
            assert Counter(np.concatenate([*behind, mine[:0]]).tolist()) == Counter(mine.tolist())
            assert found.table[calls].values.tolist() == list(map(len, behind))
            dur = each.trace.slices.dur
            in_parts = np.array([dur[work[parts == part]] for part in range(steps)])
            for place, its in enumerate(behind):
                middle = np.median(in_parts[:, np.isin(mine, its)].sum(axis=1)) / 1000
                assert found.table[us].values[place] == pytest.approx(middle)

    @pytest.mark.full
    @given(programs(), st.booleans())
    def test_swapping_the_sides_mirrors_the_table(self, both: tuple[list[Call], list[Call]], shapes: bool) -> None:
        a, b = trace(*both[0], shapes=shapes), trace(*both[1], shapes=shapes)
        assert Counter(map(told, rows(a, b))) == Counter(told(mirrored(row)) for row in rows(b, a))


def told(row: Row) -> tuple[Any, ...]:
    names = ("mark", "name_a", "name_b", "calls_a", "calls_b", "a_us", "b_us", "a_bytes", "b_bytes")
    return tuple(row[name] for name in names)


def mirrored(row: Row) -> Row:
    swapped = {f"{name}_{side}": row[f"{name}_{other}"] for name in ("name", "calls") for side, other in ("ab", "ba")}
    times = {f"{side}_{unit}": row[f"{other}_{unit}"] for unit in ("us", "bytes") for side, other in ("ab", "ba")}
    return {**row, **swapped, **times, "mark": MIRRORED.get(str(row["mark"]), row["mark"])}


def test_made_once() -> None:
    a, b = side(mlp()), side(mlp(COMPILED))
    assert kernel_changes(a, b) is kernel_changes(a, b)
    assert kernel_changes(a, b).part_a == representative(a)


def test_parts_of_one_trace() -> None:
    found = mlp(EAGER)
    marks = {row["mark"] for row in kernel_changes(side(found, "2"), side(found, "3")).table.rows()}
    assert marks <= {"same", "slower", "faster"}
