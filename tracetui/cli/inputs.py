"""Reading and writing a trace for a command, with progress and remarks on standard error."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from tracetui.cli.arguments import add_no_cache, completes_files, job_count
from tracetui.cli.streams import CountProgress, TraceProgress, complain, remark
from tracetui.errors import UsageError
from tracetui.files import NO_FILE, is_url
from tracetui.opening.trace_opening import AS_RECORDED, OpenOptions, SideName, keep_opened, open_trace
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui.comparing.side import Side
    from tracetui.model.trace import Trace
    from tracetui.opening.rank_folder import RankOptions
    from tracetui.ranks.rank_set import RankSet
    from tracetui.writing.output import Sink


Result = TypeVar("Result")

MAX_KEEPING_SECONDS = 3.0
"""Maximum seconds that a command goes on for after its output, to write what it read to the cache."""
_to_keep: list[Trace] = []
"""The traces that were read and that the cache may take."""


def read_trace(path: str, options: OpenOptions = AS_RECORDED) -> Trace:
    """Open a trace, `-` being standard input, and print notes for its reader on standard error.

    Raises: TraceError when the file cannot be used; UsageError for options that the trace cannot have.
    """
    with TraceProgress(path) as progress:
        trace = open_trace(path, options, progress.update)
    if options.uses_cache:
        _to_keep.append(trace)
        _warn_of_cache()
    # What makes the exit code 1 is no mere remark.
    say = complain if trace.quality.is_part else remark
    for note in trace.quality.notes:
        say(note)
    return trace


@cache
def _warn_of_cache() -> None:
    """Say once that the cache is not used, where that is for others who could write to it."""
    # It was loaded when the trace was opened.
    from tracetui.opening.cache_folder import cache_path, is_others, is_wanted

    if is_wanted() and is_others():
        what = "is a link, or others own it or may write to it"
        remark(f"the cache is not used, as {cache_path()} {what}: remove it.")


def keep_read_traces() -> None:
    """Write the traces that were read to the cache; a command does that when all else is done."""
    end = time.monotonic() + MAX_KEEPING_SECONDS
    while _to_keep:
        keep_opened(_to_keep.pop(), lambda: time.monotonic() > end)


def drop_read_traces() -> None:
    """Drop the traces that were read."""
    _to_keep.clear()
    _warn_of_cache.cache_clear()


def write_trace(
    path: str, trace: Trace, write: Callable[[Sink, Callable[[int], None]], Result], force: bool = False
) -> tuple[Result, int]:
    """Write a trace in another form to a file, `-` being standard output; returns the result of `write`, and the bytes.

    `write` gets a sink, and a function to which it reports the number of events that it has gone through.
    Raises: UsageError, CannotWrite, and what `write` raises.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.reading.load_progress import LoadProgress
    from tracetui.writing.output import output

    with TraceProgress("standard output" if path == "-" else path) as progress:

        def report(events: int) -> None:
            done = trace.size_bytes * events // max(trace.events, 1)
            progress.update(LoadProgress(done, trace.size_bytes, events, "writing"))

        with output(path, force) as sink:
            result = write(sink, report)
    return result, sink.size


# The sides of a comparison on the command line: `PATH`, `PATH#SCOPE`, or `#SCOPE` of the same trace.

FORMS = "write `A.json B.json`, `A.json#3 A.json#4`, or `A.json '#3' '#4'`"
"""The ways to name two sides."""
QUOTE = "The shell takes a word that begins with # for a comment: quote it."
_BARE = re.compile(r"\d+(:\d+)?")
"""A scope without its sign."""


