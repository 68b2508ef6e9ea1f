"""Which GPU work of one part goes with which of another: named hazards, properties, and a slow matcher beside it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, memcpy, step
from tests.support.comparing.recording import Call, Work, record
from tests.support.comparing.small import F32, PROGRAMS, fused, pairs, pointwise, product, programs, together, trace
from tests.support.comparing.tutorial import COMPILED, EAGER, matmul_add
from tracetui.comparing.fusing import activity_classes
from tracetui.comparing.match import MATCH_KINDS, Matching, calls, renamed
from tracetui.model.trace import NO_ID, Kind, Trace


class TestThePasses:
    def test_a_kernel_that_works_on_other_sizes_says_so(self) -> None:
        assert pairs(trace(pointwise("add", (8, 8))), trace(pointwise("add", (16, 8)))) == [
            ("add_kernel", "add_kernel", "same name, other shapes")
        ]

    def test_a_call_keeps_its_kernel_when_the_library_swaps_names(self) -> None:
        """What was called alike is surer than a name: the library chose other kernels for both sizes."""
        before = trace(product(64, 64, 64, "gemm_x"), product(128, 64, 64, "gemm_y"))
        after = trace(product(64, 64, 64, "gemm_z"), product(128, 64, 64, "gemm_x"))
        assert pairs(before, after) == [
            ("gemm_x", "gemm_z", "same op and shapes"),
            ("gemm_y", "gemm_x", "same op and shapes"),
        ]

    def test_one_problem_under_another_operator(self) -> None:
        before = trace(product(64, 32, 16, "gemm_x"))
        assert pairs(before, trace(product(64, 32, 16, "gemm_y", bias=True))) == [
            ("gemm_x", "gemm_y", "same family and size")
        ]

    def test_another_problem_under_another_operator_is_another_product(self) -> None:
        before, after = trace(product(64, 32, 16, "gemm_x")), trace(product(64, 16, 32, "gemm_y", bias=True))
        assert pairs(before, after) == [("gemm_x", "", ""), ("", "gemm_y", "")]

    def test_the_result_among_the_inputs_is_no_other_shape(self) -> None:
        plain = product(64, 32, 16)
        with_result = replace(plain, dims=[*(plain.dims or ()), [64, 16]], types=[F32] * 3)
        assert pairs(trace(plain), trace(with_result)) == [("some_gemm", "some_gemm", "same name")]

    def test_without_shapes_the_place_tells(self) -> None:
        def program(*names: str) -> Trace:
            first, second = names
            between = product(64, 64, 64)
            return trace(pointwise("exp", (), first), between, pointwise("exp", (), second), shapes=False)

        assert pairs(program("k1", "k2"), program("k3", "k4")) == [
            ("k1", "k3", "same op and place"),
            ("some_gemm", "some_gemm", "same name"),
            ("k2", "k4", "same op and place"),
        ]

    def test_a_numbered_kernel_of_the_compiler_is_the_same_in_another_module(self) -> None:
        before, after = trace(fused("triton_poi_fused_add_mul_3")), trace(fused("triton_poi_fused_add_mul_7"))
        assert pairs(before, after) == [("triton_poi_fused_add_mul_3", "triton_poi_fused_add_mul_7", "same name")]

    def test_copies_of_as_many_bytes_go_together(self) -> None:
        def copies(*sizes: int) -> Trace:
            name = "Memcpy HtoD (Pageable -> Device)"
            work = tuple(Work(name, 1_000, Kind.MEMCPY, {"bytes": size}, "cudaMemcpyAsync") for size in sizes)
            return trace(Call("aten::copy_", work=work))

        assert together(copies(10, 20, 30), copies(30, 10, 20)).partner.tolist() == [1, 2, 0]

    def test_of_more_on_one_side_those_stay_alone_that_stand_elsewhere(self) -> None:
        def layers(*with_add: bool) -> Trace:
            calls = []
            for number, has_add in enumerate(with_add):
                calls += [product(64, 64 + number, 64), *([pointwise("add")] if has_add else [])]
            return trace(*calls)

        found = together(layers(True, True, True, True), layers(True, False, True, True))
        assert found.partner.tolist() == [0, 1, 2, -1, 3, 4, 5, 6]


class TestNewNames:
    """A library calls a kernel otherwise than before."""

    def layers(self, *inner: Sequence[str]) -> Trace:
        calls: list[Call] = []
        for number, names in enumerate(inner):
            calls += [pointwise("exp", (8 + number,), "exp_kernel"), *(product(64, 64, 64, name) for name in names)]
        return trace(*calls, shapes=False)

    def test_a_name_is_known_where_the_place_does_not_tell(self) -> None:
        """Of two products one is gone and the other has a new name, which stands alone in other layers."""
        before = self.layers(["gemm_nn"], ["gemm_nn", "gemm_tn"], ["gemm_tn", "gemm_nn"], ["gemm_nn"])
        after = self.layers(["gemm_xx"], ["gemm_xx"], ["gemm_xx"], ["gemm_xx"])
        found = Counter(each for each in pairs(before, after) if "exp" not in each[0])
        assert found == {("gemm_nn", "gemm_xx", "same op and place"): 4, ("gemm_tn", "", ""): 2}

    def test_two_products_are_never_one_by_their_place(self) -> None:
        before, after = self.layers(["gemm_nn", "gemm_tn"]), self.layers(["gemm_xx"])
        products = {each for each in pairs(before, after) if "gemm" in each[0] + each[1]}
        assert products == {("gemm_nn", "", ""), ("gemm_tn", "", ""), ("", "gemm_xx", "")}

    def test_what_is_found_here_and_there_is_no_name(self) -> None:
        """Two of six: the others may be anything."""
        one, two = pointwise("a", kernel_name="one"), pointwise("a", kernel_name="two")
        work = activity_classes(trace(one)).known[0], activity_classes(trace(two)).known[0]
        assert renamed([(*work, 2)], [(work[0], 6)], [(work[1], 5)]).of_a == {}
        assert renamed([(*work, 3)], [(work[0], 6)], [(work[1], 6)]).of_a == {("one", "aten::a"): ("two", "aten::a")}

    def test_the_larger_number_counts_and_equal_ones_tell_nothing(self) -> None:
        known = [activity_classes(trace(pointwise("a", kernel_name=name))).known[0] for name in ("one", "two", "three")]
        every = [(each, 4) for each in known]
        half = [(known[0], known[1], 2), (known[0], known[2], 2)]
        assert renamed(half, every, every).of_a == {}
        most = renamed([(known[0], known[1], 3), (known[0], known[2], 1)], every, every)
        assert most.key_a(known[0]) == most.key_a(known[0]) is not None
        assert most.key_b(known[1]) == ("one", "aten::a")
        assert most.key_b(known[2]) is most.key_a(known[2]) is None


class TestOtherAlgorithms:
    """One operator, called alike, that runs other kernels, and more or fewer of them."""

    def convolution(self, *names: str) -> Trace:
        call = Call("aten::cudnn_convolution", [[1, 3, 8, 8], [4, 3, 3, 3]], [F32] * 2)
        return trace(replace(call, work=tuple(Work(name, 5_000) for name in names)))

    def test_several_are_one(self) -> None:
        before, after = self.convolution("transform_in", "winograd", "transform_out"), self.convolution("implicit")
        found = together(before, after)
        assert found.partner.tolist() == [0, 0, 0]
        assert found.partner_b.tolist() == [0]
        assert {MATCH_KINDS[how] for how in found.how} == {"same op and shapes"}
        assert found.of_b(int(found.rows_b[0])).tolist() == found.rows_a.tolist()

    def test_several_are_several_others(self) -> None:
        before, after = self.convolution("a1", "a2", "a3"), self.convolution("b1", "b2")
        found = together(before, after)
        for row in found.rows_a.tolist():
            assert found.of_a(row).tolist() == found.rows_b.tolist()
        for row in found.rows_b.tolist():
            assert found.of_b(row).tolist() == found.rows_a.tolist()

    def test_what_kept_its_name_is_left_out(self) -> None:
        before, after = self.convolution("pad", "a1"), self.convolution("pad", "b1", "b2")
        assert pairs(before, after)[0] == ("pad", "pad", "same name")
        assert together(before, after).partner_b.tolist() == [0, 1, 1]

    def test_calls_are_numbered_in_order_of_launch(self) -> None:
        found = calls(np.array([9, 9, 4, 7, -1]), np.array([1, 1, 0, -1, 2]), np.zeros(5, np.int64))
        assert found.activity.tolist() == [0, 1, 2]
        assert (found.key.tolist(), found.count.tolist()) == ([1, 0], [2, 1])


def check_groups(found: Matching) -> None:
    """Groups hang together: all of one lead to the first of the other side, and that one leads back."""
    for partner, back in ((found.partner, found.partner_b), (found.partner_b, found.partner)):
        held = np.flatnonzero(partner >= 0)
        assert (partner[held] < len(back)).all()
        first = back[partner[held]]
        assert (first >= 0).all()
        assert (partner[first] == partner[held]).all()
        assert (first <= held).all()
    assert ((found.partner >= 0) == (found.how >= 0)).all()
    assert ((found.partner_b >= 0) == (found.how_b >= 0)).all()


class TestProperties:
    @given(programs())
    def test_groups_hang_together_and_miss_nothing_and_start_like_a_slow_matcher(
        self, both: tuple[list[Call], list[Call]]
    ) -> None:
        found = together(trace(*both[0]), trace(*both[1]))
        check_groups(found)
        for program, rows in zip(both, (found.rows_a, found.rows_b), strict=True):
            assert len(set(rows.tolist())) == len(rows) == sum(len(call.work) for call in program)
        for place, partner in slow_pairs(*both).items():
            assert found.partner[place] == partner
            assert MATCH_KINDS[found.how[place]] == "same name"

    @given(PROGRAMS, st.booleans())
    def test_a_program_is_itself(self, program: list[Call], shapes: bool) -> None:
        found = together(trace(*program, shapes=shapes), trace(*program, shapes=shapes))
        assert found.partner.tolist() == list(range(len(found.rows_a)))
        assert set(found.how.tolist()) <= {MATCH_KINDS.index("same name")}

    @pytest.mark.full
    @given(programs(), st.booleans())
    def test_swapping_the_sides_swaps_the_partners(self, both: tuple[list[Call], list[Call]], shapes: bool) -> None:
        a, b = trace(*both[0], shapes=shapes), trace(*both[1], shapes=shapes)
        forth, back = together(a, b), together(b, a)
        assert forth.partner.tolist() == back.partner_b.tolist()
        assert forth.partner_b.tolist() == back.partner.tolist()

    @given(programs(), st.integers(0, 1 << 40), st.integers(0, 50))
    @pytest.mark.full
    def test_clocks_and_numbers_do_not_matter(
        self, both: tuple[list[Call], list[Call]], shift: int, stream: int
    ) -> None:
        a, events = trace(*both[0]), record("forward", both[1], steps=1)
        moved = [
            replace(
                event,
                start=event.start + shift,
                correlation=event.correlation if event.correlation == NO_ID else event.correlation + 77,
                lane=("0", f"stream {stream}") if event.kind in (Kind.KERNEL, Kind.MEMCPY) else event.lane,
            )
            for event in events
        ]
        assert together(a, make_trace(events)).partner.tolist() == together(a, make_trace(moved)).partner.tolist()


def slow_pairs(before: Sequence[Call], after: Sequence[Call]) -> dict[int, int]:
    """Places of work with the same name, operator and sizes, where both programs run it equally often: in order."""

    def places_of(program: Sequence[Call]) -> dict[object, list[int]]:
        found: dict[object, list[int]] = defaultdict(list)
        place = 0
        for call in program:
            for work in call.work:
                name = work.name.rsplit("_", 1)[0] if work.name.startswith("triton_") else work.name
                owner = call.name.rsplit("_", 1)[0] if call.name.startswith("triton_") else call.name
                found[name, owner, str(call.dims)].append(place)
                place += 1
        return found

    one, two = places_of(before), places_of(after)
    return {
        left: right
        for key in one.keys() & two.keys()
        if len(one[key]) == len(two[key])
        for left, right in zip(one[key], two[key], strict=True)
    }


def test_copies_between_host_and_device_are_not_taken_for_a_kernel() -> None:
    def made(*events: Event) -> Trace:
        return make_trace([step(1, 0, 1_000), launch(1, 1, 1), *events])

    copy = memcpy("Memcpy HtoD (Pageable -> Device)", 10, 5, correlation=1)
    assert pairs(made(copy), made(kernel("k", 10, 5, correlation=1))) == [
        ("Memcpy HtoD (Pageable -> Device)", "", ""),
        ("", "k", ""),
    ]


def test_the_compiled_sum_is_the_products_epilogue() -> None:
    assert [how for _, _, how in pairs(matmul_add(EAGER), matmul_add(COMPILED))] == ["same name", "", ""]
