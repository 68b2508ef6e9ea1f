"""What is said of two sides in a few sentences: what makes it unfair, the verdict, what explains it, what is not known.

Nothing is claimed that noise does not allow, and times of the GPU and of the CPU are never added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tracetui.analysis.comparing.changes.op_changes import op_changes
from tracetui.analysis.comparing.changes.totals_table import paired
from tracetui.analysis.comparing.sentences.doubts import doubts_told
from tracetui.analysis.comparing.sentences.fairness import is_same, strangers, times_apart, unfair, unsure
from tracetui.analysis.comparing.sentences.kernel_sentences import kernel_story
from tracetui.analysis.comparing.sentences.op_counts import names_alone
from tracetui.analysis.comparing.sentences.op_sentences import op_sentences, op_sentences_of_gpu
from tracetui.analysis.comparing.sentences.time_sentences import (
    Totals,
    further_sentences,
    mixed_times,
    mixed_told,
    verdict_sentences,
)
from tracetui.analysis.comparing.sides.composition import is_mixed
from tracetui.analysis.comparing.sides.side import Side
from tracetui.analysis.health.checks import Severity
from tracetui.model.table import Table

MOST = 10
"""Sentences; what is least important is left out beyond them."""


def statement(a: Side, b: Side, ops: Table | None = None) -> tuple[str, ...]:
    """The sentences, the most important first; `ops` is the table of `op_changes` where it has been made."""
    doubts = unfair(a, b)
    if (a.trace is b.trace or not doubts) and is_same(a, b):
        return (*doubts, "A and B are the same: nothing differs.")
    doubts += doubts_told(a, b, Severity.WRONG)
    last = [*unsure(a, b), *doubts_told(a, b, Severity.DOUBT)]
    if is_mixed(a) or is_mixed(b):
        return (*mixed_told(a, b), *doubts, *mixed_times(a, b), *last)
    totals = paired(a, b)
    rows = list((ops or op_changes(a, b)).rows())
    if others := strangers(a, b, rows):
        return (others, *doubts, *times_apart(a, b, totals), *last)
    first = [*doubts, *verdict_sentences(a, b, totals)]
    why = _why(a, b, rows, totals) if a.sort == b.sort else names_alone(a, b, rows)
    room = max(MOST - len(first) - len(last), 1)
    return (*first, *list(why)[:room], *last)


def opening(a: Side, b: Side, names: tuple[str, str]) -> tuple[str, ...]:
    """What of the statement stands before what explains it: doubts, and the first sentence about times.

    `names` is what the sides are called.
    """
    doubts = unfair(a, b, names)
    if (a.trace is b.trace or not doubts) and is_same(a, b):
        return (*doubts, f"{names[0]} and {names[1]} are the same: nothing differs.")
    doubts += doubts_told(a, b, Severity.WRONG, names)
    if is_mixed(a) or is_mixed(b):
        return (*mixed_told(a, b, names), *doubts)
    if others := strangers(a, b, list(op_changes(a, b).rows()), names):
        return (others, *doubts)
    return (*doubts, *verdict_sentences(a, b, paired(a, b), names)[:1])


def _why(a: Side, b: Side, rows: Sequence[dict[str, Any]], totals: Totals) -> Iterator[str]:
    """What explains the verdict."""
    story = kernel_story(a, b, totals)
    yield from story.sentences
    yield from further_sentences(a, b, totals, story.saved_bytes)
    if len(a.work()[0]) or len(b.work()[0]):
        yield from op_sentences_of_gpu(a, b, rows, totals, story.told_ops)
    else:
        yield from op_sentences(a, b, rows, totals)
