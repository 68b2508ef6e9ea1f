"""Traces in Python: every list of the app as a table that pandas, polars, pyarrow, duckdb and numpy take.

`load`, `compare` and `load_ranks` of the package `tracetui` are from here; docs/python.md shows their use.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from html import escape

import numpy as np
from numpy.typing import NDArray

from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.errors import UsageError
from tracetui.model import columns as col
from tracetui.model.quantities import duration
from tracetui.model.table import Table
from tracetui.model.trace import Trace
from tracetui.model.viewpoint import Viewpoint, read_view_string, view_string
from tracetui.opening.rank_folder import RankOptions, open_rank_set
from tracetui.opening.rank_reading import SummaryWork
from tracetui.opening.trace_opening import OpenOptions, keep_opened, open_trace
from tracetui.panes import pane_named
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_tables import TABLES
from tracetui.reading.load_progress import LoadProgress
from tracetui.text import clean


class NamedTable:
    """An attribute that is the table of its own name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, holder: LoadedTrace | LoadedRanks | None, owner: type) -> Table:
        # Of the class there is no table; whoever asks wants its documentation.
        return self if holder is None else holder.table(self.name)  # type: ignore[return-value]


class LoadedTrace(Trace):
    """A trace of which every pane is a table, as `show` prints it: `kernels` is `table("kernels")`.

    `counters` alone is what it is in every `Trace`, the samples: the pane is `table("counters")`.
    """

    overview = NamedTable()
    summary = NamedTable()
    steps = NamedTable()
    kernels = NamedTable()
    ops = NamedTable()
    views = NamedTable()
    occupancy = NamedTable()
    launches = NamedTable()
    gaps = NamedTable()
    roofline = NamedTable()
    serving = NamedTable()
    requests = NamedTable()
    layers = NamedTable()
    modules = NamedTable()
    flame = NamedTable()
    source = NamedTable()
    memory = NamedTable()
    compiles = NamedTable()
    findings = NamedTable()
    range = NamedTable()
    health = NamedTable()

    def table(self, pane: str, *, step: int | None = None, range: str | None = None, by: str | None = None) -> Table:
        """The rows of a pane: of the step with a number, of a range of time such as `12.5us+250us`, or of all.

        `by` groups them, as `--by` of `tracetui show` does. Where no part is asked for, an overview is of the median
        step.
        Raises: UsageError for a pane, step, range or grouping that does not exist; AnalysisFailed for a defect.
        """
        declared = pane_named(pane)
        return declared.build(self, declared.asked_part(self, step, range), by)

    def at(self, view: str) -> Table:
        """The rows that a view string names: `s3/gaps` those of a pane, `s3/kernels/e120` the one of an event.

        Without a pane it is about kernels, or about gaps as in `s3/g120`.
        Raises: UsageError for a view that cannot be understood, or that the trace does not have.
        """
        point = read_view_string(view)
        pane = point.pane or ("gaps" if point.is_gap else "kernels")
        if point.steps_by and point.steps_by != self.steps_by:
            raise UsageError(f"The view {view!r} has other steps: load the trace with steps_by={point.steps_by!r}.")
        listed = point.time_range.text if point.time_range is not None and point.lists_range else None
        table = self.table(pane, step=point.step, range=listed)
        if point.kernel > 0:
            raise UsageError(
                f"The view {view!r} counts kernels: ask for `table('kernels', step=N)` and its column index."
            )
        if point.event < 0:
            return table
        rows = np.flatnonzero(self._events(table) == point.event)
        if len(rows) == 0:
            raise UsageError(
                f"No row of {pane} is of event {point.event}"
                + ("." if pane == "gaps" else ": name another pane, as in `s3/launches/e120`.")
            )
        return table.take(rows)

    def view_strings(self, table: Table) -> list[str | None]:
        """For each row of a table of this trace what `tracetui open --at` selects it by; None where it has no event.

        A row of a table of gaps stands for the gap before its event.
        """
        is_gap = col.BEFORE.name in table and col.AFTER.name in table
        events = self._events(table).tolist()
        return [view_string(Viewpoint(event=event, is_gap=is_gap)) if event >= 0 else None for event in events]

    def _events(self, table: Table) -> NDArray[np.int64]:
        """Number of the event of each row, -1 for none."""
        rows = np.full(len(table), -1, np.int64) if table.slices is None else table.slices
        return np.append(self.slices.event, np.int32(-1)).astype(np.int64)[rows]

    def __repr__(self) -> str:
        return f"<trace {clean(self.label)}: {self.event_count:,} events, {duration(self.window[1] - self.window[0])}>"

    def _repr_html_(self) -> str:
        """The summary for a notebook."""
        return f"<p>{escape(repr(self))}</p>{self.summary._repr_html_()}"


