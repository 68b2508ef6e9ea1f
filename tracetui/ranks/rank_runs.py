"""The files of the ranks of one run, and the reasons why others are left out (R5.1).

These are pure functions over headers: only `same_content` and `is_whole` read files, where several claim one rank. No
file is dropped without a reason.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath

from tracetui.frozen import frozen
from tracetui.model.quantities import counted, duration
from tracetui.model.recorded import RankHeader

# What the names of files and folders say of a rank: the conventions of the programs that write them (R5.1).
#
# A name is asked where the file itself names no rank, and for what no file says: the stage, the replica, the
# iteration.

_DIGITS = r"(\d{1,9})"
_FILE_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"rank\[{_DIGITS}\]",
        rf"(?:^|[^a-z])rank[-_]?{_DIGITS}(?!\d)",
    )
)
"""Ranks in names of files: Primus `rank[3]`; torchtitan `rank3_trace`, HTA `rank-3`, vLLM `..._rank3`, TensorRT-LLM."""
_FOLDER_PATTERN = re.compile(rf"^rank[-_]?{_DIGITS}$", re.IGNORECASE)
_SGLANG = re.compile(
    r"^(?P<run>.+?)-TP-(?P<tp>\d{1,6})(?:-DP-(?P<dp>\d{1,6}))?(?:-PP-(?P<pp>\d{1,6}))?(?:-EP-(?P<ep>\d{1,6}))?"
    r"(?:-(?P<stage>EXTEND|DECODE))?\.trace",
    re.IGNORECASE,
)
_VLLM_REPLICA = re.compile(r"(?:^|_)dp(\d{1,6})_")
_ITERATION = re.compile(r"^(?:iteration|iter|step|epoch)[-_]?(\d{1,12})$", re.IGNORECASE)
_HANDLER = re.compile(r"^(?P<host>[A-Za-z][\w.-]*?)_(?P<pid>\d+)\.(?:\d+\.)?pt\.trace\.json")
_LAST_NUMBER = re.compile(r"(\d{1,9})(?!.*\d)", re.DOTALL)
_SUFFIXES = re.compile(r"\.(?:pt\.trace|trace|json|gz|zst)\b", re.IGNORECASE)


@frozen(eq=True)
class RankName:
    """The rank, run and host by the path of a file; None or empty for what it does not name."""

    rank: int | None = None
    pipeline_rank: tuple[int, int] | None = None
    """Stage of the pipeline and rank within it, where the name says these in place of one rank."""
    replica: int | None = None
    """Number of the data-parallel replica, of which each numbers its ranks from 0."""
    run: str = ""
    """Part of the name that tells runs or stages apart."""
    last_number: int | None = None
    """Last number in the name, a rank only where the numbers of all files are 0 to n - 1."""
    host: str | None = None
    folder: str = ""
    """Folder of the run: that of the file, without a folder of its rank alone."""
    iteration: int | None = None
    """Number of the iteration in the name of the folder."""


def rank_name(path: str, pattern: re.Pattern[str] | None = None) -> RankName:
    """The names in a path; `pattern` is the user's own, with the rank in its first group, and comes first."""
    name, parents = PurePath(path).name, PurePath(path).parent
    in_folder = _FOLDER_PATTERN.match(parents.name)
    folder = parents.parent if in_folder else parents
    iteration = _ITERATION.match(folder.name)
    served = _SGLANG.match(name)
    replica = _VLLM_REPLICA.search(name)
    handler = _HANDLER.match(name)
    last_number = _LAST_NUMBER.search(_SUFFIXES.sub("", name))
    return RankName(
        rank=_rank(path, name, pattern, served, in_folder),
        pipeline_rank=(int(served["pp"]), int(served["tp"])) if served and served["pp"] else None,
        replica=_number(served["dp"] if served else replica[1] if replica else None),
        run=" ".join(filter(None, (served["run"], (served["stage"] or "").upper()))) if served else "",
        last_number=int(last_number[1]) if last_number else None,
        host=handler["host"] if handler else None,
        folder=str(folder),
        iteration=int(iteration[1]) if iteration else None,
    )


