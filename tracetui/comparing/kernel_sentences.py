"""Sentences about kernels: how many there are, what was fused, what stayed the same and what else changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracetui.comparing.change_rows import FASTER, FUSED_INTO, GONE, NEW, SLOWER, SPLIT_INTO, Total
from tracetui.comparing.fairness import (
    WITHIN_NOISE,
    are_ranks,
    bare,
    clauses_behind,
    in_brackets,
    in_common,
    joined,
    listed,
    noise,
    per,
    per_units,
    time_sentence,
)
from tracetui.comparing.kernel_changes import KernelChanges, kernel_changes
from tracetui.comparing.match import SAME_PLACE
from tracetui.comparing.measures import CAUSE_HELP, is_generated, measures, recording_conditions
from tracetui.comparing.noise import BEYOND_NOISE, Change, Difference, PartGroup, groups_of_parts, is_mixed
from tracetui.comparing.side import CAPTURE, RANGE, RUN, STEP, Side, differ_in_length
from tracetui.comparing.work_sizes import unit_of_work, work_ratios
from tracetui.frozen import frozen
from tracetui.idle.scope_times import step_overlaps
from tracetui.idle.waits import KEYS, Cause
from tracetui.kernel_names import Family, decode
from tracetui.linking.groups import distinct
from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.quantities import Scale, counted, digits, how_much, rounded_percent, size, size_change, time_scale
from tracetui.model.trace import Kind
from tracetui.tables.step_table import COMMUNICATION, COMPUTE, IDLE, step_parts

Row = Mapping[str, Any]

MIN_COMMON_PERCENT = 50.0
"""Percent of a side's GPU time with a match, below which the shares are mentioned."""
MIN_CHANGE_SHARE = 0.05
"""Minimum change of a row, as a share of the GPU time of the slower side, to be mentioned."""
MAX_NAMED_KERNELS = 3
"""Maximum kernels named per sentence."""
MAX_NAMED_OPS = 5
"""Maximum operators named of those that one kernel replaced."""
MAX_WORD_CHARACTERS = 40
"""Maximum characters of an identifier that is shown as it is; longer ones are mangled names."""
MIN_SAME_GEMMS = 0.5
"""Minimum share of the GEMMs that are the same kernels, for the sentence that the compiler left them alone."""
_OTHERS = (FASTER, SLOWER, GONE, NEW)
_COUNTED = ("kernels", "copies")
_GEMM, _COLLECTIVE = Family.GEMM.name.lower(), Family.COMMUNICATION.name.lower()
_SUMS = ("aten::addmm", "aten::baddbmm", "aten::addbmm")
"""Operators that are a GEMM with an addition."""


@frozen(eq=True)
class KernelStory:
    """Sentences about GPU activities."""

    sentences: tuple[str, ...]
    saved_bytes: float = 0.0
    """Bytes saved by the fusions that are mentioned."""
    named_ops: frozenset[str] = frozenset()
    """Operators whose activities are mentioned as gone or new."""


