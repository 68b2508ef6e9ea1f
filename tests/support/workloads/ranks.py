"""A workload of another package that runs on two ranks, of which one fails as it is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tracetui_workloads.recording.launcher import Options, Request

_SOURCE = """
from tracetui_workloads.api import Param, Prepared, Workload


def prepare(context, ranks, how):
    import os, signal, time
    import torch
    import torch.distributed as dist

    if how == "build" and context.rank == 1:
        raise ValueError("no data here")
    calls = 0

    def step():
        nonlocal calls
        calls += 1
        dist.all_reduce(torch.ones(4))
        if context.rank != 1 or calls != 3:
            return
        print("last words", flush=True)
        if how == "raise":
            raise ValueError("a bad batch")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "exit":
            os._exit(7)
        if how == "hang":
            time.sleep(600)

    return Prepared(step, label="faulty_step")


WORKLOAD = Workload(
    "faulty", "one rank fails", "faulty:prepare", params=(Param("ranks", 2), Param("how", "none")), ranks="ranks"
)
"""


def faulty_site(folder: Path) -> Mapping[str, str]:
    """Install the package in a folder; returns the environment in which a recorder finds it."""
    (folder / "faulty.py").write_text(_SOURCE)
    about = folder / "faulty-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[tracetui.workloads]\nfaulty = faulty:WORKLOAD\n")
    return {"PYTHONPATH": str(folder)}


def faulty(out: Path, how: str) -> Request:
    """A request for the workload: `raise`, `kill`, `exit`, `hang`, `build`, or `none`."""
    return Request("faulty", str(out), {"ranks": 2, "how": how}, Options(device="cpu", active=2), ranks=2)
