"""Scores the findings of labelled traces: what must be said, what must not, and rows that contradict themselves.

Exit code 0: nine tenths of what is expected is said, nothing false, and no row contradicts itself; 1: otherwise;
2: there are no labels.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.support.finding_labels import Score, scored
from tests.support.paths import SHARED


def lines(score: Score) -> list[str]:
    """What to print: a line per trace that is not as its label says, and the sums."""
    told = [
        f"{each.name}: "
        + "; ".join(
            f"{words} {', '.join(ids)}"
            for words, ids in (("missing", each.missing), ("false", each.forbidden), ("wrong", each.problems))
            if ids
        )
        for each in score.traces
        if not each.is_fine
    ]
    (said, expected), (absent, banned) = score.said, score.absent
    return [
        *told,
        f"{len(score.traces)} traces: expected claims made: {said} of {expected}; "
        f"false claims absent: {absent} of {banned}; "
        f"rows that contradict themselves: {sum(len(each.problems) for each in score.traces)}",
    ]


def main() -> int:
    """Parse the command line and score."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.finding_labels", description=__doc__)
    parser.add_argument("labels", nargs="?", type=Path, default=SHARED / "findings.json", help="the file with labels")
    labels = parser.parse_args().labels
    if not labels.exists():
        print(f"There are no labels at {labels}.", file=sys.stderr)
        return 2
    score = scored(labels)
    print("\n".join(lines(score)))
    return 0 if score.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
