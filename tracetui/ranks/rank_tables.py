"""The tables of a set of ranks: ranks, collectives, who waited for whom, groups, steps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracetui.linking.groups import combinations, group
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.quantities import duration
from tracetui.model.table import NULL, Cell, Column, Table, TextKind, coded, micros, numbers, texts
from tracetui.ranks.causes import PASSED_ON, LateRank, main_causes
from tracetui.ranks.compile_tables import compiles_table, logs_table, rank_columns
from tracetui.ranks.rank_set import RankSet, caused_by_step
from tracetui.ranks.rank_summary import group_words
from tracetui.ranks.sentences import bubbles, headline, pipelines, rank_times, remarks, waits_are_known
from tracetui.ranks.waiting import bus_bandwidth
from tracetui.tables.expectations import NOTHING, Expectation, Observed


def ranks_table(ranks: RankSet) -> Table:
    """One row per rank, the one that others waited for most first."""
    if not len(ranks) and ranks.logs:
        return logs_table(ranks)
    clocks, count = ranks.clocks, len(ranks)
    host = clocks.host
    unknown = ~clocks.is_known[host]
    silent = ~waits_are_known(ranks)
    attributed = ranks.waiting.attributed
    caused, suffered = attributed.caused(count), attributed.suffered(count)
    late_by_index = {each.index: each for each in ranks.late}
    late = [late_by_index.get(index) for index in range(count)]
    passed = {index: f"{PASSED_ON} {ranks.ranks[each.source]}" for index, each in ranks.passed_on.items()}
    entries, instances = ranks.matches.entries, ranks.matches.instances
    shared = (instances.is_symmetric & (instances.ranks > 1))[entries.instance] if len(instances) else entries.rank < 0
    stages = {rank: stage for chain in pipelines(ranks) for stage, rank in enumerate(chain.ranks)}
    times = rank_times(ranks)
    number = np.array(ranks.ranks, np.int64)
    drift = np.where(clocks.drift == 0, np.nan, clocks.drift * 1e6)
    guess = clocks.is_guess[host]
    columns = (
        numbers(col.RANK, number),
        texts(col.FILE, [ranks.shown_path(each.header.path) for each in ranks.summaries]),
        texts(col.HOST, ranks.hosts),
        micros(col.CLOCK_SHIFT_US, clocks.shift[host], null=unknown, doubtful=guess),
        micros(col.CLOCK_ERROR_US, np.nan_to_num(clocks.error[host]), null=unknown, doubtful=guess),
        numbers(col.CLOCK_DRIFT_PPM, drift[host]),
        numbers(col.STEPS, [len(each.steps) for each in ranks.summaries]),
        micros(col.STEP_US, times.step, null=times.step == NULL),
        micros(col.STEP_IDLE_US, times.step_idle, null=times.step_idle == NULL),
        micros(col.BUSY_US.but(heading="busy in run"), times.busy),
        micros(
            col.EXPOSED_COMM_US.but(
                heading="exposed in run", help="Time in the run in which the rank only communicated, waiting included."
            ),
            times.exposed,
        ),
        micros(col.EXPOSED_WAIT_US.but(heading="of it waiting"), times.exposed_wait, null=silent),
        micros(
            col.IDLE_US.but(heading="idle in run", help="Rest of the run, in which the device did nothing."), times.idle
        ),
        numbers(col.BUBBLE_PCT, 100 * bubbles(ranks)),
        micros(col.WAIT_SUFFERED_US, suffered, null=silent),
        micros(col.WAIT_CAUSED_US, caused, null=silent),
        texts(col.RANK_CAUSE, [each.cause if each else passed.get(index) for index, each in enumerate(late)]),
        texts(col.CAUSE_NOTE, [each.note or None if each else None for each in late]),
        texts(
            col.CAUSES,
            [
                ", ".join(f"{cause} {duration(excess)}" for cause, excess in each.causes) or None if each else None
                for each in late
            ],
        ),
        texts(col.LATE_STEPS, [step_words(each) if each else None for each in late]),
        texts(col.PHASE, [each.phase or None if each else None for each in late]),
        numbers(col.CAME_LAST, np.bincount(entries.rank[ranks.waiting.is_last], minlength=count)),
        numbers(
            col.COLLECTIVES.but(help="Collectives that it has in common with others."),
            np.bincount(entries.rank[shared], minlength=count),
        ),
        numbers(col.STAGE, [stages.get(rank, NULL) for rank in ranks.ranks]),
        *rank_columns(ranks, ranks.ranks),
    )
    order = np.argsort(-caused, kind="stable")
    table = Table(columns, note=" ".join(remarks(ranks)), headline=headline(ranks))
    return table.take(order)


def step_words(late: LateRank) -> str | None:
    """The steps in which a rank was late, in words: `all 6 steps`, `step 5`, `2 of 6 steps`."""
    if not late.steps:
        return None
    if len(late.steps) == late.of_steps:
        return "the only step" if late.of_steps == 1 else f"all {late.of_steps} steps"
    if len(late.steps) == 1:
        return f"step {late.steps[0]}"
    return f"{len(late.steps)} of {late.of_steps} steps"


def collectives_table(ranks: RankSet) -> Table:
    """One row per operation that ranks have in common, by its first start."""
    matches, waiting = ranks.matches, ranks.waiting
    instances, first = matches.instances, matches.first[:-1]
    transfer = ranks.transfer[0]
    start = np.minimum.reduceat(waiting.start, first) if len(first) else first
    words = [group_words(each) for each in matches.groups]
    is_known = np.array([bool(each.members or each.size) for each in matches.groups], bool)
    names = [
        ranks.summaries[rank].names[int(ranks.summaries[rank].collectives.name[row])]
        for rank, row in zip(matches.entries.rank[first].tolist(), matches.entries.row[first].tolist(), strict=True)
    ]
    doubtful = instances.is_guess
    member = np.array(ranks.ranks, np.int64)
    table = Table(
        (
            numbers(col.STEP, ranks.step_of_instances),
            texts(col.COLLECTIVE_NAME, names),
            coded(col.GROUP, np.where(is_known[instances.group], instances.group, -1), words, doubtful=doubtful),
            numbers(col.SEQ, instances.seq),
            numbers(col.RANKS, instances.ranks),
            numbers(col.GROUP_SIZE, instances.of),
            numbers(
                col.PARTIAL.but(heading="partial", help="Whether a rank that is here has no part in it."),
                instances.is_partial,
            ),
            micros(
                col.START_US.but(help="First start on the one clock, from the start of the earliest rank."),
                start - ranks.origin_ns,
            ),
            micros(col.SKEW_US, waiting.skew, null=(waiting.skew == NULL) | (instances.ranks < 2)),
            micros(col.TRANSFER_US, transfer, null=(transfer == NULL) | (instances.ranks < 2)),
            numbers(col.BYTES.but(help="Size of the operation."), ranks.bytes_of_instances),
            numbers(col.BUSBW_GBPS, bus_bandwidth(matches, ranks.bytes_of_instances, transfer)),
            numbers(col.LAST_RANK, np.where(waiting.last >= 0, member[waiting.last], NULL)),
            texts(col.MISMATCH, [text or None for text in instances.mismatch]),
        ),
        note=" ".join(remarks(ranks)),
    )
    return table.take(collectives_order(ranks))


def collectives_order(ranks: RankSet) -> Int64:
    """The operation of each row of `collectives_table`."""
    first = ranks.matches.first[:-1]
    start = np.minimum.reduceat(ranks.waiting.start, first) if len(first) else first
    return np.argsort(start, kind="stable")


def matrix_table(ranks: RankSet) -> Table:
    """One row per pair of ranks of which one waited for the other, the longest wait first."""
    attributed = ranks.waiting.attributed
    pairs = combinations(attributed.waiting, attributed.late)
    size = len(pairs)
    member = np.array(ranks.ranks, np.int64)
    time = np.bincount(pairs.member, attributed.time, size)
    error = np.bincount(pairs.member, np.minimum(attributed.error, attributed.time), size)
    table = Table(
        (
            numbers(col.RANK.but(help="Rank that waited."), member[attributed.waiting[pairs.first]]),
            numbers(col.LATE_RANK, member[attributed.late[pairs.first]]),
            micros(col.WAIT_US.but(help="Time that it waited, summed over the collectives."), time),
            micros(col.WAIT_ERROR_US, error),
            numbers(
                col.COLLECTIVES.but(help="Collectives in which it waited."), np.bincount(pairs.member, minlength=size)
            ),
        ),
        note=" ".join(remarks(ranks)),
    )
    return table.take(np.argsort(-time, kind="stable"))


def groups_table(ranks: RankSet) -> Table:
    """One row per process group, the one in which ranks waited longest first."""
    matches, waiting = ranks.matches, ranks.waiting
    instances = matches.instances
    used = group(instances.group)
    of_entry = used.member[matches.entries.instance] if len(instances) else matches.entries.instance
    wait = np.bincount(of_entry, waiting.wait, len(used))
    transfer = ranks.transfer[0]
    bandwidth = bus_bandwidth(matches, ranks.bytes_of_instances, transfer)
    known = np.where(transfer == NULL, 0, transfer)
    imbalance = imbalances(ranks)
    groups = [matches.groups[index] for index in used.key.tolist()]
    largest = np.zeros(len(used), np.int64)
    np.maximum.at(largest, used.member, instances.ranks)
    medians = [_median(bandwidth[used.member == index]) for index in range(len(used))]
    table = Table(
        (
            texts(col.GROUP, [group_words(each) for each in groups]),
            numbers(col.RANKS.but(help="Ranks of it that are here."), largest),
            numbers(col.GROUP_SIZE, [each.size or NULL for each in groups]),
            numbers(col.COLLECTIVES, used.calls),
            micros(col.WAIT_US, wait),
            micros(col.TRANSFER_US.but(help="Sum of the transfers that are known."), used.sum(known)),
            numbers(col.BUSBW_GBPS.but(help="Median bus bandwidth of the large ones."), medians),
            numbers(col.IMBALANCE_PCT, [_median(imbalance[used.member == index]) for index in range(len(used))]),
        ),
        note=" ".join(remarks(ranks)),
    )
    return table.take(np.argsort(-wait, kind="stable"))


def imbalances(ranks: RankSet) -> NDArray[np.float64]:
    """The busy time that the mean rank lacks before each operation, in percent of the busiest; NaN for none."""
    first = ranks.matches.first[:-1]
    if len(first) == 0:
        return np.empty(0)
    busy = ranks.of_entries("busy")
    most, total = np.maximum.reduceat(busy, first), np.add.reduceat(busy, first)
    count = ranks.matches.instances.ranks
    known = (most > 0) & (count > 1) & ranks.matches.instances.is_symmetric
    return np.where(known, 100 * (1 - total / np.maximum(most * count, 1)), np.nan)


def _median(values: NDArray[np.float64]) -> float:
    """The median of the known values, NaN where none is known."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def steps_table(ranks: RankSet) -> Table:
    """One row per step: how long, how much of it ranks waited, and for whom most."""
    count = len(ranks)
    steps, by_rank = caused_by_step(ranks)
    index = {number: position for position, number in enumerate(steps)}
    durations: list[list[int]] = [[] for _ in steps]
    for each in ranks.summaries:
        for number, dur in zip(each.steps.number.tolist(), (each.steps.end - each.steps.start).tolist(), strict=True):
            durations[index[number]].append(dur)
    worst = by_rank.argmax(axis=1) if len(steps) and count else np.zeros(len(steps), np.int64)
    most = by_rank[np.arange(len(steps)), worst] if len(steps) else np.zeros(0)
    member = np.array(ranks.ranks, np.int64)
    return Table(
        (
            numbers(col.STEP, steps or np.empty(0, np.int64)),
            numbers(col.RANKS.but(help="Ranks that recorded the step."), [len(each) for each in durations]),
            micros(
                col.STEP_US.but(heading="period", help="Median period of the step over the ranks."),
                np.array([float(np.median(each)) for each in durations]),
            ),
            micros(col.SLOWEST_US, np.array([max(each) for each in durations], np.float64)),
            micros(col.WAIT_US, by_rank.sum(axis=1)),
            numbers(
                col.LATE_RANK.but(heading="most for rank", help="Rank that most of it was for."),
                np.where(most > 0, member[worst], NULL),
            ),
            micros(col.WAIT_CAUSED_US.but(help="The part of it that was for this rank."), most),
        ),
        note=" ".join(remarks(ranks)),
    )


