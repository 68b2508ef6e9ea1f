"""Which health warnings affect the names that expressions use.

A health check names the columns of panes that it affects; a name of an expression stands for the columns from which its
value is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracetui.health.checks import Check
from tracetui.health.health_table import doubtful
from tracetui.kernel_names.slice_names import Family
from tracetui.model.trace import Trace

_BUSY = ("steps.gpu_busy_us", "kernels.dur_us")
_IDLE = ("steps.gpu_idle_us",)
_MEASURES: dict[str, tuple[str, ...]] = {
    "cpu_us": ("steps.dur_us", "steps.sync_us", "ops.cpu_total_us"),
    "launch_us": ("launches.dur_us",),
    "query_us": ("occupancy.dur_us",),
    "idle_op_us": ("ops.self_cpu_us", "ops.kernels"),
    "idle_ops": ("ops.kernels",),
    "view_ops": ("views.calls",),
    "cpu_ops": ("ops.calls",),
    "occupancy_queries": ("occupancy",),
    "gpu_busy_us": _BUSY,
    "gpu_span_us": _BUSY,
    "gpu_work_us": _BUSY,
    "gpu_idle_us": _IDLE,
    "gpu_idle_pct": _IDLE,
    "gpu_others_us": _IDLE,
    "wait_before_us": _IDLE,
    "copies": ("steps.kernels",),
    "graph_launches": ("steps.launches",),
    "moved_bytes": ("steps.kernels", "kernels.bytes"),
    "flops": ("steps.kernels", "kernels.flops"),
    "moved_known_pct": _BUSY,
    **{f"{family.name.lower()}_us": _BUSY for family in Family},
}
"""Columns behind a measure of a step, where that is not the column of the same name."""
_GAPS = ("gaps.cause", "gaps.dur_us")
_SUMS = ("summary", "summary.value")
_OF_THE_FILE = ("file", "format", "size_bytes", "processes", "threads", "streams", "devices", "step_markers")
_OF_FOUND_STEPS = ("steps_found_by", "steps_are", "steps_cover_pct", "step_kinds", "between_steps_pct")
_UNPROFILED = ("unprofiled_us", "unprofiled_low_us", "unprofiled_high_us", "profiler_adds_pct")
_OTHERS = ("recorded_with", "workload", "doubts", "totals_say", "without_launch")
_CHANGES = ("events_lost", "metadata_lost", "events_mended", "bytes_replaced", "keys_twice", "times_changed")
_SAID = (*_OF_THE_FILE, *_CHANGES, *_OF_FOUND_STEPS, *_UNPROFILED, *_OTHERS)
"""Lines of the summary that no warning affects."""
_COUNTS = ("cpu_ops", "launches", "occupancy_queries", "view_ops", "events")
"""Lines of the summary that stay right where durations do not."""
_LINES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_SAID, ()),
    **dict.fromkeys(_COUNTS, ("summary",)),
    **dict.fromkeys(("kernels", "copies"), ("summary", "kernels")),
    "steps": ("steps.start_us",),
    "verdict": (*_SUMS, "steps.verdict"),
    "self_cpu_total_us": (*_SUMS, "ops.self_cpu_us"),
}
_CHOSEN_BY = {
    "steps": "steps.start_us",
    "kernels": "steps.kernels",
    "copies": "steps.kernels",
    "launches": "launches.step",
}
"""Columns that decide which rows of a list belong to the parts."""
_PANES = {"copies": "kernels", "runs": "steps"}
"""Lists that are part of a pane of another name."""


def of_measure(name: str) -> tuple[str, ...]:
    """The columns behind a measure of a step, as `pane.column`."""
    if name.startswith("idle_") and name not in _MEASURES:
        return _GAPS
    return _MEASURES.get(name, (f"steps.{name}",))


def of_line(name: str) -> tuple[str, ...]:
    """The columns behind a line of the summary; `pane` alone stands for its rows, and not their values."""
    if name.startswith("idle_"):
        return (*_SUMS, *_GAPS)
    return _LINES.get(name, _SUMS)


def of_rows(name: str) -> tuple[str, ...]:
    """The columns that decide how many rows a list has."""
    pane = _PANES.get(name, name)
    return (pane, _CHOSEN_BY[name]) if name in _CHOSEN_BY else (pane,)


def of_column(name: str, column: str) -> tuple[str, ...]:
    """The columns behind a column of a list."""
    own = of_measure(column) if name in ("steps", "runs") else (f"{_PANES.get(name, name)}.{column}",)
    return (*own, *of_rows(name))


def of_selected(kind: str, field: str) -> tuple[str, ...]:
    """The columns behind a field of kernels, copies or operators that are selected by name."""
    if kind == "op":
        return (f"ops.{'device_total_us' if field == 'self_device_us' else field}",)
    counted = ("steps.kernels",) if field in ("calls", "total_us") else ("kernels",)
    return counted if field == "calls" else (*counted, "kernels.dur_us")


def touching(trace: Trace, used: Mapping[str, Iterable[str]]) -> list[tuple[Check, list[str]]]:
    """The warnings about a trace that affect the names in use, the worst first, and the names that each affects.

    `used` holds the columns behind every name.
    """
    affecting = []
    for check in doubtful(trace):
        names = [name for name, columns in used.items() if any(_is_touched(check, column) for column in columns)]
        if names:
            affecting.append((check, names))
    return affecting


def _is_touched(check: Check, column: str) -> bool:
    return column in check.touches or column.partition(".")[0] in check.touches
