"""The list of traces: those of a folder, or those that were given."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.binding import BindingType
from textual.message import Message

from tracetui.files import is_url
from tracetui.model.quantities import count, rounded_percent, size
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.opening.cache_folder import DIGESTS, cache_path
from tracetui.opening.rank_folder import SUFFIXES, RankOptions, RankSetName, is_rank_set, says_ranks, sniffed_runs
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.exports import home_path
from tracetui.ui.base.keys import command
from tracetui.ui.opening.trace_files import (
    WATCH_SECONDS,
    FactsCache,
    FolderWatch,
    TraceFacts,
    TraceFile,
    candidates,
    is_cheap,
    read_facts,
    trace_file,
    traces_among,
)
from tracetui.ui.widgets.picker import Picker
from tracetui.ui.widgets.table_view import TableView

_MARK = ColumnSpec("mark", "", width=1)
_TRACE = ColumnSpec("trace", "trace", width=24, grow=2)
_VERDICT = ColumnSpec("verdict", "verdict", width=31)
_STEP_TIMES = ColumnSpec("step_times", "step time, runs before", width=26)
_BUSY = ColumnSpec("busy", "busy", is_number_text=True)
_CHANGED = ColumnSpec("changed", "changed", width=12)
_GPU = ColumnSpec("gpu", "GPU", width=16)
_KERNELS = ColumnSpec("kernels", "kernels", is_number_text=True)
_STEPS = ColumnSpec("steps", "steps", is_number_text=True)
_SIZE = ColumnSpec("size", "size", is_number_text=True)
SORTED_COLUMNS = ("changed", "trace", "verdict", "busy", "gpu", "kernels", "steps", "size")
"""The columns that the list can be sorted by, in the order in which a key goes through them."""
_NUMBERS = ("changed", "steps", "kernels", "busy", "size")


MAX_SNIFFED_FILES = 4096
"""Maximum files whose heads are looked at for a rank."""
MAX_LISTED_SETS = 8
"""Maximum runs with several ranks that are listed."""

TraceChoice = str | list[str] | tuple[str, ...] | RankSetName | None
"""A trace, a list of two to compare or of more to list, a tuple of several to compare with the first, or ranks."""


class TracePicker(Picker["str | list[str] | tuple[str, ...] | RankSetName"]):
    """Traces to open, newest first: those given on the command line, or those found in a folder.

    Above them stand runs of which there are several ranks. Dismissed with the path of one, with a list of two that are
    to be compared, with a tuple of more that are marked, or with a set of ranks.
    """

    TITLE_TEXT = "Which trace?"
    PANE = "traces"
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.SPACE, "mark", "Mark the trace", "As A, B, C ...: A is compared with the others.", "mark"),
        command(
            keys.COMPARE, "compare", "Compare", "A with the current one; three and more that are marked.", "compare"
        ),
        command(keys.RECORD, "record", "Record a new trace", "Of a workload, on this machine.", "record"),
        command(
            keys.PAN_LEFT, "attach", "Attach to a job that runs", "Takes a trace of a process that runs.", "attach"
        ),
        command(keys.SORT, "sort", "Sort by the next column", "Numbers from the largest, the newest first.", "sort"),
        command(keys.REVERSE, "reverse", "Reverse the sort order"),
    ]

    @dataclass
    class Listed(Message):
        """The folders have been looked through."""

        files: list[TraceFile]
        remark: str
        """A sentence about what was not looked at, empty for nothing."""

    @dataclass
    class Changed(Message):
        """Traces have appeared in the folders, or gone."""

        files: list[TraceFile]
        gone: list[Path]

    @dataclass
    class StepTimesKnown(Message):
        """Digests of some traces are kept."""

        lines: dict[str, str]
        """The step times up to each trace, by path."""

    @dataclass
    class RanksFound(Message):
        """The folders hold runs with several ranks."""

        sets: list[tuple[RankSetName, str]]
        """Sets with their titles."""
        is_all: bool
        """True where the folder is there for them."""

    def __init__(
        self,
        paths: Sequence[str],
        trouble: str = "",
        title: str = "",
        opens_ranks: bool = False,
        offers_ranks: bool = True,
    ) -> None:
        """`opens_ranks` opens a set of ranks at once, where the folder is there for it.

        Without `offers_ranks` none is listed.
        """
        super().__init__()
        self._opens_ranks, self._offers_ranks = opens_ranks, offers_ranks
        self._sets: list[tuple[RankSetName, str]] = []
        """Runs with several ranks, with what they are called."""
        self._listed_sets = 0
        self.paths = paths
        """Files and folders."""
        self._files: list[TraceFile] = []
        self._facts: dict[str, TraceFacts] = {}
        self._step_times: dict[str, str] = {}
        self._sort, self._is_descending = "changed", True
        self._note = ""
        self.TITLE_TEXT = title or self.TITLE_TEXT
        # Of the last one that was picked.
        self.remark = trouble
        self._watch = FolderWatch(paths)
        self._is_watching = False

    def on_mount(self) -> None:
        """Look through the folders in a thread."""
        self.query_one(TableView).show(self.PANE, None, np.empty(0, np.int64), note="Looking for traces …")
        self.look()
        self.set_interval(WATCH_SECONDS, self._look_again)

    @property
    def marked(self) -> list[str]:
        """The paths that are marked, A first; they stay marked until the app ends."""
        marked = getattr(self.app, "marked_traces", None)
        return marked if isinstance(marked, list) else []

    def action_mark(self) -> None:
        """Mark the current trace, or unmark it."""
        row = self.query_one(TableView).row
        if row < 0:
            return
        if isinstance(self.choices[row], RankSetName):
            self.show_title(f"A set of ranks is opened with {keys.ENTER}; its ranks are compared there.")
            return
        path, marked = str(self.choices[row]), self.marked
        if path in marked:
            marked.remove(path)
        elif len(marked) < len(ascii_uppercase):
            marked.append(path)
        self._show_marks()
        self._show_rows()

    def action_compare(self) -> None:
        """Compare A, the first that was marked, with the current trace; on A itself with the second.

        Of more than two that are marked all are compared with A, in one table.
        """
        row = self.query_one(TableView).row
        if row >= 0 and isinstance(self.choices[row], RankSetName):
            row = -1
        marked = self.marked
        if len(marked) > 2:
            self.dismiss(tuple(marked))
            return
        others = marked[1:2] if row >= 0 and marked[:1] == [str(self.choices[row])] else []
        other = others or ([str(self.choices[row])] if row >= 0 and str(self.choices[row]) not in marked[:1] else [])
        if not marked or not other:
            self.show_title(f"Mark one trace with {keys.SPACE}, then press {keys.COMPARE} on another one.")
        else:
            self.dismiss([marked[0], other[0]])

    def action_sort(self) -> None:
        """Sort by the next column."""
        names = SORTED_COLUMNS
        self._sort = names[(names.index(self._sort) + 1) % len(names)]
        self._is_descending = self._sort in _NUMBERS
        self._show_rows()

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._is_descending = not self._is_descending
        self._show_rows()

    @on(TableView.HeaderClicked)
    def _sort_by_title(self, message: TableView.HeaderClicked) -> None:
        if message.name == self._sort:
            self.action_reverse()
        elif message.name in SORTED_COLUMNS:
            self._sort, self._is_descending = message.name, message.name in _NUMBERS
            self._show_rows()

    def _show_marks(self) -> None:
        named = [
            f"{letter}: {home_path(Path(path))}" for letter, path in zip(ascii_uppercase, self.marked, strict=False)
        ]
        how = {1: "compares it with another one", 2: "compares A with the row under the cursor"}.get(
            len(named), "compares them all with A"
        )
        self.show_title(f"{', '.join(named)}   {keys.COMPARE} {how}" if named else "")

    def action_record(self) -> None:
        """Choose a workload, and take the trace of it."""
        # Workloads are needed only once one is to be recorded.
        from tracetui.ui.recording.recording_form import WorkloadPicker

        self.app.push_screen(WorkloadPicker(), self._recorded)

    def action_attach(self) -> None:
        """Choose processes that run, and take the trace of them."""
        # Sockets are needed only once somebody attaches.
        from tracetui.ui.recording.attach_form import AttachPicker

        self.app.push_screen(AttachPicker(), self._recorded)

    def _recorded(self, recorded: str | list[str] | tuple[str, ...] | None) -> None:
        if recorded is not None:
            self.dismiss(recorded)

    def _look_again(self) -> None:
        if self._is_watching and self.is_active:
            self._is_watching = False
            self.watch_folders()

    @work(thread=True)
    def watch_folders(self) -> None:
        """List what has appeared since the last look."""
        change = self._watch.changes()
        if change.appeared or change.gone:
            files = [file for path in change.appeared if (file := trace_file(path)) is not None]
            self.post_message(self.Changed(files, change.gone))
        self._is_watching = True

    @work(thread=True, exclusive=True)
    def look(self) -> None:
        """Find the traces."""
        if self._opens_ranks and self._look_for_ranks():
            return
        self._watch.begin()
        files: list[TraceFile] = []
        remark = ""
        for path in map(Path, self.paths):
            if not path.is_dir():
                files += [file for file in [trace_file(path)] if file is not None]
                continue
            search = candidates(path)
            files += traces_among(search.paths)
            if not search.is_whole:
                remark = (
                    f"{home_path(path)} was searched up to {search.entries:,} files and folders: name a folder below it"
                )
        self.post_message(self.Listed(sorted(files, key=lambda file: -file.modified), remark))
        self._is_watching = True
        if self._offers_ranks and not self._opens_ranks:
            self._look_for_ranks()

    @on(Changed)
    def _take_changes(self, message: Changed) -> None:
        """List the files that are there now, the cursor on the one where it was."""
        view = self.query_one(TableView)
        chosen = str(self.choices[view.row]) if 0 <= view.row < len(self.choices) else ""
        replaced = {*message.gone, *(file.path for file in message.files)}
        self._files = [*message.files, *(file for file in self._files if file.path not in replaced)]
        self._files.sort(key=lambda file: -file.modified)
        self.choices = [*(name for name, _ in self._sets), *(str(file.path) for file in self._files)]
        for path in replaced:
            self._facts.pop(str(path), None)
        self._show_rows()
        rows = [str(choice) for choice in self.choices]
        if chosen in rows:
            (index,) = np.flatnonzero(view.order == rows.index(chosen))
            view.put_cursor(int(index))
        if message.files and not self.marked:
            self.show_title(f"new: {', '.join(file.path.name for file in message.files)}")
        self.read_facts(FactsCache())

    def _look_for_ranks(self) -> bool:
        """Find the runs with several ranks; whether the folder is there for them, and they are opened."""
        paths: list[str] = []
        for path in map(Path, self.paths):
            paths += map(str, candidates(path).paths) if path.is_dir() else [str(path)]
        others = [path for path in paths if not path.endswith(SUFFIXES)]
        paths = sorted(path for path in paths if path.endswith(SUFFIXES))[:MAX_SNIFFED_FILES]
        if len(paths) < 2:
            return self._has_rank_logs(others[:MAX_SNIFFED_FILES]) if not paths else False
        runs = sniffed_runs(paths)
        sets = [
            (RankSetName(tuple(self.paths), RankOptions(run=number)), run.title)
            for number, run in enumerate(runs.runs[:MAX_LISTED_SETS], 1)
            if says_ranks(run)
        ]
        is_all = self._opens_ranks and is_rank_set(runs)
        if sets:
            self.post_message(self.RanksFound(sets, is_all))
        return is_all

    def _has_rank_logs(self, paths: list[str]) -> bool:
        """Find several logs of torch.compile that name ranks; whether they are opened as a set."""
        # Few folders hold logs.
        from tracetui.opening.capture_files import is_log, rank_in

        logs = [log for log in map(Path, paths) if is_log(log)]
        ranks = [log for log in logs if rank_in(log.name) is not None]
        if len(ranks) < 2:
            return False
        is_all = self._opens_ranks and len(ranks) == len(logs)
        self.post_message(self.RanksFound([(RankSetName(tuple(self.paths)), "logs of torch.compile")], is_all))
        return is_all

    @on(RanksFound)
    def _list_ranks(self, message: RanksFound) -> None:
        """Open the ranks, or list them above the files."""
        if message.is_all and self.is_active:
            self.dismiss(message.sets[0][0])
            return
        self._sets = message.sets
        self.choices = [*(name for name, _ in self._sets), *(str(file.path) for file in self._files)]
        if self._files:
            self._show_rows()

    @on(Listed)
    def _list(self, message: Listed) -> None:
        where = ", ".join(path if is_url(path) else home_path(Path(path).absolute()) for path in self.paths[:3])
        note = (
            f"There is no trace in {where} or below. A trace is a .json or .pftrace file, plain or packed (.gz, .zst). "
            "Press r to record one."
        )
        if all(map(is_url, self.paths)):
            note = f"Only traces of this machine are listed, and {where} is a URL."
        self._files, self._note = message.files, note
        self.choices = [*(name for name, _ in self._sets), *(str(file.path) for file in message.files)]
        cache = FactsCache()
        self._facts = {str(file.path): facts for file in self._files if (facts := cache.get(file)) is not None}
        self._show_rows()
        if self.marked:
            self._show_marks()
        elif message.remark:
            self.show_title(message.remark)
        if self._files:
            self.read_step_times([str(file.path) for file in self._files])
        self.read_facts(cache)

    @work(thread=True, exclusive=True, group="step times")
    def read_step_times(self, paths: Sequence[str]) -> None:
        """Look the step times of traces up in the digests that `tracetui history` keeps; no trace is read."""
        if not cache_path(DIGESTS).is_dir():
            return
        # What compares traces takes long to import, and is needed only where something is kept.
        from tracetui.drawing.text.history_text import step_time_lines
        from tracetui.history.series import kept_history

        lines = step_time_lines(kept_history(paths, os.path.commonpath(map(os.path.abspath, paths))))
        if lines:
            self.post_message(self.StepTimesKnown(lines))

    @on(StepTimesKnown)
    def _show_step_times(self, message: StepTimesKnown) -> None:
        self._step_times = message.lines
        self._show_rows()

    @work(exclusive=True, group="facts")
    async def read_facts(self, cache: FactsCache) -> None:
        """Read what is not known yet, the newest first; the list is answered meanwhile."""
        for file in self._files:
            if str(file.path) in self._facts or not is_cheap(file):
                continue
            try:
                facts = await read_facts(file.path)
            except OSError:
                return
            cache.put(file, facts)
            self._facts[str(file.path)] = facts
            self._show_rows()

    def _show_rows(self) -> None:
        """List what is known, the cursor on the trace where it was."""
        view = self.query_one(TableView)
        sets = len(self._sets)
        # The sets may have been found since the rows were listed.
        row = view.row + sets - self._listed_sets if view.table is not None and view.row >= 0 else -1
        self._listed_sets = sets
        titles = [title for _, title in self._sets]
        table = files_table(self._files, self._facts, self.marked, titles, self._step_times)
        order = list(range(sets))
        order += [sets + each for each in sorted_rows(self._files, self._facts, self._sort, self._is_descending)]
        cursor = order.index(row) if row in order else 0
        view.show(
            self.PANE, table, np.array(order, np.int64), cursor, (self._sort, self._is_descending), note=self._note
        )


def files_table(
    files: Sequence[TraceFile],
    facts: Mapping[str, TraceFacts],
    marked: Sequence[str],
    sets: Sequence[str] = (),
    step_times: Mapping[str, str] | None = None,
) -> Table:
    """The facts of each trace that are known, with its size and age; before them the `sets` of ranks."""
    now = time.time()
    known = [facts.get(str(file.path), TraceFacts()) for file in files]
    letters = dict(zip(marked, ascii_uppercase, strict=False))
    # What is not marked is blank beside what is.
    unmarked = "" if any(str(file.path) in letters for file in files) else None
    blank: list[str | None] = [None for _ in sets]
    lines = [(step_times or {}).get(str(file.path)) for file in files]
    return Table(
        (
            texts(_MARK, [*(unmarked for _ in sets), *(letters.get(str(file.path), unmarked) for file in files)]),
            texts(_TRACE, [clean(each) for each in (*sets, *names_of(files))]),
            texts(
                _VERDICT,
                [
                    *("ranks of one run" for _ in sets),
                    *(None if each.verdict is None else clean(each.verdict) for each in known),
                ],
            ),
            *([texts(_STEP_TIMES, [*blank, *lines])] if any(lines) else []),
            texts(
                _BUSY, [*blank, *(None if each.busy_pct is None else rounded_percent(each.busy_pct) for each in known)]
            ),
            texts(_CHANGED, [*blank, *(age(now - file.modified) for file in files)]),
            # The maker of the GPU says least of it.
            texts(
                _GPU,
                [*blank, *(None if each.gpu is None else clean(each.gpu).removeprefix("NVIDIA ") for each in known)],
            ),
            # None of a trace without a GPU: it holds nothing about kernels.
            texts(_KERNELS, [*blank, *(count(each.kernels) if each.kernels else None for each in known)]),
            texts(_STEPS, [*blank, *(None if each.steps is None else count(each.steps) for each in known)]),
            texts(_SIZE, [*blank, *(size(file.bytes) for file in files)]),
        )
    )


def names_of(files: Sequence[TraceFile]) -> list[str]:
    """The names of files below the folder that all of them are in; one alone by its whole path."""
    parents = {str(file.path.absolute().parent) for file in files}
    if len(files) < 2:
        return [home_path(file.path) for file in files]
    common = os.path.commonpath(parents)
    return [os.path.relpath(file.path.absolute(), common) for file in files]


def sorted_rows(
    files: Sequence[TraceFile], facts: Mapping[str, TraceFacts], name: str, is_descending: bool
) -> list[int]:
    """The indices of files in the order of a column; what is not known comes last."""

    def value(file: TraceFile) -> float | str | None:
        known = facts.get(str(file.path), TraceFacts())
        values: dict[str, float | str | None] = {
            "changed": file.modified,
            "size": file.bytes,
            "trace": home_path(file.path).casefold(),
            "gpu": known.gpu,
            "steps": known.steps,
            "kernels": known.kernels,
            "busy": known.busy_pct,
            "verdict": known.verdict,
        }
        return values[name]

    values = [value(file) for file in files]
    rows = [row for row, each in enumerate(values) if each is not None]
    rows.sort(key=lambda row: values[row] or 0 if name in _NUMBERS else str(values[row]), reverse=is_descending)
    return rows + [row for row, each in enumerate(values) if each is None]


def age(seconds: float) -> str:
    """For example `5 min ago`."""
    for limit, scale, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{max(seconds, 0) / scale:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} days ago"