def files_table(ranks: RankSet) -> Table:
    """One row per rank that is not here and per file that is no row of the ranks, or only a part, with the reason."""
    missing, left_out = ranks.run.missing, ranks.left_out
    why = replace(col.WHY, width=30, grow=1, text=TextKind.PROSE)
    return Table(
        (
            numbers(col.RANK.but(help="Rank that is not here."), [*missing, *(NULL for _ in left_out)]),
            texts(col.FILE, [*(None for _ in missing), *(ranks.shown_path(each.path) for each in left_out)]),
            texts(why, [*("no file of it was found" for _ in missing), *(each.why for each in left_out)]),
        ),
        note=" ".join(remarks(ranks)) if missing or left_out else "Every rank is here, and no file was left out.",
    )


def _guarded(name: str, make: Callable[[RankSet], Table]) -> Callable[[RankSet], Table]:
    """A table that raises AnalysisFailed where it fails, so that the others can still be made."""
    return lambda ranks: ranks.failures.make(f"The table {name}", lambda: make(ranks))


TABLES: dict[str, Callable[[RankSet], Table]] = {
    name: _guarded(name, make)
    for name, make in {
        "ranks": ranks_table,
        "collectives": collectives_table,
        "matrix": matrix_table,
        "groups": groups_table,
        "steps": steps_table,
        "files": files_table,
        "compiles": compiles_table,
    }.items()
}
"""The tables by the names under which they are asked for."""


