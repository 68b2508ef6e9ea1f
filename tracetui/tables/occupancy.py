"""Occupancy queries: calls that ask how many blocks of a kernel fit on a multiprocessor.

A query belongs to the next kernel launch on its thread, provided both have the same owner op (R3.24).
"""

from __future__ import annotations

import re

import numpy as np

from tracetui.devices.residency import configuration, occupancy_note, residency
from tracetui.idle.verdict import totals
from tracetui.linking.groups import combinations, distinct, group
from tracetui.linking.lines import site_columns, site_groupings, site_of
from tracetui.linking.links import calls_named, links, names_of, no_gpu
from tracetui.linking.placement import index_in_step, step_column, time_within, within
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part
from tracetui.model.pane import Grouping, Pane
from tracetui.model.quantities import duration, percent
from tracetui.model.results import kept
from tracetui.model.table import NULL, Table, coded, micros, numbers
from tracetui.model.trace import Kind, Trace

QUERY = re.compile(r"occupancy(max|available)", re.IGNORECASE)
"""Names of the calls, CUDA and HIP, runtime and module variants (R3.22)."""

WHY = (
    "cuBLAS and others ask how many blocks of a candidate kernel fit on a multiprocessor to choose grid and "
    "split-K: a query marks a heavy launch that is sized at run time, costs about a microsecond and puts "
    "nothing on the GPU."
)


def queries(trace: Trace) -> Int64:
    """Rows of the occupancy queries, ascending."""
    return calls_named(trace, QUERY)


