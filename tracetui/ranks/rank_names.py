"""What the names of files and folders say of a rank: the conventions of the programs that write them (R5.1).

A name is asked where the file itself names no rank, and for what no file says: the stage, the replica, the iteration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

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


@dataclass(frozen=True)
class RankName:
    """What the path of a file says; None or empty for what it does not say."""

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
    """What a path says; `pattern` is the user's own, with the rank in its first group, and is asked first."""
    name, parents = PurePath(path).name, PurePath(path).parent
    in_folder = _FOLDER_PATTERN.match(parents.name)
    folder = parents.parent if in_folder else parents
    iteration = _ITERATION.match(folder.name)
    served = _SGLANG.match(name)
    replica = _VLLM_REPLICA.search(name)
    handler = _HANDLER.match(name)
    return RankName(
        rank=_rank(path, name, pattern, served, in_folder),
        pipeline_rank=(int(served["pp"]), int(served["tp"])) if served and served["pp"] else None,
        replica=_number(served["dp"] if served else replica[1] if replica else None),
        run=" ".join(filter(None, (served["run"], (served["stage"] or "").upper()))) if served else "",
        last_number=_last_number(name),
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


def _last_number(name: str) -> int | None:
    match = _LAST_NUMBER.search(_SUFFIXES.sub("", name))
    return int(match[1]) if match else None
