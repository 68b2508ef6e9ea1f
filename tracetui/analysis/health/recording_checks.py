"""Checks of how the trace was recorded: options that were off, devices that are not described, steps cut short."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.common.lanes import lane_numbers
from tracetui.analysis.devices.configuration import THREAD_GRIDS
from tracetui.analysis.health.checks import Check, Doubt, Severity
from tracetui.analysis.linking.links import links, names_of, op_rows
from tracetui.analysis.linking.placement import partial_steps
from tracetui.analysis.linking.steps import steps
from tracetui.model.trace import Kind, LaneKind, Trace

DEFAULT_SHARED = 48 << 10
"""Bytes of shared memory per block above which the profiler's own formula gives 0 % (R3.35)."""


def no_properties(trace: Trace) -> Doubt | None:
    """Kernels of a trace that does not describe its devices."""
    kernels = trace.slices.of_kind(Kind.KERNEL)
    if len(kernels) == 0:
        return None
    return Doubt(0) if trace.devices else Doubt(len(kernels), len(kernels))


def nameless(trace: Trace) -> Doubt | None:
    """Devices that ran something and are described without a name."""
    if not trace.devices:
        return None
    number = lane_numbers(trace).device.tolist()
    streams = zip(number, trace.lanes, strict=True)
    used = {place for place, lane in streams if lane.kind == LaneKind.GPU and lane.last > lane.first}
    without = [device.id for device in trace.devices if device.id in used and not device.name.strip()]
    return Doubt(len(without), len(used), f"device {without[0]}" if without else "")


def false_zeros(trace: Trace) -> Doubt | None:
    """Kernels whose recorded occupancy is 0 because they use more than 48 KiB of shared memory (R3.35)."""
    kernels = trace.slices.of_kind(Kind.KERNEL)
    event = trace.slices.event[kernels]
    told = trace.work_args.number("est. achieved occupancy %", event)
    given = int((told >= 0).sum())
    if given == 0:
        return None
    rows = kernels[(told == 0) & (trace.work_args.number("shared memory", event) > DEFAULT_SHARED)]
    return Doubt(len(rows), given, trace.name_of(int(rows[0])), int(rows[0])) if len(rows) else Doubt(0)


def thread_grids(trace: Trace) -> Doubt | None:
    """Kernels whose launch gives its grid in threads (R2.7)."""
    kernels = trace.slices.of_kind(Kind.KERNEL)
    if len(kernels) == 0:
        return None
    calls = [call for call in map(trace.names.find, THREAD_GRIDS) if call >= 0]
    rows = kernels[np.isin(names_of(trace, links(trace).launch[kernels]), calls)]
    return Doubt(len(rows), len(kernels), trace.name_of(int(rows[0])), int(rows[0])) if len(rows) else Doubt(0)


def cut_steps(trace: Trace) -> Doubt | None:
    """A first or last step with clearly less in it than those between (R3.6)."""
    every = steps(trace)
    if len(every) < 3:
        return None
    cut = np.flatnonzero(partial_steps(trace))
    if len(cut) == 0:
        return Doubt(0)
    row = int(every.row[cut[0]])
    return Doubt(len(cut), len(every), trace.name_of(row), row)


def odd_numbers(trace: Trace) -> Doubt | None:
    """Steps whose number does not follow that of the step before on their thread."""
    every = steps(trace)
    if len(every) == 0:
        return None
    order = np.argsort(every.lane, kind="stable")
    number, lane = every.number[order], every.lane[order]
    odd = order[1:][(lane[1:] == lane[:-1]) & (number[1:] != number[:-1] + 1)]
    if len(odd) == 0:
        return Doubt(0)
    row = int(every.row[odd[0]])
    return Doubt(len(odd), len(every), f"{trace.name_of(row)}", row)


def side_by_side(trace: Trace) -> Doubt | None:
    """Steps that begin before the one before them has ended (R3.6)."""
    every = steps(trace)
    if len(every) == 0:
        return None
    over = np.flatnonzero(every.start[1:] < every.end[:-1]) + 1
    row = int(every.row[over[0]]) if len(over) else -1
    return Doubt(len(over), len(every), trace.name_of(row) if row >= 0 else "", row)


def no_shapes(trace: Trace) -> Doubt | None:
    """Ops of a trace in which none has shapes."""
    shapes = trace.op_args.texts.get("Input Dims")
    return _all_or_none(trace, shapes is not None and bool((shapes >= 0).any()))


def no_stack(trace: Trace) -> Doubt | None:
    """Ops of a trace without Python frames."""
    return _all_or_none(trace, bool((trace.slices.kind == Kind.PYTHON).any()))


def no_memory(trace: Trace) -> Doubt | None:
    """Ops of a trace without events of the allocator."""
    return _all_or_none(trace, len(trace.memory_args) > 0)


def _all_or_none(trace: Trace, there: bool) -> Doubt | None:
    """All ops lack something, or it is there."""
    ops = len(op_rows(trace))
    if ops == 0:
        return None
    return Doubt(0) if there else Doubt(ops, ops)


RECORDING_CHECKS = (
    Check(
        "steps cut short",
        Severity.DOUBT,
        cut_steps,
        "Recording began or ended inside them: leave them out of averages.",
        ("steps.kernels", "steps.dur_us", "steps.gpu_busy_us"),
    ),
    Check("step numbers", Severity.NOTE, odd_numbers, "A step is known by its interval; its number is only a label."),
    Check(
        "steps side by side",
        Severity.DOUBT,
        side_by_side,
        "Several threads run a loop each: what belongs to no one thread is in no step.",
        ("kernels.step", "launches.step", "steps.kernels"),
    ),
    Check(
        "device not described",
        Severity.DOUBT,
        no_properties,
        "Without deviceProperties there is no peak rate and no occupancy of our own.",
        ("kernels.occupancy_pct", "kernels.limiter", "kernels.waves", "kernels.bound", "occupancy.occupancy_pct"),
    ),
    Check(
        "device without a name",
        Severity.DOUBT,
        nameless,
        "Peak rates go by the name of the device.",
        ("kernels.bound", "summary.value"),
    ),
    Check(
        "occupancy of 0 % by mistake",
        Severity.NOTE,
        false_zeros,
        "The profiler prints 0 for every kernel with more than 48 KiB of shared memory per block.",
    ),
    Check(
        "grid in threads",
        Severity.NOTE,
        thread_grids,
        "This launch call of ROCm gives threads where others give blocks: they were divided by the block.",
    ),
    Check(
        "no shapes",
        Severity.NOTE,
        no_shapes,
        "Ops cannot be told apart by shape, and FLOPs and bytes are unknown: record_shapes=True.",
    ),
    Check("no stack", Severity.NOTE, no_stack, "No op leads to a line of Python or a module: with_stack=True."),
    Check("no memory", Severity.NOTE, no_memory, "There is no allocator curve: profile_memory=True."),
)
"""In the order in which they are asked."""
