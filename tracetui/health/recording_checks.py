"""Checks of the file (what could not be read, was mended, or is unknown) and of how the trace was recorded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetui.devices.descriptions import (
    assumed_devices,
    description_index,
    device_index,
    device_note,
    kernel_devices,
    model_by_size,
    sized_devices,
)
from tracetui.devices.residency import THREAD_GRIDS
from tracetui.health.link_checks import Check, CheckSeverity, Doubt, doubt_about
from tracetui.linking.links import links, names_of, op_rows
from tracetui.linking.step_kinds import partial_steps
from tracetui.linking.steps import steps
from tracetui.linking.trees import active_streams, lane_numbers
from tracetui.memory.memory_table import NOT_IN_FORMAT
from tracetui.model.recorded import Loss
from tracetui.model.trace import (
    DAMAGED_KEYS,
    ENDLESS,
    MENDED,
    NEGATIVE,
    REPEATED,
    REPLACED,
    UNREADABLE,
    UNTIMED,
    Kind,
    LaneKind,
    Trace,
)
from tracetui.operators.key_averages import has_shapes

CLIPPED_CHECK = "impossible ends"
"""Name of the check of durations beyond the end of the trace."""
_EVERYTHING = ("summary", "steps", "kernels", "ops", "views", "launches", "gaps", "memory")


def cut_off(trace: Trace) -> Doubt:
    """The byte at which the file is cut off."""
    at = trace.quality.truncated_at
    return Doubt(0) if at is None else Doubt(1, 0, f"byte {at:,}")


def clipped(trace: Trace) -> Doubt:
    """Durations far beyond the rest of the trace (R1.5)."""
    count, slices = trace.quality.clipped, trace.slices
    if count == 0:
        return Doubt(0)
    work = np.flatnonzero(slices.kind != Kind.BOOKKEEPING)
    row = int(work[np.argmax(slices.dur[work])])
    return Doubt(count, len(slices), trace.name_of(row), row)


def overlaps(trace: Trace) -> Doubt | None:
    """Slices of a thread that start inside another one and outlast it (R1.10)."""
    threads = [lane.kind == LaneKind.CPU for lane in trace.lanes]
    if not any(threads):
        return None
    slices = trace.slices
    spilled = np.flatnonzero((slices.row != slices.depth) & np.array(threads)[slices.lane])
    row = int(spilled[0]) if len(spilled) and trace.quality.overlaps else -1
    return Doubt(trace.quality.overlaps, len(slices), trace.name_of(row) if row >= 0 else "", row)


def skipped_phases(trace: Trace) -> Doubt:
    """Events of a phase that is not shown."""
    skipped = trace.quality.skipped_phases
    most = sorted(skipped.items(), key=lambda item: -item[1])[:3]
    words = ", ".join(f"{f'ph {letter!r}' if letter else 'no ph'} {number:,} times" for letter, number in most)
    return Doubt(sum(skipped.values()), trace.events, words)


def not_shown(trace: Trace) -> Doubt | None:
    """Packets of kinds that are not shown."""
    quality = trace.quality
    if not quality.packets:
        return None
    return Doubt(sum(quality.not_shown.values()), quality.packets, kinds_in_words(quality.not_shown))


MAX_NAMED_KINDS = 12
"""Maximum kinds of packets named in a sentence."""


def kinds_in_words(counts: dict[str, int]) -> str:
    """Kinds of packets with their counts, the most frequent first."""
    ordered, more = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])), len(counts) - MAX_NAMED_KINDS
    named = ", ".join(f"{kind} {count:,}" for kind, count in ordered[:MAX_NAMED_KINDS])
    return named + ("" if more <= 0 else " and another kind" if more == 1 else f" and {more:,} more kinds")


def unknown_categories(trace: Trace) -> Doubt | None:
    """Slices of a torch trace with an unknown category (R2.5)."""
    if not trace.is_torch:
        return None
    rows = trace.slices.of_kind(Kind.OTHER)
    # The profiler's own marks come under several processes.
    own = [number for number, text in enumerate(trace.categories) if text.casefold() == "trace"]
    rows = rows[~np.isin(trace.slices.category[rows], own)]
    if len(rows) == 0:
        return Doubt(0)
    category = int(np.bincount(trace.slices.category[rows]).argmax())
    row = int(rows[trace.slices.category[rows] == category][0])
    words = f"category {trace.categories[category]!r}, for example {trace.name_of(row)}"
    return Doubt(len(rows), len(trace.slices), words, row)


def _offender(trace: Trace, *reasons: str) -> str:
    """The first event with one of these defects, and where the others are listed."""
    given = trace.quality.examples
    mine = [(byte, what) for byte, what in given if what.startswith(reasons)]
    if not mine:
        return ""
    more = "; more: --by offender" if len(given) > 1 else ""
    return f"byte {mine[0][0]:,}: {mine[0][1]}{more}"


FILE_CHECKS = (
    Check(
        "file cut off",
        CheckSeverity.WRONG,
        cut_off,
        "The rest of the recording is missing: counts and sums cover only a part.",
        _EVERYTHING,
    ),
    Check(
        "damaged packing",
        CheckSeverity.WRONG,
        lambda trace: Doubt(int(bool(trace.quality.damage)), 0, trace.quality.damage),
        "What follows the damage is missing: counts and sums may cover only a part.",
        _EVERYTHING,
    ),
    Check(
        "several writers",
        CheckSeverity.DOUBT,
        lambda trace: Doubt(trace.quality.further_arrays),
        "The file has more than one array of events: all are shown together, and ids may be those of several programs.",
        ("kernels.op", "kernels.launch_delay_us", "steps.kernels"),
    ),
    Check(
        "stray brackets",
        CheckSeverity.NOTE,
        lambda trace: Doubt(trace.quality.stray_brackets),
        "A closing bracket stands between events; all are read.",
    ),
    Check(
        "loading stopped",
        CheckSeverity.WRONG,
        lambda trace: Doubt(int(trace.quality.partial)),
        "The rest of the file was not read: counts and sums cover only a part.",
        _EVERYTHING,
    ),
    Check(
        "dropped events",
        CheckSeverity.WRONG,
        lambda trace: Doubt(trace.quality.dropped, trace.events, _offender(trace, UNREADABLE, UNTIMED)),
        "They are in no list and no sum: they cannot be read, or have no time, or one that cannot be true.",
        ("summary",),
    ),
    Check(
        "mended events",
        CheckSeverity.DOUBT,
        lambda trace: Doubt(trace.quality.repaired, trace.events, _offender(trace, MENDED)),
        "They are not valid JSON; names may have lost a character.",
    ),
    Check(
        "damaged metadata",
        CheckSeverity.DOUBT,
        lambda trace: Doubt(trace.quality.damaged_keys, 0, _offender(trace, DAMAGED_KEYS)),
        "Keys around the events, such as deviceProperties and distributedInfo, may be missing; no event is.",
        ("kernels.occupancy_pct", "kernels.limiter", "kernels.waves", "kernels.bound", "occupancy.occupancy_pct"),
    ),
    Check(
        "bytes replaced",
        CheckSeverity.DOUBT,
        lambda trace: Doubt(trace.quality.replaced, 0, _offender(trace, REPLACED)),
        "They are no UTF-8: names are not those of the program.",
    ),
    Check(
        "keys twice",
        CheckSeverity.DOUBT,
        lambda trace: Doubt(trace.quality.repeated, trace.events, _offender(trace, REPEATED)),
        "The last value of such a key counts, the others are not shown.",
    ),
    Check(
        "unfinished slices",
        CheckSeverity.DOUBT,
        lambda trace: Doubt(trace.quality.unfinished, len(trace.slices), _offender(trace, ENDLESS)),
        "They have no duration, or end where their lane ends: times in them are too short or too long.",
        ("ops.cpu_total_us", "ops.self_cpu_us"),
    ),
    Check(
        "unmatched ends",
        CheckSeverity.NOTE,
        lambda trace: Doubt(trace.quality.unmatched_ends),
        "They end no slice and are left out.",
    ),
    Check(
        "negative durations",
        CheckSeverity.DOUBT,
        lambda trace: Doubt(trace.quality.negative, len(trace.slices), _offender(trace, NEGATIVE)),
        "They count as 0.",
        ("kernels.dur_us", "ops.cpu_total_us"),
    ),
    Check(
        CLIPPED_CHECK,
        CheckSeverity.WRONG,
        clipped,
        "They end long after everything else and were cut at the end of the trace; their durations are wrong.",
        ("kernels.dur_us", "summary.value", "steps.gpu_busy_us"),
    ),
    Check(
        "overlapping slices",
        CheckSeverity.NOTE,
        overlaps,
        "On a thread slices must nest; these are drawn a row lower, and their time counts in no parent.",
    ),
    Check(
        "empty elements",
        CheckSeverity.NOTE,
        lambda trace: Doubt(trace.quality.empty, trace.events),
        "They are no events, such as {}, and are ignored.",
    ),
    Check("skipped phases", CheckSeverity.NOTE, skipped_phases, "They are not shown."),
    Check("packets not shown", CheckSeverity.NOTE, not_shown, "They are of other kinds: ui.perfetto.dev shows them."),
    Check(
        "packets lost",
        CheckSeverity.DOUBT,
        lambda trace: Doubt(trace.quality.losses) if trace.quality.packets else None,
        "The program that wrote the trace lost some of it: slices may be missing, or seem unfinished.",
        ("summary",),
    ),
    Check(
        "names lost",
        CheckSeverity.DOUBT,
        lambda trace: Doubt(trace.quality.lost_names, len(trace.slices)) if trace.quality.packets else None,
        "Their names were in packets that are not in the file.",
    ),
    Check(
        "unknown categories",
        CheckSeverity.NOTE,
        unknown_categories,
        "They are drawn on the timeline, and are in no pane.",
    ),
)
"""The checks of the file, in the order in which they are listed."""


DEFAULT_SHARED = 48 << 10
"""Bytes of shared memory per block above which Kineto's formula gives 0 % (R3.35)."""


