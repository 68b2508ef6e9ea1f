"""Fuzz for some minutes: `python -m tests.fuzz TARGET --minutes 10 [--keep FOLDER]`.

Needs atheris (the extra `fuzz`). What breaks a property is written to `crash-...` in the working folder of the run;
`--keep` ends with a corpus that covers as much in as few and short files as libFuzzer can find: `TARGET.zip` holds one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
TARGETS = ("opening", "panes", "packets", "snapshots", "exports", "logs", "requests")
DICTIONARIES = {"packets": "packets.dict", "snapshots": "snapshots.dict"}
SEEDS = {
    "packets": "*.pftrace",
    "snapshots": "*.pickle",
    "exports": "*.sqlite",
    "logs": "*.log",
    "requests": "*.requests",
}
LONGEST = {"exports": 16_384, "logs": 16_384, "requests": 16_384}
"""Bytes of an input, where these are not 4,096."""


def main() -> int:
    """Run libFuzzer over the corpus and print what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--keep", type=Path, help="write the smallest corpus with the same coverage to this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracetui-fuzz-") as folder:
        work = Path(folder) / "corpus"
        work.mkdir()
        for seed in (HERE / "corpus").glob(SEEDS.get(options.target, "*")):
            shutil.copy(seed, work)
        packed = HERE / f"{options.target}.zip"
        if packed.exists():
            with zipfile.ZipFile(packed) as kept:
                kept.extractall(work)
        seconds = max(round(60 * options.minutes), 1)
        code = _fuzz(options.target, f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=4096", str(work))
        if options.keep and code == 0:
            options.keep.mkdir(parents=True, exist_ok=True)
            code = _fuzz(options.target, "-merge=1", str(options.keep), str(work))
    return code


def _fuzz(target: str, *flags: str) -> int:
    with tempfile.TemporaryDirectory(prefix="tracetui-fuzz-") as folder:
        itself = Path(folder) / "target"
        itself.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.fuzz.target {target} "$@"\n')
        itself.chmod(0o700)
        words = [
            str(itself),
            *flags,
            f"-max_len={LONGEST.get(target, 4096)}",
            f"-dict={HERE / DICTIONARIES.get(target, 'json.dict')}",
            "-print_final_stats=1",
        ]
        environment = {**os.environ, "TRACETUI_FUZZ_TARGET": str(itself)}
        return subprocess.run(words, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
