"""Differences that make a comparison unfair or less certain: other programs, devices, ranks, options or inputs.

Of two programs with almost nothing in common no time is a speed-up, and none explains the other. Ranks of one job run
at the same time and wait for each other in every collective, so that time in a collective shows how late the others
came. Ids do not identify a job; ranks recorded at the same time belong to one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tracetui.comparing.change_rows import Total
from tracetui.comparing.kernel_changes import kernel_changes
from tracetui.comparing.match import SAME_NAME
from tracetui.comparing.measures import COUNT, OP, RECORDED, THREADS, RecordingConditions, recording_conditions
from tracetui.comparing.noise import ASSUMED_NOISE, MIN_TIME_CHANGE, Change, Difference, shared_tick
from tracetui.comparing.side import CAPTURE, STEP, Side, differ_in_length
from tracetui.comparing.work_sizes import UnitOfWork, same_work, size_changes, type_change
from tracetui.linking.autograd import ENGINE
from tracetui.linking.step_kinds import UNKNOWN, step_kinds
from tracetui.linking.steps import steps
from tracetui.model.quantities import Scale, counted, duration, how_fast, how_much, rounded_percent, time_scale
from tracetui.model.trace import Trace

# Differences of two sides in sentences, and lists of names in them.

WITHIN_NOISE = "within noise"


def time_sentence(
    subject: str,
    each: Difference,
    parts: str,
    is_judged: bool = True,
    unit: UnitOfWork | None = None,
    is_second: bool = False,
) -> str:
    """A sentence about a time in µs, without its end: before, after, and the noise.

    `parts` is a name for the parts of a side. Without `is_judged` no factor is stated: the sides are of different
    lengths. With a `unit` they did different amounts of work, and the factor per unit stands beside that of the times.
    `is_second` is for a sentence after another, which says what is assumed.
    """
    before, after = each.a.median, each.b.median
    scale = time_scale((before, after, each.limit))
    part = parts.removeprefix("the ").removesuffix("s")
    doubt = "" if is_second and each.is_assumed else in_brackets(noise(each, scale, part))
    change = f"{subject} {scale.change(before, after)}"
    per_unit = f", {_per_unit(each, unit)}" if unit and is_judged else ""
    if each.change is Change.SAME:
        return f"{subject} the same: {time_scale((before, after)).both(before, after)}{per_unit}"
    if each.change is Change.WITHIN_NOISE:
        if each.is_assumed:
            limit = f"within {100 * ASSUMED_NOISE:g} %" if is_second else noise(each, scale, part)
            return f"{change}: cannot tell, {limit}{per_unit}"
        whose = "the other steps of their files" if each.noise == each.others else f"{parts} of one side"
        return f"{change}: cannot tell, {whose} differ by {scale.roughly(each.noise)}{per_unit}"
    if per_unit:
        # Less time for less work is not called fast.
        return f"{change}: {how_much(before, after)}{per_unit}{doubt}"
    return f"{change}: {how_fast(before, after)}{doubt}" if is_judged else change


def per_units(each: Difference, units: Iterable[UnitOfWork]) -> str:
    """The change of a time by several units of work: `per token 4 % less, per request 3 % more`."""
    return ", ".join(_per_unit(each, unit) for unit in units)


def _per_unit(each: Difference, unit: UnitOfWork) -> str:
    """The change of a time per unit of work in words: `per token 78 % less`."""
    if not unit.name:
        return "of different amounts of work"
    before, after = each.a.median, each.b.median / unit.ratio
    least = max(each.limit / max(unit.ratio, 1.0), MIN_TIME_CHANGE * min(before, after))
    is_same = abs(after - before) <= least
    return f"per {unit.name} {'the same' if is_same else how_much(before, after)}"


def noise(each: Difference, scale: Scale, part: str) -> str:
    """The noise in words, `noise 2.21 ms`, and whether it is assumed."""
    if each.is_assumed:
        return f"one {part} each, noise unknown, {100 * ASSUMED_NOISE:g} % assumed"
    of_others = " of other steps" if each.noise == each.others else ""
    return f"noise {scale.roughly(each.noise)}{of_others}" if each.noise == each.noise else ""


def in_brackets(*some: str) -> str:
    """The asides that are not empty, behind a blank; empty without any."""
    asides = ", ".join(filter(None, some))
    return f" ({asides})" if asides else ""


def per(a: Side, b: Side) -> str:
    """` per step` where the parts of both are steps; empty for captures and for parts of different kinds."""
    return f" per {a.part_kind}" if a.part_kind == b.part_kind and a.part_kind != CAPTURE else ""


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names with commas, and how many more there are."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def joined(names: Sequence[str], most: int | None = None) -> str:
    """A list as one speaks, `gelu, mul and tanh`; above `most` names as `listed`."""
    if most is not None and len(names) > most:
        return listed(names, most)
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))


def clauses_behind(lead: str, groups: Iterable[tuple[str, str, Sequence[str]]]) -> Iterator[str]:
    """Sentences of groups of clauses: the first behind `lead`, which stands alone where there are none.

    A group is a mark that stands behind the lead, a subject in place of the lead, and the clauses.
    """
    for mark, subject, clauses in groups:
        if clauses:
            yield f"{lead}{mark} {'; '.join(clauses)}." if lead else f"{subject}{'; '.join(clauses)}."
            lead = ""
    if lead:
        yield f"{lead}."


def bare(op: str) -> str:
    """The name of an operator without the namespace of PyTorch's own, and without the node around it."""
    return op.removeprefix(f"{ENGINE}: ").removeprefix("torch::autograd::").removeprefix("aten::")


