"""Steps guessed from what repeats on the GPU: replays of graphs, or kernels, with a sign of a token in every cycle.

The last resort for a trace that names no steps (R3.76). Names that occur equally often and interleave mark cycles: one
of each between two of the first. Layers repeat too; a cycle counts as a step only where each holds a sampling kernel,
an embedding, or a copy from the device, and holds about as much as the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from tracetui.kernel_names.slice_names import Family, family
from tracetui.linking.groups import distinct, group
from tracetui.linking.lanes import is_named, lane_numbers
from tracetui.linking.links import links
from tracetui.linking.replays import replays
from tracetui.linking.step_series import StepSeries, is_training
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Kind, Trace

MIN_CYCLES = 3
"""Minimum cycles that are taken for steps."""
MIN_NAMES = 2
"""Minimum names that interleave."""
MAX_SIZE_RATIO = 2.0
"""Maximum ratio of the activities in the largest cycle to those in the smallest."""
MIN_REPLAYED_SHARE = 0.3
"""Minimum share of the kernels that replays of one graph run, for its launches to mark steps."""
MAX_FIRST_NAMES = 8
"""Maximum names per number of occurrences that are tried as the first of a cycle."""

_TOKEN = re.compile(r"argmax|sampl(e|ing)|multinomial|embedding", re.IGNORECASE)
"""Names of what makes a token or takes one in: sampling, an embedding.

