"""Sentences about sides whose parts differ in what they run: what each sort of them takes, and how to compare one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.comparing.sentences.words import digits, joined, listed, per, unit
from tracetui.analysis.comparing.sides.composition import Group, groups, is_mixed
from tracetui.analysis.comparing.sides.measures import measures
from tracetui.analysis.comparing.sides.side import RUN, Side

TOLD = (
    ("gpu_span_us", "GPU{}, from the first kernel to the last"),
    ("gpu_busy_us", "GPU time{}"),
    ("cpu_us", "CPU time{}"),
)
"""The times that are told of every sort of part."""
MOST = 3
"""So many sorts are told apart in a sentence."""


def mixed_told(a: Side, b: Side, names: tuple[str, str] = ("A", "B")) -> Iterator[str]:
    """Of which side the parts differ in what they run, and which of them could be compared."""
    for name, side in zip(names, (a, b), strict=True):
        if is_mixed(side):
            found = groups(side)
            what = "kernels" if len(side.work()[0]) else "operators"
            counts = [f"{group.count:,}" for group in found]
            each = f"{joined(counts) if len(counts) <= MOST else listed(counts, MOST)} {what}"
            if len(set(counts)) < len(counts):
                each = f"{each}, and not the same"
            scopes = " or ".join(_scope(side, group) for group in found[:2])
            yield f"The {side.sort}s of {name} differ in what they run ({each}): compare {scopes}."


def mixed_times(a: Side, b: Side) -> Iterator[str]:
    """The times of each sort of parts, without a word about which is faster."""
    for measure, words in TOLD:
        values = {name: list(_medians(side, measure)) for name, side in (("A", a), ("B", b))}
        known = [value for each in values.values() for value in each if value == value]
        if known:
            scale = unit(known)
            sides = [f"{name} {joined([_number(us / scale.scale) for us in each])}" for name, each in values.items()]
            yield f"{words.format(per(a, b))}, in {scale.name}: {', '.join(sides)}."


def _medians(side: Side, measure: str) -> Iterator[float]:
    """Of each sort of parts in turn; NaN for what is not known."""
    values = measures(side)[measure].values
    for group in groups(side)[:MOST]:
        mine = values[group.parts]
        yield float(np.median(mine))


def _number(value: float) -> str:
    return digits(value) if value == value else "unknown"


def _scope(side: Side, group: Group) -> str:
    """What names the first part of a group on the command line."""
    number = int(side.number[group.parts[0]])
    return f"#{side.scope}[{number}]" if side.sort == RUN else f"#{number}"
