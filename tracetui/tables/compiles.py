"""The compiles pane: what torch.compile compiled, why again, what it took, and what runs of it; compilations by a log
of torch.compile, and calls and GPU time of their code by the trace.

A log is read as a trace with a lane for each compilation (`reading/torch_log`). A region that ran is joined by its
compile id (`Torch-Compiled Region: 0/1`), a graph that ran outside of regions, as those of the backward pass do, by its
key (`## Call CompiledFxGraph`). Where several compilations have the id, as after a reset, which one ran is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from tracetui.linking.groups import distinct
from tracetui.linking.links import links
from tracetui.linking.trees import forest
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part, union
from tracetui.model.pane import Grouping, Pane
from tracetui.model.quantities import duration
from tracetui.model.recorded import COMPILE_FACTS, WHOLE_COMPILATION
from tracetui.model.results import kept
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.model.trace import Kind, Trace
from tracetui.operators.ops import gpu_union_times


class CompilePhase(IntEnum):
    """The part of torch.compile at work."""

    DYNAMO = 0
    AOT = 1
    INDUCTOR = 2
    AUTOTUNE = 3
    CUDAGRAPHS = 4


_PHASES = (
    (CompilePhase.AUTOTUNE, re.compile(r"autotun|benchmark|coordinate_descent", re.IGNORECASE)),
    (CompilePhase.CUDAGRAPHS, re.compile(r"cuda_?graph", re.IGNORECASE)),
    (CompilePhase.AOT, re.compile(r"aot|backward_compile|_backward_impl", re.IGNORECASE)),
    (
        CompilePhase.INDUCTOR,
        re.compile(
            r"inductor|compile_fx|codegen|code_gen|GraphLowering|Scheduler|async_compile|compile_file|PyCodeCache|triton"
            r"|_(?:pre_grad|post_grad|joint_graph)_passes|FxGraphCache",
            re.IGNORECASE,
        ),
    ),
    (CompilePhase.DYNAMO, re.compile(r"dynamo|frame_compile|compile_attempt|bytecode|guards|^gc$")),
)
"""Names of phases, of which the first that matches counts; others are part of what is around them."""
_REGION = re.compile(r"^Torch-Compiled Region: (!?[\d/]{1,60})(?:_\d+)?$")
_GRAPH = re.compile(r"^## Call CompiledFxGraph (\w{1,200}) ##$")
_FACTS = (
    *("stack", "reason", "key", "co_name", "co_filename", "co_firstlineno", "duration_us", "is_forward"),
    *("entire_frame_compile_time_s", "backend_compile_time_s", "inductor_compile_time_s"),
    *("fail_type", "fail_reason", "recompile_reason", "cudagraph_skip_reason"),
    *("compile_id", "start_time", "start_time_us"),
)
_SIZE = re.compile(
    r"tensor '?(.{1,100}?)'? (size|stride) mismatch at index (\d{1,3})\. expected (-?\d{1,19}), actual (-?\d{1,19})"
)
_BREAK_PLACE = re.compile(r"(?:Graph break in user code at |File \")(.{1,500}?)(?:\", line |:)(\d{1,9})")
_BREAK_REASON = re.compile(r"Graph Break Reason: (.{1,500})|^(?:Reason: |\s*Explanation: )(.{1,500})", re.MULTILINE)
MAX_SIZES = 5
"""Maximum sizes named in a sentence."""
_TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times"}


class GraphBreak(NamedTuple):
    """A place at which a graph ends."""

    place: str
    """File and line of the user's code."""
    reason: str
    text: str
    """All that torch says, with the user's stack."""


