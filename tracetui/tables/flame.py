"""The flame pane: GPU time, CPU time or idle time as a tree of modules, operators and kernels (R3.56a).

Siblings of one name share a row, and so do the modules of one class: twenty-four layers of 4 % say less than one row
of 96 %. GPU time and idle time belong to modules as in the modules pane and to operators as in torch's table; CPU time
is the self time of that table, at the place where the slice was called.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace

import numpy as np

from tracetui.frozen import Parallel, frozen
from tracetui.idle.idle_parts import main_causes
from tracetui.idle.waits import WORDS, idleness
from tracetui.kernel_names.slice_names import Family, families, short_kernel
from tracetui.linking.frames import MODULE, is_own, preorder
from tracetui.linking.graph_nodes import graph_nodes
from tracetui.linking.groups import combinations, group
from tracetui.linking.links import links, no_gpu, row_of
from tracetui.linking.placement import chosen, step_index, time_within, within
from tracetui.linking.steps import steps
from tracetui.linking.trees import forest, is_named, nearest, subtree_sums
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part, TimeRange, index_in, tree_depth
from tracetui.model.pane import Grouping, Pane
from tracetui.model.table import NULL, Column, Strings, Table, coded, micros, numbers
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.operators.costs import asynchronous_slices, costs, costs_within, named_ops
from tracetui.tables.modules import INDENT, ActivityNodes, gaps_within, no_frames, nodes_of
from tracetui.text import clean

SEPARATOR = ";"
"""Stands between the names of a path, as in folded text."""
GPU, CPU, IDLE = "gpu", "cpu", "idle"
"""What the width of a row stands for."""
MODULES, OPERATORS, FRAMES = "module", "op", "frame"
"""What the rows are: modules, operators and kernels; operators and kernels; Python frames and kernels."""
MEASURES, ROWS = (GPU, CPU, IDLE), (MODULES, OPERATORS, FRAMES)
ALL, CLASS, FUNCTION, CAUSE = "all", "module", "function", "cause"
"""Kinds of rows that are no slices."""
_WORDS = {
    Kind.CPU_OP: "op",
    Kind.ANNOTATION: "annotation",
    Kind.RUNTIME: "runtime",
    Kind.OVERHEAD: "overhead",
    Kind.OTHER: "slice",
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "memcpy",
    Kind.MEMSET: "memset",
}
KIND_WORDS = Strings((ALL, CLASS, FUNCTION, CAUSE, *_WORDS.values()))
"""Kinds of rows."""
FAMILY_WORDS = Strings(family.name.lower() for family in Family)
"""Families of kernels, in the order of `Family`."""
_MODULE = re.compile(re.escape(MODULE))
_INSTANCE = re.compile(r"_\d+$")
_FRAME = re.compile(r"(?:.*[/\\])?([^/\\]*)\((\d+)\): (.+)")
_FIRST_WORD = re.compile(r"[A-Z]+[a-z]*\d*(?=[A-Z])")
"""The beginning of a class name that other classes may share: `Owlv2` of `Owlv2Encoder`, `GPT2` of `GPT2MLP`."""
MIN_SHARED_CLASSES = 3
"""Minimum classes with a common beginning for it to be left out."""


def by_of(rows: str, measure: str) -> str | None:
    """The grouping of the pane that has these rows and this measure."""
    if rows == MODULES:
        return None if measure == GPU else measure
    return rows if measure == GPU else f"{rows}-{measure}"


GROUPINGS = {by_of(rows, measure): (rows, measure) for rows in ROWS for measure in MEASURES}
"""Rows and measure of each grouping."""


@dataclass(eq=False)
class _Labels:
    """Texts of rows with their kinds, as numbers."""

    texts: Strings = field(default_factory=Strings)

    def number(self, text: str, kind: str) -> int:
        """The number of a text and a kind."""
        return self.texts.intern(text) * len(KIND_WORDS) + KIND_WORDS.find(kind)

    def numbers(self, pairs: Iterable[tuple[str, str]]) -> Int64:
        """The numbers of texts and kinds."""
        return np.array([self.number(*pair) for pair in pairs], np.int64)

    def of_slices(self, trace: Trace, rows: Int64) -> Int64:
        """The label of each slice."""
        kinds = trace.slices.kind[rows].astype(np.int64)
        pairs = combinations(trace.slices.name[rows].astype(np.int64), kinds)
        labels = []
        for row, kind in zip(rows[pairs.first].tolist(), map(Kind, kinds[pairs.first].tolist()), strict=True):
            name = trace.name_of(row)
            labels.append((short_kernel(name) if kind == Kind.KERNEL else name, _WORDS.get(kind, "slice")))
        return self.numbers(labels)[pairs.member]


@frozen
class _Entries(Parallel):
    """Entries that rows are made of: parallel arrays."""

    above: Int64
    """Index of the entry around each, which comes before it, -1 for none."""
    label: Int64
    calls: Int64
    """Calls that it stands for; 0 where it stands for none."""
    module: Int64
    """A number for each module, -1 for what is no module."""
    row: Int64
    """The slice that it stands for, -1 for none."""

    @classmethod
    def of(
        cls,
        above: Int64,
        label: Int64,
        calls: Int64 | int,
        module: Int64 | int = -1,
        row: Int64 | int = -1,
    ) -> _Entries:
        """Entries that may all have the same number of calls, module and slice."""
        alike = (np.broadcast_to(np.asarray(each, np.int64), len(above)) for each in (calls, module, row))
        return cls(above, label, *alike)

    def joined(self, other: _Entries) -> _Entries:
        """These and others, whose `above` counts through both."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return _Entries(*(np.concatenate(pair) for pair in pairs))


