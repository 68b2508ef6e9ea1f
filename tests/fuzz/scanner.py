"""Fuzz the scanner under AddressSanitizer and UndefinedBehaviorSanitizer: `python -m tests.fuzz.scanner --minutes 10`.

Needs a C compiler with both sanitizers. Blocks of events are taken from the sample traces.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hatch_build import compiler
from tests.support.paths import SAMPLES

SOURCE = Path(__file__).with_name("scanner_fuzz.c")
FLAGS = ("-g", "-O1", "-std=gnu11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
EVENTS = 40
"""Events of a block."""


def build(folder: Path, source: Path = SOURCE) -> Path:
    """Compile a fuzzer.

    Raises: OSError, CalledProcessError where that cannot be done.
    """
    program = compiler()
    if program is None:
        raise FileNotFoundError("no C compiler")
    made = folder / source.stem
    subprocess.run([*program.split(), *FLAGS, "-o", str(made), str(source), "-lm"], check=True, capture_output=True)
    return made


def blocks(folder: Path) -> list[Path]:
    """Files with blocks of events of the sample traces, evenly spread, in two layouts."""
    written = []
    for sample in sorted(SAMPLES.glob("*.json.gz")):
        events = json.loads(gzip.decompress(sample.read_bytes()))["traceEvents"]
        chosen = events[:: max(len(events) // EVENTS, 1)][:EVENTS]
        for indent in (None, 1):
            path = folder / f"{sample.stem}.{indent}"
            path.write_text(json.dumps(chosen, indent=indent))
            written.append(path)
    return written


def fuzz(seconds: float, seed: int) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer for some seconds of CPU time."""
    with tempfile.TemporaryDirectory(prefix="tracetui-fuzz-") as name:
        folder = Path(name)
        command = [str(build(folder)), str(seconds), str(seed), *map(str, blocks(folder))]
        return subprocess.run(command, capture_output=True, text=True)


def main() -> int:
    """Fuzz, and print what was found."""
    return start(fuzz, __doc__, minutes=10)


def start(fuzz: Callable[[float, int], subprocess.CompletedProcess[str]], about: str | None, minutes: float) -> int:
    """Run a fuzzer in C as the command line says, and print what it found."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=minutes, help="CPU time")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    said = fuzz(60 * options.minutes, options.seed)
    print(said.stdout + said.stderr, end="")
    return said.returncode


if __name__ == "__main__":
    sys.exit(main())