@dataclass(eq=False)
class Compilation:
    """One compilation of a frame; times are in ns."""

    id: str
    """The compile id, `0/1`."""
    process: str
    run: str
    """The id with the number of the run, where the id came up several times in its process."""
    lane: int
    """Its lane in the log."""
    function: str = ""
    file: str = ""
    line: int = 0
    stack: str = ""
    """The user's stack, the innermost frame last."""
    time: int = 0
    phases: tuple[int, ...] = (-1,) * len(CompilePhase)
    """Time in each of `CompilePhase` itself, -1 where it is not known."""
    start: int = 0
    """From time 0 of the trace that is shown."""
    reason: str = ""
    """The guards that failed, a line for each earlier compilation; empty for the first one."""
    failure: str = ""
    skipped_graphs: str = ""
    """The reason why CUDA graphs are not used."""
    breaks: list[GraphBreak] = field(default_factory=list)
    caches: dict[str, int] = field(default_factory=dict)
    """How often a cache was asked, by `hit`, `miss` and `bypass`."""
    keys: set[str] = field(default_factory=set)
    """Keys of its graphs in caches."""
    code: list[int] = field(default_factory=list)
    """Events of the log that have generated code."""
    calls: int = -1
    """Regions that ran; -1 where that is not known."""
    gpu: int = 0
    """Time on the GPU of what they and their graphs launched."""
    cpu: int = 0
    """Time of the regions and graphs on their threads, without that of others in them."""
    example: int = -1
    """A slice of the trace: the longest region, or the first phase."""

    @property
    def place(self) -> str:
        """File and line in few words."""
        return f"{re.split(r'[/]', self.file)[-1]}:{self.line}" if self.file else ""


def log_of(trace: Trace) -> Trace:
    """The log that belongs to a trace, which may be the trace itself."""
    return trace.compile_log or trace


def has_compilations(trace: Trace) -> bool:
    """True where there is a log of torch.compile."""
    return trace.compile_log is not None or trace.categories.find(COMPILE_FACTS) >= 0


@kept
def compilations(trace: Trace) -> tuple[Compilation, ...]:
    """The compilations of the log of a trace, in order of time."""
    log = log_of(trace)
    number = log.categories.find(COMPILE_FACTS)
    facts = np.flatnonzero(log.instants.category == number) if number >= 0 else np.empty(0, np.int64)
    by_lane: dict[int, Compilation] = {}
    shift = log.origin_ns - trace.origin_ns
    own, total, first, has_phases = _phase_times(log)
    metrics: dict[tuple[str, ...], int] = {}
    again = set()
    events = log.instants.event[facts].astype(np.int64)
    values = zip(*log.store.args(events, _FACTS), strict=True)
    for row, event, given in zip(facts.tolist(), events.tolist(), values, strict=True):
        lane = int(log.instants.lane[row])
        if lane not in by_lane:
            run = log.lanes[lane].tid
            start = first[lane] if first[lane] is not None else int(log.instants.time[row])
            by_lane[lane] = Compilation(run.split(" ")[0], log.lanes[lane].pid, run, lane, start=start + shift)
        compiled = log.lanes[lane].pid, *map(str, given[-3:])
        if given[-3] and any(given[-2:]) and metrics.setdefault(compiled, lane) != lane:
            # The log has it twice, under another id in front of its entries.
            again.add(lane)
        _take_in(by_lane[lane], log.names[int(log.instants.name[row])], event, dict(zip(_FACTS, given, strict=True)))
    for lane, each in by_lane.items():
        if has_phases[lane]:
            each.time, each.phases = int(total[lane]) or each.time, tuple(own[lane].tolist())
        else:
            each.time = each.time or int(total[lane])
    listed = sorted((by_lane[lane] for lane in by_lane.keys() - again), key=lambda each: (each.start, each.lane))
    _join(trace, listed)
    return tuple(listed)


def code_of(trace: Trace, events: Sequence[int]) -> str:
    """The generated code in some events of the log, each piece behind a line with the file that torch wrote."""
    names, codes = log_of(trace).store.args(np.array(events, np.int64), ("file", "code"))
    return "\n".join(f"# {name}\n{code}" for name, code in zip(names, codes, strict=True))


def _phase_times(log: Trace) -> tuple[Int64, Int64, list[Any], Bool]:
    """By lane: self time of each phase, the time of all, the first start, and whether it has phases."""
    slices = log.slices
    phase_of = np.array(
        [next((int(phase) for phase, names in _PHASES if names.search(name)), -1) for name in log.names] or [-1]
    )
    phase = phase_of[slices.name]
    for depth in range(int(slices.depth.max(initial=0)) + 1):
        rows = np.flatnonzero((slices.depth == depth) & (phase < 0))
        phase[rows] = np.where(slices.parent[rows] >= 0, phase[slices.parent[rows]], CompilePhase.DYNAMO)
    own = np.zeros((len(log.lanes), len(CompilePhase)), np.int64)
    np.add.at(own, (slices.lane, phase), slices.self_time)
    first = [int(slices.start[lane.first]) if lane.last > lane.first else None for lane in log.lanes]
    spans = [lane_spans(log, lane) for lane in range(len(log.lanes))]
    has_phases = np.zeros(len(log.lanes), bool)
    has_phases[slices.lane[slices.name != log.names.find(WHOLE_COMPILATION)]] = True
    return own, np.array([(high - low).sum() for low, high in spans], np.int64), first, has_phases


