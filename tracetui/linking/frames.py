"""The Python side of a slice: its calling frame, the user's line, its module, its compiled region.

Frames, ops and calls of a thread nest by time. In traces with whole microseconds a frame of no duration may be beside
its caller; the frames around ops and launches are right nevertheless. A C call that the profiler saw begin and never
end appears to enclose everything after it, so it is the caller of nothing (R3.48).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.linking.autograd import autograd
from tracetui.linking.groups import distinct
from tracetui.linking.links import copy_to_launched, links, row_of
from tracetui.linking.trees import forest, is_named, nearest, subtree_sums
from tracetui.model.intervals import Bool, Int64, index_in, run_starts, tree_depth
from tracetui.model.results import kept
from tracetui.model.table import Strings
from tracetui.model.trace import Int32, Kind, Slices, Trace

MODULE = "nn.Module: "
"""Prefix of the frame of a module; the class and the number of the instance follow (R3.44)."""
PATH_SEPARATOR = " / "
"""Stands between the names of a module's path."""
BACKWARD_OF = "backward of "
"""Prefix of the path of a module in the backward pass."""
_C_CALL = "<built-in "
_LIBRARY = re.compile(
    r"(^|[/\\])(torch|triton)[/\\]|[/\\]torchinductor_"
    r"|^<(frozen|string>|built-in|eval_with_key)"
    r"|(^|[/\\])(contextlib|copy|enum|functools|inspect|runpy|threading|typing|warnings)\.py\("
    r"|(^|[/\\])(asyncio|concurrent|importlib|multiprocessing)[/\\]"
)
"""Frames that are not the user's code (R3.46)."""
_FRAME = re.compile(r".*\(\d+\): (.+)")
"""Name of a Python frame: `file.py(12): function`."""
COMPILED_REGION = re.compile(
    r"^(Torch-Compiled Region|CompiledFunction|## Call CompiledFxGraph|TorchDynamo Cache Lookup|Pregraph bytecode"
    r"|AOTDispatcher Runtime Wrapper Prologue)"
)
"""Names of compiled regions (R3.47)."""


@frozen
class Frames:
    """The Python frames around every op, call and frame, and around the launch of every GPU activity; -1 for none."""

    caller: Int32
    """The innermost frame."""
    user: Int32
    """The innermost frame of the user's own code, in the backward pass that of the forward op."""
    module: Int32
    """The innermost frame of a module, in the backward pass that of the forward op (R3.45)."""
    of_forward: Bool
    """Mask of the slices whose `module` is that of the forward op."""


@frozen
class ModulePaths:
    """Module paths such as `GPT_0 / Block_3 / MLP_3`; those of the backward pass begin with `backward of`."""

    id: Int32
    """The id in `texts` of the path of every slice's module, -1 for none."""
    texts: Strings

    def of(self, row: int) -> str:
        """The path of a slice's module, empty for none."""
        number = int(self.id[row])
        return str(self.texts[number]) if number >= 0 else ""


def is_own(name: str) -> bool:
    """True for a Python frame of the user's code or of a module, not of a library or a C call (R3.44, R3.46)."""
    return not _LIBRARY.search(name)


def function_of(name: str) -> str:
    """The function of a Python frame, as its name has it; any other name as it is."""
    match = _FRAME.fullmatch(name)
    return match[1] if match else name


@kept(of_file=True)
def frames(trace: Trace) -> Frames:
    """The Python frames around every op, call and GPU activity."""
    python = trace.slices.of_kind(Kind.PYTHON)
    if len(python) == 0:
        nothing = np.full(len(trace.slices), -1, np.int32)
        return Frames(nothing, nothing, nothing, np.zeros(len(nothing), bool))
    nesting = _nesting(trace)
    caller = _innermost(trace, nesting, lambda name: True)
    user, _ = _from_forward(
        trace, _innermost(trace, nesting, lambda name: is_own(name) and not name.startswith(MODULE))
    )
    return Frames(caller, user, *_from_forward(trace, _innermost(trace, nesting, lambda name: name.startswith(MODULE))))


