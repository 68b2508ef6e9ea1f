"""Slow, obvious scripts that say what the fast code must say."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tracetui.reading.load_progress import collector_off


class SlowNesting(NamedTuple):
    """Parent, end for nesting, and what cut it short, for every interval."""

    parent: list[int]
    close: list[int]
    cut_by: list[int]


def slow_nesting(group: list[int], start: list[int], end: list[int], tolerance: int) -> SlowNesting:
    """One stack per group, one interval after another (R1.8-R1.10)."""
    parent, close, cut_by = [-1] * len(start), list(end), [-1] * len(start)
    stack: list[int] = []
    for i in range(len(start)):
        if i and group[i] != group[i - 1]:
            stack = []
        while stack:
            top = stack[-1]
            ended = close[top] < start[i] or (close[top] == start[i] and start[top] < start[i])
            if not ended and end[i] <= close[top] + tolerance:
                parent[i] = top
                close[i] = min(end[i], close[top])
                break
            if not ended:
                close[top], cut_by[top] = start[i], i
            stack.pop()
        stack.append(i)
    return SlowNesting(parent, close, cut_by)


def slow_pairs(events: list[tuple[int, int, bool, str]]) -> tuple[set[tuple[int, int]], set[int], set[int]]:
    """Pairs, open begins and stray ends of (group, time, begins, name), with "" for a nameless end."""
    stacks: dict[int, list[int]] = {}
    pairs: set[tuple[int, int]] = set()
    stray: set[int] = set()
    for i in sorted(range(len(events)), key=lambda i: (events[i][1], i)):
        group, _, begins, name = events[i]
        stack = stacks.setdefault(group, [])
        if begins:
            stack.append(i)
            continue
        match = next((j for j in reversed(stack) if name in ("", events[j][3])), None)
        if match is None:
            stray.add(i)
        else:
            stack.remove(match)
            pairs.add((match, i))
    return pairs, {i for stack in stacks.values() for i in stack}, stray


def slow_events(path: Path) -> list[dict[str, Any]]:
    """Every event of a well-formed file as a dictionary."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    with collector_off():
        content = orjson.loads(data)
    events: list[dict[str, Any]] = content["traceEvents"] if isinstance(content, dict) else content
    return events
