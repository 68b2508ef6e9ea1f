"""Series of runs: traces of a folder that can be compared with each other, in the order of time, names or commits.
Changes with the run that brought each, and what moved with them; the verdict on a new run (R6.2).

Like is compared with like (R6.1): one series has one program, device, kind of steps, number of ranks, and rank. Where
traces do not name their program, those that share little of their time are different ones.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from tracetui.comparing.noise import Change, Sample
from tracetui.errors import TraceError, UsageError
from tracetui.frozen import frozen
from tracetui.history.digest import (
    FAMILY_TIMES,
    KEPT,
    KERNEL_GROUP,
    MODULE_GROUP,
    OP_GROUP,
    STEP_TIME,
    UNPROFILED,
    Digest,
    Level,
    Summed,
    Values,
    beyond,
    digest_of_file,
    level,
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


FIRST_MEASURES = (STEP_TIME, UNPROFILED, "gpu_idle_pct", "kernels", "launches", "cpu_ops")
"""Measures that are always listed, in their order, where some run has another value than 0."""
CHECKED = (STEP_TIME, UNPROFILED, "gpu_idle_pct", "kernels")
"""Measures that must not be worse than in the runs before; more is worse."""
MAX_OF_GROUP = 6
"""Maximum families and maximum modules that are listed: the largest in the last run."""
MAX_MEASURES = 200
"""Maximum measures listed by name."""
MAX_MOVED = 3
"""Maximum measures named that moved with a change."""


@frozen(eq=True)
class Moved:
    """A measure that moved with another one."""

    name: str
    before: float
    after: float


@frozen(eq=True)
class Shift:
    """A change of a measure between two levels."""

    name: str
    unit: str
    before: float
    """Median of the runs of the level before."""
    after: float
    noise: float
    """What a single run of the level before must differ by, to count; NaN where too few runs tell."""
    run: Run
    """The run that brought it."""
    previous: Run
    """The last run before it."""
    runs: tuple[int, int]
    """Number of runs of the level before and of the level after."""
    moved: tuple[Moved, ...] = ()
    """What moved most at the same run: families, kernels, modules."""


@frozen
class Measure:
    """A measure over the runs of a series."""

    name: str
    unit: str
    values: Values
    levels: tuple[Level, ...]
    shifts: tuple[Shift, ...]
    last: Change
    """The last run beside the runs of its level, or of the level before where it is a change of its own."""


def listed_names(series: Series, wanted: Sequence[str] = ()) -> list[str]:
    """The names of the measures that are listed: those that are wanted, by name or pattern, else the first ones.

    Raises: UsageError for a name that no run has.
    """
    if wanted:
        names = [name for each in wanted for name in series.units if fnmatch.fnmatchcase(name, each)]
        return list(dict.fromkeys(names))[:MAX_MEASURES]
    return [
        *(name for name in FIRST_MEASURES if series.values(name).median.any()),
        *_largest(series, [name for name in series.units if name in FAMILY_TIMES]),
        *_largest(series, [name for name in series.units if name.startswith(MODULE_GROUP)]),
    ]


def require_measures(all_series: Sequence[Series], wanted: Sequence[str]) -> None:
    """Raises: UsageError for a name or pattern of a measure that no run of any series has."""
    known = {name: None for series in all_series for name in series.units}
    for each in wanted:
        if known and not fnmatch.filter(known, each):
            some = dict.fromkeys(name.partition(":")[0] + ":*" if ":" in name else name for name in known)
            raise UsageError(f"No run has a measure {each}; there are {', '.join(some)}.")


def measure(series: Series, name: str) -> Measure:
    """A measure over the runs with its changes."""
    values, found = series.levels(name)
    shifts = tuple(_shift(series, name, values, found, index) for index in range(1, len(found)))
    last = Change.UNKNOWN
    if len(values):
        start = found[-1].first if found[-1].end - found[-1].first > 1 else found[max(len(found) - 2, 0)].first
        value = float(values.median[-1])
        before = level(values, start, len(values) - 1) if len(values) - start > 1 else None
        last = (
            Change.WITHIN_NOISE
            if before is None
            else beyond(before, value, float(values.error[-1]), values.least(before.median))
        )
    return Measure(name, series.units.get(name, ""), values, tuple(found), shifts, last)


def _largest(series: Series, names: Sequence[str]) -> list[str]:
    """The names with the largest median in the last run that has one."""
    sizes = {name: float(series.values(name).median[-1]) for name in names}
    return sorted((name for name in names if sizes[name] > 0), key=lambda name: -sizes[name])[:MAX_OF_GROUP]


def _shift(series: Series, name: str, values: Values, found: Sequence[Level], index: int) -> Shift:
    before, after = found[index - 1], found[index]
    first, at, end = (int(values.run[row]) for row in (before.first, after.first, after.end - 1))
    return Shift(
        name,
        series.units.get(name, ""),
        before.median,
        after.median,
        before.noise,
        series.runs[at],
        series.runs[int(values.run[after.first - 1])],
        (before.end - before.first, after.end - after.first),
        tuple(_moved(series, name, (first, at, end + 1))) if name == STEP_TIME else (),
    )


def _moved(series: Series, name: str, bounds: tuple[int, int, int]) -> list[Moved]:
    """The times that differ by more than their noise between the runs before and behind a run, the largest first."""
    first, at, end = bounds
    moved = []
    for other, unit in series.units.items():
        is_part = other in FAMILY_TIMES or other.startswith((KERNEL_GROUP, OP_GROUP, MODULE_GROUP))
        if other == name or unit != "us" or not is_part:
            continue
        values = series.values(other)
        is_before, is_after = (values.run >= first) & (values.run < at), (values.run >= at) & (values.run < end)
        before, after = (Sample(values.median[mask]) for mask in (is_before, is_after))
        noise = max(*np.nan_to_num([before.scatter, after.scatter]), values.least(before.median), 0.0)
        if len(before.values) and len(after.values) and abs(after.median - before.median) > noise:
            moved.append(Moved(other, before.median, after.median))
    return sorted(moved, key=lambda each: -abs(each.after - each.before))[:MAX_MOVED]


# A new run beside the last level of the runs before it.


@frozen(eq=True)
class Verdict:
    """A measure of a new run."""

    name: str
    unit: str
    value: float
    """Median over its steps."""
    before: Level
    runs: tuple[str, str]
    """First and last run of the level."""
    change: Change


def like(all_series: Sequence[Series], run: Run) -> Series | None:
    """The series that a new run belongs to, None where there is none."""
    return next((series for series in all_series if series.runs and series.fits(run)), None)


def verdicts(series: Series, run: Run) -> list[Verdict]:
    """Verdicts on the measures that must not be worse, of a new run beside the last level of its series."""
    found = []
    for name in CHECKED:
        mine = run.digest.measures.get(name)
        values, levels = series.levels(name)
        if not levels or mine is None or not (mine.median or values.median.any()):
            continue
        last, value = levels[-1], mine.median
        change = beyond(last, value, mine.error, values.least(last.median))
        if change is Change.WITHIN_NOISE and value <= last.median and not np.isnan(last.noise):
            change = Change.SAME
        ends = [series.runs[int(values.run[index])].name for index in (last.first, last.end - 1)]
        found.append(Verdict(name, values.unit, value, last, (ends[0], ends[1]), change))
    return found
