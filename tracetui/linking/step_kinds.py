"""The kind of each step of an inference server: prefill, decode, and the like, with its requests and tokens (R3.77).

In order of preference: the step's name, the one annotation inside it or around it that says more, a step that launched
nothing, the shape of its first embedding look-up, the file's name, and kernels that serve one kind only. Without any of
these a kind is `unknown`, and requests and tokens are null: a wrong kind is worse than none. A graph replay proves no
decode, since prefills are replayed too.

Averages are made of the steps that were recorded in full and serve something (R3.6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.frames import function_of
from tracetui.linking.groups import distinct
from tracetui.linking.links import links, named_steps, op_rows
from tracetui.linking.placement import step_index
from tracetui.linking.step_names import NOT_AVERAGED, StepName
from tracetui.linking.step_series import annotated_series, is_training, lookups, partners
from tracetui.linking.steps import Steps, steps
from tracetui.linking.trees import is_named
from tracetui.model.intervals import Bool, Int64
from tracetui.model.results import kept
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Slices, Trace

UNKNOWN = "unknown"
KIND_HELP = (
    "What a server's step did: prefill, decode, mixed, verify, draft, diffusion, idle or dummy; unknown where nothing "
    "tells, null for steps of another kind."
)

_STAGE = re.compile(r"-(DECODE|EXTEND|PREFILL)(\.|$)", re.IGNORECASE)
"""The stage in the name of a file that SGLang recorded by stage."""
_STAGE_KINDS = {"DECODE": "decode", "EXTEND": "prefill", "PREFILL": "prefill"}
_FUNCTION_KINDS = {"decode_one_token": "decode", "prefill": "prefill"}
_DECODE_KERNEL = re.compile(r"BatchDecodeWithPagedKVCache|fmhaSm\d+\w*ForGen")
_PREFILL_KERNEL = re.compile(r"BatchPrefillWithRagged|FmhaBatchPrefill|fmhaSm\d+\w*Context")


@frozen
class StepKinds:
    """Parallel to `steps(trace)`."""

    kind: tuple[str | None, ...]
    """One of `KINDS`; None for a step that is not one of a server."""
    requests: Int64
    """Requests served in the step, NULL where that is not known."""
    tokens: Int64
    """Tokens that went into the model, NULL where that is not known."""
    generated: Int64
    """Tokens generated for requests, NULL where that is not known or a request may have got several."""
    evidence: tuple[str | None, ...]
    """The source of the kind: `name`, `annotation`, `no GPU activity`, `shapes`, `file name`, `kernels`."""
    context: Int64
    """Tokens in the KV cache of its requests, summed, NULL where that is not known."""
    pairs: Int64
    """Pairs of a query and a key of causal attention, summed over the requests, NULL where that is not known."""

    def of_kind(self, *kinds: str) -> Bool:
        """Mask of the steps of some kinds."""
        return np.array([each in kinds for each in self.kind], bool)

    @property
    def counts(self) -> dict[str, int]:
        """Number of steps of each kind, the most frequent first."""
        known = [each for each in self.kind if each is not None]
        return dict(sorted(((each, known.count(each)) for each in set(known)), key=lambda item: (-item[1], item[0])))


@kept(on_disk=True)
def step_kinds(trace: Trace) -> StepKinds:
    """Kind, requests and tokens of each of `steps(trace)`."""
    all_steps = steps(trace)
    facts = _Facts(len(all_steps))
    _from_names(trace, all_steps, facts)
    if all_steps.is_served:
        for index in facts.unknown():
            function = function_of(trace.name_of(int(all_steps.row[index])))
            facts.set_kind(index, _FUNCTION_KINDS.get(function), "name")
        _from_emptiness(trace, facts)
        if not is_training(trace):
            _from_lookups(trace, all_steps, facts)
            stage = _STAGE.search(trace.label)
            if stage and "sglang" in all_steps.found_by:
                for index in facts.unknown():
                    facts.set_kind(index, _STAGE_KINDS[stage[1].upper()], "file name")
            _from_kernels(trace, facts)
        facts.kind = [UNKNOWN if kind is None else kind for kind in facts.kind]
    numbers = (facts.requests, facts.tokens, facts.generated)
    return StepKinds(tuple(facts.kind), *numbers, tuple(facts.evidence), facts.context, facts.pairs)


def unserving_steps(trace: Trace) -> Bool:
    """Mask of `steps(trace)` that averages leave out because they serve no request: idle and dummy ones."""
    return step_kinds(trace).of_kind(*NOT_AVERAGED)


def kind_words(trace: Trace, index: int) -> str:
    """A step in words: `decode, 32 requests, 64 tokens`; empty for a step that has no kind."""
    kinds = step_kinds(trace)
    kind = kinds.kind[index]
    if kind is None:
        return ""
    parts = [f"kind {kind}" if kind == UNKNOWN else kind]
    for count, noun in ((int(kinds.requests[index]), "request"), (int(kinds.tokens[index]), "token")):
        if count != NULL:
            parts.append(f"{count:,} {noun}{'' if count == 1 else 's'}")
    return ", ".join(parts)


class _Facts:
    """Kind, requests and tokens of each step, filled in from one source after another."""

    def __init__(self, count: int) -> None:
        self.kind: list[str | None] = [None] * count
        self.evidence: list[str | None] = [None] * count
        self.requests = np.full(count, NULL, np.int64)
        self.tokens = np.full(count, NULL, np.int64)
        self.generated = np.full(count, NULL, np.int64)
        self.context = np.full(count, NULL, np.int64)
        self.pairs = np.full(count, NULL, np.int64)

    def unknown(self) -> list[int]:
        """Indices of the steps without a kind."""
        return [index for index, kind in enumerate(self.kind) if kind is None]

    def set_kind(self, index: int, kind: str | None, evidence: str) -> None:
        """Give a step its kind, unless it has one."""
        if self.kind[index] is None and kind is not None:
            self.kind[index], self.evidence[index] = kind, evidence

    def add(self, index: int, name: StepName, evidence: str) -> None:
        """Fill in from a name whatever is still missing."""
        self.set_kind(index, name.kind, evidence)
        for numbers, known in (
            (self.requests, name.requests),
            (self.tokens, name.tokens),
            (self.generated, name.generated),
            (self.context, name.context),
            (self.pairs, name.pairs),
        ):
            if known is not None and numbers[index] == NULL:
                numbers[index] = known


def _from_names(trace: Trace, all_steps: Steps, facts: _Facts) -> None:
    """Read the steps' own names, and the annotations inside or around them; the one that says more comes first."""
    if len(named_steps(trace).row) == 0:
        return
    parsed = named_steps(trace).parsed
    candidates: list[list[tuple[StepName, str]]] = [[] for _ in range(len(all_steps))]
    for index, name in enumerate(trace.slices.name[all_steps.row].tolist()):
        if name in parsed:
            candidates[index].append((parsed[name], "name"))
    for series in annotated_series(trace):
        beside = _annotation_of_each(trace, all_steps, series.rows)
        if not all_steps.is_guess:
            _add_checks(trace, all_steps, series.rows, beside)
        for index, row in enumerate(beside.tolist()):
            if row >= 0 and series.rows[row] != all_steps.row[index]:
                candidates[index].append((parsed[int(trace.slices.name[series.rows[row]])], "annotation"))
    for index, names in enumerate(candidates):
        for step_name, evidence in sorted(names, key=lambda each: -each[0].facts):
            facts.add(index, step_name, evidence)