NO_PROPERTIES = (
    "This file format has no deviceProperties, and so no peak rate and no occupancy of our own: --device names the GPU."
)


def no_properties(trace: Trace) -> Doubt | None:
    """Kernels of devices that the trace does not describe, and that take no description of others."""
    kernels = trace.slices.of_kind(Kind.KERNEL)
    if len(kernels) == 0:
        return None
    effect = NO_PROPERTIES if Loss.DEVICE_PROPERTIES in trace.quality.format_losses else ""
    return Doubt(int((device_index(trace, kernels) < 0).sum()), len(kernels), effect=effect)


def assumed_models(trace: Trace) -> Doubt | None:
    """Devices that ran kernels and whose model is that of others, or that of their size."""
    if not trace.devices or not (used := kernel_devices(trace)):
        return None
    assumed = {*assumed_devices(trace), *sized_devices(trace)}
    return Doubt(len(assumed), len(used), device_note(trace) if assumed else "")


def overridden_models(trace: Trace) -> Doubt | None:
    """Models in the file that `--device` replaced."""
    if not trace.devices or not kernel_devices(trace):
        return None
    given = trace.devices[0].overrides
    return Doubt(len(given), 0, device_note(trace) if given else "")


def nameless(trace: Trace) -> Doubt | None:
    """Devices that ran something and have no name, and whose model their size does not tell."""
    if not trace.devices:
        return None
    used = set(lane_numbers(trace).device[active_streams(trace)].tolist())
    described = {index: description_index(trace, index) for index in sorted(used)}
    nameless = {at for at, device in enumerate(trace.devices) if not device.name.strip() and not model_by_size(device)}
    without = [index for index, at in described.items() if at in nameless]
    return Doubt(len(without), len(used), f"device {without[0]}" if without else "")