def lane_spans(log: Trace, lane: int) -> tuple[Int64, Int64]:
    """Starts and ends of the stretches in which the compilation of a lane was at work, disjoint and ascending."""
    rows = np.arange(log.lanes[lane].first, log.lanes[lane].last)
    rows = rows[log.slices.depth[rows] == 0]
    return union(log.slices.start[rows], log.slices.end[rows])


def _take_in(mine: Compilation, name: str, event: int, given: dict[str, Any]) -> None:
    """Take in what one entry of the log says."""
    text = {key: value for key, value in given.items() if isinstance(value, str)}
    if name == "dynamo_start":
        mine.stack = mine.stack or text.get("stack", "")
    elif name == "recompile":
        mine.reason = text.get("reason", "")
    elif name == "graph_break":
        reason = text.get("reason", "")
        places, words = _BREAK_PLACE.search(reason), _BREAK_REASON.search(reason)
        why = next(filter(None, words.groups()), "") if words else reason.split("\n", 1)[0][:500]
        mine.breaks.append(GraphBreak(f"{places[1]}:{places[2]}" if places else "", why.strip(), reason))
    elif name == "output_code":
        mine.code.append(event)
    elif name == "compilation_metrics":
        mine.function, mine.file = text.get("co_name", mine.function), text.get("co_filename", mine.file)
        mine.line = given["co_firstlineno"] if isinstance(given["co_firstlineno"], int) else mine.line
        mine.reason = mine.reason or text.get("recompile_reason", "")
        mine.failure = ": ".join(filter(None, (text.get("fail_type"), text.get("fail_reason")))) or mine.failure
        mine.skipped_graphs = text.get("cudagraph_skip_reason", mine.skipped_graphs)
        whole, backend, inductor = (
            int(1e9 * lasted) if isinstance(lasted := given[name], (int, float)) and 0 < lasted < 1e9 else -1
            for name in ("entire_frame_compile_time_s", "backend_compile_time_s", "inductor_compile_time_s")
        )
        mine.time = mine.time or max(whole, 0)
        # The backend is AOTAutograd with what inductor does in it.
        parts = {
            CompilePhase.DYNAMO: whole - backend if whole >= backend >= 0 else -1,
            CompilePhase.AOT: backend - inductor if backend >= inductor >= 0 else -1,
            CompilePhase.INDUCTOR: inductor,
        }
        if any(time >= 0 for time in parts.values()):
            mine.phases = tuple(parts.get(phase, -1) for phase in CompilePhase)
    else:
        state = name.rpartition("_")[2]
        mine.caches[state] = mine.caches.get(state, 0) + 1
        if key := text.get("key"):
            mine.keys.add(key)


def _join(trace: Trace, listed: Sequence[Compilation]) -> None:
    """Fill in what ran of each compilation, by its id and by the keys of its graphs."""
    slices, names = trace.slices, trace.names
    processes = {lane.pid for lane in trace.lanes}
    mine = [each for each in listed if each.process in processes] or listed
    of_id: dict[str, Compilation | None] = {}
    for each in mine:
        of_id[each.id] = None if each.id in of_id else each
    of_key = {key: each for each in mine for key in each.keys}
    owners: dict[int, Compilation | None] = {}
    ops = slices.of_kind(Kind.CPU_OP, Kind.ANNOTATION)
    regions = set()
    for number in distinct(slices.name[ops]).tolist():
        if match := _REGION.match(names[number]):
            regions.add(number)
            owners[number] = of_id.get(match[1])
        elif match := _GRAPH.match(names[number]):
            owners[number] = of_key.get(match[1])
    rows = ops[np.isin(slices.name[ops], list(owners))]
    if len(rows):
        for each in mine:
            each.calls = 0 if of_id[each.id] is each else -1
        parent = forest(trace, rows)
        gpu = gpu_union_times(trace)[rows].astype(np.int64)
        inner = np.flatnonzero(parent >= 0)
        own, own_cpu = gpu.copy(), slices.dur[rows]
        np.subtract.at(own, parent[inner], gpu[inner])
        np.subtract.at(own_cpu, parent[inner], slices.dur[rows[inner]])
        holders: list[Compilation | None] = []
        for at, row in enumerate(rows.tolist()):
            owner = owners[int(slices.name[row])] or (holders[parent[at]] if parent[at] >= 0 else None)
            holders.append(owner)
            if owner is None:
                continue
            owner.gpu += int(own[at])
            owner.cpu += int(own_cpu[at])
            if int(slices.name[row]) in regions:
                owner.calls += 1
                if owner.example < 0 or slices.dur[row] > slices.dur[owner.example]:
                    owner.example = row
    drawn = {(lane.pid, lane.tid): lane.first for lane in trace.lanes if lane.last > lane.first}
    for each in listed:
        if each.example < 0:
            each.example = drawn.get((each.process, each.run), -1)