def bares(ops: Iterable[str]) -> list[str]:
    """The names of operators likewise, each once."""
    return list(dict.fromkeys(map(bare, ops)))


RANK_METADATA_KEY = "distributedInfo"
MIN_KIND_SHARE = 0.1
"""Minimum difference between the shares of a kind of steps that is mentioned."""
RANKS_WAIT = "a collective waits for the slowest rank, so its time shows who waited, not what is slow"


class Rank(NamedTuple):
    """One of the processes of a job."""

    number: int
    of: int


def rank(trace: Trace) -> Rank | None:
    """The rank that recorded a trace; None where the file does not say."""
    about = trace.metadata.get(RANK_METADATA_KEY)
    if not isinstance(about, Mapping):
        return None
    number, of = about.get("rank"), about.get("world_size")
    return Rank(number, of) if isinstance(number, int) and isinstance(of, int) and 0 <= number < of else None


def are_ranks(a: Side, b: Side) -> bool:
    """True where the sides are different ranks of equally many."""
    left, right = rank(a.trace), rank(b.trace)
    return left is not None and right is not None and left.of == right.of and left.number != right.number


def is_one_job(a: Side, b: Side) -> bool:
    """True where the sides are ranks recorded at the same time, by the wall clock."""
    (low_a, high_a), (low_b, high_b) = (
        (trace.origin_ns + trace.window[0], trace.origin_ns + trace.window[1]) for trace in (a.trace, b.trace)
    )
    return are_ranks(a, b) and low_a < high_b and low_b < high_a


def rank_sentences(a: Side, b: Side, names: tuple[str, str]) -> Iterator[str]:
    """The sentence about sides that are different ranks, or of jobs of different size; none otherwise."""
    left, right = rank(a.trace), rank(b.trace)
    if left is None or right is None:
        return
    both = " and ".join(names)
    if left.of != right.of:
        yield f"Different numbers of ranks: {left.of} and {right.of}."
    elif is_one_job(a, b):
        yield f"{both} are ranks {left.number} and {right.number} of one job of {left.of}: {RANKS_WAIT}."
    elif left.number != right.number:
        yield f"{both} are different ranks, {left.number} and {right.number} of {left.of}: {RANKS_WAIT}."


def length_sentences(a: Side, b: Side, names: tuple[str, str]) -> Iterator[str]:
    """The sentence about ranges of time of different length; none otherwise."""
    if differ_in_length(a, b) and a.time_range is not None and b.time_range is not None:
        one, other = (duration(each.length) for each in (a.time_range, b.time_range))
        yield (
            f"Ranges of different length: {names[0]} {one}, {names[1]} {other}. Their times and counts are "
            "of different amounts of time, and no speed-up."
        )


Row = Mapping[str, Any]

UNRELATED_PERCENT = (20.0, 50.0)
"""Percent of GPU time with a match: below the first on one side and the second on both, the programs are unrelated.

All that is left of a program from which most was removed still has a match.
"""
MIN_SHARED_CALLS = 0.25
"""Minimum share of operator calls, of the side with more, that both sides make in related programs."""
MIN_SHARED_BESIDE_CPU = 0.1
"""The same where only one side ran anything on a GPU: there are no kernels to match, and other operators on the CPU."""
SEPARATE_MEASURES = {
    "gpu_span_us": "GPU{}, from the first kernel to the last",
    "gpu_busy_us": "GPU time{}",
    "cpu_us": "CPU time{}",
    "kernels": "Kernels{}",
    "cpu_ops": "Operators{}",
}
"""Times and counts that stand side by side for unrelated programs."""


