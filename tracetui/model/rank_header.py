"""What a trace says of the rank that recorded it: the keys around its events, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracetui.model.whole_numbers import MAX_TIME_NS, whole_number

HEADER_KEYS = ("distributedInfo", "host_name", "baseTimeNanoseconds", "traceName")
"""Keys beside the events that tell which rank of which run recorded a file."""
MAX_RANKS = 1 << 20
"""Ranks of a run or a group beyond which a number is none: every rank that may be missing is listed."""


@dataclass(frozen=True)
class GroupRecord:
    """A process group as `distributedInfo` lists it."""

    name: str
    description: str
    size: int
    ranks: tuple[int, ...]
    """Global ranks of its members, empty where the file does not list them."""


@dataclass(frozen=True)
class RankHeader:
    """What the head and the tail of a file say; what they do not say is None."""

    path: str
    size_bytes: int
    rank: int | None = None
    world_size: int | None = None
    backend: str = ""
    groups: tuple[GroupRecord, ...] = ()
    host: str | None = None
    base_ns: int | None = None
    trace_name: str = ""
    begin_ns: int | None = None
    """Time of the first timed event in ns, with the base where there is one."""
    is_whole: bool | None = None
    """Whether the file ends as a trace does; None where its end was not read."""


def header_fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a header that the keys around the events give; what is malformed counts as absent."""
    info = metadata.get("distributedInfo")
    info = info if isinstance(info, Mapping) else {}
    host, name = metadata.get("host_name"), metadata.get("traceName")
    return {
        "rank": _whole(info.get("rank"), MAX_RANKS),
        "world_size": _whole(info.get("world_size"), MAX_RANKS) or None,
        "backend": str(info.get("backend", "")),
        "groups": _groups(info.get("pg_config")),
        "host": host if isinstance(host, str) and host else None,
        "base_ns": _whole(metadata.get("baseTimeNanoseconds"), MAX_TIME_NS),
        "trace_name": name if isinstance(name, str) else "",
    }


def _groups(config: object) -> tuple[GroupRecord, ...]:
    entries = [entry for entry in config if isinstance(entry, Mapping)] if isinstance(config, list) else []
    return tuple(_group(entry) for entry in entries)


def _group(entry: Mapping[str, Any]) -> GroupRecord:
    listed = entry.get("ranks")
    members = _members(listed) if isinstance(listed, list) else ()
    size = _whole(entry.get("pg_size"), MAX_RANKS) or len(members)
    return GroupRecord(str(entry.get("pg_name", "")), str(entry.get("pg_desc", "")), size, members)


def _members(listed: list[Any]) -> tuple[int, ...]:
    # A group of a thousand ranks stands in a thousand files.
    if {*map(type, listed)} == {int} and min(listed) >= 0 and max(listed) <= MAX_RANKS:
        return tuple(listed)
    return tuple(rank for each in listed if (rank := _whole(each, MAX_RANKS)) is not None)


def _whole(value: object, limit: int) -> int | None:
    """A number from 0 to a limit, None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    number = whole_number(value, limit)
    return number if number is not None and number >= 0 else None
