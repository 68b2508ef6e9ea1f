"""Tables and sentences of the cost of a server's steps: by size of the batch, in the steady state, beside prefills, and
of attention by the context (R3.88, R3.89, R3.99).
"""

from __future__ import annotations

import numpy as np

from tracetui.kernel_names.decoded import Purpose
from tracetui.kernel_names.slice_names import purposes
from tracetui.linking.placement import step_index, step_labels
from tracetui.linking.steps import steps
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration, how_much
from tracetui.model.table import NULL, Column, Table, coded, numbers, texts
from tracetui.model.trace import Float64
from tracetui.serving.batch_cost import STAGE_NAMES, Delay, Line, Stage, delays, line_of, stages
from tracetui.serving.server_steps import DECODE, purpose_times
from tracetui.serving.step_facts import StepFacts, column_of, known, longest_of, time_for, token_rate

Groups = dict[str, Int64]
"""Indices of the steps of each kind."""

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
    if by in (None, "batch", "cost"):
        sentences += [_line_sentence(kind, line) for kind, line in _lines(facts, groups)]
    if by in (None, "prefill"):
        sentences.append(_delay_sentence(facts, groups))
    return sentences


def _lines(facts: StepFacts, groups: Groups) -> list[tuple[str, Line]]:
    """The line of each kind that has one."""
    lines = [(kind, line_of(facts.kinds, kind, facts.took, rows)) for kind, rows in groups.items()]
    return [(kind, line) for kind, line in lines if line is not None]


def _stage(facts: StepFacts, groups: Groups, rows: Int64) -> Int64:
    served = np.sort(np.concatenate(list(groups.values())))
    return stages(steps(facts.trace), facts.kinds, facts.took, served)[np.searchsorted(served, rows)]


def _line_sentence(kind: str, line: Line) -> str:
    low, high = line.sizes[0], line.sizes[-1]
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
    served = np.sort(np.concatenate(list(groups.values())))
    stage = _stage(facts, groups, served)
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
        return f"All {len(judged):,} steps are of a steady state."
    decodes = steady[facts.kinds.of_kind(DECODE)[steady]]
    rate = token_rate(facts.trace, decodes, facts.kinds.generated) if len(decodes) else float("nan")
    words = f" ({rate:,.0f} output tokens/s of its decodes)" if rate == rate else ""
    return f"Steady state: steps {labels[steady[0]]} to {labels[steady[-1]]}{words}, without {' and '.join(left_out)}."


def stage_table(facts: StepFacts, groups: Groups) -> Table:
    """The steps of each kind in the warm-up, the steady state and the tail."""
    trace, kinds = facts.trace, facts.kinds
    pairs = []
    for kind, mine in groups.items():
        stage = _stage(facts, groups, mine)
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
    return float(np.median(facts.took[each.mixed]) - np.median(facts.took[each.decodes]))


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
        float(np.median(facts.took[each.decodes])),
        _prompt(facts)[each.mixed],
    )
    tokens = f" of {np.median(prompt):,.0f} tokens" if not np.isnan(prompt).all() else ""
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
    tokens = np.array([np.median(prompt[each]) for each in rows], np.float64)
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


def attention_table(facts: StepFacts, groups: Groups) -> Table:
    """Attention of each kind of step by its context, with its roofline where the sizes of its heads are known."""
    trace, context = facts.trace, known(facts.kinds.context)
    some = {kind: rows[~np.isnan(context[rows])] for kind, rows in groups.items()}
    some = {kind: rows for kind, rows in some.items() if len(rows)}
    rows, requests = list(some.values()), known(facts.kinds.requests)
    work = purpose_times(trace)
    spent = time_for(work, Purpose.ATTENTION)
    with np.errstate(divide="ignore", invalid="ignore"):
        each, per = context / requests, 1000 * spent / context
    whole = [float(np.nansum(facts.busy[mine])) for mine in rows]
    shares = [
        100 * float(np.nansum(spent[mine])) / time if time else np.nan for mine, time in zip(rows, whole, strict=True)
    ]
    return Table(
        (
            texts(col.KIND, list(some)),
            numbers(col.STEPS, [len(mine) for mine in rows]),
            column_of(col.CONTEXT, context, rows),
            column_of(col.CONTEXT_EACH, each, rows),
            column_of(col.MEDIAN_US.but(help="Median time of a step in which attention ran."), spent, rows),
            column_of(col.PER_CONTEXT_US, per, rows),
            numbers(col.ATTENTION_PCT, np.array(shares, np.float64)),
            *_roofline_columns(facts, rows),
        ),
        longest_of(facts, rows),
    )


def _roofline_columns(facts: StepFacts, rows: list[Int64]) -> list[Column]:
    """Work of the attention of each group, and how near to its roofline it came, of the calls that have one."""
    # Imported where it is asked for: opening a trace needs no rooflines.
    from tracetui.devices.kernel_work import kernel_work
    from tracetui.devices.roofline import BOUNDS, roofline

    trace = facts.trace
    work, rooflines = kernel_work(trace), roofline(trace)
    step = step_index(trace, work.rows)
    ids, names = purposes(trace, work.rows)
    is_attention = np.array([name == Purpose.ATTENTION for name in names], bool)[np.maximum(ids, 0)] & (ids >= 0)
    known_work = is_attention & ~np.isnan(work.flops)
    believed = known_work & ~np.isnan(rooflines.share)
    calls = [np.flatnonzero(known_work & np.isin(step, mine)) for mine in rows]
    judged = [each[believed[each]] for each in calls]
    least = np.array([rooflines.roofline_ns[each].sum() for each in judged], np.float64)
    time = np.array([work.span[each].sum() for each in judged], np.float64)
    count = np.array([max(len(mine), 1) for mine in rows], np.float64)
    per_step = [
        np.array([values[each].sum() if len(each) else np.nan for each in calls], np.float64) / count
        for values in (work.flops, work.bytes)
    ]
    bounds = [
        np.bincount(rooflines.bound[each] + 1, work.span[each], len(BOUNDS) + 1).argmax() - 1 if len(each) else -1
        for each in judged
    ]
    return [
        numbers(col.PEAK_PCT, np.where(time > 0, 100 * least / np.maximum(time, 1), np.nan)),
        coded(col.BOUND, np.array(bounds, np.int64), BOUNDS),
        numbers(col.FLOPS.but(help="Operations of attention in a step, of the calls of known work."), per_step[0]),
        numbers(col.BYTES.but(help="Least bytes that these calls move in a step."), per_step[1]),
        numbers(col.ROOFLINE_US, np.where(time > 0, least / count / 1000, np.nan)),
    ]
