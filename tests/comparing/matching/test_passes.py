"""Every pass of the matching on its own: what only it can tell, with work that all passes before it leave alone."""

from __future__ import annotations

import pytest

from tests.support.comparing.recording import Call, Work
from tests.support.comparing.small import F32, pairs, pointwise, together, trace
from tracetui.comparing.match import MATCH_KINDS
from tracetui.model.trace import Trace


def call(op: str, size: int = 0, grid: int = 0, name: str = "k") -> Call:
    """A call of an operator on a square, which launches a kernel of some blocks; 0 for what is not known."""
    args = {"grid": [grid, 1, 1]} if grid else {}
    dims, types = ([[size, size]], [F32]) if size else (None, None)
    return Call(f"aten::{op}", dims, types, work=(Work(name, 5_000, args=args),))


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        # Name, operator, sizes and grid; in order by the next pass.
        ((call("a", 8, 1), call("a", 8, 2)), (call("a", 8, 2), call("a", 8, 1)), "same name"),
        # Name, operator and sizes, on other grids.
        ((call("a", 8, 1), call("a", 16, 2)), (call("a", 16, 3), call("a", 8, 4)), "same name"),
        # Name, operator and grid, on other sizes.
        ((call("a", 8, 1), call("a", 9, 2)), (call("a", 10, 2), call("a", 11, 1)), "same name, other shapes"),
        # Name and operator.
        ((call("a", 8, 1), call("b", 9, 2)), (call("b", 10, 3), call("a", 11, 4)), "same name, other shapes"),
        # Name and grid, of other operators.
        ((call("a", 8, 1), call("b", 9, 2)), (call("c", 10, 2), call("d", 11, 1)), "same name"),
        # Called alike: other names.
        (
            (call("a", 8, name="k1"), call("a", 16, name="k2")),
            (call("a", 16, name="k3"), call("a", 8, name="k4")),
            "same op and shapes",
        ),
    ],
    ids=["all", "sizes", "grid of an operator", "operator", "grid", "call"],
)
def test_what_is_alike_goes_together_though_its_order_changed(before, after, how):
    found = together(trace(*before), trace(*after))
    assert (found.partner.tolist(), found.partner_b.tolist()) == ([1, 0], [1, 0])
    assert {MATCH_KINDS[int(number)] for number in (*found.how, *found.how_b)} == {how}


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        (call("a", 8, 1), call("b", 9, 2), "same name, other shapes"),
        (call("a", 8), call("b", 9), "same name"),  # sizes of other operators do not compare
        (call("a", 8, 1), call("b", 9), "same name"),  # a grid and none do not either
        (call("a", 8, 1), call("a", 8, 2), "same name"),  # known sizes go before grids
        (call("a", 0, 1), call("a", 0, 2), "same name, other shapes"),
    ],
)
def test_a_name_alone_says_whether_the_shapes_are_known_to_differ(before, after, how):
    assert pairs(trace(before), trace(after)) == [("k", "k", how)]


def program(side: str, shared: int, others: int) -> Trace:
    """Work that only one side has, work of both, and at the end a kernel that stands where another stood."""
    alone = [pointwise(f"{side}{number}", (9 + number, 5)) for number in range(others)]
    alike = [pointwise("exp", (8 + number, 3)) for number in range(shared)]
    return trace(*alone, *alike, pointwise(f"last_{side}"))


@pytest.mark.parametrize(
    ("shared", "others", "related"),
    [
        (1, 31, True),  # with the last one 32 are left
        (1, 32, False),
        (12, 35, True),  # 12 of 48 are a quarter
        (11, 35, False),
        (12, 36, False),
    ],
)
def test_a_place_tells_where_few_are_left_or_a_quarter_is_paired(shared, others, related):
    found = pairs(program("a", shared, others), program("b", shared, others))
    assert (("last_a_kernel", "last_b_kernel", "same place") in found) == related


def test_both_sides_must_be_related():
    """Of B next to nothing is left; of A 12 of 49 are paired."""
    found = pairs(program("a", 12, 36), program("b", 12, 0))
    assert "same place" not in {how for _, _, how in found}


def test_what_has_no_partner_leads_nowhere():
    found = together(trace(call("a", 8, name="k1"), call("b", 8, name="k2")), trace(call("a", 8, name="k1")))
    first, second = found.rows_a.tolist()
    (other,) = found.rows_b.tolist()
    assert (found.of_a(first).tolist(), found.of_b(other).tolist()) == ([other], [first])
    assert (found.of_a(second).tolist(), found.of_a(-1).tolist()) == ([], [])
    assert (found.partner.tolist(), found.how.tolist()) == ([0, -1], [0, -1])
