"""Reads a set of ranks in a thread, and reports to its screen what has come; it can be stopped at any time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

from textual.message import Message
from textual.widget import Widget

from tracetui.errors import TracetuiError
from tracetui.model.results import guarded
from tracetui.model.table import Table
from tracetui.model.viewpoint import Viewpoint
from tracetui.opening.rank_folder import RankSetName, open_rank_set

if TYPE_CHECKING:
    from tracetui.opening.rank_reading import Outcome, SummaryWork
    from tracetui.ranks.moments import LateMoment
    from tracetui.ranks.rank_runs import RankRun
    from tracetui.ranks.rank_set import RankSet
    from tracetui.ranks.rank_summary import RankSummary


# Messages from the screens of a set of ranks to the app; they import nothing that opening a trace could wait for.


@dataclass
class SetFailed(Message):
    """There is no set of ranks to show."""

    error: TracetuiError


@dataclass
class MomentAsked(Message):
    """The user wants to see a late rank beside another one, at a collective."""

    ranks: RankSet
    moment: LateMoment


@dataclass
class RankTraceAsked(Message):
    """The user wants the trace of one rank at a moment, with the set below it."""

    path: str
    viewpoint: Viewpoint


@dataclass
class RankLanesAsked(Message):
    """The user wants the lanes of some ranks on one axis."""

    ranks: RankSet
    members: tuple[int, ...]
    """Indices of the ranks, in the order of their lanes."""
    window: tuple[int, int]
    """The stretch to show first, in ns on the one clock."""


PROGRESS_SECONDS = 0.2
"""Seconds between two reports of what has come, at least."""


class RankReader:
    """One reading of a set."""

    @dataclass
    class Came(Message):
        """More files are done."""

        done: int
        total: int

        def can_replace(self, message: Message) -> bool:
            """Only the newest counts."""
            return isinstance(message, RankReader.Came)

    @dataclass
    class Read(Message):
        """All files are read, or those that the user waited for."""

        ranks: RankSet
        spending: str
        """What the ranks do in the time that all recorded, in a sentence."""

    @dataclass
    class Made(Message):
        """One of the tables is there."""

        ranks: RankSet
        name: str
        table: Table | str
        """Or the sentence that says why there is none."""

    def __init__(self, owner: Widget, name: RankSetName, work: SummaryWork | None = None) -> None:
        """`owner` runs the thread and gets the messages."""
        # What reads ranks, with Python's processes, is for folders of them alone.
        from tracetui.opening.rank_reading import SummaryWork

        self._owner, self._name = owner, name
        self.stopping = Event()
        """Set to read no more files, and to show what has come."""
        self._work = (work or SummaryWork())._replace(came=self._take, stopped=self.stopping.is_set)
        self._reported = 0.0
        self.run: RankRun | None = None
        """The run whose files are read, None before that is known."""
        self.summaries: dict[str, RankSummary] = {}
        """Summaries that have been read so far, by path."""

    def start(self) -> None:
        """Begin to read."""
        self._owner.run_worker(self._read, thread=True, group="ranks", exclusive=True, description="ranks")

    def _take(self, path: str, outcome: Outcome) -> None:
        from tracetui.ranks.rank_summary import RankSummary

        if isinstance(outcome, RankSummary):
            self.summaries[path] = outcome

    def _report(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._reported >= PROGRESS_SECONDS or done == total:
            self._reported = now
            self._owner.post_message(self.Came(done, total))

    def _pick(self, run: RankRun) -> None:
        self.run = run

    def _read(self) -> None:
        from tracetui.ranks.rank_tables import TABLES
        from tracetui.ranks.sentences import spending

        name = self._name
        try:
            with guarded("The set of ranks"):
                ranks = open_rank_set(name.paths, name.options, self._report, self._work, self._pick)
        except TracetuiError as error:
            self._owner.post_message(SetFailed(error))
            return
        first = self._made(ranks, "ranks")
        self._owner.post_message(self.Read(ranks, spending(ranks)))
        self._owner.post_message(first)
        for each in TABLES:
            if each != "ranks":
                self._owner.post_message(self._made(ranks, each))

    def _made(self, ranks: RankSet, name: str) -> Made:
        from tracetui.ranks.rank_tables import TABLES

        try:
            return self.Made(ranks, name, TABLES[name](ranks))
        except TracetuiError as error:
            return self.Made(ranks, name, str(error))
