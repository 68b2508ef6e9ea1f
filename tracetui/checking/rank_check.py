"""What the names of an expression stand for in a set of ranks: its tables as lists, and a few counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.checking.evaluate import Evaluator
from tracetui.checking.namespace import Namespace, Unknown
from tracetui.checking.report import Assertion, CheckOutcome, CheckReport, Status, checked
from tracetui.checking.values import THINGS, Listing, Number, Rows, Value, nearest, number
from tracetui.model import columns as col
from tracetui.model.table import Table, numbers, texts
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_tables import TABLES
from tracetui.ranks.sentences import headline, remarks, title

COUNTS = {
    "missing": "Ranks that are not here.",
    "left_out": "Files that were left out, or of which only a part could be read.",
    "late": "Ranks that stand out as late, with those of a late host.",
}
"""What is counted of a set, as `ranks.missing`, or by the name alone."""
ONE_TRACE = "That is a name of one trace, and this is a set of ranks. "


class RankNamespace(Namespace):
    """The names of a set of ranks."""

    def __init__(self, ranks: RankSet) -> None:
        self.ranks = ranks
        self.each = False
        self.title = "this set"
        self.used: dict[str, tuple[str, ...]] = {}
        self.selections: dict[tuple[str, str], None] = {}
        self._lists: dict[str, Listing] = {}

    @property
    def lists(self) -> Sequence[str]:
        """The tables."""
        return tuple(TABLES)

    @property
    def names(self) -> list[str]:
        """Every name that stands for one value."""
        return ["world_size", *COUNTS]

    def bare(self, name: str) -> Value:
        """A count, or the number of ranks that the run had.

        Raises: Unknown for any other name.
        """
        if name == "world_size":
            return number(self.ranks.run.world_size, THINGS)
        if name not in COUNTS:
            raise Unknown(nearest(name, [*self.names, *self.lists]))
        counts = {
            "missing": len(self.ranks.run.missing),
            "left_out": len(self.ranks.left_out),
            "late": len(late_indices(self.ranks)),
        }
        return number(counts[name], THINGS)

    def count_of(self, listed: str, name: str) -> Value | None:
        """A count behind `ranks`, as in `ranks.missing`."""
        return self.bare(name) if listed == "ranks" and name in COUNTS else None

    def summary(self, name: str) -> Value:
        """Raises: Unknown, for a set has no summary."""
        raise Unknown(ONE_TRACE)

    def listing(self, name: str) -> Listing:
        """A table as a list."""
        if name not in self._lists:
            table = TABLES[name](self.ranks)
            self._lists[name] = Listing(Rows(name, len(table), "", table), {each.name: each for each in table.columns})
        return self._lists[name]

    def column(self, of: Listing, name: str) -> Value:
        """A column of a list."""
        return of[name]

    def rows(self, name: str) -> Rows:
        """The rows of a list, for counting."""
        return self.listing(name).rows

    def of_step(self, step: int, name: str) -> Value:
        """Raises: Unknown, for a step of a set is a row of `steps`."""
        raise Unknown(f"Of a set of ranks it is steps(step={step}).step_us.max, say.")

    def selected(self, kind: str, pattern: str, field: str) -> Number:
        """Raises: Unknown, for a set keeps no kernels."""
        raise Unknown(f"{ONE_TRACE}Check the trace of a rank.")

    def findings(self, severity: str | None = None) -> Value:
        """Raises: Unknown, for findings are those of a trace."""
        raise Unknown(f"{ONE_TRACE}late is the number of ranks that stand out.")


class RankEvaluator(Evaluator):
    """Evaluates expressions in a set of ranks."""

    def __init__(self, ranks: RankSet) -> None:
        self._here = RankNamespace(ranks)
        self._there = None
        self._tolerance = None
        self._lists = {}


def late_indices(ranks: RankSet) -> set[int]:
    """The ranks that stand out, and those of a host that does."""
    host = ranks.late_host
    return {each.index for each in ranks.late} | (set() if host is None else set(host.ranks))


def rank_report(ranks: RankSet, assertions: Sequence[Assertion]) -> CheckReport:
    """Check assertions about a set of ranks; a file that is cut off fails, as it does alone.

    Raises: Mistake for names that do not exist.
    """
    outcomes = checked(assertions, RankEvaluator(ranks))
    cut = [each for each in ranks.summaries if each.loss]
    lost = [
        CheckOutcome(
            "the files are whole",
            Status.MISSING,
            (),
            f"{ranks.shown_path(each.header.path)} {each.loss}; its numbers cover only a part.",
        )
        for each in cut[:1]
    ]
    said = (title(ranks), headline(ranks), *remarks(ranks))
    name = ranks.folder or "ranks"
    return CheckReport(None, None, (*outcomes, *lost), (), said, name=name, failures=ranks.failures.sentences)


def rank_names(ranks: RankSet) -> Table:
    """One row per name that can be asked of a set, with value, unit and help."""
    known = RankNamespace(ranks)
    rows: list[tuple[str, str, str, str, float]] = [
        ("world_size", "Ranks that the run had.", "", "value", _one(known.bare("world_size"))),
        *((f"ranks.{name}", help, "", "value", _one(known.bare(name))) for name, help in COUNTS.items()),
    ]
    for name in known.lists:
        listed = known.listing(name)
        rows.append((f"count({name})", f"Rows of {name}.", "", "list", float(listed.rows.count)))
        rows += [
            (f"{name}.{each.name}", each.help, each.unit, "list", float("nan")) for each in listed.columns.values()
        ]
    return Table(
        (
            texts(col.NAME.but(help="How an expression writes it."), [row[0] for row in rows]),
            texts(col.VALUE, [None if np.isnan(row[4]) else f"{row[4]:g}" for row in rows]),
            texts(col.UNIT, [row[2] for row in rows]),
            texts(col.HELP, [row[1] for row in rows]),
            texts(col.SORT, [row[3] for row in rows]),
            numbers(col.NUMBER, [row[4] for row in rows]),
        )
    )


def _one(value: Value) -> float:
    return value.one if isinstance(value, Number) else float("nan")