_OF_ANY_PROGRAM = ("communication", "copy")
"""Families that are alike in programs that have nothing else in common."""


def in_common(rows: Sequence[Row]) -> tuple[float, float]:
    """Percent of each side's GPU time that has a match, from the rows of the table of kernels.

    Collectives and copies count only where there is nothing else.
    """
    shares = []
    own = [row for row in rows if row["family"] not in _OF_ANY_PROGRAM]
    for mine, other, us in (("calls_a", "calls_b", "a_us"), ("calls_b", "calls_a", "b_us")):
        some = own if any(row[mine] for row in own) else rows
        total = sum(row[us] for row in some if row[mine])
        shares.append(100 * sum(row[us] for row in some if row[mine] and row[other]) / total if total else 100.0)
    return shares[0], shares[1]


def shared_calls(ops: Sequence[Row]) -> float:
    """Share of operator calls that both sides make, of those of the side that makes more; 1 for none."""
    mine = [row for row in ops if row["kind"] == OP]
    larger = max(sum(row["calls_a"] for row in mine), sum(row["calls_b"] for row in mine))
    shared: float = sum(min(row["calls_a"], row["calls_b"]) for row in mine)
    return shared / larger if larger else 1.0


def unrelated_programs(a: Side, b: Side, ops: Sequence[Row], names: tuple[str, str] = ("A", "B")) -> str:
    """The sentence that the sides are different programs; empty where they are not."""
    on_gpu = a.uses_gpu, b.uses_gpu
    describes = "The numbers below describe each of them, and are no speed-up."
    if not all(on_gpu):
        compiled = any(recording_conditions(each).compiled_parts for each in (a, b))
        if not any(on_gpu) or compiled or (shared := shared_calls(ops)) >= MIN_SHARED_BESIDE_CPU:
            return ""
        both = rounded_percent(100 * shared)
        return f"These are different programs: both make {both} of the operator calls of the larger. {describes}"
    shares = in_common(list(kernel_changes(a, b).table.rows()))
    if (
        min(shares) >= UNRELATED_PERCENT[0]
        or max(shares) >= UNRELATED_PERCENT[1]
        or shared_calls(ops) >= MIN_SHARED_CALLS
    ):
        return ""
    one, other = names
    first, second = map(rounded_percent, shares)
    return (
        f"These are different programs: of {one}'s GPU time {first} has a match in {other}, of {other}'s {second} one "
        f"in {one}. {describes}"
    )


def separate_times(a: Side, b: Side, totals: Mapping[str, Total]) -> Iterator[str]:
    """Times, counts and verdicts of both sides, side by side."""
    for name, words in SEPARATE_MEASURES.items():
        if (each := totals.get(name)) and each.difference.change is not Change.UNKNOWN:
            before, after = each.difference.a.median, each.difference.b.median
            if each.unit == COUNT:
                texts = f"{before:,g}", f"{after:,g}"
            else:
                texts = time_scale((before,)).one(before), time_scale((after,)).one(after)
            yield f"{words.format(per(a, b))}: A {texts[0]}, B {texts[1]}."
    left, right = recording_conditions(a).verdict, recording_conditions(b).verdict
    if left and right and left != right:
        yield f"Bottlenecks: A is {left}, B is {right}."


CONDITIONS = (*RECORDED, THREADS)
"""Parameters other than the program's own, which two recordings should share."""


def is_same(a: Side, b: Side) -> bool:
    """True where both sides are the same parts of one recording, or of copies of it."""
    left, right = a.trace, b.trace
    if not (a.part_kind == b.part_kind and np.array_equal(a.start, b.start) and np.array_equal(a.end, b.end)):
        return False
    if left is right:
        return True
    columns = ("start", "dur", "name", "kind", "lane", "correlation")
    pairs = ((getattr(left.slices, column), getattr(right.slices, column)) for column in columns)
    return list(left.names) == list(right.names) and all(np.array_equal(*pair) for pair in pairs)


def unfair(a: Side, b: Side, names: tuple[str, str] = ("A", "B")) -> list[str]:
    """Sentences about differences other than the program, the most serious first; `names` name the sides."""
    return [f"{sentence[:1].upper()}{sentence[1:]}" for sentence in _unfair(a, b, names)]


