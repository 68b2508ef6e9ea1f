"""Where in the program a slice was caused: the line, the function and the module around it (R3.45, R3.46, R3.55).

They are those of the frames: for a GPU activity of the frames around its launch, in the backward pass of the forward
operator. Nothing is known where the recording has no Python frames.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.analysis import columns as col
from tracetui.analysis.linking.frames import frames, function_of, module_paths
from tracetui.analysis.linking.links import names_of
from tracetui.model.intervals import Int64
from tracetui.model.strings import Strings
from tracetui.model.table import Column, coded
from tracetui.model.trace import Kind, Trace

SITES = ("line", "function", "module")
"""Kinds of call sites, by which rows are grouped."""
_SPECS = {"line": col.LINE, "function": col.FUNCTION, "module": col.MODULE}


def site_of(trace: Trace, rows: Int64, kind: str) -> tuple[Int64, Sequence[str]]:
    """The call site of each slice as a number, -1 for none and for a row of -1, and the texts of the numbers."""
    known = rows >= 0
    index = np.where(known, rows, 0)
    if len(trace.slices) == 0:
        return np.full(len(rows), -1, np.int64), ()
    if kind == "module":
        paths = module_paths(trace)
        return np.where(known, paths.id[index], -1).astype(np.int64), paths.texts
    name = names_of(trace, np.where(known, frames(trace).user[index], -1))
    if kind == "line":
        return name, trace.names
    ids, texts = trace.remember("functions", lambda: _functions(trace))
    return np.where(name >= 0, ids[name], -1), texts


def site_columns(trace: Trace, rows: Int64) -> tuple[Column, ...]:
    """Columns line, function and module of some slices."""
    return tuple(site_column(trace, rows, kind) for kind in SITES)


def site_column(trace: Trace, rows: Int64, kind: str) -> Column:
    """The column of one kind of call site."""
    return coded(_SPECS[kind], *site_of(trace, rows, kind))


def known_sites(trace: Trace) -> tuple[str, ...]:
    """The kinds of call sites that a trace holds."""
    if len(trace.slices.of_kind(Kind.PYTHON)) == 0:
        return ()
    return SITES if len(module_paths(trace).texts) else SITES[:2]


def _functions(trace: Trace) -> tuple[Int64, Strings]:
    """The function of every name of the trace."""
    texts = Strings()
    used = np.unique(trace.slices.name[trace.slices.of_kind(Kind.PYTHON)]).tolist()
    ids = np.full(len(trace.names) + 1, -1, np.int64)
    ids[used] = [texts.intern(function_of(trace.names[number])) for number in used]
    return ids, texts