def occupancy(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Every occupancy query in order of time, or grouped by the op or the call site that made it."""
    every = queries(trace)[np.argsort(trace.slices.start[queries(trace)], kind="stable")]
    rows = within(trace, every, step)
    if by == "op":
        return _by_op(trace, rows, step)
    if by is not None:
        return _by_site(trace, rows, step, by)
    kernel = asked_for(trace, rows)
    slices = trace.slices
    used = distinct(kernel)
    setup, index = configuration(trace, used), np.searchsorted(used, kernel)
    _, block, registers, shared, estimate = (column.take(index) for column in setup.columns())
    fit = {name: column.take(index) for name, column in residency(trace, used, setup).columns().items()}
    return Table(
        (
            numbers(col.INDEX, index_in_step(trace, every, rows, step)),
            step_column(trace, rows, "Number of the step in which the call was made."),
            coded(col.NAME.but(heading="query", help="Name of the call."), slices.name[rows], trace.names),
            micros(col.START_US, slices.start[rows]),
            micros(col.DUR_US, slices.dur[rows]),
            coded(col.OP, names_of(trace, links(trace).owner[rows]), trace.names),
            coded(
                col.KERNEL.but(
                    heading="for kernel", help="The kernel that the same operator launched next on this thread."
                ),
                names_of(trace, kernel),
                trace.names,
            ),
            fit["occupancy_pct"],
            registers,
            shared,
            block,
            fit["limiter"],
            fit["waves"],
            estimate,
            fit["occupancy_mark"],
            *site_columns(trace, rows),
        ),
        rows,
        _note(trace, rows, step),
    )


PANE = Pane(
    "occupancy",
    "Occupancy",
    help="One row is an occupancy query.",
    table=occupancy,
    columns=(
        "step index kernel dur_us op occupancy_pct limiter block registers kineto_occupancy_pct name line "
        "module start_us"
    ),
    bars="total_us dur_us",
    groupings=(
        Grouping("op", "op kernel queries launches total_us us_per_launch", opens="kernel"),
        *site_groupings("queries total_us mean_us max_us", opens=""),
    ),
)


def asked_for(trace: Trace, rows: Int64) -> Int64:
    """For each query the kernel of the next kernel launch on its thread with the same owner op, -1 for none."""
    trace_links, slices = links(trace), trace.slices
    kernels = trace_links.launched[slices.kind[trace_links.launched] == Kind.KERNEL]
    launches, first = np.unique(trace_links.launch[kernels], return_index=True)
    if len(launches) == 0:
        return np.full(len(rows), -1, np.int64)
    index = np.searchsorted(launches, rows, side="right")
    following = launches[np.minimum(index, len(launches) - 1)]
    same = (index < len(launches)) & (slices.lane[following] == slices.lane[rows])
    owner = trace_links.owner[rows]
    same &= (owner >= 0) & (owner == trace_links.owner[following])
    return np.where(same, kernels[first[np.minimum(index, len(launches) - 1)]], -1)


@kept
def kernels_asked_for(trace: Trace) -> Int64:
    """For each of `queries(trace)` the kernel that it was made for, -1 for none."""
    return asked_for(trace, queries(trace))


def queries_for(trace: Trace, kernel: int) -> Int64:
    """The queries that were made for a kernel, ascending."""
    return np.compress(kernels_asked_for(trace) == kernel, queries(trace))


def kernel_of_query(trace: Trace, row: int) -> int:
    """The kernel that a query was made for, -1 for none and for any other slice."""
    every = queries(trace)
    index = int(np.searchsorted(every, row))
    return int(kernels_asked_for(trace)[index]) if index < len(every) and every[index] == row else -1


def _by_op(trace: Trace, rows: Int64, step: Part | None) -> Table:
    """Queries per launch by op and kernel (R3.26)."""
    slices = trace.slices
    kernel = asked_for(trace, rows)
    op_name, kernel_name = names_of(trace, links(trace).owner[rows]), names_of(trace, kernel)
    pairs = group(combinations(op_name, kernel_name).member)
    launches = group(np.unique(np.stack([pairs.member, kernel]), axis=1)[0]).calls if len(rows) else pairs.calls
    sample = pairs.smallest(slices.start[rows])
    named = kernel_name[sample] >= 0
    total = pairs.sum(time_within(trace, rows, step))
    table = Table(
        (
            coded(col.OP, op_name[sample], trace.names),
            coded(
                col.KERNEL.but(heading="for kernel", help="The kernel that it launched next."),
                kernel_name[sample],
                trace.names,
            ),
            numbers(col.QUERIES, pairs.calls),
            numbers(col.LAUNCHES, np.where(named, launches, NULL)),
            numbers(col.QUERIES_PER_LAUNCH, np.where(named, pairs.calls / launches, np.nan)),
            micros(col.TOTAL_US.but(help="Time spent in the queries."), total),
            micros(col.US_PER_LAUNCH, total / launches, null=~named),
        ),
        rows[sample],
        _note(trace, rows, step),
    )
    return table.take(table.order("total_us", descending=True))


def _by_site(trace: Trace, rows: Int64, step: Part | None, by: str) -> Table:
    """Queries and their time by the place in the program that made them."""
    site, texts, _ = site_of(trace, rows, by)
    sites, dur = group(site), time_within(trace, rows, step)
    longest = sites.largest(dur)
    table = Table(
        (
            coded(col.COLUMNS[by], sites.key, texts),
            numbers(col.QUERIES, sites.calls),
            micros(col.TOTAL_US.but(help="Time spent in the queries."), sites.sum(dur)),
            micros(col.MEAN_US.but(help="Mean time in a query."), sites.sum(dur) / sites.calls),
            micros(col.MAX_US.but(help="Longest query; the row jumps to it."), dur[longest]),
        ),
        rows[longest],
        _note(trace, rows, step),
    )
    return table.take(table.order("total_us", descending=True))


def _note(trace: Trace, rows: Int64, step: Part | None) -> str:
    if len(links(trace).gpu) == 0:
        return no_gpu(trace)
    if len(queries(trace)) == 0:
        return "No occupancy query was recorded; newer cuBLAS paths and ROCm make none, which is normal."
    total, whole = int(time_within(trace, rows, step).sum()), totals(trace, step).cpu
    # Queries that lie in one another or outside of every operator may add up to more than the CPU time.
    share = f", {percent(100 * total / whole)} of the CPU time" if total <= whole > 0 else ""
    said = f"{len(rows):,} queries, {duration(total)} in all{share}. {WHY}"
    return " ".join(filter(None, (said, occupancy_note(trace))))
