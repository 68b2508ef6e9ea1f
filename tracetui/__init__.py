"""PyTorch profiler traces in a terminal and as text.

`load(path)` reads a trace file, whose lists are tables for pandas, polars, pyarrow and numpy; `compare(a, b)` compares
two, and `load_ranks(folder)` reads one per rank. `record(path)` records iterations of the caller's own loop and needs
torch. All are imported on first use, because `tracetui --help` must not wait for numpy. Where what records cannot be
imported, `record` warns and records nothing, so that the caller's loop goes on.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracetui_workloads.recording.record import record

    from tracetui.model.table import Table
    from tracetui.model.trace import Trace
    from tracetui.scripting import LoadedRanks, LoadedTrace, compare, load, load_ranks

__version__ = "0.1.0"
__all__ = [
    "LoadedRanks",
    "LoadedTrace",
    "Table",
    "Trace",
    "__version__",
    "compare",
    "load",
    "load_ranks",
    "record",
]


def __getattr__(name: str) -> Any:
    """The public names that cost an import, on first use (PEP 562)."""
    if name in ("LoadedRanks", "LoadedTrace", "Table", "Trace", "compare", "load", "load_ranks"):
        from tracetui import scripting

        return getattr(scripting, name)
    if name == "record":
        try:
            from tracetui_workloads.recording.record import record
        except Exception as error:
            # Whatever is wrong with the installation, the user's training is worth more than its trace.
            return partial(_Unrecorded, f"{type(error).__name__}: {error}")
        return record
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Unrecorded:
    """Stands for a recorder that cannot be imported: a context whose steps record nothing."""

    written = False

    def __init__(self, reason: str, out: Any, **_: Any) -> None:
        self.path = out
        text = f"There is no trace {out}: what records cannot be imported ({reason}). Install tracetui again."
        try:
            warnings.warn(text, stacklevel=2)
        except UserWarning:
            # Where warnings are errors, too.
            print(f"tracetui: {text}", file=sys.stderr)

    def __call__(self) -> None:
        """End an iteration."""

    def __enter__(self) -> _Unrecorded:
        return self

    def __exit__(self, *_: object) -> None:
        """Let an exception of the loop through."""
