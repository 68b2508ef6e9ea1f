"""Rules about what a program pays for once (start-up), and about memory that is taken from the driver again and again.

The two are told apart by `slow_calls`: memory taken by the first operators is start-up, and no matter of the allocator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.findings.idle_time import TimeToFirstKernel, idle_cost, longest_part, parts_of, time_to_first_kernel
from tracetui.findings.scope import Finding, Program, Scope, Severity, longest
from tracetui.idle.thread_causes import first_runs, indicating_slices, start_up_calls
from tracetui.idle.waits import Cause
from tracetui.linking.links import calls_named, links
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, covered, union
from tracetui.model.quantities import counted, duration
from tracetui.model.trace import Trace

MAX_NAMED_CALLS = 4
"""Maximum calls named in a sentence, the longest first."""
MIN_PINNED_CALLS = 3
"""Minimum allocations of pinned memory, after the first GPU activity, that are made again and again."""

MIN_FREED = 2
"""Minimum calls that give memory back, for a note although the GPU was hardly idle for them."""

_FREE = re.compile(r"^(cuda|hip)Free(Async)?$|^(cu|hip)MemFree")
_MALLOC = re.compile(r"^(cuda|hip)Malloc(Async)?$|^(cu|hip)Mem(Alloc|Create)")
_PINNED = re.compile(r"^(cuda|hip)(HostAlloc|MallocHost|HostMalloc|HostRegister)|^cuMemHostAlloc|^cuMemAllocHost")


def start_up(scope: Scope) -> Iterator[Finding]:
    """CUDA and its libraries start up, or modules are loaded, before the first kernel and between kernels (R3.61)."""
    trace = scope.trace
    calls = scope.inside(start_up_calls(trace))
    parts, lead = parts_of(scope, Cause.START_UP), time_to_first_kernel(scope)
    between, before = idle_cost(scope, parts), _start_of(lead)
    if between + before == 0:
        return
    told = [f"{duration(between)} of GPU idle time"] if between else []
    told += [f"{duration(before)} before the first kernel, which is in no gap"] if before else []
    named = _named(trace, calls)
    yield from scope.priced(
        "start-up",
        between + before,
        "The recording holds a start-up: first uses load libraries and modules",
        " and ".join(told) + (f"; {counted(len(calls), 'slow first use')}: {named}" if named else ""),
        "Run the program until everything has been used once, then record: schedule(wait=..., warmup=...). "
        "CUDA_MODULE_LOADING=EAGER tells whether lazy loading of modules is part of it.",
        longest(trace, calls) if len(calls) else longest_part(scope, parts),
        at_gap=not len(calls),
        action="warm up before recording",
    )


def _start_of(lead: TimeToFirstKernel) -> int:
    """Time in ns of the start-up before the first kernel: all of it where first uses take the larger part."""
    own = lead.of(Cause.START_UP)
    elsewhere = lead.of(Cause.DATA_LOADING, Cause.COMPILATION, Cause.PROFILER)
    return lead.total - elsewhere if 2 * own > lead.total - elsewhere else own


def _named(trace: Trace, rows: Int64) -> str:
    """The longest calls with the operators that made them."""
    owner, words = links(trace).owner, []
    for row in rows[np.argsort(-trace.slices.dur[rows], kind="stable")][:MAX_NAMED_CALLS].tolist():
        first = "the first " if first_runs(trace)[owner[row]] else ""
        around = f" in {first}{trace.name_of(int(owner[row]))}" if owner[row] >= 0 else ""
        words.append(f"{trace.name_of(row)} {duration(int(trace.slices.dur[row]))}{around}")
    return ", ".join(words)


def allocator(scope: Scope) -> Iterator[Finding]:
    """Memory is taken from the driver, or given back to it, in the middle of the run."""
    trace, dur = scope.trace, scope.trace.slices.dur
    parts = parts_of(scope, Cause.MEMORY)
    cost = idle_cost(scope, parts)
    taken, freed = _later(scope, _MALLOC), _later(scope, _FREE)
    pinned = _later(scope, _PINNED)
    told = [
        f"{scope.per_step(len(rows), name)}, {duration(int(dur[rows].sum()))}"
        for rows, name in ((freed, "free"), (taken, "allocation"), (pinned, "pinned allocation"))
        if len(rows)
    ]
    flushed = len(freed) > 0 and len(taken) > 0 and _flushed(trace, freed, taken)
    if cost and told:
        yield from scope.priced(
            "allocator",
            cost,
            "The GPU waits while memory is taken from the driver or given back",
            "; ".join(told) + (f"; the GPU idle meanwhile for {duration(cost)}"),
            _memory_advice(len(taken), len(freed), len(pinned), flushed),
            longest_part(scope, parts),
            at_gap=True,
            action="keep the memory" if flushed or not len(pinned) else "allocate pinned memory once",
        )
    if scope.weigh(cost) is None:
        yield from _pinned_again(scope, pinned)
        if flushed and len(freed) >= MIN_FREED and len(steps(trace)):
            yield Finding(
                "allocator",
                Severity.NOTE,
                "Memory is given back to the driver and taken again after the first step",
                "; ".join(told),
                _FULL,
                longest(trace, freed),
            )


def _memory_advice(taken: int, freed: int, pinned: int, flushed: bool) -> str:
    """What to do about memory, by what is done to it most."""
    if flushed:
        return _FULL
    if pinned > max(taken, freed):
        return _PIN_ONCE
    return _GROWING if taken else _GIVEN_BACK


_GROWING = (
    "The reserved memory still grows: warm up with the largest shapes, or keep shapes stable; "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True makes growing cheaper."
)
_GIVEN_BACK = (
    "Memory is given back to the driver: leave out empty_cache() where the program calls it; the capture of a CUDA "
    "graph calls it too."
)
_FULL = (
    "GPU memory is full, or empty_cache() gave it back, and the allocator starts anew: a smaller batch, stable shapes, "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, no empty_cache() in the loop."
)
_PIN_ONCE = (
    "Pinning memory takes milliseconds and stops the thread: allocate the pinned buffers once and fill them again, or "
    "let DataLoader(pin_memory=True) do it in its own thread."
)


def _pinned_again(scope: Scope, rows: Int64) -> Iterator[Finding]:
    """Pinned memory is allocated again and again: the thread stands still, although the GPU had something to do."""
    spent = int(scope.trace.slices.dur[rows].sum())
    severity = scope.weigh(spent)
    if len(rows) < MIN_PINNED_CALLS or severity is None:
        return
    yield Finding(
        "allocator",
        min(severity, Severity.MINOR),
        f"Pinned memory is allocated inside the run, {duration(spent)} of CPU time",
        f"{scope.per_step(len(rows), 'call')} of {scope.trace.name_of(int(rows[0]))}, {duration(spent)}; the GPU had "
        "other activity meanwhile, but nothing new was launched",
        _PIN_ONCE,
        longest(scope.trace, rows),
    )


def _later(scope: Scope, pattern: re.Pattern[str]) -> Int64:
    """Calls by name that are no start-up, made after the first GPU activity; with steps after the first step."""
    trace = scope.trace
    rows = scope.inside(calls_named(trace, pattern))
    rows = np.setdiff1d(rows, start_up_calls(trace), assume_unique=True)
    gpu = links(trace).gpu
    begun = trace.slices.start[rows] > trace.slices.start[gpu[0]] if len(gpu) else np.zeros(len(rows), bool)
    return np.asarray(rows[begun & (step_index(trace, rows) != 0)])


def _flushed(trace: Trace, freed: Int64, taken: Int64) -> bool:
    """Whether memory was taken again after it had been given back."""
    return bool(trace.slices.start[taken].max() > trace.slices.start[freed].min())


# Rule about the input pipeline.


def data_loading(scope: Scope) -> Iterator[Finding]:
    """The GPU is idle while the input pipeline runs on the thread that launches, or on the main thread."""
    trace, slices = scope.trace, scope.trace.slices
    parts, before = parts_of(scope, Cause.DATA_LOADING), time_to_first_kernel(scope).of(Cause.DATA_LOADING)
    between = idle_cost(scope, parts)
    if between + before == 0:
        return
    every = indicating_slices(trace)[Cause.DATA_LOADING]
    # A loop may load between its steps.
    rows = inside if len(inside := scope.inside(every)) else every
    calls = len(union(slices.start[rows], slices.end[rows])[0])
    spent = covered(slices.start[rows], slices.end[rows])
    idle = [f"{duration(between)} between kernels"] if between else []
    idle += [f"{duration(before)} before the first kernel, which is in no gap"] if before else []
    row = longest_part(scope, parts)
    yield from scope.priced(
        "data-loading",
        between + before,
        f"The GPU waits for the data loader{_where(scope.program)}",
        f"{scope.per_step(calls, 'call')}, {duration(spent)} of CPU time; the GPU idle meanwhile for "
        + ", and ".join(idle),
        _advice(scope.program),
        row if row >= 0 else longest(trace, rows),
        at_gap=row >= 0,
        action=_action(scope.program),
    )


def _where(does: Program) -> str:
    if does.has_workers:
        return ", whose worker processes do not keep up"
    return ", which runs in the main process" if does.loads_in_process else ""


def _advice(does: Program) -> str:
    if does.has_workers:
        return (
            "The workers are too few or too slow: more of them (num_workers), a larger prefetch_factor, cheaper "
            "transforms, or data that is decoded beforehand."
        )
    return (
        "Load the next batch while this one computes: DataLoader(num_workers=...), then persistent_workers=True and "
        "pin_memory=True."
    )


def _action(does: Program) -> str:
    return "give the DataLoader more workers" if does.has_workers else "give the DataLoader workers"
