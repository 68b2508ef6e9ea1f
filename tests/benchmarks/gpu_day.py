"""Everything that wants a GPU, in one command: `make gpu`; `--minutes 9 -o FOLDER` where time or place is lent.

Looks up in recordings of every workload what they should show, records the samples anew, measures the fused MLP, and
writes what it found to `docs/gpu.md`, with date and card. FOLDER is laid out like the checkout, which is the default.
Each part runs whatever became of the others, and starts nothing new once its time is over; what was left out is said.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks import gpu_report
from workloads import machine, registry

ROOT = Path(__file__).parents[2]
NOTHING_HERE = 3
"""Exit code where there is nothing to run on."""
PYTHON = (sys.executable, "-m")
DEFAULT_SHAPE_FIRST = ("--tokens", "8192", "512", "2048", "32768", "--dims", "768", "1024", "4096")

MORE = (
    "matmul_add --size 4096",
    "matmul_add --size 4096 --compile",
    "fused_mlp --impl geglu --compile",
    "fused_mlp --impl gateup --compile",
)
"""What is recorded beside the variants that workloads name."""


@dataclass
class Day:
    """What is wanted, how much time is left, and what was found."""

    device: str
    out: Path
    deadline: float
    """By `time.monotonic`; infinite without a limit."""
    only: Sequence[str] = ()
    """Workloads; empty for all."""
    verified: list[gpu_report.Recording] = field(default_factory=list)
    sampled: list[str] = field(default_factory=list)
    measured: str = ""
    trouble: list[str] = field(default_factory=list)
    """What did not run, and why."""

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.deadline - time.monotonic()


def main() -> int:
    """Run the parts and write the report; returns 1 when something failed or does not hold, 3 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu_day", description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=ROOT, metavar="FOLDER")
    parser.add_argument("--minutes", type=float, default=0.0, metavar="M", help="0 for as long as it takes (default)")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the parts without a GPU (default: cuda)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="in this order (default: all)")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORKLOAD", help="only these")
    options = parser.parse_args()
    if options.device != "cpu" and not machine.inspect_machine().has_gpu:
        print("gpu: there is no GPU that PyTorch can use; --device cpu tries the parts without one.", file=sys.stderr)
        return NOTHING_HERE
    deadline = time.monotonic() + options.minutes * 60 if options.minutes else float("inf")
    day = Day(options.device, options.out.resolve(), deadline, options.only)
    for number, part in enumerate(options.parts):
        # What one part leaves over is there for those that follow.
        PARTS[part](day, time.monotonic() + max(day.left, 0) / (len(options.parts) - number))
        write_report(day)
    for line in day.trouble:
        print(f"gpu: {line}", file=sys.stderr)
    return int(bool(day.trouble) or not all(each.holds for each in day.verified))


def verify_all(day: Day, deadline: float) -> None:
    """Record every workload in every variant, and look up what it should show."""
    for words in commands(day.only):
        if time.monotonic() >= deadline:
            day.trouble.append(f"tracetui run {words}: no time left")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            more = ["--device", day.device, "--verify", "--json", "-o", f"{scratch}/trace.json.gz"]
            code, text = run_until(deadline, [*PYTHON, "tracetui", "run", *words.split(), *more])
            document = read(text)
            if document and document.get("path"):
                found = gpu_report.recording(words, document)
                day.verified.append(found)
                print(f"{words}: {'holds' if found.holds else 'FAILS'}", flush=True)
            else:
                day.trouble.append(f"tracetui run {words}: {reason_of(code, document)}")


def record_samples(day: Day, deadline: float) -> None:
    """Record the samples with torch's own tables."""
    folder = day.out / "sample_traces"
    folder.mkdir(parents=True, exist_ok=True)
    seconds = max(deadline - time.monotonic(), 1.0)
    limit = [] if seconds == float("inf") else ["--seconds", f"{seconds:.0f}"]
    words = [sys.executable, str(ROOT / "sample_traces" / "record.py"), *samples(day.only), *limit]
    # It stops by itself before the next sample; the one it is at may end.
    code, text = run_until(deadline + 60, [*words, "--device", day.device, "-o", str(folder)])
    lines = text.splitlines()
    day.sampled = [line for line in lines if ".json.gz: " in line]
    print("\n".join(day.sampled), flush=True)
    day.trouble += [f"sample {line}" for line in lines if ".json.gz: " not in line]
    if code is None or (code and not lines):
        day.trouble.append(f"samples: {reason_of(code, None)}")


def measure(day: Day, deadline: float) -> None:
    """Measure the fused MLP, the default shape first; what was measured in the time is kept."""
    code, text = run_until(deadline, [*PYTHON, "tests.benchmarks.gpu_mlp", *DEFAULT_SHAPE_FIRST])
    day.measured = text
    print(text, flush=True)
    if code != 0:
        day.trouble.append(f"bench-gpu: {reason_of(code, None)}")


PARTS: dict[str, Callable[[Day, float], None]] = {
    "verify": verify_all,
    "samples": record_samples,
    "bench": measure,
}


def commands(only: Sequence[str] = ()) -> Iterator[str]:
    """The words after `tracetui run`, for each variant of each workload."""
    for name in registry.BUILT_IN:
        if only and name not in only:
            continue
        for _, changes in registry.built_in(name).variants:
            # A variant that is another workload is recorded as that.
            if "workload" not in changes:
                words = [f"--{key}" if value is True else f"-p {key}={value}" for key, value in changes.items()]
                yield " ".join([name, *words])
    yield from (words for words in MORE if not only or words.split()[0] in only)


def samples(only: Sequence[str]) -> list[str]:
    """The samples of some workloads, by name; none for all."""
    if not only:
        return []
    import runpy

    known = runpy.run_path(str(ROOT / "sample_traces" / "record.py"))["SAMPLES"]
    return [sample.name for sample in known if sample.words.split()[0] in only]


def run_until(deadline: float, words: Sequence[str]) -> tuple[int | None, str]:
    """Run a command in the checkout; returns its exit code, None when time ran out, and its standard output so far."""
    seconds = None if deadline == float("inf") else max(deadline - time.monotonic(), 1.0)
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(
            words,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=sys.stderr,
            start_new_session=True,
        )
        try:
            code: int | None = child.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if child.returncode is None:
                stop(child)
        output.seek(0)
        return code, output.read()


def stop(child: subprocess.Popen[bytes], grace: float = 10.0) -> None:
    """End a process and its group: asked first, so that `tracetui run` takes its own child along."""
    child.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        child.wait(grace)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def read(text: str) -> dict[str, Any] | None:
    """The JSON object that a command printed, or None."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def reason_of(code: int | None, document: dict[str, Any] | None) -> str:
    """Why there is no result, in words."""
    if code is None:
        return "no time left"
    failure = (document or {}).get("failure")
    return str(failure["message"]) if failure else f"exit code {code}"


def write_report(day: Day) -> None:
    """Write what was found so far; nothing where nothing was."""
    if not (day.verified or day.sampled or day.measured):
        return
    path = day.out / "docs" / "gpu.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(gpu_report.page(day.verified, day.sampled, day.measured, day.trouble))


if __name__ == "__main__":
    sys.exit(main())