def named_sides(words: Sequence[str]) -> tuple[SideName, ...]:
    """The sides that two words or more name; a scope alone is of the trace before it, which may stand apart in front.

    Raises: UsageError for words that name no sides.
    """
    if len(words) < 2:
        raise UsageError(f"One side is not enough: {FORMS}. {QUOTE}")
    if _is_scope(words[0]):
        raise UsageError(f"{words[0]!r} is a scope without a trace before it: {FORMS}.")
    first, rest = split(words[0]), words[1:]
    if len(rest) > 1 and not first.scope and all(map(_is_scope, rest)):
        return tuple(SideName(first.path, word[1:]) for word in rest)
    sides = [first]
    for word in rest:
        if _BARE.fullmatch(word) and not os.path.exists(word):
            raise UsageError(f"{word} is no file; if a step is meant, {FORMS}. {QUOTE}")
        if not _is_scope(word):
            sides.append(split(word))
        elif len(words) > 2 and not sides[-1].scope:
            raise UsageError(f"It is not clear whether {sides[-1].path} is a side beside {word!r}: {FORMS}.")
        else:
            sides.append(SideName(sides[-1].path, word[1:]))
    return tuple(sides)


def named_pair(words: Sequence[str]) -> tuple[SideName, SideName]:
    """The two sides that the words name.

    Raises: UsageError for anything else.
    """
    sides = named_sides(words)
    if len(sides) != 2:
        raise UsageError(f"Here two sides are compared, not {len(sides)}: {FORMS}.")
    return sides[0], sides[1]


def split(word: str) -> SideName:
    """Path and scope of `PATH#SCOPE`; of several ways to read it the one with the longest path that exists."""
    if is_url(word):
        url, _, scope = word.partition("#")
        return SideName(url, scope)
    signs = [index for index, letter in enumerate(word) if letter == "#"]
    for end in [len(word), *reversed(signs)]:
        if word[:end] == "-" or os.path.exists(word[:end]):
            return SideName(word[:end], word[end + 1 :])
    return SideName(word[: signs[0]], word[signs[0] + 1 :]) if signs else SideName(word)


def missing_side(word: str, options: OpenOptions = AS_RECORDED) -> str:
    """A sentence on what could be compared where only one side is named: its steps, or what runs several times in it.

    Raises: UsageError for a scope without a trace, TraceError for a file.
    """
    # This loads numpy, which `--help` must not wait for.
    from tracetui.comparing.side import repeated_scopes, step_scopes
    from tracetui.comparing.variants import variants

    if _is_scope(word):
        raise UsageError(f"{word!r} is a scope without a trace before it: {FORMS}.")
    path = split(word).path
    trace, name = read_trace(path, options), shlex.quote(path)
    within = []
    for each in variants(trace)[:1]:
        scopes = " ".join(shlex.quote(f"#{scope}") for scope in each.scopes)
        within.append(f"variants of one computation, as in `{name} {scopes}`")
    if len(steps := step_scopes(trace)) > 1:
        within.append(f"its steps, as in `{name} '{steps[0]}' '{steps[1]}'`")
    if names := repeated_scopes(trace):
        some = ", ".join(f"{each} ({runs:,})" for each, runs in names)
        scopes = " ".join(shlex.quote(f"#{names[0][0]}[{number}]") for number in (1, 2))
        within.append(f"runs of what is called more than once, {some}, as in `{name} {scopes}`")
    choices = f" Within it there are {'; and '.join(within)}." if within else ""
    return f"One side is not enough: {FORMS}.{choices} {QUOTE}"


def read_sides(sides: Sequence[SideName], options: OpenOptions = AS_RECORDED) -> list[Side]:
    """Open the sides, a file that several of them name only once.

    Raises: UsageError for a scope that does not exist, TraceError for a file.
    """
    # This loads numpy, which `--help` must not wait for.
    from tracetui.comparing.side import side

    traces: dict[str, Trace] = {}
    paths = [each.path if each.path == "-" or is_url(each.path) else os.path.realpath(each.path) for each in sides]
    for path, each in zip(paths, sides, strict=True):
        if path not in traces:
            traces[path] = read_trace(each.path, options)
    return [side(traces[path], each.scope) for path, each in zip(paths, sides, strict=True)]


def _is_scope(word: str) -> bool:
    return word.startswith("#") and not os.path.exists(word)


# The arguments that name a set of ranks, shared by the commands that read one, and reading it.

