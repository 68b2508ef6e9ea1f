"""The ranks of one run with everything that is computed of them, each part when it is first asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tracetui.model.guarding import Failures
from tracetui.model.intervals import Int64
from tracetui.model.table import NULL
from tracetui.ranks.bandwidth import known_transfer
from tracetui.ranks.causes import LateRank, StretchExcess, column_of, late_ranks
from tracetui.ranks.clocks import Clocks, find_clocks
from tracetui.ranks.expert_load import ExpertLoad, expert_load
from tracetui.ranks.late_host import LateHost, find_late_host
from tracetui.ranks.matching import Matches, match
from tracetui.ranks.rank_runs import LeftOut, RankRun
from tracetui.ranks.rank_summary import RankSummary
from tracetui.ranks.slow_links import SlowLink, slow_links
from tracetui.ranks.waiting import Charges, Waiting, find_waiting
from tracetui.urls import is_url


@dataclass(frozen=True, eq=False)
class RankSet:
    """Summaries of the ranks of a run, in order of rank."""

    run: RankRun
    summaries: tuple[RankSummary, ...]
    folder: str = ""
    """Folder that was asked for, which paths are shown from."""
    failures: Failures = field(default_factory=Failures, init=False)
    """What was asked for and could not be made."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of the ranks."""
        return self.run.ranks

    def __len__(self) -> int:
        return len(self.summaries)

    @property
    def hosts(self) -> list[str | None]:
        """The host of each rank as its file or its name says it."""
        return [file.host for file in self.run.files]

    @cached_property
    def matches(self) -> Matches:
        """Which collective of one rank is which of another."""
        return match(self.summaries, self.ranks, self.hosts)

    @cached_property
    def clocks(self) -> Clocks:
        """The one clock of all ranks."""
        return find_clocks(self.matches, self.hosts, [each.header.base_ns is not None for each in self.summaries])

    @cached_property
    def waiting(self) -> Waiting:
        """Who waited for whom."""
        return find_waiting(self.matches, self.clocks)

    @cached_property
    def late(self) -> list[LateRank]:
        """The ranks that stand out, the latest first."""
        return late_ranks(self.summaries, self.matches, self.waiting, self.clocks, self.run_ns)

    def charged_to(self, index: int) -> Charges:
        """The waits that tell where a rank was late: of one behind later ranks those that would be without these."""
        is_hidden = any(each.index == index and each.behind for each in self.late)
        return self._charged_without_latest if is_hidden else self.waiting.charged

    @cached_property
    def _charged_without_latest(self) -> Charges:
        fewer, instances = self.matches.without([each.index for each in self.late if not each.behind])
        charged = find_waiting(fewer, self.clocks).charged
        return replace(charged, instance=instances[charged.instance])

    @cached_property
    def usual(self) -> StretchExcess:
        """How much longer each stretch was than that of the median rank of its operation."""
        return StretchExcess.of(self.summaries, self.matches, self.waiting)

    @cached_property
    def late_host(self) -> LateHost | None:
        """A host of which all ranks are late, where one stands out."""
        return find_late_host(self.summaries, self.matches, self.waiting, self.clocks.host, self.run_ns)

    @cached_property
    def window(self) -> tuple[int, int]:
        """The time that all ranks recorded, on the one clock in ns; empty where they have none in common."""
        rank = np.arange(len(self))
        low = self.clocks.common(rank, np.array([each.window[0] for each in self.summaries], np.int64))
        high = self.clocks.common(rank, np.array([each.window[1] for each in self.summaries], np.int64))
        return int(low.max(initial=0)), max(int(high.min()), int(low.max())) if len(high) else 0

    @cached_property
    def origin_ns(self) -> int:
        """The start of the earliest rank on the one clock, in ns, 0 without ranks."""
        low = np.array([each.window[0] for each in self.summaries], np.int64)
        return int(self.clocks.common(np.arange(len(self)), low).min()) if len(low) else 0

    @cached_property
    def step_of_instances(self) -> Int64:
        """Number of the step of each operation, NULL outside of all: that of the first rank which has one."""
        first = self.matches.first[:-1]
        step = self.of_entries("step")
        number = np.full(len(step), NULL, np.int64)
        for index, summary in enumerate(self.summaries):
            mine = (self.matches.entries.rank == index) & (step >= 0)
            number[mine] = summary.steps.number[step[mine]]
        return np.maximum.reduceat(number, first) if len(first) else first

    @cached_property
    def bytes_of_instances(self) -> Int64:
        """Size of each operation in bytes, the largest of its ranks; NULL where none is recorded."""
        first = self.matches.first[:-1]
        return np.maximum.reduceat(self.of_entries("bytes"), first) if len(first) else first

    @cached_property
    def transfer(self) -> tuple[Int64, int]:
        """The transfer of each operation in ns, NULL where it is not known, and the waits for absent ranks at most."""
        return known_transfer(self.matches, self.waiting)

    @cached_property
    def slow_links(self) -> list[SlowLink]:
        """Pairs and groups of ranks that transfer slower than others of their kind, the most costly first."""
        return slow_links(self)

    @cached_property
    def expert_load(self) -> ExpertLoad | None:
        """How evenly tokens are spread over the ranks of experts, None without a dispatch of tokens."""
        return expert_load(self)

    def of_entries(self, name: str) -> Int64:
        """A column of the ranks' collectives in the order of the entries."""
        return column_of(self.summaries, self.matches, name)

    def shown_path(self, path: str) -> str:
        """A path as it is shown: from the folder that was asked for, where it lies below it."""
        if not self.folder:
            return path
        if is_url(self.folder):
            return path.removeprefix(self.folder.rstrip("/") + "/")
        below = os.path.relpath(path, self.folder)
        return path if below.startswith(os.pardir) else below

    @property
    def run_ns(self) -> int:
        """Length in ns of the time that all ranks recorded."""
        return self.window[1] - self.window[0]

    @property
    def left_out(self) -> list[LeftOut]:
        """Files that are no row, and those of which only a part could be read, each with the reason."""
        cut = [LeftOut(each.header.path, f"used up to its end: it {each.loss}") for each in self.summaries if each.loss]
        return [*cut, *self.run.left_out]


def rank_set(run: RankRun, summaries: Sequence[RankSummary], folder: str = "") -> RankSet:
    """The set of a run and the summaries of its files."""
    files = run.files
    return RankSet(
        run,
        tuple(each.of_rank(file.path, file.offset) for file, each in zip(files, summaries, strict=True)),
        folder,
    )