@kept
def own_frames(trace: Trace) -> tuple[Int32, Bool]:
    """The innermost frame of the user's code or of a module around every slice; mask of those of the forward op."""
    if len(trace.slices.of_kind(Kind.PYTHON)) == 0:
        return np.full(len(trace.slices), -1, np.int32), np.zeros(len(trace.slices), bool)
    return _from_forward(trace, _innermost(trace, _nesting(trace), is_own))


@kept(of_file=True)
def module_paths(trace: Trace) -> ModulePaths:
    """The path of every slice's module, outermost first."""
    module, backward = frames(trace).module, frames(trace).of_forward
    texts = Strings()
    called = trace.slices.of_kind(Kind.PYTHON)
    called = called[is_named(trace, called, lambda name: name.startswith(MODULE))]
    path = np.full(len(trace.slices) + 1, -1, np.int64)
    level, rest = called[module[called] < 0], called[module[called] >= 0]
    while len(level):
        pairs = np.stack([path[module[level]], trace.slices.name[level].astype(np.int64)])
        used, index = np.unique(pairs, axis=1, return_inverse=True)
        ids = []
        for above, name in used.T.tolist():
            module_name = trace.names[name].removeprefix(MODULE)
            ids.append(texts.intern(f"{texts[above]}{PATH_SEPARATOR}{module_name}" if above >= 0 else module_name))
        path[level] = np.array(ids, np.int64)[index.ravel()]
        ready = path[module[rest]] >= 0
        level, rest = rest[ready], rest[~ready]
    own = path[module]
    backward_of = np.full(len(texts) + 1, -1, np.int64)
    for number in distinct(own[backward & (own >= 0)]).tolist():
        backward_of[number] = texts.intern(f"{BACKWARD_OF}{texts[number]}")
    own = np.where(backward, backward_of[own], own)
    return ModulePaths(own.astype(np.int32), texts)


def compiled_region(trace: Trace, chain: Sequence[int]) -> int:
    """The innermost compiled region of a dispatch chain, -1 for none; there are no module frames inside one (R3.47)."""
    return next((row for row in reversed(chain) if row >= 0 and COMPILED_REGION.match(trace.name_of(row))), -1)


@frozen
class _Nesting:
    """The tree of frames, ops and calls."""

    rows: Int64
    """All of them, ascending."""
    parent: Int64
    """Index in `rows` of the slice around each, -1 for none."""
    python: Int64
    """The frames that can call something."""


def _nesting(trace: Trace) -> _Nesting:
    rows = trace.slices.of_kind(Kind.PYTHON, Kind.CPU_OP, Kind.RUNTIME)
    python = trace.slices.of_kind(Kind.PYTHON)
    return _Nesting(rows, forest(trace, rows), python[~np.isin(python, _endless(trace, python))])


def _innermost(trace: Trace, nesting: _Nesting, wanted: Callable[[str], bool]) -> Int32:
    """The innermost frame whose name is wanted around every slice, or around its launch; -1 for none."""
    rows, python = nesting.rows, nesting.python
    mask = np.zeros(len(trace.slices), bool)
    mask[python[is_named(trace, python, wanted)]] = True
    frame = np.full(len(trace.slices), -1, np.int32)
    frame[rows] = row_of(rows, nearest(nesting.parent, mask[rows]))
    copy_to_launched(frame, links(trace).gpu, links(trace).launch)
    return frame


def _endless(trace: Trace, python: Int64) -> Int64:
    """C calls that end with the last frame of their thread: the profiler never saw them return (R3.48)."""
    slices = trace.slices
    last = np.full(len(trace.lanes), np.iinfo(np.int64).min)
    np.maximum.at(last, slices.lane[python], slices.end[python])
    ending = python[slices.end[python] == last[slices.lane[python]]]
    mask: Int64 = ending[is_named(trace, ending, lambda name: name.startswith(_C_CALL))]
    return mask


def _from_forward(trace: Trace, frame: Int32) -> tuple[Int32, Bool]:
    """The frames, in the backward pass those of the forward op where it has one; and the mask of the latter.

    A frame inside the node itself is nearer: there the forward pass is computed again.
    """
    backward = autograd(trace)
    of_forward = np.where(backward.forward >= 0, frame[backward.forward], -1)
    taken: Bool = (of_forward >= 0) & (frame < backward.node)
    return np.where(taken, of_forward, frame).astype(np.int32), taken