def kernel_story(a: Side, b: Side, totals: Mapping[str, Total]) -> KernelStory:
    """The explanation of the GPU time; empty where one side has none, or where nothing changed."""
    changes = kernel_changes(a, b)
    rows: list[Row] = [{**row, "place": index} for index, row in enumerate(changes.table.rows())]
    if not any(row["calls_a"] for row in rows) or not any(row["calls_b"] for row in rows):
        return KernelStory(())
    least_a, least_b = (MIN_CHANGE_SHARE * sum(row[name] for row in rows) for name in ("a_us", "b_us"))
    large = [row for row in rows if row["a_us"] > least_a or row["b_us"] > least_b]
    fused = [row for row in large if (row["mark"], row["how"]) != (SPLIT_INTO, SAME_PLACE)]
    fused = [row for row in fused if row["mark"] in (FUSED_INTO, SPLIT_INTO)]
    resized = [row for row in large if row["mark"] not in (FUSED_INTO, SPLIT_INTO)]
    resized = [row for row in resized if row["calls_a"] and row["calls_b"] and row["calls_a"] != row["calls_b"]]
    fused, resized = fused[:MAX_NAMED_KERNELS], resized[:MAX_NAMED_KERNELS]
    dispatched, copies = _in_the_dispatcher(a, b, changes)
    named = {row["place"] for row in (*fused, *resized)}
    named |= {row["place"] for row in rows if row["mark"] == NEW and copies.issuperset(changes.rows_b[row["place"]])}
    others = [row for row in rows if row["place"] not in named and row["mark"] in _OTHERS]
    others = [row for row in others if abs(row["change_us"] or 0) > max(least_a, least_b)]
    if are_ranks(a, b):
        # Time in a collective says who waited, which another sentence says of both sides.
        others = [row for row in others if row["family"] != _COLLECTIVE]
    sentences = []
    if min(shares := in_common(rows)) < MIN_COMMON_PERCENT:
        first, second = map(rounded_percent, shares)
        sentences.append(f"Of A's GPU time {first} has a match in B, of B's {second} has one in A.")
    fusions = [_fusion(row, a, b, changes) for row in fused]
    sentences += _counts(a, b, totals, fusions, resized, others)
    sentences += _same_gemms(a, b, rows)
    sentences += [dispatched] if dispatched else []
    ops = {
        op
        for mark, side, slices in ((GONE, a, changes.rows_a), (NEW, b, changes.rows_b))
        for row in others
        if row["mark"] == mark
        for op in _owners(side, slices[row["place"]])
    }
    return KernelStory(tuple(sentences), -sum(row["change_bytes"] or 0.0 for row in fused), frozenset(ops))


def _owners(side: Side, rows: Int64) -> set[str]:
    """Names of the operators that launched some activities; an empty one for those without."""
    owners = distinct(links(side.trace).owner[rows]).tolist()
    return {side.trace.name_of(owner) if owner >= 0 else "" for owner in owners}


def _counts(
    a: Side,
    b: Side,
    totals: Mapping[str, Total],
    fusions: Sequence[str],
    resized: Sequence[Row],
    others: Sequence[Row],
) -> Iterator[str]:
    """The number of kernels, with the fusions, the kernels called more or less often, and other changes."""
    copies = totals["copies"].difference
    before, after = (sum(getattr(totals[name].difference, side).median for name in _COUNTED) for side in "ab")
    what = "Kernels and copies" if copies.a.median or copies.b.median else "Kernels"
    lead = f"{what}{per(a, b)} {before:,g} → {after:,g}" if before != after else ""
    fewer = sum(row["calls_a"] - row["calls_b"] for row in resized)
    is_larger = not fusions and fewer > (before - after) / 2 > 0
    scale = _scale_of(resized)
    rates = [
        f"{_name(row)} {row['calls_a']} → {row['calls_b']} calls ({scale.change(row['a_us'], row['b_us'])})"
        for row in resized
    ]
    changed = []
    scale = _scale_of(others)
    for mark in _OTHERS:
        some = [f"{_name(row)} ({_cost(row, scale)})" for row in others if row["mark"] == mark]
        changed += [f"{mark}: {listed(some, MAX_NAMED_KERNELS)}"] if some else []
    colon = ", fewer and larger:" if is_larger else ":"
    return clauses_behind(lead, ((colon, "", fusions), (colon, "", rates), (";", "GPU activity ", changed)))


def _scale_of(rows: Sequence[Row]) -> Scale:
    return time_scale(row[name] for row in rows for name in ("a_us", "b_us"))


def _cost(row: Row, scale: Scale) -> str:
    if row["mark"] in (GONE, NEW):
        return scale.one(row["a_us"] or row["b_us"])
    return scale.change(row["a_us"], row["b_us"])


def _name(row: Row) -> str:
    return _plain(str(row["short_name"] or row["name_a"] or row["name_b"]))


def _plain(name: str) -> str:
    """`Memcpy DtoD` of `Memcpy DtoD (Device -> Device)`."""
    return name.partition(" (")[0] if name.startswith("Memcpy ") else name


