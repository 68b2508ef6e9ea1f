"""The place in the program that caused a slice: the line, the function and the module (R3.45, R3.46, R3.55).

A line is known of recordings that hold one slice for each statement (`tracetui run --lines`). That of an operator or a
call is the innermost such slice around it on its thread; that of a GPU activity is the line of its launch. A node of
the backward pass has the line of the forward operator that created it, unless code of the user runs within the node:
that keeps its own. What a thread of the backward pass does without either has the line that waits for it (R3.95). A
kernel of compiled code has the lines it was fused from, where Inductor has written their stacks into its event.

Function and module are those of the frames: for a GPU activity of the frames around its launch, in the backward pass of
the forward operator. A replayed activity has those of the capture of its graph, where these are known. Nothing is known
where the recording has no Python frames; and no line where it has no lines, because a frame has that of its `def`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.autograd import autograd
from tracetui.linking.frames import COMPILED_REGION, MODULE, frames, is_own, module_paths
from tracetui.linking.graph_nodes import graph_nodes, with_captured_texts
from tracetui.linking.groups import distinct
from tracetui.linking.links import copy_to_launched, links, names_of, row_of
from tracetui.linking.replays import replays
from tracetui.linking.trees import forest, is_named, nearest, open_at
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, covered_within
from tracetui.model.pane import Grouping
from tracetui.model.results import kept
from tracetui.model.table import Column, Strings, coded
from tracetui.model.trace import Int32, Kind, Trace

PREFIX = "line: "
"""Begins the names of these slices; the file and the number of the line follow."""
CPU_KINDS = (Kind.LINE, Kind.CPU_OP, Kind.RUNTIME, Kind.ANNOTATION, Kind.PYTHON)
"""Kinds of slices that say what a thread does."""
MAX_FUSED_LINES = 8
"""Lines that the text of a kernel names; of more, their number."""
MAX_STACK_CHARS = 100_000
_PLACE = re.compile(r"(.+?):(\d{1,9})(, .*)?", re.DOTALL)
_STACK_FRAME = re.compile(r'File "([^"\n]{1,4000})", line (\d{1,9})(?:, in (\S{1,200}))?')
_SAMPLED = 64
"""Kernels of compiled code that are searched for a stack; where none of them has one, the others are not read."""


@frozen
class Lines:
    """The line of every slice, as the row of its record; -1 for none."""

    record: Int32
    is_backward: Bool
    """Mask of the slices that run within a node of the backward pass, and of what these launched."""


@cache
def place_of(text: str) -> tuple[str, int]:
    """The file and the number of a line such as `train.py:12`, of several the first; of any other text it and 0."""
    match = _PLACE.fullmatch(text)
    return (match[1], int(match[2])) if match else (text, 0)


def has_records(trace: Trace) -> bool:
    """True where a slice of its own stands for each statement that ran."""
    return bool((trace.slices.kind == Kind.LINE).any())


def has_lines(trace: Trace) -> bool:
    """True where the trace says of some slices which line ran."""
    return has_records(trace) or len(compiled_lines(trace)[0]) > 0


@kept
def line_ids(trace: Trace) -> tuple[Int64, Strings]:
    """The line of every slice as an id, -1 for none; and the texts of the ids."""
    texts, record = Strings(), recorded_lines(trace).record
    of_name = np.full(len(trace.names) + 1, -1, np.int64)
    for number in distinct(trace.slices.name[trace.slices.of_kind(Kind.LINE)]).tolist():
        of_name[number] = texts.intern(trace.names[number].removeprefix(PREFIX))
    ids = np.full(len(record), -1, np.int64)
    ids[record >= 0] = of_name[trace.slices.name[record[record >= 0]]]
    rows, compiled, names = compiled_lines(trace)
    # Records name files by the end of their path.
    files = {place_of(text)[0] for text in texts}
    known = []
    for name in names:
        path = place_of(name)[0]
        file = next((each for each in files if path.endswith(f"/{each}")), path)
        known.append(texts.intern(name.replace(path, file)))
    ids[rows] = np.array(known, np.int64)[compiled]
    return ids, texts


@kept(on_disk=True)
def compiled_lines(trace: Trace) -> tuple[Int64, Int64, Strings]:
    """The kernels of compiled code whose lines Inductor has written, an id for each, and the texts of the ids."""
    texts, slices = Strings(), trace.slices
    rows = links(trace).gpu
    rows = rows[slices.kind[rows] == Kind.KERNEL]
    none = np.empty(0, np.int64)
    if len(rows) == 0 or not any(COMPILED_REGION.match(name) for name in trace.names):
        return none, none, texts
    # Kernels that Inductor wrote are the first of the sample.
    triton = is_named(trace, rows, lambda name: name.startswith("triton_"))
    some = rows[triton] if triton.any() else rows
    (sample,) = trace.args_of(some[:: -(-len(some) // _SAMPLED)], ["stack"])
    if all(stack is None for stack in sample):
        return none, none, texts
    (stacks,) = trace.args_of(rows, ["stack"])
    names = [_line_of_stacks(stack) for stack in stacks]
    ids = np.array([texts.intern(name) if name else -1 for name in names], np.int64)
    return rows[ids >= 0], ids[ids >= 0], texts


def _line_of_stacks(stacks: object) -> str:
    """The lines of a kernel, such as `train.py:12, 14` or `a.py:3, b.py:5`; empty for none.

    Of each stack it is the innermost frame in the user's own code.
    """
    lines: dict[tuple[str, str], None] = {}
    for stack in stacks if isinstance(stacks, list) else [stacks]:
        if isinstance(stack, str):
            known = _STACK_FRAME.findall(stack[-MAX_STACK_CHARS:])
            own = [each for each in known if is_own(f"{each[0]}({each[1]}): {each[2]}")]
            lines.update((each[:2], None) for each in own[-1:])
    words, before = [], ""
    for file, number in list(lines)[:MAX_FUSED_LINES]:
        words.append(number if file == before else f"{file}:{number}")
        before = file
    more = len(lines) - MAX_FUSED_LINES
    return ", ".join(words) + (f", {more} more" if more > 0 else "")


@kept
def recorded_lines(trace: Trace) -> Lines:
    """The line of every slice of a thread, and of every GPU activity."""
    slices = trace.slices
    record, backward = np.full(len(slices), -1, np.int32), np.zeros(len(slices), bool)
    if not has_records(trace):
        return Lines(record, backward)
    rows = slices.of_kind(*CPU_KINDS)
    parent, passes = forest(trace, rows), autograd(trace)
    is_line = slices.kind[rows] == Kind.LINE
    is_node = np.zeros(len(slices), bool)
    is_node[passes.nodes] = True
    itself = np.arange(len(rows))
    around = np.where(is_line, itself, nearest(parent, is_line))
    node = np.where(is_node[rows], itself, nearest(parent, is_node[rows]))
    record[rows], backward[rows] = row_of(rows, around), node >= 0
    forward = passes.forward[rows].astype(np.int64)
    # With a hook on its tensor a node has its number on the slice inside only.
    inner = np.flatnonzero(is_node[rows] & (forward >= 0))[::-1]
    outer = nearest(parent, is_node[rows])[inner]
    bare = (outer >= 0) & (forward[outer] < 0)
    forward[outer[bare]] = forward[inner[bare]]
    of_forward = np.where(forward >= 0, record[forward], -1)
    # The record of a line within the node is nearer.
    taken = (of_forward >= 0) & (around <= node) & (node >= 0)
    record[rows[taken]] = of_forward[taken]
    _take_from_waiting(trace, record, rows[(record[rows] < 0) & (node >= 0)])
    joined = links(trace)
    copy_to_launched(record, joined.gpu, joined.launch)
    launched = joined.gpu[joined.launch[joined.gpu] >= 0]
    backward[launched] = backward[joined.launch[launched]]
    return Lines(record, backward)


def _take_from_waiting(trace: Trace, record: Int32, rows: Int64) -> None:
    """Give slices of a backward thread the line that its forward thread is in at that time (R3.95)."""
    home = autograd(trace).home[trace.slices.lane[rows]]
    away = home != trace.slices.lane[rows]
    rows, home = rows[away], home[away]
    if len(rows) == 0:
        return
    record[rows] = open_at(trace, home, trace.slices.start[rows], trace.slices.of_kind(Kind.LINE))


@kept
def function_lines(trace: Trace) -> Lines:
    """The function in place of the line, as the row of its innermost frame of the user's own code (R3.46)."""
    slices, record = trace.slices, frames(trace).user.copy()
    python = slices.of_kind(Kind.PYTHON)
    own = python[is_named(trace, python, lambda name: is_own(name) and not name.startswith(MODULE))]
    record[own] = own
    return Lines(record, autograd(trace).node >= 0)


