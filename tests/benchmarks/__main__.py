"""Runs the benchmarks that are named, or all of them, on one large trace."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.benchmarks import keys, loading, panes
from tests.benchmarks.large_trace import COPIES, large_trace

BENCHMARKS = {"loading": loading.run, "panes": panes.run, "keys": keys.run}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help=f"of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--trace", type=Path, help="an uncompressed trace, in place of the made one")
    parser.add_argument(
        "--copies", type=int, default=COPIES, help=f"how often to repeat the real trace (default: {COPIES}, 1.2 GB)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often to measure each side (default: 3)")
    options = parser.parse_args()
    unknown = set(options.benchmarks) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    trace = options.trace or large_trace(options.copies)
    print(f"{trace.name}: {trace.stat().st_size / 1e6:,.0f} MB")
    for name in options.benchmarks or BENCHMARKS:
        print(f"\n{name}")
        BENCHMARKS[name](trace, options.rounds)


if __name__ == "__main__":
    main()
