"""What is known about the kernels inside graphs, in words: how many are tied to the operator that captured them, by
which file, and why others are not (R3.40).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetui.linking.graph_alignment import MIN_EQUAL_SHARE
from tracetui.linking.graph_nodes import GraphMatch, graph_nodes
from tracetui.linking.links import links
from tracetui.linking.replays import by_graph, graph_name, replays
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.quantities import rounded_percent
from tracetui.model.table import Table, texts
from tracetui.model.trace import Trace

OWN_CAPTURE = "the capture in this trace"
"""What the recording is called that is the trace itself."""
OWN_NAMES = "names in this trace"
"""What gave names to nodes where they stand in the args of kernels."""
UNKNOWN = "recorded once at capture"
"""Why the operator of a replayed kernel is unknown."""
MAX_NAMED_REFUSALS = 3
"""Maximum graphs named of which no captured graph has the names."""


@dataclass(frozen=True)
class CaptureCounts:
    """GPU activities in replayed graphs, and those tied to the operator that captured them."""

    activities: int
    tied: int
    by_position: int
    """Of the tied ones: matched without a name."""
    labels: tuple[str, ...]
    """Names of the recordings that they are tied by."""

    @property
    def words(self) -> str | None:
        """`421 of 421 by i01c.json.gz`; None where nothing is tied."""
        if not self.tied:
            return None
        unnamed = f", {self.by_position:,} by position only" if self.by_position else ""
        return f"{self.tied:,} of {self.activities:,} by {', '.join(self.labels)}{unnamed}"


def capture_counts(trace: Trace) -> CaptureCounts:
    """How many GPU activities in graphs are tied to their capture, and by what."""
    nodes = graph_nodes(trace)
    used = np.unique(nodes.recording[nodes.recording >= 0]).tolist()
    labels = [nodes.recordings[number].label or OWN_CAPTURE for number in used]
    only_named = np.unique(nodes.named_by[(nodes.recording < 0) & (nodes.named_by >= 0)]).tolist()
    labels += [nodes.naming[number] or OWN_NAMES for number in only_named]
    return CaptureCounts(int(replays(trace).nodes.sum()), len(nodes), int(nodes.by_position.sum()), tuple(labels))


def refusals(trace: Trace) -> list[str]:
    """A sentence for each graph that has nearly the names of a captured graph and not enough of them."""
    nodes = graph_nodes(trace)
    refused = [match for match in nodes.matches if not match.equal]
    sentences = []
    for match in refused[:MAX_NAMED_REFUSALS]:
        label = match.label or OWN_CAPTURE
        least = rounded_percent(100 * MIN_EQUAL_SHARE)
        sentences.append(
            f"The operators of {graph_name(match.graph)} ({match.nodes:,} nodes) stay unknown: no graph of {label} has "
            f"{least} of its names in order; the nearest shares {rounded_percent(100 * match.shared)} of them."
        )
    more = len(refused) - MAX_NAMED_REFUSALS
    return [*sentences, f"Nor are those of {more:,} more graphs."] if more > 0 else sentences


def by_captured_graph(trace: Trace, rows: Int64, note: str = "") -> Table:
    """The replays among some GPU activities, one row per graph, with what is known of its capture if anything is."""
    table, matches = by_graph(trace, rows, note), graph_nodes(trace).matches
    if not matches:
        return table
    said = {graph_name(match.graph): _matched(match) for match in matches}
    names = [said.get(str(table["graph"].cell(row))) for row in range(len(table))]
    return replace(table, columns=(*table.columns, texts(col.CAPTURED_BY, names)))


def _matched(match: GraphMatch) -> str:
    label = match.label or OWN_CAPTURE
    if not match.equal:
        return f"unknown: {label} shares {rounded_percent(100 * match.shared)} of its names"
    unnamed = ", by position only" if match.by_position else ""
    return f"{match.equal:,} of {match.nodes:,} by {label}{unnamed}"


def unknown_node(trace: Trace, launch: int) -> str:
    """Why the operator of the nodes of a replay is not known."""
    kind = "HIP" if trace.name_of(launch).startswith("hip") else "CUDA"
    count = len(links(trace).kernels_of(launch))
    return f"inside a {kind} graph: {count:,} nodes, {UNKNOWN}"
