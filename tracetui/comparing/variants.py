"""Variants of one computation in a trace: runs that a script makes side by side to be compared.

These are annotations or functions of the program that one function calls, and whose names pair up (`fused` and
`unfused`, `first_sum` and `second_sum`, `step_eager` and `step_compiled`). Runs of one name that run different things,
such as an eager and a compiled one, are variants as well. A guess from names: it is offered, never taken by itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from tracetui.comparing.noise import groups_of_parts
from tracetui.comparing.side import RUN, Side, side
from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.linking.frames import function_of, is_own
from tracetui.linking.links import links, op_rows
from tracetui.linking.step_sources import LIBRARY
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Trace

MAX_VARIANTS = 8
"""Maximum variants that are set side by side."""
MIN_TIME_SHARE = 0.05
"""Minimum time of all variants together, as a share of that of what calls them, or of the trace."""
MIN_LETTERS = 3
"""Minimum letters that two names have in common."""
_PLAIN = re.compile(r"[A-Za-z][\w .()=-]*")
"""Pattern of names that a person gave: not `<module>`, `_private`, `## of a library ##`, or an operator."""
_WAYS = frozenset(
    (
        *(
            "eager",
            "compile",
            "compiled",
            "graph",
            "graphs",
            "graphed",
            "fused",
            "unfused",
            "triton",
            "native",
            "manual",
        ),
        *("baseline", "base", "reference", "ref", "naive", "optimized", "optimised", "tuned", "fast", "slow", "loop"),
        *("before", "after", "old", "new", "vectorized"),
    )
)
"""Words by which programmers name ways to do the same."""
_NOT = ("un", "non", "no", "not", "without", "de")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PASSES = frozenset(("forward", "backward", "encoder", "decoder", "train", "eval", "pre", "post", "input", "output"))
"""Words that name parts of one computation, and no ways to do it."""


@frozen(eq=True)
class Variants:
    """Runs to be set side by side, the first before all others."""

    names: tuple[str, ...]
    """The names of what runs, in order of their first run."""
    scopes: tuple[str, ...]
    """Scopes of the runs, in that order; of each name first those of one kind, then of another."""


@kept
def variants(trace: Trace) -> list[Variants]:
    """The sets of variants, that with most time first."""
    found = []
    for names in _families(trace):
        sides = [side(trace, name) for name in names]
        kinds = [_kinds(each) for each in sides]
        # Eager runs of all names, then compiled ones.
        scopes = [each[index] for index in range(max(map(len, kinds))) for each in kinds if index < len(each)]
        if 1 < len(scopes) <= MAX_VARIANTS:
            found.append(Variants(names, tuple(scopes)))
    return found


def apart(each: Side) -> list[Side]:
    """A side whose runs differ in what they run as one side per kind of run; any other as it is."""
    scopes = _kinds(each) if each.part_kind == RUN else [each.scope]
    return [each] if len(scopes) < 2 else [side(each.trace, scope) for scope in scopes]


def _kinds(each: Side) -> list[str]:
    """A scope for each kind of run of a name: all runs where they are alike, else the middle one of each kind."""
    groups = groups_of_parts(each)
    if len(groups) < 2:
        return [each.scope]
    lasted = each.end - each.start
    middles = [
        group.parts[np.argsort(lasted[group.parts], kind="stable")[(len(group.parts) - 1) // 2]] for group in groups
    ]
    return [f"{each.scope}[{each.number[middle]}]" for middle in middles]


def _families(trace: Trace) -> Iterator[tuple[str, ...]]:
    """Names that pair up, of what one function calls and what puts work on the GPU, or without one runs operators."""
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION, Kind.PYTHON)
    used, index = np.unique(slices.name[rows], return_inverse=True)
    names = [_name(trace.names[number]) for number in used.tolist()]
    is_named = np.array([bool(name) for name in names], bool)
    own = rows[is_named[index] & ~np.isin(rows, steps(trace).row)] if len(used) else rows
    spelled = {int(number): name for number, name in zip(used, names, strict=True)}
    work = np.sort(slices.start[links(trace).launches if len(links(trace).gpu) else op_rows(trace)])
    own = own[np.searchsorted(work, slices.end[own]) > np.searchsorted(work, slices.start[own])]
    caller = _enclosing(trace, own)
    by_caller: dict[int, list[int]] = defaultdict(list)
    for row, above in zip(own.tolist(), caller.tolist(), strict=True):
        by_caller[int(slices.name[above]) if above >= 0 else -1 - int(slices.lane[row])].append(row)
    weighed = []
    for above, called in by_caller.items():
        whole = slices.dur[rows[slices.name[rows] == above]].sum() if above >= 0 else trace.window[1] - trace.window[0]
        order = sorted(called, key=lambda row: int(slices.start[row]))
        time: dict[str, int] = defaultdict(int)
        for row in order:
            time[spelled[int(slices.name[row])]] += int(slices.dur[row])
        for family in _paired(list(time)):
            total = sum(time[name] for name in family)
            if total >= MIN_TIME_SHARE * whole and _is_unique(trace, family):
                weighed.append((total, family))
    yield from dict.fromkeys(family for _, family in sorted(weighed, key=lambda each: -each[0]))


def _name(text: str) -> str:
    """The name of what may be a variant, empty for what belongs to a library."""
    name = function_of(text) if is_own(text) and not LIBRARY.search(text) else ""
    return name if _PLAIN.fullmatch(name) else ""


def _enclosing(trace: Trace, rows: Int64) -> Int64:
    """The innermost of some slices around each of them, -1 for none."""
    parent = trace.slices.parent
    is_one = np.zeros(len(parent) + 1, bool)
    is_one[rows] = True
    above = parent[rows].astype(np.int64)
    while (climbing := (above >= 0) & ~is_one[above]).any():
        above[climbing] = parent[above[climbing]]
    return above


def _is_unique(trace: Trace, names: Sequence[str]) -> bool:
    """True where all of the names can be a side of a comparison."""
    try:
        return all(len(side(trace, name)) for name in names)
    except UsageError:
        return False


def _paired(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The names that pair up, in their order; a name is in one set only."""
    left = list(names)
    while left:
        family = [left.pop(0)]
        for name in list(left):
            if any(alike(name, member) for member in family):
                family.append(name)
                left.remove(name)
        if len(family) > 1:
            yield tuple(family)


def alike(one: str, other: str) -> bool:
    """True for two names of ways to do the same: one is the other with a word more, or in one word another.

    `fused` and `unfused`, `mlp` and `mlp_compiled`, `eager` and `compiled`, `first_sum` and `second_sum`.
    """
    a, b = ([word.lower() for word in _WORD.findall(name)] for name in (one, other))
    if not a or not b or a == b or _PASSES & (set(a) ^ set(b)):
        return False
    if len(a) > len(b):
        a, b = b, a
    if len(a) == len(b):
        differing = [pair for pair in zip(a, b, strict=True) if pair[0] != pair[1]]
        if len(differing) > 1:
            return False
        first, second = sorted(differing[0], key=len)
        if any(second == prefix + first for prefix in _NOT) or {first, second} <= _WAYS:
            return True
        return len(a) > 1 and not (first.isdigit() and second.isdigit())
    return set(a) < set(b) and len(b) == len(a) + 1 and max(map(len, a)) >= MIN_LETTERS
