"""The place in the program that caused a slice: the line, the function and the module (R3.45, R3.46, R3.55).

Function and module are those of the frames: for a GPU activity of the frames around its launch, in the backward pass of
the forward operator. A replayed activity has those of the capture of its graph, where these are known. Nothing is known
where the recording has no Python frames; and no line where it has no lines, because a frame has that of its `def`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.linking.frames import frames, module_paths
from tracetui.linking.graph_nodes import graph_nodes, with_captured_texts
from tracetui.linking.lines import has_lines, line_texts, recorded_lines
from tracetui.linking.links import names_of
from tracetui.linking.replays import replays
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64
from tracetui.model.pane import Grouping
from tracetui.model.table import Column, coded
from tracetui.model.trace import Kind, Trace

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
    ids, texts = line_texts(trace)
    return ids[names_of(trace, np.where(known, recorded_lines(trace).record[index], -1))], texts


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
