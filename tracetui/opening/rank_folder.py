"""Opening a folder of traces, one per rank: finding the files, reading what they say, summing each up."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tracetui.errors import NotFound, OtherKind, TraceError, UsageError
from tracetui.files import is_url, url_name
from tracetui.frozen import frozen
from tracetui.reading.remote_files import each_result, is_remote_folder, matching_urls, walk_remote

if TYPE_CHECKING:
    from tracetui.model.recorded import RankHeader
    from tracetui.opening.rank_reading import Outcome, Progress, SummaryWork
    from tracetui.ranks.rank_runs import LeftOut, RankFile, RankRun, RankRuns
    from tracetui.ranks.rank_set import RankSet
    from tracetui.ranks.rank_summary import RankSummary

MAX_NAMED_REASONS = 3
"""Maximum reasons that are named where no file is the trace of a rank."""
NOT_READ = "not read: reading was stopped"
"""Reason of a file that the user did not wait for."""
MIN_SHARE_OF_RANKS = 0.5
"""Minimum share of the traces of a folder that are ranks of a run, for the folder to be a set of ranks."""
MAX_SEARCHED_ENTRIES = 200_000
"""Maximum files and folders below a folder that are looked at for traces."""
MAX_CANDIDATES = 20_000
"""Maximum files below a folder whose beginning is read."""
MAX_NAMED_OTHERS = 100
"""Maximum files of a folder without traces that are looked at, to say what they are."""
SUFFIXES = (".json", ".json.gz", ".json.zst")
"""Endings of files that may be traces of ranks."""
FILE_SUFFIXES = (*SUFFIXES, ".gz", ".zst", ".zip", ".pftrace", ".perfetto-trace", ".sqlite", ".nsys-rep")
"""Endings of names that folders do not have."""


class RankOptions(NamedTuple):
    """Options of the user for a set of ranks."""

    pattern: str | None = None
    """Regular expression whose first group is the rank in the name of a file."""
    run: int = 1
    """Number of the run, the one with most ranks being the first."""
    compile_log: str | None = None
    """Logs of torch.compile: a folder, a file or `none`; without it those beside the traces."""


AS_NAMED = RankOptions()
"""Nothing is said: ranks are those of the files and their names, and the run is the largest."""


@frozen(eq=True)
class RankSetName:
    """The place of a set of ranks, and the options of the user for it."""

    paths: tuple[str, ...]
    options: RankOptions = AS_NAMED


def rank_candidates(paths: Sequence[str]) -> list[str]:
    """The files below folders, of globs and of a list that may be traces of ranks, each once, by name.

    Raises: NotFound for a path that is nothing of these.
    """
    paths_by_file: dict[str, str] = {}
    for path in paths:
        for each in _expanded(path):
            paths_by_file.setdefault(each if is_url(each) else os.path.realpath(each), each)
    return sorted(paths_by_file.values())


def is_folder(path: str) -> bool:
    """True where a path or a URL is that of a folder.

    Raises: NotFound for a URL that cannot be asked.
    """
    if not is_url(path):
        return os.path.isdir(path)
    # A name with the ending of a trace spares the question.
    return not url_name(path.partition("#")[0]).endswith(FILE_SUFFIXES) and is_remote_folder(path)


def _expanded(path: str) -> list[str]:
    if is_url(path):
        return _expanded_url(path)
    if os.path.isdir(path):
        return _files_below(path)
    if os.path.lexists(path):
        return [path]
    matching = glob.glob(path, recursive=True)
    if not matching:
        raise NotFound(f"{path} is no folder, no file and no pattern that matches one.")
    return [each for part in matching for each in _expanded(part)]


def _expanded_url(url: str) -> list[str]:
    if any(sign in url for sign in "*["):
        matching = matching_urls(url)
        if not matching:
            raise NotFound(f"{url} is a pattern that matches nothing.")
        return [each for each in matching if url_name(each).endswith(SUFFIXES)]
    return _files_below(url) if is_folder(url) else [url]


def _files_below(folder: str) -> list[str]:
    """The files below a folder with the ending of a trace.

    Raises: UsageError where these, or all that lies there, are too many for the folder of a run; NotFound.
    """
    candidates: list[str] = []
    entries = 0
    walk = walk_remote(folder) if is_url(folder) else os.walk(folder)
    for where, folders, names in walk:
        entries += len(folders) + len(names)
        paths = (name if is_url(name) else os.path.join(where, name) for name in names if name.endswith(SUFFIXES))
        # A pipe would be waited for.
        candidates += [path for path in paths if is_url(path) or os.path.isfile(path)]
        if entries > MAX_SEARCHED_ENTRIES or len(candidates) > MAX_CANDIDATES:
            raise UsageError(
                f"{folder} is too large to be searched: the search was ended after {entries:,} files and folders, of "
                f"which {len(candidates):,} have the ending of a trace. Name a folder below it, or a pattern, "
                f"such as '{folder.rstrip('/')}/run/rank*.json'."
            )
    return candidates


def rank_runs_of(
    paths: Sequence[str],
    options: RankOptions,
    read: Callable[[Sequence[str]], Mapping[str, Outcome]] | None = None,
) -> RankRuns:
    """The runs that files make up; those whose head leaves the rank open are given to `read`.

    Raises: NotFound for a path that does not exist; UsageError for a pattern that is none, or without a group.
    """
    from tracetui.ranks.rank_runs import Copies, LeftOut, rank_runs
    from tracetui.reading.file_layout import is_whole_file, read_rank_header

    pattern = _compiled(options.pattern)
    headers: list[RankHeader] = []
    unread: list[LeftOut] = []
    candidates = rank_candidates(paths)

    def header_of(path: str) -> RankHeader | TraceError | None:
        try:
            return read_rank_header(path)
        except TraceError as error:
            return error

    for path, header in zip(candidates, each_result(header_of, candidates), strict=True):
        if isinstance(header, TraceError):
            unread.append(LeftOut(path, _unreadable(header)))
        elif header is not None:
            headers.append(replace(header, path=path))
    # Behind the events of a compressed file may stand what its head does not say.
    if not candidates:
        unread += _not_traces(paths)
    open_ = [each.path for each in headers if each.rank is None and each.is_whole is None]
    known = read(open_) if read is not None and open_ else {}
    unread += [LeftOut(path, _unreadable(each)) for path, each in known.items() if isinstance(each, TraceError)]
    decided = []
    for each in headers:
        outcome = known.get(each.path)
        if not isinstance(outcome, TraceError):
            # As the whole file says it, where that was read.
            decided.append(each if outcome is None else replace(outcome.header, path=each.path))
    runs = rank_runs(decided, Copies(_same_content, is_whole_file), pattern)
    return replace(runs, left_out=(*runs.left_out, *unread))


def _not_traces(folders: Sequence[str]) -> list[LeftOut]:
    """The known kinds of files in folders in which no file has the ending of a trace."""
    from tracetui.ranks.rank_runs import LeftOut
    from tracetui.reading.file_layout import read_rank_header

    left_out: list[LeftOut] = []
    for folder in folders:
        with suppress(OSError):
            for path in sorted(each.path for each in os.scandir(folder) if each.is_file())[:MAX_NAMED_OTHERS]:
                try:
                    read_rank_header(path)
                except OtherKind as error:
                    left_out.append(LeftOut(path, error.words))
                except TraceError:
                    continue
    return left_out


def sniffed_runs(paths: Sequence[str]) -> RankRuns:
    """The runs that files make up as far as their heads and names say: no file is read to its end, nor compared."""
    from tracetui.ranks.rank_runs import Copies, rank_runs
    from tracetui.reading.file_layout import read_rank_header

    headers: list[RankHeader] = []
    for path in paths:
        with suppress(TraceError, OSError):
            header = read_rank_header(path)
            headers += [] if header is None else [replace(header, path=path)]
    return rank_runs(headers, Copies(lambda one, other: False, lambda path: True))


def is_rank_set(runs: RankRuns) -> bool:
    """True where a folder is there for its ranks: most of its traces are those of a run with two ranks or more.

    Names that only end in numbers make no set: such files may be anything.
    """
    ranks = sum(len(run.files) for run in runs.runs if says_ranks(run))
    others = sum(len(run.files) for run in runs.runs) - ranks + len(runs.left_out)
    return ranks > 1 and ranks >= MIN_SHARE_OF_RANKS * (ranks + others)


def says_ranks(run: RankRun) -> bool:
    """True where a run has several ranks, and its files or their names speak of these."""
    return len(run.files) > 1 and any(
        file.header.rank is not None or file.name.rank is not None or file.name.pipeline_rank is not None
        for file in run.files
    )


def _unreadable(error: TraceError) -> str:
    return error.words if isinstance(error, OtherKind) else f"could not be read: {str(error).rstrip('.')}"


def picked_run(runs: RankRuns, options: RankOptions) -> RankRun:
    """The run that was asked for.

    Raises: NotFound where there is none at all; UsageError for a number without a run.
    """
    if not runs.runs:
        raise NotFound(f"No trace of a rank was found.{_reasons(runs.left_out)}")
    try:
        return runs.picked(options.run)
    except IndexError:
        titles = "; ".join(f"{number} {run.title}" for number, run in enumerate(runs.runs, 1))
        raise UsageError(f"There is no run {options.run}: there are {titles}.") from None


def _reasons(left_out: Sequence[LeftOut]) -> str:
    """Reasons that no file is the trace of a rank, each once with the number of its files and one of them."""
    files: dict[str, list[str]] = {}
    for each in left_out:
        files.setdefault(each.why, []).append(Path(each.path).name)
    reasons = [
        f"{names[0] if len(names) == 1 else f'{len(names)} files, such as {names[0]}'}: {why}"
        for why, names in list(files.items())[:MAX_NAMED_REASONS]
    ]
    more = len(files) - len(reasons)
    return f" {'; '.join(reasons)}{f'; and {more} other reasons' if more > 0 else ''}." if reasons else ""


def open_rank_set(
    paths: Sequence[str],
    options: RankOptions | None = None,
    progress: Progress | None = None,
    work: SummaryWork | None = None,
    picked: Callable[[RankRun], None] | None = None,
    allowed: Callable[[Path], bool] = lambda path: True,
) -> RankSet:
    """Read the ranks of a run, in several processes where that is faster; `progress` is told how many files are done.

    `picked` is told which run it is before its files are read; logs that are not `allowed` are not opened. A file that
    cannot be read costs its rank, and is told, as one that was not read when `work` was stopped. Raises: NotFound,
    UsageError.
    """
    from tracetui.opening.rank_logs import rank_logs, split_logs
    from tracetui.opening.rank_reading import SummaryWork, summarise_files
    from tracetui.ranks.rank_runs import LeftOut, RankRun
    from tracetui.ranks.rank_set import rank_set

    options, work = options or RankOptions(), work or SummaryWork()
    known: dict[str, Outcome] = {}
    paths, named_logs = split_logs(paths)
    folders = [path for path in paths if is_folder(path)]
    folder = paths[0] if len(paths) == 1 and folders else ""

    def read(those: Sequence[str]) -> Mapping[str, Outcome]:
        known.update(summarise_files([path for path in those if path not in known], work, progress))
        return known

    runs = rank_runs_of(paths, options, read)
    if not runs.runs:
        # Logs alone tell which rank compiled when.
        logs, notes = rank_logs(options.compile_log, named_logs, folders, {}, work, allowed)
        if logs:
            return rank_set(RankRun((), 0, runs.left_out), (), folder, logs, notes)
        if notes and not runs.left_out:
            raise NotFound(f"No log of a rank was found. {' '.join(notes)}")
    run = picked_run(runs, options)
    if picked is not None:
        picked(run)
    outcomes = read([file.path for file in run.files])
    files: list[RankFile] = []
    summaries: list[RankSummary] = []
    failed: list[LeftOut] = []
    for file in run.files:
        outcome = outcomes.get(file.path)
        if outcome is None:
            failed.append(LeftOut(file.path, NOT_READ))
        elif isinstance(outcome, TraceError):
            failed.append(LeftOut(file.path, _unreadable(outcome)))
        else:
            files.append(file)
            summaries.append(outcome)
    if not files:
        raise NotFound(f"No rank could be read. {failed[0].why}")
    # Replicas count their ranks each from 0, and names of logs do not tell which replica is meant.
    by_file = {file.path: (file.rank, each.window[1]) for file, each in zip(files, summaries, strict=True)}
    places = (
        () if any(file.offset for file in files) else (*folders, *(os.path.dirname(path) or "." for path in by_file))
    )
    logs, notes = rank_logs(options.compile_log, named_logs, places, by_file, work, allowed)
    return rank_set(replace(run, files=tuple(files), left_out=(*failed, *run.left_out)), summaries, folder, logs, notes)


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--rank-pattern {pattern!r} is no regular expression: {error}.") from error
    if compiled.groups < 1:
        raise UsageError(f"--rank-pattern {pattern!r} has no group: put the rank in brackets, as in 'gpu(\\d+)'.")
    return compiled


def _same_content(one: str, other: str) -> bool:
    # It counts cores too, which takes an import that names alone do without.
    from tracetui.opening.rank_reading import file_bytes

    return file_bytes(one) == file_bytes(other) and _digest(one) == _digest(other)


def _digest(path: str) -> bytes:
    # It reads files, which the commands that only name them do not.
    from tracetui.reading.source import open_raw_file

    with open_raw_file(path) as file:
        digest = hashlib.blake2b()
        while data := file.read(1 << 20):
            digest.update(data)
        return digest.digest()
