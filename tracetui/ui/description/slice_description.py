"""The details of a slice as lines: name, facts, causes, dispatch chain and the args of its event. Pure.

Values come from the trace and are not trusted: they are only ever turned into text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from tracetui.linking.captured_tree import OWN_CAPTURE, OWN_NAMES, unknown_node
from tracetui.linking.chains import dispatch_cost, graph_dependencies, launch_of_node, outermost_op
from tracetui.linking.frames import MODULE, compiled_region, frames, is_own, module_paths
from tracetui.linking.graph_nodes import graph_nodes
from tracetui.linking.links import links, region
from tracetui.linking.placement import step_index
from tracetui.linking.replays import graph_name, replays
from tracetui.linking.steps import steps
from tracetui.model.hardware_counters import short_counter, with_unit
from tracetui.model.intervals import Int64
from tracetui.model.quantities import count, duration, operations, percent, short_percent, size, three_digits
from tracetui.model.recorded import GraphRecording, number_name, whole_number
from tracetui.model.table import DOUBTFUL
from tracetui.model.trace import GPU_WORK, GRAPH_NODES, Kind, Trace
from tracetui.tables.occupancy import asked_for, queries
from tracetui.text import clean
from tracetui.ui.widgets.details import DetailFact, DetailLine, fact_lines, folded

# The dispatch chain as lines: every level with its time, its own time, and its share of the outermost op. Pure.

MIN_SELF_CELLS = 50
"""From this width on there is room for the self time."""
MIN_SHARE_CELLS = 34
"""Below this width there is room for the total alone."""
_GAPS, _MIN_CELLS = (0, 1, 2), (9, 10, 9)
"""Cells before the total, the self time and the share, and the least width of each with these."""

_WORD = {
    Kind.CPU_OP: "op",
    Kind.ANNOTATION: "annotation",
    Kind.RUNTIME: "call",
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "copy",
    Kind.MEMSET: "memset",
    Kind.PYTHON: "python",
}


def kind_word(kind: int) -> str:
    """What a slice of a kind is called."""
    return _WORD.get(Kind(kind), "slice")


def short_name(trace: Trace, row: int) -> str:
    """A slice's name on one line, that of a kernel without namespaces and parameters."""
    name = clean(trace.name_of(row))
    return short_kernel(name) if trace.slices.kind[row] == Kind.KERNEL else name


def chain_lines(trace: Trace, chain: Sequence[int], row: int, width: int) -> list[DetailLine]:
    """A title and a line for each slice of a dispatch chain, outermost first; `row` is marked, all can be jumped to."""
    op = outermost_op(trace, chain)
    title = "dispatch chain"
    below = False
    rows = [("total", "self", "% of op" if op >= 0 else "")]
    for each in chain:
        below |= each == op
        rows.append(_numbers(trace, each, op if below else -1))
    titles, *numbers = _columns(rows, width)
    lines = [DetailLine((title + titles.rjust(width - len(title)))[:width], "label")]
    for level, (each, texts) in enumerate(zip(chain, numbers, strict=True)):
        lines.append(_line(trace, each, level, each == row, texts, width))
    return lines


def _numbers(trace: Trace, row: int, op: int) -> tuple[str, str, str]:
    """Total, self time and share of the outermost op; empty where a slice has none."""
    slices = trace.slices
    total = duration(int(slices.dur[row]))
    if Kind(int(slices.kind[row])) in GPU_WORK:
        return total, "", ""
    whole = int(slices.dur[op]) if op >= 0 else 0
    share = short_percent(100 * int(slices.dur[row]) / whole) if whole else ""
    return total, duration(int(slices.self_time[row])), share


