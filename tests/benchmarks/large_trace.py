"""A large trace: a real one repeated in time, made once and kept in the user's cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from platformdirs import user_cache_path

SHARED = Path(__file__).parents[3] / "shared"
SOURCE = SHARED / "traces" / "d03_v100_2rank_5steps_mem_occ_nccl.json.gz"
TOOL = SHARED / "tools" / "replicate_trace.py"
COPIES = 26
"""Repetitions that make 1.2 GB and 5.6 M events of the source."""


def large_trace(copies: int = COPIES) -> Path:
    """The path of the trace, made when it is not there yet.

    Raises: SystemExit where the real trace or the tool is not beside the checkout.
    """
    for needed in (SOURCE, TOOL):
        if not needed.exists():
            raise SystemExit(f"needs ../shared/{needed.relative_to(SHARED)}; name a trace with --trace")
    folder = user_cache_path("tracetui", ensure_exists=True) / "benchmarks"
    folder.mkdir(exist_ok=True)
    path = folder / f"d03_{copies}_times.json"
    if not path.exists():
        print(f"making {path.name}, once", flush=True)
        unfinished = path.with_suffix(".unfinished")
        subprocess.run([sys.executable, str(TOOL), str(SOURCE), str(unfinished), str(copies)], check=True)
        unfinished.replace(path)
    return path
