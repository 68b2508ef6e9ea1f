"""Where a slice comes from, in words: its line and module, its forward op, what its launch cost, its graph. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tracetui.analysis.linking.autograd import autograd
from tracetui.analysis.linking.chains import dispatch_cost
from tracetui.analysis.linking.frames import compiled_region, frames, module_paths
from tracetui.analysis.linking.links import links
from tracetui.analysis.linking.replays import graph_name, replays
from tracetui.drawing.format import clean, count, duration, shorten
from tracetui.model.trace import Kind, Trace
from tracetui.ui.lines import Fact

_LONGEST = 40
"""Characters of a name inside a sentence."""


def cause_facts(trace: Trace, row: int, chain: Sequence[int]) -> Iterator[Fact]:
    """What is known about the cause of a slice; `chain` is its dispatch chain, outermost first."""
    yield from _python(trace, row)
    yield from _autograd(trace, row)
    yield from _around(trace, row, chain)
    cost = dispatch_cost(trace, row)
    if cost is not None:
        call = f"{duration(cost.call)} in the call"
        name = shorten(clean(trace.name_of(cost.op)), _LONGEST) if cost.op >= 0 else ""
        yield Fact("launch cost", f"{duration(cost.before)} from {name} to the call, {call}" if name else call)
    yield from _graph(trace, row)


def _python(trace: Trace, row: int) -> Iterator[Fact]:
    user, forward = int(frames(trace).user[row]), int(autograd(trace).forward[row])
    if user >= 0:
        of_forward = forward >= 0 and user == frames(trace).user[forward]
        yield Fact("forward from" if of_forward else "called from", clean(trace.name_of(user)), user)
    path = module_paths(trace).of(row)
    if path:
        yield Fact("module", clean(path), int(frames(trace).module[row]))


def _autograd(trace: Trace, row: int) -> Iterator[Fact]:
    found = autograd(trace)
    forward = int(found.forward[row])
    if forward >= 0:
        yield Fact("forward op", clean(trace.name_of(forward)), forward)
    if trace.slices.kind[row] == Kind.CPU_OP:
        node = found.backward_of(row)
        if node >= 0:
            yield Fact("backward", clean(trace.name_of(node)), node)


def _around(trace: Trace, row: int, chain: Sequence[int]) -> Iterator[Fact]:
    note = int(links(trace).annotation[row])
    if note >= 0:
        yield Fact("annotation", clean(trace.name_of(note)), note)
    region = compiled_region(trace, [each for each in chain if each != row])
    if region >= 0:
        yield Fact("compiled in", clean(trace.name_of(region)), region)


def _graph(trace: Trace, row: int) -> Iterator[Fact]:
    found, joined = replays(trace), links(trace)
    launch = joined.launch_of(row)
    index = found.of_launch(launch if launch >= 0 else row)
    if index < 0:
        return
    times = int(found.times[index])
    replayed = f"{graph_name(int(found.graph[index]))}, replayed {'once' if times == 1 else f'{count(times)} times'}"
    nodes = count(int(found.nodes[index]))
    if launch >= 0:
        node = int(np.flatnonzero(joined.kernels_of(launch) == row)[0]) + 1
        yield Fact("graph", f"node {count(node)} of {nodes} of a launch of {replayed}", launch)
        return
    yield Fact("graph", f"{nodes} nodes, {replayed}")
    share = duration(round(float(found.cost[index])))
    yield Fact("", f"{share} of the call per node, the first ran after {duration(int(found.latency[index]))}")
