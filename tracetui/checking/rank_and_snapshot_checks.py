"""Checks of a set of ranks: its tables as lists, and a few counts. Checks of a memory snapshot: its peaks and what is
free as values, its panes as lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from tracetui.checking.evaluate import Evaluator
from tracetui.checking.namespace import ListedName, Namespace, UnknownName, names_table, plain
from tracetui.checking.report import Assertion, CheckOutcome, CheckReport, Status, checked
from tracetui.checking.values import BYTES, THINGS, Rows, Unit, Value, nearest, number
from tracetui.model.table import Table
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_tables import TABLES
from tracetui.ranks.sentences import headline, remarks, title
from tracetui.snapshots.history import DeviceHistory, segment_map
from tracetui.snapshots.snapshot_tables import PANES, pane_table, summary_words

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


VALUES: dict[str, tuple[str, Unit, Callable[[DeviceHistory], int]]] = {
    "peak_bytes": ("Most bytes that were active at once.", BYTES, lambda history: int(history.active[history.peak])),
    "final_bytes": ("Bytes that are active at the end.", BYTES, lambda history: int(history.active[-1])),
    "reserved_bytes": ("Bytes that are reserved at the end.", BYTES, lambda history: int(history.reserved[-1])),
    "peak_reserved_bytes": ("Most bytes reserved at once.", BYTES, lambda history: int(history.reserved.max())),
    "before_history_bytes": (
        "Bytes that were active before the first event.",
        BYTES,
        lambda history: int(history.active[0]),
    ),
    "unfreed_bytes": (
        "Bytes that the history allocates and does not free.",
        BYTES,
        lambda history: int(np.sum(pane_table(history, "unfreed")["bytes"].values)),
    ),
    "free_bytes": (
        "Bytes that are free in segments at the end.",
        BYTES,
        lambda history: int(segment_map(history, history.count).gap_size.sum()),
    ),
    "largest_free_bytes": (
        "The largest free piece of a segment at the end.",
        BYTES,
        lambda history: int(segment_map(history, history.count).gap_size.max(initial=0)),
    ),
    "pending_bytes": (
        "Bytes that were requested to be freed and are not, at the end.",
        BYTES,
        lambda history: int(history.pending[-1]),
    ),
    "ooms": ("Allocations that failed.", THINGS, lambda history: len(history.ooms)),
    "events": ("Events of the history.", THINGS, lambda history: history.count),
}
"""Names, each with its help, its unit, and how it is worked out."""


class SnapshotNames(Namespace):
    """The names of one device of a snapshot."""

    lists = tuple(PANES)
    names = list(VALUES)

    def __init__(self, history: DeviceHistory) -> None:
        super().__init__()
        self._history = history

    def bare(self, name: str) -> Value:
        """A value.

        Raises: UnknownName for any other name.
        """
        if name not in VALUES:
            raise UnknownName(nearest(name, [*self.names, *self.lists]))
        _, unit, value = VALUES[name]
        return number(value(self._history), unit)

    def make_rows(self, name: str) -> Rows:
        """A pane as a list."""
        return Rows(name, pane_table(self._history, name))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UnknownName("That is a name of a trace, and this is a memory snapshot.")

    summary = of_step = selected = findings = _refuse


def snapshot_report(history: DeviceHistory, assertions: Sequence[Assertion]) -> CheckReport:
    """Check assertions about a device of a snapshot.

    Raises: ExpressionError for names that do not exist.
    """
    outcomes = checked(assertions, Evaluator(SnapshotNames(history)))
    snapshot = history.snapshot
    return CheckReport(None, None, tuple(outcomes), (), (summary_words(snapshot),), name=snapshot.label)


def snapshot_names(history: DeviceHistory) -> Table:
    """One row per name that can be asked of a snapshot, with value, unit and help."""
    known = SnapshotNames(history)
    listed = [
        ListedName("value", name, help, unit.label, plain(known.bare(name))) for name, (help, unit, _) in VALUES.items()
    ]
    for name in known.lists:
        table = known.rows(name).table
        listed.append(ListedName("list", f"count({name})", f"Rows of {name}.", "", float(len(table))))
        listed += [ListedName("list", f"{name}.{each.name}", each.help, each.unit) for each in table.columns]
    return names_table(listed)
