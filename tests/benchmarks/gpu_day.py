"""Everything that wants a GPU, in calls of some minutes: `make gpu`, or on a machine that is lent for a while

    python3 -m tests.benchmarks.gpu_day --minutes 9 --pack FOLDER

Records every workload once, best first, looks up in each recording what it should show, runs the kernels' numeric
tests on the card, records a step with stacks and memory as torch alone does, and measures without the profiler. What
is done lies in the work folder (.gpu_day of the checkout), and a second call goes on where the first one stopped.
`--pack` leaves at most 8 files of at most 16 MB; `python -m tests.benchmarks.gpu_results` makes the page and the
samples of them, on any machine. --device cpu tries all of it without a GPU, and says so in everything it writes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracetui_workloads import registry

from tests.benchmarks.gpu_packing import pack
from tracetui.cli.workloads import variants_as_words

ROOT = Path(__file__).parents[2]
WORK = ROOT / ".gpu_day"
NOTHING_HERE = 3
"""Exit code where there is nothing to run on."""
PYTHON = (sys.executable, "-m")
RECORDING_SECONDS = 150
"""Maximum seconds of one recording, which compiles, warms up, times and records."""
LEAST_SECONDS = 20.0
"""Less is not worth starting a recording."""

FIRST = (
    *("split_stack", "combined", "mlp", "fused_mlp", "linear", "matmul_add", "attention", "train_step", "decode"),
    *("sync", "copies", "graph_breaks", "conv", "dataloader", "ddp"),
)
"""Workloads that are recorded first, in this order; the others follow."""
MORE = (
    "matmul_add --size 64 --cold",
    "matmul_add --size 64 --cold --compile",
    "matmul_add --size 4096",
    "matmul_add --size 4096 --compile",
)
"""What is recorded beside the variants that workloads name: the samples, and what the lessons speak of."""
BENCH_SHAPES = ("--tokens", "2048", "8192", "--dims", "768", "4096")
PUZZLERS = ("split_stack", "combined")


@dataclass
class Day:
    """Where things are, and how much time is left."""

    device: str
    work: Path
    end: float
    """By `time.monotonic`; infinite without a limit."""
    only: Sequence[str] = ()
    """Workloads; empty for all."""

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.end - time.monotonic()

    def outcome(self, name: str) -> dict[str, Any] | None:
        """What became of something in an earlier call, None for what has to be done."""
        with suppress(OSError, ValueError):
            found = json.loads((self.work / f"{name}.outcome.json").read_text())
            return found if isinstance(found, dict) else None
        return None

    def note(self, name: str, **outcome: Any) -> None:
        """Keep what became of something, so that it is not done again."""
        self.work.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"name": name, "device": self.device, **outcome}, indent=1)
        (self.work / f"{name}.outcome.json").write_text(text)
        said = outcome.get("trouble") or ("holds" if outcome.get("holds", True) else "does not show what it should")
        print(f"{name}: {said}", flush=True)


def main() -> int:
    """Run what is left of the parts; returns 1 when something failed or does not hold, 3 without a GPU."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.benchmarks.gpu_day",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=0.0, metavar="M", help="0 for as long as it takes (default)")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="write what was not packed yet into few files")
    parser.add_argument(
        "--work", type=Path, default=WORK, metavar="FOLDER", help="where it is kept (default: .gpu_day)"
    )
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the parts without a GPU (default: cuda)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="in this order (default: all)")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORKLOAD", help="only these")
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60 if options.minutes else float("inf")
    day = Day(options.device, options.work.resolve(), end, options.only)
    reason = look_at_card(day)
    if reason:
        print(f"gpu: {reason}; --device cpu tries the parts without one.", file=sys.stderr)
        return NOTHING_HERE
    for name in options.parts:
        seconds, run = PARTS[name]
        run(day, min(day.end, time.monotonic() + seconds))
    if options.pack is not None:
        for line in pack(day.work, options.pack):
            print(f"gpu: {line}", file=sys.stderr)
    left = [words for words in commands(day.only) if day.outcome(name_of(words)) is None]
    if left:
        print(f"gpu: {len(left)} recordings are left for the next call: {', '.join(left)}", file=sys.stderr)
    outcomes = [json.loads(path.read_text()) for path in day.work.glob("*.outcome.json")]
    return int(bool(left) or any("trouble" in each or not each.get("holds", True) for each in outcomes))


