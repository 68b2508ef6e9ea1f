"""Sentences about kernels: how many there are, what was fused, what stayed the same and what else changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.comparing.calls import is_generated, recording_conditions
from tracetui.comparing.change_rows import FASTER, FUSED_INTO, GONE, NEW, SLOWER, SPLIT_INTO, Total
from tracetui.comparing.fairness import (
    WITHIN_NOISE,
    are_ranks,
    bare,
    in_brackets,
    in_common,
    joined,
    listed,
    noise,
    per,
    time_sentence,
)
from tracetui.comparing.kernel_changes import kernel_changes
from tracetui.comparing.match import SAME_PLACE
from tracetui.comparing.measures import CAUSE_HELP, measures
from tracetui.comparing.noise import BEYOND_NOISE, Change, Difference, PartGroup, groups_of_parts, is_mixed
from tracetui.comparing.side import CAPTURE, RANGE, RUN, Side, differ_in_length
from tracetui.kernel_names import Family, decode
from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.quantities import Scale, counted, digits, how_much, rounded_percent, size, size_change, time_scale
from tracetui.model.trace import Kind

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
_OTHERS = (FASTER, SLOWER, GONE, NEW)
_GEMM, _COLLECTIVE = Family.GEMM.name.lower(), Family.COMMUNICATION.name.lower()
_SUMS = ("aten::addmm", "aten::baddbmm", "aten::addbmm")
"""Operators that a matrix product with an addition becomes."""


@dataclass(frozen=True)
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
    rows: list[Row] = [
        {**row, "place": index, "from": _kernels(a, changes.rows_a[index]), "into": _kernels(b, changes.rows_b[index])}
        for index, row in enumerate(changes.table.rows())
    ]
    if not any(row["calls_a"] for row in rows) or not any(row["calls_b"] for row in rows):
        return KernelStory(())
    shares = in_common(rows)
    telling = _telling(rows)
    fused = [row for row in telling if row["mark"] == FUSED_INTO or _is_split(row)][:MAX_NAMED_KERNELS]
    more = [row for row in telling if row["mark"] not in (FUSED_INTO, SPLIT_INTO) and _is_resized(row)][
        :MAX_NAMED_KERNELS
    ]
    dispatched, copies = _in_the_dispatcher(a, b)
    named = {row["place"] for row in (*fused, *more)}
    named |= {row["place"] for row in rows if row["mark"] == NEW and copies.issuperset(changes.rows_b[row["place"]])}
    others = _weighty([row for row in rows if row["place"] not in named], rows)
    if are_ranks(a, b):
        # Time in a collective says who waited, which is told of both sides.
        others = [row for row in others if row["family"] != _COLLECTIVE]
    sentences = [
        *_common_words(shares),
        *_counts(a, b, totals, fused, more, others),
        *_same_products(a, b, rows),
        *([dispatched] if dispatched else []),
    ]
    ops = {_owner(a, row) for each in others if each["mark"] == GONE for row in changes.rows_a[each["place"]].tolist()}
    ops |= {_owner(b, row) for each in others if each["mark"] == NEW for row in changes.rows_b[each["place"]].tolist()}
    saved = sum(row["saved_bytes"] or 0.0 for row in fused)
    return KernelStory(tuple(sentences), saved, frozenset(ops))


def _common_words(shares: tuple[float, float]) -> Iterator[str]:
    """The sentence that little of the GPU time has a match: these may be two programs."""
    if min(shares) < MIN_COMMON_PERCENT:
        first, second = map(rounded_percent, shares)
        yield f"Of A's GPU time {first} has a match in B, of B's {second} has one in A."


def _telling(rows: Sequence[Row]) -> list[Row]:
    """Rows with enough of the GPU time of either side to matter."""
    least = [MIN_CHANGE_SHARE * sum(row[name] for row in rows) for name in ("a_us", "b_us")]
    return [row for row in rows if row["a_us"] > least[0] or row["b_us"] > least[1]]


def _weighty(left: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Rows of `left` that changed by enough to matter."""
    least = MIN_CHANGE_SHARE * max(sum(row["a_us"] or 0 for row in rows), sum(row["b_us"] or 0 for row in rows))
    return [row for row in left if row["mark"] in _OTHERS and abs(row["saves_us"] or 0) > least]