def _rank(
    path: str,
    name: str,
    pattern: re.Pattern[str] | None,
    served: re.Match[str] | None,
    in_folder: re.Match[str] | None,
) -> int | None:
    if pattern is not None and (own := pattern.search(name) or pattern.search(path)) is not None:
        return _number(own[1])
    if served is not None:
        # Of several stages the rank follows from the size of a stage, which takes all files to know.
        return int(served["tp"]) if served["pp"] is None else None
    for each in _FILE_PATTERNS:
        if (match := each.search(name)) is not None:
            return int(match[1])
    return int(in_folder[1]) if in_folder else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


MAX_BEGIN_GAP_NS = 600 * 10**9
"""Maximum ns between the beginnings of two ranks of one run, whose hosts may have clocks of their own."""
SAME_SIZE = 0.005
"""Share of its size by which a compressed copy may differ: a file holds its own name."""
NO_RANK = "no rank: neither distributedInfo nor the name tells it"


@frozen(eq=True)
class LeftOut:
    """A file with the reason why it is no row, or no whole one."""

    path: str
    why: str


@frozen(eq=True)
class RankFile:
    """A file and the rank that recorded it."""

    header: RankHeader
    name: RankName
    rank: int
    offset: int = 0
    """Number added to the ranks of the file: the ranks of the replicas before its own."""

    @property
    def path(self) -> str:
        """Path of the file."""
        return self.header.path

    @property
    def host(self) -> str | None:
        """Name of the host, in the file or else in its name."""
        return self.header.host or self.name.host or rank_name(self.header.trace_name).host


