"""A simulated run as trace files, one per rank: one rank's kernels are slow, others wait for it in all-reduces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASE_NS = 1_790_857_026 * 10**9
KERNELS = 4
"""Kernels before each all-reduce."""


def write_ranks(
    folder: Path,
    ranks: int = 4,
    late: int | None = 2,
    steps: int = 3,
    per_host: int = 2,
    ahead_us: float = 1500.0,
    world: int | None = None,
) -> Path:
    """Write `rankN_trace.json` of each rank and return the folder; hosts after the first are `ahead_us` ahead.

    The kernels of the rank that is `late` take 1.5 times as long; None for a run in which all are equal.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        text = json.dumps(_trace(rank, ranks, late, steps, per_host, ahead_us, world or ranks))
        (folder / f"rank{rank}_trace.json").write_text(text)
    return folder


def _trace(
    rank: int, ranks: int, late: int | None, steps: int, per_host: int, ahead_us: float, world: int
) -> dict[str, Any]:
    host = rank // per_host
    ahead = ahead_us * host
    events: list[dict[str, Any]] = []
    moment, seq, correlation = 100.0, 0, 1

    def add(name: str, cat: str, start: float, dur: float, tid: int, **args: Any) -> None:
        pid = 0 if cat == "kernel" else 1000 + rank
        events.append(
            {"ph": "X", "name": name, "cat": cat, "ts": start + ahead, "dur": dur, "pid": pid, "tid": tid, "args": args}
        )

    for step in range(steps):
        begin = moment
        for _ in range(2):
            own = 400.0 * (1.5 if rank == late else 1.0) + 3.0 * (rank % 3)
            slowest = 400.0 * (1.5 if late is not None else 1.0) + 6.0
            start = moment
            for number in range(KERNELS):
                add("cudaLaunchKernel", "cuda_runtime", start - 20 + number, 0.8, 1000 + rank, correlation=correlation)
                add(
                    f"gemm_{number}",
                    "kernel",
                    start + number * own,
                    own - 2,
                    7,
                    stream=7,
                    device=0,
                    correlation=correlation,
                )
                correlation += 1
            arrival = start + KERNELS * own
            end = start + KERNELS * slowest + 150.0
            group = {
                "Collective name": "allreduce",
                "In msg nelems": 1 << 20,
                "Out msg nelems": 1 << 20,
                "dtype": "Float",
                "Group size": world,
                "Process Group Name": "0",
                "Process Group Ranks": str(list(range(world))),
                "Seq": seq,
            }
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            add("cudaLaunchKernel", "cuda_runtime", start - 15, 0.8, 1000 + rank, correlation=correlation)
            add(name, "kernel", arrival, end - arrival, 20, stream=20, device=0, correlation=correlation, **group)
            correlation += 1
            seq += 1
            moment = end + 30.0
        add(f"ProfilerStep#{step}", "user_annotation", begin - 30, moment - begin, 1000 + rank)
    return {
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        "host_name": f"node{host}",
        "baseTimeNanoseconds": BASE_NS,
        "deviceProperties": [{"id": 0, "name": "simulated", "numSms": 100}],
        "traceEvents": events,
    }
