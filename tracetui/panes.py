"""The panes: the tables that the screen and the command line show.

`PANE_FILES` names the file of each pane, where it is declared as `PANE`. The files need numpy, for which `--help` does
not wait: one is imported when its pane is first asked for.
"""

from __future__ import annotations

import ast
import re
from collections import UserDict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

from tracetui.errors import UsageError, nearest
from tracetui.model.pane import Pane

if TYPE_CHECKING:
    from tracetui.model.intervals import Part
    from tracetui.model.table import Table
    from tracetui.model.trace import Trace

PANE_FILES = {
    "overview": "overview.overview_table",
    "summary": "health.summary",
    "steps": "tables.step_table",
    "kernels": "tables.kernels",
    "ops": "operators.ops",
    "views": "operators.views",
    "occupancy": "tables.occupancy",
    "launches": "tables.launches",
    "gaps": "idle.gaps",
    "roofline": "devices.roofline",
    "serving": "serving.serving_table",
    "requests": "serving.request_table",
    "layers": "tables.layers",
    "modules": "tables.modules",
    "flame": "tables.flame",
    "source": "tables.source_table",
    "memory": "memory.memory_table",
    "compiles": "tables.compiles",
    "counters": "tables.counter_table",
    "findings": "findings",
    "range": "tables.range_table",
    "health": "health.health_table",
}
"""The module that declares each pane, in the order of `--help`."""

PANE_GROUPS = {
    "Overview": ("overview",),
    "Kernels": ("kernels", "ops", "views", "launches", "occupancy", "roofline"),
    "Idle": ("gaps", "findings"),
    "Where": ("modules", "layers", "source", "compiles", "memory"),
    "Trace": ("summary", "steps", "serving", "requests", "health", "counters", "range"),
}
"""The panes of the screen by the question that they answer; the number of a group, from 1, is its key."""

WHOLE_TRACE = (("health", None), ("health", "offender"), ("steps", "source"))
"""Panes and groupings whose rows are those of the whole trace, also where a part of it is asked for."""


class BuiltPane(Pane):
    """A declared pane that builds its table, with the marks of health, for which a declaration stands too low."""

    def build(self, trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
        """The table of a trace, of the step with a number, or of a range of time, cached with the trace.

        Raises: UsageError for a step that does not exist or an unknown grouping, AnalysisFailed for a defect.
        """
        # These load numpy, which `--help` must not wait for.
        from tracetui.linking.placement import chosen
        from tracetui.model.results import guarded, keep_guarded

        if by is not None and by not in self.groups:
            if not self.groups:
                raise UsageError(f"The pane {self.name} cannot be grouped.")
            offer = nearest(by, self.groups, f"There are {', '.join(self.groups)}.")
            raise UsageError(f"The pane {self.name} cannot be grouped by {by!r}. {offer}")
        with guarded(f"The pane {self.name}"):
            chosen(trace, step)
        return keep_guarded(
            trace, ("pane", self.name, step, by), f"The pane {self.name}", lambda: self._marked(trace, step, by)
        )

    def asked_part(self, trace: Trace, step: object = None, range: object = None) -> Part | None:
        """The step or the range of time that is asked for, None for the whole trace; of an overview the median step.

        Raises: UsageError for a step that is no number, for a range that is none or outside the trace, and for both.
        """
        # These load numpy, which `--help` must not wait for.
        from tracetui.idle.scope_times import median_step
        from tracetui.model.intervals import read_time_range
        from tracetui.model.quantities import duration

        if step is not None and range is not None:
            raise UsageError("A step and a range are two parts of a trace: leave one out.")
        if range is not None:
            if not isinstance(range, str):
                raise UsageError(f"A range of time is a text such as '12.5us+250us', not {range!r}.")
            part = read_time_range(range)
            if part.end <= trace.window[0] or part.start >= trace.window[1]:
                lasts = duration(trace.window[1] - trace.window[0])
                raise UsageError(
                    f"The range {part.text} is outside the trace, which lasts {lasts} from its start at 0."
                )
            return part
        if step is None:
            # As on the screen.
            return median_step(trace) if self.name == "overview" else None
        if isinstance(step, bool) or not isinstance(step, SupportsIndex):
            raise UsageError(
                f"A step is asked for by its number, as the column step of `steps` has it, not by {step!r}."
            )
        return index(step)

    def _marked(self, trace: Trace, step: Part | None, by: str | None) -> Table:
        from tracetui.health.health_table import marked, marked_shares

        table = marked(trace, self.name, marked_shares(self.table(trace, step, by)))
        if trace.quality.not_shown and (not trace.is_torch or self.name == "summary"):
            from tracetui.health.summary import not_shown

            table = replace(table, headline=f"{not_shown(trace)} {table.headline}".strip())
        # What is listed without a grouping is there: the table itself says why not by this one.
        is_foreign = len(table) == 0 and not trace.is_torch
        if is_foreign and (by is None or len(self.build(trace, step)) == 0):
            # Its analyses are not needed for a trace of torch.
            from tracetui.linking.links import NOT_TORCH, not_torch

            why = not_torch(trace)
            what = f"{why.partition(':')[0]}: nothing to list under {self.name}." if why is NOT_TORCH else why
            return replace(table, note=what)
        return table


class _Panes(UserDict[str, BuiltPane]):
    """Panes by name, each of which is imported when it is first asked for."""

    def __missing__(self, name: str) -> BuiltPane:
        if name not in PANE_FILES:
            raise KeyError(name)
        self[name] = BuiltPane(**vars(import_module(f"tracetui.{PANE_FILES[name]}").PANE))
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in PANE_FILES

    def __iter__(self) -> Iterator[str]:
        return iter(PANE_FILES)

    def __len__(self) -> int:
        return len(PANE_FILES)


PANES = _Panes()
"""All panes by name, in the order of `PANE_FILES`."""


def pane_named(name: str) -> BuiltPane:
    """The pane with a name.

    Raises: UsageError when there is none.
    """
    if name not in PANES:
        raise UsageError(f"There is no pane {name!r}. {nearest(name, PANES)}")
    return PANES[name]


# Names of columns as the sources have them, for completion and settings: importing a pane loads numpy.

_DECLARATION = re.compile(r'^([A-Z]\w*) = (?:ColumnSpec\(\s*"(\w+)"|replace\(\s*(\w+))', re.MULTILINE)


@cache
def declared_columns() -> dict[str, str]:
    """The name of every column by the constant that declares it; empty where only compiled files are installed."""
    names: dict[str, str] = {}
    for constant, name, base in _DECLARATION.findall(_source("model.columns")):
        names[constant] = name or names.get(base, "")
    return names


def columns_of(file: str) -> list[str]:
    """The columns that the file of a table, as in `PANE_FILES`, names; a few may be made elsewhere."""
    constants, found = declared_columns(), list[str]()
    known = set(constants.values())
    for node in ast.walk(ast.parse(_source(file))):
        match node:
            case ast.keyword(arg="columns" | "details", value=ast.Constant(value=str(names))):
                found += names.split()
            case ast.Tuple(elts=parts):
                texts = [str(each.value) for each in parts if isinstance(each, ast.Constant)]
                # Other words stand in tuples too, and names of enumerations are like those of columns.
                found += texts if known.issuperset(texts) else ()
            case ast.Attribute(value=ast.Name("col"), attr=name) | ast.Name(id=name) if name in constants:
                found.append(constants[name])
    return list(dict.fromkeys(found))


def _source(module: str) -> str:
    path = Path(__file__).parent.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path.read_text("utf-8") if path.is_file() else ""