@frozen(eq=True)
class RankRun:
    """The ranks of one run, in order of rank."""

    files: tuple[RankFile, ...]
    world_size: int
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about its files: ranks that name and content disagree about."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that are there."""
        return tuple(file.rank for file in self.files)

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that are not there."""
        return tuple(sorted(set(range(self.world_size)) - set(self.ranks)))

    @property
    def begin_ns(self) -> int:
        """Median beginning of its files, 0 where none is known."""
        known = sorted(file.header.begin_ns for file in self.files if file.header.begin_ns is not None)
        return known[len(known) // 2] if known else 0

    @property
    def title(self) -> str:
        """Its folder, or the first part of its name, and its ranks."""
        first = self.files[0]
        where = first.name.run or PurePath(first.name.folder).name
        return f"{where}: {counted(len(self.files), 'rank')} of {self.world_size}"


@frozen(eq=True)
class RankRuns:
    """All runs of a folder, the one with most ranks first, then the newest; files without a rank belong to none."""

    runs: tuple[RankRun, ...]
    left_out: tuple[LeftOut, ...] = ()

    def picked(self, number: int = 1) -> RankRun:
        """The run with a number, counted from 1, with everything that is left out for it.

        Raises: IndexError for a number without a run.
        """
        if not 0 < number <= len(self.runs):
            raise IndexError(number)
        run = self.runs[number - 1]
        others = [
            LeftOut(file.path, _reason_of_other_run(other, index, run))
            for index, other in enumerate(self.runs, 1)
            if other is not run
            for file in other.files
        ]
        return replace(run, left_out=(*run.left_out, *others, *self.left_out))


@frozen(eq=True)
class Copies:
    """Comparison of files that claim one rank, which needs their content."""

    same_content: Callable[[str, str], bool]
    is_whole: Callable[[str], bool]


def rank_runs(headers: Sequence[RankHeader], copies: Copies, pattern: re.Pattern[str] | None = None) -> RankRuns:
    """Sort the files of a folder into runs; `pattern` finds the rank in names before the conventions do."""
    named = [(header, rank_name(header.path, pattern)) for header in headers]
    files, without = _with_ranks(named)
    files = _with_replicas(files)
    runs = [_run(members, copies) for members in _parts(files)]
    runs.sort(key=lambda run: (-len(run.files), -run.begin_ns))
    return RankRuns(tuple(runs), tuple(LeftOut(header.path, NO_RANK) for header in without))


def _with_ranks(named: Iterable[tuple[RankHeader, RankName]]) -> tuple[list[RankFile], list[RankHeader]]:
    """The files with a rank, and those without."""
    files, undecided = [], []
    width: dict[tuple[str, str], int] = defaultdict(int)
    named = list(named)
    for _, name in named:
        if name.pipeline_rank is not None:
            width[name.folder, name.run] = max(width[name.folder, name.run], name.pipeline_rank[1] + 1)
    for header, name in named:
        rank = header.rank if header.rank is not None else name.rank
        if rank is None and name.pipeline_rank is not None:
            rank = name.pipeline_rank[0] * width[name.folder, name.run] + name.pipeline_rank[1]
        if rank is None:
            undecided.append((header, name))
        else:
            files.append(RankFile(header, name, rank))
    more, without = _numbered(undecided)
    return files + more, without


def _numbered(undecided: Sequence[tuple[RankHeader, RankName]]) -> tuple[list[RankFile], list[RankHeader]]:
    """Files whose last numbers are 0 to n - 1 in their folder, each once, and all others."""
    folders: dict[str, list[tuple[RankHeader, RankName]]] = defaultdict(list)
    for header, name in undecided:
        folders[name.folder].append((header, name))
    files, without = [], []
    for members in folders.values():
        numbers = [name.last_number for _, name in members]
        if len(members) > 1 and set(numbers) == set(range(len(members))):
            files += [RankFile(header, name, name.last_number or 0) for header, name in members]
        else:
            without += [header for header, _ in members]
    return files, without


def _with_replicas(files: Sequence[RankFile]) -> list[RankFile]:
    """Ranks counted over data-parallel replicas where each replica numbers its own from 0."""
    by_run: dict[tuple[str, str], list[RankFile]] = defaultdict(list)
    for file in files:
        by_run[file.name.folder, file.name.run].append(file)
    result = []
    for members in by_run.values():
        replicas = sorted({file.name.replica for file in members if file.name.replica is not None})
        claims = Counter(file.rank for file in members if file.name.replica is not None)
        repeated = len(replicas) > 1 and len({(file.rank, file.name.replica) for file in members}) > len(claims)
        if not repeated:
            result += members
            continue
        size = max(max(file.header.world_size or 0, file.rank + 1) for file in members)
        for file in members:
            offset = (file.name.replica or 0) * size
            header = replace(file.header, world_size=size * (replicas[-1] + 1))
            result.append(replace(file, header=header, rank=file.rank + offset, offset=offset))
    return result


def _parts(files: Sequence[RankFile]) -> list[list[RankFile]]:
    """The files of each run: of one size and name, recorded at one time, in folders that hold different ranks."""
    by_name: dict[tuple[int | None, str], list[RankFile]] = defaultdict(list)
    for file in files:
        by_name[_world_size(file, files), file.name.run].append(file)
    parts = []
    for members in by_name.values():
        for cluster in _clusters(members):
            parts += [part for folder in _folders(cluster) for part in _recordings(folder)]
    return parts


def _world_size(file: RankFile, files: Sequence[RankFile]) -> int | None:
    """The size of the run; the only size that others in the folder record where a file records none."""
    if file.header.world_size is not None:
        return file.header.world_size
    others = {each.header.world_size for each in files if each.name.folder == file.name.folder} - {None}
    return others.pop() if len(others) == 1 else None


def _clusters(files: Sequence[RankFile]) -> list[list[RankFile]]:
    """Files that began within ten minutes of one another; clocks of another kind cannot be compared and join."""
    kinds: dict[bool, list[RankFile]] = defaultdict(list)
    unknown = [file for file in files if file.header.begin_ns is None]
    for file in files:
        if file.header.begin_ns is not None:
            kinds[file.header.base_ns is not None].append(file)
    clusters: list[list[RankFile]] = []
    for members in kinds.values():
        members.sort(key=lambda file: file.header.begin_ns or 0)
        latest: int | None = None
        for file in members:
            begin = file.header.begin_ns or 0
            if latest is None or begin - latest > MAX_BEGIN_GAP_NS:
                clusters.append([])
            clusters[-1].append(file)
            latest = begin
    clusters.sort(key=len, reverse=True)
    if len(kinds) > 1:
        clusters = _joined(clusters)
    if unknown:
        clusters = [[*clusters[0], *unknown], *clusters[1:]] if clusters else [unknown]
    return clusters


def _joined(clusters: Sequence[list[RankFile]]) -> list[list[RankFile]]:
    """Clusters of different kinds of clocks with different ranks as one."""
    joined: list[list[RankFile]] = []
    for cluster in clusters:
        mine = {file.rank for file in cluster}
        kind = cluster[0].header.base_ns is not None
        for other in joined:
            if all((file.header.base_ns is not None) != kind and file.rank not in mine for file in other):
                other.extend(cluster)
                break
        else:
            joined.append(list(cluster))
    return joined


def _folders(files: Sequence[RankFile]) -> list[list[RankFile]]:
    """The files by folder; folders with different ranks are one run unless they are named for iterations."""
    folders: dict[str, list[RankFile]] = defaultdict(list)
    for file in files:
        folders[file.name.folder].append(file)
    parts: list[list[RankFile]] = []
    for _, members in sorted(folders.items()):
        mine = {file.rank for file in members}
        for part in parts:
            apart = {part[0].name.iteration, members[0].name.iteration} != {None} and (
                part[0].name.iteration != members[0].name.iteration
            )
            if not apart and mine.isdisjoint(file.rank for file in part):
                part.extend(members)
                break
        else:
            parts.append(list(members))
    return parts


def _recordings(files: Sequence[RankFile]) -> list[list[RankFile]]:
    """Recordings of one folder one after another: a rank that begins again begins another; copies begin at once."""
    begins: dict[int, set[int]] = defaultdict(set)
    for file in files:
        begins[file.rank].add(file.header.begin_ns or 0)
    counts = {len(each) for each in begins.values()}
    parts: dict[int, list[RankFile]] = defaultdict(list)
    if len(counts) == 1:
        for file in files:
            parts[sorted(begins[file.rank]).index(file.header.begin_ns or 0)].append(file)
        return list(parts.values())
    number = 0
    begun: dict[int, int] = {}
    for file in sorted(files, key=lambda file: file.header.begin_ns or 0):
        begin = file.header.begin_ns or 0
        if begun.get(file.rank, begin) != begin:
            number, begun = number + 1, {}
        begun[file.rank] = begin
        parts[number].append(file)
    return list(parts.values())


def _run(files: Sequence[RankFile], copies: Copies) -> RankRun:
    by_rank: dict[int, list[RankFile]] = defaultdict(list)
    for file in files:
        by_rank[file.rank].append(file)
    kept, left_out, notes = [], [], []
    for _, claims in sorted(by_rank.items()):
        # Of files that claim one rank the largest whole one; of equal ones that with the shortest name.
        if len(claims) > 1:
            whole = [file for file in claims if copies.is_whole(file.path)] or list(claims)
            largest = max(file.header.size_bytes for file in whole)
            equal = [file for file in whole if file.header.size_bytes >= (1 - SAME_SIZE) * largest]
            best = min(equal, key=lambda file: (len(PurePath(file.path).name), file.path))
        else:
            best = claims[0]
        kept.append(best)
        left_out += [_twice(file, best, copies) for file in claims if file is not best]
        name_rank = best.name.rank
        if best.header.rank is not None and name_rank is not None and name_rank != best.header.rank:
            notes.append(
                f"{PurePath(best.path).name}: the name says rank {name_rank}, distributedInfo says {best.header.rank}, "
                "which counts."
            )
    world = max(max(file.header.world_size or 0, file.rank + 1) for file in kept)
    return RankRun(tuple(kept), world, tuple(left_out), tuple(notes))


def _twice(file: RankFile, best: RankFile, copies: Copies) -> LeftOut:
    name = PurePath(best.path).name
    if copies.same_content(file.path, best.path):
        why = f"the same content as {name}"
    elif not copies.is_whole(file.path):
        why = f"cut off, {name} is used"
    else:
        why = f"{name} is used"
    return LeftOut(file.path, f"rank {file.rank} is there twice: {why}")


def _reason_of_other_run(other: RankRun, number: int, run: RankRun) -> str:
    """The reason why files are left out, such as `another run (2): 1 rank of 2, begun 24.0 h earlier`."""
    apart = other.begin_ns - run.begin_ns if other.begin_ns and run.begin_ns else 0
    when = f", begun {duration(abs(apart))} {'later' if apart > 0 else 'earlier'}" if apart else ""
    return f"another run (--run {number}): {counted(len(other.files), 'rank')} of {other.world_size}{when}"