# Why a frame was compiled again, in a sentence.


class Recompiled(NamedTuple):
    """A frame that was compiled several times."""

    compilations: list[Compilation]
    words: str
    """`f (train.py:7) was compiled three times because size 0 of x was 3, 4, 5`."""
    advice: str
    action: str

    @property
    def time(self) -> int:
        """Time of all of them in ns."""
        return sum(each.time for each in self.compilations)

    @property
    def sentence(self) -> str:
        """The words, with the time."""
        return f"{self.words}: {duration(self.time)}"


def recompiled(trace: Trace) -> list[Recompiled]:
    """The frames that were compiled several times, the one that took longest first."""
    frames: dict[tuple[str, str, str], list[Compilation]] = {}
    for each in compilations(trace):
        frame = each.id.rpartition("/")[0]
        frames.setdefault((each.process, frame, each.run.partition(" ")[2]), []).append(each)
    again = []
    for group in (each for each in frames.values() if any(one.reason for one in each)):
        name = next((f"{each.function} ({each.place})" for each in group if each.function), f"frame {group[0].id}")
        times = _TIMES.get(len(group), f"{len(group):,} times")
        why, advice, action = recompile_cause(group)
        again.append(Recompiled(group, f"{name} was compiled {times} because {why}", advice, action))
    return sorted(again, key=lambda each: -each.time)


def recompile_cause(group: list[Compilation]) -> tuple[str, str, str]:
    """The reason of several compilations as a clause, what to do, and that in a word."""
    sizes: dict[tuple[str, str, str], dict[int, None]] = {}
    for each in group:
        for name, kind, index, *values in _SIZE.findall(each.reason):
            sizes.setdefault((name, kind, index), {}).update(dict.fromkeys(map(int, values)))
    if sizes:
        (name, kind, index), values = max(sizes.items(), key=lambda item: len(item[1]))
        some = sorted(values) if len(values) <= MAX_SIZES else [*sorted(values)[: MAX_SIZES - 1]]
        more = "" if len(some) == len(values) else f" and {len(values) - len(some):,} more"
        why = f"{kind} {index} of {name} was {', '.join(map(str, some))}{more}"
        if kind == "size":
            mark = f"torch._dynamo.mark_dynamic({name}, {index})"
            return (
                why,
                f"Mark it dynamic before the first call: {mark}, or keep it the same by padding.",
                "mark it dynamic",
            )
        return why, "Hand in tensors of one layout: contiguous() before the call.", "keep the layout the same"
    lines = (re.sub(r"^!?\d[\d/]*: ", "", line) for each in group for line in each.reason.splitlines())
    guards = list(dict.fromkeys(" ".join(line.split())[:160] for line in lines if line.strip()))
    more = f" and {len(guards) - 1:,} more" if len(guards) > 1 else ""
    return (
        f"a guard failed, {guards[0] if guards else 'which one is not recorded'}{more}",
        "Keep what the guard checks the same from call to call: make values of Python tensors, and objects once.",
        "keep what the guard checks the same",
    )


NO_LOG = (
    "There is no log of torch.compile: `tracetui run WORKLOAD --compile` records one, TORCH_TRACE=FOLDER has torch "
    "write one, and --compile-log reads it."
)
_PHASE_COLUMNS = (col.DYNAMO_US, col.AOT_US, col.INDUCTOR_US, col.AUTOTUNE_US, col.CUDAGRAPHS_US)
"""In the order of `CompilePhase`."""


