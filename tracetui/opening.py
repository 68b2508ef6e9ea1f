"""Opening a trace with what the user says about it: one way in for the commands and the app.

A file may not say where its steps begin or which GPU it ran on. What the user says instead stands in the trace that is
returned; the file is not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tracetui.importers.load import LoadProgress
    from tracetui.model.trace import Trace


class OpenOptions(NamedTuple):
    """What the user says about a trace, beside its path."""

    steps_by: str | None = None
    """Name of what counts as a step: an annotation, a function, a module or a graph."""
    device: str | None = None
    """Name of the GPU, whatever the trace says about it."""


AS_RECORDED = OpenOptions()
"""Nothing is said: steps and devices are those of the file."""


class SideName(NamedTuple):
    """A trace, or a part of one, by its names: `PATH#SCOPE`."""

    path: str
    scope: str = ""


def open_trace(
    path: str,
    options: OpenOptions = AS_RECORDED,
    progress: Callable[[LoadProgress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Trace:
    """Read a trace as `load` does, with the steps and the device that the user chose.

    Raises: TraceError for the file; UsageError for steps that the trace does not have, or an unknown device.
    """
    # These load numpy, which the names above can do without.
    from tracetui.analysis.devices.descriptions import with_device
    from tracetui.analysis.linking.step_sources import with_steps
    from tracetui.importers.load import load

    trace = load(path, progress, cancelled)
    if options.device is not None:
        trace = with_device(trace, options.device)
    return trace if options.steps_by is None else with_steps(trace, options.steps_by)