def _fusion(row: Row, a: Side, b: Side, changes: KernelChanges) -> str:
    """A fusion in words: `gelu and mul became K (149 → 89.4 µs, 101 MB less memory traffic)`.

    A kernel that is matched only by its position `runs where` others ran.
    """
    times = row["a_us"], row["b_us"]
    before, into = _kernels(a, changes.rows_a[row["place"]]), _kernels(b, changes.rows_b[row["place"]])
    is_fused, ops = row["mark"] == FUSED_INTO, [before]
    if is_fused:
        ops = [bare(op) for op in str(row["op"]).split(", ")] if row["op"] else []
    is_one = is_fused and row["calls_a"] == len(ops) and row["calls_b"] == 1
    aside = [] if is_one else [f"{row['calls_a']:,} → {counted(row['calls_b'], 'kernel')}"]
    aside += [time_scale(times).change(*times), WITHIN_NOISE if row["change"] == Change.WITHIN_NOISE.value else ""]
    moved = row["change_bytes"]
    aside.append(f"{size(-moved)} less memory traffic" if moved is not None and moved < 0 else "")
    replaced = joined(ops, MAX_NAMED_OPS) or before
    sentence = f"{into} runs where {replaced} ran" if row["how"] == SAME_PLACE else f"{replaced} became {into}"
    return sentence + in_brackets(*aside)


def _kernels(side: Side, rows: Int64) -> str:
    """Names of kernels: identifiers as they are, others decoded."""
    used, first = np.unique(side.trace.slices.name[rows], return_index=True)
    words = []
    for name in (side.trace.names[number] for number in used[np.argsort(first)].tolist()):
        is_word = is_generated(name) or (name.isidentifier() and len(name) <= MAX_WORD_CHARACTERS)
        words.append(name if is_word else decode(name).short)
    return joined(list(dict.fromkeys(words)))


def _same_gemms(a: Side, b: Side, rows: Sequence[Row]) -> Iterator[str]:
    """The sentence that torch.compile leaves GEMMs to the library (R3.52).

    Nothing where most of them are other kernels. Kernels that only finish a GEMM, as the sum of a split K, are none.
    """
    if recording_conditions(a).compiled == recording_conditions(b).compiled:
        return
    gemms = [row for row in rows if row["family"] == _GEMM and _is_gemm(row)]
    same = [row for row in gemms if row["name_a"] and row["name_a"] == row["name_b"]]
    count = sum(min(row["calls_a"], row["calls_b"]) for row in same)
    every = max(sum(row[calls] for row in gemms) for calls in ("calls_a", "calls_b"))
    if count == 0 or count < MIN_SAME_GEMMS * every:
        return
    library = "hipBLASLt" if any("Cijk_" in row["name_a"] for row in same) else "cuBLAS"
    if count < every:
        what = f"{count:,} of {every:,} GEMMs {'is the same kernel' if count == 1 else 'are the same kernels'}"
    else:
        what = "The GEMM is the same kernel" if count == 1 else f"All {count:,} GEMMs are the same kernels"
    yield f"{what}, as expected: the compiler calls {library} for {'it' if count == 1 else 'them'}."


def _is_gemm(row: Row) -> bool:
    """True for a row of GEMMs, by the first decoded name of a side."""
    name = str(row["name_a"] or row["name_b"]).split(" + ")[0]
    return decode(name, Kind.KERNEL).operation == "gemm"


