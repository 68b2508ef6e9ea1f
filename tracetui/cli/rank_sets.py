"""The arguments that name a set of ranks, shared by the commands that read one, and reading it."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracetui.cli.arguments import add_no_cache, job_count
from tracetui.cli.progress import CountProgress
from tracetui.errors import UsageError
from tracetui.safe_text import clean

if TYPE_CHECKING:
    from tracetui.opening.rank_folder import RankOptions
    from tracetui.ranks.rank_set import RankSet

MAX_RANK = 10**6
"""Numbers of ranks beyond this are a mistake."""
_RANKS = re.compile(r"\d{1,7}(-\d{1,7})?")


def add_rank_choice(parser: argparse.ArgumentParser) -> None:
    """Declare what says which ranks of a folder are meant."""
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
    """Declare what says which ranks are read and how."""
    add_rank_choice(parser)
    parser.add_argument(
        "--jobs",
        type=job_count,
        metavar="N",
        help="read with N processes (default: one per core, fewer where memory is short)",
    )
    add_cluster(parser)
    add_no_cache(parser)


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

    asked = RankOptions(options.rank_pattern, options.run_number)
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
    from tracetui.opening.summaries import SummaryWork

    work = SummaryWork(jobs, uses_cache=not options.no_cache)
    if options.dask is None:
        with CountProgress("ranks") as progress:
            return open_rank_set(paths, asked, progress.update, work)
    # Few have a cluster.
    from tracetui.opening.dask_cluster import dask_work

    with dask_work(options.dask, work, _say) as there, CountProgress("ranks") as progress:
        return open_rank_set(paths, asked, progress.update, there)


def require_no_cluster(options: argparse.Namespace) -> None:
    """Raises: UsageError for a cluster where one trace is opened, which this process reads."""
    if options.dask is not None:
        raise UsageError("--dask reads the ranks of a folder: one trace is read here.")


def _say(sentence: str) -> None:
    print(f"tracetui: {clean(sentence)}", file=sys.stderr)


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
