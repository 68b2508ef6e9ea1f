"""What is changed in a module: a threshold moved, `>=` for `>`, another operator, a term left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cosmic_ray.operators.operator import Example, Operator

BINARY = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Div": "Mul",
    "FloorDiv": "Mul",
    "Mod": "Mul",
    "Pow": "Mul",
    "RShift": "LShift",
    "LShift": "RShift",
    "BitOr": "BitAnd",
    "BitAnd": "BitOr",
    "BitXor": "BitOr",
}
"""One other operator for each: Cosmic Ray has eleven, of which most raise a TypeError that any test would notice."""
COMPARED = {"Lt": "LtE", "LtE": "Lt", "Gt": "GtE", "GtE": "Gt", "Eq": "NotEq", "NotEq": "Eq", "Is": "IsNot"}
USED = frozenset(
    {
        *(f"core/ReplaceBinaryOperator_{old}_{new}" for old, new in BINARY.items()),
        *(f"core/ReplaceComparisonOperator_{old}_{new}" for old, new in COMPARED.items()),
        "core/ReplaceComparisonOperator_IsNot_Is",
        *(f"core/ReplaceUnaryOperator_Delete_{name}" for name in ("USub", "Invert", "Not")),
        *(f"core/Replace{change}" for change in ("TrueWithFalse", "FalseWithTrue", "AndWithOr", "OrWithAnd")),
        "core/ReplaceBreakWithContinue",
        "core/ReplaceContinueWithBreak",
        "core/AddNot",
        "core/NumberReplacer",
        "core/ZeroIterationForLoop",
        "tracetui/LeaveOutTerm",
        "tracetui/LeaveOutBound",
    }
)
"""Operators of Cosmic Ray and of this file whose mutants are tried."""

SUMS = frozenset({"arith_expr", "term", "and_expr", "expr", "and_test", "or_test"})
BOUNDS = ("max(", "min(", "np.maximum(", "np.minimum(", "np.clip(")


class LeaveOutTerm(Operator):  # type: ignore[misc]
    """`a` for `a + b`, and for every other term but the first."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Where the terms stand that can be left out."""
        if node.type in SUMS:
            for operator, term in zip(node.children[1::2], node.children[2::2], strict=True):
                yield operator.start_pos, term.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The expression without the term behind its operator of that index."""
        del node.children[1 + 2 * index : 3 + 2 * index]
        return node

    @classmethod
    def examples(cls) -> Sequence[Any]:
        """What it makes of code."""
        return (Example("x = a + b - c", "x = a - c"), Example("x = a + b - c", "x = a + b", occurrence=1))


class LeaveOutBound(Operator):  # type: ignore[misc]
    """`a` for `max(a, b)`, and the same of `min`, `np.maximum`, `np.minimum` and `np.clip`."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Where such a call stands."""
        if _bounded(node) is not None:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The first argument in place of the call."""
        first = _bounded(node)
        first.get_first_leaf().prefix = node.get_first_leaf().prefix
        return first

    @classmethod
    def examples(cls) -> Sequence[Any]:
        """What it makes of code."""
        return (Example("x = np.maximum(a, 0)", "x = a"),)


def _bounded(node: Any) -> Any:
    """The first of several arguments, if a node is a call of a bound; None for others."""
    if node.type not in ("atom_expr", "power") or not node.get_code(include_prefix=False).startswith(BOUNDS):
        return None
    name, call = node.children[:-1], node.children[-1]
    if call.type != "trailer" or len(name) > 2 or call.children[1].type != "arglist":
        return None
    first = call.children[1].children[0]
    return None if first.type == "argument" else first


class Provider:
    """The operators of this file as Cosmic Ray asks for them."""

    def __iter__(self) -> Iterator[str]:
        return iter(("LeaveOutTerm", "LeaveOutBound"))

    def __getitem__(self, name: str) -> type[Operator]:
        return {"LeaveOutTerm": LeaveOutTerm, "LeaveOutBound": LeaveOutBound}[name]