def _in_the_dispatcher(a: Side, b: Side, changes: KernelChanges) -> tuple[str, frozenset[int]]:
    """The sentence on a GEMM and a sum that became one operator, which copies the addend and runs the same GEMM.

    With the slices of the copies of all such operators; empty without any.
    """
    trace, slices = b.trace, b.trace.slices
    rows_a, rows_b = (np.concatenate([np.empty(0, np.int64), *each]) for each in (changes.rows_a, changes.rows_b))
    before, kernels = (
        _owners(a, rows_a),
        {a.trace.names[name] for name in distinct(a.trace.slices.name[rows_a]).tolist()},
    )
    owner = links(trace).owner[rows_b]
    sentence, copy_rows = "", list[int]()
    for op in dict.fromkeys(owner[owner >= 0].tolist()):
        name, rows = trace.name_of(op), rows_b[owner == op]
        if name not in _SUMS or name in before:
            continue
        copies = rows[slices.kind[rows] == Kind.MEMCPY]
        names = {trace.name_of(row) for row in rows.tolist()} & kernels
        if len(copies) and any(decode(each, Kind.KERNEL).family is Family.GEMM for each in names):
            us = float(slices.dur[copies[0]]) / 1000
            copy = in_brackets(_plain(trace.name_of(int(copies[0]))), time_scale((us,)).one(us))
            first = f"{bare(name)} copies first{copy}, then runs the same GEMM: fused in the dispatcher only."
            sentence = sentence or first
            copy_rows += copies.tolist()
    return sentence, frozenset(copy_rows)


# Sentences about the times of two sides, GPU and CPU, and about sides whose parts run different things.

MIXED_MEASURES = (
    ("gpu_span_us", "GPU{}, from the first kernel to the last"),
    ("gpu_busy_us", "GPU time{}"),
    ("cpu_us", "CPU time{}"),
)
"""Times listed for every group of parts."""
MAX_NAMED_GROUPS = 3
"""Maximum groups of parts listed per sentence."""


def mixed_sentences(a: Side, b: Side, names: tuple[str, str] = ("A", "B")) -> Iterator[str]:
    """For a side whose parts run different things the sentence that says so, and which parts could be compared."""
    for name, side in zip(names, (a, b), strict=True):
        if is_mixed(side):
            part_groups = groups_of_parts(side)
            what = "kernels" if side.uses_gpu else "operators"
            counts = [f"{group.count:,}" for group in part_groups]
            each = f"{joined(counts, MAX_NAMED_GROUPS)} {what}"
            each += ", and not the same" if len(set(counts)) < len(counts) else ""
            scopes = " or ".join(_scope(side, group) for group in part_groups[:2])
            yield f"The {side.part_kind}s of {name} differ in what they run ({each}): compare {scopes}."


def _scope(side: Side, group: PartGroup) -> str:
    """Scope of the first part of a group on the command line."""
    number = int(side.number[group.parts[0]])
    if side.part_kind == RANGE:
        return f"#{side.scope}"
    return f"#{side.scope}[{number}]" if side.part_kind == RUN else f"#{number}"


def mixed_times(a: Side, b: Side) -> Iterator[str]:
    """The median times of each group of parts, without a judgement."""
    for measure, words in MIXED_MEASURES:
        medians = {}
        for name, side in (("A", a), ("B", b)):
            values, part_groups = measures(side)[measure].values, groups_of_parts(side)[:MAX_NAMED_GROUPS]
            medians[name] = [float(np.median(values[group.parts])) for group in part_groups]
        known = [value for each in medians.values() for value in each if value == value]
        if known:
            scale = time_scale(known)
            sides = [
                f"{name} {joined([digits(us / scale.factor) if us == us else 'unknown' for us in each])}"
                for name, each in medians.items()
            ]
            yield f"{words.format(per(a, b))}, in {scale.unit}: {', '.join(sides)}."


TotalsByName = Mapping[str, Total]

MIN_IDLE_PERCENT = 25.0
"""Idle percent from which the GPU's span says more than its busy time."""
MIN_IDLE_CHANGE_POINTS = 2.0
"""Minimum change of the idle share, in percentage points, to be mentioned."""
MIN_WAIT_SHARE = 0.1
"""Minimum share of the GPU wait before a part, of that wait and the GPU span, for its change to be mentioned."""
MIN_PART_SHARE = 0.5
"""Minimum share of the change of a period that a part of it explains."""
MIN_SYNC_SHARE = 0.1
"""Minimum share of a step spent waiting for the GPU, for its whole duration to be mentioned."""
MAX_UNKNOWN_SHARE = 0.2
"""Maximum share of idle time without a known cause, for a cause to be named."""
MAIN_CAUSE_SHARES = (0.5, 1.1)
"""Range of a main cause: its change as a share of the change of the idle time."""
MAX_UNEXPLAINED_TRAFFIC = 0.1
"""Maximum share of the change of memory traffic not explained by fusions, for it to be left out."""


