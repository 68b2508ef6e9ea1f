"""What was put into graphs while they were captured: each launch with the operator, line and module that made it.

A recording stands for one trace file that holds captures; of the file itself nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.model.strings import Strings

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class GraphRecording:
    """The launches of captured graphs in order, a graph behind the other; ids are those in `texts`, -1 for none."""

    label: str
    """Name of the file; empty where it is the trace itself."""
    texts: Strings
    bounds: Int64
    """`bounds[i]:bounds[i + 1]` are the launches of graph `i`."""
    kind: NDArray[np.uint8]
    """The `Kind` of GPU activity that each launch becomes."""
    kernel: Int32
    """Name of the kernel; CUDA does not record it."""
    op: Int32
    """The innermost operator around the launch."""
    line: Int32
    """The innermost Python frame of the user's code."""
    module: Int32
    """Path of the module."""
    shapes: Int32
    """Input shapes of the operator."""
    types: Int32
    """Input types of the operator."""
    values: Int32
    """Values of the operator's arguments."""
    op_call: Int32
    """Which call of an operator in its graph it belongs to: launches of one call share the number, -1 for none."""
    stack: Int64
    """Index in `stacks`."""
    stacks: tuple[tuple[int, ...], ...]
    """Ids of the names of everything around a launch, outermost first."""
    call: Int64
    """Row of each launch in the trace that was recorded; a row of this trace only if `label` is empty."""
    batch: Int64
    """Batch size of each graph, -1 where it is not told."""

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def launches(self, graph: int) -> slice:
        """The launches of a graph."""
        return slice(int(self.bounds[graph]), int(self.bounds[graph + 1]))

    def text(self, number: int) -> str:
        """A text by its id, empty for none."""
        return str(self.texts[number]) if number >= 0 else ""


@dataclass(frozen=True, eq=False)
class GraphScopes:
    """Names that a program gave to nodes of graphs while it captured them, such as the module behind each."""

    label: str
    """Name of the file; empty where it is the trace itself."""
    names: Mapping[int, str]
    """The innermost name of each node, by graph node id."""
