"""The page and the samples of a day with a GPU, from what it packed: `python -m tests.benchmarks.gpu_results FOLDER...`

FOLDER holds the archives of `gpu_day --pack`, or is its work folder. `docs/gpu.md` is written with date and card, and
--samples copies the traces that show what they should, the small ones, to `sample_traces/`, without what names the
machine, with torch's own table beside each. What was made without a GPU becomes neither.
"""

from __future__ import annotations

import argparse
import json
import runpy
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tests.benchmarks import gpu_report
from tests.benchmarks.gpu_day import ROOT, name_of

MAX_SAMPLE_BYTES = 200_000
"""Of a trace that is kept as a sample."""
MEASURED = {
    "bench_mlp": "The fused MLP",
    "bench_split_stack": "`split_stack` without the profiler",
    "bench_combined": "`combined` without the profiler",
}


def main() -> int:
    """Write what is asked for; returns 1 where there is nothing, or nothing of a GPU."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu_results", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "gpu.md", metavar="FILE")
    parser.add_argument("--samples", type=Path, metavar="FOLDER", help="also copy samples there")
    parser.add_argument("--trial", action="store_true", help="write the page of a trial without a GPU, which says so")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        unpack(options.folders, Path(scratch))
        outcomes = outcomes_in(Path(scratch))
        if "card" not in outcomes:
            print("gpu: there are no results in these folders.", file=sys.stderr)
            return 1
        if not outcomes["card"]["card"]["is_gpu"] and not options.trial:
            print("gpu: these results are of no GPU: --trial writes their page elsewhere.", file=sys.stderr)
            return 1
        sampled = copy_samples(Path(scratch), outcomes, options.samples) if options.samples else []
        options.page.parent.mkdir(parents=True, exist_ok=True)
        options.page.write_text(page_of(Path(scratch), outcomes, sampled))
    print(f"gpu: wrote {options.page}" + "".join(f"\n{line}" for line in sampled))
    return 0


def unpack(folders: Sequence[Path], scratch: Path) -> None:
    """Put what lies in the folders, and in their archives, into one."""
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.suffix == ".tar":
                with tarfile.open(path) as archive:
                    archive.extractall(scratch, filter="data")
            elif path.is_file():
                shutil.copy2(path, scratch)


def outcomes_in(scratch: Path) -> dict[str, dict[str, Any]]:
    """What became of everything, by name."""
    found = (json.loads(path.read_text()) for path in sorted(scratch.glob("*.outcome.json")))
    return {outcome["name"]: outcome for outcome in found}


def page_of(scratch: Path, outcomes: Mapping[str, dict[str, Any]], sampled: Sequence[str]) -> str:
    """The page of all results."""
    verified = [
        gpu_report.recording(each["command"], each["recording"], each["lines"], str(scratch / f"{name}.json.gz"))
        for name, each in outcomes.items()
        if "recording" in each and (scratch / f"{name}.json.gz").exists()
    ]
    trouble = [
        f"{each.get('command') or name}: {each['trouble']}" for name, each in outcomes.items() if "trouble" in each
    ]
    measured = [
        (heading, outcomes[name]["text"]) for name, heading in MEASURED.items() if outcomes.get(name, {}).get("text")
    ]
    day = date.fromisoformat(outcomes["card"]["card"]["day"]).strftime("%-d %B %Y")
    return gpu_report.page(verified, sampled, measured, trouble, kernels_said(outcomes.get("kernels")), day)


def kernels_said(outcome: Mapping[str, Any] | None) -> str:
    """The numeric tests of the kernels in a sentence."""
    if outcome is None or "cases" not in outcome:
        return ""
    wrong: Mapping[str, str] = outcome["wrong"]
    if not wrong:
        return f"All {outcome['cases']} numeric cases of the Triton kernels agree with torch in float64 on this card."
    named = "; ".join(f"{gpu_report.cell(case)}: {gpu_report.cell(str(said))}" for case, said in wrong.items())
    return f"Of {outcome['cases']} numeric cases of the Triton kernels {len(wrong)} do not agree with torch: {named}."


def copy_samples(scratch: Path, outcomes: Mapping[str, dict[str, Any]], folder: Path) -> list[str]:
    """Copy the samples that there are recordings of; what was copied, as lines."""
    maker = runpy.run_path(str(ROOT / "sample_traces" / "record.py"))
    folder.mkdir(parents=True, exist_ok=True)
    said = []
    for sample in maker["SAMPLES"]:
        name = name_of(sample.words)
        trace = scratch / f"{name}.json.gz"
        if not outcomes.get(name, {}).get("holds") or not trace.exists() or trace.stat().st_size > MAX_SAMPLE_BYTES:
            continue
        kept = maker["keep"](sample, trace, folder)
        said.append(f"{kept.name}: {kept.stat().st_size / 1000:.1f} kB")
    return said


if __name__ == "__main__":
    sys.exit(main())