def _kernels(side: Side, rows: Int64) -> str:
    """Names of kernels: identifiers as they are, others decoded."""
    used, first = np.unique(side.trace.slices.name[rows], return_index=True)
    names = [side.trace.names[name] for name in used[np.argsort(first)].tolist()]
    return joined(list(dict.fromkeys(map(_spelled, names))))


def _spelled(name: str) -> str:
    return (
        name if is_generated(name) or (name.isidentifier() and len(name) <= MAX_WORD_CHARACTERS) else decode(name).short
    )


def _counts(
    a: Side, b: Side, totals: Mapping[str, Total], fused: Sequence[Row], more: Sequence[Row], others: Sequence[Row]
) -> Iterator[str]:
    """The number of kernels, with what was fused, what is called less often, and what else changed."""
    names = ["kernels", "copies"]
    before, after = (sum(getattr(totals[name].difference, side).median for name in names) for side in "ab")
    copies = totals["copies"].difference
    what = "Kernels and copies" if copies.a.median or copies.b.median else "Kernels"
    lead = f"{what}{per(a, b)} {before:,g} → {after:,g}" if before != after else ""
    fewer = sum(row["calls_a"] - row["calls_b"] for row in more)
    larger = not fused and fewer > (before - after) / 2 > 0
    reasons = [list(map(_fusion, fused)), _rates(more), _changed(others)]
    for each in (each for each in reasons if each):
        if lead:
            colon = ";" if each is reasons[2] else ", fewer and larger:" if larger else ":"
            yield f"{lead}{colon} {'; '.join(each)}."
            lead = ""
        else:
            yield f"{'GPU activity ' if each is reasons[2] else ''}{'; '.join(each)}."
    if lead:
        yield f"{lead}."


def _fusion(row: Row) -> str:
    """What became what: `gelu and mul became K (149 → 89.4 µs, 101 MB less memory traffic)`.

    A kernel that is matched only by its position `runs where` others ran.
    """
    times = row["a_us"], row["b_us"]
    ops = _ops(row) if row["mark"] == FUSED_INTO else [row["from"]]
    aside = [f"{row['calls_a']:,} → {counted(row['calls_b'], 'kernel')}"]
    if row["mark"] == FUSED_INTO and row["calls_a"] == len(ops) and row["calls_b"] == 1:
        aside = []
    aside += [time_scale(times).change(*times), WITHIN_NOISE if row["change"] == Change.WITHIN_NOISE.value else ""]
    saved = row["saved_bytes"]
    aside.append(f"{size(saved)} less memory traffic" if saved is not None and saved > 0 else "")
    subject = joined(ops) if 0 < len(ops) <= MAX_NAMED_OPS else listed(ops, MAX_NAMED_OPS) or row["from"]
    verb = "runs where" if row["how"] == SAME_PLACE else "became"
    if row["how"] == SAME_PLACE:
        return f"{row['into']} {verb} {subject} ran{in_brackets(*aside)}"
    return f"{subject} {verb} {row['into']}{in_brackets(*aside)}"


def _rates(rows: Sequence[Row]) -> list[str]:
    """Kernels whose number of calls changed: `layer_norm 16 → 1 calls (96.0 → 43.0 µs)`."""
    scale = time_scale(row[name] for row in rows for name in ("a_us", "b_us"))
    return [
        f"{_name(row)} {row['calls_a']} → {row['calls_b']} calls ({scale.change(row['a_us'], row['b_us'])})"
        for row in rows
    ]


def _is_split(row: Row) -> bool:
    """Whether one kernel became several, matched by more than its position."""
    return bool(row["mark"] == SPLIT_INTO and row["how"] != SAME_PLACE)


