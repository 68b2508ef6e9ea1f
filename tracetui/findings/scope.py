"""The part of a trace that the rules look at: its time, its GPU activities, and the time that changing them could save.

A finding is as severe as its saving is large: time of the GPU counts where the GPU held the program up, and time of the
CPU where the GPU waited for the CPU.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cached_property

import numpy as np

from tracetui.frozen import frozen
from tracetui.health.health_table import impossible_activities, stack_cost
from tracetui.idle.gpu_spans import communicates, step_spans
from tracetui.idle.idle_parts import IdleParts, clock_skew
from tracetui.idle.scope_times import (
    IdleStretches,
    cpu_times,
    idle_stretches,
    idle_within,
    recorded_extent,
    scope_title,
    scope_windows,
)
from tracetui.idle.thread_causes import indicating_slices
from tracetui.idle.waits import Cause, device_order, idleness, sync_calls
from tracetui.kernel_names import decode
from tracetui.kernel_names.slice_names import is_serving
from tracetui.linking.autograd import BACKWARD
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import activities_between, calls_named, links, slices_named
from tracetui.linking.placement import chosen, kind_within, ops_within, step_index, within
from tracetui.linking.replays import GRAPH_LAUNCH, graph_captures
from tracetui.linking.step_kinds import counted_steps, unserving_steps
from tracetui.linking.steps import steps
from tracetui.linking.trees import Stretches, is_named, lane_axis
from tracetui.memory.allocator import TO_HOST
from tracetui.model.intervals import Int64, covered, covered_within, union
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.results import is_kept, kept
from tracetui.model.trace import Kind, Trace
from tracetui.operators.key_averages import has_shapes


class Severity(IntEnum):
    """Severity of a finding, least first."""

    NOTE = 0
    """Half a percent of the time, or good to know when reading the numbers."""
    MINOR = 1
    MAJOR = 2


MIN_SHARES = ((0.1, Severity.MAJOR), (0.02, Severity.MINOR), (0.005, Severity.NOTE))
"""Minimum share of the time of the steps for each severity, largest first; what saves less is no finding."""


def severity_of_share(share: float) -> Severity | None:
    """Severity of a saving that is a share (0 to 1) of the time of the steps; None where it is too small to report."""
    return next((severity for least, severity in MIN_SHARES if share >= least), None)


@frozen(eq=True, slots=True)
class Finding:
    """Report of a rule: a sentence, the numbers behind it, and what to do about it."""

    id: str
    """Stable name of the rule."""
    severity: Severity
    title: str
    """One sentence; with the cost and its share where there is a cost."""
    evidence: str
    """The numbers behind it, in words."""
    advice: str
    row: int = -1
    """The slice to look at, -1 for none."""
    cost: int | None = None
    """Time in ns that fixing it could save at most, over everything in scope; None where it has no price."""
    action: str = ""
    """The first thing to do, in a few words that follow "First:": `give the DataLoader workers`."""
    where: str = ""
    """A clause behind the title on the one step that it is about, where it is about one of several."""
    at_gap: bool = False
    """The place to look at is the gap before that slice, in which its device ran nothing."""


_COMPILED = re.compile(
    r"^Torch-Compiled Region|^## Call CompiledFxGraph|^TorchDynamo Cache Lookup|^AOTDispatcher Runtime Wrapper"
    r"|^Pregraph bytecode"
)
_IN_COMPILED = re.compile(r"^Torch-Compiled Region|^CompiledFunction|^## Call CompiledFxGraph")
_GENERATOR = "Inductor"
MIN_COMPILED_SHARE = 0.5
"""Minimum share of the kernels that compiled code launched, for the program to count as compiled as a whole."""
_SINGLE = re.compile(r"_SingleProcessDataLoaderIter")
_WORKERS = re.compile(r"_MultiProcessingDataLoaderIter")
_SERVER_CAPTURE = re.compile(r"^capture_(graph_bs_)?\d+")
OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")


@frozen(eq=True)
class Program:
    """Facts about the recorded program, so that no rule advises what is done; False where none shows in the trace."""

    compiled_share: float
    """Share (0 to 1) of the kernels that code made by `torch.compile` launched, or that it generated; 0 where none of
    its regions and kernels was recorded.
    """
    is_compiled: bool
    """Code made by `torch.compile` ran, if only for a part of the program."""
    is_wholly_compiled: bool
    """Most kernels come from such code."""
    has_graphs: bool
    """CUDA graphs were replayed or captured."""
    has_workers: bool
    """A DataLoader with worker processes was read."""
    loads_in_process: bool
    """A DataLoader without worker processes was read."""
    has_backward: bool
    """Gradients were computed."""
    has_optimizer: bool
    has_frames: bool
    """So many Python frames were recorded that they slow the CPU down."""
    has_shapes: bool
    """Shapes of inputs were recorded."""
    serves: bool
    """It is a model server, or records its graphs: nothing that a training program alone has is of any use to it."""

    @property
    def ahead(self) -> str:
        """The places where a program can do CPU work ahead, behind `in`."""
        return "another thread or process" if self.serves else "DataLoader workers, in another thread"


@kept
def program(trace: Trace) -> Program:
    frames, compiled_share = stack_cost(trace), _compiled_share(trace)
    host = (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON)
    trains = _has(trace, (Kind.CPU_OP,), BACKWARD) or _has(trace, host, OPTIMIZER_STEP)
    loads = _has(trace, host, _WORKERS) or _has(trace, host, _SINGLE)
    captures = _has(trace, (Kind.ANNOTATION, Kind.CPU_OP), _SERVER_CAPTURE)
    return Program(
        compiled_share,
        is_compiled=compiled_share > 0,
        is_wholly_compiled=compiled_share >= MIN_COMPILED_SHARE,
        has_graphs=len(calls_named(trace, GRAPH_LAUNCH)) + len(graph_captures(trace)) > 0,
        has_workers=_has(trace, host, _WORKERS),
        loads_in_process=_has(trace, host, _SINGLE),
        has_backward=_has(trace, (Kind.CPU_OP,), BACKWARD),
        has_optimizer=_has(trace, host, OPTIMIZER_STEP),
        has_frames=frames is not None and frames.count > 0,
        has_shapes=has_shapes(trace),
        serves=not (trains or loads) and (steps(trace).is_served or captures or is_serving(trace)),
    )


def _compiled_share(trace: Trace) -> float:
    """Share of the kernels that are generated, or launched within a compiled region."""
    slices, kernels = trace.slices, trace.slices.of_kind(Kind.KERNEL)
    generated = is_named(trace, kernels, lambda name: decode(name, Kind.KERNEL).library == _GENERATOR)
    # Without such a region `CompiledFunction` may be of another compiler, or of none that makes kernels.
    if not (generated.any() or _has(trace, (Kind.CPU_OP, Kind.ANNOTATION), _COMPILED)):
        return 0.0
    regions = slices.of_kind(Kind.CPU_OP, Kind.ANNOTATION)
    regions = regions[is_named(trace, regions, _IN_COMPILED.search)]
    axis = lane_axis(trace)
    inside = Stretches.of(axis, slices.lane[regions], slices.start[regions], slices.end[regions])
    launch = links(trace).launch[kernels].astype(np.int64)
    called = slices.start[launch]
    in_region = (launch >= 0) & (inside.covered(slices.lane[launch], called, called + 1) > 0)
    # Regions without kernels (a CPU program) count as a trace of it.
    return max(float((generated | in_region).mean()), 1e-9) if len(kernels) else 1.0


def _has(trace: Trace, kinds: tuple[Kind, ...], pattern: re.Pattern[str]) -> bool:
    rows = trace.slices.of_kind(*kinds)
    return bool(is_named(trace, rows, pattern.search).any())


def optimizer_steps(trace: Trace) -> Int64:
    """The steps of optimizers, ascending."""
    return slices_named(trace, OPTIMIZER_STEP, Kind.CPU_OP, Kind.ANNOTATION)


MIN_START_UP_SHARE = 0.4
"""Minimum share of a start-up in the time of a scope from which on all other shares are of the rest."""
MIN_HELD_SHARE = 0.95
"""Minimum share of the GPU activities that the steps of a server launch, for a number to be given for each step."""
SAME_SHARE = 0.05
"""Maximum difference of a step's time from the duration on the screen, as a share of it, to count as the same."""