# Ranks grouped: a row per host or per stage of a pipeline, with medians and the rank that is waited for most.

HOST, STAGE = "host", "stage"
GROUPINGS = (HOST, STAGE)
"""The columns by which ranks can be grouped."""


def grouped_ranks(table: Table, by: str) -> Table:
    """One row per value of a column of `ranks_table`, the group that others waited for most first."""
    rows: dict[Cell, list[int]] = defaultdict(list)
    for row in range(len(table)):
        rows[table[by].cell(row)].append(row)
    groups = [np.array(each, np.int64) for each in rows.values()]
    caused = np.nan_to_num(table["wait_caused_us"].values.astype(np.float64))
    worst = [int(each[np.argmax(caused[each])]) for each in groups]
    key = [None if value is None else str(value) for value in rows]
    first = (
        numbers(col.STAGE, [NULL if value is None else value for value in rows])
        if by == STAGE
        else texts(col.HOST.but(help="Host of the ranks."), key)
    )
    columns: list[Column] = [
        first,
        numbers(col.RANKS.but(help="Ranks of it that are here."), [len(each) for each in groups]),
        numbers(
            col.WAIT_CAUSED_US.but(help="Time that others waited for these ranks, summed over them."),
            [float(caused[each].sum()) for each in groups],
        ),
        numbers(col.WORST_RANK, table["rank"].values[worst]),
        table["cause"].take(np.array(worst, np.int64)),
    ]
    for name in col.RANK_MEDIANS:
        column = table[name]
        spec = column.spec.but(help=f"Median of these ranks: {column.help[:1].lower()}{column.help[1:]}")
        columns.append(numbers(spec, [_median(column.values[each].astype(np.float64)) for each in groups]))
    grouped = Table(tuple(columns), note=table.note)
    waits = grouped["wait_caused_us"].values.astype(np.float64)
    return grouped.take(np.argsort(-waits, kind="stable"))