def look_at_card(day: Day) -> str:
    """Ask torch, in a process of its own, for the device; why there is none, in words, or nothing."""
    if day.outcome("card") is not None:
        return ""
    code, text = run_until(time.monotonic() + 120, [*PYTHON, "tests.benchmarks.gpu_card", day.device])
    card = read(text)
    if code != 0 or card is None:
        return "there is no GPU that PyTorch can use"
    day.note("card", card=card)
    return ""


def test_kernels(day: Day, deadline: float) -> None:
    """Compare the Triton kernels with torch in float64, on the card."""
    if day.device == "cpu" or day.outcome("kernels") is not None:
        return
    words = [*PYTHON, "tests.support.workloads.kernel_results", day.device]
    code, text = run_until(deadline, words)
    results = read(text)
    if results is None:
        day.note("kernels", trouble=reason_of(code, None))
        return
    wrong = {case: complaint for case, complaint in results.items() if complaint}
    day.note("kernels", cases=len(results), wrong=wrong, holds=not wrong)


def record_all(day: Day, deadline: float) -> None:
    """Record every workload in every variant once, with torch's own table, its time without the profiler, and what it
    should show.
    """
    for words in commands(day.only):
        if deadline - time.monotonic() < LEAST_SECONDS:
            return
        if day.outcome(name_of(words)) is None:
            record(day, words, deadline)


def record(day: Day, words: str, deadline: float) -> None:
    """Record one; a trace that does not show what it should is kept like any other."""
    name = name_of(words)
    day.work.mkdir(parents=True, exist_ok=True)
    ranks = registry.built_in(words.split()[0]).ranks
    path = day.work / (name if ranks else f"{name}.json.gz")
    limit = min(RECORDING_SECONDS, deadline - time.monotonic())
    more = ["--device", day.device, "--verify", "--json", "--table", "--force", "-o", str(path)]
    code, text = run_until(time.monotonic() + limit, [*PYTHON, "tracetui", "run", *words.split(), *more])
    document = read(text)
    if document and document.get("path"):
        _lay_flat(day.work, name, document.get("ranks", ()))
        verification = document.get("verification") or {}
        day.note(
            name,
            command=words,
            recording=document["recording"],
            lines=verification.get("lines", []),
            holds=bool(verification.get("holds", True)),
            seconds=document.get("seconds"),
        )
    elif code is None and limit < RECORDING_SECONDS:
        print(f"{name}: the time was over; the next call records it", flush=True)
    else:
        day.note(name, command=words, trouble=reason_of(code, document))


def _lay_flat(work: Path, name: str, traces: Sequence[str]) -> None:
    """Put the traces of ranks beside all others; that of the first has the name of the recording."""
    for rank, trace in enumerate(map(Path, traces)):
        stem = name if rank == 0 else f"{name}_rank{rank}"
        for path in trace.parent.glob(f"rank{rank}.*"):
            path.rename(work / f"{stem}.{path.name.partition('.')[2]}")
    if traces:
        Path(traces[0]).parent.rmdir()


def record_stock(day: Day, deadline: float) -> None:
    """Record a training step with stacks, shapes and memory as torch alone does, without tracetui's recorder."""
    if day.outcome("stock_train") is not None or deadline - time.monotonic() < LEAST_SECONDS:
        return
    day.work.mkdir(parents=True, exist_ok=True)
    path = day.work / "stock_train.json.gz"
    code, text = run_until(deadline, [*PYTHON, "tests.benchmarks.gpu_stock", day.device, str(path)])
    if path.exists() and code == 0:
        (day.work / "stock_train.txt").write_text(text)
        day.note("stock_train", command="torch.profiler alone, a training step with stacks, shapes and memory")
    else:
        day.note("stock_train", trouble=reason_of(code, None))


