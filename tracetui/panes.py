"""The panes: one entry per table that the screen and the command line show.

To add a pane, write `table(trace, step, by) -> Table` in a file of its own, a function here that imports it, and a
`Pane`. The functions import within: the first picture of the app waits for one pane, and not for the modules of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tracetui.errors import UsageError
from tracetui.model import groupings
from tracetui.model.guarding import guarded, keep_guarded
from tracetui.model.intervals import Part
from tracetui.model.table import Table
from tracetui.model.trace import Trace


def _summary(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.health.summary import summary

    return summary(trace, step, by)


def _steps(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.tables.step_table import step_table

    return step_table(trace, step, by)


def _kernels(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.tables.kernels import kernels

    return kernels(trace, step, by)


def _ops(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.operators.ops import ops

    return ops(trace, step, by)


def _views(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.operators.views import views

    return views(trace, step, by)


def _occupancy(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.tables.occupancy import occupancy

    return occupancy(trace, step, by)


def _launches(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.tables.launches import launches

    return launches(trace, step, by)


def _gaps(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.idle.gaps import gaps

    return gaps(trace, step, by)


def _roofline(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.devices.roofline import roofline_table

    return roofline_table(trace, step, by)


def _serving(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.serving.serving_table import serving

    return serving(trace, step, by)


def _layers(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.tables.layers import layers

    return layers(trace, step, by)


def _modules(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.tables.modules import modules

    return modules(trace, step, by)


def _memory(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.memory.memory_table import memory

    return memory(trace, step, by)


def _counters(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.tables.counter_table import counter_table

    return counter_table(trace, step, by)


def _findings(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.findings import findings

    return findings(trace, step, by)


def _range(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.tables.range_table import range_table

    return range_table(trace, step, by)


def _health(trace: Trace, step: Part | None, by: str | None) -> Table:
    from tracetui.health.health_table import health

    return health(trace, step, by)


ABOVE_WHOLE = {
    "peak_pct": "the call took up to 5 % less than the data sheet allows, as where the GPU runs above its listed clock",
    "pct": "what ran side by side, or lies in one another, is added",
}
"""Why a share may be above 100 %, by its column."""
ADDED_UP = "what it adds up overlaps, or lies partly outside of what it is a share of"
"""Why any other share may be."""
MAX_ROUNDING_PCT = 1e-6
"""By how much a sum of floats may be above 100 % without being more than the whole."""


def marked_shares(table: Table) -> Table:
    """The table with the mark `~` on shares above 100 %, and why they are above it; rounding is taken away."""
    columns, reasons = [], dict[str, str]()
    for column in table.columns:
        is_share = column.unit == "%" and column.values.dtype.kind == "f"
        values = column.values.astype(np.float64) if is_share else np.empty(0)
        above = values > 100
        if above.any():
            values = np.where(above & (values <= 100 + MAX_ROUNDING_PCT), 100.0, values)
            above = values > 100
            marks = above if column.doubtful is None else above | column.doubtful
            column = replace(column, values=values, doubtful=marks if marks.any() else None)
        if above.any():
            reasons.setdefault(ABOVE_WHOLE.get(column.name, ADDED_UP), column.spec.heading)
        columns.append(column)
    if not reasons and columns == list(table.columns):
        return table
    said = [f"{heading} above 100 (~): {why}." for why, heading in reasons.items()]
    return replace(table, columns=tuple(columns), note=" ".join(filter(None, (table.note, *said))))


@dataclass(frozen=True)
class Pane:
    """A table of every trace."""

    name: str
    """Name on the command line."""
    title: str
    """Title of its tab."""
    make: Callable[[Trace, Part | None, str | None], Table]
    """The analysis behind it; use `build`, which checks and caches."""
    help: str
    """One sentence about its rows."""
    groups: tuple[str, ...] = ()
    """Allowed values of `by`."""
    largest_first: str | None = None
    """The column by which single rows are listed, the largest first; None for the order of the analysis."""
    is_offered: Callable[[Trace], bool] = lambda _: True
    """Whether a trace can have rows for it; a pane for which it has nothing gets no tab until it is asked for."""

    def offered(self, trace: Trace) -> tuple[str, ...]:
        """The groupings that apply to a trace: by graph where graphs were replayed, by call site where it is known, by
        purpose and library where a model is served, allocations by op and device where they were recorded.
        """
        from tracetui.kernel_names.slice_names import is_serving
        from tracetui.linking.call_sites import known_sites
        from tracetui.linking.replays import replays
        from tracetui.memory.allocator import allocator

        has_allocations = self.name != "memory" or len(allocator(trace)) > 0
        absent = {
            *(() if len(replays(trace)) else ("graph",)),
            *(() if "purpose" not in self.groups or is_serving(trace) else ("purpose", "library")),
            *(() if has_allocations else ("op", "device")),
            *(set(groupings.SITES) - set(known_sites(trace)) if set(groupings.SITES) <= set(self.groups) else ()),
        }
        return tuple(name for name in self.groups if name not in absent)

    def build(self, trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
        """The table of a trace, of the step with a number, or of a range of time, cached with the trace.

        Raises: UsageError for a step that does not exist or an unknown grouping, AnalysisFailed for a defect.
        """
        if by is not None and by not in self.groups:
            if not self.groups:
                raise UsageError(f"The pane {self.name} cannot be grouped.")
            raise UsageError(f"The pane {self.name} can be grouped by {' or '.join(self.groups)}, not by {by}.")
        from tracetui.linking.placement import chosen

        with guarded(f"The pane {self.name}"):
            chosen(trace, step)
        return keep_guarded(
            trace, ("pane", self.name, step, by), f"The pane {self.name}", lambda: self._made(trace, step, by)
        )

    def _made(self, trace: Trace, step: Part | None, by: str | None) -> Table:
        from tracetui.health.health_table import marked

        table = marked(trace, self.name, marked_shares(self.make(trace, step, by)))
        # What is listed without a grouping is there: the table itself says why not by this one.
        is_foreign = len(table) == 0 and not trace.is_torch
        if is_foreign and (by is None or len(self.build(trace, step)) == 0):
            return replace(
                table, note=f"This is not a trace of the PyTorch profiler: nothing to list under {self.name}."
            )
        return table


PANES = {
    pane.name: pane
    for pane in (
        Pane("summary", "Summary", _summary, "What the file is, what it holds and how busy the GPU was."),
        Pane("steps", "Steps", _steps, "One row is a step, or by source what can stand for steps.", groupings.STEPS),
        Pane("kernels", "Kernels", _kernels, "One row is a kernel, copy or fill, by start.", groupings.KERNELS),
        Pane(
            "ops",
            "Ops",
            _ops,
            "One row is an operator name, as in key_averages(); by event there is every row of torch's table, by frame "
            "with Python frames, which torch 2.12 and 2.13 list.",
            groupings.OPS,
        ),
        Pane("views", "Views", _views, "One row is the name of an op that launched nothing on the GPU."),
        Pane("occupancy", "Occupancy", _occupancy, "One row is an occupancy query.", groupings.OCCUPANCY),
        Pane("launches", "Launches", _launches, "One row is a call that launched GPU activities.", groupings.LAUNCHES),
        Pane("gaps", "Gaps", _gaps, "One row is a stretch in which a device ran nothing.", groupings.GAPS, "dur_us"),
        Pane("roofline", "Roofline", _roofline, "One row is an operator with its shapes and main kernel."),
        Pane(
            "serving",
            "Serving",
            _serving,
            "One row is a kind of step of an inference server: how long, how often, and what lies between.",
            groupings.SERVING,
        ),
        Pane(
            "layers",
            "Layers",
            _layers,
            "One row is a part of a step: what repeats, and what is before and behind it.",
            groupings.LAYERS,
        ),
        Pane("modules", "Modules", _modules, "One row is a module below the module that called it.", groupings.MODULES),
        Pane("memory", "Memory", _memory, "One row is an allocation or a free.", groupings.MEMORY),
        Pane(
            "counters",
            "Counters",
            _counters,
            "One row is a counter of a GPU or a program.",
            groupings.COUNTERS,
            is_offered=lambda trace: bool(trace.counters),
        ),
        Pane("findings", "Findings", _findings, "One row is a finding, with evidence and advice."),
        Pane("range", "Range", _range, "What ran in a range of time: one row is a count with its time within it."),
        Pane("health", "Health", _health, "One row is a check of the trace itself.", groupings.HEALTH),
    )
}
"""All panes by name, in the order of the tabs."""


def pane_named(name: str) -> Pane:
    """The pane with a name.

    Raises: UsageError when there is none.
    """
    if name not in PANES:
        raise UsageError(f"There is no pane {name!r}; there are {', '.join(PANES)}.")
    return PANES[name]
