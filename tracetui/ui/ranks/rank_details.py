"""What is said about a row of a set of ranks, as lines; pure functions of the summaries."""

from __future__ import annotations

import numpy as np

from tracetui.drawing.text.rank_rows import TRANSFER, WAIT
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.table import NULL
from tracetui.ranks.causes import LateRank
from tracetui.ranks.moments import late_moment, moment_sentences, operation_words, top_waits, worst_instance
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_times import rank_times
from tracetui.ranks.sentences import late_words
from tracetui.safe_text import clean
from tracetui.ui.description.styled_lines import DetailFact, DetailLine, fact_lines, folded

MAX_WAITS = 4
"""Maximum ranks listed of those that a rank waited for, or that waited for it."""
MAX_PICTURED = 9
"""Maximum ranks drawn of one collective."""
BEFORE = "━"
"""Glyph of the stretch before a collective."""


def rank_lines(ranks: RankSet, index: int, width: int) -> list[DetailLine]:
    """A rank: why it is late, how it spent the run, for whom it waited, and its worst collective."""
    late = next((each for each in ranks.late if each.index == index), None)
    host = ranks.hosts[index]
    lines = [DetailLine(f"Rank {ranks.ranks[index]}{f' on {clean(host)}' if host else ''}", "title")]
    lines += _sentences([late_words(ranks, late)] if late is not None else [], width)
    for fact in _facts(ranks, index, late):
        lines += fact_lines(fact, width)
    instance = worst_instance(ranks, index)
    if instance >= 0:
        lines += [DetailLine(""), DetailLine("Its worst collective", "title")]
        lines += instance_lines(ranks, instance, index, width)
    return lines


def _facts(ranks: RankSet, index: int, late: LateRank | None) -> list[DetailFact]:
    times, whole = rank_times(ranks), max(ranks.run_ns, 1)

    def part(time: int) -> str:
        return f"{duration(time)}, {rounded_percent(100 * time / whole)} of the run"

    exposed, wait = int(times.exposed[index]), int(times.exposed_wait[index])
    facts = [
        DetailFact("file", clean(ranks.shown_path(ranks.summaries[index].header.path))),
        DetailFact("busy", part(int(times.busy[index]))),
        DetailFact("exposed transfer", part(exposed - wait)),
        DetailFact("exposed waiting", part(wait)),
        DetailFact("idle", part(int(times.idle[index]))),
    ]
    if late is not None and late.causes:
        facts.append(DetailFact("late by", ", ".join(f"{cause} {duration(excess)}" for cause, excess in late.causes)))
    for label, caused in (("made wait", True), ("waited for", False)):
        waits = top_waits(ranks, index, caused, MAX_WAITS)
        said = [f"rank {ranks.ranks[other]} {duration(time)} in {count}" for other, time, count in waits]
        if said:
            facts.append(DetailFact(label, ", ".join(said)))
    return facts


def instance_lines(ranks: RankSet, instance: int, index: int | None, width: int) -> list[DetailLine]:
    """An operation: what it was, who arrived when as a drawing, and what the last rank did before."""
    last = int(ranks.waiting.last[instance]) if index is None else index
    lines = _sentences([clean(operation_words(ranks, instance)) + "."], width)
    lines += [DetailLine(text) for text in arrivals(ranks, instance, width)]
    moment = late_moment(ranks, instance, last) if last >= 0 else None
    if moment is not None:
        lines += [DetailLine(""), *_sentences([clean(each) for each in moment_sentences(ranks, moment)], width)]
    return lines


def arrivals(ranks: RankSet, instance: int, width: int) -> list[str]:
    """Ranks of an operation as lines, of many the first, the last and some between: stretch, waiting, transfer."""
    first = ranks.matches.first
    rows = np.arange(int(first[instance]), int(first[instance + 1]))
    start, end = ranks.waiting.start[rows], ranks.waiting.end[rows]
    order = np.argsort(start, kind="stable")
    if len(order) > MAX_PICTURED:
        order = order[np.unique(np.linspace(0, len(order) - 1, MAX_PICTURED).round().astype(np.int64))]
    stretch = ranks.of_entries("stretch")[rows]
    arrived = int(start.max())
    low = max(int((start - stretch)[order].max()), int(start.min()) - 2 * max(arrived - int(start.min()), 1))
    high = max(int(end[order].max()), low + 1)
    numbers = [str(ranks.ranks[int(ranks.matches.entries.rank[rows[each]])]) for each in order.tolist()]
    label = max(map(len, numbers))
    cells = max(width - label - 1, 8)

    def cell(moment: int) -> int:
        return min(max(round(cells * (moment - low) / (high - low)), 0), cells)

    lines = []
    for name, each in zip(numbers, order.tolist(), strict=True):
        begin, waited, done = cell(int(start[each])), cell(min(arrived, int(end[each]))), cell(int(end[each]))
        drawn = BEFORE * begin + WAIT * max(waited - begin, 0) + TRANSFER * max(done - max(waited, begin), 0)
        lines.append(f"{name:>{label}} {drawn}")
    return lines


def group_lines(ranks: RankSet, members: list[int], width: int) -> list[DetailLine]:
    """Some ranks together: how many, and those of them that stand out."""
    numbers = [ranks.ranks[each] for each in members]
    lines = [DetailLine(counted(len(numbers), "rank"), "title")]
    lines += _sentences([late_words(ranks, each) for each in ranks.late if each.index in members], width)
    return lines


def step_worst(ranks: RankSet, step: int, index: int) -> int:
    """The operation of a step in which others waited longest for a rank, -1 for none."""
    charged = ranks.charged_to(index)
    mine = (charged.late == index) & (ranks.step_of_instances[charged.instance] == step) & (step != NULL)
    if not mine.any():
        return -1
    return int(np.bincount(charged.instance[mine], charged.time[mine]).argmax())


def _sentences(sentences: list[str], width: int) -> list[DetailLine]:
    return [DetailLine(piece) for each in sentences for piece in folded(clean(each), width)]