def load(
    path: str | os.PathLike[str],
    progress: Callable[[LoadProgress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    *,
    steps_by: str | None = None,
    device: str | None = None,
    captures: Sequence[str] = (),
    snapshot: str | None = None,
    cache: bool = True,
    peak: float | None = None,
    flops: float | None = None,
    compile_log: str | os.PathLike[str] | None = None,
    requests: str | os.PathLike[str] | None = None,
) -> LoadedTrace:
    """Read a trace from a file or URL; warns where it is cut off or damaged, and what could be read is there.

    `steps_by` to `snapshot`, `peak` to `requests` are those of the command line, `--steps-by` and so on: a snapshot, a
    log of torch.compile and requests that lie beside the trace are taken unless these are "none". With `cache`
    a large trace that was read before comes from the cache, and goes there. `progress` is called about 20 times a
    second at most; once `cancelled` returns True, reading ends and the trace is a part.
    Raises: TraceError for the file; UsageError for steps that the trace does not have, or an unknown device.
    """
    logs = (None if each is None else os.fspath(each) for each in (compile_log, requests))
    options = OpenOptions(steps_by, device, tuple(captures), cache, snapshot, peak, flops, *logs)
    trace = open_trace(os.fspath(path), options, progress, cancelled)
    if cache:
        keep_opened(trace)
    if trace.quality.is_part:
        warnings.warn(f"{clean(trace.label)} {clean(trace.quality.loss)}: numbers are those of a part.", stacklevel=2)
    return LoadedTrace(**{column.name: getattr(trace, column.name) for column in fields(Trace)})


class ComparedTraces(Comparison):
    """A comparison of two sides, with the tables `totals`, `kernels` and `ops`; as text it is its statement."""

    def __repr__(self) -> str:
        return "\n".join(map(clean, self.sentences))

    def _repr_html_(self) -> str:
        """The statement and the totals for a notebook."""
        return "".join(f"<p>{escape(line)}</p>" for line in repr(self).splitlines()) + self.totals._repr_html_()


def compare(
    a: Trace | str | os.PathLike[str],
    b: Trace | str | os.PathLike[str],
    scopes: tuple[str | int, str | int] = ("", ""),
) -> ComparedTraces:
    """Compare two traces, or parts of them: A is before, B is after, and every difference is B less A.

    A scope is what stands after `#` on the command line: `3` and `2:5` are steps, `forward[2]` the second run of a
    name, `@12us+250us` a range of time, `all` the capture; an empty one is all complete steps.
    Raises: TraceError for a file; UsageError for a scope that a trace does not have.
    """
    if isinstance(scopes, str) or len(scopes) != 2:
        raise UsageError(f"Two scopes are needed, of A and of B, as in ('3', '4'), not {scopes!r}.")
    traces = (each if isinstance(each, Trace) else load(each) for each in (a, b))
    sides = [side(trace, str(scope)) for trace, scope in zip(traces, scopes, strict=True)]
    return ComparedTraces(*sides)


@dataclass(frozen=True, eq=False, repr=False)
class LoadedRanks:
    """A run of several ranks, with the tables of `tracetui ranks --show` by name."""

    rank_set: RankSet

    ranks = NamedTable()
    collectives = NamedTable()
    matrix = NamedTable()
    groups = NamedTable()
    steps = NamedTable()
    files = NamedTable()
    compiles = NamedTable()

    def table(self, name: str) -> Table:
        """A table by its name.

        Raises: UsageError for one that does not exist; AnalysisFailed for a defect.
        """
        if name not in TABLES:
            raise UsageError(f"There is no table {name!r} of ranks; there are {', '.join(TABLES)}.")
        return TABLES[name](self.rank_set)

    def __repr__(self) -> str:
        return f"<{len(self.rank_set)} ranks: {clean(self.ranks.headline)}>"

    def _repr_html_(self) -> str:
        """The ranks for a notebook."""
        return self.ranks._repr_html_()


def load_ranks(
    *paths: str | os.PathLike[str],
    pattern: str | None = None,
    run: int = 1,
    jobs: int = 1,
    cache: bool = True,
    compile_log: str | os.PathLike[str] | None = None,
) -> LoadedRanks:
    """Read one trace per rank from folders, files or patterns, with the logs of torch.compile beside them.

    `compile_log` is a folder of logs that lies elsewhere, or "none".
    `pattern` is a regular expression with the rank in its first group, `run` the run where there are several. More
    `jobs` than one are processes that import the script, which then has to begin with `if __name__ == "__main__":`.
    Raises: NotFound where there is no rank; UsageError for a pattern or a run that does not exist.
    """
    named = [os.fspath(path) for path in paths]
    options = RankOptions(pattern, run, None if compile_log is None else os.fspath(compile_log))
    return LoadedRanks(open_rank_set(named, options, None, SummaryWork(jobs, uses_cache=cache)))
