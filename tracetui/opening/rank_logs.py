"""Logs of torch.compile of the ranks of a run: named, or lying beside their traces; one log for each rank."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tracetui.errors import TraceError, UsageError
from tracetui.files import NO_FILE, is_url
from tracetui.model.quantities import counted
from tracetui.opening.cache_folder import SUMMARIES
from tracetui.opening.capture_files import is_log, logs_below, logs_in, own_log, rank_in
from tracetui.opening.rank_reading import SummaryKind, SummaryWork, read_summaries
from tracetui.ranks.compiling import LOG_VERSION, LogSummary, RankLog, summarise_compile_log
from tracetui.reading.load import load
from tracetui.reading.other_files import LOG

LOGS = SummaryKind(SUMMARIES, LOG_VERSION, LogSummary.from_bytes)
"""Summaries of logs, which are not kept in the cache."""
MAX_NAMED_NOTES = 3
"""Maximum logs that are not used, or only in part, of which each has a sentence."""
_RANK = re.compile(r"^torch\.compile, rank (\d{1,6})(?: |$)")


def summarise_log(path: str) -> bytes:
    """Read a log and return what is kept of it.

    Raises: TraceError, UsageError for a file that is no log.
    """
    log = load(path)
    if not log.format.startswith(LOG):
        raise UsageError(f"{path} is no log of torch.compile: TORCH_TRACE=FOLDER has torch write one.")
    numbers = {int(match[1]) for lane in log.lanes if (match := _RANK.search(lane.process))}
    return summarise_compile_log(log, numbers.pop() if len(numbers) == 1 else None).to_bytes()


def split_logs(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Some paths, apart from those among them that are logs; and these."""
    logs = [path for path in paths if not is_url(path) and os.path.isfile(path) and is_log(Path(path))]
    return [path for path in paths if path not in logs], logs


def rank_logs(
    named: str | None,
    logs: Sequence[str],
    folders: Iterable[str],
    traces: Mapping[str, tuple[int, int]],
    work: SummaryWork,
    allowed: Callable[[Path], bool] = lambda path: True,
) -> tuple[list[RankLog], list[str]]:
    """The log of each rank, and sentences about those that are not used.

    `named` is what the user says, `logs` stand among the traces, `folders` are looked at where nothing is named;
    `traces` have the rank of each file and the end of its time in ns, and one at least where there are traces at all.
    Of several logs of a rank the last counts that began before the end of its trace.
    Raises: UsageError, TraceError for what is named and cannot be used.
    """
    if named == NO_FILE:
        return [], []
    of_file = {}
    if named is None:
        places = [each for each in dict.fromkeys([*folders, os.environ.get("TORCH_TRACE", "")]) if each]
        of_file = {os.path.realpath(own): rank for path, (rank, _) in traces.items() if (own := own_log(path))}
        # Where there are no traces, logs are looked for as traces are.
        listed = logs_in if traces else logs_below
        candidates = [
            *logs,
            *of_file,
            *(str(log) for folder in places if not is_url(folder) for log in listed(Path(folder))),
        ]
    else:
        candidates = [*logs, *(map(str, logs_below(Path(named))) if os.path.isdir(named) else [named])]
        if not candidates:
            raise UsageError(f"{named} holds no log.")
    real = {os.path.realpath(path): path for path in reversed(candidates) if allowed(Path(path))}
    chosen = sorted(real.values())
    alone = SummaryWork(work.jobs, summarise_log, uses_cache=False, stopped=work.stopped)
    outcomes = read_summaries(chosen, LOGS, alone) if chosen else {}
    ends = dict(traces.values())
    of_rank: dict[int, list[tuple[str, LogSummary]]] = defaultdict(list)
    notes: list[str] = []
    for path in chosen:
        summary, name = outcomes.get(path), os.path.basename(path)
        if isinstance(summary, TraceError):
            if path == named:
                raise summary
            notes.append(f"{name} cannot be used: {summary}")
        elif summary is not None:
            rank = of_file.get(os.path.realpath(path), rank_in(name))
            rank = summary.rank if rank is None else rank
            if rank is None:
                notes.append(f"{name} is not used: neither its name nor its entries say which rank it is of.")
            elif not ends or rank in ends:
                of_rank[rank].append((path, summary))
                notes += [f"{name}: {note}" for note in summary.notes]
    more = len(notes) - MAX_NAMED_NOTES
    notes = [*notes[:MAX_NAMED_NOTES], *([f"So it is with {counted(more, 'other log')}."] if more > 0 else [])]
    several = sum(len(listed) > 1 for listed in of_rank.values())
    if several:
        notes.append(
            f"Of {counted(several, 'rank')} there are several logs: the last that began before its trace ended is used."
        )
    return [_last(rank, listed, ends.get(rank)) for rank, listed in sorted(of_rank.items())], notes


def _last(rank: int, listed: list[tuple[str, LogSummary]], end: int | None) -> RankLog:
    """The last of several logs of a rank; of those that began before a time in ns, where there is one."""

    def begin(each: tuple[str, LogSummary]) -> int:
        return min((one.spans[0][0] for one in each[1].compilations), default=0)

    path, summary = max([each for each in listed if end is None or begin(each) < end] or listed, key=begin)
    return RankLog(path, rank, summary.compilations)