@frozen
class _Spent:
    """Times to be added up: parallel arrays."""

    entry: Int64
    """The entry that each belongs to, -1 for none."""
    ns: Int64
    row: Int64
    """The slice that took it, or that ended the gap."""


def flame(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """The tree, a row before what is below it, siblings by time; the first row is all of the part."""
    rows, measure = GROUPINGS[by]
    without_gpu = len(links(trace).gpu) == 0 and measure != CPU
    if without_gpu and measure == GPU:
        # What has no GPU has its time on the CPU.
        measure = CPU
    labels = _Labels()
    if measure == CPU:
        entries, spent = _cpu_times(trace, labels, step, rows)
    else:
        entries, spent = _device_times(trace, labels, step, rows, measure)
    whole = f"step {step}" if isinstance(step, int) else step.text if step is not None else "whole trace"
    note = no_frames(trace) if rows == FRAMES and not len(trace.slices.of_kind(Kind.PYTHON)) else ""
    note = " ".join(filter(None, (no_gpu(trace) if without_gpu else "", note)))
    table = _table(trace, labels, entries, spent, whole, measure)
    if len(trace.slices) == 0:
        table = table.take(np.empty(0, np.int64))
    return replace(table, note=note)


PANE = Pane(
    "flame",
    "Flame",
    key="P",
    help="One row is all that has a name below its caller; the time is that on the GPU, on the CPU, or idle.",
    table=flame,
    columns="tree calls merged gpu_us cpu_us idle_us pct own_gpu_us own_cpu_us own_idle_us kind family",
    groupings=tuple(Grouping(by) for by in GROUPINGS if by is not None),
    is_in_time_order=False,
    is_of_names=True,
)


# GPU time, and idle time: of what launched the activity, or the activity that ended the gap.


def _device_times(trace: Trace, labels: _Labels, part: Part | None, rows: str, measure: str) -> tuple[_Entries, _Spent]:
    if measure == GPU:
        gpu = within(trace, links(trace).gpu, part)
        ns, leaf = time_within(trace, gpu, part), labels.of_slices(trace, gpu)
    else:
        gaps, ns = gaps_within(trace, part)
        gpu = idleness(trace).after[gaps]
        leaf = labels.numbers((word, CAUSE) for word in WORDS)[main_causes(trace)[gaps]]
    frames, holder = _Entries.of(*np.empty((3, 0), np.int64)), np.full(len(gpu), -1, np.int64)
    around = np.full(len(trace.slices), -1, np.int64)
    if rows != OPERATORS:
        known = nodes_of(trace, gpu, None if rows == MODULES else "function")
        frames, holder, around = _frame_entries(trace, labels, known, part), known.node, known.of_slices
    entries = frames
    if rows != FRAMES:
        entries, holder = _with_operators(trace, labels, frames, holder, around, gpu)
    # Every activity and gap is in a row of its own name below what it belongs to.
    pairs = combinations(holder, leaf)
    leaves = _Entries.of(holder[pairs.first], leaf[pairs.first], np.bincount(pairs.member, minlength=len(pairs)))
    return entries.joined(leaves), _Spent(len(entries) + pairs.member, ns, gpu)


def _frame_entries(trace: Trace, labels: _Labels, known: ActivityNodes, part: Part | None) -> _Entries:
    """An entry for each node of a tree of modules, or of functions and modules."""
    tree = known.tree
    texts = {number: tree.name_of(trace, number) for number in np.unique(tree.name).tolist()}
    shown = dict(zip(texts, _frame_labels(texts.values()), strict=True))
    calls = np.bincount(tree.of_frames(within(trace, tree.frames, part)), minlength=len(tree))
    is_module = np.array([shown[number][1] == CLASS for number in tree.name.tolist()], bool)
    label = labels.numbers(shown[number] for number in tree.name.tolist())
    return _Entries.of(tree.parent, label, calls, np.where(is_module, tree.name, -1))


def _with_operators(
    trace: Trace, labels: _Labels, frames: _Entries, node: Int64, around: Int64, gpu: Int64
) -> tuple[_Entries, Int64]:
    """Entries of modules with those of the operators and annotations around the launches, and that of each activity.

    `node` is the module of each activity, `around` that of every slice.
    """
    operators = trace.slices.of_kind(Kind.CPU_OP, Kind.ANNOTATION)
    operators = operators[~_is_step(trace, operators)]
    parent, named = forest(trace, operators), index_in(operators, named_ops(trace)[gpu])
    used = _with_ancestors(parent, named)
    index = np.cumsum(used) - 1
    operators, parent, named = operators[used], row_of(index, parent[used]), row_of(index, named)
    module = around[operators]
    # An operator stands below the one around it, unless there is a module between them.
    is_inner = (parent >= 0) & (row_of(module, parent) == module)
    label = labels.of_slices(trace, operators)
    entries = frames.joined(_Entries.of(np.where(is_inner, len(frames) + parent, module), label, 1, row=operators))
    holder = np.where(named >= 0, len(frames) + named, node)
    # A module between the operator and the launch.
    apart = np.flatnonzero((named >= 0) & (row_of(module, named) != node))
    pairs = combinations(node[apart], named[apart])
    holder[apart] = len(entries) + pairs.member
    entries = entries.joined(_Entries.of(node[apart][pairs.first], label[named[apart]][pairs.first], 1))
    # Operators that were captured into a graph, which did not run here.
    nodes = graph_nodes(trace)
    captured = row_of(nodes.op.astype(np.int64), index_in(nodes.rows, gpu))
    mine = np.flatnonzero(captured >= 0)
    pairs = combinations(node[mine], captured[mine])
    holder[mine] = len(entries) + pairs.member
    texts = ((nodes.texts[number], "op") for number in captured[mine][pairs.first].tolist())
    return entries.joined(_Entries.of(node[mine][pairs.first], labels.numbers(texts), 0)), holder


def _is_step(trace: Trace, rows: Int64) -> Bool:
    """Mask of the slices that are steps: the first row stands for those."""
    return is_named(trace, rows, lambda name: name.startswith("ProfilerStep#")) | np.isin(rows, steps(trace).slices)


def _with_ancestors(parent: Int64, nodes: Int64) -> Bool:
    """Mask of some nodes of a forest, -1 for none, and of all above them."""
    mask = np.zeros(len(parent), bool)
    level = np.unique(nodes[nodes >= 0])
    while len(level):
        mask[level] = True
        level = np.unique(parent[level][parent[level] >= 0])
        level = level[~mask[level]]
    return mask


# CPU time: the self time of every slice, that of Python frames without a row in the row around them.


def _cpu_times(trace: Trace, labels: _Labels, part: Part | None, rows: str) -> tuple[_Entries, _Spent]:
    has_frames = rows != OPERATORS and len(trace.slices.of_kind(Kind.PYTHON)) > 0
    if isinstance(part, TimeRange):
        cost = costs_within(trace, part, has_frames)
    else:
        cost = costs(trace, has_frames)
        if part is not None:
            cost = cost.take(np.flatnonzero(np.isin(step_index(trace, cost.row), chosen(trace, part))))
    # Asynchronous slices have no self time, and nothing is in them.
    cost = cost.take(np.flatnonzero(np.isin(cost.row, asynchronous_slices(trace)[0], invert=True)))
    is_frame = trace.slices.kind[cost.row] == Kind.PYTHON
    if rows == FRAMES:
        is_row = is_frame & is_named(trace, cost.row, is_own)
    else:
        is_row = (~is_frame | is_named(trace, cost.row, _MODULE.match)) & ~_is_step(trace, cost.row)
    parent = forest(trace, cost.row, 0)
    index = np.cumsum(is_row) - 1
    around = row_of(index, nearest(parent, is_row))
    shown = cost.row[is_row]
    entry, spends = np.where(is_row, index, around), np.ones(len(cost.row), bool)
    if rows == MODULES:
        # Frames outside of modules, operators and steps, such as those of a thread that waits, are not in Ops either.
        is_step = _is_step(trace, cost.row)
        spends = (entry >= 0) | is_step | (nearest(parent, is_step) >= 0)
    is_module = is_named(trace, shown, _MODULE.match)
    module = np.where(is_module, trace.slices.name[shown], -1)
    entries = _Entries.of(around[is_row], _thread_labels(trace, labels, shown), 1, module, shown)
    return entries, _Spent(entry[spends], cost.self_cpu[spends], cost.row[spends])


def _thread_labels(trace: Trace, labels: _Labels, rows: Int64) -> Int64:
    """The labels of slices of threads, frames among them."""
    label, is_frame = np.full(len(rows), -1, np.int64), trace.slices.kind[rows] == Kind.PYTHON
    label[~is_frame] = labels.of_slices(trace, rows[~is_frame])
    used = group(trace.slices.name[rows[is_frame]])
    label[is_frame] = labels.numbers(_frame_labels(trace.names[number] for number in used.key.tolist()))[used.member]
    return label


# Names of rows.


def _frame_labels(names: Iterable[str]) -> list[tuple[str, str]]:
    """The names of rows for Python frames, and their kinds: a module by its class, without what many classes share."""
    known = list(names)
    classes = {_class_of(name) for name in known if name.startswith(MODULE)}
    shared = shared_beginning(classes)
    labels = []
    for name in known:
        if name.startswith(MODULE):
            whole = _class_of(name)
            brief = whole.removeprefix(shared)
            labels.append((whole if brief in classes else brief, CLASS))
        else:
            frame = _FRAME.fullmatch(name)
            labels.append((f"{frame[3]} ({frame[1]}:{frame[2]})" if frame else name, FUNCTION))
    return labels


def _class_of(name: str) -> str:
    return _INSTANCE.sub("", name.removeprefix(MODULE))


def shared_beginning(classes: Iterable[str]) -> str:
    """The first word of most class names that have several, where at least three share it: `Owlv2`; else empty."""
    beginnings = Counter(match[0] for name in classes if (match := _FIRST_WORD.match(name)))
    word, times = next(iter(beginnings.most_common(1)), ("", 0))
    return word if times >= max(MIN_SHARED_CLASSES, beginnings.total() / 2) else ""


# The tree.


@frozen
class _Tree(Parallel):
    """The rows before they are sorted: parallel arrays, the first entry is all of the part."""

    parent: Int64
    label: Int64
    of_entry: Int64
    """The node of each entry; the last is that of no entry."""


def _merged(entries: _Entries, root: int) -> _Tree:
    """Entries of one label below the same node share a node; `root` is the label of the first one."""
    node = np.zeros(len(entries) + 1, np.int64)
    parents, labels = [np.array([-1])], [np.array([root])]
    count, level, rest = 1, np.flatnonzero(entries.above < 0), np.flatnonzero(entries.above >= 0)
    while len(level):
        # An entry above which there is none has the last one, which is that of the root.
        around = node[entries.above[level]]
        pairs = combinations(around, entries.label[level])
        node[level] = count + pairs.member
        parents.append(around[pairs.first])
        labels.append(entries.label[level][pairs.first])
        count += len(pairs)
        ready = node[entries.above[rest]] > 0
        level, rest = rest[ready], rest[~ready]
    return _Tree(np.concatenate(parents), np.concatenate(labels), node)


def _table(trace: Trace, labels: _Labels, entries: _Entries, spent: _Spent, whole: str, measure: str) -> Table:
    """The rows of the entries on which anything was spent; `whole` names the part."""
    (times,) = subtree_sums(entries.above, np.bincount(spent.entry[spent.entry >= 0], minlength=len(entries)))
    tree = _merged(entries, labels.number(whole, ALL))
    node = tree.of_entry[spent.entry]
    own = np.bincount(node, spent.ns, len(tree)).astype(np.int64)
    total = subtree_sums(tree.parent, own)[0].astype(np.int64)
    alive = np.flatnonzero(times > 0)
    holds = np.bincount(tree.of_entry[alive], minlength=len(tree)) > 0
    holds[0] = True
    calls = np.bincount(tree.of_entry[alive], entries.calls[alive], len(tree)).astype(np.int64)
    calls = np.where(calls > 0, calls, NULL)
    modules = alive[entries.module[alive] >= 0]
    alike = combinations(tree.of_entry[modules], entries.module[modules])
    merged = np.bincount(tree.of_entry[modules][alike.first], minlength=len(tree))
    families_of = _families(trace, tree, node, spent) if measure == GPU else np.full(len(tree), -1)
    order = _by_time(tree.parent, total, holds)
    depth = tree_depth(tree.parent)
    kind = tree.label % len(KIND_WORDS)
    time, own_time = _TIME_COLUMNS[measure]
    names, paths = _texts(labels, tree, order, depth)
    return Table(
        (
            coded(col.TREE.but(heading="name", help=_NAME_HELP), np.arange(len(order)), names),
            numbers(col.CALLS.but(help=_CALLS_HELP), calls[order]),
            numbers(col.MERGED, np.where(merged > 0, merged, NULL)[order]),
            micros(time.but(help=_TIME_HELP[measure]), total[order]),
            numbers(col.PCT.but(help="Share of the time of the first row."), 100 * total[order] / max(total[0], 1)),
            micros(own_time.but(help="The same without the rows below it."), own[order]),
            coded(
                col.KIND.but(help="Sort of row: module, function, op, annotation, kernel, cause."),
                kind[order],
                KIND_WORDS,
            ),
            coded(
                col.FAMILY.but(help="Of its kernels the sort that took most of its time."),
                families_of[order],
                FAMILY_WORDS,
            ),
            numbers(col.DEPTH, depth[order]),
            coded(
                col.PATH.but(help="The names from the first row to this one, as in folded text."),
                np.arange(len(order)),
                paths,
            ),
        ),
        _heaviest(trace, tree, entries, alive, spent, node)[order],
    )


_TIME_COLUMNS = {
    GPU: (col.GPU_US, col.OWN_GPU_US),
    CPU: (col.CPU_US, col.OWN_CPU_US),
    IDLE: (col.IDLE_US, col.OWN_IDLE_US),
}
_TIME_HELP = {
    GPU: "Durations of the GPU activities launched in it; what ran side by side is added.",
    CPU: "Self times of the slices of threads in it, as in Ops.",
    IDLE: "Time in which the GPU ran nothing before an activity launched in it.",
}
_NAME_HELP = "All that has this name below the row above it; a module by its class."
_CALLS_HELP = "Calls in which the time was spent; of a kernel how often it ran, of a cause how many gaps."


def time_columns(table: Table) -> tuple[Column, Column]:
    """The columns of the time and of the own time."""
    names = next((time.name, own.name) for time, own in _TIME_COLUMNS.values() if time.name in table)
    return table[names[0]], table[names[1]]


def _by_time(parent: Int64, total: Int64, holds: Bool) -> Int64:
    """The nodes that hold anything, each before those below it, siblings by time."""
    kept = np.flatnonzero(holds)
    index = np.cumsum(holds) - 1
    order = np.empty(len(kept), np.int64)
    order[preorder(row_of(index, parent[kept]), -total[kept])] = kept
    return order


def _families(trace: Trace, tree: _Tree, node: Int64, spent: _Spent) -> Int64:
    """The family of the GPU activities with most time below each node, -1 for modules and what is above them."""
    family = families(trace, spent.row)
    known = np.unique(family).tolist()
    if not known:
        return np.full(len(tree), -1)
    mine = [np.bincount(node[family == each], spent.ns[family == each], len(tree)) for each in known]
    largest = np.argmax(np.stack(subtree_sums(tree.parent, *mine)), axis=0)
    is_grey = np.isin(tree.label % len(KIND_WORDS), [KIND_WORDS.find(kind) for kind in (ALL, CLASS, FUNCTION)])
    return np.where(is_grey, -1, np.array(known)[largest])


def _heaviest(trace: Trace, tree: _Tree, entries: _Entries, alive: Int64, spent: _Spent, node: Int64) -> Int64:
    """The longest slice of each node: of a thread that of its own name, of a device any that is below it."""
    best = np.full(len(tree), -1, np.int64)
    order = _shortest_first(spent.ns)
    row, at = spent.row[order], node[order]
    while len(at):
        # Of several the last one stays, which is the longest.
        best[at] = row
        row, at = row[at > 0], tree.parent[at[at > 0]]
    named = alive[entries.row[alive] >= 0]
    if not len(spent.row) or trace.slices.kind[spent.row[0]] in GPU_WORK:
        return best
    order = named[_shortest_first(trace.slices.dur[entries.row[named]])]
    best[tree.of_entry[order]] = entries.row[order]
    return best


def _shortest_first(ns: Int64) -> Int64:
    """The order of some times from the shortest to the longest, the first of equal ones last."""
    return np.lexsort((-np.arange(len(ns)), ns))


def _texts(labels: _Labels, tree: _Tree, order: Int64, depth: Int64) -> tuple[list[str], list[str]]:
    """The name of each node in order behind its indentation, and its path."""
    texts = [labels.texts[number] for number in (tree.label[order] // len(KIND_WORDS)).tolist()]
    paths: dict[int, str] = {-1: ""}
    for node, above, text in zip(order.tolist(), tree.parent[order].tolist(), texts, strict=True):
        word = clean(text).replace(SEPARATOR, ",").strip()
        paths[node] = f"{paths[above]}{SEPARATOR}{word}" if above >= 0 else word
    names = [f"{INDENT * level}{text}" for level, text in zip(depth[order].tolist(), texts, strict=True)]
    return names, [paths[node] for node in order.tolist()]