def _is_resized(row: Row) -> bool:
    return bool(row["calls_a"] and row["calls_b"] and row["calls_a"] != row["calls_b"])


def _same_products(a: Side, b: Side, rows: Sequence[Row]) -> Iterator[str]:
    """The sentence that torch.compile leaves matrix products to the library (R3.52)."""
    if recording_conditions(a).compiled == recording_conditions(b).compiled:
        return
    same = [row for row in rows if row["family"] == _GEMM and row["name_a"] and row["name_a"] == row["name_b"]]
    count = sum(min(row["calls_a"], row["calls_b"]) for row in same)
    if count == 0:
        return
    library = "hipBLASLt" if any("Cijk_" in row["name_a"] for row in same) else "cuBLAS"
    what = "The GEMM is the same kernel" if count == 1 else f"{count:,} GEMMs are the same kernels"
    yield f"{what}, as expected: the compiler calls {library} for {'it' if count == 1 else 'them'}."


def _in_the_dispatcher(a: Side, b: Side) -> tuple[str, frozenset[int]]:
    """A product and a sum that became one operator, which copies the addend and runs the same product.

    With the slices of these copies.
    """
    changes = kernel_changes(a, b)
    before = {_owner(a, row) for rows in changes.rows_a for row in rows.tolist()}
    names = {a.trace.name_of(row) for rows in changes.rows_a for row in rows.tolist()}
    after: dict[int, list[int]] = {}
    for row in np.concatenate([np.empty(0, np.int64), *changes.rows_b]).tolist():
        after.setdefault(int(links(b.trace).owner[row]), []).append(row)
    said, copy_rows = "", list[int]()
    for owner, rows in after.items():
        name = b.trace.name_of(owner) if owner >= 0 else ""
        if name not in _SUMS or name in before:
            continue
        copies = [row for row in rows if b.trace.slices.kind[row] == Kind.MEMCPY]
        if copies and any(b.trace.name_of(row) in names and _is_product(b, row) for row in rows):
            us = float(b.trace.slices.dur[copies[0]]) / 1000
            copy = in_brackets(_plain(b.trace.name_of(copies[0])), time_scale((us,)).one(us))
            said = said or f"{bare(name)} copies first{copy}, then runs the same GEMM: fused in the dispatcher only."
            copy_rows += copies
    return said, frozenset(copy_rows)


def _owner(side: Side, row: int) -> str:
    owner = int(links(side.trace).owner[row])
    return side.trace.name_of(owner) if owner >= 0 else ""


def _is_product(side: Side, row: int) -> bool:
    return decode(side.trace.name_of(row), Kind.KERNEL).family is Family.GEMM


def _changed(others: Sequence[Row]) -> list[str]:
    """Other changes by mark: `gone: cat (13.0 µs)`."""
    scale = time_scale(row[name] for row in others for name in ("a_us", "b_us"))
    said = []
    for mark in _OTHERS:
        some = [_change(row, scale) for row in others if row["mark"] == mark]
        said += [f"{mark}: {listed(some, MAX_NAMED_KERNELS)}"] if some else []
    return said


def _change(row: Row, scale: Scale) -> str:
    if row["mark"] in (GONE, NEW):
        return f"{_name(row)} ({scale.one(row['a_us'] or row['b_us'])})"
    return f"{_name(row)} ({scale.change(row['a_us'], row['b_us'])})"


def _name(row: Row) -> str:
    return _plain(str(row["short_name"] or row["name_a"] or row["name_b"]))


def _plain(name: str) -> str:
    """`Memcpy DtoD` of `Memcpy DtoD (Device -> Device)`."""
    return name.partition(" (")[0] if name.startswith("Memcpy ") else name