class Scope:
    """A trace, or one step of it, for the rules."""

    def __init__(self, trace: Trace, step: int | None) -> None:
        self.trace = trace
        self.step = step

    @property
    def program(self) -> Program:
        return program(self.trace)

    @cached_property
    def ops(self) -> Int64:
        """Rows of the operators, ascending."""
        rows = ops_within(self.trace, self.step)
        if self.step is not None or counted_steps(self.trace).all():
            return rows
        index = step_index(self.trace, rows)
        return rows[(index < 0) | counted_steps(self.trace)[index]]

    @cached_property
    def activities(self) -> Int64:
        """GPU activities that the steps launched, in order of start, without those whose durations are impossible.

        All of them in a trace without steps, and where it is not known of any what launched it.
        """
        rows = links(self.trace).gpu
        if self.step is not None:
            rows = within(self.trace, rows, self.step)
        rows = rows[~np.isin(rows, impossible_activities(self.trace))]
        if self.step is not None or (step_index(self.trace, rows) < 0).all():
            return rows
        return self.inside(rows)

    @cached_property
    def kernels(self) -> Int64:
        """The kernels among the activities, in order of start."""
        rows: Int64 = self.activities[self.trace.slices.kind[self.activities] == Kind.KERNEL]
        return rows

    @cached_property
    def computing(self) -> Int64:
        """The kernels that do not communicate, in order of start."""
        return self.kernels[~communicates(self.trace)[self.kernels]]

    def computing_named(self, matches: Callable[[str], object]) -> Int64:
        """The kernels that do not communicate and whose names match, in order of start."""
        return np.compress(is_named(self.trace, self.computing, matches), self.computing)

    @cached_property
    def copies(self) -> Int64:
        """The copies among the activities, in order of start."""
        rows: Int64 = self.activities[self.trace.slices.kind[self.activities] == Kind.MEMCPY]
        return rows

    @cached_property
    def copies_to_host(self) -> Int64:
        """The copies to the CPU, in order of start."""
        return self.copies[is_named(self.trace, self.copies, TO_HOST.search)]

    @cached_property
    def devices(self) -> int:
        """Number of devices that ran anything; 1 without any."""
        return max(device_order(self.trace).devices, 1)

    @cached_property
    def windows(self) -> tuple[Int64, Int64]:
        """Start and end in ns of the disjoint stretches of time that are in scope (R3.90)."""
        return scope_windows(self.trace, self.step)

    @cached_property
    def time(self) -> int:
        """Length of the scope in ns, of which all shares are: the periods of its steps, or what was recorded."""
        low, high = self.windows
        return max(int((high - low).sum()), 1)

    @cached_property
    def _idle_stretches(self) -> IdleStretches:
        """The idle time in scope, each stretch with its cause."""
        return idle_stretches(self.trace).clipped(*self.windows)

    @cached_property
    def idle_parts(self) -> IdleParts:
        """The parts of gaps in scope as far as they lie in it, each with its cause, by gap and time."""
        every = self._idle_stretches
        every = every.take(np.flatnonzero(every.gap >= 0))
        every = every.take(np.lexsort((every.start, every.gap)))
        return IdleParts(every.gap, every.start, every.end, every.cause, every.lane)

    @cached_property
    def edges(self) -> IdleStretches:
        """The idle time in scope that is in no gap: before the first activity of a device, and behind its last."""
        return self._idle_stretches.take(np.flatnonzero(self._idle_stretches.gap < 0))

    @cached_property
    def gaps(self) -> Int64:
        """Indices in `idleness(trace)` of the gaps that lie in scope, if only in part."""
        return distinct(self.idle_parts.gap)

    @cached_property
    def idle(self) -> int:
        """Time in ns in scope in which a device ran nothing, summed over the devices."""
        return int(idle_within(self.trace, *self.windows).sum())

    @property
    def is_whole(self) -> bool:
        """True where the scope is all that was recorded, because there are no steps."""
        return len(steps(self.trace)) == 0

    @property
    def is_served(self) -> bool:
        """True over all steps of a server, which schedules and samples between them: the scope has that, too."""
        return self.step is None and steps(self.trace).is_served

    @cached_property
    def lead(self) -> IdleStretches:
        """The idle time in scope before the first activity of each device, which is in no gap."""
        return self.edges.take(np.flatnonzero(self.edges.after >= 0))

    @property
    def lead_window(self) -> tuple[int, int]:
        """Start and end in ns of the time before the first activity; empty where a scope begins with one."""
        return (int(self.lead.start.min()), int(self.lead.end.max())) if len(self.lead) else (0, 0)

    @cached_property
    def time_to_first_kernel(self) -> int:
        """Time in ns in scope before the first activity, in the mean over the devices."""
        return int(self.lead.dur.sum(dtype=np.float64)) // self.devices

    @cached_property
    def lead_causes(self) -> Counter[Cause]:
        """Time in ns before the first activity in scope, by what the thread that launched it was doing."""
        # Those of many devices together may not fit 64 bits.
        sums = np.bincount(self.lead.cause, self.lead.dur, len(Cause)) // self.devices
        return Counter({each: int(sums[each]) for each in Cause if sums[each]})

    @cached_property
    def start_up(self) -> tuple[int, int]:
        """Time in ns that a start-up took before the first activity and between activities.

        Before the first one all counts where first uses take the larger part, but for what other rules price.
        """
        lead = self.lead_causes
        others = (Cause.DATA_LOADING, Cause.COMPILATION, Cause.PROFILER, Cause.BEFORE_CAPTURE)
        before = self.time_to_first_kernel - sum(lead[each] for each in others)
        if 2 * lead[Cause.START_UP] <= before:
            before = lead[Cause.START_UP]
        parts = self.idle_parts
        between = int(parts.dur[parts.cause == Cause.START_UP].sum()) // self.devices
        return before, between

    @property
    def most_start_up(self) -> int:
        """Maximum in ns of the sum of `start_up`, before the causes of gaps are known.

        It is the time before the first activity, and the gaps during which a first use ran on any thread.
        """
        trace, slices, skew = self.trace, self.trace.slices, clock_skew(self.trace)
        order, idle, begin = device_order(trace), idleness(trace), recorded_extent(trace)[0]
        firsts = [int(slices.start[order.row[order.device == each]].min()) for each in distinct(order.device).tolist()]
        uses = indicating_slices(trace)[Cause.START_UP]
        touched = covered_within(*union(slices.start[uses] + skew, slices.end[uses] + skew), idle.start, idle.end) > 0
        low = np.concatenate([idle.start[touched], np.full(len(firsts), begin, np.int64)])
        high = np.concatenate([idle.end[touched], np.array(firsts, np.int64)])
        return int(covered_within(*self.windows, low, high).sum()) // self.devices

    @cached_property
    def rest(self) -> int:
        """Time in ns of which shares are weighed: without a start-up that takes most of the scope."""
        least = MIN_START_UP_SHARE * self.time
        # Nearly all scopes have less idle time, or less of it beside first uses: nobody waits for causes then.
        is_known = is_kept(self.trace, idle_stretches)
        if not is_known and (self.idle // self.devices < least or self.most_start_up < least):
            return self.time
        spent = sum(self.start_up)
        return max(self.time - spent, 1) if spent >= least else self.time

    @cached_property
    def rounds(self) -> int:
        """Number of steps in scope, of each thread where they run side by side; 1 without steps.

        Idle and dummy calls of a server count for none.
        """
        return max(int(np.count_nonzero(~unserving_steps(self.trace)[self._picked])) // self._loops, 1)

    @cached_property
    def _picked(self) -> Int64:
        """Indices of the steps in scope."""
        return chosen(self.trace, self.step) if self.step is not None else np.flatnonzero(counted_steps(self.trace))

    @cached_property
    def _loops(self) -> int:
        """Number of threads whose steps in scope run side by side; 1 where they run one after another."""
        all_steps, picked = steps(self.trace), self._picked
        return len(distinct(all_steps.lane[picked])) if len(picked) and all_steps.overlap else 1

    @cached_property
    def _holds_rounds(self) -> bool:
        """True where a number of things in scope may be divided by the number of steps: they hold nearly all of it."""
        if not self.is_served or self.rounds == 1 or len(self.activities) == 0:
            return True
        share = np.count_nonzero(step_index(self.trace, self.activities) >= 0) / len(self.activities)
        return bool(share >= MIN_HELD_SHARE)

    def of_kind(self, kind: Kind) -> Int64:
        """The slices of a kind of the CPU that lie in scope as `inside` has it, ascending."""
        if self.step is not None and not self.is_whole:
            return kind_within(self.trace, kind, self.step)
        return self.inside(self.trace.slices.of_kind(kind))

    def inside(self, rows: Int64) -> Int64:
        """The slices of `rows` that lie in a step in scope, of a server also between its steps; all without steps."""
        if self.is_whole:
            return rows
        if self.is_served:
            start, (low, high) = self.trace.slices.start[rows], self.windows
            index = np.searchsorted(low, start, side="right") - 1
            return rows[(index >= 0) & (start < high[index])]
        if self.step is not None:
            return within(self.trace, rows, self.step)
        return np.compress(np.append(counted_steps(self.trace), False)[step_index(self.trace, rows)], rows)

    def gpu_cost(self, rows: Int64) -> int:
        """Time in ns that the program would save at most if some GPU activities took none.

        It counts while nothing else ran on any device, and while the GPU held the program up: the next activity of the
        device had been launched already, or the CPU was waiting for the GPU.
        """
        slices, wanted = self.trace.slices, np.zeros(len(self.trace.slices), bool)
        wanted[rows] = True
        mine = np.flatnonzero(wanted[device_order(self.trace).row])
        begin, end = _limiting_times(self.trace)
        keep = np.append(mine, mine + len(begin) // 2)
        begin, end = union(begin[keep], end[keep])
        if len(begin) == 0:
            return 0
        # What ran before all of these times or after them hides nothing.
        others = activities_between(self.trace, int(begin[0]), int(end[-1]))
        others = others[~wanted[others]]
        beside = union(slices.start[others], slices.end[others])
        hidden = np.concatenate([beside[0], begin]), np.concatenate([beside[1], end])
        return covered(*hidden) - int((beside[1] - beside[0]).sum())

    def cpu_cost(self, rows: Int64) -> int:
        """Time in ns for which the GPU was idle while the thread of the next launch was in one of the slices.

        That is the mean over the devices: what several devices wait for is waited for once.
        """
        idle, slices = idleness(self.trace), self.trace.slices
        gaps = self.gaps[idle.known[self.gaps]]
        if len(gaps) == 0 or len(rows) == 0:
            return 0
        axis = lane_axis(self.trace)
        inside = Stretches.of(axis, slices.lane[rows], slices.start[rows], slices.end[rows])
        low = idle.start[gaps]
        high = low + idle.cpu_late[gaps] + idle.in_launch[gaps]
        waited = int(inside.covered(slices.lane[idle.launch[gaps]], low, high).sum())
        return waited // self.devices

    def severity_of(self, cost: int) -> Severity | None:
        """Severity of a saving in ns by its share of the scope; None where it is too small a share of what a start-up
        leaves.
        """
        if severity_of_share(min(cost / self.rest, 1.0)) is None:
            return None
        return severity_of_share(min(cost / self.time, 1.0)) or Severity.NOTE

    def with_cost(
        self,
        id: str,
        cost: int,
        statement: str,
        evidence: str,
        advice: str,
        row: int = -1,
        *,
        action: str = "",
        at_most: Severity = Severity.MAJOR,
        at_gap: bool = False,
    ) -> Iterator[Finding]:
        """A finding with its saving in ns; none where that is too small to report.

        `statement` names what is wrong, without a full stop: the saving and its share follow it in the title.
        """
        cost = min(cost, self.rest)
        severity = self.severity_of(cost)
        if severity is not None:
            title = f"{statement}: {self.cost_text(cost)}"
            yield Finding(id, min(severity, at_most), title, evidence, advice, row, cost, action, at_gap=at_gap)

    def cost_text(self, cost: int) -> str:
        """A time in ns and its share in words: `287.6 ms, 27 % of the steps`.

        The share says that it is of the period where the CPU time of the step is another duration.
        """
        whole, time = self.title, self.rest
        if time < self.time:
            whole = f"the {duration(time)} of {self.title} beside the start-up"
        elif self.step is not None:
            shown = int(cpu_times(self.trace)[chosen(self.trace, self.step)].sum())
            if abs(self.time - shown) > SAME_SHARE * self.time:
                whole = f"the {duration(self.time)} period of {self.title}"
        return f"{duration(cost)}, {percent_text(100 * min(cost / time, 1.0))} of {whole}"

    @property
    def title(self) -> str:
        return scope_title(self.trace, self.step)

    def per_step(self, number: int, thing: str) -> str:
        """A number of things, and how many per step where there are several steps and these hold nearly all of them."""
        if self.rounds == 1 or not self._holds_rounds:
            return counted(number, thing)
        each = number / self.rounds
        return f"{counted(number, thing)} ({each:,.{0 if each >= 10 else 1}f} a step)"

    @cached_property
    def step_views(self) -> tuple[tuple[Int64, Int64], ...]:
        """Times of the steps in ns by which one is compared with the others, each with the times that are usual.

        First those on the CPU, then those for which a step may have held the GPU up: with a deep queue the CPU takes
        long in a step that waits for the steps before it, while the GPU is as fast as ever. What a step holds up shows
        between its first GPU activity and the next step's, or before its first one.
        """
        on_cpu = cpu_times(self.trace)
        if not self._on_gpu.any():
            return ((on_cpu, on_cpu),)
        all_steps, (first, _), before = steps(self.trace), step_spans(self.trace).extents, np.zeros_like(self._on_gpu)
        for lane in distinct(all_steps.lane).tolist():
            mine = np.flatnonzero(all_steps.lane == lane)
            before[mine[1:]] = self._on_gpu[mine[:-1]]
            lead = first[mine[0]] - all_steps.start[mine[0]] if first[mine[0]] < np.iinfo(np.int64).max else 0
            before[mine[0]] = self._on_gpu[mine[0]] + max(lead, 0)
        return (on_cpu, on_cpu), (np.maximum(self._on_gpu, before), self._on_gpu)

    @cached_property
    def _on_gpu(self) -> Int64:
        """Time in ns from the first GPU activity of each step to that of the next, or to the end of its own last."""
        all_steps, (first, last) = steps(self.trace), step_spans(self.trace).extents
        took = np.zeros(len(all_steps), np.int64)
        for lane in distinct(all_steps.lane).tolist():
            mine = np.flatnonzero((all_steps.lane == lane) & (last > first))
            if len(mine):
                took[mine] = np.maximum(np.append(first[mine[1:]], last[mine[-1]]) - first[mine], 0)
        return took


MAX_QUEUED_PAUSE_NS = 5_000
"""Maximum ns from one activity to the next that had been launched by then, where its launch was not recorded."""


@kept
def _limiting_times(trace: Trace) -> tuple[Int64, Int64]:
    """Start and end in ns of the times in which activities held the program up; (0, 0) for none.

    For each activity of `device_order(trace)` the time in which the next one of its device had been launched already;
    behind all of these, for each again, the time in which the CPU waited for the GPU.
    """
    slices, order, device = trace.slices, device_order(trace).row, device_order(trace).device
    launch = links(trace).launch[order].astype(np.int64)
    start, end = slices.start[order], slices.end[order]
    ready = np.where(launch >= 0, slices.start[launch], start)
    follows = np.append(device[1:] == device[:-1], False) if len(order) else np.empty(0, bool)
    # Where a launch was not recorded, what follows at once had been launched.
    soon = np.append((launch[1:] < 0) & (start[1:] <= end[:-1] + MAX_QUEUED_PAUSE_NS), False) if len(order) else follows
    ahead = np.where(soon, start, np.append(ready[1:], 0)) if len(order) else start
    queued = np.where(follows, ahead, start)
    begin = np.minimum(np.maximum(start, queued), end)
    calls = np.concatenate([sync_calls(trace), blocking_copies(trace, order)])
    low, high = union(slices.start[calls], slices.end[calls])
    # Of several waits during one activity the last counts: it lasts to the activity's end or longer.
    last = np.searchsorted(low, end) - 1
    waited = (last >= 0) & (np.append(high, 0)[last] > start)
    since = np.where(waited, np.clip(np.append(low, 0)[last], start, end), 0)
    until = np.where(waited, np.clip(np.append(high, 0)[last], start, end), 0)
    return np.concatenate([begin, since]), np.concatenate([end, until])


def blocking_copies(trace: Trace, rows: Int64) -> Int64:
    """Calls for copies that returned only when the copy had ended, as those for pageable memory do."""
    slices = trace.slices
    copies = rows[slices.kind[rows] == Kind.MEMCPY]
    call = links(trace).launch[copies].astype(np.int64)
    return distinct(call[(call >= 0) & (slices.end[call] >= slices.end[copies])])


MAX_SHARE_DECIMALS = 4
"""Maximum decimals of a share that is just below a limit."""


def percent_text(percents: float) -> str:
    """A share with as many decimals as its severity needs: 1.8 % is no `2 %`, from which on a finding is minor."""
    words = rounded_percent(percents)
    for decimals in range(1, MAX_SHARE_DECIMALS + 1):
        if words.startswith("under") or severity_of_share(float(words.split()[0]) / 100) == severity_of_share(
            percents / 100
        ):
            break
        words = f"{percents:.{decimals}f} %"
    return words


def longest(trace: Trace, rows: Int64) -> int:
    """The longest slice, -1 for none."""
    return int(rows[np.argmax(trace.slices.dur[rows])]) if len(rows) else -1


def most_common(trace: Trace, rows: Int64) -> str:
    """The most frequent name among the slices."""
    names = group(trace.slices.name[rows])
    return str(trace.names[int(names.key[np.argmax(names.calls)])])
