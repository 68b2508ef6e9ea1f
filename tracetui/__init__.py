"""PyTorch profiler traces in a terminal and as text.

`load(path)` reads a trace file into a `Trace`; `record(path)` records iterations of the caller's own loop and needs
torch. Both are imported on first use, because `tracetui --help` must not wait for numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracetui_workloads.recording.record import record

    from tracetui.importers.load import load
    from tracetui.model.trace import Trace

__version__ = "0.1.0"
__all__ = ["Trace", "__version__", "load", "record"]


def __getattr__(name: str) -> Any:
    """The public names that cost an import, on first use (PEP 562)."""
    if name == "load":
        from tracetui.importers.load import load

        return load
    if name == "Trace":
        from tracetui.model.trace import Trace

        return Trace
    if name == "record":
        from tracetui_workloads.recording.record import record

        return record
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