@frozen
class Pieces:
    """Time of a thread, cut wherever the slice changes that it is in: parallel arrays, none overlaps another."""

    start: Int64
    end: Int64
    row: Int64
    """The innermost slice, -1 for time in none."""


def pieces(trace: Trace, lane: int, low: Int64, high: Int64) -> Pieces:
    """The time of a thread in disjoint windows: every moment of them is in one piece.

    While the thread is in no operator or call, the time is that of the backward pass on another thread that it waits
    for, where there is one.
    """
    slices = trace.slices
    home = autograd(trace).home
    helpers = [other for other in np.flatnonzero(home == lane).tolist() if other != lane]
    rows = slices.of_kind(*CPU_KINDS)
    rows = rows[np.isin(slices.lane[rows], [lane, *helpers])]
    rows = rows[(slices.end[rows] > low.min(initial=0)) & (slices.start[rows] < high.max(initial=0))]
    edges = np.unique(np.concatenate([low, high, slices.start[rows], slices.end[rows]]))
    start, end = edges[:-1], edges[1:]
    inside = covered_within(low, high, start, end) > 0
    start, end = start[inside], end[inside]
    row = open_at(trace, np.full(len(start), lane), start, rows)
    waits = (row < 0) | ~np.isin(slices.kind[row], (Kind.CPU_OP, Kind.RUNTIME))
    for other in helpers:
        meanwhile = open_at(trace, np.full(len(start), other), start, rows)
        taken = waits & (meanwhile >= 0) & (autograd(trace).node[meanwhile] >= 0)
        row, waits = np.where(taken, meanwhile, row), waits & ~taken
    return Pieces(start, end, row)