A plain top-k is none: a router of experts runs one in every layer.
"""
_TO_HOST = re.compile(r"^Memcpy DtoH")
"""Copies that may bring a token to the host, in a trace that runs attention: any loop may read a value."""
_TOKEN_OP = re.compile(r"^aten::(embedding|argmax|multinomial)$")
"""Operators that do so, whatever their kernels are called."""


@dataclass(frozen=True, eq=False)
class Cycles:
    """What repeats in a sequence of names."""

    first: Int64
    """Positions at which a cycle begins, ascending."""
    names: int
    """Number of names that interleave."""


def graph_series(trace: Trace, is_wanted: bool = False) -> list[StepSeries]:
    """Steps from one launch of a graph to the next, where a graph, or the first of several, marks them.

    What repeats in training is taken only where it is wanted.
    """
    every, slices, joined = replays(trace), trace.slices, links(trace)
    if len(every) < MIN_CYCLES or (is_training(trace) and not is_wanted):
        return []
    kernels = np.count_nonzero(slices.kind[joined.gpu] == Kind.KERNEL)
    if every.nodes.sum() < MIN_REPLAYED_SHARE * kernels:
        return []
    order = np.argsort(slices.start[every.launch], kind="stable")
    graph = every.graph[order]
    found = _alone(graph) or cycles(graph, np.ones(len(graph), bool), min_names=MIN_NAMES)
    if found is None or len(np.unique(slices.lane[every.launch[order[found.first]]])) > 1:
        return []
    rows = every.launch[order[found.first]]
    end = _until_next(trace, rows)
    if not is_wanted and not _has_tokens(trace, slices.start[rows], end):
        return []
    words = (
        f"~ guessed: {found.names} {'graph repeats' if found.names == 1 else 'graphs repeat'} {len(rows):,} times; "
        "a step may begin elsewhere"
    )
    return [StepSeries("graphs", "repeating graph", rows, end, words, is_guess=True)]


def kernel_series(trace: Trace, is_wanted: bool = False) -> list[StepSeries]:
    """Steps from one launch of a kernel to the next, where several interleave and each cycle shows a token.

    What repeats in training is taken only where it is wanted.
    """
    if is_training(trace) and not is_wanted:
        return []
    joined, slices = links(trace), trace.slices
    rows = joined.launched
    moment = slices.start[joined.launch[rows]]
    process = lane_numbers(trace).process[slices.lane[joined.launch[rows]]]
    if len(rows) == 0 or len(distinct(process)) > 1:
        return []
    rows = rows[np.lexsort((slices.start[rows], moment))]
    found = cycles(slices.name[rows].astype(np.int64), _tokens(trace, rows))
    if found is None:
        return []
    launches = joined.launch[rows[found.first]].astype(np.int64)
    if len(distinct(launches)) < len(launches) or len(distinct(slices.lane[launches])) > 1:
        return []
    words = f"~ guessed: {found.names} kernels repeat {len(launches):,} times; a step may begin elsewhere"
    end = _until_next(trace, launches)
    return [StepSeries("kernels", "repeating kernels", launches, end, words, is_guess=True)]


def merged(trace: Trace, series: StepSeries) -> StepSeries:
    """The series with two slices in a row as one step, where each pair has one name and only its second slice samples.

    TensorRT-LLM marks the forward pass of a step and its sampling by two annotations of the same name.
    """
    slices, rows = trace.slices, series.rows
    if len(rows) < 2 or len(rows) % 2 or len(np.unique(slices.lane[rows])) > 1:
        return series
    pairs = slices.name[rows].reshape(-1, 2)
    made = _token_counts(trace, slices.start[rows], series.end).reshape(-1, 2) > 0
    if (pairs[:, 0] != pairs[:, 1]).any() or made[:, 0].any() or not made[:, 1].all():
        return series
    return replace(series, rows=rows[0::2], end=series.end[1::2], words=f"{series.words}, two for each step")


def cycles(name: Int64, is_token: Bool, min_names: int = MIN_NAMES) -> Cycles | None:
    """The cycles of a sequence of name ids, those of the fewest occurrences of which each holds a token."""
    if len(name) == 0:
        return None
    names = group(name)
    order = np.argsort(names.member, kind="stable")
    bounds = np.searchsorted(names.member[order], np.arange(len(names) + 1))
    tokens = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_token)])
    for count in distinct(names.calls[names.calls >= MIN_CYCLES]).tolist():
        equal = np.flatnonzero(names.calls == count)
        if len(equal) < min_names:
            continue
        positions = np.stack([order[bounds[each] : bounds[each + 1]] for each in equal.tolist()])
        positions = positions[np.argsort(positions[:, 0], kind="stable")]
        for first in positions[:MAX_FIRST_NAMES]:
            held = _interleaving(first, positions)
            if held < min_names:
                continue
            edges = np.append(first, len(name))
            size, made = np.diff(edges), np.diff(tokens[edges])
            if size.max() <= MAX_SIZE_RATIO * size.min() and (made > 0).all():
                return Cycles(first, held)
    return None


def _interleaving(first: Int64, positions: Int64) -> int:
    """How many of the names occur once between each two occurrences of the first, itself included."""
    after = (positions >= first).all(axis=1) & (positions[:, :-1] < first[1:]).all(axis=1)
    return int(np.count_nonzero(after))


def _alone(graph: Int64) -> Cycles | None:
    """The cycles of the only graph that is replayed."""
    return Cycles(np.arange(len(graph)), 1) if len(distinct(graph)) == 1 else None


def _until_next(trace: Trace, rows: Int64) -> Int64:
    """Each step lasts until the next begins, the last one as long as the recording."""
    return np.append(trace.slices.start[rows][1:], max(trace.window[1], int(trace.slices.end[rows[-1]])))


def _tokens(trace: Trace, rows: Int64) -> Bool:
    by_name = is_named(trace, rows, _TOKEN.search)
    owner = links(trace).owner[rows].astype(np.int64)
    by_op = (owner >= 0) & is_named(trace, np.maximum(owner, 0), _TOKEN_OP.search)
    found = np.asarray(by_name | by_op)
    if _runs_attention(trace):
        found |= is_named(trace, rows, _TO_HOST.search)
    return found


def _runs_attention(trace: Trace) -> bool:
    kernels = trace.slices.of_kind(Kind.KERNEL)
    return bool(is_named(trace, kernels, lambda name: family(name, Kind.KERNEL) == Family.ATTENTION).any())


def _has_tokens(trace: Trace, start: Int64, end: Int64) -> bool:
    """Whether something that was launched in each of the windows makes or takes in a token."""
    return bool((_token_counts(trace, start, end) > 0).all())


def _token_counts(trace: Trace, start: Int64, end: Int64) -> Int64:
    """How many of the activities that were launched in each of the windows make or take in a token."""
    joined = links(trace)
    rows = joined.launched
    moment = np.sort(trace.slices.start[joined.launch[rows[_tokens(trace, rows)]]])
    return np.searchsorted(moment, end) - np.searchsorted(moment, start)
