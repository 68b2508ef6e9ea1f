"""Stacks in words: the line of the program that allocated, the modules around it, the operator behind it."""

from __future__ import annotations

import os
import posixpath
import re

import numpy as np

from tracetui.model.intervals import Int64
from tracetui.model.memory_snapshot import MemorySnapshot

LIBRARIES = re.compile(r"/(?:site|dist)-packages/|/lib/python3|/torch/|^<|/runpy\.py$|/importlib/|^/usr/lib/python")
"""Files that are not the user's."""
UNKNOWN_LINE = "(no stack was recorded)"
NO_PYTHON = "(no Python frame)"
_NODE = re.compile(r"::(AccumulateGrad|\w+Backward\d*)::apply")
_PLUMBING = re.compile(r"torch::unwind|CapturedTraceback|gather_with_cpp|CachingAllocator|at::detail::empty")
_OPERATOR = re.compile(r"at::_ops::(\w+)::")
MODULE_CALLS = ("forward", "__call__")
"""Functions that stand for a module in a stack."""
MAX_MODULES = 6
"""Modules of a chain that are named, the innermost."""


class Frames:
    """The stacks of a snapshot in words, each made once."""

    def __init__(self, snapshot: MemorySnapshot) -> None:
        self._snapshot, self._stacks = snapshot, snapshot.stacks
        texts = snapshot.texts
        used = {int(each) for each in np.unique(self._stacks.file)}
        paths = {number: posixpath.normpath(texts[number].replace("\\", "/")) for number in used if texts[number]}
        self._python = {number for number in paths if texts[number].endswith(".py")}
        self._own = {number for number in self._python if not LIBRARIES.search(paths[number])}
        folders = [posixpath.dirname(paths[number]) for number in self._own if paths[number].startswith("/")]
        root = os.path.commonpath(folders) if folders else ""
        cut = len(root) + 1 if len(root) > 1 else 0
        # Of a library's file the end of its path: `torch/nn/modules/linear.py`.
        self._shown = {
            number: path[cut:]
            if number in self._own and path.startswith("/")
            else path.rpartition("-packages/")[2]
            if "-packages/" in path
            else "/".join(path.split("/")[-3:])
            for number, path in paths.items()
        }
        self._lines: dict[int, str] = {}

    def line(self, stack: int) -> str:
        """The innermost line of the program in a stack, `model.py:54 forward`; of the backward pass its node."""
        if stack not in self._lines:
            self._lines[stack] = self._line(stack)
        return self._lines[stack]

    def _line(self, stack: int) -> str:
        frames = self._stacks.of(stack)
        if not frames:
            return UNKNOWN_LINE
        for wanted in (self._own, self._python):
            for frame in frames:
                if int(self._stacks.file[frame]) in wanted:
                    return self.words(frame)
        node = next((match[1] for frame in frames if (match := _NODE.search(self._function(frame)))), None)
        return f"(backward pass: {node})" if node else NO_PYTHON

    def module(self, stack: int) -> str:
        """The chain of calls of modules around an allocation, the outermost first."""
        frames, texts = self._stacks.of(stack), self._snapshot.texts
        own = [
            self._place(frame).rpartition("/")[2]
            for frame in frames
            if int(self._stacks.file[frame]) in self._own and texts[self._stacks.function[frame]] in MODULE_CALLS
        ]
        return " ▸ ".join(reversed(own[:MAX_MODULES])) if own else "(in no module)"

    def operator(self, stack: int) -> str | None:
        """The innermost operator of PyTorch, where C++ frames were recorded."""
        names = (self._function(frame) for frame in self._stacks.of(stack))
        return next((f"aten::{match[1]}" for name in names if (match := _OPERATOR.search(name))), None)

    def key(self, stack: int) -> str:
        """A stack as its lines of the program, the innermost first."""
        own = [
            f"{self._place(frame).rpartition('/')[2]} {self._function(frame)}"
            for frame in self._stacks.of(stack)
            if int(self._stacks.file[frame]) in self._own
        ]
        return " ◂ ".join(own[:4]) if own else self.line(stack)

    def listing(self, stack: int) -> list[str]:
        """The frames in words, the innermost first; without those of C++ where there are others."""
        frames = self._stacks.of(stack)
        shown = [frame for frame in frames if int(self._stacks.file[frame]) in self._python]
        # Of C++ those below the allocator, which every stack has in common.
        plumbing = [index for index, frame in enumerate(frames) if _PLUMBING.search(self._function(frame))]
        return [self.words(frame) for frame in shown or frames[max(plumbing, default=-1) + 1 :]]

    def words(self, frame: int) -> str:
        """A frame: `model.py:54 forward`, of C++ its function."""
        function = self._function(frame)
        return f"{self._place(frame)} {function}" if int(self._stacks.file[frame]) in self._python else function

    def _place(self, frame: int) -> str:
        return f"{self._shown.get(int(self._stacks.file[frame]), '?')}:{int(self._stacks.line[frame])}"

    def _function(self, frame: int) -> str:
        return str(self._snapshot.texts[int(self._stacks.function[frame])])


def frames_of(snapshot: MemorySnapshot) -> Frames:
    """The stacks in words, made once for a snapshot."""
    if "frames" not in snapshot.kept:
        snapshot.kept["frames"] = Frames(snapshot)
    kept = snapshot.kept["frames"]
    assert isinstance(kept, Frames)
    return kept


def innermost_annotation(snapshot: MemorySnapshot, time_us: Int64) -> Int64:
    """The annotation (in `texts`) that was open last at each time, -1 for none."""
    marks = snapshot.annotations
    order = np.argsort(marks.time_us, kind="stable")
    open_names: list[int] = []
    current = np.full(len(order) + 1, -1, np.int64)
    for index, row in enumerate(order.tolist()):
        if marks.is_start[row]:
            open_names.append(int(marks.name[row]))
        elif int(marks.name[row]) in open_names:
            # Of two of one name the inner ends first.
            del open_names[len(open_names) - 1 - open_names[::-1].index(int(marks.name[row]))]
        current[index + 1] = open_names[-1] if open_names else -1
    innermost: Int64 = current[np.searchsorted(marks.time_us[order], time_us, side="right")]
    return innermost