def _annotation_of_each(trace: Trace, all_steps: Steps, rows: Int64) -> Int64:
    """The position in `rows` of the one annotation inside or around each step, -1 for none.

    A step that begins where something repeats has the annotation in which it begins: it may end in that of the next.
    """
    if all_steps.is_guess:
        return _annotation_at_start(trace.slices, all_steps, rows)
    inner, around = partners(trace.slices, all_steps.row, rows), partners(trace.slices, rows, all_steps.row)
    outer = np.full(len(all_steps), -1, np.int64)
    outer[around[around >= 0]] = np.flatnonzero(around >= 0)
    return np.where(inner >= 0, inner, outer)


def _add_checks(trace: Trace, all_steps: Steps, rows: Int64, beside: Int64) -> None:
    """Fill in the annotation of the check for each step around drafts and one check of them.

    Other annotations within one step may be several steps of the server, and are left out.
    """
    slices, parsed = trace.slices, named_steps(trace).parsed
    for lane in distinct(all_steps.lane).tolist():
        theirs = np.flatnonzero(slices.lane[rows] == lane)
        mine = np.flatnonzero((all_steps.lane == lane) & (beside < 0))
        first = np.searchsorted(slices.start[rows[theirs]], all_steps.start[mine], side="left")
        last = np.searchsorted(slices.end[rows[theirs]], all_steps.end[mine], side="right")
        for step, low, high in zip(mine.tolist(), first.tolist(), last.tolist(), strict=True):
            inside = theirs[low:high]
            names = [parsed[number] for number in slices.name[rows[inside]].tolist()]
            checks = [index for index, name in enumerate(names) if name.kind == "verify"]
            if len(checks) == 1 and all(name.kind in ("draft", "verify") for name in names):
                beside[step] = inside[checks[0]]


