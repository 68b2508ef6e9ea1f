"""The cost of a server's steps: by size of the batch, in the steady state, beside prefills, and of attention by the
context (R3.88, R3.89, R3.99); with the tables and sentences of it.

What is said of few steps, or where no line fits, would be a guess: a function returns None or nothing there.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from tracetui.frozen import frozen
from tracetui.kernel_names.decoded import Purpose
from tracetui.kernel_names.slice_names import purposes
from tracetui.linking.groups import distinct
from tracetui.linking.links import links
from tracetui.linking.placement import step_index, step_labels
from tracetui.linking.replays import replays
from tracetui.linking.step_kinds import UNKNOWN, StepKinds
from tracetui.linking.steps import Steps, steps
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import counted, duration, how_much
from tracetui.model.table import NULL, Strings, Table, coded, numbers, texts
from tracetui.model.trace import Float64, Trace
from tracetui.serving.server_steps import (
    DECODE,
    StepFacts,
    column_of,
    known,
    longest_of,
    median_of,
    sizes_of,
    token_rate,
)

# The steady state: what lies between the first uses and growing batch of the start and the emptying batch of the end
# (R3.88).

MIN_STEPS = 8
"""Minimum steps of a thread among which a steady state is looked for."""
MIN_STEADY_SHARE = 0.5
"""Minimum share of these steps that a steady state has."""
MIN_ALIKE = 3
"""Minimum steps of one kind and size for one of them to be called slow."""
SLOW_RATIO = 1.5
"""Times the median of its kind and size from which on a step is slow."""
SMALL_SHARE = 0.5
"""Share of the median batch of the decodes below which a batch is small."""


class Stage(IntEnum):
    """Part of a recording in which a step is."""

    WARM_UP = 0
    STEADY = 1
    TAIL = 2


STAGE_NAMES = ("warm-up", "steady", "tail")
"""Name of each `Stage`."""


def stages(steps: Steps, kinds: StepKinds, took: Float64, rows: Int64) -> Int64:
    """The `Stage` of each of some steps, NULL where its thread has no steady state; `took` has an entry per step."""
    stage = np.full(len(rows), NULL, np.int64)
    for lane in distinct(steps.lane[rows]).tolist():
        mine = np.flatnonzero(steps.lane[rows] == lane)
        first, last = _steady(kinds, took, rows[mine])
        if last > first:
            stage[mine] = Stage.STEADY
            stage[mine[:first]], stage[mine[last:]] = Stage.WARM_UP, Stage.TAIL
    return stage


def _steady(kinds: StepKinds, took: Float64, rows: Int64) -> tuple[int, int]:
    """Place of the first and behind the last step of the steady state of one thread; twice the same for none."""
    kind = np.array([kinds.kind[row] for row in rows.tolist()], object)
    if len(rows) < MIN_STEPS or (kind == UNKNOWN).any():
        return 0, 0
    requests = kinds.requests[rows]
    decodes = np.asarray((kind == DECODE) & (requests != NULL))
    small = decodes & (requests < SMALL_SHARE * np.median(requests[decodes])) if decodes.any() else decodes
    slow = _slow(kinds, kind, took, rows)
    # A prefill says nothing about how full the server is.
    settled = np.flatnonzero(~slow & ~small & (decodes if decodes.any() else True))
    if len(settled) == 0:
        return 0, 0
    unsettled = np.flatnonzero((slow | small)[: settled[0]])
    first = int(unsettled[-1]) + 1 if len(unsettled) else 0
    last = int(settled[-1]) + 1
    # The batch empties where nothing new comes.
    if not small[last:].all():
        last = len(rows)
    return (first, last) if last - first >= MIN_STEADY_SHARE * len(rows) else (0, 0)


def _slow(kinds: StepKinds, kind: np.ndarray, took: Float64, rows: Int64) -> Bool:
    """Mask of the steps that took far longer than those of their kind and size."""
    slow = np.zeros(len(rows), bool)
    for each in sorted(set(kind.tolist())):
        mine = np.flatnonzero(kind == each)
        _, size = sizes_of(kinds, each, rows[mine])
        for number in distinct(size).tolist():
            alike = mine[size == number]
            if len(alike) >= MIN_ALIKE:
                slow[alike] = took[rows[alike]] > SLOW_RATIO * np.median(took[rows[alike]])
    return slow


# A line through the times of a kind of steps by their size: a fixed cost and one for each request or token (R3.89).

MIN_SIZES = 3
"""Minimum different sizes for a line."""
MIN_SIZE_RATIO = 2.0
"""Minimum ratio of the largest to the smallest of them: the fixed cost is far from sizes that are close."""
MAX_MISFIT = 0.05
"""Maximum root mean square of what the times are off the line, relative to their mean."""
MIN_RISE = 0.02
"""Rise from the smallest to the largest size, relative to the mean, below which times do not follow the size."""


@frozen(eq=True)
class Line:
    """Time of a step by its size: `fixed + each * size`, in ns."""

    unit: str
    """`requests` or `tokens`."""
    fixed: float
    each: float
    misfit: float
    """Root mean square of what the times are off the line, relative to their mean."""
    sizes: tuple[int, ...]
    """The sizes of the steps, ascending."""
    steps: int

    def at(self, size: float) -> float:
        """Time of a step of this size."""
        return self.fixed + self.each * size

    @property
    def is_flat(self) -> bool:
        """True where the size makes no difference."""
        middle = self.at((self.sizes[0] + self.sizes[-1]) / 2)
        return self.each * (self.sizes[-1] - self.sizes[0]) < MIN_RISE * middle


def line_of(kinds: StepKinds, kind: str, took: Float64, rows: Int64) -> Line | None:
    """The line through the median times of steps by size; None with few sizes, and where no rising line fits."""
    unit, size = sizes_of(kinds, kind, rows)
    rows, size = rows[(size != NULL) & ~np.isnan(took[rows])], size[(size != NULL) & ~np.isnan(took[rows])]
    sizes = distinct(size)
    if kind == UNKNOWN or len(sizes) < MIN_SIZES or sizes[0] <= 0 or sizes[-1] < MIN_SIZE_RATIO * sizes[0]:
        return None
    times = np.array([median_of(took[rows[size == each]]) for each in sizes.tolist()], np.float64)
    x = sizes - sizes.mean()
    each = float((x * times).sum() / (x * x).sum())
    fixed = float(times.mean() - each * sizes.mean())
    misfit = float(np.sqrt(np.mean((times - fixed - each * sizes) ** 2)) / times.mean()) if times.mean() > 0 else 1.0
    line = Line(unit, fixed, each, misfit, tuple(sizes.tolist()), len(rows))
    is_falling = each * (sizes[-1] - sizes[0]) < -MIN_RISE * times.mean()
    return None if misfit > MAX_MISFIT or fixed < 0 or is_falling else line


def is_padded(trace: Trace, line: Line, rows: Int64) -> bool:
    """True where steps of all sizes replay the same graph: they run the kernels of its batch, whatever their own.

    Kernels are the same by name and, where it is recorded, by grid; where it is not, the times must be the same too.
    """
    replayed, joined = replays(trace), links(trace)
    step = step_index(trace, replayed.launch)
    graphs, grids = set(), set()
    for row in rows.tolist():
        mine = np.flatnonzero(step == row)
        graphs.add(tuple(replayed.graph[mine].tolist()))
        kernels = [joined.kernels_of(launch) for launch in replayed.launch[mine].tolist()]
        events = trace.slices.event[np.concatenate(kernels)] if kernels else np.empty(0, np.int64)
        grids.add(tuple(trace.work_args.text("grid", events).tolist()))
    has_grids = any(max(each, default=-1) >= 0 for each in grids)
    return () not in graphs and len(graphs) == len(grids) == 1 and (has_grids or line.is_flat)


# Prefills beside decodes: steps with both against decodes of as many requests in generation (R3.89).

MIN_EQUAL_DECODES = 3
"""Minimum decodes of the same batch against which mixed steps are compared."""


@frozen
class Delay:
    """Mixed steps with one number of requests in generation, and decodes of as many."""

    requests: int
    """Requests in generation."""
    mixed: Int64
    """Indices of the mixed steps."""
    decodes: Int64


def delays(kinds: StepKinds, took: Float64, mixed: Int64, decodes: Int64) -> list[Delay]:
    """The mixed steps for which there are decodes of as many requests, by that number."""
    mixed, decodes = mixed[~np.isnan(took[mixed])], decodes[~np.isnan(took[decodes])]
    generated, requests = kinds.generated[mixed], kinds.requests[decodes]
    compared = [
        Delay(each, mixed[generated == each], decodes[requests == each])
        for each in distinct(generated[generated > 0]).tolist()
    ]
    return [each for each in compared if len(each.decodes) >= MIN_EQUAL_DECODES]


Groups = dict[str, Int64]
"""Indices of the steps of each kind."""
OF_KINDS = (None, "purpose", "between")
"""Groupings whose numbers are of all steps of a kind, of those in the steady state if there is one."""

NO_LINE = (
    "No kind of step has three different batches, the largest at least twice the smallest, whose times lie on a line: "
    "what a step costs by its batch cannot be told."
)
NOT_STEADY = "There is no steady state: fewer than 8 steps of known kind, or half of them are of a start or an end."
NO_DELAY = "No step holds both a prefill and requests in generation, with three decodes of as many to compare it with."
NO_CONTEXT = (
    "The names of the steps say nothing about contexts; vLLM since 0.26, and SGLang where asked to, add them "
    "(`sk`, `sqsk`)."
)


def cost_sentences(facts: StepFacts, groups: Groups, by: str | None) -> list[str]:
    """The steady state, the lines of the costs and the delays by prefills, as far as a grouping is about them."""
    sentences = []
    if by in (None, "stage"):
        sentences.append(_steady_sentence(facts, groups))
    if by in OF_KINDS:
        sentences.append(_over_steady_sentence(facts, groups))
    if by in (None, "batch", "cost"):
        sentences += [_line_sentence(facts.trace, kind, line, groups[kind]) for kind, line in _lines(facts, groups)]
    if by in (None, "prefill"):
        sentences.append(_delay_sentence(facts, groups))
    return sentences


def _lines(facts: StepFacts, groups: Groups) -> list[tuple[str, Line]]:
    """The line of each kind that has one."""
    lines = [(kind, line_of(facts.kinds, kind, facts.took, rows)) for kind, rows in groups.items()]
    return [(kind, line) for kind, line in lines if line is not None]


def _served_stages(facts: StepFacts, groups: Groups) -> tuple[Int64, Int64]:
    """The steps of all kinds in order, and the `Stage` of each, NULL where its thread has no steady state."""
    served = np.sort(np.concatenate([np.empty(0, np.int64), *groups.values()]))
    return served, stages(steps(facts.trace), facts.kinds, facts.took, served)


def steady_groups(facts: StepFacts, groups: Groups) -> Groups:
    """The steps of each kind without those of a warm-up and a tail; of a kind that has no others, all of them."""
    served, stage = _served_stages(facts, groups)
    left_out = served[(stage == Stage.WARM_UP) | (stage == Stage.TAIL)]
    steady = {kind: rows[~np.isin(rows, left_out)] for kind, rows in groups.items()}
    return {kind: rows if len(rows) else groups[kind] for kind, rows in steady.items()}


def _over_steady_sentence(facts: StepFacts, groups: Groups) -> str:
    """The steps that numbers by kind are over; empty where these are all steps."""
    steady = steady_groups(facts, groups)
    some = [
        f"{kind} {len(rows):,} of {len(groups[kind]):,}"
        for kind, rows in steady.items()
        if len(rows) < len(groups[kind])
    ]
    if not some:
        return ""
    served, stage = _served_stages(facts, groups)
    ends = served[(stage == Stage.WARM_UP) | (stage == Stage.TAIL)]
    others = [kind for kind, rows in steady.items() if np.isin(rows, ends).all()]
    rest = f" It has no {', no '.join(others)}: all of these count." if others else ""
    return f"Numbers by kind are over the steps of the steady state: {', '.join(some)}.{rest}"


def _line_sentence(trace: Trace, kind: str, line: Line, rows: Int64) -> str:
    low, high = line.sizes[0], line.sizes[-1]
    if is_padded(trace, line, rows):
        return (
            f"Each {kind} of {low:,} to {high:,} {line.unit} replays the same kernels of one graph for {high:,} or "
            f"more ({duration(line.at(high))}): smaller batches are padded to it, nothing is known beyond its batch."
        )
    if line.is_flat:
        return f"A {kind} takes {duration(line.at(high))} whatever its batch, {low:,} to {high:,} {line.unit}."
    share = min(line.fixed / line.at(high), 1.0)
    return (
        f"A {kind} costs {duration(line.fixed)} and {duration(line.each)} for each of its {line.unit} "
        f"({len(line.sizes)} batches of {low:,} to {high:,}, {100 * line.misfit:.1f} % off); at {high:,} the fixed "
        f"part is {100 * share:.0f} %."
    )


def cost_table(facts: StepFacts, groups: Groups) -> Table:
    """The line through the times of each kind by size."""
    lines = _lines(facts, groups)
    rows = [groups[kind] for kind, _ in lines]
    return Table(
        (
            texts(col.KIND, [kind for kind, _ in lines]),
            texts(col.BATCH_UNIT, [line.unit for _, line in lines]),
            numbers(col.FIXED_US, np.array([line.fixed / 1000 for _, line in lines], np.float64)),
            numbers(col.EACH_US, np.array([line.each / 1000 for _, line in lines], np.float64)),
            numbers(col.SIZES, [len(line.sizes) for _, line in lines]),
            numbers(col.SMALLEST_BATCH, [line.sizes[0] for _, line in lines]),
            numbers(col.LARGEST_BATCH, [line.sizes[-1] for _, line in lines]),
            numbers(col.MISFIT_PCT, np.array([100 * line.misfit for _, line in lines], np.float64)),
            numbers(col.STEPS, [line.steps for _, line in lines]),
        ),
        longest_of(facts, rows),
    )


def _steady_sentence(facts: StepFacts, groups: Groups) -> str:
    """The steady state of the thread with most steps, and what is left out of it; empty where there is none."""
    served, stage = _served_stages(facts, groups)
    lanes = steps(facts.trace).lane[served]
    if (stage == NULL).all():
        return ""
    mine = (stage != NULL) & (lanes == np.bincount(lanes[stage != NULL]).argmax())
    judged, stage, labels = served[mine], stage[mine], step_labels(facts.trace)
    steady = judged[stage == Stage.STEADY]
    left_out = [
        f"{counted(int((stage == each).sum()), 'step')} of {words}"
        for each, words in ((Stage.WARM_UP, "warm-up"), (Stage.TAIL, "the tail"))
        if (stage == each).any()
    ]
    if not left_out:
        return f"All {len(judged):,} steps are of a steady state.{_long_periods(facts, steady)}"
    decodes = steady[facts.kinds.of_kind(DECODE)[steady]]
    rate = token_rate(facts.trace, decodes, facts.kinds.generated) if len(decodes) else float("nan")
    words = f" ({rate:,.0f} output tokens/s of its decodes)" if rate == rate else ""
    state = f"Steady state: steps {labels[steady[0]]} to {labels[steady[-1]]}{words}, without {' and '.join(left_out)}."
    return f"{state}{_long_periods(facts, steady)}"


def _long_periods(facts: StepFacts, steady: Int64) -> str:
    """A sentence on the longest period where it is far from the median of its kind; empty where none is."""
    period, usual = known(facts.times.period), np.full(len(facts.took), np.nan)
    for kind in {facts.kinds.kind[row] for row in steady.tolist()}:
        alike = steady[facts.kinds.of_kind(kind or "")[steady] & ~np.isnan(period[steady])]
        usual[alike] = median_of(period[alike])
    far = steady[period[steady] > SLOW_RATIO * usual[steady]]
    if len(far) == 0:
        return ""
    longest = far[np.argmax(period[far])]
    took = f"has a period of {duration(period[longest])}, of {duration(usual[longest])} in the median"
    step = step_labels(facts.trace)[longest]
    return (
        f" One step in it, {step}, {took}."
        if len(far) == 1
        else f" {len(far):,} steps in it are far longer: {step} {took}."
    )


def stage_table(facts: StepFacts, groups: Groups) -> Table:
    """The steps of each kind in the warm-up, the steady state and the tail."""
    trace, kinds = facts.trace, facts.kinds
    (served, of_served), pairs = _served_stages(facts, groups), []
    for kind, mine in groups.items():
        stage = of_served[np.searchsorted(served, mine)]
        pairs += [(kind, each, mine[stage == each]) for each in Stage if (stage == each).any()]
    rows = [each for _, _, each in pairs]
    period = known(facts.times.period)
    alone = (kinds.generated != NULL) & (kinds.generated == kinds.requests) & kinds.of_kind(DECODE)
    return Table(
        (
            texts(col.KIND, [kind for kind, _, _ in pairs]),
            texts(col.SERVER_STAGE, [STAGE_NAMES[stage] for _, stage, _ in pairs]),
            numbers(col.STEPS, [len(each) for each in rows]),
            column_of(col.REQUESTS.but(help="Median of the requests served in a step."), known(kinds.requests), rows),
            column_of(
                col.MEDIAN_US.but(help="Median GPU span of a step; without a GPU, its time on the CPU."),
                facts.took,
                rows,
            ),
            column_of(col.GPU_PERIOD_US, period, rows),
            column_of(col.TOKEN_US, np.where(alone, period, np.nan), rows),
            numbers(col.OUTPUT_RATE, [token_rate(trace, each, kinds.generated) for each in rows]),
        ),
        longest_of(facts, rows),
    )


def _delays(facts: StepFacts, groups: Groups) -> list[Delay]:
    nothing = np.empty(0, np.int64)
    return delays(facts.kinds, facts.took, groups.get("mixed", nothing), groups.get(DECODE, nothing))


def _delay_of(facts: StepFacts, each: Delay) -> float:
    return median_of(facts.took[each.mixed]) - median_of(facts.took[each.decodes])


def _prompt(facts: StepFacts) -> Float64:
    """Tokens of prompts in each step."""
    return np.maximum(known(facts.kinds.tokens) - known(facts.kinds.generated), 0)


def _delay_sentence(facts: StepFacts, groups: Groups) -> str:
    compared = _delays(facts, groups)
    if not compared:
        return ""
    each = max(compared, key=lambda each: len(each.mixed))
    delay, decode, prompt = (
        _delay_of(facts, each),
        median_of(facts.took[each.decodes]),
        _prompt(facts)[each.mixed],
    )
    tokens = f" of {median_of(prompt):,.0f} tokens" if not np.isnan(prompt).all() else ""
    return (
        f"A prefill{tokens} delays the {counted(each.requests, 'request')} in generation beside it by "
        f"{duration(delay)}: {duration(decode + delay)} is {how_much(decode, decode + delay)} as their decode "
        f"({counted(len(each.mixed), 'mixed step')}, {counted(len(each.decodes), 'decode')} of that batch)."
    )


def delay_table(facts: StepFacts, groups: Groups) -> Table:
    """Mixed steps by their requests in generation, beside decodes of as many."""
    compared = _delays(facts, groups)
    rows, prompt = [each.mixed for each in compared], _prompt(facts)
    delay = np.array([_delay_of(facts, each) for each in compared], np.float64)
    tokens = np.array([median_of(prompt[each]) for each in rows], np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_token = delay / 1000 / np.where(tokens > 0, tokens, np.nan)
    return Table(
        (
            texts(col.KIND, ["mixed"] * len(compared)),
            numbers(col.IN_GENERATION, [each.requests for each in compared]),
            numbers(col.STEPS, [len(each) for each in rows]),
            numbers(col.PROMPT_TOKENS.but(help="Median of the tokens of prompts in the step."), tokens),
            column_of(col.MEDIAN_US.but(help="Median GPU span of these steps."), facts.took, rows),
            column_of(
                col.DECODE_US.but(help="Median GPU span of decodes of as many requests."),
                facts.took,
                [each.decodes for each in compared],
            ),
            numbers(col.PREFILL_DELAY_US, delay / 1000),
            numbers(col.PER_PROMPT_TOKEN_US, per_token),
            numbers(col.DECODES, [len(each.decodes) for each in compared]),
        ),
        longest_of(facts, rows),
    )


WHOLE, PART, NOT_KNOWN = range(3)
ATTENTIONS = Strings(["whole context", "part of it", "not known"])
"""Sets of the calls of attention: of known work, faster than their whole context allows, all others (R3.99)."""


def attention_table(facts: StepFacts, groups: Groups) -> Table:
    """Attention of each kind of step by its context, the calls of known work apart from all others.

    All numbers of a row are medians over the same steps and calls, so that they multiply out.
    """
    # Imported where it is asked for: opening a trace needs no rooflines.
    from tracetui.devices.kernel_work import kernel_work
    from tracetui.devices.roofline import BOUNDS, CACHE, DOUBTFUL, roofline

    trace, context, count = facts.trace, known(facts.kinds.context), len(facts.took)
    work, rooflines = kernel_work(trace), roofline(trace)
    ids, names = purposes(trace, work.rows)
    attends = np.array([name == Purpose.ATTENTION for name in names], bool)[np.maximum(ids, 0)] & (ids >= 0)
    has_work = attends & ~np.isnan(work.flops) & ~np.isin(rooflines.bound, (CACHE, DOUBTFUL))
    # What a call launches beside its main kernel belongs to it.
    main = np.where(work.main >= 0, work.main, np.arange(len(attends)))
    of_call = np.where(has_work, WHOLE, np.where(work.is_partial, PART, NOT_KNOWN))[main]
    is_call, step = attends & (main == np.arange(len(main))), step_index(trace, work.rows)
    place = np.where((attends | attends[main]) & (step >= 0), of_call * count + step, -1)

    def summed(values: Int64 | Float64) -> Float64:
        """The sum of a number of activities by set and step, one set behind the other."""
        return np.bincount(place[place >= 0], values[place >= 0], 3 * count).astype(np.float64)

    def of_work(values: Float64) -> Float64:
        return np.where(calls > 0, summed(np.where(is_call, np.where(has_work, values, np.nan), 0)), np.nan)

    time, calls = summed(trace.slices.dur[work.rows]), summed(is_call.astype(np.int64))
    flops, moved, least = map(of_work, (work.flops, work.bytes, rooflines.roofline_ns))
    sets = [(kind, each, mine[~np.isnan(context[mine])]) for kind, mine in groups.items() for each in range(3)]
    ran = [(kind, each, mine[time[each * count + mine] > 0]) for kind, each, mine in sets]
    pairs = [row for row in ran if len(row[2])]
    # Steps without attention have a row too.
    pairs += [row for row in sets if row[1] == NOT_KNOWN and len(row[2]) and row[0] not in {kind for kind, *_ in pairs}]
    rows, placed = [mine for *_, mine in pairs], [each * count + mine for _, each, mine in pairs]
    median, roofs = (
        column_of(col.MEDIAN_US.but(help="Median time of these calls in a step."), time, placed),
        column_of(col.ROOFLINE_US, least, placed),
    )
    tokens = column_of(col.CONTEXT, context, rows)
    bounds = [
        np.bincount(rooflines.bound[at] + 1, work.span[at], len(BOUNDS) + 1).argmax() - 1 if len(at) else -1
        for at in (np.flatnonzero(has_work & np.isin(place, each)) for each in placed)
    ]
    took, of_tokens, at_best = (np.asarray(each.values, np.float64) for each in (median, tokens, roofs))
    with np.errstate(divide="ignore", invalid="ignore"):
        per_context = np.where([each == PART for _, each, _ in pairs], np.nan, 1000 * took / of_tokens)
        each_context = context / known(facts.kinds.requests)
        peak = np.where(took > 0, 100 * at_best / took, np.nan)
        shares = [100 * time[at].sum() / np.nansum(facts.busy[mine]) for at, mine in zip(placed, rows, strict=True)]
    return Table(
        (
            texts(col.KIND, [kind for kind, *_ in pairs]),
            coded(col.ATTENTION, np.array([each for _, each, _ in pairs], np.int64), ATTENTIONS),
            numbers(col.STEPS, [len(mine) for mine in rows]),
            column_of(col.CALLS.but(help="Median of these calls in a step."), calls, placed),
            tokens,
            column_of(col.CONTEXT_EACH, each_context, rows),
            median,
            numbers(col.PER_CONTEXT_US, per_context),
            numbers(col.ATTENTION_PCT, np.array(shares, np.float64)),
            numbers(col.PEAK_PCT.but(help="The roofline time by the time."), peak),
            coded(col.BOUND, np.array(bounds, np.int64), BOUNDS),
            column_of(col.FLOPS.but(help="Operations of these calls in a step."), flops, placed),
            column_of(col.BYTES.but(help="Least bytes that these calls move in a step."), moved, placed),
            roofs,
        ),
        longest_of(facts, rows),
    )
