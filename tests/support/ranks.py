"""Small sets of ranks made by hand: collectives that begin when their rank arrives and end when all have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.build import Event, annotation, kernel, launch, make_trace, op
from tracetui.model.recorded import RankHeader
from tracetui.ranks.rank_runs import Copies, RankRun, rank_runs
from tracetui.ranks.rank_set import RankSet, rank_set
from tracetui.ranks.rank_summary import RankSummary
from tracetui.ranks.stretches import summarise_trace

MS = 1_000_000
"""Ns of a millisecond."""
BASE = 1_790_857_026 * 10**9
"""Ns of a moment in 2026."""
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
NO_COPIES = Copies(lambda one, other: False, lambda path: True)


@dataclass
class RankPlan:
    """What a rank does; times in ns of the true time."""

    rank: int
    host: str | None = "node0"
    ahead: int = 0
    """What its clock is ahead, in ns."""
    drift: float = 0.0
    """Share by which its clock gains."""
    events: list[Event] = field(default_factory=list)
    base: int | None = BASE

    def clock(self, moment: int) -> int:
        """What its clock shows at a moment."""
        return moment + self.ahead + round(self.drift * moment)

    def collective(self, start: int, end: int, name: str = ALL_REDUCE, **args: Any) -> None:
        """A collective from its arrival to its end."""
        first, last = self.clock(start), self.clock(end)
        self.events.append(kernel(name, first, last - first, stream="stream 20", args=args))

    def rooted(self, operation: str, start: int, end: int, recorded: int, **args: Any) -> None:
        """A collective with a root, launched by an operator that records a rank."""
        first, last = self.clock(start), self.clock(end)
        number = len(self.events) + 1
        told = args | {"Collective name": operation}
        name = f"ncclDevKernel_{operation.title()}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        self.events += [
            op("record_param_comms", first - 2000, 1500, args=told | {"Rank": recorded}),
            launch(first - 1500, 500, number),
            kernel(name, first, last - first, stream="stream 20", correlation=number, args=told),
        ]

    def compute(self, start: int, dur: int, name: str = "gemm") -> None:
        """A kernel that computes."""
        first, last = self.clock(start), self.clock(start + dur)
        self.events.append(kernel(name, first, last - first))

    def step(self, number: int, start: int, dur: int) -> None:
        """A step of the profiler."""
        first, last = self.clock(start), self.clock(start + dur)
        self.events.append(annotation(f"ProfilerStep#{number}", first, last - first))

    def summary(self, world: int) -> RankSummary:
        """The summary of its trace."""
        origin = min(event.start for event in self.events)
        moved = [replace(each, start=each.start - origin) for each in self.events]
        trace = make_trace(
            moved,
            metadata=metadata(self.rank, world, self.host, self.base),
            origin_ns=origin + (self.base or 0),
            label=f"rank{self.rank}_trace.json",
        )
        return summarise_trace(trace)


def metadata(rank: int, world: int, host: str | None, base: int | None = BASE) -> Mapping[str, Any]:
    """The keys around the events of a rank's trace."""
    keys: dict[str, Any] = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world}}
    keys |= {} if host is None else {"host_name": host}
    return keys | ({} if base is None else {"baseTimeNanoseconds": base})


def args_of(
    seq: int | None, members: Sequence[int], name: str = "0", elements: int = 1 << 20, **more: Any
) -> dict[str, Any]:
    """What torch writes on the kernel of an all-reduce."""
    args = {
        "Collective name": "allreduce",
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "dtype": "Float",
        "Group size": len(members),
        "Process Group Name": name,
        "Process Group Ranks": str(list(members)),
    }
    return args | ({} if seq is None else {"Seq": seq}) | more


def run_together(plans: Sequence[RankPlan], arrivals: Sequence[Sequence[int]], transfer: int = MS, **args: Any) -> None:
    """Collectives of all ranks: one row of arrivals per collective, each ending `transfer` after the last arrival."""
    members = [plan.rank for plan in plans]
    for number, row in enumerate(arrivals):
        end = max(row) + transfer
        for plan, start in zip(plans, row, strict=True):
            plan.collective(start, end, **args_of(number, members, **args))


def set_of(plans: Sequence[RankPlan], world: int | None = None) -> RankSet:
    """The set of the ranks."""
    size = world or len(plans)
    summaries = [plan.summary(size) for plan in plans]
    return rank_set(run_of([summary.header for summary in summaries]), summaries)


def run_of(headers: Sequence[RankHeader]) -> RankRun:
    """The only run of some files."""
    (run,) = rank_runs(headers, NO_COPIES).runs
    return run
