"""Which columns of each pane are read first, in the order of their importance: a screen drops the last of them.

A report has the same columns in the same order; text output has all that a table holds. What a column is and how it
looks stands in `analysis/columns.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from tracetui.model.table import Column, Table

_SUMS = ("calls", "total_us", "pct", "mean_us", "median_us", "min_us", "max_us")
_SITES = ("line", "function", "module")
_GAP_SUMS = ("gaps", "total_us", "pct", "cpu_late_us", "in_launch_us", "waiting_us", "median_us", "max_us")
_LAUNCHES_GROUPED = (*_SITES, "op", "stream", "api", "calls", "kernels", "total_us", "mean_us", "median_us", "max_us")
_CHANGES_GROUPED = (
    "family",
    "op",
    "kind",
    "mark",
    "saves_us",
    "calls_a",
    "a_us",
    "b_us",
    "self_cpu_a_us",
    "self_cpu_b_us",
    "change_pct",
)

COLUMN_ORDER: dict[str, tuple[str, ...]] = {
    "kernels": (
        "step",
        "index",
        "short_name",
        "dur_us",
        "launch_delay_us",
        "gap_before_us",
        "op",
        "occupancy_pct",
        "bound",
        "peak_pct",
        "grid",
        "block",
        "registers",
        "limiter",
        "waves",
        "stream",
        "kineto_occupancy_pct",
        "line",
        "module",
        "start_us",
    ),
    "roofline": (
        "op",
        "input_shapes",
        "kernel",
        "total_us",
        "peak_pct",
        "bound",
        "calls",
        "tflops",
        "gbps",
        "intensity",
        "above_us",
        "mean_us",
    ),
    "kernels by name": ("short_name", *_SUMS),
    "kernels by op": ("op", *_SUMS),
    "kernels by family": ("family", *_SUMS),
    "kernels by annotation": ("annotation", *_SUMS),
    "kernels by stream": ("stream", *_SUMS),
    **{f"kernels by {site}": (site, *_SUMS) for site in _SITES},
    **{f"gaps by {site}": (site, *_GAP_SUMS) for site in _SITES},
    "kernels by graph": (
        "graph",
        "op",
        "replays",
        "nodes",
        "total_us",
        "mean_us",
        "call_us",
        "call_per_node_us",
        "median_delay_us",
    ),
    "ops": (
        "name",
        "input_shapes",
        *_SITES,
        "calls",
        "kernels",
        "self_cpu_us",
        "cpu_total_us",
        "device_total_us",
        "self_device_us",
        "gpu_wall_us",
        "backward_gpu_us",
    ),
    "views": (
        "name",
        "metadata_only",
        "calls",
        "self_cpu_us",
        "cpu_total_us",
        "per_step",
        "pct_of_step_cpu",
        "launched",
    ),
    "occupancy": (
        "step",
        "index",
        "kernel",
        "dur_us",
        "op",
        "occupancy_pct",
        "limiter",
        "block",
        "registers",
        "kineto_occupancy_pct",
        "name",
        "line",
        "module",
        "start_us",
    ),
    "launches": (
        "step",
        "index",
        "api",
        "dur_us",
        "delay_us",
        "kernel",
        "op",
        "queue_depth",
        "stream_wait_us",
        "dispatch_us",
        "kernels",
        "thread",
        "start_us",
        "line",
        "module",
    ),
    "steps": (
        "step",
        "dur_us",
        "kernels",
        "gpu_busy_us",
        "gpu_idle_us",
        "verdict",
        "idle_pct",
        "wait_before_us",
        "exposed_comm_us",
        "sync_us",
        "late_pct",
        "launch_delay_us",
        "launches",
        "copies",
        "view_ops",
        "occupancy_queries",
        "cpu_ops",
        "gpu_others_us",
        "fingerprint",
        "start_us",
    ),
    "gaps": (
        "step",
        "index",
        "dur_us",
        "cause",
        "cpu_doing",
        "after",
        "cpu_late_us",
        "in_launch_us",
        "waiting_us",
        "after_sync",
        "shares",
        "before",
        "start_us",
        "line",
        "module",
    ),
    "memory": (
        "step",
        "event",
        "bytes",
        "total_allocated",
        "op",
        "device",
        "lifetime_us",
        "since_start",
        "total_reserved",
        "made_by",
        "start_us",
    ),
    "memory by op": ("op", "device", "at_peak", "at_peak_pct", "allocated", "allocs", "freed", "largest"),
    "memory by device": (
        "device",
        "peak",
        "rise",
        "peak_us",
        "peak_op",
        "reserved",
        "last",
        "allocated",
        "allocs",
        "median_lifetime_us",
        "failed",
    ),
    "memory by copy": ("copy", "calls", "bytes", "total_us", "gbps", "median_gbps", "median_bytes", "max_us", "hint"),
    "health": ("severity", "check", "count", "share_pct", "effect", "example"),
    "health by offender": ("byte", "offender"),
    "findings": ("severity", "title", "evidence", "cost_us", "step"),
    "gaps by cause": (
        "cause",
        "gaps",
        "total_us",
        "pct",
        "cpu_late_us",
        "in_launch_us",
        "waiting_us",
        "median_us",
        "max_us",
    ),
    "gaps by stream": (
        "device",
        "stream",
        "activities",
        "gaps",
        "idle_us",
        "host_wait_us",
        "kernel_wait_us",
        "other_us",
    ),
    "launches by name": _LAUNCHES_GROUPED,
    "launches by op": _LAUNCHES_GROUPED,
    "launches by stream": _LAUNCHES_GROUPED,
    "occupancy by op": ("op", "kernel", "queries", "launches", "total_us", "us_per_launch"),
    "changed kernels": (
        "mark",
        "short_name",
        "saves_us",
        "calls_a",
        "a_us",
        "b_us",
        "change_pct",
        "noise_us",
        "op",
        "how",
        "saved_bytes",
    ),
    "changed ops": (
        "mark",
        "name",
        "saves_us",
        "calls_a",
        "self_cpu_a_us",
        "self_cpu_b_us",
        "change_pct",
        "noise_us",
        "fused_into",
        "folded_change",
        "kind",
        "cpu_a_us",
        "cpu_b_us",
    ),
    "steps by source": (
        "steps_by",
        "runs",
        "time_pct",
        "activities_pct",
        "per_run",
        "median_us",
        "found_by",
        "where",
    ),
    "totals": ("measure", "a", "b", "difference", "ratio", "change", "a_scatter", "b_scatter", "about"),
    "summary": ("key", "value"),
    "changed kernels by family": _CHANGES_GROUPED,
    "changed kernels by op": _CHANGES_GROUPED,
    "changed kernels by mark": _CHANGES_GROUPED,
    "changed ops by kind": _CHANGES_GROUPED,
    "changed ops by mark": _CHANGES_GROUPED,
}
"""Names of columns by pane, or by pane and grouping as in `kernels by name`."""


def ordered(table: Table, pane: str, by: str | None = None) -> list[Column]:
    """The columns of a table that are read first; all of them where nothing says which.

    The step is left out where all rows are of one, and of the steps themselves what is 0 in every one.
    """
    names = COLUMN_ORDER.get(f"{pane} by {by}", COLUMN_ORDER.get(pane, ()))
    columns = [table[name] for name in names if name in table] or list(table.columns)
    if pane == "steps":
        # There are more columns than fit: what is 0 in every step says little.
        return [column for column in columns if column.is_text or column.nulls().all() or column.values.any()]
    return [column for column in columns if column.name != "step" or _varies(column)]


def importance(pane: str, by: str | None = None) -> Callable[[Column], int]:
    """A function for the rank of a column of a pane, 0 for what is read first; what is not listed comes last."""
    names = COLUMN_ORDER.get(f"{pane} by {by}", COLUMN_ORDER.get(pane, ()))
    ranks = {name: rank for rank, name in enumerate(names)}
    return lambda column: ranks.get(column.name, len(ranks))


def _varies(column: Column) -> bool:
    return len(column) > 1 and bool((column.values != column.values[0]).any())
