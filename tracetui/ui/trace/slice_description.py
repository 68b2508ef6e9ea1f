"""The details of a slice as lines: name, facts, causes, dispatch chain and the args of its event. Pure.

Values come from the trace and are not trusted: they are only turned into text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from math import isfinite, prod
from typing import Any

import numpy as np

from tracetui.devices.counters import MIN_SAMPLES, kernel_samples, runs_alone
from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.residency import advice_of, configuration, residency
from tracetui.devices.roofline import BOUNDS, COMPUTE, MEMORY, roofline
from tracetui.drawing.format import cut_name
from tracetui.errors import TraceError
from tracetui.kernel_names import Family, decode
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.autograd import autograd
from tracetui.linking.chains import chain, dispatch_cost, graph_dependencies, launch_of_node, outermost_op
from tracetui.linking.frames import MODULE, compiled_region, frames, is_own, module_paths
from tracetui.linking.graph_nodes import OWN_CAPTURE, OWN_NAMES, graph_nodes, unknown_node
from tracetui.linking.links import launch_delay, links, region
from tracetui.linking.placement import activities_of_step, step_index
from tracetui.linking.replays import graph_name, replays
from tracetui.linking.steps import steps
from tracetui.model.hardware_counters import short_counter, with_unit
from tracetui.model.quantities import (
    count,
    duration,
    operations,
    percent,
    rounded_percent,
    short_percent,
    size,
    three_digits,
)
from tracetui.model.recorded import number_name, whole_number
from tracetui.model.results import kept
from tracetui.model.table import DOUBTFUL, NULL
from tracetui.model.trace import GPU_WORK, GRAPH_NODES, Kind, Trace
from tracetui.tables.occupancy import kernel_of_query, queries, queries_for
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.widgets.details import DetailFact, DetailLine, fact_lines, folded

# The dispatch chain as lines: every level with its time, its own time, and its share of the outermost op.

MIN_SELF_CELLS = 50
"""From this width on there is room for the self time."""
MIN_SHARE_CELLS = 34
"""Below this width there is room for the total alone."""
_GAPS, _MIN_CELLS = (0, 1, 2), (9, 10, 9)
"""Cells before the total, the self time and the share, and the least width of each with these."""

KIND_WORDS = {
    Kind.CPU_OP: "op",
    Kind.ANNOTATION: "annotation",
    Kind.RUNTIME: "call",
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "copy",
    Kind.MEMSET: "memset",
    Kind.PYTHON: "python",
}
"""The word for slices of a kind; other kinds have none."""


def short_name(trace: Trace, row: int) -> str:
    """A slice's name on one line, that of a kernel without namespaces and parameters."""
    name = clean(trace.name_of(row))
    return short_kernel(name) if trace.slices.kind[row] == Kind.KERNEL else name


def chain_of(trace: Trace, row: int) -> list[int]:
    """The dispatch chain for reading: of Python frames in a row stay the user's own, modules and the innermost."""
    if row < 0:
        return []
    rows = chain(trace, row)
    kinds = [*trace.slices.kind[rows].tolist(), -1]
    return [
        each
        for index, each in enumerate(rows)
        if each == row or not kinds[index] == kinds[index + 1] == Kind.PYTHON or is_own(trace.name_of(each))
    ]