def unsure(a: Side, b: Side) -> list[str]:
    """Sentences about what stays uncertain, and what both sides share."""
    sentences = [*_on_the_same(recording_conditions(a), recording_conditions(b))]
    if sizes := same_work(a, b):
        sentences.append(f"Both sides did the same work per step: {sizes}.")
    if 1 in (len(a), len(b)) and not len(a) == len(b) == 1:
        alone, other = ("A", "B") if len(a) == 1 else ("B", "A")
        sentences.append(f"{alone} is one {(a if alone == 'A' else b).part_kind}: noise is known only for {other}.")
    for name, side in (("A", a), ("B", b)):
        if count := side.inferred():
            what = f"{counted(count, 'GPU activity')} of {name}"
            sentences.append(f"{what} without a launch record: placed by {'its' if count == 1 else 'their'} own start.")
    return sentences


def _unfair(one: Side, other: Side, names: tuple[str, str]) -> Iterator[str]:
    a, b = recording_conditions(one), recording_conditions(other)
    for name, side in zip(names, (a, b), strict=True):
        if side.cut:
            yield f"{name} was not read to its end, so some of its GPU activity may be missing."
    yield from rank_sentences(one, other, names)
    if a.part_kind != b.part_kind:
        words = [
            f"the whole {each.part_kind}" if each.part_kind == CAPTURE else f"a {each.part_kind}" for each in (a, b)
        ]
        yield f"A part of {names[0]} is {words[0]}, one of {names[1]} {words[1]}: their sums cannot be compared."
    yield from length_sentences(one, other, names)
    yield from _other_kinds(one, other, names)
    has_gpu = one.uses_gpu, other.uses_gpu
    if has_gpu[0] != has_gpu[1]:
        name = names[0] if has_gpu[0] else names[1]
        yield f"Only {name} ran anything on a GPU: the CPU times measure different things."
    if a.devices and b.devices and a.devices != b.devices:
        yield f"Different devices: {_devices(a)}, and {_devices(b)}; differences may come from the hardware."
    elif bool(a.devices) != bool(b.devices) and all(has_gpu):
        known, (mark, other_mark) = (a, names[::-1]) if a.devices else (b, names)
        yield f"{mark} does not say on which device it ran; {other_mark} ran on {_devices(known)}."
    elif sentence := _other_clock(one, other):
        yield sentence
    if sizes := size_changes(one, other):
        yield (
            f"Different amounts of work, as recorded: {', '.join(each.words for each in sizes)}. A difference in time "
            "is no speed-up."
        )
    if kinds := type_change(one, other):
        yield f"Different types of numbers in GEMMs and attention: {kinds[0]} → {kinds[1]}."
    if a.torch and b.torch and a.torch != b.torch:
        yield f"Different versions of PyTorch: {a.torch} and {b.torch}."
    yield from _on_others(a, b)
    if a.frames != b.frames:
        name = names[0] if a.frames else names[1]
        yield f"Python frames were recorded only in {name}, which makes its CPU slower."


def _other_kinds(one: Side, other: Side, names: tuple[str, str]) -> Iterator[str]:
    """The sentence about other kinds of a server's steps, whose mix makes a median say little; none otherwise."""
    counts = [_kinds(each) for each in (one, other)]
    if not all(counts):
        return
    shares = [{kind: number / sum(each.values()) for kind, number in each.items()} for each in counts]
    if max(abs(shares[0].get(kind, 0) - shares[1].get(kind, 0)) for kind in {*shares[0], *shares[1]}) < MIN_KIND_SHARE:
        return
    words = [", ".join(f"{number:,} {kind}" for kind, number in each.items()) for each in counts]
    yield (
        f"Different kinds of steps: {names[0]} {words[0]}; {names[1]} {words[1]}. Their medians are not of the same "
        "work; compare steps of one kind (TRACE#N)."
    )


def _kinds(side: Side) -> dict[str, int]:
    """Number of steps of each kind among the parts, the most frequent first; empty where some kind is not known."""
    if side.part_kind != STEP:
        return {}
    kinds, mine = step_kinds(side.trace), np.isin(steps(side.trace).row, side.row)
    of_parts = [kind for kind, is_mine in zip(kinds.kind, mine.tolist(), strict=True) if is_mine]
    known = [kind for kind in of_parts if kind is not None and kind != UNKNOWN]
    return dict(Counter(known).most_common()) if len(known) == len(of_parts) else {}