def _ops(row: Row) -> list[str]:
    """The operators of a row without their namespace."""
    return [bare(op) for op in str(row["op"]).split(", ")] if row["op"] else []


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
    """Sides whose parts run different things, and which parts could be compared."""
    for name, side in zip(names, (a, b), strict=True):
        if is_mixed(side):
            part_groups = groups_of_parts(side)
            what = "kernels" if len(side.activities()[0]) else "operators"
            counts = [f"{group.count:,}" for group in part_groups]
            each = f"{joined(counts) if len(counts) <= MAX_NAMED_GROUPS else listed(counts, MAX_NAMED_GROUPS)} {what}"
            if len(set(counts)) < len(counts):
                each = f"{each}, and not the same"
            scopes = " or ".join(_scope(side, group) for group in part_groups[:2])
            yield f"The {side.part_kind}s of {name} differ in what they run ({each}): compare {scopes}."


def mixed_times(a: Side, b: Side) -> Iterator[str]:
    """The times of each group of parts, without a judgement."""
    for measure, words in MIXED_MEASURES:
        values = {name: list(_medians(side, measure)) for name, side in (("A", a), ("B", b))}
        known = [value for each in values.values() for value in each if value == value]
        if known:
            scale = time_scale(known)
            sides = [f"{name} {joined([_number(us / scale.factor) for us in each])}" for name, each in values.items()]
            yield f"{words.format(per(a, b))}, in {scale.unit}: {', '.join(sides)}."


def _medians(side: Side, measure: str) -> Iterator[float]:
    """Median of each group of parts; NaN where unknown."""
    values = measures(side)[measure].values
    for group in groups_of_parts(side)[:MAX_NAMED_GROUPS]:
        mine = values[group.parts]
        yield float(np.median(mine))


def _number(value: float) -> str:
    return digits(value) if value == value else "unknown"


def _scope(side: Side, group: PartGroup) -> str:
    """Scope of the first part of a group on the command line."""
    number = int(side.number[group.parts[0]])
    if side.part_kind == RANGE:
        return f"#{side.scope}"
    return f"#{side.scope}[{number}]" if side.part_kind == RUN else f"#{number}"


TotalsByName = Mapping[str, Total]

MIN_IDLE_PERCENT = 25.0
"""Idle percent from which the GPU's span says more than its busy time."""
MIN_IDLE_CHANGE_POINTS = 2.0
"""Minimum change of the idle share, in percentage points, to be mentioned."""
MIN_WAIT_SHARE = 0.1
"""Minimum share of the GPU wait before a part, of that wait and the GPU span, for its change to be mentioned."""
MIN_SYNC_SHARE = 0.1
"""Minimum share of a step spent waiting for the GPU, for its whole duration to be mentioned."""
MAX_UNKNOWN_SHARE = 0.2
"""Maximum share of idle time without a known cause, for a cause to be named."""
MAIN_CAUSE_SHARES = (0.5, 1.1)
"""Range of a main cause: its change as a share of the change of the idle time."""
MAX_UNEXPLAINED_TRAFFIC = 0.1
"""Maximum share of the change of memory traffic not explained by fusions, for it to be left out."""


def verdict_sentences(a: Side, b: Side, totals: TotalsByName, names: tuple[str, str] = ("A", "B")) -> list[str]:
    """The changes of GPU time and CPU time, GPU time first where there is any."""
    gpu, cpu = _of(totals, _gpu_measure(totals)), _of(totals, "cpu_us")
    if a.part_kind != b.part_kind:
        times = {"GPU time": _of(totals, "gpu_busy_us"), "CPU time": cpu}
        return [_beside(a, b, what, each, names) for what, each in times.items() if each]
    aside, parts, is_judged = _one_each(a, b), _parts(a), not differ_in_length(a, b)
    if gpu is None or cpu is None:
        return [f"{time_sentence(f'CPU time{per(a, b)}', cpu, parts, aside, is_judged)}."] if cpu else []
    if is_judged and gpu.change is Change.SAME and cpu.change in BEYOND_NOISE:
        return [_cpu_alone(gpu, cpu, per(a, b), aside)]
    on_cpu = time_sentence(f"CPU time{per(a, b)}", cpu, parts, is_judged=is_judged)
    return [_gpu(totals, gpu, per(a, b), parts, aside, is_judged), f"{on_cpu}."]