# Calls of modules and functions as a tree: a node is a name below the node that called it, or each call (R3.56).


@frozen
class FrameTree(Parallel):
    """Parallel arrays, one entry per node, in preorder; siblings in order of their first call."""

    parent: Int64
    """Index of the caller's node, -1 for none."""
    depth: Int64
    """Number of nodes above it."""
    name: Int64
    """Id of the name of its frames; ids beyond those of the trace are of `more_names`."""
    first: Int64
    """The frame of its first call."""
    frames: Int64
    """All frames of the tree, ascending; not one entry per node."""
    node: Int64
    """The node of each of `frames`."""
    more_names: tuple[str, ...] = ()
    """Names of nodes without frames, in which replayed activities were captured."""
    activities: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """The replayed GPU activities whose capture is known, ascending."""
    activity_node: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """The node of each of `activities`."""

    def of_frames(self, rows: NDArray[np.integer]) -> Int64:
        """The node of each frame, -1 for a row of -1 and for frames that are not in the tree."""
        return row_of(self.node, index_in(self.frames, rows))

    def of_activities(self, rows: NDArray[np.integer]) -> Int64:
        """The node that captured each GPU activity, -1 for none."""
        return row_of(self.activity_node, index_in(self.activities, rows))

    def name_of(self, trace: Trace, number: int) -> str:
        """The text of a name of a node."""
        return trace.names[number] if number < len(trace.names) else self.more_names[number - len(trace.names)]


def frame_tree(slices: Slices, rows: Int64, around: Int32, each_call: bool = False) -> FrameTree:
    """The tree of some frames, ascending; `around` has for every slice the frame of the tree around it, -1 for none.

    With `each_call` every call is a node of its own; else calls of one name below the same node share one.
    """
    index = np.full(len(slices) + 1, -1, np.int64)
    index[rows] = np.arange(len(rows))
    above = index[around[rows]]
    node, parent = (np.arange(len(rows)), above) if each_call else _merged_by_name(slices.name[rows], above)
    start = slices.start[rows]
    order = np.lexsort((rows, start, node))
    heads = order[np.flatnonzero(np.diff(node[order], prepend=-1))]
    rank = preorder(parent, start[heads])
    inverse = np.empty(len(rank), np.int64)
    inverse[rank] = np.arange(len(rank))
    placed = np.append(rank, -1)
    sorted_parent = placed[parent[inverse]]
    first = rows[heads[inverse]]
    return FrameTree(
        sorted_parent, tree_depth(sorted_parent), slices.name[first].astype(np.int64), first, rows, rank[node]
    )


def _merged_by_name(name: NDArray[np.integer], above: Int64) -> tuple[Int64, Int64]:
    """The node of each frame and the parent of each node, level by level: equal names below a node share a node."""
    node = np.full(len(name) + 1, -1, np.int64)
    parents = [np.empty(0, np.int64)]
    count, level, rest = 0, np.flatnonzero(above < 0), np.flatnonzero(above >= 0)
    while len(level):
        pairs = np.stack([node[above[level]], name[level].astype(np.int64)])
        used, member = np.unique(pairs, axis=1, return_inverse=True)
        node[level] = count + member.ravel()
        parents.append(used[0])
        count += used.shape[1]
        ready = node[above[rest]] >= 0
        level, rest = rest[ready], rest[~ready]
    return node[:-1], np.concatenate(parents)


def preorder(parent: Int64, start: Int64) -> Int64:
    """The position of each node in preorder, siblings in order of start."""
    if len(parent) == 0:
        return np.empty(0, np.int64)
    (size,) = subtree_sums(parent, np.ones(len(parent)))
    depth, position = tree_depth(parent), np.zeros(len(parent) + 1, np.int64)
    position[-1] = -1
    for level in range(int(depth.max()) + 1):
        mine = np.flatnonzero(depth == level)
        mine = mine[np.lexsort((start[mine], parent[mine]))]
        taken = np.cumsum(size[mine]) - size[mine]
        heads = np.flatnonzero(run_starts(parent[mine]))
        before = taken - np.repeat(taken[heads], np.diff(np.append(heads, len(mine))))
        position[mine] = position[parent[mine]] + 1 + before.astype(np.int64)
    return position[:-1]
