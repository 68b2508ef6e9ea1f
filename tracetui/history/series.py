"""Series of runs: traces of a folder that can be compared with each other, in the order of time, names or commits.

Like is compared with like (R6.1): one series has one program, device, kind of steps, number of ranks, and rank. Where
traces do not name their program, those that share little of their time are different ones.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property

from tracetui.errors import TraceError, UsageError
from tracetui.frozen import frozen
from tracetui.history.digest import (
    FAMILY_TIMES,
    KEPT,
    KERNEL_GROUP,
    OP_GROUP,
    STEP_TIME,
    Digest,
    Level,
    Summed,
    Values,
    digest_of_file,
    levels,
    values_of,
)
from tracetui.opening.rank_folder import rank_candidates
from tracetui.opening.rank_reading import Progress, SummaryWork, known_summaries, read_summaries
from tracetui.text import clean

MAX_RUNS = 2000
"""Maximum traces of a folder that are looked at: the newest."""
MIN_SHARED = 0.2
"""Minimum share of time in kernels or operators that two runs of an unnamed program have in common."""
MAX_NAMED = 3
"""Maximum files named in a sentence."""
GIT_SECONDS = 20.0
"""Seconds after which a question to git is given up."""
# No helper that a repository configures is run: a folder of traces may be anybody's.
GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIGITS = re.compile(r"(\d+)")


@frozen
class Run:
    """A trace of a series."""

    path: str
    name: str
    """Its path below the folder, made harmless."""
    digest: Digest
    changed_ns: int
    """Time of the last change of the file."""

    @property
    def moment_ns(self) -> int:
        """Start of the recording where the file says it, else the last change of the file."""
        return self.digest.facts.began_ns or self.changed_ns

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """Facts that runs of one series have in common."""
        facts = self.digest.facts
        return facts.program, facts.device, facts.stepped, facts.world_size, facts.rank


@frozen
class Series:
    """Runs that can be compared, in order."""

    runs: tuple[Run, ...]

    @property
    def title(self) -> str:
        """The program, the device, and the rank where there are several."""
        facts = self.runs[-1].digest.facts
        program = facts.program or f"a program without a name, such as {self.runs[-1].name}"
        ranks = [f"rank {facts.rank} of {facts.world_size}"] if facts.world_size > 1 else []
        return ", ".join([program, facts.device, facts.stepped, *ranks])

    def fits(self, run: Run) -> bool:
        """True where a run can be compared with those of the series."""
        return self.runs[-1].key == run.key and _is_one_program(self.runs[-1], run)

    def without(self, run: Run) -> Series:
        """The series without a run, also as a copy of its file, and without what was recorded after it."""
        place = os.path.realpath(run.path)
        # Two recordings never begin in the same nanosecond; of files without that time copies cannot be told.
        end = run.moment_ns - 1 if run.digest.facts.began_ns else run.moment_ns
        before = (each for each in self.runs if each.moment_ns <= end and os.path.realpath(each.path) != place)
        return Series(tuple(before))

    @cached_property
    def units(self) -> dict[str, str]:
        """Every measure of a run with its unit."""
        return {name: unit for run in self.runs for name, unit in run.digest.units.items()}

    def values(self, name: str) -> Values:
        """The measure in each run that has it; of a family that did not run 0."""
        all_measures = [run.digest.measures for run in self.runs]
        if name in FAMILY_TIMES:
            nothing = Summed(0.0, 0.0, 0.0)
            found = [each.get(name, nothing if FAMILY_TIMES & each.keys() else None) for each in all_measures]
        else:
            found = [each.get(name) for each in all_measures]
        return values_of(found, self.units.get(name, ""))

    def levels(self, name: str) -> tuple[Values, list[Level]]:
        """The measure, and its levels between changes."""
        values = self.values(name)
        return values, levels(values)


@frozen(eq=True)
class History:
    """The series of a folder, the longest first, and what was left out."""

    folder: str
    series: tuple[Series, ...]
    left_out: tuple[str, ...] = ()
    """Sentences."""


def history(
    folder: str, by: str = "time", work: SummaryWork | None = None, progress: Progress | None = None
) -> History:
    """The runs in a folder and below; what is not kept of them is read.

    Raises: NotFound for a folder that does not exist; UsageError for one that is too large, or without commits.
    """
    paths, left_out = rank_candidates([folder]), []
    if len(paths) > MAX_RUNS:
        left_out.append(f"{len(paths) - MAX_RUNS:,} older files are left out: at most {MAX_RUNS:,} are looked at.")
        paths = sorted(paths, key=_changed_ns)[-MAX_RUNS:]
    outcomes = read_summaries(paths, KEPT, (work or SummaryWork())._replace(summary_of=digest_of_file), progress)
    digests = {path: each for path, each in outcomes.items() if isinstance(each, Digest)}
    left_out += _unused({path: each for path, each in outcomes.items() if isinstance(each, TraceError)}, folder)
    runs = runs_of(digests, folder)
    cut = [run.name for run in runs if run.digest.facts.loss]
    if cut:
        left_out.append(f"{named(cut)} left out: only a part of the recording is there.")
    whole = [run for run in runs if not run.digest.facts.loss and STEP_TIME in run.digest.measures]
    return History(folder, tuple(in_series(in_order(whole, by, folder, left_out))), tuple(left_out))


def kept_history(paths: Sequence[str], folder: str) -> list[Series]:
    """The series of those files of which a digest is kept, in order of time; no trace is read."""
    return in_series(in_order(runs_of(known_summaries(paths, KEPT), folder), "time", folder, []))


def runs_of(digests: Mapping[str, Digest], folder: str) -> list[Run]:
    """The runs with their names below a folder."""
    return [run_of(digest, path, folder) for path, digest in digests.items()]


def run_of(digest: Digest, path: str, folder: str) -> Run:
    """One of them."""
    return Run(path, clean(os.path.relpath(path, folder)), digest, _changed_ns(path))


def in_series(runs: Sequence[Run]) -> list[Series]:
    """Runs, in order, by what they have in common; the series with most runs first."""
    groups: list[list[Run]] = []
    for run in runs:
        mine = next((group for group in groups if Series((group[-1],)).fits(run)), None)
        if mine is None:
            groups.append([run])
        else:
            mine.append(run)
    return [Series(tuple(group)) for group in sorted(groups, key=lambda group: -len(group))]


def _is_one_program(a: Run, b: Run) -> bool:
    """True where the programs have a name, or share enough of their time."""
    if a.digest.facts.program:
        return True
    shares = []
    for run in (a, b):
        all_measures = run.digest.measures.items()
        times = {name: each.median for name, each in all_measures if name.startswith((KERNEL_GROUP, OP_GROUP))}
        shares.append({name: time / (sum(times.values()) or 1.0) for name, time in times.items()})
    common = sum(min(shares[0].get(name, 0.0), share) for name, share in shares[1].items())
    return not any(shares) or common >= MIN_SHARED


def in_order(runs: Sequence[Run], by: str, folder: str, left_out: list[str]) -> list[Run]:
    """The runs in an order; what has no place in it is added to `left_out`, as a sentence.

    Raises: UsageError for an order by commits where there are none.
    """
    if by == "name":
        return sorted(runs, key=lambda run: natural(run.name))
    by_time = sorted(runs, key=lambda run: (run.moment_ns, natural(run.name)))
    if by == "time":
        return by_time
    place = {commit: index for index, commit in enumerate(commits(folder, [run.digest.facts.commit for run in runs]))}
    known = [run for run in by_time if run.digest.facts.commit in place]
    if not known and runs:
        raise UsageError(
            f"No trace of {folder} has a commit that the repository around it has: `tracetui run` writes it into a "
            "recording whose program lies in a repository. --by time and --by name need none."
        )
    others = [run.name for run in by_time if run.digest.facts.commit not in place]
    if others:
        left_out.append(f"{named(others)} left out: without a commit of this repository.")
    # Of one commit what has changes that are not committed comes last.
    return sorted(known, key=lambda run: (place[run.digest.facts.commit], run.digest.facts.is_dirty))


def natural(name: str) -> list[tuple[int, str]]:
    """Sorts a name with its numbers as numbers: run2 before run10."""
    parts = _DIGITS.split(name.casefold())
    return [(int(part), "") if index % 2 and len(part) < 20 else (0, part) for index, part in enumerate(parts)]


def commits(folder: str, wanted: Sequence[str]) -> list[str]:
    """The commits of the repository around a folder that lead to some commits, parents first; those it has alone.

    Nothing that the repository configures is run. Raises: UsageError where there is no git, or no repository.
    """
    names = sorted({each for each in wanted if _COMMIT.fullmatch(each)})
    known = _git(folder, ["cat-file", "--batch-check=%(objectname) %(objecttype)"], "\n".join(names))
    there = [line.split()[0] for line in known.splitlines() if line.endswith(" commit")]
    if not there:
        return []
    return _git(folder, ["rev-list", "--topo-order", "--reverse", "--stdin"], "\n".join(there)).splitlines()


def _git(folder: str, words: Sequence[str], given: str) -> str:
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [*GIT, *words],
            cwd=folder,
            input=f"{given}\n",
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"git cannot be asked for the order of commits: {clean(str(error))}.") from error
    if done.returncode:
        reason = clean((done.stderr.strip().splitlines() or ["no reason given"])[0])
        raise UsageError(f"git does not tell the order of commits in {folder}: {reason}.")
    return done.stdout


def _unused(errors: Mapping[str, TraceError], folder: str) -> list[str]:
    """A sentence for each reason why files could not be read."""
    files: dict[str, list[str]] = {}
    for path, error in errors.items():
        name = clean(os.path.relpath(path, folder))
        reason = clean(str(error)).replace(path, "the file").replace(os.path.basename(path), "the file")
        files.setdefault(reason, []).append(name)
    return [f"{named(names)} left out: {reason.rstrip('.')}." for reason, names in files.items()]


def named(names: Sequence[str]) -> str:
    """Files in a sentence, with its verb."""
    some = ", ".join(names[:MAX_NAMED])
    return f"{some} is" if len(names) == 1 else f"{len(names):,} files ({some}{', ...' * (len(names) > MAX_NAMED)}) are"


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