def further_sentences(a: Side, b: Side, totals: TotalsByName, saved: float) -> Iterator[str]:
    """Waits, idle time with its cause, bottleneck and memory traffic.

    `saved` is the number of bytes that fusions are already said to save.
    """
    if _waits(totals):
        whole = time_sentence(
            f"The {a.part_kind} as a whole, waits for the GPU included,",
            totals["dur_us"].difference,
            _parts(a),
            "",
            not differ_in_length(a, b),
        )
        yield f"{whole}."
    yield from _graphs(a, b, totals, per(a, b))
    yield from _idle(totals)
    yield from _wait_before(totals, per(a, b))
    left, right = recording_conditions(a).verdict, recording_conditions(b).verdict
    if left and right and left != right:
        yield f"Bottleneck: {left} → {right}."
    if not differ_in_length(a, b):
        yield from _traffic(totals, per(a, b), saved)


def _parts(side: Side) -> str:
    """The parts of a side in words."""
    return "the parts" if side.part_kind == CAPTURE else f"the {side.part_kind}s"


def _one_each(a: Side, b: Side) -> str:
    """Why noise is unknown, where neither side has two parts."""
    return f"one {a.part_kind} each, noise unknown" if len(a) == len(b) == 1 else ""


def _beside(a: Side, b: Side, what: str, each: Difference, names: tuple[str, str]) -> str:
    """Times of parts of different kinds, without a judgement."""
    scale = time_scale((each.a.median, each.b.median))
    one, other = f"{_one_of(a)} {names[0]}", f"{_one_of(b)} {names[1]}"
    return f"{what}: {scale.one(each.a.median)} for {one}, {scale.one(each.b.median)} for {other}."


def _one_of(side: Side) -> str:
    return f"the {side.part_kind} of" if side.part_kind == CAPTURE else f"a {side.part_kind} of"


def _cpu_alone(gpu: Difference, cpu: Difference, per: str, aside: str) -> str:
    """The sentence where the GPU time is unchanged and the CPU time is not."""
    scale = time_scale(
        (*(each.median for each in (gpu.a, gpu.b, cpu.a, cpu.b)), cpu.noise if cpu.noise == cpu.noise else 0)
    )
    times = f"GPU {scale.both(gpu.a.median, gpu.b.median)}, CPU {scale.change(cpu.a.median, cpu.b.median)}{per}"
    return (
        f"GPU the same, CPU {how_much(cpu.a.median, cpu.b.median)}: {times}{in_brackets(noise(cpu, scale) or aside)}."
    )


def _of(totals: TotalsByName, name: str) -> Difference | None:
    """A measure that both sides have."""
    found = totals.get(name)
    return found.difference if found and found.difference.change is not Change.UNKNOWN else None


def _gpu_measure(totals: TotalsByName) -> str:
    """Busy time where the GPU is kept busy, else the span from first to last activity."""
    idle = _of(totals, "gpu_idle_pct")
    return "gpu_span_us" if idle and max(idle.a.median, idle.b.median) >= MIN_IDLE_PERCENT else "gpu_busy_us"


def _gpu(totals: TotalsByName, gpu: Difference, per: str, parts: str, aside: str, is_judged: bool) -> str:
    if _gpu_measure(totals) == "gpu_busy_us":
        return f"{time_sentence(f'GPU time{per}', gpu, parts, aside, is_judged)}."
    busy = totals["gpu_busy_us"].difference
    first = time_sentence(f"GPU{per}, from the first kernel to the last,", gpu, parts, aside, is_judged)
    scale = time_scale((gpu.a.median, gpu.b.median))
    others = _of(totals, "gpu_others_us")
    is_alone = others is None or max(others.a.median, others.b.median) == 0
    word = "busy" if is_alone else "busy with its own work"
    return f"{first}; {word} for {scale.change(busy.a.median, busy.b.median)} of that."