SITES = ("line", "function", "module")
"""Groupings by the place in the program that launched."""


def site_of(trace: Trace, rows: Int64, kind: str) -> tuple[Int64, Sequence[str], Bool | None]:
    """The call site of each slice as an id, -1 for none and for a row of -1, and the texts of the ids.

    The mask is of those that are inferred from the capture of a graph, None where no capture is known.
    """
    if len(trace.slices) == 0:
        return np.full(len(rows), -1, np.int64), (), None
    ids, texts = _site_around(trace, rows, kind)
    if kind == "line":
        return ids, texts, None
    return with_captured_texts(trace, rows, ids, texts, kind)


def launch_site_of(trace: Trace, rows: Int64, kind: str) -> tuple[Int64, Sequence[str]]:
    """`site_of` with the call site of the launch, in place of the capture, for the first activity of a replay."""
    if len(trace.slices) == 0:
        return np.full(len(rows), -1, np.int64), ()
    is_first = np.isin(rows, replays(trace).first)
    ids, texts, _ = site_of(trace, rows, kind)
    # Texts of the capture stand behind those of the trace, under the same ids.
    return np.where(is_first, _site_around(trace, rows, kind)[0], ids), texts


def _site_around(trace: Trace, rows: Int64, kind: str) -> tuple[Int64, Sequence[str]]:
    """The call site around each slice or its launch."""
    known = rows >= 0
    index = np.where(known, rows, 0)
    if kind == "module":
        paths = module_paths(trace)
        return np.where(known, paths.id[index], -1).astype(np.int64), paths.texts
    if kind == "function":
        return names_of(trace, np.where(known, frames(trace).user[index], -1)), trace.names
    ids, texts = line_ids(trace)
    return np.where(known, ids[index], -1), texts


def site_columns(trace: Trace, rows: Int64) -> tuple[Column, ...]:
    """Columns line, function and module of some slices."""
    return tuple(site_column(trace, rows, kind) for kind in SITES)


def launch_site_columns(trace: Trace, rows: Int64) -> tuple[Column, ...]:
    """Columns line, function and module of some activities, for the first of a replay those of its launch."""
    inferred = (graph_nodes(trace).index_of(rows) >= 0) & ~np.isin(rows, replays(trace).first)
    doubtful = inferred if inferred.any() else None
    return tuple(
        coded(col.COLUMNS[kind], *launch_site_of(trace, rows, kind), doubtful=None if kind == "line" else doubtful)
        for kind in SITES
    )


def site_column(trace: Trace, rows: Int64, kind: str) -> Column:
    """The column of one kind of call site."""
    ids, texts, inferred = site_of(trace, rows, kind)
    return coded(col.COLUMNS[kind], ids, texts, doubtful=inferred)


def known_sites(trace: Trace) -> tuple[str, ...]:
    """The kinds of call sites that a trace holds."""
    nodes = graph_nodes(trace)
    known = {"line": has_lines(trace)}
    known["function"] = len(trace.slices.of_kind(Kind.PYTHON)) > 0 or bool((nodes.function >= 0).any())
    known["module"] = known["function"] and (len(module_paths(trace).texts) > 0 or bool((nodes.module >= 0).any()))
    return tuple(site for site in SITES if known[site])


def site_groupings(columns: str = "", opens: str | None = None) -> tuple[Grouping, ...]:
    """Groupings of a pane by each kind of call site, offered where a trace holds it; `columns` follow the site."""

    def by(site: str) -> Grouping:
        names = f"{site} {columns}" if columns else ""
        return Grouping(site, names, opens, is_offered=lambda trace: site in known_sites(trace))

    return tuple(by(site) for site in SITES)
