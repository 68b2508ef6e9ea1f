"""Which of several captured graphs with the same names each replay is of: by batch size, then by order (R3.40).

vLLM captures a graph for each batch size and, piecewise, one for each part of the model; the middle layers have the
same names. Parts are replayed in the order of their capture, so that a part that is unique tells which the others are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tracetui.linking.replays import replays
from tracetui.linking.step_names import StepName, step_name
from tracetui.model.trace import Kind, Trace

_BY_TOKENS = ("execute_context", "execute_new")
"""Families of steps whose graphs are captured for a number of tokens."""


class Captured(NamedTuple):
    """A captured graph."""

    recording: int
    """Index of its recording."""
    graph: int
    """Index in its recording, in order of capture."""
    first: int
    """Index of its first launch among those of all recordings."""
    batch: int
    """Batch size, -1 for unknown."""


class Choice(NamedTuple):
    """The captured graphs that a replay may be of."""

    first: tuple[int, ...]
    """The first launch of each."""
    is_sized: bool
    """Whether their shapes are those of the replay: the step put no more into the graph than they were captured for."""


def choose(trace: Trace, fitting: Mapping[int, Sequence[Captured]]) -> dict[int, Choice]:
    """The captured graphs that each replay may be of, by index of the replay.

    `fitting` has the captured graphs that fit each graph that is replayed.
    """
    graph_replays = replays(trace)
    picked = {
        replay: _of_batch(trace, int(graph_replays.launch[replay]), fitting[graph])
        for replay, graph in enumerate(graph_replays.graph.tolist())
        if graph in fitting
    }
    ends = _ends([each for members in fitting.values() for each in members])
    chosen: dict[int, Choice] = {}
    lanes = trace.slices.lane[graph_replays.launch]
    for lane in np.unique(lanes).tolist():
        # In order of launch: rows of a lane are.
        mine = np.flatnonzero(lanes == lane).tolist()
        for replay, members in zip(mine, _by_order([picked.get(replay, []) for replay in mine], ends), strict=True):
            if members:
                sizes = [each.batch for each in members if each.batch >= 0]
                is_sized = not sizes or min(sizes) >= requests_of(trace, int(graph_replays.launch[replay]))
                chosen[replay] = Choice(tuple(each.first for each in members), is_sized)
    return chosen


def _of_batch(trace: Trace, launch: int, members: Sequence[Captured]) -> list[Captured]:
    """Those of the smallest batch size that holds the requests of the step around a launch; all if that is unknown."""
    if len({each.batch for each in members}) < 2:
        return list(members)
    requests = requests_of(trace, launch)
    sizes = [each.batch for each in members if each.batch >= requests]
    if requests < 0 or not sizes:
        return list(members)
    return [each for each in members if each.batch == min(sizes)]


def requests_of(trace: Trace, row: int) -> int:
    """What the innermost step around a slice puts into a graph, by its name; -1 where none tells.

    vLLM counts the tokens of the batch, others its requests.
    """
    while row >= 0:
        if trace.slices.kind[row] in (Kind.ANNOTATION, Kind.CPU_OP):
            said = step_name(trace.name_of(row))
            if said is not None and (counted := _counted(said)) is not None:
                return counted
        row = int(trace.slices.parent[row])
    return -1


def _counted(said: StepName) -> int | None:
    return said.tokens if said.family in _BY_TOKENS and said.tokens is not None else said.requests


_Series = tuple[int, int]
"""A recording and a batch size: the graphs that one run of the model replays, one behind the other."""


def _ends(members: Sequence[Captured]) -> dict[_Series, tuple[int, int]]:
    """The first and the last graph of each series."""
    found: dict[_Series, tuple[int, int]] = {}
    for each in members:
        low, high = found.get((each.recording, each.batch), (each.graph, each.graph))
        found[each.recording, each.batch] = min(low, each.graph), max(high, each.graph)
    return found


def _by_order(
    replayed: Sequence[Sequence[Captured]], ends: Mapping[_Series, tuple[int, int]]
) -> list[Sequence[Captured]]:
    """The candidates of replays in order of launch, less those that their order rules out.

    Behind a replay with one candidate the next replay is of the graph that was captured next, and before it of the one
    captured before, until a replay has no such candidate.
    """
    result = list(replayed)
    for step in (1, -1):
        at: Captured | None = None
        for index in range(len(result))[::step]:
            members = result[index]
            if at is not None and len(members) > 1:
                at = _neighbour(members, at, step, ends[at.recording, at.batch])
                result[index] = (at,) if at is not None else members
            else:
                at = members[0] if len(members) == 1 else None
    return result


def _neighbour(members: Sequence[Captured], at: Captured, step: int, ends: tuple[int, int]) -> Captured | None:
    """The candidate that was captured right behind a graph, or before it; at the end of a series its other end.

    None where there is no such candidate, or where the next run of the model may be of another batch size.
    """
    low, high = ends
    wanted = at.graph + step
    if not low <= wanted <= high:
        if len({each.batch for each in members}) > 1:
            return None
        wanted = low if step > 0 else high
    return next((each for each in members if each == (at.recording, wanted, each.first, at.batch)), None)