def _waits(totals: TotalsByName) -> bool:
    """Whether a part waits so much that its duration differs from its CPU time."""
    whole, work = _of(totals, "dur_us"), _of(totals, "cpu_us")
    if whole is None or work is None:
        return False
    pairs = ((whole.a.median, work.a.median), (whole.b.median, work.b.median))
    return any(dur > 0 and (dur - own) / dur > MIN_SYNC_SHARE for dur, own in pairs)


def _graphs(a: Side, b: Side, totals: TotalsByName, per: str) -> Iterator[str]:
    """The number of launches where one side replays CUDA graphs; nothing where not all launches were recorded."""
    launches = _of(totals, "launches")
    if recording_conditions(a).graphs != recording_conditions(b).graphs and launches and not totals["launches"].gap:
        name = "A" if recording_conditions(a).graphs else "B"
        yield f"{name} replays CUDA graphs: {launches.a.median:,g} → {launches.b.median:,g} launches{per}."


def _idle(totals: TotalsByName) -> Iterator[str]:
    """The change of the idle share, and its main cause.

    Where the first sentence is about the span, only the cause adds anything.
    """
    share = _of(totals, "gpu_idle_pct")
    if share is None or share.change not in BEYOND_NOISE or abs(share.amount) < MIN_IDLE_CHANGE_POINTS:
        return
    change = f"{rounded_percent(share.a.median)} → {rounded_percent(share.b.median)}"
    line = f"The GPU is idle for {change} of the time from the first kernel to the last"
    if worst := _cause(totals):
        times = worst.difference.a.median, worst.difference.b.median
        word = worst.help.removeprefix(CAUSE_HELP).strip(" .")
        yield f"{line}; most of the change is attributed to {word} ({time_scale(times).change(*times)})."
    elif _gpu_measure(totals) == "gpu_busy_us":
        yield f"{line}."


def _wait_before(totals: TotalsByName, per: str) -> Iterator[str]:
    """The change of the time that the GPU waits before the first kernel of a part, where it is long on a side."""
    wait, span = _of(totals, "wait_before_us"), _of(totals, "gpu_span_us")
    if wait is None or span is None or totals["wait_before_us"].change not in BEYOND_NOISE:
        return
    sides = ((wait.a.median, span.a.median), (wait.b.median, span.b.median))
    if any(before > MIN_WAIT_SHARE * (before + length) for before, length in sides):
        scale = time_scale((wait.a.median, wait.b.median))
        change = scale.change(wait.a.median, wait.b.median)
        yield f"GPU wait{per} before its first kernel, which is no part of the idle time: {change}."


def _cause(totals: TotalsByName) -> Total | None:
    """The main cause of the change of the idle time; None where too much idle time has no known cause."""
    causes = {name: each for name, each in totals.items() if each.help.startswith(CAUSE_HELP)}
    for side in ("a", "b"):
        known = {name: getattr(each.difference, side).median for name, each in causes.items()}
        if known.get("idle_unknown_us", 0) > MAX_UNKNOWN_SHARE * sum(known.values()):
            return None
    whole = totals["gpu_idle_us"].difference.amount
    low, high = (share * abs(whole) for share in MAIN_CAUSE_SHARES)
    main_causes = [
        each
        for each in causes.values()
        if each.change in BEYOND_NOISE
        and each.difference.amount * whole > 0
        and low <= abs(each.difference.amount) <= high
    ]
    return max(main_causes, key=lambda each: abs(each.difference.amount), default=None)


def _traffic(totals: TotalsByName, per: str, saved: float) -> Iterator[str]:
    """Minimum bytes moved, where nearly all are known on both sides and fusions do not explain the change."""
    moved = _of(totals, "moved_bytes")
    if moved is None or totals["moved_bytes"].change not in BEYOND_NOISE:
        return
    if abs(-moved.amount - saved) > MAX_UNEXPLAINED_TRAFFIC * abs(moved.amount):
        before, after = moved.a.median, moved.b.median
        change = f"{size_change(before, after)}: {how_much(before, after)}"
        yield f"Minimum memory traffic{per}, from tensor shapes, {change}."
