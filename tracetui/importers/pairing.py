"""Joins begins and ends (ph B/E, b/e, S/F) into slices.

An end closes the innermost open begin of its group whose name it carries, or simply the innermost where it
carries none (section 1.3). Groups in perfect order are paired on whole columns; the others are walked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Int64


@dataclass(frozen=True)
class Pairs:
    """Indices into the input: `begin[i]` is closed by `end[i]`."""

    begin: Int64
    end: Int64
    open: Int64
    """Begins that nothing closes."""
    stray: Int64
    """Ends that close nothing."""


def pair(group: Int64, time: Int64, is_begin: NDArray[np.bool_], name: Int64, unnamed: int) -> Pairs:
    """Pair begins and ends within each group, in order of time and then of place in the input.

    `name` holds ids; an end whose name is `unnamed` closes whatever is innermost.
    """
    order = np.lexsort((np.arange(len(time)), time, group))
    group, is_begin, name = group[order], is_begin[order], name[order]
    begin, end, orderly = _pair_orderly(group, is_begin, name, unnamed)
    opens: list[int] = []
    strays: list[int] = []
    extra: list[tuple[int, int]] = []
    for number in np.unique(group[~orderly]):
        first, last = np.searchsorted(group, [number, number + 1])
        _walk(
            int(first),
            is_begin[first:last].tolist(),
            name[first:last].tolist(),
            unnamed,
            extra,
            opens,
            strays,
        )
    keep = orderly[begin]
    more = np.array(extra, np.int64).reshape(-1, 2)
    return Pairs(
        order[np.concatenate([begin[keep], more[:, 0]])],
        order[np.concatenate([end[keep], more[:, 1]])],
        order[np.array(opens, np.int64)],
        order[np.array(strays, np.int64)],
    )


def _pair_orderly(
    group: Int64, is_begin: NDArray[np.bool_], name: Int64, unnamed: int
) -> tuple[Int64, Int64, NDArray[np.bool_]]:
    """Pair by depth as brackets are, and say for every row whether its group was in order."""
    if len(group) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool)
    step = np.where(is_begin, 1, -1)
    level = np.cumsum(step)
    heads = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    sizes = np.diff(np.append(heads, len(group)))
    level -= np.repeat(level[heads] - step[heads], sizes)
    depth = np.where(is_begin, level, level + 1)
    wrong = (depth < 1) | (np.repeat(level[heads + sizes - 1], sizes) != 0)
    by_depth = np.lexsort((np.arange(len(group)), depth, group))
    begin, end = by_depth[0::2], by_depth[1::2]
    if len(begin) != len(end):
        begin = begin[: len(end)]
    mismatched = ~is_begin[begin] | is_begin[end] | (group[begin] != group[end])
    mismatched |= (name[end] != unnamed) & (name[end] != name[begin])
    wrong[begin[mismatched]] = True
    if len(group) % 2:
        # One row too many shifts every pair behind it: only a walk is safe.
        wrong[:] = True
    bad_groups = np.unique(group[wrong])
    return begin, end, ~np.isin(group, bad_groups)


def _walk(
    first: int,
    is_begin: list[bool],
    names: list[int],
    unnamed: int,
    pairs: list[tuple[int, int]],
    opens: list[int],
    strays: list[int],
) -> None:
    """Pair the rows of one group by a literal stack."""
    stack: list[int] = []
    for row, begins in enumerate(is_begin):
        if begins:
            stack.append(row)
            continue
        place = len(stack) - 1
        if names[row] != unnamed:
            while place >= 0 and names[stack[place]] != names[row]:
                place -= 1
        if place < 0:
            strays.append(first + row)
        else:
            pairs.append((first + stack.pop(place), first + row))
    opens.extend(first + row for row in stack)
