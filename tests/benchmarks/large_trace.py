"""Large traces: a real one repeated in time, or a part of it, made once and kept in the user's cache."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from platformdirs import user_cache_path

SHARED = Path(__file__).parents[3] / "shared"
SOURCE = SHARED / "traces" / "d03_v100_2rank_5steps_mem_occ_nccl.json.gz"
TOOL = SHARED / "tools" / "replicate_trace.py"
RANK_SOURCE = SHARED / "traces" / "d05a_a100_megatron_tp8_rank0.json"
RANK_TOOL = SHARED / "tools" / "replicate_ranks.py"
SMALL_COPIES, MIDDLE_COPIES, COPIES, HUGE_COPIES = 2, 6, 26, 88
"""Repetitions of the source that make 90 MB, 270 MB, 1.18 GB with 5.6 M events, and 4 GB."""
TENTH = 0.22
"""Share of the source's time that makes 10 MB."""


def benchmark_folder() -> Path:
    """Where large traces, the environments of peers and the last results are kept."""
    folder = user_cache_path("tracetui", ensure_exists=True) / "benchmarks"
    folder.mkdir(exist_ok=True)
    return folder


def large_trace(copies: int = COPIES) -> Path:
    """The path of a trace of so many repetitions, made when it is not there yet.

    Raises: SystemExit where the real trace or the tool is not beside the checkout.
    """

    def make(path: Path) -> None:
        _require(TOOL)
        subprocess.run([sys.executable, str(TOOL), str(SOURCE), str(path), str(copies)], check=True)

    return _made_once(f"d03_{copies}_times.json", make)


def first_part(share: float = TENTH) -> Path:
    """The path of a trace with the events of the first share of the source's time, written like the others."""

    def make(path: Path) -> None:
        document = orjson.loads(gzip.decompress(SOURCE.read_bytes()))
        events = document.pop("traceEvents")
        started = [event["ts"] for event in events if is_timed(event)]
        until = min(started) + share * (max(started) - min(started))
        kept = [event for event in events if not is_timed(event) or event["ts"] <= until]
        head = b"".join(b"  %b: %b,\n" % (orjson.dumps(key), orjson.dumps(value)) for key, value in document.items())
        with path.open("wb") as file:
            file.write(b"{\n" + head + b'  "traceEvents": [\n')
            file.write(b",\n".join(map(written_event, kept)))
            file.write(b"  ]\n}\n")

    return _made_once(f"d03_{share:.0%}.json".replace("%", "_percent"), make)


def is_timed(event: dict[str, Any]) -> bool:
    """Whether an event has a moment of its own, unlike metadata and the marks of the whole capture."""
    return event.get("ph") != "M" and isinstance(event.get("pid"), int) and event.get("ts", 0) > 0


def written_event(event: dict[str, Any]) -> bytes:
    """An event on lines as Kineto and the tool break them."""
    line = orjson.dumps(event).replace(b',"ts"', b',\n    "ts"', 1).replace(b',"args":', b',\n    "args":', 1)
    return b"  " + line + b"\n"


def packed(trace: Path) -> Path:
    """The path of a trace with gzip, made when it is not there yet."""

    def make(path: Path) -> None:
        with trace.open("rb") as source, gzip.open(path, "wb", 6) as target:
            shutil.copyfileobj(source, target, 1 << 20)

    return _made_once(f"{trace.name}.gz", make)


def rank_set(ranks: int) -> Path:
    """A folder with so many ranks, made of one of a Megatron run, one of which is slow."""

    def make(path: Path) -> None:
        _require(RANK_TOOL)
        words = ["--base", str(RANK_SOURCE), "--ranks", str(ranks), "--slow", f"{ranks // 7}:factor=1.3"]
        subprocess.run([sys.executable, str(RANK_TOOL), str(path), *words], check=True)

    return _made_once(f"{ranks}_ranks", make)


def _made_once(name: str, make: Callable[[Path], None]) -> Path:
    path = benchmark_folder() / name
    if not path.exists():
        _require(SOURCE)
        print(f"making {name}, once", flush=True)
        # The ending stays: the tool packs what ends in .gz.
        unfinished = path.with_name(f"unfinished_{name}")
        try:
            make(unfinished)
            unfinished.replace(path)
        finally:
            if unfinished.is_dir():
                shutil.rmtree(unfinished)
            unfinished.unlink(missing_ok=True)
    return path


def _require(path: Path) -> None:
    if not path.exists():
        raise SystemExit(f"needs ../shared/{path.relative_to(SHARED)}; name a trace with --trace")