def false_zeros(trace: Trace) -> Doubt | None:
    """Kernels whose recorded occupancy is 0 because they use more than 48 KiB of shared memory (R3.35)."""
    kernels = trace.slices.of_kind(Kind.KERNEL)
    event = trace.slices.event[kernels]
    estimates = trace.work_args.number("est. achieved occupancy %", event)
    given = int((estimates >= 0).sum())
    if given == 0:
        return None
    rows = kernels[(estimates == 0) & (trace.work_args.number("shared memory", event) > DEFAULT_SHARED)]
    return doubt_about(trace, rows, given)


def thread_grids(trace: Trace) -> Doubt | None:
    """Kernels whose launch gives its grid in threads (R2.7)."""
    kernels = trace.slices.of_kind(Kind.KERNEL)
    if len(kernels) == 0:
        return None
    calls = [call for call in map(trace.names.find, THREAD_GRIDS) if call >= 0]
    rows = kernels[np.isin(names_of(trace, links(trace).launch[kernels]), calls)]
    return doubt_about(trace, rows, len(kernels))


def cut_steps(trace: Trace) -> Doubt | None:
    """A first or last step with clearly less in it than those between (R3.6)."""
    every = steps(trace)
    if len(every) < 3:
        return None
    cut = np.flatnonzero(partial_steps(trace))
    return doubt_about(trace, every.row[cut], len(every))


def guessed_steps(trace: Trace) -> Doubt | None:
    """Steps whose beginning is a guess, from what repeats (R3.76)."""
    every = steps(trace)
    if len(every) == 0:
        return None
    return doubt_about(trace, every.row if every.is_guess else every.row[:0], len(every))


def odd_numbers(trace: Trace) -> Doubt | None:
    """Steps whose number does not follow that of the previous step on their thread."""
    every = steps(trace)
    if len(every) == 0:
        return None
    order = np.argsort(every.lane, kind="stable")
    number, lane = every.number[order], every.lane[order]
    odd = order[1:][(lane[1:] == lane[:-1]) & (number[1:] != number[:-1] + 1)]
    return doubt_about(trace, every.row[odd], len(every))


def side_by_side(trace: Trace) -> Doubt | None:
    """Steps that begin before the previous one has ended (R3.6)."""
    every = steps(trace)
    if len(every) == 0:
        return None
    over = np.flatnonzero(every.start[1:] < every.end[:-1]) + 1
    row = int(every.row[over[0]]) if len(over) else -1
    return Doubt(len(over), len(every), trace.name_of(row) if row >= 0 else "", row)


