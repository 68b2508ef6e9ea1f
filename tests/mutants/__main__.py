"""Mutation testing of pure modules: `python -m tests.mutants [NAME ...] [--sample 60] [--seed 0] [--least 0.8]`.

A mutant is a module with one small change (`operators.py`); it is noticed when a test of the module fails. Printed are
the share of noticed mutants and what survived. Some survivors cannot be noticed, because the change changes nothing.
Needs Cosmic Ray (the extra `mutants`). Works in copies of the checkout, one for each module, two at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.mutants.modules import MODULES
from tests.support.paths import ROOT

COPIED = ("tracetui", "workloads", "tests", "sample_traces", "pyproject.toml")


def main() -> int:
    """Print the score of each module; whether all reach what is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODULES)}; all if none is given")
    parser.add_argument("--sample", type=int, default=60, help="mutants of each module, 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="another seed chooses other mutants")
    parser.add_argument("--least", type=float, default=0.8, help="share of mutants that is to be noticed")
    parser.add_argument("--jobs", type=int, default=2, help="modules at a time")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(MODULES)):
        parser.error(f"no module is called {', '.join(unknown)}")
    if find_spec("cosmic_ray") is None:
        parser.error("Cosmic Ray is not installed: pip install -e '.[mutants]'")
    names = options.names or list(MODULES)
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda name: tried(name, options.sample, options.seed), names))
    print(f"{'module':<14}{'score':>7}{'noticed':>9}{'tried':>7}{'mutants':>9}")
    scores = [print_score(name, result) for name, result in zip(names, results, strict=True)]
    return int(min(scores) < options.least)


def tried(name: str, sample: int, seed: int) -> dict[str, Any] | None:
    """What became of the mutants of a module; None where its tests fail without one."""
    with tempfile.TemporaryDirectory(prefix="tracetui-mutants-") as folder:
        copy = Path(folder) / "checkout"
        copy.mkdir()
        for part in COPIED:
            whole = ROOT / part
            (shutil.copytree if whole.is_dir() else shutil.copy2)(whole, copy / part)
        shared = ROOT.parent / "shared"
        if shared.exists():
            (copy.parent / "shared").symlink_to(shared.resolve())
        words = [sys.executable, "-m", "tests.mutants.worker", name, str(sample), str(seed)]
        environment = os.environ | {"PYTHONPATH": str(copy / "workloads")}
        done = subprocess.run(words, check=False, cwd=copy, env=environment, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return found


def print_score(name: str, result: dict[str, Any] | None) -> float:
    """Print the score of a module and its survivors; return the score."""
    if result is None:
        print(f"{name:<14}  its tests fail without any change")
        return 0.0
    tried, survivors = result["tried"], result["survivors"]
    noticed = tried - len(survivors)
    print(f"{name:<14}{noticed / tried:>7.2f}{noticed:>9}{tried:>7}{result['mutants']:>9}")
    for line, before, after in survivors:
        print(f"    {line:>4}: {before}\n{'->':>8}  {after}")
    return float(noticed / tried)


if __name__ == "__main__":
    sys.exit(main())
