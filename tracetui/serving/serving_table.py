"""The serving pane: the steps of an inference server by kind, by batch, by purpose of kernels, and what lies between.

All numbers are over complete steps that served requests. Percentiles are linear between ranks (R3.82 to R3.86).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tracetui.idle.gpu_spans import behind_sentence, step_spans
from tracetui.kernel_names.decoded import Purpose
from tracetui.kernel_names.slice_names import is_serving
from tracetui.linking.links import busy_stretches, links, no_gpu
from tracetui.linking.placement import between_share, chosen
from tracetui.linking.step_kinds import KIND_HELP, averaged_steps, step_kinds
from tracetui.linking.step_names import KINDS, padded_batch
from tracetui.linking.step_sources import no_steps, steps_sentence
from tracetui.linking.steps import steps
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part, covered_within
from tracetui.model.pane import Grouping, Pane
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.table import NULL, Column, ColumnSpec, Table, missing, numbers, texts
from tracetui.model.trace import Float64, Trace
from tracetui.serving.cost_tables import (
    NO_CONTEXT,
    NO_DELAY,
    NO_LINE,
    NOT_STEADY,
    OF_KINDS,
    attention_table,
    cost_sentences,
    cost_table,
    delay_table,
    stage_table,
    steady_groups,
)
from tracetui.serving.server_steps import (
    ACTIVITY_NAMES,
    DRAFT,
    Batch,
    Iterations,
    PurposeTimes,
    StepFacts,
    batches,
    between_steps,
    column_of,
    iterations,
    known,
    longest_of,
    purpose_times,
    step_facts,
    time_for,
    token_rate,
)

MAX_NAMED_ACTIVITIES = 3
"""Maximum activities of the CPU named per row."""
MIN_NAMED_PERCENT = 5
"""Minimum percent of the time between steps of an activity that is named."""
_SHARES = (
    (col.ATTENTION_PCT, Purpose.ATTENTION),
    (col.PRODUCTS_PCT, Purpose.GEMM),
    (col.COMM_PCT, Purpose.COMMUNICATION),
    (col.ROUTING_PCT, Purpose.ROUTING),
    (col.QUANTISE_PCT, Purpose.QUANTISATION),
    (col.SAMPLING_PCT, Purpose.SAMPLING),
)

NOT_SERVED = "No step of this trace is one of an inference server, as vLLM, SGLang, TensorRT-LLM or ATOM name theirs."

NO_ITERATIONS = "No step of this trace drafts tokens that another one checks: there is nothing to put together."
NOT_ACCEPTED = "how many drafted tokens were accepted is not recorded, so that the time per output token is not known"

NOTHING_BETWEEN = "No step of a server directly follows another one on its thread with time between them."


def serving(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """One row per kind of step; by `batch` per kind and size, by `purpose` of kernels, by CPU work `between` steps.

    Numbers of a kind are over its steps in the steady state, if there is one (R3.88).
    """
    kinds = step_kinds(trace)
    served = averaged_steps(trace) & np.array([each is not None for each in kinds.kind], bool)
    wanted = np.zeros(len(served), bool)
    wanted[chosen(trace, step)] = True
    groups = {
        kind: np.flatnonzero(served & wanted & kinds.of_kind(kind)) for kind in KINDS if kinds.of_kind(kind).any()
    }
    groups = {kind: rows for kind, rows in groups.items() if len(rows)}
    facts = step_facts(trace, kinds)
    steady = steady_groups(facts, groups) if by in OF_KINDS else groups
    tables: dict[str | None, Callable[[StepFacts, dict[str, Int64]], Table]] = {
        None: partial(_by_kind, counts={kind: len(rows) for kind, rows in groups.items()}),
        "batch": _by_batch,
        "purpose": _by_purpose,
        "between": _by_activity,
        "iteration": _by_iteration,
        "cost": cost_table,
        "stage": stage_table,
        "prefill": delay_table,
        "attention": attention_table,
    }
    table = tables[by](facts, steady)
    return Table(table.columns, table.slices, _note(facts, groups, by, len(table)))


PANE = Pane(
    "serving",
    "Serving",
    key="S",
    help="One row is a kind of step of an inference server: how long, how often, and what lies between.",
    table=serving,
    columns=(
        "kind steps steady_steps requests tokens token_us gpu_period_us idle_within_us idle_between_us median_us "
        "p99_us gpu_busy_us between_us exposed_us between output_tokens_per_s attention_pct products_pct comm_pct "
        "routing_pct quantise_pct sampling_pct idle_pct context per_token_us per_request_us comm_us min_comm_us pct "
        "p95_us gpu_period_p99_us cpu_step_us"
    ),
    groupings=(
        Grouping(
            "batch",
            columns=(
                "kind batch batch_unit steps padded median_us p95_us gpu_period_us tokens_per_s gpu_busy_us "
                "idle_within_us kernels graph_replays per_request_us per_token_us p99_us attention_pct products_pct "
                "comm_pct routing_pct quantise_pct sampling_pct idle_pct"
            ),
        ),
        Grouping("purpose", "kind purpose median_us pct alone_us min_us p95_us activities", is_offered=is_serving),
        Grouping("between", "kind cpu_activity median_us pct exposed_us steps"),
        Grouping("cost", "kind batch_unit fixed_us each_us sizes smallest_batch largest_batch misfit_pct steps"),
        Grouping("stage", "kind stage_of_server steps requests median_us gpu_period_us token_us output_tokens_per_s"),
        Grouping(
            "prefill",
            "kind in_generation steps prompt_tokens median_us decode_us prefill_delay_us per_prompt_token_us decodes",
        ),
        Grouping(
            "attention",
            columns=(
                "kind attention calls steps context context_each median_us per_context_us attention_pct peak_pct bound "
                "flops bytes roofline_us"
            ),
        ),
        Grouping(
            "iteration",
            columns=(
                "kind runs requests tokens median_us gpu_period_us draft_us check_us idle_within_us "
                "min_token_us p99_us p95_us steps"
            ),
        ),
    ),
    has_own_order=True,
    bars="median_us",
    of_step=False,
    is_in_time_order=False,
    keeps_order=True,
)


def _note(facts: StepFacts, groups: dict[str, Int64], by: str | None, rows: int) -> str:
    """The reason for no rows, or what the steps are, what was launched outside of them, and what is not known."""
    trace = facts.trace
    if not groups:
        return NOT_SERVED if len(steps(trace)) else f"{NOT_SERVED} {no_steps(trace)}"
    if rows == 0:
        reasons = {
            "between": NOTHING_BETWEEN,
            "iteration": NO_ITERATIONS,
            "cost": NO_LINE,
            "stage": NOT_STEADY,
            "prefill": NO_DELAY,
            "attention": NO_CONTEXT,
        }
        return reasons.get(by or "", no_gpu(trace))
    share = between_share(trace)
    outside = f"{rounded_percent(share)} of the GPU time was launched between steps." if share else ""
    speculation = _speculation(facts, groups) if by in (None, "iteration") else ""
    costs = cost_sentences(facts, groups, by)
    return " ".join(filter(None, (steps_sentence(trace), outside, behind_sentence(trace), speculation, *costs)))


def _speculation(facts: StepFacts, groups: dict[str, Int64]) -> str:
    """A caveat where steps may make several tokens for a request; empty where none does."""
    found = _iterations(facts, groups)
    if len(found):
        took = duration(float(np.median(found.end - found.start)))
        words = f"{counted(len(found), 'iteration')} of drafts and a check of them, {took} at the median"
        return f"Speculative decoding: {words}; {NOT_ACCEPTED}."
    decodes = groups.get("decode", np.empty(0, np.int64))
    several = int((facts.kinds.tokens[decodes] > facts.kinds.requests[decodes]).sum()) if len(decodes) else 0
    if several == 0:
        return ""
    return f"{counted(several, 'decode')} took in several tokens for a request (speculative decoding); {NOT_ACCEPTED}."


def _iterations(facts: StepFacts, groups: dict[str, Int64]) -> Iterations:
    whole = np.zeros(len(facts.took), bool)
    for rows in groups.values():
        whole[rows] = True
    return iterations(steps(facts.trace), facts.kinds, facts.times, whole)


def _by_kind(facts: StepFacts, groups: dict[str, Int64], counts: dict[str, int]) -> Table:
    """`groups` are the steps that numbers are over, `counts` those of each kind in all."""
    trace, kinds, times, rows = facts.trace, facts.kinds, facts.times, list(groups.values())
    period, work = known(times.period), purpose_times(trace)
    # No request can have got several tokens.
    decodes = (kinds.generated != NULL) & (kinds.generated == kinds.requests)
    decodes &= np.array([each == "decode" for each in kinds.kind], bool)
    comm = time_for(work, Purpose.COMMUNICATION)
    every = np.concatenate(rows) if rows else np.empty(0, np.int64)
    whole = float(np.nansum(facts.busy[every]))
    return Table(
        (
            texts(col.KIND.but(help=KIND_HELP), list(groups)),
            numbers(col.STEPS, list(counts.values())),
            numbers(
                col.STEADY_STEPS,
                [len(each) if len(each) < count else NULL for each, count in zip(rows, counts.values(), strict=True)],
            ),
            column_of(col.REQUESTS.but(help="Median of the requests served in a step."), known(kinds.requests), rows),
            column_of(col.TOKENS.but(help="Median of the tokens that went into the model."), known(kinds.tokens), rows),
            *_durations(facts, rows),
            column_of(col.GPU_PERIOD_US, period, rows),
            column_of(col.P99_PERIOD_US, period, rows, 99),
            column_of(col.TOKEN_US, np.where(decodes, period, np.nan), rows),
            numbers(col.OUTPUT_RATE, [token_rate(trace, each, kinds.generated) for each in rows]),
            column_of(col.CPU_TIME_US, facts.cpu, rows),
            column_of(col.GPU_BUSY_US.but(help="Median time in which its GPU activities ran."), facts.busy, rows),
            column_of(col.IDLE_WITHIN_US, facts.idle, rows),
            column_of(col.IDLE_BETWEEN_US, known(times.gap), rows),
            column_of(col.BETWEEN_US, known(times.between), rows),
            column_of(col.EXPOSED_US, known(times.exposed), rows),
            texts(col.BETWEEN, [_activities(trace, each) for each in rows]),
            *_shares(facts, work, rows),
            column_of(col.CONTEXT, known(kinds.context), rows),
            *_per_unit(facts, rows),
            column_of(col.COMM_US.but(help="Median time in which it moved data between devices."), comm, rows),
            column_of(col.MIN_COMM_US, comm, rows, 0),
            numbers(
                col.PCT.but(heading="% of busy", help="Share of the GPU busy time of all these steps."),
                [100 * float(np.nansum(facts.busy[each])) / whole if whole else np.nan for each in rows],
            ),
        ),
        longest_of(facts, rows),
    )


def _by_batch(facts: StepFacts, groups: dict[str, Int64]) -> Table:
    """Steps of one kind and batch: requests, of a prefill tokens."""
    found: list[Batch] = [
        each for kind, rows in groups.items() for each in batches(facts.kinds, kind, rows, facts.kernels)
    ]
    rows = [each.rows for each in found]
    period = known(facts.times.period)
    return Table(
        (
            texts(col.KIND.but(help=KIND_HELP), [each.kind for each in found]),
            texts(col.BATCH, [each.label for each in found]),
            texts(col.BATCH_UNIT, [each.unit for each in found]),
            numbers(col.STEPS, [len(each) for each in rows]),
            column_of(col.PADDED, _padded(facts.trace), rows),
            *_durations(facts, rows),
            column_of(col.GPU_PERIOD_US, period, rows),
            numbers(col.TOKEN_RATE, [token_rate(facts.trace, each, facts.kinds.tokens) for each in rows]),
            column_of(col.GPU_BUSY_US.but(help="Median time in which its GPU activities ran."), facts.busy, rows),
            column_of(col.IDLE_WITHIN_US, facts.idle, rows),
            column_of(col.KERNELS.but(help="Median of the kernels of a step."), facts.kernels, rows),
            column_of(col.GRAPH_REPLAYS.but(help="Median of the graphs that it replayed."), facts.graphs, rows),
            *_per_unit(facts, rows),
            *_shares(facts, purpose_times(facts.trace), rows),
            numbers(col.BATCH_SIZE, [each.size for each in found]),
        ),
        longest_of(facts, rows),
    )


def _by_purpose(facts: StepFacts, groups: dict[str, Int64]) -> Table:
    """GPU time of each kind of step by what kernels are for."""
    work = purpose_times(facts.trace)
    pairs = [
        (kind, index)
        for kind, rows in groups.items()
        for index in np.argsort(-work.busy[rows].sum(axis=0), kind="stable").tolist()
        if work.activities[rows, index].any()
    ]
    rows = [groups[kind] for kind, _ in pairs]

    def column(spec: ColumnSpec, times: Int64, percent: float = 50) -> Column:
        scale = 1000 if spec.unit == "us" else 1
        each = [np.percentile(times[groups[kind], index], percent) / scale for kind, index in pairs]
        return numbers(spec, np.array(each, np.float64))

    return Table(
        (
            texts(col.KIND.but(help=KIND_HELP), [kind for kind, _ in pairs]),
            texts(col.PURPOSE, [work.names[index] for _, index in pairs]),
            column(col.ACTIVITIES.but(help="Median of the kernels, copies and fills of a step."), work.activities),
            column(col.MEDIAN_US.but(help="Median time of a step in which one of them ran."), work.busy),
            column(
                col.MIN_US.but(help="Shortest such time; of communication, without waiting for others."), work.busy, 0
            ),
            column(col.P95_US, work.busy, 95),
            column(col.ALONE_US, work.exposed),
            numbers(
                col.PCT.but(
                    heading="% of busy",
                    help="Share of the GPU busy time of these steps; what ran side by side counts in both.",
                ),
                [
                    100
                    * float(work.busy[groups[kind], index].sum())
                    / max(float(np.nansum(facts.busy[groups[kind]])), 1.0)
                    for kind, index in pairs
                ],
            ),
        ),
        longest_of(facts, rows),
    )


def _by_activity(facts: StepFacts, groups: dict[str, Int64]) -> Table:
    """Work of the CPU before steps of each kind that follow another one."""
    found = between_steps(facts.trace)
    pairs: list[tuple[str, int, Int64]] = []
    for kind, rows in groups.items():
        mine = np.flatnonzero(np.isin(found.step, rows))
        order = np.argsort(-found.time[mine].sum(axis=0), kind="stable").tolist()
        pairs += [(kind, activity, mine) for activity in order if found.time[mine, activity].any()]
    no_gpu = len(links(facts.trace).gpu) == 0

    def column(spec: ColumnSpec, times: Int64) -> Column:
        return numbers(spec, np.array([np.median(times[mine, each]) / 1000 for _, each, mine in pairs], np.float64))

    return Table(
        (
            texts(col.KIND.but(help=KIND_HELP), [kind for kind, _, _ in pairs]),
            texts(col.CPU_ACTIVITY, [ACTIVITY_NAMES[activity] for _, activity, _ in pairs]),
            numbers(
                col.STEPS.but(
                    help="Number of its steps, of the steady state if there is one, that follow another one."
                ),
                [len(mine) for _, _, mine in pairs],
            ),
            column(col.MEDIAN_US.but(help="Median time between two steps that the CPU spent so."), found.time),
            missing(col.EXPOSED_US, len(pairs)) if no_gpu else column(col.EXPOSED_US, found.exposed),
            numbers(
                col.PCT.but(heading="% of between", help="Share of the time between these steps."),
                [100 * float(found.time[mine, each].sum()) / float(found.time[mine].sum()) for _, each, mine in pairs],
            ),
        ),
        longest_of(facts, [found.step[mine] for _, _, mine in pairs]),
    )


def _by_iteration(facts: StepFacts, groups: dict[str, Int64]) -> Table:
    """Drafts and the step that checks them as one, by the kind of that step."""
    trace, kinds = facts.trace, facts.kinds
    found = _iterations(facts, groups)
    checks = [kinds.kind[step] or "" for step in found.target.tolist()]
    labels = sorted(set(checks))
    rows = [np.array([index for index, each in enumerate(checks) if each == label], np.int64) for label in labels]
    took = (found.end - found.start).astype(np.float64)
    drafts = np.array([float(np.nansum(facts.took[each[:-1]])) for each in found.members], np.float64)
    if len(links(trace).gpu):
        idle = took - covered_within(*busy_stretches(trace), found.start, found.end)
    else:
        idle = np.full(len(found), np.nan)
    requests, tokens = known(kinds.requests)[found.target], known(kinds.tokens)[found.target]
    period = known(found.period)
    return Table(
        (
            texts(col.KIND.but(help="What an iteration is made of."), [f"{DRAFT} + {each}" for each in labels]),
            numbers(col.RUNS.but(heading="iterations", help="Number of iterations."), [len(each) for each in rows]),
            column_of(
                col.STEPS.but(help="Median of the steps of one."),
                np.array([len(each) for each in found.members], np.float64),
                rows,
            ),
            column_of(col.REQUESTS.but(help="Median of the requests whose drafts were checked."), requests, rows),
            column_of(
                col.TOKENS.but(help="Median of the tokens that were checked, those drafted and one each."), tokens, rows
            ),
            column_of(
                col.MEDIAN_US.but(help="Median time from its first GPU activity to the end of the check."), took, rows
            ),
            column_of(col.P95_US, took, rows, 95),
            column_of(col.P99_US, took, rows, 99),
            column_of(
                col.GPU_PERIOD_US.but(help="Median time from the end of the check before to its own."), period, rows
            ),
            column_of(col.DRAFT_US, drafts, rows),
            column_of(col.CHECK_US, facts.took[found.target], rows),
            column_of(col.IDLE_WITHIN_US.but(help="Median time of one in which no device ran anything."), idle, rows),
            column_of(col.MIN_TOKEN_US, period * requests / tokens, rows),
        ),
        steps(trace).row[np.array([found.target[each[np.argmax(took[each])]] for each in rows], np.int64)],
    )


def _durations(facts: StepFacts, rows: Sequence[Int64]) -> tuple[Column, ...]:
    return (
        column_of(
            col.MEDIAN_US.but(help="Median GPU span of a step; without a GPU, its median time on the CPU."),
            facts.took,
            rows,
        ),
        column_of(col.P95_US, facts.took, rows, 95),
        column_of(col.P99_US, facts.took, rows, 99),
    )


def _padded(trace: Trace) -> Float64:
    """The batch to which each step was padded, NaN where its name does not say."""
    used, member = np.unique(trace.slices.name[steps(trace).row], return_inverse=True)
    padded = [padded_batch(trace.names[name]) for name in used.tolist()]
    return np.array([np.nan if each is None else each for each in padded], np.float64)[member]


def _shares(facts: StepFacts, work: PurposeTimes, rows: Sequence[Int64]) -> list[Column]:
    """Time for each of some purposes by the GPU busy time of the steps of each group."""
    columns = []
    for spec, purpose in _SHARES:
        time = time_for(work, purpose)
        whole = [float(np.nansum(facts.busy[each])) for each in rows]
        shares = [
            100 * float(np.nansum(time[each])) / total if total else np.nan
            for each, total in zip(rows, whole, strict=True)
        ]
        columns.append(numbers(spec, np.array(shares, np.float64)))
    # Between steps nothing runs on any device.
    between = np.nan_to_num(facts.gap) * len(step_spans(facts.trace).device)
    idle = [float(np.nansum(facts.idle[each]) + between[each].sum()) for each in rows]
    spent = [float(np.nansum(facts.busy[each])) + time for each, time in zip(rows, idle, strict=True)]
    columns.append(
        numbers(
            col.IDLE_PCT.but(
                heading="idle %", help="Share of the time of these steps and of that before them in which no work ran."
            ),
            [100 * time / whole if whole else np.nan for time, whole in zip(idle, spent, strict=True)],
        )
    )
    return columns


def _per_unit(facts: StepFacts, rows: Sequence[Int64]) -> tuple[Column, Column]:
    tokens, requests = known(facts.kinds.tokens), known(facts.kinds.requests)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = facts.took / np.where(tokens > 0, tokens, np.nan), facts.took / np.where(requests > 0, requests, np.nan)
    return column_of(col.PER_TOKEN_US, each[0], rows), column_of(col.PER_REQUEST_US, each[1], rows)


def _activities(trace: Trace, rows: Int64) -> str | None:
    """Work of the CPU before these steps, the largest first: `scheduling 61 %, sampling 20 %`."""
    found = between_steps(trace)
    time = found.time[np.isin(found.step, rows)].sum(axis=0)
    whole = int(time.sum())
    if whole == 0:
        return None
    named = np.argsort(-time, kind="stable")[:MAX_NAMED_ACTIVITIES].tolist()
    shares = [(ACTIVITY_NAMES[each], 100 * int(time[each]) / whole) for each in named]
    return ", ".join(f"{name} {rounded_percent(share)}" for name, share in shares if share >= MIN_NAMED_PERCENT)
