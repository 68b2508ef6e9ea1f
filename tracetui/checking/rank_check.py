"""Checks of a set of ranks: its tables as lists, and a few counts."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.checking.evaluate import Evaluator
from tracetui.checking.namespace import ListedName, Namespace, UnknownName, names_table, plain
from tracetui.checking.report import Assertion, CheckOutcome, CheckReport, Status, checked
from tracetui.checking.values import THINGS, Rows, Value, nearest, number
from tracetui.model.table import Table
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_tables import TABLES
from tracetui.ranks.sentences import headline, remarks, title

COUNTS = {
    "missing": "Ranks that are not here.",
    "left_out": "Files that were left out, or of which only a part could be read.",
    "late": "Ranks that stand out as late, with those of a late host.",
}
"""Counts of a set, as `ranks.missing`, or by the name alone."""


class RankNames(Namespace):
    """The names of a set of ranks."""

    lists = tuple(TABLES)
    names = ["world_size", *COUNTS]

    def __init__(self, ranks: RankSet) -> None:
        super().__init__()
        self.ranks = ranks

    def bare(self, name: str) -> Value:
        """A count, or the number of ranks that the run had.

        Raises: UnknownName for any other name.
        """
        if name not in self.names:
            raise UnknownName(nearest(name, [*self.names, *self.lists]))
        return number(self._count(name), THINGS)

    def _count(self, name: str) -> int:
        """One count alone: what rests on a failed analysis costs no other."""
        if name == "world_size":
            return self.ranks.run.world_size
        if name == "missing":
            return len(self.ranks.run.missing)
        if name == "left_out":
            return len(self.ranks.left_out)
        host = self.ranks.late_host
        return len({each.index for each in self.ranks.late} | (set() if host is None else set(host.ranks)))

    def count_of(self, listed: str, name: str) -> Value | None:
        """A count behind `ranks`, as in `ranks.missing`."""
        return self.bare(name) if listed == "ranks" and name in COUNTS else None

    def make_rows(self, name: str) -> Rows:
        """A table as a list."""
        return Rows(name, TABLES[name](self.ranks))


def rank_report(ranks: RankSet, assertions: Sequence[Assertion]) -> CheckReport:
    """Check assertions about a set of ranks; a file that is cut off fails, as it does alone.

    Raises: ExpressionError for names that do not exist.
    """
    outcomes = checked(assertions, Evaluator(RankNames(ranks)))
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
    sentences = (title(ranks), headline(ranks), *remarks(ranks))
    name = ranks.folder or "ranks"
    return CheckReport(None, None, (*outcomes, *lost), (), sentences, name=name, failures=ranks.failures.sentences)


def rank_names(ranks: RankSet) -> Table:
    """One row per name that can be asked of a set, with value, unit and help."""
    known = RankNames(ranks)
    listed = [ListedName("value", "world_size", "Ranks that the run had.", "", plain(known.bare("world_size")))]
    listed += [ListedName("value", f"ranks.{name}", help, "", plain(known.bare(name))) for name, help in COUNTS.items()]
    for name in known.lists:
        table = known.rows(name).table
        listed.append(ListedName("list", f"count({name})", f"Rows of {name}.", "", float(len(table))))
        listed += [ListedName("list", f"{name}.{each.name}", each.help, each.unit) for each in table.columns]
    return names_table(listed)
