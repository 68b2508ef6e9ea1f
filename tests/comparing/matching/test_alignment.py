"""What matching is made of: sizes of problems, order of launch, posts and places, pairs of equal keys, parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.comparing.small import together
from tracetui.comparing.fusing import activity_classes, problem
from tracetui.comparing.match import alignment, even_pairs, in_launch_order, unequal_pairs
from tracetui.comparing.noise import representative
from tracetui.comparing.side import side
from tracetui.model.trace import Kind, Trace
from tracetui.operators.key_averages import Signature

CONVOLVED, SDPA = [[1, 3, 8, 8], [4, 3, 3, 3]], "aten::_scaled_dot_product_flash_attention"


class TestProblems:
    @pytest.mark.parametrize(
        ("op", "dims", "other", "others", "same"),
        [
            ("aten::mm", [[8, 4], [4, 2]], "aten::addmm", [[2], [8, 4], [4, 2]], True),
            ("aten::mm", [[8, 4], [4, 2]], "aten::mm", [[2, 4], [4, 8]], True),
            ("aten::mm", [[8, 4], [4, 2]], "aten::mm", [[8, 2], [2, 4]], False),
            ("aten::bmm", [[1, 8, 4], [1, 4, 2]], "aten::mm", [[8, 4], [4, 2]], True),
            ("aten::bmm", [[3, 8, 4], [3, 4, 2]], "aten::mm", [[8, 4], [4, 2]], False),
            ("aten::mv", [[8, 4], [4]], "aten::mm", [[8, 4], [4, 1]], True),
            ("aten::cudnn_convolution", CONVOLVED, "aten::convolution", CONVOLVED, True),
            ("aten::_flash_attention_forward", [[2, 9, 4, 8]] * 3, SDPA, [[2, 4, 9, 8]] * 3, True),
        ],
    )  # fmt: skip
    def test_sizes_compare_across_operators(
        self, op: str, dims: list[list[int]], other: str, others: list[list[int]], same: bool
    ) -> None:
        one, two = (
            problem(name, Signature(tuple(map(tuple, sizes)), ())) for name, sizes in ((op, dims), (other, others))
        )
        assert one
        assert (one == two) == same

    def test_what_is_no_product_has_no_size(self) -> None:
        assert problem("aten::add", Signature(((8, 4), (8, 4)), ())) == ""
        assert problem("aten::mm", Signature(((8, 4), (5, 2)), ())) == ""
        assert problem("aten::mm", Signature((), ())) == ""


class TestOrder:
    def test_work_without_a_launch_comes_after_what_its_stream_ran_before(self) -> None:
        found = make_trace(
            [
                launch(0, 5, 1),
                launch(10, 5, 2),
                kernel("first", 100, 10, correlation=1),
                kernel("lost", 120, 10),
                kernel("second", 140, 10, correlation=2),
            ]
        )
        rows = found.slices.of_kind(Kind.KERNEL)[::-1]
        assert [found.name_of(row) for row in in_launch_order(found, rows)] == ["first", "lost", "second"]

    def test_streams_run_late_and_launches_tell_the_order(self) -> None:
        found = make_trace(
            [
                launch(0, 5, 1),
                launch(10, 5, 2),
                kernel("first", 300, 10, correlation=1),
                kernel("second", 100, 10, "stream 8", correlation=2),
            ]
        )
        assert [found.name_of(row) for row in in_launch_order(found, found.slices.of_kind(Kind.KERNEL))] == [
            "first",
            "second",
        ]

    def test_a_graph_has_no_operators_of_its_own(self) -> None:
        def replay(*names: str) -> Trace:
            return make_trace(
                [
                    step(1, 0, 1_000),
                    op("aten::whatever", 5, 100),
                    launch(10, 50, 1, "cudaGraphLaunch"),
                    *(kernel(name, 100 + 20 * place, 10, correlation=1) for place, name in enumerate(names)),
                ]
            )

        found = activity_classes(replay("a", "b"))
        assert {work.op for work in found.known} == {""}
        assert together(replay("a", "b", "a"), replay("b", "a", "a")).partner.tolist() == [1, 0, 2]


class TestRepresentative:
    def made(self, *steps: Sequence[tuple[str, int]]) -> Trace:
        events: list[Event] = []
        for number, kernels in enumerate(steps):
            begin = 10_000 * number
            events.append(step(number + 1, begin, 9_000))
            for place, (name, dur) in enumerate(kernels):
                correlation = 100 * number + place + 1
                events.append(launch(begin + 100 * (place + 1), 50, correlation))
                events.append(kernel(name, begin + 1_000 * (place + 1), dur, correlation=correlation))
        return make_trace(events)

    def test_the_step_of_the_middle_period_of_those_that_are_alike(self) -> None:
        """Not that of the middle GPU time, which is the fourth: the pane of steps lists periods."""
        found = self.made([("a", 50)], [("a", 10), ("b", 900)], [("a", 30)], [("a", 40)])
        assert representative(side(found)) == 2

    def test_without_a_gpu_the_middle_duration(self) -> None:
        found = make_trace(
            [step(1, 0, 50), step(2, 100, 20), step(3, 200, 30), *(op("x", start, 5) for start in (5, 105, 205))]
        )
        assert representative(side(found)) == 2

    def test_all_different(self) -> None:
        assert representative(side(self.made([("a", 50)], [("b", 10)], [("c", 30)]))) == 1


class TestPlaces:
    def test_one_that_moved_does_not_hide_the_others(self) -> None:
        moved = np.array([9, *range(9)])
        found = alignment(np.arange(10), moved, 10, 10)
        assert found.segment_a.tolist()[1:] == list(range(1, 10))
        assert found.segment_b.tolist()[:9] == list(range(1, 10))

    def test_both_sides_have_one_scale(self) -> None:
        found = alignment(np.array([2, 5]), np.array([10, 11]), 8, 14)
        assert found.a[[2, 5]].tolist() == found.b[[10, 11]].tolist() == [1.0, 2.0]
        assert found.segment_a.tolist() == [0, 0, 1, 1, 1, 2, 2, 2]

    def test_nothing_in_common_and_nothing_at_all(self) -> None:
        none = np.empty(0, np.int64)
        assert alignment(none, none, 3, 0).segment_a.tolist() == [0, 0, 0]

    @given(st.lists(st.integers(0, 40), max_size=30, unique=True), st.randoms())
    def test_swapping_the_sides_swaps_the_places(self, b: list[int], random: object) -> None:
        a = np.arange(len(b))
        one, two = alignment(a, np.array(b, np.int64), 41, 41), alignment(np.array(b, np.int64), a, 41, 41)
        assert np.array_equal(one.a, two.b)
        assert np.array_equal(one.b, two.a)


class TestPairing:
    @given(st.lists(st.integers(-1, 5), max_size=30), st.lists(st.integers(-1, 5), max_size=30))
    def test_as_many_pairs_as_there_can_be_in_order(self, a: list[int], b: list[int]) -> None:
        one, two = np.array(a, np.int64), np.array(b, np.int64)
        none = np.empty(0, np.int64)
        where = alignment(none, none, len(a), len(b))
        found_a, found_b = map(np.concatenate, zip(even_pairs(one, two), unequal_pairs(one, two, where), strict=True))
        assert len(set(found_a.tolist())) == len(found_a) == len(set(found_b.tolist()))
        assert (one[found_a] == two[found_b]).all()
        for key in range(6):
            mine = found_a[one[found_a] == key]
            assert len(mine) == min(a.count(key), b.count(key))
            order = np.argsort(mine)
            assert (np.diff(found_b[one[found_a] == key][order]) > 0).all()

    def test_the_near_ones_are_taken(self) -> None:
        where = alignment(np.array([0, 4]), np.array([0, 2]), 5, 3)
        assert [each.tolist() for each in unequal_pairs(np.array([9, 1, 1, 1, 8]), np.array([9, 1, 8]), where)] == [
            [2],
            [1],
        ]
