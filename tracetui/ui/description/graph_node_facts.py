"""What is said about a node of a CUDA graph: what it is where it is no GPU activity, and its dependencies. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.linking.graph_dependencies import dependencies, launch_of_node
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind, Trace
from tracetui.ui.description.chain_lines import short_name
from tracetui.ui.description.styled_lines import DetailFact

MAX_NAMED_NODES = 4
"""Maximum nodes named that a node depends on, and of those that depend on it."""
_WORDS = {
    Kind.GRAPH_EVENT: "records an event; no GPU activity, and in no count",
    Kind.GRAPH_HOST: "calls a function on the host; no GPU activity, and in no count",
}


def graph_node_facts(trace: Trace, row: int) -> Iterator[DetailFact]:
    """Facts about a node of a graph; nothing for any other slice."""
    words = _WORDS.get(Kind(int(trace.slices.kind[row])))
    if words:
        yield DetailFact("graph node", words)
        launch = launch_of_node(trace, row)
        yield DetailFact("launched by", short_name(trace, launch) if launch >= 0 else "unknown", launch)
    edges = dependencies(trace)
    yield from _named(trace, "waited for", edges.needed_by(row))
    yield from _named(trace, "needed by", edges.waiting_for(row))


def _named(trace: Trace, label: str, rows: Int64) -> Iterator[DetailFact]:
    for number, row in enumerate(rows[:MAX_NAMED_NODES].tolist()):
        yield DetailFact("" if number else label, short_name(trace, row), row)
    if len(rows) > MAX_NAMED_NODES:
        yield DetailFact("", f"and {len(rows) - MAX_NAMED_NODES:,} more")
