"""What every slice of a thread costs, one object per slice, by the rules of torch's own table (3(d))."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.slow_key_averages import DROPPED
from tests.support.sums.slices import Slice, SlowTrace, latest
from tracetui.model.trace import GPU_WORK, Kind

COLLECTIVE = re.compile(r"(nccl|gloo|mpi|ucc|xccl):")


@dataclass(eq=False)
class Node:
    """A slice in torch's tree; times in ns."""

    slice: Slice
    thread: int
    """The lane on which it counts."""
    end: int
    is_asynchronous: bool = False
    work: list[Slice] = field(default_factory=list)
    """Work and waits of the device that it owns."""
    children: list[Node] = field(default_factory=list)
    parent: Node | None = None

    @property
    def name(self) -> str:
        return "ProfilerStep*" if self.slice.name.startswith("ProfilerStep#") else self.slice.name

    @property
    def is_note(self) -> bool:
        return self.slice.kind == Kind.ANNOTATION

    @property
    def dur(self) -> int:
        return self.end - self.slice.start

    @property
    def own(self) -> int:
        """Duration less that of the children."""
        return 0 if self.is_asynchronous else self.dur - sum(child.dur for child in self.children)

    def all_work(self) -> list[Slice]:
        """What it owns and all below it."""
        return [*self.work, *(each for child in self.children for each in child.all_work())]


def slow_costs(slow: SlowTrace, frames: bool = False) -> list[Node]:
    """Every slice that is in torch's table, those without a place in the tree included."""
    ends, named = _asynchronous(slow), _named(slow)
    nodes = [
        Node(each, _thread(slow, each, named), ends.get(each, each.end), each in ends) for each in counted(slow, frames)
    ]
    in_tree = [node for node in nodes if not node.is_asynchronous]
    owned = _owned(slow, named)
    for node in in_tree:
        node.work = owned[node.slice]
    _nest(in_tree)
    return _without_repeats(in_tree) + [node for node in nodes if node.is_asynchronous]


def slow_self_times(slow: SlowTrace) -> Counter[Slice]:
    """Self times in ns where slices stay on their threads and names that repeat stay apart."""
    ends = _asynchronous(slow)
    nodes = [Node(each, each.lane, each.end) for each in counted(slow) if each not in ends]
    _nest(nodes)
    return Counter({node.slice: node.own for node in nodes})


def counted(slow: SlowTrace, frames: bool = False) -> list[Slice]:
    """What torch puts into its table (3(d).1, 3(d).2)."""
    kinds = {Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME, Kind.OVERHEAD} | ({Kind.PYTHON} if frames else set())
    return [each for each in slow.of_kind(*kinds) if each.name not in DROPPED]


def _asynchronous(slow: SlowTrace) -> dict[Slice, int]:
    """Slices without a place in the tree, and when they end (3(d).5)."""
    ops_and_notes = slow.of_kind(Kind.CPU_OP, Kind.ANNOTATION)
    found = {each: each.end for each in slow.of_kind(Kind.ANNOTATION) if COLLECTIVE.match(each.name)}
    stops = [each.end for each in slow.of_kind(Kind.BOOKKEEPING)]
    late = [each for each in ops_and_notes if stops and each.end > max(stops)]
    unfinished = {each for each in late if slow.trace.event_of(each.row)["args"].get("finished") is False}
    for each in unfinished:
        around = [other for other in slow.slices[: each.row] if other.lane == each.lane and other not in unfinished]
        ends = [other.end for other in around if other.end > each.start]
        found[each] = max(min([*ends, max(stops)]), each.start)
    return found


def _named(slow: SlowTrace) -> dict[Slice, Slice]:
    """The op or annotation to which torch gives each call and each activity of a device (3(d).6)."""
    linked = slow.of_kind(Kind.RUNTIME, Kind.SYNC, *GPU_WORK)
    found = {
        each: _with_id(slow, each.external, (each.launch or each).start) if slow.trusted else each.owner
        for each in linked
    }
    return {each: owner for each, owner in found.items() if owner is not None}


def _with_id(slow: SlowTrace, wanted: int, moment: int) -> Slice | None:
    """The op or annotation with an id above 0."""
    named = [each for each in slow.of_kind(Kind.CPU_OP, Kind.ANNOTATION) if each.external == wanted > 0]
    return latest(named, moment)


def _owned(slow: SlowTrace, named: dict[Slice, Slice]) -> defaultdict[Slice, list[Slice]]:
    """What the device did for each op; calls that belong to no op get the work of the op that has their id."""
    found = defaultdict(list)
    for each, owner in named.items():
        if each.kind != Kind.RUNTIME:
            found[owner].append(each)
    for call in slow.of_kind(Kind.RUNTIME) if slow.trusted else []:
        twin = _with_id(slow, call.correlation, call.start)
        if twin is not None and call not in named:
            found[call] = found[twin]
    return found


def _thread(slow: SlowTrace, each: Slice, named: dict[Slice, Slice]) -> int:
    """On which lane torch counts a slice: calls on that of their op, strays on that which stopped the profiler."""
    if each.kind == Kind.RUNTIME and each in named:
        return named[each].lane
    if each.kind not in (Kind.RUNTIME, Kind.OVERHEAD):
        return each.lane
    lanes = slow.trace.lanes
    ops = Counter(op.lane for op in slow.of_kind(Kind.CPU_OP, Kind.ANNOTATION))
    stepped = Counter(step.lane for step in slow.steps)
    return max(ops, key=lambda lane: (stepped[lane], lanes[lane].pid == lanes[lane].tid, ops[lane]), default=each.lane)


def _nest(nodes: list[Node]) -> None:
    """Rule 7, a stack for each thread."""
    stacks: dict[int, list[Node]] = defaultdict(list)
    for node in sorted(nodes, key=lambda node: (node.slice.start, -node.end, node.slice.event)):
        stack = stacks[node.thread]
        while stack and (node.slice.start >= stack[-1].end or node.end > stack[-1].end):
            stack.pop()
        if stack:
            node.parent = stack[-1]
            stack[-1].children.append(node)
        stack.append(node)


def _without_repeats(nodes: list[Node]) -> list[Node]:
    """Rule 8, until nothing changes."""
    while (node := next(_repeats(nodes), None)) is not None:
        parent = node.parent
        assert parent is not None
        parent.children, parent.work = node.children, node.work
        for child in node.children:
            child.parent = parent
        nodes.remove(node)
    return nodes


def _repeats(nodes: list[Node]) -> Iterator[Node]:
    """Nodes that are the only child of a node of their name."""
    return (
        node
        for node in nodes
        if node.parent is not None and node.parent.name == node.name and len(node.parent.children) == 1
    )