def no_memory(trace: Trace) -> Doubt | None:
    """Ops of a trace without allocator events."""
    doubt = _all_or_none(trace, len(trace.memory_args) > 0)
    is_lost = Loss.MEMORY_EVENTS in trace.quality.format_losses
    return replace(doubt, effect=NOT_IN_FORMAT) if doubt and is_lost else doubt


def _all_or_none(trace: Trace, there: bool) -> Doubt | None:
    """All ops where something is missing, none where it is there."""
    ops = len(op_rows(trace))
    if ops == 0:
        return None
    return Doubt(0) if there else Doubt(ops, ops)


_OF_STEPS = (
    "kind",
    "requests",
    "tokens",
    "start_us",
    "dur_us",
    "kernels",
    "copies",
    "gpu_busy_us",
    "gpu_span_us",
    "gpu_idle_us",
    "wait_before_us",
    "gpu_others_us",
    "launches",
    "cpu_ops",
    "view_ops",
    "occupancy_queries",
    "sync_us",
    "launch_delay_us",
    "gpu_start_us",
    "gpu_end_us",
    "kernel_us",
    "comm_kernels",
    "comm_us",
    "graph_replays",
    "kernels_in_graphs",
    "verdict",
    "idle_pct",
    "late_pct",
    "exposed_comm_us",
)
"""Columns of steps that depend on where a step begins and ends."""
RECORDING_CHECKS = (
    Check(
        "steps cut short",
        CheckSeverity.DOUBT,
        cut_steps,
        "Recording began or ended inside them: leave them out of averages.",
        ("steps.kernels", "steps.dur_us", "steps.gpu_busy_us"),
    ),
    Check(
        "steps are guessed",
        CheckSeverity.DOUBT,
        guessed_steps,
        "Steps begin where something repeats, and may really begin elsewhere: every number of a step is a guess.",
        tuple(f"steps.{name}" for name in _OF_STEPS)
        + tuple(f"{pane}.step" for pane in ("kernels", "launches", "gaps", "memory")),
    ),
    Check(
        "step numbers", CheckSeverity.NOTE, odd_numbers, "A step is known by its interval; its number is only a label."
    ),
    Check(
        "steps side by side",
        CheckSeverity.DOUBT,
        side_by_side,
        "Several threads run a loop each: what belongs to no one thread is in no step.",
        ("kernels.step", "launches.step", "steps.kernels"),
    ),
    Check(
        "device not described",
        CheckSeverity.DOUBT,
        no_properties,
        "Without deviceProperties there is no peak rate and no occupancy of our own.",
        ("kernels.occupancy_pct", "kernels.limiter", "kernels.waves", "kernels.bound", "occupancy.occupancy_pct"),
    ),
    Check(
        "device taken from --device",
        CheckSeverity.NOTE,
        overridden_models,
        "Occupancy and peak rates are those of the model that was asked for, not of the one in the file.",
        ("kernels.occupancy_pct", "kernels.limiter", "kernels.waves", "kernels.bound", "occupancy.occupancy_pct"),
    ),
    Check(
        "device assumed",
        CheckSeverity.NOTE,
        assumed_models,
        "Its model is that of all devices that are described, or the only one with its multiprocessors and memory.",
        ("kernels.occupancy_pct", "kernels.limiter", "kernels.waves", "kernels.bound", "occupancy.occupancy_pct"),
    ),
    Check(
        "device without a name",
        CheckSeverity.DOUBT,
        nameless,
        "Peak rates go by the name of the device.",
        ("kernels.bound", "summary.value"),
    ),
    Check(
        "occupancy of 0 % by mistake",
        CheckSeverity.NOTE,
        false_zeros,
        "The profiler prints 0 for every kernel with more than 48 KiB of shared memory per block.",
    ),
    Check(
        "grid in threads",
        CheckSeverity.NOTE,
        thread_grids,
        "This launch call of ROCm gives threads where others give blocks: they were divided by the block.",
    ),
    Check(
        "no shapes",
        CheckSeverity.NOTE,
        lambda trace: _all_or_none(trace, has_shapes(trace)),
        "Ops cannot be told apart by shape, and FLOPs and bytes are unknown: record_shapes=True.",
    ),
    Check(
        "no stack",
        CheckSeverity.NOTE,
        lambda trace: _all_or_none(trace, bool((trace.slices.kind == Kind.PYTHON).any())),
        "No op leads to a line of Python or a module: with_stack=True.",
    ),
    Check("no memory", CheckSeverity.NOTE, no_memory, "There is no allocator curve: profile_memory=True."),
)
"""The checks of the recording, in the order in which they are listed."""
