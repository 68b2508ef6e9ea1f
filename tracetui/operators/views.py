"""Ops that launch nothing on the GPU, by name: views of tensors, allocations, CPU ops (R3.18 to R3.21)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tracetui.linking.groups import group
from tracetui.linking.links import links, no_gpu, op_rows
from tracetui.linking.placement import chosen, ops_within, step_index, time_within, within
from tracetui.linking.steps import steps
from tracetui.linking.trees import count_inside
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part, TimeRange, is_among
from tracetui.model.pane import Pane
from tracetui.model.results import kept
from tracetui.model.table import Strings, Table, coded, micros, numbers
from tracetui.model.trace import Trace
from tracetui.operators.costs import is_overlapped, self_times

_VIEWS = """
    t transpose permute view _unsafe_view reshape as_strided expand expand_as slice select narrow unsqueeze squeeze
    split split_with_sizes chunk unbind unfold diagonal movedim moveaxis swapaxes swapdims flatten unflatten detach
    alias view_as view_as_real view_as_complex _reshape_alias lift_fresh numpy_T mT mH real imag
    t_ transpose_ unsqueeze_ squeeze_ swapaxes_ swapdims_ detach_
"""
VIEW_OPS = frozenset(f"aten::{name}" for name in _VIEWS.split())
"""Ops that only make a view with new sizes and strides; `reshape` and the like may copy nevertheless.

Calls of these are the view ops of other panes.
"""
INNER_VIEWS = ("detach", "detach_")
"""View ops that only `aten::` ops of the same names call, and that would count twice with them."""


@kept(on_disk=True)
def view_rows(trace: Trace) -> Int64:
    """Rows of all calls of known view ops, whether they launch anything or not; ascending."""
    rows = op_rows(trace)
    return np.compress(is_among(trace.slices.name[rows], _ids_of(trace.names, VIEW_OPS)), rows)


@kept(on_disk=True)
def idle_rows(trace: Trace) -> Int64:
    """Rows of the ops inside which nothing was launched, on their thread; ascending (R3.18)."""
    rows = op_rows(trace)
    return np.compress(count_inside(trace, rows, links(trace).launches) == 0, rows)


def idle_view_rows(trace: Trace) -> Int64:
    """Rows of the calls of known view ops that launch nothing; ascending."""
    is_idle = np.zeros(len(trace.slices), bool)
    is_idle[idle_rows(trace)] = True
    rows = view_rows(trace)
    return np.compress(is_idle[rows], rows)


def views(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Ops that launch nothing, by name; in a trace without a GPU only the known view ops."""
    with_gpu = len(links(trace).gpu) > 0
    rows = within(trace, idle_rows(trace) if with_gpu else idle_view_rows(trace), step)
    slices = trace.slices
    own = self_times(trace, step)[rows]
    names = group(slices.name[rows])
    calls = np.bincount(slices.name[ops_within(trace, step)], minlength=len(trace.names))
    total = names.sum(time_within(trace, rows, step))
    doubtful = names.sum(is_overlapped(own)) > 0
    per_step, share = _per_step(trace, step, rows, own, names.member, len(names))
    note = "" if with_gpu else f"Known view ops only. {no_gpu(trace)}"
    if with_gpu and len(names) == 0 and not isinstance(step, TimeRange):
        way = trace.to_record("none was recorded (ProfilerActivity.CPU)")
        note = f"Every op put something on the GPU, or {way}."
    table = Table(
        (
            coded(col.OP_NAME.but(help="Name of the op."), names.key, trace.names),
            numbers(col.CALLS.but(help="How many calls put nothing on the GPU."), names.calls),
            micros(
                col.SELF_CPU_US.but(help="CPU time outside of what they called; below 0 where that overlaps."),
                names.sum(own),
                doubtful=doubtful,
            ),
            micros(col.CPU_TOTAL_US.but(help="CPU time with what they called."), total),
            numbers(col.PER_STEP, per_step),
            numbers(col.PCT_OF_STEP_CPU, np.where(doubtful, np.nan, share)),
            numbers(col.METADATA_ONLY, np.isin(names.key, _ids_of(trace.names, (*VIEW_OPS, *INNER_VIEWS)))),
            numbers(col.LAUNCHED, calls[names.key] - names.calls),
        ),
        rows[names.largest(slices.dur[rows])],
        note,
    )
    return table.take(table.order("self_cpu_us", descending=True))


PANE = Pane(
    "views",
    "No-GPU ops",
    help="One row is the name of an op that launched nothing on the GPU.",
    table=views,
    columns="name metadata_only calls self_cpu_us cpu_total_us per_step pct_of_step_cpu launched",
    bars="self_cpu_us",
    is_of_names=True,
)


def _per_step(
    trace: Trace, step: Part | None, rows: Int64, own: Int64, member: Int64, size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Calls per step and share of the steps' time of each name; NaN without steps and for a range of time."""
    if isinstance(step, TimeRange):
        return np.full(size, np.nan), np.full(size, np.nan)
    wanted, all_steps = chosen(trace, step), steps(trace)
    span = int((all_steps.end[wanted] - all_steps.start[wanted]).sum())
    if len(wanted) == 0 or span == 0:
        return np.full(size, np.nan), np.full(size, np.nan)
    in_step = step_index(trace, rows) >= 0
    count = np.bincount(member[in_step], minlength=size)
    time = np.bincount(member[in_step], own[in_step].astype(np.float64), size)
    return count / len(wanted), 100 * time / span


def _ids_of(known: Strings, names: Iterable[str]) -> list[int]:
    """Ids of the names that occur in the trace."""
    return [index for index in map(known.find, names) if index >= 0]