MAX_RANK = 10**6
"""Numbers of ranks beyond this are a mistake."""
_RANKS = re.compile(r"\d{1,7}(-\d{1,7})?")


def add_rank_choice(parser: argparse.ArgumentParser) -> None:
    """Declare the options that choose among the ranks of a folder."""
    parser.add_argument(
        "--rank-pattern", metavar="RE", help="regular expression with the rank in its first group, for names of files"
    )
    parser.add_argument(
        "--run",
        dest="run_number",
        type=int,
        default=1,
        metavar="N",
        help="which run of ranks, where a folder holds several (default: 1)",
    )


def add_rank_set(parser: argparse.ArgumentParser) -> None:
    """Declare the options of commands that read ranks."""
    add_rank_choice(parser)
    parser.add_argument(
        "--jobs",
        type=job_count,
        metavar="N",
        help="read with N processes (default: one per core, fewer where memory is short)",
    )
    add_cluster(parser)
    add_no_cache(parser)


def add_rank_logs(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names logs of torch.compile of ranks."""
    log = parser.add_argument(
        "--compile-log",
        metavar="FILE",
        help="logs of torch.compile (TORCH_TRACE) of the ranks: a folder, or one log. Without it those beside the "
        "traces or in $TORCH_TRACE are used; none: no log",
    )
    completes_files(log)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Declare the option that has a cluster read ranks."""
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="have ranks read by the Dask cluster whose scheduler is at this address; it is trusted: what it answers "
        "is read with pickle, which can run code here, so name a cluster of your own only",
    )


def read_rank_set(paths: Sequence[str], options: argparse.Namespace) -> RankSet:
    """The set of ranks that the options of a command ask for.

    Raises: UsageError for a pattern or run that does not exist; TraceError where there is no rank.
    """
    # It loads numpy, which `--help` must not wait for.
    from tracetui.opening.rank_folder import RankOptions

    asked = RankOptions(options.rank_pattern, options.run_number, getattr(options, "compile_log", NO_FILE))
    if options.dask is not None and options.jobs is not None:
        raise UsageError("--jobs is the number of processes here: the workers of --dask are those of the cluster.")
    return _read(paths, asked, options, options.jobs)


def read_rank_folder(path: str, options: argparse.Namespace) -> RankSet:
    """The largest set of ranks in a folder, for commands that are about one trace else.

    Raises: TraceError where there is no rank; ClusterUnusable.
    """
    return _read([path], None, options, None)


def _read(paths: Sequence[str], asked: RankOptions | None, options: argparse.Namespace, jobs: int | None) -> RankSet:
    from tracetui.opening.rank_folder import open_rank_set
    from tracetui.opening.rank_reading import SummaryWork

    work = SummaryWork(jobs, uses_cache=not options.no_cache)
    if options.dask is None:
        with CountProgress("ranks") as progress:
            return open_rank_set(paths, asked, progress.update, work)
    # Few have a cluster.
    from tracetui.opening.dask_cluster import dask_work

    with (
        dask_work(options.dask, work, lambda sentence: remark(clean(sentence))) as there,
        CountProgress("ranks") as progress,
    ):
        return open_rank_set(paths, asked, progress.update, there)


def require_no_cluster(options: argparse.Namespace) -> None:
    """Raises: UsageError for a cluster where one trace is opened, which this process reads."""
    if options.dask is not None:
        raise UsageError("--dask reads the ranks of a folder: one trace is read here.")


def rank_numbers(text: str) -> list[int]:
    """Numbers of ranks written as `0,3-5`.

    Raises: UsageError for another text.
    """
    numbers: list[int] = []
    for part in text.split(","):
        if not _RANKS.fullmatch(part.strip()):
            raise UsageError(f"--ranks {text} is no list of ranks: write 3, 0,3 or 0,3-5.")
        first, _, last = part.strip().partition("-")
        low, high = int(first), int(last or first)
        if not low <= high <= MAX_RANK:
            raise UsageError(f"--ranks {text}: {part.strip()} is no range of ranks.")
        numbers += range(low, high + 1)
    return sorted(set(numbers))
