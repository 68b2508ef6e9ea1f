"""Record the sample traces of this folder by tracetui's own commands: `python sample_traces/record.py`.

Every sample is one `tracetui run`, on the GPU where there is one; its name ends in the device. Beside each stands
torch's own table of the same recording, as a second source for the numbers. What the profiler writes about the machine
is taken out: host, user, paths, the trace's id.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


@dataclass(frozen=True)
class Sample:
    """A trace of this folder: its name without the device, and the words after `tracetui run`."""

    name: str
    words: str
    needs_gpu: bool = False


SAMPLES = (
    Sample("matmul_add_64_cold_eager", "matmul_add --size 64 --cold"),
    Sample("matmul_add_64_cold_compile", "matmul_add --size 64 --cold --compile"),
    Sample("matmul_add_4096_warm_eager", "matmul_add --size 4096"),
    Sample("matmul_add_4096_warm_compile", "matmul_add --size 4096 --compile"),
    Sample("linear_eager", "linear"),
    Sample("linear_compile", "linear --compile"),
    Sample("mlp_eager", "mlp"),
    Sample("mlp_compile", "mlp --compile"),
    Sample("fused_mlp_geglu", "fused_mlp --impl geglu", needs_gpu=True),
    Sample("fused_mlp_gateup", "fused_mlp --impl gateup", needs_gpu=True),
    Sample("split_stack_eager", "split_stack"),
    Sample("split_stack_compile", "split_stack --compile"),
    Sample("combined_eager", "combined"),
    Sample("combined_compile", "combined --compile"),
    Sample("attention_naive", "attention --impl naive"),
    Sample("attention_flash", "attention --impl sdpa --backend flash"),
    Sample("mlp_train", "sample_traces/programs.py:mlp_train"),
)

PRIVATE = ("host_name", "username", "traceName", "logical_server_subtype", "trace_id")
"""Top-level keys that say where a trace was made and nothing about it."""
FOLDERS = re.compile(r"(?<![^\s\"'(=,:])~?/(?:[^/\s\"'(),:]+/)+")
"""The folders of an absolute path; what follows is a file's name."""
MAKERS = {"nvidia", "amd", "intel", "tesla", "geforce", "instinct", "radeon", "graphics", "r"}
"""Words of a GPU's name that do not tell it from others."""


def main() -> int:
    """Record the samples named on the command line, or all; returns 1 when one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", nargs="*", metavar="SAMPLE", help="names without the device (default: all)")
    parser.add_argument("-o", "--output", type=Path, default=HERE, metavar="FOLDER")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda (default: the GPU where there is one)")
    parser.add_argument("--seconds", type=float, default=0.0, metavar="S", help="start no more after S seconds")
    options = parser.parse_args()
    names = [sample.name for sample in SAMPLES]
    unknown = set(options.samples) - set(names)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    options.output.mkdir(parents=True, exist_ok=True)
    wanted = [sample for sample in SAMPLES if not options.samples or sample.name in options.samples]
    return record_all(wanted, options.device, options.output, options.seconds)


def record_all(samples: Sequence[Sample], device: str, folder: Path, seconds: float) -> int:
    """Record one after the other and say what became of each; what fails does not keep the others from it."""
    started, failed = time.monotonic(), 0
    for sample in samples:
        if seconds and time.monotonic() - started > seconds:
            print(f"{sample.name}: no time left", flush=True)
            failed = 1
            continue
        result = record(sample, device, folder)
        failed |= result is None
        if result:
            print(f"{result.name}: {result.stat().st_size / 1000:.1f} kB", flush=True)
    return failed


def record(sample: Sample, device: str, folder: Path) -> Path | None:
    """Record a sample; returns the path of the trace, or None when there is none, having said why."""
    with tempfile.TemporaryDirectory() as scratch:
        # The command is kept in the trace: with this it reads as it does from the checkout.
        Path(scratch, HERE.name).symlink_to(HERE)
        result = subprocess.run(
            [sys.executable, "-m", "tracetui", *words_of(sample, device)],
            cwd=scratch,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if result.returncode:
            reason = (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1]
            print(f"{sample.name}: {'left out, ' if sample.needs_gpu else ''}{reason}", flush=True)
            return None
        path = Path(scratch, result.stdout.splitlines()[0])
        return keep(sample, path, folder)


def keep(sample: Sample, path: Path, folder: Path) -> Path:
    """Put a recording, without what is private in it, and the table beside it into a folder; the path of the trace."""
    trace = without_private(json.loads(gzip.decompress(path.read_bytes())))
    kept = folder / f"{sample.name}_{device_name(trace['tracetui'])}.json.gz"
    # No time in the gzip header: the same trace gives the same bytes.
    kept.write_bytes(gzip.compress(json.dumps(trace, separators=(",", ":")).encode(), mtime=0))
    table = path.with_name(path.name.replace(".json.gz", ".txt"))
    shutil.copyfile(table, kept.with_name(kept.name.replace(".json.gz", ".txt")))
    return kept


def environment() -> dict[str, str]:
    """Where the commands run: with this checkout, and on one thread, for some operators of the CPU call others then."""
    found = os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "workloads"), os.environ.get("PYTHONPATH")]))
    return {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": found}


def words_of(sample: Sample, device: str) -> list[str]:
    """The command of a sample, without the name of the program."""
    where = [] if device == "auto" else ["--device", device]
    return ["run", *sample.words.split(), *where, "--no-open", "--table"]


def device_name(about: Mapping[str, Any]) -> str:
    """What a sample's name ends in: `cpu`, or the GPU in a word: `h100` for `NVIDIA H100 80GB HBM3`, `rtx3090`."""
    gpu = about.get("gpu")
    if not gpu:
        return str(about["device"]).partition(":")[0]
    name = ""
    for word in re.split(r"[^a-z0-9]+", str(gpu["name"]).casefold()):
        if word not in MAKERS:
            name += word
            if any(letter.isdigit() for letter in word):
                # What follows is how much memory it has, and of which kind.
                break
    return name or "gpu"


def without_private(value: Any) -> Any:
    """A trace without what names the machine, its user or their folders."""
    if isinstance(value, str):
        return FOLDERS.sub("", value)
    if isinstance(value, list):
        return [without_private(each) for each in value]
    if isinstance(value, dict):
        return {key: without_private(each) for key, each in value.items() if key not in PRIVATE}
    return value


if __name__ == "__main__":
    sys.exit(main())
