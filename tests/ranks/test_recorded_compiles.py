"""Two ranks recorded with gloo, of which one compiles again: torch's own logs and traces, beside each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracetui.opening.rank_folder import open_rank_set
from tracetui.opening.rank_reading import SummaryWork
from tracetui.ranks.compile_tables import compile_sentences
from tracetui.ranks.rank_tables import TABLES

pytestmark = [pytest.mark.full, pytest.mark.skipif(sys.platform != "linux", reason="gloo is tried on Linux alone")]

PROGRAM = """
import sys, time
import torch, torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

rank, store, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)


def slowly(graph, inputs):
    time.sleep(0.5)
    return graph.forward


@torch.compile(backend=slowly, dynamic=False)
def resized(x):
    return x.relu().sum()


resized(torch.ones(3))
dist.barrier()
with profile(activities=[ProfilerActivity.CPU]) as recorded:
    for step in range(4):
        size = 4 if rank == 1 and step == 2 else 3
        dist.all_reduce(resized(torch.ones(size)).reshape(1))
recorded.export_chrome_trace(out)
dist.destroy_process_group()
"""


def test_the_rank_that_compiles_again_is_named_and_the_other_waits(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    folder = tmp_path / "run"
    folder.mkdir()
    environment = {**os.environ, "TORCH_TRACE": str(folder)}
    workers = [
        subprocess.Popen(
            [sys.executable, "program.py", str(rank), str(tmp_path / "store"), str(folder / f"rank{rank}.json")],
            cwd=tmp_path,
            env=environment,
        )
        for rank in range(2)
    ]
    try:
        assert [worker.wait(120) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
    ranks = open_rank_set([str(folder)], work=SummaryWork(1, uses_cache=False))
    assert [log.rank for log in ranks.logs] == [0, 1]
    rows: dict[tuple[object, object], dict[str, Any]] = {
        (row["rank"], row["compile_id"]): row for row in TABLES["compiles"](ranks).rows()
    }
    assert sorted(rows) == [(0, "0/0"), (1, "0/0"), (1, "0/1")]
    again = rows[1, "0/1"]
    assert "expected 3, actual 4" in again["recompiled_for"]
    assert again["compile_us"] >= 500_000 and again["compiling_ranks"] == 0
    # Rank 0 came to the all-reduce long before rank 1 had compiled.
    assert again["compile_wait_us"] >= 250_000
    assert rows[0, "0/0"]["compile_wait_us"] == rows[1, "0/0"]["compile_wait_us"] == 0
    [sentence] = compile_sentences(ranks)
    assert sentence.startswith("Rank 1 compiled resized (program.py:") and "because size 0 of x was 3, 4" in sentence
    assert [(late.index, late.cause) for late in ranks.late] == [(1, "compile")]