def verdict_sentences(a: Side, b: Side, totals: TotalsByName, names: tuple[str, str] = ("A", "B")) -> list[str]:
    """The changes of GPU time and CPU time, GPU time first where there is any.

    Of steps whose work does not explain the change of their periods that change comes before, and what explains it.
    """
    if a.part_kind != b.part_kind:
        times = (("GPU time", _of(totals, "gpu_busy_us")), ("CPU time", _of(totals, "cpu_us")))
        return [_of_other_kinds(a, b, what, each, names) for what, each in times if each]
    period = _of(totals, "period_us")
    if period is None or gpu_measure(totals) != "period_us":
        return _work_sentences(a, b, totals, names)
    sentence = time_sentence(f"Period{per(a, b)}", period, _parts(a), True, unit_of_work(a, b, totals))
    first = f"{sentence}{_part_of_change(a, b, period)}."
    return [first, *_bottleneck(a, b, totals), *_work_sentences(a, b, totals, names, is_second=True)]


def _work_sentences(
    a: Side, b: Side, totals: TotalsByName, names: tuple[str, str], is_second: bool = False
) -> list[str]:
    """The changes of GPU time and CPU time of sides of one kind."""
    measure, cpu = _measure_of_work(totals), _of(totals, "cpu_us")
    gpu, parts, on_gpu = _of(totals, measure), _parts(a), (a.uses_gpu, b.uses_gpu)
    is_judged = not differ_in_length(a, b) and all(on_gpu) == any(on_gpu)
    unit, units = unit_of_work(a, b, totals), work_ratios(a, b, totals)
    if cpu is None:
        return []
    by_units = [f"GPU time by the work of a step: {per_units(gpu, units)}."] if gpu and len(units) > 1 else []
    by_units = [*_overlapping(a, b, totals, names), *by_units]
    on_cpu = f"{time_sentence(f'CPU time{per(a, b)}', cpu, parts, is_judged, unit, gpu is not None)}."
    if gpu is None:
        return [on_cpu]
    if is_judged and unit is None and gpu.change is Change.SAME and cpu.change in BEYOND_NOISE:
        medians = (gpu.a.median, gpu.b.median, cpu.a.median, cpu.b.median)
        scale = time_scale((*medians, cpu.limit))
        sides = f"GPU {scale.both(*medians[:2])}, CPU {scale.change(*medians[2:])}{per(a, b)}"
        return [f"GPU the same, CPU {how_much(*medians[2:])}: {sides}{in_brackets(noise(cpu, scale, a.part_kind))}."]
    if measure == "gpu_busy_us":
        sentence = time_sentence(f"GPU time{per(a, b)}", gpu, parts, is_judged, unit, is_second)
        return [f"{sentence}.", on_cpu, *by_units]
    subject = f"GPU{per(a, b)}, from the first kernel to the last,"
    span = time_sentence(subject, gpu, parts, is_judged, unit, is_second)
    busy, others = totals["gpu_busy_us"].difference, _of(totals, "gpu_others_us")
    is_alone = others is None or max(others.a.median, others.b.median) == 0
    word = "busy" if is_alone else "busy with its own work"
    times_busy = time_scale((gpu.a.median, gpu.b.median)).change(busy.a.median, busy.b.median)
    return [f"{span}; {word} for {times_busy} of that.", on_cpu, *by_units]


def _overlapping(a: Side, b: Side, totals: TotalsByName, names: tuple[str, str]) -> Iterator[str]:
    """The sentence about steps that overlap on the GPU, and on their period; none otherwise."""
    period = _of(totals, "period_us")
    sides = [
        name
        for name, side in zip(names, (a, b), strict=True)
        if side.part_kind == STEP and step_overlaps(side.trace).any()
    ]
    if sides and period:
        change = time_scale((period.a.median, period.b.median)).change(period.a.median, period.b.median)
        yield (
            f"Steps of {joined(sides)} overlap on the GPU, so that the work and the idle time of a step do not add up "
            f"to its period, {change}."
        )