_MEDIANS = " ".join(col.RANK_MEDIANS)
COLUMN_ORDERS = {
    "ranks": (
        "mark rank wait_caused_us cause wait_suffered_us step_us busy_us exposed_comm_us clock_shift_us "
        "clock_error_us came_last host late_steps phase cause_note clock_drift_ppm exposed_wait_us idle_us "
        "step_idle_us bubble_pct steps stage collectives causes compile_wait_us compile_us alone_us compilations "
        "function file"
    ),
    "ranks by host": f"host ranks wait_caused_us worst_rank cause {_MEDIANS}",
    "ranks by stage": f"stage ranks wait_caused_us worst_rank cause {_MEDIANS}",
    "ranks by files": "rank file why",
    "ranks by collectives": (
        "step name group skew_us last transfer_us busbw_gbps ranks of bytes mismatch partial seq start_us"
    ),
    "ranks by matrix": "rank late_rank wait_us collectives wait_error_us",
    "ranks by groups": "group ranks of collectives wait_us transfer_us busbw_gbps imbalance_pct",
    "ranks by compiles": (
        "rank compile_id function line compile_us compile_wait_us alone_us compiling_ranks ranks apart_us "
        "recompiled_for collectives cache start_us"
    ),
    "ranks by steps": "step ranks step_us slowest_us wait_us late_rank wait_caused_us",
}
"""Names of the columns in order of importance, by table, or by table and grouping or kind as in `ranks by host`."""


# Measures of a set of ranks that an expectation can name, beside those of one trace in `expectation_metrics`.


def _late_rank_named(ranks: RankSet, expected: Expectation) -> Observed:
    """The latest of the ranks whose number and causes match the pattern, such as `rank 1: input`."""
    pattern = re.compile(expected.of if expected.want == NOTHING else str(expected.want))
    names = [
        f"rank {ranks.ranks[late.index]}: {', '.join(main_causes(late.causes)) or 'unknown'}" for late in ranks.late
    ]
    return Observed(name=next(filter(pattern.search, names), ""))


RANK_METRICS: dict[str, Callable[[RankSet, Expectation], Observed]] = {
    "ranks": lambda ranks, _: Observed(len(ranks), len(ranks)),
    "late_rank_named": _late_rank_named,
}
"""The functions that look the metrics up."""