MIN_CLOCK_KERNELS = 5
"""Minimum kernels that are the same in both, from which a difference of the GPU's clocks is inferred."""
MIN_CLOCK_CHANGE = 0.03
"""Minimum difference of clocks that is mentioned; those of a GPU vary by less from run to run."""
MAX_CLOCK_SPREAD = 0.02
"""Maximum distance between the factors of half of these kernels, for a clock to explain all of them."""
MIN_CLOCK_TICKS = 50
"""Minimum ticks of the timer that such a kernel takes, so that its factor means something."""
_OF_CLOCK = ("gemm", "attention")
"""Families whose time follows the clock of the multiprocessors."""


def _other_clock(a: Side, b: Side) -> str:
    """The sentence about one GPU whose kernels all take longer by one factor; empty where that is not so."""
    if not (a.uses_gpu and b.uses_gpu) or a.trace is b.trace:
        return ""
    least = MIN_CLOCK_TICKS * shared_tick(a.trace, b.trace, on_gpu=True) / 1000
    rows: list[Row] = list(kernel_changes(a, b).table.rows())
    factors = [
        row["b_us"] / row["a_us"]
        for row in rows
        if row["family"] in _OF_CLOCK and row["how"] == SAME_NAME and min(row["a_us"], row["b_us"]) > least
    ]
    if len(factors) < MIN_CLOCK_KERNELS:
        return ""
    low, middle, high = np.percentile(factors, (25, 50, 75)).tolist()
    if high - low > MAX_CLOCK_SPREAD * middle or abs(middle - 1) < MIN_CLOCK_CHANGE:
        return ""
    return (
        f"The clocks of the GPU may differ: {len(factors)} GEMMs and attention kernels that are the same "
        f"take {middle:.2f} times as long in B as in A, half of them {low:.2f} to {high:.2f}."
    )


def _devices(side: RecordingConditions) -> str:
    counts = {name: side.devices.count(name) for name in side.devices}
    return ", ".join(name if number == 1 else f"{number} x {name}" for name, number in counts.items())


def _on_others(a: RecordingConditions, b: RecordingConditions) -> Iterator[str]:
    """Differences between programs that are not known to compute on the same data."""
    others = sorted(name for name in a.operands.keys() & b.operands.keys() if a.operands[name] != b.operands[name])
    what = _differing(a, b, _is_same_numbers(a, b))
    if what and others:
        yield f"{what}; their weights or inputs differ too: {listed(others)}."
    elif what:
        yield f"{what}."
    elif others:
        yield f"Different weights or inputs: {listed(others)}."


def _on_the_same(a: RecordingConditions, b: RecordingConditions) -> Iterator[str]:
    """The difference between programs that compute on the same data: this is what is compared, and fair."""
    if not _is_same_numbers(a, b):
        return
    rest = "with the same weights and inputs"
    if a.operands.keys() != b.operands.keys():
        rest = f"with the same {joined(sorted(a.operands.keys() & b.operands.keys()))}"
    if _names(a, b):
        yield f"Different workloads, {_names(a, b)}, {rest}."
    elif own := [each for key, each in _changed(a, b).items() if key not in CONDITIONS]:
        yield f"Different parameters, {listed(own)}, {rest}."


def _is_same_numbers(a: RecordingConditions, b: RecordingConditions) -> bool:
    """True where all weights and inputs that both sides name, at least one, have equal digests."""
    shared = a.operands.keys() & b.operands.keys()
    return bool(shared) and all(a.operands[name] == b.operands[name] for name in shared)


def _differing(a: RecordingConditions, b: RecordingConditions, of_conditions: bool) -> str:
    """Workloads or parameters that differ, in words; empty for none."""
    changed, names = _changed(a, b), "" if of_conditions else _names(a, b)
    if of_conditions or names:
        changed = {key: words for key, words in changed.items() if key in CONDITIONS}
    if names:
        return f"Different workloads: {', '.join([names, *changed.values()])}"
    return f"Recorded with different parameters: {listed(list(changed.values()))}" if changed else ""


def _names(a: RecordingConditions, b: RecordingConditions) -> str:
    """The names of two different workloads; empty where they are the same or unknown."""
    return f"{a.workload} and {b.workload}" if a.workload and b.workload and a.workload != b.workload else ""


def _changed(a: RecordingConditions, b: RecordingConditions) -> dict[str, str]:
    """Parameters that both sides have with different values."""
    shared = [key for key in a.params if key in b.params]
    return {key: f"{key} {a.params[key]} → {b.params[key]}" for key in shared if a.params[key] != b.params[key]}
