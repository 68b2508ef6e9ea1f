"""Runs the benchmarks that are named, or all of them, and prints the table of figures.

`--page docs/performance.md` writes the table into that page. What was measured is kept in the user's cache, so that the
table has the last figures of the benchmarks that did not run this time.
"""

from __future__ import annotations

import argparse
import json
from datetime import date
from pathlib import Path
from typing import Any

from tests.benchmarks import growth, keys, loading, opening, panes, ranks, sizes
from tests.benchmarks.context import Context
from tests.benchmarks.large_trace import benchmark_folder
from tests.benchmarks.page import figure_rows, machine, write_page
from tests.benchmarks.peers import RUST, TRACELENS, ready_peers, use_checkout

BENCHMARKS = {
    "loading": loading.run,
    "gzip": sizes.run_gzip,
    "sizes": sizes.run_sizes,
    "opening": opening.run,
    "keys": keys.run,
    "panes": panes.run,
    "ranks": ranks.run,
    "growth": growth.run,
}
KEPT_RESULTS = "results.json"


def main() -> None:
    """Parse the command line and run."""
    options = parsed()
    context = Context(options.rounds, options.trace, options.huge)
    names = options.benchmarks or list(BENCHMARKS)
    if "loading" in names and not options.no_peers:
        print("looking for peers", flush=True)
        for peer, checkout in ((RUST, options.rust), (TRACELENS, options.tracelens)):
            if checkout is not None:
                use_checkout(peer.name, checkout)
        context.peers, context.missing = ready_peers()
    kept = benchmark_folder() / KEPT_RESULTS
    results: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() and options.trace is None else {}
    for name in names:
        print(f"\n{name}", flush=True)
        occasion = {"day": date.today().isoformat(), "rounds": options.rounds, "machine": machine()}
        results[name] = {**BENCHMARKS[name](context), "occasion": occasion}
        if options.trace is None:
            kept.write_text(json.dumps(results))
    print()
    for row in figure_rows(results) if options.trace is None else []:
        print("  " + " | ".join(row))
    if options.page is not None:
        write_page(options.page, results)


def parsed() -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help=f"of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--trace", type=Path, help="an uncompressed trace, in place of the made ones; prints only")
    parser.add_argument("--rounds", type=int, default=3, help="how often to measure each side (default: 3)")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    parser.add_argument("--huge", action="store_true", help="also make, measure and delete a trace of 4 GB")
    parser.add_argument("--no-peers", action="store_true", help="measure beside orjson only, install nothing")
    parser.add_argument("--rust", type=Path, metavar="FOLDER", help="a checkout of pytorch-trace-tui to build")
    parser.add_argument("--tracelens", type=Path, metavar="FOLDER", help="a checkout of TraceLens to install")
    options = parser.parse_args()
    unknown = set(options.benchmarks) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    if options.trace is not None and options.page is not None:
        parser.error("the page has the figures of the made traces, not of --trace")
    if options.rounds < 1:
        parser.error("--rounds is 1 or more")
    if options.rust is not None and not (options.rust / "src" / "trace.rs").is_file():
        parser.error(f"{options.rust} is no checkout of pytorch-trace-tui: it has no src/trace.rs")
    if options.tracelens is not None and not (options.tracelens / "TraceLens").is_dir():
        parser.error(f"{options.tracelens} is no checkout of TraceLens: it has no folder TraceLens")
    return options


if __name__ == "__main__":
    main()
