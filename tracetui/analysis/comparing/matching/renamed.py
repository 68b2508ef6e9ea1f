"""Kernels that go by another name on the other side: found in one place, they are known in every other.

A library that names a kernel anew does so everywhere. Where the same operator put one kernel on the GPU on either side
the names belong together; where one side has more of them between two posts, that is what tells which one is meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tracetui.analysis.comparing.matching.classes import WorkClass

Name = tuple[str, str]
"""A kernel's name as it compares between traces, and its operator."""


@dataclass(frozen=True)
class Renamed:
    """Names that belong together, each of one side with one of the other."""

    of_a: dict[Name, Name]
    """The name in B by that in A."""

    def key_a(self, work: WorkClass) -> Name | None:
        """What work of A has in common with that of B; None for work whose name has no other."""
        found = _name(work)
        return found if found in self.of_a else None

    def key_b(self, work: WorkClass) -> Name | None:
        """Likewise of B."""
        return self._of_b.get(_name(work))

    @cached_property
    def _of_b(self) -> dict[Name, Name]:
        return {there: here for here, there in self.of_a.items()}


def renamed(
    found: Iterable[tuple[WorkClass, WorkClass, int]],
    often_a: Iterable[tuple[WorkClass, int]],
    often_b: Iterable[tuple[WorkClass, int]],
) -> Renamed:
    """The names that were mostly found beside each other, of classes and how often; and that not just here and there.

    The others are how much work of each class either side has.
    """
    pairs, here, there = Counter[tuple[Name, Name]](), Counter[Name](), Counter[Name]()
    for before, after, count in found:
        one, two = _name(before), _name(after)
        pairs[one, two] += count
        here[one] += count
        there[two] += count
    every = _counted(often_a), _counted(often_b)
    return Renamed(
        {
            one: two
            for (one, two), count in pairs.items()
            if 2 * count > max(here[one], there[two]) and 2 * count >= min(every[0][one], every[1][two])
        }
    )


def _counted(often: Iterable[tuple[WorkClass, int]]) -> Counter[Name]:
    found = Counter[Name]()
    for work, count in often:
        found[_name(work)] += count
    return found


def _name(work: WorkClass) -> Name:
    return work.plain, work.op