def chain_lines(trace: Trace, chain: Sequence[int], row: int, width: int) -> list[DetailLine]:
    """A title and a line for each slice of a dispatch chain, outermost first; `row` is marked, all can be jumped to."""
    slices, op = trace.slices, outermost_op(trace, chain)
    numbers = [("total", "self", "% of op" if op >= 0 else "")]
    whole = 0
    for each in chain:
        whole = int(slices.dur[op]) if each == op else whole
        dur = int(slices.dur[each])
        if Kind(int(slices.kind[each])) in GPU_WORK:
            numbers.append((duration(dur), "", ""))
        else:
            share = short_percent(100 * dur / whole) if whole else ""
            numbers.append((duration(dur), duration(int(slices.self_time[each])), share))
    # Columns of which none touches the next; those for which there is room.
    columns = [0] if width < MIN_SHARE_CELLS else [0, 1, 2] if width >= MIN_SELF_CELLS else [0, 2]
    cells = [
        max(_MIN_CELLS[column], _GAPS[column] + max(len(texts[column]) for texts in numbers)) for column in columns
    ]
    if columns == [0]:
        cells = [0]
    titles, *rights = (
        "".join(texts[column].rjust(room) for column, room in zip(columns, cells, strict=True)) for texts in numbers
    )
    title = "dispatch chain"
    lines = [DetailLine((title + titles.rjust(width - len(title)))[:width], "label")]
    for level, (each, right) in enumerate(zip(chain, rights, strict=True)):
        word = KIND_WORDS.get(Kind(int(slices.kind[each])), "")
        indent = " " * min(level, max(width // 5, 1))
        room = max(width - 1 - len(indent) - len(right) - 1, 8)
        name = cut_name(short_name(trace, each), room)
        if word and len(name) + len(word) + 1 <= room:
            name = f"{name} {word}"
        text = f"{'▸' if each == row else ' '}{indent}{name:<{room}} {right}"
        lines.append(DetailLine(text, "here" if each == row else "link", each))
    return lines


# A node of a CUDA graph: what it is where it is no GPU activity, and its dependencies.

MAX_NAMED_NODES = 4
"""Maximum nodes named that a node depends on, and of those that depend on it."""
_NODE_WORDS = {
    Kind.GRAPH_EVENT: "records an event; no GPU activity, and in no count",
    Kind.GRAPH_HOST: "calls a function on the host; no GPU activity, and in no count",
}


def graph_node_facts(trace: Trace, row: int) -> Iterator[DetailFact]:
    """Facts about a node of a graph; nothing for any other slice."""
    words = _NODE_WORDS.get(Kind(int(trace.slices.kind[row])))
    if words:
        yield DetailFact("graph node", words)
        launch = launch_of_node(trace, row)
        yield DetailFact("launched by", short_name(trace, launch) if launch >= 0 else "unknown", launch)
    edges = graph_dependencies(trace)
    for label, rows in (("waited for", edges.needed_by(row)), ("needed by", edges.waiting_for(row))):
        for number, node in enumerate(rows[:MAX_NAMED_NODES].tolist()):
            yield DetailFact("" if number else label, short_name(trace, node), node)
        if len(rows) > MAX_NAMED_NODES:
            yield DetailFact("", f"and {len(rows) - MAX_NAMED_NODES:,} more")


# How well a kernel uses its device, in words: occupancy, waves, advice, operations, rates, bound.


def kernel_facts(trace: Trace, row: int) -> Iterator[DetailFact]:
    """Facts about a kernel, and the meaning of the name of a copy or fill; nothing for any other slice."""
    kind = Kind(int(trace.slices.kind[row]))
    occupancy = [*_occupancy(trace, row)] if kind == Kind.KERNEL else []
    yield from occupancy[:1]
    if kind in GPU_WORK:
        yield DetailFact("in words", clean(decode(trace.name_of(row), kind).sentence))
    yield from occupancy[1:]
    if kind == Kind.KERNEL:
        yield from _rates(trace, row)
        yield from _counters(trace, row)


def _counters(trace: Trace, row: int) -> Iterator[DetailFact]:
    """The hardware counters of its GPU while a kernel ran, or that samples are too few."""
    sampled = False
    facts = []
    for number, counter in enumerate(trace.counters):
        if counter.gpu < 0:
            continue
        samples = kernel_samples(trace, number)
        index = int(np.searchsorted(samples.rows, row))
        if index >= len(samples.rows) or samples.rows[index] != row:
            continue
        sampled = True
        if samples.dense[index]:
            low, high = (with_unit(float(values[index]), counter.unit) for values in (samples.low, samples.high))
            words = f"{with_unit(float(samples.mean[index]), counter.unit)} on average, {low} to {high}"
            words = clean(f"{words} ({samples.samples[index]} samples)")
            facts.append(DetailFact(clean(short_counter(counter.name)), words))
    if sampled and not facts:
        why = f"fewer than {MIN_SAMPLES} samples began" if runs_alone(trace)[row] else "other activities ran"
        facts.append(DetailFact("counters", f"nothing of this kernel: {why} while it ran"))
    yield from facts


MIN_ADVISED_NS = 10_000
"""Minimum duration of a kernel for advice about its occupancy."""


def _occupancy(trace: Trace, row: int) -> Iterator[DetailFact]:
    rows = np.array([row], np.int64)
    setup = configuration(trace, rows)
    resident = residency(trace, rows, setup)
    if np.isnan(resident.active[0]):
        return
    limiter = resident.limiters[int(resident.limiter[0])]
    active = int(resident.active[0])
    blocks = f"{active} block{'' if active == 1 else 's'} per SM"
    family = decode(trace.name_of(row)).family
    # R3.37: these work on large tiles, for which a multiprocessor has room for few blocks.
    heavy = family in (Family.GEMM, Family.ATTENTION)
    normal = "; low is normal for GEMM and attention kernels" if heavy else ""
    waves, empty = float(resident.waves[0]), rounded_percent(float(resident.tail[0]))
    is_small = waves < 1
    limit = f"but the grid fills {rounded_percent(100 * waves)} of the GPU" if is_small else f"limited by {limiter}"
    yield DetailFact("occupancy", f"theoretical {percent(resident.theoretical[0])} ({blocks}), {limit}{normal}")
    left = f"{empty} of the GPU stays empty" if is_small else f"{empty} of their places stay empty, in the last one"
    yield DetailFact("waves", f"{three_digits(waves)}: {left}")
    if resident.mark[0] >= 0:
        yield DetailFact("note", resident.marks[int(resident.mark[0])])
    # Collectives take few multiprocessors on purpose.
    is_worth_it = family != Family.COMMUNICATION and trace.slices.dur[row] >= MIN_ADVISED_NS
    more = advice_of(trace, row, setup) if is_worth_it else ""
    if more:
        yield DetailFact("to raise it", more)


def _rates(trace: Trace, row: int) -> Iterator[DetailFact]:
    work, roof = kernel_work(trace), roofline(trace)
    index = int(np.searchsorted(work.rows, row))
    main = int(work.main[index])
    if main < 0 or (np.isnan(work.flops[main]) and np.isnan(work.bytes[main])):
        return
    if main != index:
        yield DetailFact("operations", "counted at the main kernel of its operator", int(work.rows[main]))
        return
    parts = []
    for value, words, rate, unit in (
        (float(work.flops[main]), operations, float(roof.tflops[main]), "TFLOP/s"),
        (float(work.bytes[main]), size, float(roof.gbps[main]), "GB/s"),
    ):
        if not np.isnan(value):
            # A kernel that lasted no time reached no rate.
            parts.append(words(value) + ("" if np.isnan(rate) else f" at {three_digits(rate)} {unit}"))
    yield DetailFact("operations", ", ".join(parts))
    bound = int(roof.bound[main])
    if bound >= 0:
        limits = float(roof.share[main]), float(roof.peak[main]), float(roof.bandwidth[main])
        yield DetailFact("bound", _bound(bound, *limits))


def _bound(bound: int, share: float, peak: float, bandwidth: float) -> str:
    if bound in (COMPUTE, MEMORY):
        limit = f"{three_digits(peak)} TFLOP/s" if bound == COMPUTE else f"{three_digits(bandwidth)} GB/s"
        mark = DOUBTFUL if share > 1 else ""
        return f"{BOUNDS[bound]}: {mark}{percent(100 * share)} of {limit}"
    return {
        "L2": "faster than DRAM: data comes from the cache",
        "latency": "too short for a roofline: latency dominates",
        "?": "faster than possible: check shapes, data type and device",
    }[BOUNDS[bound]]


# The args of an event.

MAX_VALUE_LETTERS = 400
"""Characters of one value that are shown."""
MAX_ITEMS, MAX_LEVELS = 100, 20
"""Items of a list, and lists within each other, that are shown."""

ArgText = tuple[str, str]
"""A label and its value."""

_LABELS = {
    "device": ("device", ""),
    "stream": ("stream", ""),
    "original_stream": ("ran on stream", ""),
    "annotated_stream": ("stream of its mark", ""),
    "grid": ("grid", "block"),
    "block": ("block", "thread"),
    "registers per thread": ("registers", "per thread"),
    "shared memory": ("shared memory", "bytes"),
    "blocks per SM": ("blocks per SM", ""),
    "warps per SM": ("warps per SM", ""),
    "est. achieved occupancy %": ("occupancy (est.)", "%"),
    "bytes": ("size", "bytes"),
    "memory bandwidth (GB/s)": ("bandwidth", "GB/s"),
    "correlation": ("correlation", ""),
}
"""Label and unit of args, in the order in which they are listed; of a size in three dimensions what it counts."""
_COUNTED = ("block", "thread")
_SHAPES = ("Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs")


def facts_of_args(args: Mapping[str, Any]) -> list[ArgText]:
    """Labels and values of an event's args, those that explain a launch first."""
    facts = [
        (label, _with_unit(args[key], unit)) for key, (label, unit) in _LABELS.items() if args.get(key) is not None
    ]
    facts += _shapes(args)
    facts += [
        (clean(str(key)), plain(value))
        for key, value in args.items()
        if key not in _LABELS and key not in _SHAPES and value not in ("", None, [])
    ]
    return facts


def plain(value: Any, levels: int = MAX_LEVELS) -> str:
    """Any JSON value on one line, safe to print, cut where it is very long or deep."""
    if isinstance(value, list | dict) and levels == 0:
        text = "…"
    elif isinstance(value, list):
        items = ", ".join(plain(item, levels - 1) for item in value[:MAX_ITEMS])
        text = f"[{items}, …]" if len(value) > MAX_ITEMS else f"[{items}]"
    elif isinstance(value, dict):
        pairs = list(value.items())[:MAX_ITEMS]
        text = "{" + ", ".join(f"{clean(str(key))}: {plain(item, levels - 1)}" for key, item in pairs) + "}"
    elif isinstance(value, float):
        text = f"{value:.6g}" if isfinite(value) else number_name(value)
    else:
        text = "null" if value is None else clean(str(value))
    return text if len(text) <= MAX_VALUE_LETTERS else text[: MAX_VALUE_LETTERS - 1] + "…"


def _with_unit(value: Any, unit: str) -> str:
    """A value with its unit where it is a finite number; a grid or block as `12x8x1 = 96 blocks`."""
    if unit in _COUNTED:
        if not (isinstance(value, list) and value and all(whole_number(item) is not None for item in value)):
            return plain(value)
        return f"{'x'.join(map(plain, value))} = {prod(value):,} {unit}{'' if prod(value) == 1 else 's'}"
    is_number = isfinite(value) if isinstance(value, float) else whole_number(value) is not None
    if not unit or not is_number:
        return plain(value)
    return size(value) if unit == "bytes" else f"{plain(value)} {unit}"


def _shapes(args: Mapping[str, Any]) -> list[ArgText]:
    """One line per input of an op: its type and dimensions, strides where recorded, or its value."""
    lists = {key: value for key in _SHAPES if isinstance(value := args.get(key), list)}
    dims = lists.get("Input Dims") or lists.get("Input dims", [])
    columns = (lists.get("Input type", []), dims, lists.get("Input Strides", []), lists.get("Concrete Inputs", []))
    facts = []
    for index, (kind, shape, strides, value) in enumerate(zip_longest(*columns)):
        words = [plain(kind)] if kind else []
        words += [plain(shape)] if shape else []
        words += [f"strides {plain(strides)}"] if shape and strides else []
        words += [f"= {plain(value)}"] if value else []
        if words:
            facts.append((f"input {index}", " ".join(words)))
    return facts


# The cause of a slice: Python, autograd, what is around it, and graphs.

MAX_CHAIN_LEVELS = 12
"""Maximum levels of a chain at capture that are shown."""


def cause_facts(trace: Trace, row: int, chain: Sequence[int]) -> Iterator[DetailFact]:
    """Facts about the cause of a slice; `chain` is its dispatch chain, outermost first."""
    stacks, pairs = frames(trace), autograd(trace)
    forward = int(pairs.forward[row])
    if trace.slices.kind[row] not in GPU_WORK and has_frames(trace):
        yield from _source(trace, row)
    path = module_paths(trace).of(row)
    if path:
        yield DetailFact("module", clean(path), int(stacks.module[row]))
    if forward >= 0:
        yield DetailFact("forward op", clean(trace.name_of(forward)), forward)
    backward = pairs.backward_of(row) if trace.slices.kind[row] == Kind.CPU_OP else -1
    if backward >= 0:
        yield DetailFact("backward", clean(trace.name_of(backward)), backward)
    annotation = int(links(trace).annotation[row])
    if annotation >= 0:
        yield DetailFact("annotation", clean(trace.name_of(annotation)), annotation)
    compiled = compiled_region(trace, [each for each in chain if each != row])
    if compiled >= 0:
        yield DetailFact("compiled in", clean(trace.name_of(compiled)), compiled)
    cost = dispatch_cost(trace, row)
    if cost is not None:
        parts = f" (operator {duration(cost.before)} + launch call {duration(cost.call)})" if cost.op >= 0 else ""
        yield DetailFact("CPU per launch", f"{duration(cost.before + cost.call)}{parts}")
    if len(replays(trace).launch):
        yield from _graph(trace, row)


def _source(trace: Trace, row: int) -> Iterator[DetailFact]:
    """The line of Python that a slice was called from."""
    user, forward = int(frames(trace).user[row]), int(autograd(trace).forward[row])
    if user >= 0:
        of_forward = forward >= 0 and user == frames(trace).user[forward]
        yield DetailFact("forward from" if of_forward else "called from", clean(trace.name_of(user)), user)
    elif not has_frames(trace):
        yield DetailFact("source line", trace.to_record("needs with_stack", "not recorded"))


@kept
def has_frames(trace: Trace) -> bool:
    """True where Python frames were recorded."""
    return bool((trace.slices.kind == Kind.PYTHON).any())


def _graph(trace: Trace, row: int) -> Iterator[DetailFact]:
    """The replay of a graph that a slice launched, or is a node of."""
    graphs, joined = replays(trace), links(trace)
    launch = int(joined.launch[row])
    index = graphs.of_launch(launch if launch >= 0 else row)
    if index < 0:
        return
    times = int(graphs.times[index])
    replayed = f"{graph_name(int(graphs.graph[index]))}, replayed {'once' if times == 1 else f'{count(times)} times'}"
    nodes = count(int(graphs.nodes[index]))
    if launch >= 0:
        node = int(np.flatnonzero(joined.kernels_of(launch) == row)[0]) + 1
        yield DetailFact("graph", f"node {count(node)} of {nodes} of a launch of {replayed}", launch)
        yield from _captured(trace, row, launch)
        return
    yield DetailFact("graph", f"{nodes} nodes, {replayed}")
    share = duration(round(float(graphs.cost[index])))
    yield DetailFact("", f"{share} of the call per node, the first ran after {duration(int(graphs.latency[index]))}")


def _captured(trace: Trace, row: int, launch: int) -> Iterator[DetailFact]:
    """The capture of a node of a graph, inferred; a slice to jump to where the capture is in the same trace."""
    nodes = graph_nodes(trace)
    entry = int(nodes.index_of(np.array([row]))[0])
    if entry < 0:
        yield DetailFact("captured by", f"unknown: {unknown_node(trace, launch)}")
        return
    if nodes.recording[entry] < 0:
        yield DetailFact("captured in", clean(nodes.texts[nodes.module[entry]]))
        yield DetailFact("named by", clean(nodes.naming[nodes.named_by[entry]]) or OWN_NAMES)
        return
    recording, index = nodes.recordings[nodes.recording[entry]], int(nodes.launch[entry])
    call = int(recording.call[index]) if index >= 0 and not recording.label else -1
    texts = {name: getattr(nodes, name)[entry] for name in ("op", "function", "module", "shapes")}
    known = {name: clean(nodes.texts[number]) for name, number in texts.items() if number >= 0}
    how = ", by position only" if nodes.by_position[entry] else ""
    yield DetailFact("captured by", f"~{known.get('op', 'no operator')}{how}", call)
    for name, label in (("function", "captured from"), ("module", "captured in"), ("shapes", "input shapes")):
        if name in known:
            yield DetailFact(label, f"~{known[name]}", call)
    yield DetailFact("capture file", clean(recording.label) or OWN_CAPTURE)
    if index >= 0:
        # The operators, modules and own frames around the captured launch, the innermost last.
        around = [recording.text(number) for number in recording.stacks[recording.stack[index]]]
        levels = [clean(name.removeprefix(MODULE)) for name in around if is_own(name)][-MAX_CHAIN_LEVELS:]
        for level, name in enumerate(levels):
            yield DetailFact("capture chain" if level == 0 else "", f"~{name}")


# All of it.

TITLE_LINES = 3
"""Lines that the name may take at the top; a longer one stands further down, and a short form of it at the top."""


def describe(trace: Trace, row: int, chain: Sequence[int], width: int) -> list[DetailLine]:
    """The lines for a slice in a pane `width` cells wide; `chain` is its dispatch chain, outermost first."""
    if row < 0:
        return [DetailLine("Nothing is selected.", "label")]
    event: dict[str, Any] = {}
    trouble = ""
    try:
        event = trace.event_of(row)
    except (TraceError, OSError) as error:
        trouble = f"Its args cannot be read: {error}"
    name, short = folded(clean(trace.name_of(row)), width), folded(short_name(trace, row), width)
    is_short = len(name) <= TITLE_LINES and (name == short or trace.slices.kind[row] not in GPU_WORK)
    lines = [DetailLine(piece, "title") for piece in (name if is_short else short[:TITLE_LINES])]
    first = (*_activity_facts(trace, row), *kernel_facts(trace, row))
    for fact in (*first, *_facts(trace, row), *cause_facts(trace, row, chain)):
        lines += fact_lines(fact, width)
    if len(chain) > 1:
        lines += [DetailLine(""), *chain_lines(trace, chain, row, width)]
    if not is_short:
        lines += [DetailLine(""), DetailLine("name", "label"), *map(DetailLine, name)]
    args = event.get("args")
    facts = facts_of_args(args) if isinstance(args, dict) else []
    if facts:
        lines += [DetailLine(""), DetailLine("args", "label")]
        for label, value in facts:
            lines += fact_lines(DetailFact(label, value), width)
    return lines + [DetailLine(piece, "label") for piece in folded(trouble, width)]


def _activity_facts(trace: Trace, row: int) -> Iterator[DetailFact]:
    """The index of a GPU activity in its step, its time, what launched it, and how many queries were made for it."""
    kind, joined = Kind(int(trace.slices.kind[row])), links(trace)
    if kind not in GPU_WORK:
        return
    step = int(step_index(trace, np.array([row]))[0])
    if step >= 0 or len(steps(trace)) == 0:
        rows = activities_of_step(trace, step) if step >= 0 else joined.gpu
        where = f"in step {int(steps(trace).number[step])}" if step >= 0 else "in the trace"
        yield DetailFact(where, f"{count(int(np.flatnonzero(rows == row)[0]) + 1)} of {count(len(rows))}")
    yield DetailFact("duration", duration(int(trace.slices.dur[row])))
    launch, owner = int(joined.launch[row]), int(joined.owner[row])
    if launch >= 0:
        delay = int(launch_delay(trace, np.array([row]))[0])
        yield DetailFact("launch → start", duration(delay) if delay != NULL else "–", launch)
    if owner >= 0:
        yield DetailFact("operator", clean(trace.name_of(owner)), owner)
    yield from _source(trace, row)
    made = len(queries_for(trace, row)) if kind == Kind.KERNEL else 0
    if made:
        yield DetailFact("queries", f"{count(made)}: {keys.QUERIES.shown[0]} lists {'it' if made == 1 else 'them'}")


def _facts(trace: Trace, row: int) -> list[DetailFact]:
    slices, trace_steps = trace.slices, steps(trace)
    kind, start, lane = Kind(int(slices.kind[row])), int(slices.start[row]), trace.lanes[int(slices.lane[row])]
    when = duration(start)
    index = int(step_index(trace, np.array([row]))[0])
    if index >= 0 and row != trace_steps.row[index]:
        into = duration(start - int(trace_steps.start[index]))
        when += f", {into} into step {int(trace_steps.number[index])}"
    facts = [
        DetailFact("category", clean(trace.category_of(row)) or "none"),
        DetailFact("lane", clean(f"{lane.process}, {lane.name}")),
        DetailFact("start", when),
    ]
    if kind not in GPU_WORK:
        facts.append(DetailFact("duration", duration(int(slices.dur[row]))))
    if kind not in (*GPU_WORK, *GRAPH_NODES):
        facts.append(DetailFact("self time", duration(int(slices.self_time[row]))))
    facts += graph_node_facts(trace, row)
    facts += _work_within(trace, row)
    launched = len(links(trace).kernels_of(row))
    if launched > 1:
        facts.append(DetailFact("launched", f"{launched:,} GPU activities; the first is shown"))
    if kind == Kind.RUNTIME and row in queries(trace):
        kernel = kernel_of_query(trace, row)
        asked = short_name(trace, kernel) if kernel >= 0 else "no launch follows in its op"
        facts.append(DetailFact("query for", asked, kernel))
    return facts


def _work_within(trace: Trace, row: int) -> list[DetailFact]:
    """The GPU activity that an op, an annotation or a Python frame launched."""
    if trace.slices.kind[row] not in (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON) or len(links(trace).gpu) == 0:
        return []
    activities = region(trace, row)
    if len(activities.rows) == 0:
        return [DetailFact("GPU activity", "none was launched within it")]
    guessed = int(activities.inferred.sum())
    placed = f"; {guessed:,} of them attributed by start time, as their launches are not recorded" if guessed else ""
    number = len(activities.rows)
    count = f"{number:,} kernel, copy or fill" if number == 1 else f"{number:,} kernels, copies and fills"
    words = f"{count}, busy {duration(activities.busy)} of {duration(activities.span)} from first to last{placed}"
    return [DetailFact("GPU activity", words, int(activities.rows[0]))]