def _annotation_at_start(slices: Slices, all_steps: Steps, rows: Int64) -> Int64:
    index = np.full(len(all_steps), -1, np.int64)
    for lane in distinct(all_steps.lane).tolist():
        theirs = np.flatnonzero(slices.lane[rows] == lane)
        if len(theirs):
            mine = np.flatnonzero(all_steps.lane == lane)
            last = np.searchsorted(slices.start[rows[theirs]], all_steps.start[mine], side="right") - 1
            latest = theirs[np.maximum(last, 0)]
            index[mine] = np.where((last >= 0) & (all_steps.start[mine] < slices.end[rows[latest]]), latest, -1)
    return index


def _from_emptiness(trace: Trace, facts: _Facts) -> None:
    """Set a step to `idle` that launched nothing, in a trace with a GPU."""
    gpu = links(trace).gpu
    if len(gpu) == 0:
        return
    index = step_index(trace, gpu)
    activities = np.bincount(index[index >= 0], minlength=len(facts.kind))
    for step in facts.unknown():
        if activities[step] == 0:
            facts.set_kind(step, "idle", "no GPU activity")


def _from_lookups(trace: Trace, all_steps: Steps, facts: _Facts) -> None:
    """Read the index of a step's first embedding: one token per request is a decode, more are a prefill.

    Prefills are set only where something else in the trace is a decode, or the steps are those of a generation loop: a
    model that generates nothing looks up many tokens in every call.
    """
    rows = op_rows(trace)
    rows = rows[is_named(trace, rows, lambda name: name == "aten::embedding")]
    rows = rows[np.argsort(trace.slices.start[rows], kind="stable")]
    index = step_index(trace, rows)
    own = (
        (index >= 0) & (trace.slices.lane[rows] == all_steps.lane[np.maximum(index, 0)])
        if len(all_steps)
        else index >= 0
    )
    first = np.unique(index[own], return_index=True)
    shapes: dict[int, tuple[int, ...]] = {}
    for step, (_, shape) in zip(first[0].tolist(), lookups(trace, rows[own][first[1]]), strict=True):
        if shape is not None and len(shape) == 2:
            shapes[step] = shape
    generates = all_steps.found_by.startswith("module ") or any(shape[1] == 1 for shape in shapes.values())
    for step, (requests, length) in shapes.items():
        if length == 1 or generates:
            kind = "decode" if length == 1 else "prefill"
            facts.add(step, StepName("", kind, requests, requests * length, requests if length == 1 else 0), "shapes")


def _from_kernels(trace: Trace, facts: _Facts) -> None:
    """Look for attention kernels that serve one kind only."""
    if not facts.unknown() or len(links(trace).gpu) == 0:
        return
    gpu = links(trace).gpu
    gpu = gpu[trace.slices.kind[gpu] == Kind.KERNEL]
    index = step_index(trace, gpu)
    counts = [
        np.bincount(
            index[(index >= 0) & is_named(trace, gpu, pattern.search)],
            minlength=len(facts.kind),
        )
        for pattern in (_PREFILL_KERNEL, _DECODE_KERNEL)
    ]
    for step in facts.unknown():
        prefill, decode = bool(counts[0][step]), bool(counts[1][step])
        kind = "mixed" if prefill and decode else "prefill" if prefill else "decode" if decode else None
        facts.set_kind(step, kind, "kernels")


# The steps that averages are made of: recorded in full, and serving something (R3.6, R3.77).

MIN_COMPLETE_SHARE = 0.75
"""Minimum contents of a complete step, relative to the median of the others."""


def averaged_steps(trace: Trace) -> Bool:
    """Mask of `steps(trace)` that averages are made of: neither partial, nor idle or dummy calls of a server."""
    return ~(partial_steps(trace) | unserving_steps(trace))


