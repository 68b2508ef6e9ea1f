"""The Python side of a slice: its calling frame, the user's line, its module, its compiled region.

Frames, ops and calls of a thread nest by time. In traces with whole microseconds a frame of no duration may be beside
its caller; the frames around ops and launches are right nevertheless. A C call that the profiler saw begin and never
end appears to enclose everything after it, so it is the caller of nothing (R3.48).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.linking.autograd import autograd
from tracetui.linking.groups import distinct
from tracetui.linking.joining import pass_on, row_of
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links
from tracetui.linking.trees import forest, nearest
from tracetui.model.intervals import Bool, Int64
from tracetui.model.strings import Strings
from tracetui.model.trace import Int32, Kind, Trace

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


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class ModulePaths:
    """Module paths such as `GPT_0 / Block_3 / MLP_3`; those of the backward pass begin with `backward of`."""

    id: Int32
    """For every slice the number of its module's path in `texts`, -1 for none."""
    texts: Strings

    def of(self, row: int) -> str:
        """The path of a slice's module, empty for none."""
        number = int(self.id[row])
        return str(self.texts[number]) if number >= 0 else ""


def is_own(name: str) -> bool:
    """Whether a Python frame is the user's code or a module, and neither a library's nor a C call (R3.44, R3.46)."""
    return not _LIBRARY.search(name)


def function_of(name: str) -> str:
    """The function of a Python frame, as its name has it; any other name as it is."""
    match = _FRAME.fullmatch(name)
    return match[1] if match else name


def frames(trace: Trace) -> Frames:
    """The Python frames around every op, call and GPU activity, found once."""
    return trace.remember("frames", lambda: _find(trace))


def own_frames(trace: Trace) -> tuple[Int32, Bool]:
    """The innermost frame of the user's code or of a module around every slice; the mask says where it is that of the
    forward op. Found on demand.
    """

    def find() -> tuple[Int32, Bool]:
        if len(trace.slices.of_kind(Kind.PYTHON)) == 0:
            return np.full(len(trace.slices), -1, np.int32), np.zeros(len(trace.slices), bool)
        return _from_forward(trace, _innermost(trace, _nesting(trace), is_own))

    return trace.remember("own frames", find)


def module_paths(trace: Trace) -> ModulePaths:
    """The path of every slice's module, outermost first."""
    return trace.remember("module paths", lambda: _paths(trace))


def compiled_region(trace: Trace, chain: Sequence[int]) -> int:
    """The innermost compiled region of a dispatch chain, -1 for none; there are no module frames inside one (R3.47)."""
    return next((row for row in reversed(chain) if row >= 0 and COMPILED_REGION.match(trace.name_of(row))), -1)


def _find(trace: Trace) -> Frames:
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


@dataclass(frozen=True, eq=False)
class _Nesting:
    """How frames, ops and calls nest."""

    rows: Int64
    """All of them, ascending."""
    parent: Int64
    """Index in `rows` of what is around each, -1 for nothing."""
    python: Int64
    """The frames that can call something."""


def _nesting(trace: Trace) -> _Nesting:
    rows = trace.slices.of_kind(Kind.PYTHON, Kind.CPU_OP, Kind.RUNTIME)
    python = trace.slices.of_kind(Kind.PYTHON)
    return _Nesting(rows, forest(trace, rows), python[~np.isin(python, _endless(trace, python))])


def _innermost(trace: Trace, nesting: _Nesting, wanted: Callable[[str], bool]) -> Int32:
    """For every slice the innermost frame around it, or around its launch, whose name is wanted; -1 for none."""
    rows, python = nesting.rows, nesting.python
    mask = np.zeros(len(trace.slices), bool)
    mask[python[is_named(trace, python, wanted)]] = True
    found = np.full(len(trace.slices), -1, np.int32)
    found[rows] = row_of(rows, nearest(nesting.parent, mask[rows]))
    pass_on(found, links(trace).gpu, links(trace).launch)
    return found


def _endless(trace: Trace, python: Int64) -> Int64:
    """C calls that last until the last frame of their thread has ended."""
    slices = trace.slices
    last = np.full(len(trace.lanes), np.iinfo(np.int64).min)
    np.maximum.at(last, slices.lane[python], slices.end[python])
    ending = python[slices.end[python] == last[slices.lane[python]]]
    mask: Int64 = ending[is_named(trace, ending, lambda name: name.startswith(_C_CALL))]
    return mask


def _from_forward(trace: Trace, found: Int32) -> tuple[Int32, Bool]:
    """The frames, in the backward pass those of the forward op where it has one; and the mask of the latter.

    A frame inside the node itself is nearer: there the forward pass is computed again.
    """
    backward = autograd(trace)
    of_forward = np.where(backward.forward >= 0, found[backward.forward], -1)
    taken: Bool = (of_forward >= 0) & (found < backward.node)
    return np.where(taken, of_forward, found).astype(np.int32), taken


def _paths(trace: Trace) -> ModulePaths:
    """Paths level by level: a path is that of the enclosing module and a name; equal pairs share a path."""
    module, backward = frames(trace).module, frames(trace).of_forward
    texts = Strings()
    every = trace.slices.of_kind(Kind.PYTHON)
    called = every[is_named(trace, every, lambda name: name.startswith(MODULE))]
    path = np.full(len(trace.slices) + 1, -1, np.int64)
    level, rest = called[module[called] < 0], called[module[called] >= 0]
    while len(level):
        pairs = np.stack([path[module[level]], trace.slices.name[level].astype(np.int64)])
        used, index = np.unique(pairs, axis=1, return_inverse=True)
        made = [texts.intern(_joined(texts, above, trace.names[name])) for above, name in used.T.tolist()]
        path[level] = np.array(made, np.int64)[index.ravel()]
        ready = path[module[rest]] >= 0
        level, rest = rest[ready], rest[~ready]
    own = path[module]
    turned = np.full(len(texts) + 1, -1, np.int64)
    for number in distinct(own[backward & (own >= 0)]).tolist():
        turned[number] = texts.intern(f"{BACKWARD_OF}{texts[number]}")
    own = np.where(backward, turned[own], own)
    return ModulePaths(own.astype(np.int32), texts)


def _joined(texts: Strings, above: int, name: str) -> str:
    own = name.removeprefix(MODULE)
    return f"{texts[above]}{PATH_SEPARATOR}{own}" if above >= 0 else own