def _of(totals: TotalsByName, name: str) -> Difference | None:
    """A measure that both sides have."""
    total = totals.get(name)
    return total.difference if total and total.difference.change is not Change.UNKNOWN else None


_PART_WORDS = {
    COMPUTE: "GPU work in it, that of other steps too",
    COMMUNICATION: "exposed communication",
    IDLE: "GPU idle time",
}


def median_parts(side: Side) -> dict[str, float]:
    """Median time in µs of the parts of a period over the steps that a side is."""
    index = side.step_indices
    return {name: float(np.nanmedian(times[index])) for name, times in step_parts(side.trace).items()}


def _part_of_change(a: Side, b: Side, period: Difference) -> str:
    """A clause on the part of a period that holds most of its change; empty where none holds half of it."""
    before, after = median_parts(a), median_parts(b)
    name = max(before, key=lambda each: (after[each] - before[each]) * period.delta)
    if (after[name] - before[name]) / period.delta < MIN_PART_SHARE:
        return ""
    change = time_scale((before[name], after[name])).change(before[name], after[name])
    return f"; most of the change is {_PART_WORDS[name]}, {change}"


def gpu_measure(totals: TotalsByName) -> str:
    """Busy time where the GPU is kept busy, else the span from first to last activity.

    Of steps the period, where its change is not that of their work.
    """
    work, period = _measure_of_work(totals), _of(totals, "period_us")
    own = _of(totals, work)
    if period is None or own is None or min(period.a.median, period.b.median) == 0:
        return work
    if period.change in BEYOND_NOISE and own.delta / period.delta < MIN_PART_SHARE:
        return "period_us"
    return work


def _measure_of_work(totals: TotalsByName) -> str:
    span, *work = (_of(totals, name) for name in ("gpu_span_us", "gpu_busy_us", "gpu_others_us"))
    if span is None:
        return "gpu_busy_us"
    for side in ("a", "b"):
        whole, filled = getattr(span, side).median, sum(getattr(each, side).median for each in work if each)
        if whole > 0 and 100 * (1 - filled / whole) >= MIN_IDLE_PERCENT:
            return "gpu_span_us"
    return "gpu_busy_us"


def _parts(side: Side) -> str:
    """The parts of a side in words."""
    return "the parts" if side.part_kind == CAPTURE else f"the {side.part_kind}s"


def _of_other_kinds(a: Side, b: Side, what: str, each: Difference, names: tuple[str, str]) -> str:
    """Times of parts of different kinds, without a judgement."""
    scale = time_scale((each.a.median, each.b.median))
    one, other = (
        f"{'the' if side.part_kind == CAPTURE else 'a'} {side.part_kind} of {name}"
        for side, name in zip((a, b), names, strict=True)
    )
    return f"{what}: {scale.one(each.a.median)} for {one}, {scale.one(each.b.median)} for {other}."