def compiles(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """One row per compilation in order of time; by `break` one per graph break. Always of the whole log."""
    listed = compilations(trace) if has_compilations(trace) else ()
    if by == "break":
        return _breaks(listed)
    has_gpu = len(links(trace).gpu) > 0
    times = np.array([each.time for each in listed], np.int64)
    calls = np.array([each.calls for each in listed], np.int64)
    spent = np.array([each.gpu if has_gpu else each.cpu for each in listed], np.int64)
    ran = (calls > 0) & (spent > 0)
    each_call = spent / np.maximum(calls, 1)
    phases = np.array([each.phases for each in listed], np.int64).reshape(-1, len(CompilePhase)).T
    return Table(
        (
            texts(col.COMPILE_ID, [each.run for each in listed]),
            texts(col.FUNCTION.but(help="The function that was compiled."), [each.function or None for each in listed]),
            texts(col.LINE.but(help="File and line where it begins."), [each.place or None for each in listed]),
            micros(col.START_US, np.array([each.start for each in listed], np.int64)),
            micros(col.COMPILE_US, times),
            *(micros(column, took, null=took < 0) for column, took in zip(_PHASE_COLUMNS, phases, strict=True)),
            texts(col.RECOMPILED_FOR, [_one_line(each.reason) for each in listed]),
            numbers(col.GRAPH_BREAKS, np.array([len(each.breaks) for each in listed], np.int64)),
            texts(
                col.CACHE,
                [", ".join(f"{n:,} {state}" for state, n in sorted(each.caches.items())) or None for each in listed],
            ),
            texts(col.CUDAGRAPH_SKIP, [_one_line(each.skipped_graphs) for each in listed]),
            texts(col.FAILURE, [_one_line(each.failure) for each in listed]),
            numbers(
                col.CALLS.but(help="How often the trace has the compiled code run."), np.where(calls < 0, NULL, calls)
            ),
            micros(
                col.GPU_US.but(
                    help="GPU time of what the compiled code launched, its graphs in the backward pass too."
                ),
                np.array([each.gpu for each in listed], np.int64),
                null=(calls < 0) | (not has_gpu),
            ),
            micros(col.CALL_TIME_US, each_call, null=~ran),
            numbers(col.PAYS_AFTER, np.where(ran, np.ceil(times / np.maximum(each_call, 1)), np.nan)),
            texts(col.USER_STACK, [each.stack or None for each in listed]),
        ),
        np.array([each.example for each in listed], np.int64),
        _remark(trace, listed),
    )


PANE = Pane(
    "compiles",
    "Compiles",
    help="One row is a compilation by torch.compile; by break, a graph break.",
    table=compiles,
    columns=(
        "compile_id function line compile_us recompiled_for calls gpu_us call_time_us pays_after graph_breaks cache "
        "cudagraph_skip failure dynamo_us aot_us inductor_us autotune_us cudagraphs_us start_us user_stack"
    ),
    groupings=(Grouping("break", "compile_id function line why user_stack"),),
    bars="compile_us",
    is_offered=has_compilations,
    of_step=False,
    of_range=False,
)


def _breaks(listed: Sequence[Compilation]) -> Table:
    pairs = [(each, cut) for each in listed for cut in each.breaks]

    def column(value: Callable[..., str]) -> list[str | None]:
        return [value(each, cut) or None for each, cut in pairs]

    return Table(
        (
            texts(col.COMPILE_ID, column(lambda each, _: each.run)),
            texts(col.FUNCTION.but(help="The function that was compiled."), column(lambda each, _: each.function)),
            texts(
                col.LINE.but(help="File and line of the user's code at which the graph ends."),
                column(lambda _, cut: cut.place),
            ),
            texts(col.WHY.but(help="What torch could not trace."), column(lambda _, cut: cut.reason)),
            texts(col.USER_STACK, column(lambda _, cut: cut.text)),
        ),
        np.array([each.example for each, _ in pairs], np.int64),
        "" if pairs else "No graph break is in the log." if listed else NO_LOG,
    )


def _one_line(text: str) -> str | None:
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip()) or None


def _remark(trace: Trace, listed: Sequence[Compilation]) -> str:
    if not listed:
        return NO_LOG
    parts = [f"{each.sentence}." for each in recompiled(trace)[:1]]
    if any(each.calls < 0 for each in listed) and any(each.calls >= 0 for each in listed):
        parts.append("Several compilations have the same id: which of them ran is not known.")
    if trace.compile_log is not None:
        parts.append(f"From {log_of(trace).label}.")
    return " ".join(parts)