def measure(day: Day, deadline: float) -> None:
    """Measure the fused MLP and the puzzlers without the profiler; the rows that were done in the time are kept."""
    if day.device != "cpu":
        _measured(day, "bench_mlp", deadline, [*PYTHON, "tests.benchmarks.gpu_mlp", *BENCH_SHAPES])
    for workload in PUZZLERS:
        if not day.only or workload in day.only:
            words = [
                *PYTHON,
                "tracetui",
                "run",
                workload,
                "--compare",
                "eager,compile",
                "--bench",
                "--device",
                day.device,
            ]
            _measured(day, f"bench_{workload}", deadline, words)


def _measured(day: Day, name: str, deadline: float, words: Sequence[str]) -> None:
    if day.outcome(name) is not None or deadline - time.monotonic() < LEAST_SECONDS:
        return
    code, text = run_until(deadline, words)
    if code == 0:
        day.note(name, command=" ".join(words[2:]), text=text)
    else:
        day.note(name, command=" ".join(words[2:]), text=text, trouble=reason_of(code, None))


PARTS: dict[str, tuple[float, Callable[[Day, float], None]]] = {
    "kernels": (100.0, test_kernels),
    "record": (float("inf"), record_all),
    "stock": (90.0, record_stock),
    "bench": (float("inf"), measure),
}
"""The parts with the most seconds that each may take of a call; what one leaves over is there for the next."""


def commands(only: Sequence[str] = ()) -> Iterator[str]:
    """The words after `tracetui run`, best first, each once: variants of workloads, and what stands beside them."""
    names = [name for name in FIRST if name in registry.BUILT_IN]
    names += [name for name in registry.BUILT_IN if name not in names]
    seen = set()
    for name in names:
        if only and name not in only:
            continue
        for words in [*_variants(name), *(words for words in MORE if words.split()[0] == name)]:
            if name_of(words) not in seen:
                seen.add(name_of(words))
                yield words


def _variants(name: str) -> Iterator[str]:
    """Its variants; one that is another workload is recorded as that."""
    words = variants_as_words(name)
    yield from (words[variant] for variant, changes in registry.built_in(name).variants if "workload" not in changes)


def name_of(words: str) -> str:
    """The name of a recording's files: `fused_mlp --impl geglu` is `fused_mlp_impl_geglu`, however that is written."""
    spaced = words.replace(" -p ", " ")
    return "_".join("".join(each if each.isalnum() else " " for each in spaced).split())


def run_until(deadline: float, words: Sequence[str]) -> tuple[int | None, str]:
    """Run a command in the checkout; returns its exit code, None when time ran out, and its standard output so far."""
    seconds = None if deadline == float("inf") else max(deadline - time.monotonic(), 1.0)
    path = os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "workloads"), os.environ.get("PYTHONPATH")]))
    child = subprocess.Popen(
        words,
        cwd=ROOT,
        # Nothing is opened twice, and finding the folder of the cache takes a package that may not be there.
        env={**os.environ, "PYTHONPATH": path, "TRACETUI_CACHE_SIZE": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        start_new_session=True,
        text=True,
    )
    try:
        text, _ = child.communicate(timeout=seconds)
        return child.returncode, text
    except subprocess.TimeoutExpired:
        stop(child)
        return None, child.communicate()[0]
    finally:
        if child.returncode is None:
            stop(child)


def stop(child: subprocess.Popen[str], grace: float = 10.0) -> None:
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
        return "it took too long"
    failure = (document or {}).get("failure")
    return str(failure["message"]) if failure else f"exit code {code}"


if __name__ == "__main__":
    sys.exit(main())