def _columns(rows: Sequence[tuple[str, str, str]], width: int) -> list[str]:
    """The texts of each row in columns, of which none touches the next; those for which there is room."""
    if width < MIN_SHARE_CELLS:
        return [total for total, _, _ in rows]
    shown = [0, 1, 2] if width >= MIN_SELF_CELLS else [0, 2]
    cells = [max(_MIN_CELLS[column], _GAPS[column] + max(len(row[column]) for row in rows)) for column in shown]
    return ["".join(row[column].rjust(room) for column, room in zip(shown, cells, strict=True)) for row in rows]


def _line(trace: Trace, row: int, level: int, here: bool, numbers: str, width: int) -> DetailLine:
    word = _WORD.get(Kind(int(trace.slices.kind[row])), "")
    indent = " " * min(level, max(width // 5, 1))
    room = max(width - 1 - len(indent) - len(numbers) - 1, 8)
    name = cut_name(short_name(trace, row), room)
    if word and len(name) + len(word) + 1 <= room:
        name = f"{name} {word}"
    marker = "▸" if here else " "
    return DetailLine(f"{marker}{indent}{name:<{room}} {numbers}", "here" if here else "link", row)


# What is said about a node of a CUDA graph: what it is where it is no GPU activity, and its dependencies. Pure.

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
    yield from _named(trace, "waited for", edges.needed_by(row))
    yield from _named(trace, "needed by", edges.waiting_for(row))


def _named(trace: Trace, label: str, rows: Int64) -> Iterator[DetailFact]:
    for number, row in enumerate(rows[:MAX_NAMED_NODES].tolist()):
        yield DetailFact("" if number else label, short_name(trace, row), row)
    if len(rows) > MAX_NAMED_NODES:
        yield DetailFact("", f"and {len(rows) - MAX_NAMED_NODES:,} more")


# How well a kernel uses its device, in words: occupancy, waves, advice, operations, rates, bound. Pure.


def kernel_facts(trace: Trace, row: int) -> Iterator[DetailFact]:
    """Facts about a kernel, and the meaning of the name of a copy or fill; nothing for any other slice."""
    kind = Kind(int(trace.slices.kind[row]))
    if kind in GPU_WORK:
        yield DetailFact("in words", clean(decode(trace.name_of(row), kind).sentence))
    if kind == Kind.KERNEL:
        yield from _occupancy(trace, row)
        yield from _rates(trace, row)
        yield from _counters(trace, row)


def _counters(trace: Trace, row: int) -> Iterator[DetailFact]:
    """What the counters of its GPU say of a kernel, or that samples are too few to say anything."""
    sampled = False
    facts = []
    for number, counter in enumerate(trace.counters):
        if counter.gpu < 0:
            continue
        found = kernel_samples(trace, number)
        index = int(np.searchsorted(found.rows, row))
        if index >= len(found.rows) or found.rows[index] != row:
            continue
        sampled = True
        if found.dense[index]:
            low, high = (with_unit(float(values[index]), counter.unit) for values in (found.low, found.high))
            words = f"{with_unit(float(found.mean[index]), counter.unit)} on average, {low} to {high}"
            facts.append(
                DetailFact(clean(short_counter(counter.name)), clean(f"{words} ({found.samples[index]} samples)"))
            )
    if sampled and not facts:
        why = f"fewer than {MIN_SAMPLES} samples began" if runs_alone(trace)[row] else "other activities ran"
        facts.append(DetailFact("counters", f"nothing of this kernel: {why} while it ran"))
    yield from facts


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
    normal = "; low is normal for matrix and attention kernels" if heavy else ""
    yield DetailFact(
        "occupancy", f"{percent(resident.theoretical[0])} at most ({blocks}), limited by {limiter}{normal}"
    )
    free = f"{percent(resident.tail[0])} of the slots stay free in the last wave"
    yield DetailFact("waves", f"{three_digits(float(resident.waves[0]))}; {free}")
    if resident.mark[0] >= 0:
        yield DetailFact("note", resident.marks[int(resident.mark[0])])
    # Collectives take few multiprocessors on purpose.
    more = "" if family == Family.COMMUNICATION else advice_of(trace, row, setup)
    if more:
        yield DetailFact("to raise it", more)


def _rates(trace: Trace, row: int) -> Iterator[DetailFact]:
    work, roof = kernel_work(trace), roofline(trace)
    index = int(work.at(np.array([row]))[0])
    main = int(work.main[index])
    if main < 0 or (np.isnan(work.flops[main]) and np.isnan(work.bytes[main])):
        return
    if main != index:
        yield DetailFact("operations", "counted at the main kernel of its operator", int(work.rows[main]))
        return
    flops, moved = float(work.flops[main]), float(work.bytes[main])
    parts = [] if np.isnan(flops) else [operations(flops) + _rate(float(roof.tflops[main]), "TFLOP/s")]
    parts += [] if np.isnan(moved) else [size(moved) + _rate(float(roof.gbps[main]), "GB/s")]
    yield DetailFact("operations", ", ".join(parts))
    bound = int(roof.bound[main])
    if bound >= 0:
        yield DetailFact(
            "bound", _bound(bound, float(roof.share[main]), float(roof.peak[main]), float(roof.bandwidth[main]))
        )


def _rate(rate: float, unit: str) -> str:
    """What a kernel reached; nothing for one that lasted no time."""
    return "" if np.isnan(rate) else f" at {three_digits(rate)} {unit}"


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


MAX_VALUE_LETTERS = 400
"""Characters of one value that are shown."""
MAX_ITEMS, MAX_LEVELS = 100, 20
"""Items of a list, and lists within each other, that are shown."""

ArgText = tuple[str, str]
"""A label and its value."""


def facts_of_args(args: Mapping[str, Any]) -> list[ArgText]:
    """Labels and values of an event's args, those that explain a launch first."""
    facts = [(label, words(args[key])) for key, (label, words) in _WORDS.items() if args.get(key) is not None]
    facts += _shapes(args)
    facts += [
        (clean(str(key)), plain(value))
        for key, value in args.items()
        if key not in _WORDS and key not in _SHAPES and value not in ("", None, [])
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


def extent(value: Any) -> str:
    """A grid or block as `12x8x1`."""
    return "x".join(plain(item) for item in value) if isinstance(value, list) else plain(value)


def _counted(noun: str) -> Callable[[Any], str]:
    def words(value: Any) -> str:
        if isinstance(value, list) and value and all(whole_number(item) is not None for item in value):
            return f"{extent(value)} = {prod(value):,} {noun}{'' if prod(value) == 1 else 's'}"
        return plain(value)

    return words


def _bytes(value: Any) -> str:
    return size(value) if _is_number(value) else plain(value)


def _with(unit: str) -> Callable[[Any], str]:
    return lambda value: f"{plain(value)} {unit}" if _is_number(value) else plain(value)


def _is_number(value: Any) -> bool:
    """Whether a unit may stand behind a value: no text, nothing that is no finite number."""
    return isfinite(value) if isinstance(value, float) else whole_number(value) is not None


_WORDS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "device": ("device", plain),
    "stream": ("stream", plain),
    "original_stream": ("ran on stream", plain),
    "annotated_stream": ("stream of its mark", plain),
    "grid": ("grid", _counted("block")),
    "block": ("block", _counted("thread")),
    "registers per thread": ("registers", _with("per thread")),
    "shared memory": ("shared memory", _bytes),
    "blocks per SM": ("blocks per SM", plain),
    "warps per SM": ("warps per SM", plain),
    "est. achieved occupancy %": ("occupancy (est.)", _with("%")),
    "bytes": ("size", _bytes),
    "memory bandwidth (GB/s)": ("bandwidth", _with("GB/s")),
    "correlation": ("correlation", plain),
}

_SHAPES = ("Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs")


def _shapes(args: Mapping[str, Any]) -> list[ArgText]:
    """One line per input of an op: its type and dimensions, strides where recorded, or its value."""
    dims = _listed(args, "Input Dims") or _listed(args, "Input dims")
    types, strides = _listed(args, "Input type"), _listed(args, "Input Strides")
    values = _listed(args, "Concrete Inputs")
    facts = []
    for index in range(max(len(dims), len(types), len(values))):
        kind, shape = _at(types, index), _at(dims, index)
        words = [plain(kind)] if kind else []
        if shape:
            words.append(plain(shape))
            if _at(strides, index):
                words.append(f"strides {plain(_at(strides, index))}")
        if _at(values, index):
            words.append(f"= {plain(_at(values, index))}")
        if words:
            facts.append((f"input {index}", " ".join(words)))
    return facts


def _listed(args: Mapping[str, Any], key: str) -> list[Any]:
    value = args.get(key)
    return value if isinstance(value, list) else []


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else None


MAX_NAME_LETTERS = 40
"""Characters of a name inside a sentence."""


def cause_facts(trace: Trace, row: int, chain: Sequence[int]) -> Iterator[DetailFact]:
    """What is known about the cause of a slice; `chain` is its dispatch chain, outermost first."""
    yield from _python(trace, row)
    yield from _autograd(trace, row)
    yield from _around(trace, row, chain)
    cost = dispatch_cost(trace, row)
    if cost is not None:
        call = f"{duration(cost.call)} in the call"
        name = cut_name(clean(trace.name_of(cost.op)), MAX_NAME_LETTERS) if cost.op >= 0 else ""
        yield DetailFact("launch cost", f"{duration(cost.before)} from {name} to the call, {call}" if name else call)
    yield from _graph(trace, row)


def _python(trace: Trace, row: int) -> Iterator[DetailFact]:
    user, forward = int(frames(trace).user[row]), int(autograd(trace).forward[row])
    if user >= 0:
        of_forward = forward >= 0 and user == frames(trace).user[forward]
        yield DetailFact("forward from" if of_forward else "called from", clean(trace.name_of(user)), user)
    path = module_paths(trace).of(row)
    if path:
        yield DetailFact("module", clean(path), int(frames(trace).module[row]))


def _autograd(trace: Trace, row: int) -> Iterator[DetailFact]:
    pairs = autograd(trace)
    forward = int(pairs.forward[row])
    if forward >= 0:
        yield DetailFact("forward op", clean(trace.name_of(forward)), forward)
    if trace.slices.kind[row] == Kind.CPU_OP:
        node = pairs.backward_of(row)
        if node >= 0:
            yield DetailFact("backward", clean(trace.name_of(node)), node)


def _around(trace: Trace, row: int, chain: Sequence[int]) -> Iterator[DetailFact]:
    note = int(links(trace).annotation[row])
    if note >= 0:
        yield DetailFact("annotation", clean(trace.name_of(note)), note)
    region = compiled_region(trace, [each for each in chain if each != row])
    if region >= 0:
        yield DetailFact("compiled in", clean(trace.name_of(region)), region)


def _graph(trace: Trace, row: int) -> Iterator[DetailFact]:
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
    """What captured a node of a graph, inferred; a slice to jump to where the capture is in the same trace."""
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
    texts = {name: getattr(nodes, name)[entry] for name in ("op", "line", "module", "shapes")}
    told = {name: clean(nodes.texts[number]) for name, number in texts.items() if number >= 0}
    how = ", by position only" if nodes.by_position[entry] else ""
    yield DetailFact("captured by", f"~{told.get('op', 'no operator')}{how}", call)
    if "line" in told:
        yield DetailFact("captured from", f"~{told['line']}", call)
    if "module" in told:
        yield DetailFact("captured in", f"~{told['module']}", call)
    if "shapes" in told:
        yield DetailFact("input shapes", f"~{told['shapes']}", call)
    yield DetailFact("capture file", clean(recording.label) or OWN_CAPTURE)
    if index >= 0:
        yield from _capture_chain(recording, index)


def _capture_chain(recording: GraphRecording, index: int) -> Iterator[DetailFact]:
    """The operators, modules and own frames around a captured launch, the innermost last."""
    names = [recording.text(number) for number in recording.stacks[recording.stack[index]]]
    shown = [clean(name.removeprefix(MODULE)) for name in names if is_own(name)][-MAX_CHAIN_LEVELS:]
    for level, name in enumerate(shown):
        yield DetailFact("capture chain" if level == 0 else "", f"~{name}")


MAX_CHAIN_LEVELS = 12
"""Maximum levels of a chain at capture that are shown."""
TITLE = 3
"""Lines that the name may take at the top; a longer one stands further down, and a short form of it at the top."""


def describe(trace: Trace, row: int, chain: Sequence[int], width: int) -> list[DetailLine]:
    """The lines for a slice in a pane `width` cells wide; `chain` is its dispatch chain, outermost first."""
    if row < 0:
        return [DetailLine("Nothing is selected.", "label")]
    event, trouble = _event(trace, row)
    name = folded(clean(trace.name_of(row)), width)
    long = len(name) > TITLE
    lines = [DetailLine(piece, "title") for piece in (folded(short_name(trace, row), width)[:TITLE] if long else name)]
    for fact in (*_facts(trace, row), *kernel_facts(trace, row), *cause_facts(trace, row, chain)):
        lines += fact_lines(fact, width)
    if len(chain) > 1:
        lines += [DetailLine(""), *chain_lines(trace, chain, row, width)]
    if long:
        lines += [DetailLine(""), DetailLine("name", "label"), *map(DetailLine, name)]
    args = event.get("args")
    facts = facts_of_args(args) if isinstance(args, dict) else []
    if facts:
        lines += [DetailLine(""), DetailLine("args", "label")]
        for label, value in facts:
            lines += fact_lines(DetailFact(label, value), width)
    return lines + [DetailLine(piece, "label") for piece in folded(trouble, width)]


def _event(trace: Trace, row: int) -> tuple[dict[str, Any], str]:
    try:
        return trace.event_of(row), ""
    except (TraceError, OSError) as error:
        return {}, f"Its args cannot be read: {error}"


def _facts(trace: Trace, row: int) -> list[DetailFact]:
    slices = trace.slices
    lane = trace.lanes[int(slices.lane[row])]
    facts = [
        DetailFact("category", clean(trace.category_of(row)) or "none"),
        DetailFact("lane", clean(f"{lane.process}, {lane.name}")),
        DetailFact("start", _start(trace, row)),
        DetailFact("duration", duration(int(slices.dur[row]))),
    ]
    if Kind(int(slices.kind[row])) not in (*GPU_WORK, *GRAPH_NODES):
        facts.append(DetailFact("self time", duration(int(slices.self_time[row]))))
    facts += graph_node_facts(trace, row)
    facts += _work_within(trace, row)
    launched = len(links(trace).kernels_of(row))
    if launched > 1:
        facts.append(DetailFact("launched", f"{launched:,} GPU activities; the first is shown"))
    if row in queries(trace):
        kernel = int(asked_for(trace, np.array([row]))[0])
        asked = short_name(trace, kernel) if kernel >= 0 else "no launch follows in its op"
        facts.append(DetailFact("query for", asked, kernel))
    return facts


def _work_within(trace: Trace, row: int) -> list[DetailFact]:
    """What an op, an annotation or a Python frame put on the GPU."""
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


def _start(trace: Trace, row: int) -> str:
    """When a slice starts, in the trace and in the step that it belongs to."""
    start, every = int(trace.slices.start[row]), steps(trace)
    index = int(step_index(trace, np.array([row]))[0])
    if index < 0 or row == every.row[index]:
        return duration(start)
    return f"{duration(start)}, {duration(start - int(every.start[index]))} into step {int(every.number[index])}"
