"""The panes: one entry per table that the screen and the command line show.

To add a pane, write `table(trace, step, by) -> Table` in a file of its own, import it here and add a `Pane`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tracetui.analysis.counter_table import GROUPS as COUNTER_GROUPS
from tracetui.analysis.counter_table import counter_table
from tracetui.analysis.health.health_table import health, marked
from tracetui.analysis.idle.gaps import gaps
from tracetui.analysis.kernel_names import serves
from tracetui.analysis.kernels import GROUPS as KERNEL_GROUPS
from tracetui.analysis.kernels import kernels
from tracetui.analysis.launches import launches
from tracetui.analysis.layers import GROUPS as LAYER_GROUPS
from tracetui.analysis.layers import layers
from tracetui.analysis.linking.call_sites import SITES, known_sites
from tracetui.analysis.linking.placement import chosen
from tracetui.analysis.linking.replays import replays
from tracetui.analysis.memory.allocator import allocator
from tracetui.analysis.memory.memory_table import memory
from tracetui.analysis.modules import GROUPS as MODULE_GROUPS
from tracetui.analysis.modules import modules
from tracetui.analysis.occupancy import occupancy
from tracetui.analysis.operators.ops import GROUPS as OP_GROUPS
from tracetui.analysis.operators.ops import HELP as OPS_HELP
from tracetui.analysis.operators.ops import ops
from tracetui.analysis.operators.views import views
from tracetui.analysis.range_table import range_table
from tracetui.analysis.serving.serving_table import GROUPS as SERVING_GROUPS
from tracetui.analysis.serving.serving_table import serving
from tracetui.analysis.step_table import GROUPS as STEP_GROUPS
from tracetui.analysis.step_table import step_table
from tracetui.analysis.summary import summary
from tracetui.analysis.work.roofline import roofline_table
from tracetui.errors import UsageError
from tracetui.model.table import Table
from tracetui.model.time_range import Part
from tracetui.model.trace import Trace


def _findings(trace: Trace, step: Part | None, by: str | None) -> Table:
    # A fifth of all modules are rules: the first picture of the app does not wait for them.
    from tracetui.analysis.findings import findings

    return findings(trace, step, by)


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
    is_offered: Callable[[Trace], bool] = lambda _: True
    """Whether a trace can have rows for it; a pane for which it has nothing gets no tab until it is asked for."""

    def offered(self, trace: Trace) -> tuple[str, ...]:
        """The groupings that apply to a trace: by graph where graphs were replayed, by call site where it is known, by
        purpose and library where a model is served, allocations by op and device where they were recorded.
        """
        has_allocations = self.name != "memory" or len(allocator(trace)) > 0
        absent = {
            *(() if len(replays(trace)) else ("graph",)),
            *(() if "purpose" not in self.groups or serves(trace) else ("purpose", "library")),
            *(() if has_allocations else ("op", "device")),
            *(set(SITES) - set(known_sites(trace)) if set(SITES) <= set(self.groups) else ()),
        }
        return tuple(name for name in self.groups if name not in absent)

    def build(self, trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
        """The table of a trace, of the step with a number, or of a range of time, cached with the trace.

        Raises: UsageError for a step that does not exist or an unknown grouping.
        """
        if by is not None and by not in self.groups:
            if not self.groups:
                raise UsageError(f"The pane {self.name} cannot be grouped.")
            raise UsageError(f"The pane {self.name} can be grouped by {' or '.join(self.groups)}, not by {by}.")
        chosen(trace, step)
        return trace.remember(("pane", self.name, step, by), lambda: self._made(trace, step, by))

    def _made(self, trace: Trace, step: Part | None, by: str | None) -> Table:
        table = marked(trace, self.name, self.make(trace, step, by))
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
        Pane("summary", "Summary", summary, "What the file is, what it holds and how busy the GPU was."),
        Pane("steps", "Steps", step_table, "One row is a step, or by source what can stand for steps.", STEP_GROUPS),
        Pane("kernels", "Kernels", kernels, "One row is a kernel, copy or fill, by start.", KERNEL_GROUPS),
        Pane("ops", "Ops", ops, OPS_HELP, OP_GROUPS),
        Pane("views", "Views", views, "One row is the name of an op that launched nothing on the GPU."),
        Pane("occupancy", "Occupancy", occupancy, "One row is an occupancy query.", ("op",)),
        Pane(
            "launches",
            "Launches",
            launches,
            "One row is a call that launched GPU activities.",
            ("name", "op", "stream", *SITES),
        ),
        Pane("gaps", "Gaps", gaps, "One row is a stretch in which a device ran nothing.", ("cause", "stream", *SITES)),
        Pane("roofline", "Roofline", roofline_table, "One row is an operator with its shapes and main kernel."),
        Pane(
            "serving",
            "Serving",
            serving,
            "One row is a kind of step of an inference server: how long, how often, and what lies between.",
            SERVING_GROUPS,
        ),
        Pane(
            "layers",
            "Layers",
            layers,
            "One row is a part of a step: what repeats, and what is before and behind it.",
            LAYER_GROUPS,
        ),
        Pane("modules", "Modules", modules, "One row is a module below the module that called it.", MODULE_GROUPS),
        Pane("memory", "Memory", memory, "One row is an allocation or a free.", ("op", "device", "copy")),
        Pane(
            "counters",
            "Counters",
            counter_table,
            "One row is a counter of a GPU or a program.",
            COUNTER_GROUPS,
            lambda trace: bool(trace.counters),
        ),
        Pane("findings", "Findings", _findings, "One row is a finding, with evidence and advice."),
        Pane("range", "Range", range_table, "What ran in a range of time: one row is a count with its time within it."),
        Pane("health", "Health", health, "One row is a check of the trace itself.", ("offender",)),
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
