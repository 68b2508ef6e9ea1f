"""Rules about the recording: what kind of trace it is, what is missing in it, and what recording it cost."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.devices.descriptions import device_index, gpu_generation, peaks_of, units_of
from tracetui.findings.cpu_work import captures_of
from tracetui.findings.gemm import fp32_rows
from tracetui.findings.idle_time import idle_cost, parts_of
from tracetui.findings.scope import MIN_SHARES, Finding, Scope, Severity, longest, most_common, severity_of_share
from tracetui.frozen import frozen
from tracetui.health.health_table import CLOCK_CHECK, LENGTH_CHECK, doubt_of, doubtful_checks, stack_cost
from tracetui.health.link_checks import NO_ACTIVITY_CHECK, Check, CheckSeverity, Doubt, unfinished
from tracetui.health.recording_checks import CLIPPED_CHECK
from tracetui.idle.idle_parts import clock_skew
from tracetui.idle.waits import Cause, idleness
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import group
from tracetui.linking.links import calls_named, links, op_rows
from tracetui.linking.placement import lost_launches
from tracetui.linking.trees import forest, is_named, lane_numbers
from tracetui.memory.allocator import CPU, allocator
from tracetui.model.intervals import Int64, covered, covered_within, union
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.recorded import COMPILE_PHASES
from tracetui.model.results import kept
from tracetui.model.trace import WITH_NVTX, Kind, Trace
from tracetui.tables.compiles import has_compilations

MAX_NAMED_OPS = 3
"""Maximum operators of a CPU named in a sentence."""
MIN_CPU_BOUND_SHARE = MIN_SHARES[0][0]
"""Minimum share of the time in which the GPU waits for the CPU, for Python frames to make the trace look slow."""
MIN_MISSING_SHARE = MIN_SHARES[-1][0]
"""Minimum share of the GPU activities, or of their time, whose launches are missing."""

_ACCELERATOR = re.compile(
    r"^(?!cuda|hip|gpu|cpu|user|python|async)([a-z][a-z0-9]*)_(runtime|driver|ccp_events|op|kernel)"
)
"""Categories that name the device: `mtia_runtime`, `hpu_op`."""
_USES = re.compile(r"^(cu|cuda|hip)\w*(Launch|Memcpy|Memset|Malloc|MemAlloc|HostAlloc|MemCreate|Module|Library|Graph)")
"""Calls that a program makes which uses the GPU."""
_DRIVER_LAUNCH = re.compile(r"^(cuLaunch|hip(Ext)?ModuleLaunch|hipDrvLaunch)")
_GENERATED = re.compile(r"^triton_|^kernel\d*$|_0d1d")


_BOTH = "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
_NSYS = "Record with nsys profile --trace=cuda,nvtx"


def not_pytorch(scope: Scope) -> Iterator[Finding]:
    """The trace comes from another program: no other rule applies."""
    trace = scope.trace
    if trace.is_torch or has_compilations(trace):
        return
    yield Finding(
        "not-pytorch",
        Severity.NOTE,
        "This trace was not written by the PyTorch profiler, so none of the rules applies",
        f"{counted(len(trace.slices), 'slice')} on {counted(len(trace.lanes), 'lane')}, "
        "none of them an operator, a launch or a GPU activity",
        "The lanes and the search show what it holds.",
        longest(trace, np.arange(len(trace.slices))),
    )


def no_gpu(scope: Scope) -> Iterator[Finding]:
    """No GPU activity was recorded: the finding says what the CPU did."""
    trace = scope.trace
    if len(links(trace).gpu) or len(_unknown_device_rows(trace)) or _accelerator(trace):
        return
    work = _cpu_work(scope)
    calls, uses = trace.slices.of_kind(Kind.RUNTIME), calls_named(trace, _USES)
    used = [label for label in allocator(trace).devices if not label.startswith(CPU)]
    # Signs of a GPU that was used all the same; the profiler itself asks which devices there are, and waits for them.
    signs = [f"{counted(len(uses), 'call')} of the GPU runtime ({most_common(trace, uses)})"] if len(uses) else []
    signs += [f"memory of {', '.join(used)}"] if used else []
    if signs:
        yield Finding(
            "no-gpu",
            Severity.NOTE,
            "The program used a GPU, but no GPU activity was recorded: only the CPU can be judged",
            f"{' and '.join(signs)} in the trace; {work.words}",
            f"{trace.to_record(_BOTH, _NSYS)}, and see whether something keeps the profiler from the GPU: another "
            "profiler, or a missing permission.",
            work.row,
        )
        return
    if len(calls) and work.largest:
        yield Finding(
            "no-gpu",
            Severity.NOTE,
            f"The model ran on the CPU of a machine with a GPU, on which nothing was launched: {work.largest}",
            f"{work.words}; {counted(len(calls), 'call')} of the GPU runtime, none of which launches, copies or takes "
            f"memory: {most_common(trace, calls)} and the like are the profiler's own",
            "Move the model and its inputs to the GPU (model.to('cuda')), unless the CPU is what is to be measured.",
            work.row,
            action="move the model to the GPU",
        )
        return
    yield Finding(
        "no-gpu",
        Severity.NOTE,
        "There is no GPU activity in this trace" + (f"; {work.largest}" if work.largest else ""),
        work.words,
        f"Only the CPU can be judged, unless it uses a GPU. {trace.to_record(_BOTH, _NSYS)} on a machine with one.",
        work.row,
    )


def other_accelerator(scope: Scope) -> Iterator[Finding]:
    """The device lanes are those of an accelerator that is neither CUDA nor ROCm."""
    trace = scope.trace
    if len(links(trace).gpu):
        return
    rows, name = _unknown_device_rows(trace), _accelerator(trace)
    if len(rows) == 0 and not name:
        return
    work = _cpu_work(scope)
    if len(rows):
        lanes = len(np.unique(trace.slices.lane[rows]))
        category = trace.categories[int(np.bincount(trace.slices.category[rows]).argmax())]
        kinds = f" of category {category!r}" if category else ""
        unread = f"{counted(len(rows), 'slice')}{kinds} on {counted(lanes, 'device lane')} are not understood"
    else:
        calls = len(trace.slices.of_kind(Kind.RUNTIME))
        unread = "nothing of what the device did was recorded"
        unread += f", only {counted(calls, 'call')} of its runtime" if calls else ""
    yield Finding(
        "other-accelerator",
        Severity.NOTE,
        f"Recorded on {f'{name}, ' if name else ''}another accelerator than a CUDA or ROCm GPU: "
        "only the CPU can be judged",
        f"{unread}; {work.words}",
        "Read the lanes of the device on the timeline: its busy, idle and kernel times cannot be counted.",
        int(rows[0]) if len(rows) else work.row,
    )


@kept
def _unknown_device_rows(trace: Trace) -> Int64:
    """Slices of unknown categories in processes that run no operators: the lanes of a device."""
    slices = trace.slices
    process = lane_numbers(trace).process[slices.lane]
    rows = slices.of_kind(Kind.OTHER)
    own = [number for number, text in enumerate(trace.categories) if text.casefold() in ("trace", COMPILE_PHASES)]
    rows = rows[~np.isin(slices.category[rows], own)]
    host = process[slices.of_kind(Kind.CPU_OP, Kind.PYTHON)]
    return rows[~np.isin(process[rows], host)] if len(host) else rows[:0]


@kept
def _accelerator(trace: Trace) -> str:
    """The accelerator that categories or events of the allocator name, such as `MTIA`; empty for none."""
    used = np.unique(trace.slices.category).tolist()
    names = (match[1] for number in used if (match := _ACCELERATOR.match(trace.categories[number])))
    labels = [label for label in allocator(trace).devices if not label.startswith((CPU, "GPU"))]
    memory = ["a custom device" if label.startswith("device") else label.split()[0] for label in labels]
    return next(names, "").upper() or next(iter(memory), "")


@frozen(eq=True)
class CpuWork:
    """The operators in which a CPU spent most time."""

    largest: str
    """The largest with its time and share, as a clause; empty without operators."""
    words: str
    """The largest few with their times, as a clause."""
    row: int
    """The longest call of the largest."""


def _cpu_work(scope: Scope) -> CpuWork:
    trace, rows = scope.trace, scope.ops
    if len(rows) == 0:
        return CpuWork("", "it holds no operators either", longest(trace, np.arange(len(trace.slices))))
    # Operators without those that they called; calls of the runtime count for their operator.
    dur, parent = trace.slices.dur[rows], forest(trace, rows)
    inner = np.flatnonzero(parent >= 0)
    own = np.maximum(dur - np.bincount(parent[inner], dur[inner], len(rows)).astype(np.int64), 0)
    names = group(trace.slices.name[rows])
    spent = names.sum(own)
    order = np.argsort(-spent, kind="stable")[:MAX_NAMED_OPS].tolist()
    total = max(float(spent.sum()), 1.0)
    parts = [
        f"{trace.names[int(names.key[index])]} {duration(spent[index])} ({rounded_percent(100 * spent[index] / total)})"
        for index in order
    ]
    threads = counted(len(np.unique(trace.slices.lane[rows])), "thread")
    first = rows[names.member == order[0]]
    return CpuWork(
        f"the CPU spent most time in {trace.names[int(names.key[order[0]])]}: {duration(spent[order[0]])}, "
        f"{rounded_percent(100 * spent[order[0]] / total)} of the time in operators",
        f"{counted(len(rows), 'operator')} on {threads} took {duration(total)}: {', '.join(parts)}",
        int(first[np.argmax(own[names.member == order[0]])]),
    )


def launches_missing(scope: Scope) -> Iterator[Finding]:
    """GPU activities without a launch record that were launched during the capture."""
    trace = scope.trace
    activities = links(trace).gpu if scope.step is None else scope.activities
    rows = activities[lost_launches(trace, activities)]
    if len(rows) == 0:
        return
    dur = trace.slices.dur
    spent = int(dur[rows].sum())
    share = max(len(rows) / len(activities), spent / max(int(dur[activities].sum()), 1))
    if share < MIN_MISSING_SHARE:
        return
    calls = trace.slices.of_kind(Kind.RUNTIME)
    reason, advice = _why_missing(trace, rows, calls)
    yield Finding(
        "launches-missing",
        Severity.NOTE,
        f"The launches of {len(rows):,} of {counted(len(activities), 'GPU activity')} were not recorded: {reason}",
        f"{duration(spent)}; most often {short_kernel(most_common(trace, rows))}; "
        "why the GPU was idle before them cannot be told, and they belong to no operator",
        advice,
        longest(trace, rows),
    )


def _why_missing(trace: Trace, rows: Int64, calls: Int64) -> tuple[str, str]:
    """The reason why launches are not in the trace, as the end of a sentence; and the advice."""
    if len(calls) == 0:
        return "the trace holds no calls of the CUDA runtime", (
            "Record with torch.profiler; traces of torch.autograd.profiler hold no launches."
            if len(op_rows(trace))
            else "Record ProfilerActivity.CPU beside ProfilerActivity.CUDA."
        )
    has_driver = bool(is_named(trace, calls, _DRIVER_LAUNCH.search).any())
    generated = is_named(trace, rows, _GENERATED.search)
    if not has_driver and generated.all():
        return (
            "calls of the driver API such as cuLaunchKernel, which launch generated kernels, are not in the trace",
            "A newer PyTorch records calls of the driver API too.",
        )
    return (
        "the profiler lost the calls, or they were made in a way that it does not record",
        "Record fewer steps at once, and compare the number of launches with the number of kernels.",
    )


def stack_recording(scope: Scope) -> Iterator[Finding]:
    """Python frames slow the CPU down where the CPU is what the program waits for (R3.34)."""
    doubt = stack_cost(scope.trace)
    if doubt is None or doubt.count == 0:
        return
    has_gpu = len(links(scope.trace).gpu) > 0
    # Time before the first GPU activity in which the CPU had not launched it yet; not known where it has no launch.
    first = scope.activities[:1] if scope.time_to_first_kernel else np.empty(0, np.int64)
    launch = int(links(scope.trace).launch[first].max(initial=-1))
    before_launch = int(scope.trace.slices.start[launch]) - scope.lead_window[0] if launch >= 0 else 0
    unlaunched = min(max(before_launch, 0), scope.time_to_first_kernel)
    late = unlaunched + int(idleness(scope.trace).cpu_late[scope.gaps].sum())
    # In the capture of a graph the CPU is all that was recorded.
    if has_gpu and late < MIN_CPU_BOUND_SHARE * scope.time and not captures_of(scope).are_most:
        return
    before = f", {duration(unlaunched)} of it before the launch of its first activity" if unlaunched else ""
    waited = f"; the GPU waited for the CPU {scope.cost_text(late)}{before}" if has_gpu and late else ""
    yield Finding(
        "stack-recording",
        Severity.NOTE,
        "CPU times are inflated: Python frames were recorded",
        f"{counted(doubt.count, 'frame')}{waited}",
        "with_stack=True can double the time of Python code and more: record once more without stacks before judging "
        "how much the CPU holds the program up.",
        doubt.row,
    )


def own_profiler(scope: Scope) -> Iterator[Finding]:
    """The GPU was idle because the profiler was busy with itself."""
    trace, slices = scope.trace, scope.trace.slices
    parts = parts_of(scope, Cause.PROFILER)
    cost = idle_cost(scope, parts) + scope.lead_causes[Cause.PROFILER]
    if cost == 0:
        return
    # Slices of overhead that lie in these parts of gaps, or before the first activity.
    begin, end = scope.lead_window
    idle = union(np.append(parts.start, begin), np.append(parts.end, end))
    rows = slices.of_kind(Kind.OVERHEAD)
    rows = rows[covered_within(*idle, slices.start[rows], slices.end[rows]) > 0]
    took = covered(slices.start[rows], slices.end[rows])
    yield from scope.with_cost(
        "own-profiler",
        cost,
        "The GPU is idle while the profiler is busy with itself",
        f"{counted(len(rows), 'slice')} of overhead, {duration(took)}; most often {most_common(trace, rows)}",
        "It asks for buffers while it records, inside the calls of the program. Give the schedule as many warm-up "
        "steps as it records (warmup=...), so that the buffers are there, record fewer steps, or set larger buffers; "
        "leave this time out when you add up.",
        longest(trace, rows),
    )


# Numbers that are wrong, with a severity by how much they spoil.

MAX_NAMED_CHECKS = 4
"""Maximum checks named in a sentence, the heaviest first."""

LENGTH_CHECKS = (CLIPPED_CHECK, LENGTH_CHECK)
"""Checks of durations: their severity is that of the wrong share of the GPU time, and minor at least."""


@frozen(eq=True)
class _Problem:
    severity: Severity
    words: str
    check: Check
    row: int


def untrusted(scope: Scope) -> Iterator[Finding]:
    """Some numbers of the trace are wrong (see the Health pane)."""
    wrong = [check for check in doubtful_checks(scope.trace) if check.severity == CheckSeverity.WRONG]
    problems = [each for check in wrong if (each := _problem(scope, check)) is not None]
    problems.sort(key=lambda each: -each.severity)
    if not problems:
        return
    yield Finding(
        "untrusted",
        problems[0].severity,
        "Some numbers of this trace are wrong"
        + (": the clocks disagree" if problems[0].check.name == CLOCK_CHECK else ""),
        "; ".join(each.words for each in problems[:MAX_NAMED_CHECKS]),
        f"{problems[0].check.effect} The Health pane lists the affected columns; they are marked with ~.",
        next((each.row for each in problems if each.row >= 0), -1),
    )


def _problem(scope: Scope, check: Check) -> _Problem | None:
    """The result of a check with its severity; None where it spoils nothing."""
    doubt = doubt_of(scope.trace, check)
    if doubt is None:
        return None
    if check.name == CLOCK_CHECK:
        return _clock_problem(scope, check, doubt)
    severity = Severity.MAJOR if doubt.of == 0 else severity_of_share(doubt.count / doubt.of)
    if check.name == NO_ACTIVITY_CHECK and severity is not None and unfinished(scope.trace) == doubt.count:
        words = f"the recording ended before the kernels of {counted(doubt.count, 'launch')} ran"
        return _Problem(Severity.NOTE, words, check, doubt.row)
    if check.name in LENGTH_CHECKS:
        # One wrong duration spoils every sum that it is in.
        spoilt = severity_of_share(doubt.size / max(int(scope.trace.slices.dur[links(scope.trace).gpu].sum()), 1))
        severity = max(severity or Severity.MINOR, spoilt or Severity.MINOR, Severity.MINOR)
    return None if severity is None else _Problem(severity, f"{check.name} {doubt.count:,}", check, doubt.row)


def _clock_problem(scope: Scope, check: Check, doubt: Doubt) -> _Problem | None:
    """The skew of the clocks beside the typical gap: the one in which the middle of the idle time lies."""
    skew = abs(clock_skew(scope.trace)) or doubt.size
    dur = np.sort(idleness(scope.trace).dur[scope.gaps])
    sums = np.cumsum(dur)
    typical = int(dur[np.searchsorted(sums, sums[-1] / 2)]) if len(dur) else 0
    severity = Severity.NOTE if typical == 0 else severity_of_share(skew / typical)
    # Only what is idle is misplaced: where there is little of it, little is wrong.
    idle = scope.severity_of(scope.idle)
    if severity is None or idle is None:
        severity = Severity.NOTE
    else:
        severity = min(severity, idle)
    beside = f" beside a typical gap of {duration(typical)}" if typical else ""
    started = f"{counted(doubt.count, 'GPU activity')} before the launch"
    return _Problem(severity, f"the clocks are off by {duration(skew)}{beside}: {started}", check, doubt.row)


# Rules that could not be run on a trace, because the data that they need was not recorded.

NO_SHAPES = "no shapes of inputs were recorded (record_shapes=True)"
NO_OPERATORS = "no operators were recorded (ProfilerActivity.CPU)"
NO_DEVICE = "the file does not describe the GPU (--device names it)"
NO_PEAKS = "the peak rates of this GPU are not known"
ADVICE = {
    NO_SHAPES: "Record with record_shapes=True.",
    NO_OPERATORS: "Record ProfilerActivity.CPU too.",
    NO_DEVICE: "Name the GPU with --device.",
    NO_PEAKS: "Name one like it with --device.",
}
SUBJECTS = {
    "long-gap-without-op": "what the CPU did between its calls",
    "uneven-kernels": "calls that take longer than their like",
    "far-from-roofline": "distance from the limits of the GPU",
    "small-batch-products": "GEMMs of few rows",
    "gather": "weights copied per token",
    "batchable-products": "GEMMs that could be one",
    "low-waves": "grids smaller than the GPU",
    "fp32-math": "precision of GEMMs",
}
"""Subjects of rules that may lack data, in words."""
NEEDING_SHAPES = ("uneven-kernels", "far-from-roofline", "small-batch-products", "gather", "batchable-products")
"""Rules that compare calls with equal shapes, or compute work from shapes."""


def rules_without_data(scope: Scope) -> list[tuple[str, str]]:
    """Rules about GPU activity that could not be run, each with the reason; empty in a trace without kernels."""
    if len(scope.computing) == 0:
        return []
    trace, has_shapes = scope.trace, scope.program.has_shapes
    reasons = [] if len(op_rows(trace)) else [("long-gap-without-op", NO_OPERATORS)]
    reasons += [] if has_shapes else [(rule, NO_SHAPES) for rule in NEEDING_SHAPES]
    if len(fp32_rows(scope)) and gpu_generation(trace).has_fp16_tensor_cores is None:
        reasons.append(("fp32-math", NO_DEVICE))
    used = set(device_index(trace, scope.computing).tolist())
    devices = [trace.devices[index] for index in used if index >= 0]
    is_described = -1 not in used
    has_units = is_described and all(map(units_of, devices))
    if not has_units:
        reasons.append(("low-waves", NO_DEVICE))
    if has_shapes and not (is_described and all(map(peaks_of, devices))):
        reason = NO_PEAKS if has_units else NO_DEVICE
        reasons += [("far-from-roofline", reason), ("small-batch-products", reason)]
    return reasons


def not_judged(scope: Scope) -> Iterator[Finding]:
    """Rules that could not be run on this trace, and why, in one note."""
    of_profiler = (NO_SHAPES, NO_OPERATORS)
    advice = {**ADVICE, **{each.partition(" (")[0]: f"{WITH_NVTX[0].upper()}{WITH_NVTX[1:]}." for each in of_profiler}}
    missing = [
        (rule, scope.trace.to_record(why, why.partition(" (")[0] if why in of_profiler else why))
        for rule, why in rules_without_data(scope)
    ]
    if not missing:
        return
    reasons = list(dict.fromkeys(reason for _, reason in missing))
    lists = [", ".join(SUBJECTS.get(rule, rule) for rule, why in missing if why == reason) for reason in reasons]
    if len(reasons) > 1:
        lists = [f"{subjects}: {reason}" for subjects, reason in zip(lists, reasons, strict=True)]
    yield Finding(
        "not-judged",
        Severity.NOTE,
        f"{counted(len({rule for rule, _ in missing}), 'rule')} could not be run: {', and '.join(reasons)}",
        "; ".join(lists),
        " ".join(dict.fromkeys(advice[reason] for reason in reasons)),
        int(scope.computing[0]),
    )
