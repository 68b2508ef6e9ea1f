"""A simulated run of ranks that compile: a trace and a log of each, whose collectives end when the last has arrived.

`slow_compile_waits` works the waits out from these files again, slice by slice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.compile_logs import EPOCH_US, compilation
from tests.support.ranks import ALL_REDUCE, args_of

FIRST_US = 10_000
STEP_US = 10_000
"""Time of a step in which no rank compiles, less its collective."""
TRANSFER_US = 100

Compiling = tuple[str, int, int, str]
"""Compile id, start, duration in us from the start of the step, and reason."""


def size_reason(expected: int, actual: int) -> str:
    """The guard of a size as torch writes it."""
    return f"0/0: tensor 'x' size mismatch at index 0. expected {expected}, actual {actual}"


def write_compiling_ranks(
    folder: Path,
    plans: Sequence[Mapping[int, Sequence[Compiling]]],
    steps: int = 4,
    logs: Path | None = None,
    logged: Sequence[int] | None = None,
) -> Path:
    """Write `rankN.json` of each rank, and to `logs` the log of those that are `logged`; returns the folder.

    A plan has the compilations of a rank by step; the device of the rank is idle while it compiles, and late by that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    events: list[list[dict[str, Any]]] = [[] for _ in plans]
    texts = ["" for _ in plans]
    begin = FIRST_US
    for step in range(steps):
        arrivals = []
        for rank, plan in enumerate(plans):
            taken = 0
            for key, start, dur, reason in plan.get(step, ()):
                texts[rank] += compilation(key, begin + start, dur, reason, pid=100 + rank)
                taken = max(taken, start + dur)
            arrivals.append(begin + taken + STEP_US)
            _slice(events[rank], "gemm", "kernel", begin + taken, STEP_US, 7)
        end = max(arrivals) + TRANSFER_US
        for rank, arrival in enumerate(arrivals):
            args = args_of(step, range(len(plans)))
            _slice(events[rank], ALL_REDUCE, "kernel", arrival, end - arrival, 20, **args)
            _slice(events[rank], f"ProfilerStep#{step}", "user_annotation", begin, end - begin, 100 + rank, 100 + rank)
        begin = end
    for rank, text in enumerate(texts):
        trace = {
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(plans)},
            "host_name": "node0",
            "baseTimeNanoseconds": 1000 * EPOCH_US,
            "deviceProperties": [{"id": 0}],
            "traceEvents": events[rank],
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(trace))
        if text and (logged is None or rank in logged):
            place = logs or folder
            place.mkdir(exist_ok=True)
            (place / f"dedicated_log_torch_trace_rank_{rank}_x{rank}.log").write_text(text)
    return folder


def _slice(
    events: list[dict[str, Any]], name: str, cat: str, start: int, dur: int, tid: int, pid: int = 0, **args: Any
) -> None:
    where = {"stream": tid, "device": 0} if cat == "kernel" else {}
    about = {"ph": "X", "name": name, "cat": cat, "ts": start, "dur": dur, "pid": pid, "tid": tid}
    events.append(about | {"args": args | where})


def slow_compile_waits(folder: Path, logs: Path) -> dict[tuple[int, str], int]:
    """Us that others waited for each compilation, by rank and id: all-reduces by hand, microsecond by microsecond."""
    kernels = {}
    for path in sorted(folder.glob("rank*.json")):
        trace = json.loads(path.read_text())
        rows = [each for each in trace["traceEvents"] if each["name"] == ALL_REDUCE]
        kernels[trace["distributedInfo"]["rank"]] = {each["args"]["Seq"]: (each["ts"], each["dur"]) for each in rows}
    compiling: dict[int, dict[str, set[int]]] = {}
    for path in logs.glob("*torch_trace_rank_*.log"):
        rank = int(re.findall(r"rank_(\d+)", path.name)[0])
        marks = re.findall(
            r'"name": "dynamo",\s*"ph": "([BE])",\s*"ts": (\d+)(?:.*?)"compile_id": "([^"]*)"', path.read_text(), re.S
        )
        open_: dict[str, int] = {}
        for letter, moment, key in marks:
            if letter == "B":
                open_[key] = int(moment) - EPOCH_US
            else:
                compiling.setdefault(rank, {})[key] = set(range(open_[key], int(moment) - EPOCH_US))
    waits: dict[tuple[int, str], int] = {}
    for seq in next(iter(kernels.values())):
        arrival = {rank: by_seq[seq][0] for rank, by_seq in kernels.items()}
        late = max(arrival, key=lambda rank: arrival[rank])
        before = max((start + dur for start, dur in kernels[late].values() if start < arrival[late]), default=FIRST_US)
        mine = {us for each in compiling.get(late, {}).values() for us in each if before <= us < arrival[late]}
        for rank, came in arrival.items():
            if rank not in compiling or late not in compiling or arrival[late] - came < 1:
                continue
            others = {us for each in compiling[rank].values() for us in each if before <= us < came}
            if len(mine) <= 2 * len(others):
                continue
            for key, each in compiling[late].items():
                shared = len([us for us in each if came <= us < arrival[late]])
                if shared:
                    waits[late, key] = waits.get((late, key), 0) + min(shared, len(mine) - len(others))
    return waits
