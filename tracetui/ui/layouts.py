"""Which columns of each pane are on screen, under which short titles: text output has all of them.

The listing order is the order of importance: what does not fit is dropped from the end.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shown:
    """A column on screen."""

    name: str
    title: str
    width: int
    """Cells; for a column that grows, the least that it needs."""
    grow: int = 0
    """Share of the space that is left over."""
    kernels: bool = False
    """Whether the texts are names of kernels, to be shown without namespaces and parameters."""
    comfort: int = 0
    """Cells that a column that grows would like to have: as its values need, within reason."""


_KERNEL = Shown("short_name", "kernel", 24, 3)
_OP = Shown("op", "op", 12, 1)
_STEP = Shown("step", "step", 6)
"""Only where rows of several steps are listed."""
_SUMS = (
    Shown("calls", "calls", 7),
    Shown("total_us", "total µs", 12),
    Shown("pct", "%", 6),
    Shown("mean_us", "mean", 10),
    Shown("median_us", "median", 10),
    Shown("min_us", "min", 10),
    Shown("max_us", "max", 10),
)
_LAUNCHES_GROUPED = (
    Shown("op", "op", 18, 1),
    Shown("stream", "stream", 6),
    Shown("api", "call", 18, 1),
    Shown("calls", "calls", 7),
    Shown("kernels", "kernels", 8),
    Shown("total_us", "total µs", 12),
    Shown("mean_us", "mean", 10),
    Shown("median_us", "median", 10),
    Shown("max_us", "max", 10),
)

LAYOUTS: dict[str, tuple[Shown, ...]] = {
    "kernels": (
        _STEP,
        Shown("index", "#", 5),
        _KERNEL,
        Shown("dur_us", "µs", 9),
        Shown("launch_delay_us", "delay", 9),
        Shown("gap_before_us", "gap", 9),
        _OP,
        Shown("occupancy_pct", "occ %", 6),
        Shown("bound", "bound", 7),
        Shown("peak_pct", "peak %", 6),
        Shown("grid", "grid", 12),
        Shown("block", "block", 10),
        Shown("registers", "regs", 5),
        Shown("limiter", "limiter", 12),
        Shown("waves", "waves", 6),
        Shown("stream", "stream", 6),
        Shown("kineto_occupancy_pct", "est. %", 6),
        Shown("start_us", "start µs", 13),
    ),
    "roofline": (
        _OP,
        Shown("input_shapes", "shapes", 16, 1),
        Shown("kernel", "kernel", 16, 2, kernels=True),
        Shown("total_us", "total µs", 12),
        Shown("peak_pct", "peak %", 6),
        Shown("bound", "bound", 7),
        Shown("calls", "calls", 7),
        Shown("tflops", "TFLOP/s", 8),
        Shown("gbps", "GB/s", 8),
        Shown("intensity", "FLOP/B", 8),
        Shown("above_us", "above roof", 11),
        Shown("mean_us", "mean", 10),
    ),
    "kernels by name": (Shown("name", "kernel", 18, 1, kernels=True), *_SUMS),
    "kernels by op": (Shown("op", "op", 18, 1), *_SUMS),
    "kernels by family": (Shown("family", "family", 18, 1), *_SUMS),
    "kernels by annotation": (Shown("annotation", "annotation", 18, 1), *_SUMS),
    "kernels by stream": (Shown("stream", "stream", 18, 1), *_SUMS),
    "kernels by graph": (
        Shown("graph", "graph", 9),
        Shown("op", "op", 18, 1),
        Shown("replays", "replays", 8),
        Shown("nodes", "nodes", 6),
        Shown("total_us", "total µs", 12),
        Shown("mean_us", "mean", 10),
        Shown("call_us", "call", 9),
        Shown("call_per_node_us", "per node", 9),
        Shown("median_delay_us", "delay", 10),
    ),
    "ops": (
        Shown("name", "op", 18, 1),
        Shown("input_shapes", "shapes", 16, 1),
        Shown("calls", "calls", 7),
        Shown("kernels", "kernels", 8),
        Shown("self_cpu_us", "self CPU µs", 12),
        Shown("cpu_total_us", "CPU µs", 12),
        Shown("device_total_us", "GPU µs", 12),
        Shown("self_device_us", "self GPU µs", 12),
        Shown("gpu_wall_us", "GPU wall µs", 12),
        Shown("backward_gpu_us", "backward µs", 12),
    ),
    "views": (
        Shown("name", "op", 18, 1),
        Shown("metadata_only", "view", 5),
        Shown("calls", "calls", 7),
        Shown("self_cpu_us", "self CPU µs", 12),
        Shown("cpu_total_us", "CPU µs", 12),
        Shown("per_step", "per step", 9),
        Shown("pct_of_step_cpu", "% of step", 9),
        Shown("launched", "launched", 9),
    ),
    "occupancy": (
        _STEP,
        Shown("index", "#", 5),
        Shown("name", "query", 14, 1),
        Shown("dur_us", "µs", 9),
        _OP,
        Shown("kernel", "for kernel", 20, 3, kernels=True),
        Shown("occupancy_pct", "occ %", 6),
        Shown("limiter", "limiter", 12),
        Shown("block", "block", 10),
        Shown("registers", "regs", 5),
        Shown("kineto_occupancy_pct", "est. %", 6),
        Shown("start_us", "start µs", 13),
    ),
    "launches": (
        _STEP,
        Shown("index", "#", 5),
        Shown("api", "call", 16, 1),
        Shown("dur_us", "µs", 9),
        Shown("delay_us", "delay", 9),
        Shown("kernel", "kernel", 14, 3, kernels=True),
        _OP,
        Shown("queue_depth", "queue", 6),
        Shown("stream_wait_us", "stream wait", 11),
        Shown("dispatch_us", "dispatch", 9),
        Shown("kernels", "kernels", 8),
        Shown("thread", "thread", 12),
        Shown("start_us", "start µs", 13),
    ),
    "steps": (
        Shown("step", "step", 6),
        Shown("dur_us", "µs", 12),
        Shown("kernels", "kernels", 8),
        Shown("gpu_busy_us", "GPU busy", 12),
        Shown("gpu_idle_us", "GPU idle", 12),
        Shown("verdict", "verdict", 14, 1),
        Shown("idle_pct", "idle %", 7),
        Shown("exposed_comm_us", "exposed comm", 12),
        Shown("sync_us", "sync µs", 11),
        Shown("late_pct", "late %", 7),
        Shown("launch_delay_us", "med. delay", 10),
        Shown("launches", "launches", 9),
        Shown("copies", "copies", 7),
        Shown("view_ops", "views", 7),
        Shown("occupancy_queries", "occ. queries", 12),
        Shown("cpu_ops", "ops", 7),
        Shown("fingerprint", "fingerprint", 12),
        Shown("start_us", "start µs", 13),
    ),
    "gaps": (
        _STEP,
        Shown("index", "#", 5),
        Shown("dur_us", "µs", 9),
        Shown("cause", "cause", 18),
        Shown("cpu_doing", "CPU was in", 18, 3),
        Shown("after", "then ran", 14, 2, kernels=True),
        Shown("cpu_late_us", "CPU late", 9),
        Shown("in_launch_us", "in call", 9),
        Shown("waiting_us", "waiting", 9),
        Shown("after_sync", "sync", 5),
        Shown("shares", "shares", 20, 1),
        Shown("before", "before it", 14, 1, kernels=True),
        Shown("start_us", "start µs", 13),
    ),
    "memory": (
        _STEP,
        Shown("event", "", 5),
        Shown("bytes", "bytes", 11),
        Shown("total_allocated", "in use", 10),
        _OP,
        Shown("device", "device", 7),
        Shown("lifetime_us", "lived µs", 12),
        Shown("since_start", "since start", 11),
        Shown("total_reserved", "reserved", 10),
        Shown("made_by", "made by", 12, 1),
        Shown("start_us", "start µs", 13),
    ),
    "memory by op": (
        Shown("op", "op", 18, 1),
        Shown("device", "device", 7),
        Shown("at_peak", "at peak", 10),
        Shown("at_peak_pct", "%", 6),
        Shown("allocated", "allocated", 10),
        Shown("allocs", "allocs", 8),
        Shown("freed", "freed", 10),
        Shown("largest", "largest", 10),
    ),
    "memory by device": (
        Shown("device", "device", 7),
        Shown("peak", "peak", 10),
        Shown("rise", "rise", 10),
        Shown("peak_us", "at µs", 13),
        Shown("peak_op", "in", 18, 1),
        Shown("reserved", "reserved", 10),
        Shown("last", "at the end", 10),
        Shown("allocated", "allocated", 10),
        Shown("allocs", "allocs", 8),
        Shown("median_lifetime_us", "lived µs", 10),
        Shown("failed", "failed", 7),
    ),
    "memory by copy": (
        Shown("copy", "copy", 18, 1),
        Shown("calls", "calls", 7),
        Shown("bytes", "bytes", 10),
        Shown("total_us", "total µs", 12),
        Shown("gbps", "GB/s", 8),
        Shown("median_gbps", "median", 8),
        Shown("median_bytes", "typical", 10),
        Shown("max_us", "max µs", 10),
        Shown("hint", "hint", 18, 2),
    ),
    "health": (
        Shown("severity", "", 5),
        Shown("check", "check", 28),
        Shown("count", "count", 9),
        Shown("share_pct", "%", 6),
        Shown("effect", "effect", 24, 3),
        Shown("example", "example", 14, 2),
    ),
    "health by offender": (Shown("byte", "at byte", 14), Shown("offender", "what stands there", 40, 1)),
    "findings": (
        Shown("severity", "weight", 7),
        Shown("title", "finding", 20, 1),
        Shown("evidence", "evidence", 24, 3),
        Shown("cost_us", "µs", 12),
        Shown("step", "step", 6),
    ),
    "gaps by cause": (
        Shown("cause", "cause", 18, 1),
        Shown("gaps", "gaps", 7),
        Shown("total_us", "total µs", 12),
        Shown("pct", "%", 6),
        Shown("cpu_late_us", "CPU late", 11),
        Shown("in_launch_us", "in call", 11),
        Shown("waiting_us", "waiting", 11),
        Shown("median_us", "median", 10),
        Shown("max_us", "max", 10),
    ),
    "gaps by stream": (
        Shown("device", "device", 6),
        Shown("stream", "stream", 6),
        Shown("activities", "work", 8),
        Shown("gaps", "gaps", 7),
        Shown("idle_us", "idle µs", 12),
        Shown("host_wait_us", "host wait", 11),
        Shown("kernel_wait_us", "kernel wait", 11),
        Shown("other_us", "other", 11),
    ),
    "launches by name": _LAUNCHES_GROUPED,
    "launches by op": _LAUNCHES_GROUPED,
    "launches by stream": _LAUNCHES_GROUPED,
    "occupancy by op": (
        Shown("op", "op", 18, 1),
        Shown("kernel", "for kernel", 18, 1, kernels=True),
        Shown("queries", "queries", 8),
        Shown("launches", "launches", 9),
        Shown("total_us", "total µs", 12),
        Shown("us_per_launch", "µs per launch", 14),
    ),
    "summary": (Shown("key", "what", 24), Shown("value", "value", 20, 1)),
    "traces": (Shown("trace", "trace", 30, 1), Shown("size", "size", 10), Shown("changed", "changed", 14)),
    "workloads": (Shown("workload", "workload", 14), Shown("here", "here", 20, 1), Shown("summary", "what", 20, 2)),
    "marks": (
        Shown("mark", "mark", 20, 1),
        Shown("step", "step", 8),
        Shown("from", "from", 12),
        Shown("pane", "pane", 10),
    ),
    "help": (
        Shown("keys", "keys", 16),
        Shown("does", "does", 30),
        Shown("help", "", 24, 1),
        Shown("where", "where", 11),
    ),
}
"""By pane, or by pane and grouping as in `kernels by name`."""

SENTENCES: dict[str, tuple[tuple[str, str], ...]] = {
    "findings": (("title", ""), ("evidence", ""), ("advice", "")),
    "gaps": (("cause", "idle because of"), ("shares", "in all"), ("cpu_doing", "the CPU was in")),
    "health": (("check", ""), ("effect", ""), ("example", "for example")),
    "memory by copy": (("copy", ""), ("hint", "")),
}
"""Columns that are too long for a list, and what is said before them: the details tell those of the current row."""
