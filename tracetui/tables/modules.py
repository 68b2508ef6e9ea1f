"""The modules pane: a tree of modules, or of functions and modules, with what they cost on the GPU and the CPU (R3.56).

A GPU activity belongs to the innermost module around its launch, in the backward pass to that of the forward operator;
a replayed one to the module that captured it, where that is known.
Times on the GPU are sums of durations, so that the own times of all rows add up to those of the trace.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.idle.waits import idleness
from tracetui.linking.frames import MODULE, FrameTree, frame_tree, frames, function_of, is_own, own_frames
from tracetui.linking.graph_nodes import with_captured_nodes
from tracetui.linking.links import links, no_gpu
from tracetui.linking.placement import lost_launches, time_within, within
from tracetui.linking.trees import is_named, open_at, subtree_sums
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part, TimeRange
from tracetui.model.pane import Grouping, Pane
from tracetui.model.results import kept
from tracetui.model.table import NULL, Column, ColumnSpec, Table, coded, micros, numbers
from tracetui.model.trace import Float64, Int32, Kind, Trace

_MODULE = re.compile(re.escape(MODULE))
INDENT = "  "
"""Stands once before the name of a row for each row above it."""
SEPARATOR = " / "
"""Stands between the names of a path."""
OUTSIDE = "(outside)"
"""Name of the row of the GPU activities that belong to none of the others."""
NO_MODULES = "No nn.Module was called while Python frames were recorded; --by function lists the functions."


@frozen
class _OwnCosts:
    """Costs of the calls of each node without what they call, times in ns; the last entry is for no node."""

    calls: Int64
    cpu: Float64
    """With what they call."""
    own_cpu: Float64
    forward: Float64
    backward: Float64
    idle: Float64
    activities: Float64
    inferred: Float64
    """Activities placed by their own start."""
    captured: Float64
    """Activities that belong to what captured them."""


def modules(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """The tree, a row before what it calls. A step holds calls that begin in it and
    GPU activities launched in it, a range of time calls and activities as far as they run within it (R3.58).
    """
    around, backward = _around(trace, by)
    tree = _module_tree_with_captured(trace, by)
    if len(tree) == 0:
        nothing = _OwnCosts(np.zeros(1, np.int64), *(np.zeros(1) for _ in range(8)))
        return Table(
            _columns(trace, tree, nothing, np.empty(0, np.int64)),
            np.empty(0, np.int64),
            _note(trace, by, np.zeros(1), tree),
        )
    costs = _own_costs(trace, tree, around, backward, step)
    kept = np.flatnonzero(_with_callees(tree, costs.calls + costs.activities + costs.idle) > 0)
    outside = within(trace, links(trace).gpu, step)
    outside = np.append(outside[_users(trace, tree, around, outside) < 0], -1)[:1]
    # The first call of each node in the part, or of all where it is not called there.
    first, called = tree.first.copy(), within(trace, tree.frames, step)
    called = called[np.argsort(-trace.slices.start[called], kind="stable")]
    first[tree.of_frames(called)] = called
    return Table(
        _columns(trace, tree, costs, kept),
        np.append(first, outside)[kept],
        _note(trace, by, costs.inferred, tree),
    )


PANE = Pane(
    "modules",
    "Modules",
    key="C",
    help="One row is a module below the module that called it.",
    table=modules,
    columns="tree calls gpu_us pct cpu_us idle_us activities own_gpu_us own_cpu_us forward_gpu_us backward_gpu_us",
    groupings=(
        Grouping("function"),
        Grouping("call"),
    ),
    has_own_order=True,
    bars="gpu_us cpu_us",
    is_in_time_order=False,
)


def holders(trace: Trace, row: int, by: str | None = None) -> list[tuple[int, str]]:
    """The frames of the tree around a slice or its launch, innermost first, itself included, each with its path.

    Last comes what holds everything else, -1 with no path.
    """
    if (captured := _captured_holders(trace, row, by)) is not None:
        return captured
    around, _ = _around(trace, by)
    wanted = _MODULE.match if by is None else is_own
    own = trace.slices.kind[row] == Kind.PYTHON and wanted(trace.name_of(row))
    frame, rows = row if own else int(around[row]), []
    while frame >= 0:
        rows.append(frame)
        frame = int(around[frame])
    words = [_word(trace.name_of(each)) for each in rows]
    paths = [SEPARATOR.join(reversed(words[index:])) for index in range(len(words))]
    return [*zip(rows, paths, strict=True), (-1, "")]


def _captured_holders(trace: Trace, row: int, by: str | None) -> list[tuple[int, str]] | None:
    """The same for an activity whose capture is known, with the slice that each row of the tree leads to."""
    tree = _module_tree_with_captured(trace, by)
    node = int(tree.of_activities(np.array([row]))[0])
    if node < 0:
        return None
    _, paths = _texts(trace, tree)
    found = []
    while node >= 0:
        found.append((int(tree.first[node]), paths[node]))
        node = int(tree.parent[node])
    return [*found, (-1, "")]


def calls_of_path(trace: Trace, path: str) -> Int64:
    """The calls of the modules or functions of a path such as `Net_0/Linear_0`, of one with `/` first from the root.

    Paths are those of the tree of modules, else of the tree of functions and modules; empty where neither has it.
    """
    wanted = [word.strip() for word in path.strip().removeprefix("/").split("/")]
    is_anchored = path.strip().startswith("/")
    for by in (None, "function"):
        tree = _module_tree(trace, by)
        words = [names.split(SEPARATOR) for names in _texts(trace, tree)[1][:-1]]
        nodes = [
            node for node, names in enumerate(words) if (names if is_anchored else names[-len(wanted) :]) == wanted
        ]
        if nodes:
            return np.compress(np.isin(tree.node, nodes), tree.frames)
    return np.empty(0, np.int64)


def path_of(trace: Trace, row: int, by: str | None = None) -> str:
    """The path of a frame of the tree from the root, as `calls_of_path` takes it."""
    return "/" + holders(trace, row, by)[0][1].replace(SEPARATOR, "/")


@kept
def _module_tree(trace: Trace, by: str | None) -> FrameTree:
    return frame_tree(trace.slices, _frames(trace, by), _around(trace, by)[0], by == "call")


@kept
def _module_tree_with_captured(trace: Trace, by: str | None) -> FrameTree:
    """The tree with what captured replayed activities; calls of the capture are not calls of this trace."""
    if by == "call":
        return _module_tree(trace, by)
    return with_captured_nodes(trace, _module_tree(trace, by), by is not None)


def _around(trace: Trace, by: str | None) -> tuple[Int32, Bool]:
    """For every slice the frame of the tree around it, and whether it is that of the forward operator."""
    if by is not None:
        return own_frames(trace)
    return frames(trace).module, frames(trace).of_forward


def _frames(trace: Trace, by: str | None) -> Int64:
    """The frames that the tree is made of, ascending."""
    python = trace.slices.of_kind(Kind.PYTHON)
    return np.sort(python[is_named(trace, python, _MODULE.match if by is None else is_own)])


def _own_costs(trace: Trace, tree: FrameTree, around: Int32, backward: Bool, step: Part | None) -> _OwnCosts:
    called, gpu = within(trace, tree.frames, step), within(trace, links(trace).gpu, step)
    took, ran = time_within(trace, called, step), time_within(trace, gpu, step)
    ended, lasted = gaps_within(trace, step)
    after = idleness(trace).after[ended]

    def sums(node: Int64, values: Int64 | None = None) -> Float64:
        return np.bincount(np.where(node < 0, len(tree), node), values, len(tree) + 1).astype(np.float64)

    node, user = tree.of_frames(called), _users(trace, tree, around, gpu)
    cpu, later = sums(node, took), backward[gpu]
    return _OwnCosts(
        sums(node).astype(np.int64),
        cpu,
        cpu - sums(tree.of_frames(around[called]), took),
        sums(user[~later], ran[~later]),
        sums(user[later], ran[later]),
        sums(_users(trace, tree, around, after), lasted),
        sums(user),
        sums(user[lost_launches(trace, gpu)]),
        sums(user[tree.of_activities(gpu) >= 0]),
    )


def gaps_within(trace: Trace, part: Part | None) -> tuple[Int64, Int64]:
    """Indices in `idleness(trace)` of the gaps of a part, and for how many ns of it each lasts.

    A gap belongs to the step of the activity that ends it.
    """
    idle = idleness(trace)
    if isinstance(part, TimeRange):
        ended = np.flatnonzero(part.touched(idle.start, idle.end))
        return ended, part.covered(idle.start, idle.end)[ended]
    ended = np.flatnonzero(np.isin(idle.after, within(trace, links(trace).gpu, part)))
    return ended, idle.dur[ended]


@frozen
class ActivityNodes:
    """The modules of GPU activities, as the pane has them."""

    tree: FrameTree
    node: Int64
    """The node of each activity, -1 for none."""
    of_slices: Int64
    """The node around every slice of a thread, in the backward pass that of the forward operator; -1 for none."""


def nodes_of(trace: Trace, gpu: Int64, by: str | None) -> ActivityNodes:
    """The tree of modules, or by `function` of functions and modules, and the node of each GPU activity in it."""
    tree, (around, _) = _module_tree_with_captured(trace, by), _around(trace, by)
    return ActivityNodes(tree, _users(trace, tree, around, gpu), tree.of_frames(around))


def _users(trace: Trace, tree: FrameTree, around: Int32, gpu: Int64) -> Int64:
    """The node of each GPU activity, -1 for none: what captured it, else what is around its launch, and without a
    launch record by its own start on the thread that launches most, which is a guess (R3.3).
    """
    node, lone = tree.of_frames(around[gpu]), np.flatnonzero(lost_launches(trace, gpu))
    if len(lone) and len(tree.frames):
        node[lone] = _open_nodes(trace, tree, around, gpu[lone])
    captured = tree.of_activities(gpu)
    return np.where(captured >= 0, captured, node)


def _open_nodes(trace: Trace, tree: FrameTree, around: Int32, gpu: Int64) -> Int64:
    """The node that is open on the thread that launches most when each activity starts."""
    lanes = trace.slices.lane
    calls = np.bincount(lanes[links(trace).launches], minlength=len(trace.lanes))
    frame_lanes = np.bincount(lanes[tree.frames], minlength=len(trace.lanes))
    lane = int(np.lexsort((frame_lanes, calls * (frame_lanes > 0)))[-1])
    row = open_at(trace, np.full(len(gpu), lane), trace.slices.start[gpu])
    own, outer = tree.of_frames(row), tree.of_frames(np.where(row >= 0, around[row], -1))
    return np.where(own >= 0, own, outer)


def _with_callees(tree: FrameTree, own: NDArray[np.number]) -> Float64:
    """The sums of every node and all below it; the last entry, of no node, stays."""
    (total,) = subtree_sums(tree.parent, own[:-1])
    return np.append(total, own[-1])


def _columns(trace: Trace, tree: FrameTree, costs: _OwnCosts, kept: Int64) -> tuple[Column, ...]:
    without_gpu = np.full(len(kept), len(links(trace).gpu) == 0)
    labels, paths = _texts(trace, tree)
    own_gpu = costs.forward + costs.backward
    gpu, own_cpu, depth = _with_callees(tree, own_gpu), costs.own_cpu, np.append(tree.depth, 0)
    outside = kept == len(tree)
    whole = own_gpu[kept].sum() if not without_gpu.all() else costs.cpu[:-1][tree.parent < 0].sum()
    share = (gpu if not without_gpu.all() else costs.cpu)[kept] * (100 / max(whole, 1.0))

    captured = _with_callees(tree, costs.captured)[kept] > 0
    # What captured a graph was not called while the trace was recorded.
    uncalled = outside | ((costs.calls == 0) & (_with_callees(tree, costs.captured) > 0))[kept]

    def gpu_time(column: ColumnSpec, values: Float64) -> Column:
        return micros(column, values[kept], null=without_gpu, doubtful=captured if captured.any() else None)

    return (
        coded(col.TREE, np.arange(len(labels))[kept], labels),
        numbers(col.CALLS, np.where(uncalled, NULL, costs.calls[kept])),
        gpu_time(col.GPU_US, gpu),
        gpu_time(col.OWN_GPU_US, own_gpu),
        numbers(col.PCT.but(help="Share of the GPU time of all rows, without a GPU of the CPU time."), share),
        gpu_time(col.FORWARD_GPU_US, _with_callees(tree, costs.forward)),
        gpu_time(
            col.BACKWARD_GPU_US.but(help="Of it: launched in the backward pass of its operators."),
            _with_callees(tree, costs.backward),
        ),
        gpu_time(
            col.IDLE_US.but(
                help="Time in which the GPU ran nothing before an activity that it or what it called launched."
            ),
            _with_callees(tree, costs.idle),
        ),
        numbers(
            col.ACTIVITIES.but(help="Kernels, copies and fills that it and what it called launched."),
            np.where(without_gpu, NULL, _with_callees(tree, costs.activities)[kept].astype(np.int64)),
        ),
        micros(col.CPU_US, costs.cpu[kept], null=uncalled),
        micros(col.OWN_CPU_US, own_cpu[kept], null=uncalled),
        numbers(col.DEPTH, depth[kept]),
        numbers(col.INFERRED, np.where(without_gpu, NULL, _with_callees(tree, costs.inferred)[kept].astype(np.int64))),
        coded(col.PATH, np.where(outside, -1, np.arange(len(paths))[kept]), paths),
    )


def _texts(trace: Trace, tree: FrameTree) -> tuple[list[str], list[str]]:
    """The name of each node behind its indentation, and its path; those of no node come last."""
    words = {number: _word(tree.name_of(trace, number)) for number in np.unique(tree.name).tolist()}
    labels: list[str] = []
    paths: list[str] = []
    for name, depth, parent in zip(tree.name.tolist(), tree.depth.tolist(), tree.parent.tolist(), strict=True):
        labels.append(INDENT * depth + words[name])
        paths.append(SEPARATOR.join((paths[parent], words[name])) if parent >= 0 else words[name])
    return [*labels, OUTSIDE], [*paths, ""]


def _word(name: str) -> str:
    """A module by class and number, a function by its own name."""
    return name.removeprefix(MODULE) if name.startswith(MODULE) else function_of(name)


def no_frames(trace: Trace) -> str:
    """A sentence about a trace without Python frames."""
    return f"The trace holds no Python frames: {trace.to_record('record with with_stack=True')}."


def _note(trace: Trace, by: str | None, inferred: Float64, tree: FrameTree) -> str:
    if len(tree.activities):
        many = f"{len(tree.activities):,} GPU activities were replayed from graphs"
        return f"{many}: they belong to the {'modules' if by is None else 'functions'} that captured them (~)."
    if len(trace.slices.of_kind(Kind.PYTHON)) == 0:
        return no_frames(trace)
    if len(_frames(trace, by)) == 0:
        return NO_MODULES
    if not inferred.any():
        return no_gpu(trace)
    placed = "placed by their own start, which is a guess"
    return f"{inferred.sum():,.0f} GPU activities have no launch record: they are {placed}."
