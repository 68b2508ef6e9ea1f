"""The rows of a list on which an answer rests: which kernel is the longest, which step is too slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracetui.analysis.kernel_names import short_kernel
from tracetui.model.intervals import Int64
from tracetui.model.table import Cell, Table

MOST = 3
"""So many rows are named; of the others it is told how many they are."""


@dataclass(frozen=True)
class Offender:
    """One row, in words by which it is found again."""

    list: str
    """The list that it is in."""
    name: str = ""
    """What it is: a kernel's short name, an operator; empty for a step."""
    step: int | None = None

    @property
    def text(self) -> str:
        """`step 3`, `sgemm 128x64 in step 3`, `host-sync`."""
        if self.step is None:
            return self.name or f"a row of {self.list}"
        return f"{self.name} in step {self.step}" if self.name else f"step {self.step}"


@dataclass(frozen=True)
class Offenders:
    """Rows in the order of their list, of which the first few are named."""

    first: tuple[Offender, ...] = ()
    total: int = 0
    holds: bool = True
    """Whether they are what was found; False for those that lack what was looked for."""
    only_above: bool = False
    """Whether they are to blame only where what was found is too much: rows that were counted."""

    @property
    def text(self) -> str:
        """`step 3, step 5`, `not step 3`; empty for no rows."""
        if not self.first:
            return ""
        more = f" and {self.total - len(self.first):,} more" if self.total > len(self.first) else ""
        return ("" if self.holds else "not ") + ", ".join(each.text for each in self.first) + more

    def counted(self) -> Offenders:
        """The same rows, where it is told how many they are."""
        return replace(self, only_above=True)


NOBODY = Offenders()


def of_rows(name: str, table: Table | None, places: Int64, holds: bool = True) -> Offenders:
    """Some rows of the table of a list."""
    if table is None:
        return NOBODY
    return Offenders(tuple(_row(name, table, place) for place in places[:MOST].tolist()), len(places), holds)


def of_names(name: str, texts: Sequence[str]) -> Offenders:
    """Rows of which no more than the names are known."""
    return Offenders(tuple(Offender(name, text) for text in texts[:MOST]), len(texts))


def first_of(values: Sequence[Offenders]) -> Offenders:
    """Those of the first value that has any."""
    return next((each for each in values if each.first), NOBODY)


def _row(name: str, table: Table, place: int) -> Offender:
    def cell(column: str) -> Cell:
        return table[column].cell(place) if column in table else None

    step = None if name in _WITHOUT_STEP else cell("step")
    told = _NAMES.get(name, _plain("name"))(cell)
    return Offender(name, told, int(step) if isinstance(step, int | float | np.integer) else None)


Cells = Callable[[str], Cell]


def _plain(column: str, before: str = "") -> Callable[[Cells], str]:
    return lambda cell: "" if cell(column) is None else f"{before}{cell(column)}"


def _short(column: str, before: str = "") -> Callable[[Cells], str]:
    return lambda cell: "" if cell(column) is None else f"{before}{short_kernel(str(cell(column)))}"


def _with_op(column: str) -> Callable[[Cells], str]:
    return lambda cell: f"{cell(column) or 'a row'}{_plain('op', ' of ')(cell)}"


_NAMES: dict[str, Callable[[Cells], str]] = {
    "steps": lambda _: "",
    "runs": _plain("run", "run "),
    "kernels": _plain("short_name"),
    "copies": _plain("short_name"),
    "launches": _with_op("api"),
    "gaps": _short("after", "before "),
    "occupancy": _short("kernel", "for "),
    "memory": _with_op("event"),
    "roofline": _plain("op"),
    "findings": _plain("id"),
    "health": _plain("check"),
}
"""How a row of each list is called; of the others by its name."""
_WITHOUT_STEP = ("findings", "health", "roofline", "ops", "runs")
"""Lists whose rows belong to no one step; a finding names one as an example."""