def further_sentences(a: Side, b: Side, totals: TotalsByName, saved: float) -> Iterator[str]:
    """Waits, graphs, idle time with its cause, bottleneck and memory traffic.

    `saved` is the number of bytes that fusions of other sentences save.
    """
    is_judged = not differ_in_length(a, b)
    whole, own = _of(totals, "dur_us"), _of(totals, "cpu_us")
    if (
        whole
        and own
        and any(
            dur > 0 and (dur - cpu) / dur > MIN_SYNC_SHARE
            for dur, cpu in ((whole.a.median, own.a.median), (whole.b.median, own.b.median))
        )
    ):
        subject = f"The {a.part_kind} as a whole, waits for the GPU included,"
        yield f"{time_sentence(subject, whole, _parts(a), is_judged, unit_of_work(a, b, totals), True)}."
    left, right = recording_conditions(a), recording_conditions(b)
    launches = _of(totals, "launches")
    # Nothing where not all launches were recorded.
    if left.graphs != right.graphs and launches and not totals["launches"].gap:
        change = f"{launches.a.median:,g} → {launches.b.median:,g} launches{per(a, b)}"
        yield f"{'A' if left.graphs else 'B'} replays CUDA graphs: {change}."
    if gpu_measure(totals) != "period_us":
        yield from _bottleneck(a, b, totals)
    wait, span = _of(totals, "wait_before_us"), _of(totals, "gpu_span_us")
    if wait and span and totals["wait_before_us"].change in BEYOND_NOISE:
        before, after = wait.a.median, wait.b.median
        if any(
            each > MIN_WAIT_SHARE * (each + length)
            for each, length in ((before, span.a.median), (after, span.b.median))
        ):
            change = time_scale((before, after)).change(before, after)
            which = "a part" if a.part_kind == b.part_kind == STEP else "no part"
            yield f"GPU wait{per(a, b)} before its first kernel, which is {which} of the idle time: {change}."
    moved = _of(totals, "moved_bytes")
    if is_judged and moved and totals["moved_bytes"].change in BEYOND_NOISE:
        before, after = moved.a.median, moved.b.median
        if abs(-moved.delta - saved) > MAX_UNEXPLAINED_TRAFFIC * abs(moved.delta):
            change = f"{size_change(before, after)}: {how_much(before, after)}"
            yield f"Minimum memory traffic{per(a, b)}, from tensor shapes, {change}."


def _bottleneck(a: Side, b: Side, totals: TotalsByName) -> Iterator[str]:
    """The change of the verdict with the idle shares that it rests on, else of the idle share alone; and its cause."""
    left, right = recording_conditions(a), recording_conditions(b)
    cause, share = _main_cause(totals), _of(totals, "gpu_idle_pct")
    of_steps = a.part_kind == b.part_kind == STEP
    if left.verdict and right.verdict and left.verdict != right.verdict:
        # Of steps the share that the table has, of a capture that on which the verdict rests.
        idle = (share.a.median, share.b.median) if of_steps and share else (left.idle_pct, right.idle_pct)
        shares, whole = " → ".join(map(rounded_percent, idle)), "period" if of_steps and share else "time"
        line = f"Bottleneck: {left.verdict} → {right.verdict}; the GPU idle for {shares} of the {whole}"
    else:
        if share is None or share.change not in BEYOND_NOISE or abs(share.delta) < MIN_IDLE_CHANGE_POINTS:
            return
        if cause is None and gpu_measure(totals) != "gpu_busy_us":
            # The first sentence, about the span, says the same.
            return
        change = f"{rounded_percent(share.a.median)} → {rounded_percent(share.b.median)}"
        whole = "period" if of_steps else "time from the first kernel to the last"
        line = f"The GPU is idle for {change} of the {whole}"
    if cause:
        times = cause.difference.a.median, cause.difference.b.median
        word = cause.help.removeprefix(CAUSE_HELP).strip(" .")
        line += f"; most of the change is attributed to {word} ({time_scale(times).change(*times)})"
    yield f"{line}."


_UNKNOWN = (KEYS[Cause.UNKNOWN], KEYS[Cause.SCHEDULING])
"""Measures of idle time of which nothing tells why it was idle."""


def _main_cause(totals: TotalsByName) -> Total | None:
    """The main cause of the change of the idle time; None where too much idle time has no known cause."""
    idle = _of(totals, "gpu_idle_us")
    if idle is None:
        return None
    causes = {name: each for name, each in totals.items() if each.help.startswith(CAUSE_HELP)}
    for side in ("a", "b"):
        known = {name: getattr(each.difference, side).median for name, each in causes.items()}
        if sum(known.get(each, 0) for each in _UNKNOWN) > MAX_UNKNOWN_SHARE * sum(known.values()):
            return None
    whole = idle.delta
    low, high = (share * abs(whole) for share in MAIN_CAUSE_SHARES)
    changed = [each for each in causes.values() if each.change in BEYOND_NOISE]
    changed = [each for each in changed if each.difference.delta * whole > 0]
    changed = [each for each in changed if low <= abs(each.difference.delta) <= high]
    return max(changed, key=lambda each: abs(each.difference.delta), default=None)