def counted_steps(trace: Trace) -> Bool:
    """Mask of `steps(trace)` that make up the scope of all steps: those recorded in full; all where none was."""
    partial = partial_steps(trace)
    return ~partial if not partial.all() else partial


def left_out_steps(trace: Trace) -> str:
    """A sentence about the steps that are in no scope of all steps; empty for none."""
    numbers = steps(trace).number[~counted_steps(trace)].tolist()
    if not numbers:
        return ""
    words = f"Step {numbers[0]} is" if len(numbers) == 1 else f"Steps {' and '.join(map(str, numbers))} are"
    return f"{words} left out of what is said of all steps: recorded in part."


@kept(on_disk=True)
def partial_steps(trace: Trace) -> Bool:
    """Mask of `steps(trace)` that the profiler truncated: the first or last of a thread with far less in it (R3.6).

    A guess by count: fewer than three quarters of the median of the thread's other steps in GPU activities, or in ops
    where nothing ran on a GPU. With fewer than three steps nothing is known. Steps of a server are compared with those
    of their kind.
    """
    all_steps = steps(trace)
    rows = links(trace).gpu if len(links(trace).launched) else op_rows(trace)
    index = step_index(trace, rows)
    contents = np.bincount(index[index >= 0], minlength=len(all_steps))
    kinds = np.array(step_kinds(trace).kind if all_steps.is_served else [None] * len(all_steps), object)
    serving = ~unserving_steps(trace)
    partial = np.zeros(len(all_steps), bool)
    for lane in distinct(all_steps.lane).tolist():
        mine = np.flatnonzero((all_steps.lane == lane) & serving)
        for end in (0, -1) if len(mine) > 2 else ():
            others = np.delete(mine, end)
            others = others[kinds[others] == kinds[mine[end]]]
            if len(others) > 1:
                partial[mine[end]] = contents[mine[end]] < MIN_COMPLETE_SHARE * np.median(contents[others])
    return partial


# The time of a step without the profiler, as the recorder measured it beside the trace, and the profiler's overhead.
#
# It is in the metadata of a recording (`tracetui`, `unprofiled`), which is not trusted: a value that is no positive
# number, or lies outside of its own interval, counts as missing.


@frozen(eq=True, slots=True)
class UnprofiledTime:
    """The time of a step in microseconds."""

    median_us: float
    low_us: float | None
    """Lower end of the 95 % interval of the median; None where there were too few samples."""
    high_us: float | None
    profiled_us: float | None
    """The same step in the trace; None on a GPU, where the steps on the CPU end before their work does."""
    session: str
    """Id that recordings share which were timed in turns; empty for one that was timed alone."""

    @property
    def profiler_adds_pct(self) -> float | None:
        """Time that the profiler adds to a step, in percent of the time without it."""
        return None if self.profiled_us is None else 100 * (self.profiled_us / self.median_us - 1)


@frozen(eq=True, slots=True)
class TimeRatio:
    """Ratio of the step times of two recordings, without the profiler."""

    median: float
    low: float
    high: float

    @property
    def is_certain(self) -> bool:
        """True where the intervals do not overlap."""
        return self.low > 1 or self.high < 1


def unprofiled_time(trace: Trace) -> UnprofiledTime | None:
    """The time that the recorder measured; None where it measured none."""
    return time_of_metadata(trace.own_metadata)


def time_of_metadata(about: Mapping[str, Any]) -> UnprofiledTime | None:
    """The time in the metadata of a recording; None where there is none."""
    time = about.get("unprofiled")
    if not isinstance(time, Mapping):
        return None
    median, low, high = (_positive(time.get(name)) for name in ("median_us", "low_us", "high_us"))
    if median is None:
        return None
    if low is None or high is None or not low <= median <= high:
        low = high = None
    session = time.get("session")
    return UnprofiledTime(
        median, low, high, _positive(time.get("profiled_us")), session if isinstance(session, str) else ""
    )


def time_ratio(a: UnprofiledTime, b: UnprofiledTime) -> TimeRatio | None:
    """B's time by A's; None where one of them has no interval."""
    if a.low_us is None or a.high_us is None or b.low_us is None or b.high_us is None:
        return None
    return TimeRatio(b.median_us / a.median_us, b.low_us / a.high_us, b.high_us / a.low_us)


def _positive(value: Any) -> float | None:
    """A positive finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        return None
    return float(value)
