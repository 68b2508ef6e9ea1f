"""Compilations of ranks as sentences and tables (R5.15)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration
from tracetui.model.table import NULL, Column, Table, micros, numbers, texts
from tracetui.ranks.compiling import Compiled
from tracetui.ranks.rank_set import RankSet

MIN_WAIT_SHARE = 0.01
"""Minimum wait for a rank that compiled, as a share of the run, that a sentence is about."""
MIN_WAIT_NS = 1_000_000
"""The same in ns; the clock of a log is no more exact."""
MAX_NAMED_RANKS = 2
"""Maximum ranks that sentences are about."""
NO_LOG = (
    "No log of torch.compile of these ranks: TORCH_TRACE=FOLDER has torch write them, and --compile-log names them."
)


def compile_sentences(ranks: RankSet) -> list[str]:
    """The ranks that compiled while others waited, or of logs alone while most others did not, the worst first."""
    compiled = ranks.compiled
    if len(ranks):
        least = max(MIN_WAIT_SHARE * ranks.run_ns, MIN_WAIT_NS)
        rows, cost = np.flatnonzero(compiled.wait > 0), compiled.wait
    else:
        least = MIN_WAIT_NS
        rows = np.flatnonzero((2 * compiled.together < len(ranks.logs) - 1) & (compiled.alone > 0))
        cost = compiled.alone
    total = np.bincount(compiled.log[rows], cost[rows], len(ranks.logs))
    worst = [number for number in np.argsort(-total, kind="stable").tolist() if total[number] >= least]
    sentences = []
    for number in worst[:MAX_NAMED_RANKS]:
        mine = rows[compiled.log[rows] == number]
        mine = mine[np.argsort(-cost[mine], kind="stable")]
        what = _words(compiled, mine)
        if len(ranks):
            where = f"in {counted(int(compiled.collectives[mine].max()), 'collective')}" if len(mine) == 1 else ""
            waits = f"others waited {duration(float(total[number]))} for it meanwhile"
            tail = f": {', '.join(filter(None, (waits, where)))}"
        else:
            most = "no other rank" if not compiled.together[mine].any() else "most others"
            tail = f", {duration(float(total[number]))} of it while {most} did{'' if most[0] == 'n' else ' not'}"
        sentences.append(f"Rank {ranks.logs[number].rank} compiled {what}{tail}.")
    more = len(worst) - len(sentences)
    return [*sentences, f"So it was with {counted(more, 'other rank')}."] if more else sentences


def _words(compiled: Compiled, rows: Int64) -> str:
    """Some compilations of a rank, of which the first is named with its reason."""
    first = compiled.each[int(rows[0])]
    why = f", because {first.why}" if first.why else f" (caches: {first.caches})" if first.caches else ""
    time = duration(float(compiled.time[rows].sum()))
    if len(rows) == 1:
        return f"{first.words} for {time}{why}"
    return f"{len(rows):,} times for {time}, worst {first.words}{why}"


def log_headline(ranks: RankSet) -> str:
    """The ranks that compiled while others did not, by logs alone."""
    compiled = ranks.compiled
    count = f"{counted(len(ranks.logs), 'rank')} compiled {counted(len(compiled.each), 'time')}"
    if len(ranks.logs) < 2:
        return f"One log alone does not tell who compiled while others did not: {count}, {_longest(ranks)}."
    return (
        " ".join(compile_sentences(ranks))
        or f"No rank compiled for long while most others did not: {count}, {_longest(ranks)}."
    )


def _longest(ranks: RankSet) -> str:
    time = ranks.compiled.time_of_log
    worst = int(time.argmax())
    return f"rank {ranks.logs[worst].rank} for {duration(float(time[worst]))}" + (" at most" if len(time) > 1 else "")


def compile_remarks(ranks: RankSet) -> list[str]:
    """Sentences about logs that are left out or missing, and what the clocks of logs alone are taken for."""
    if not ranks.logs:
        return [*ranks.log_notes]
    known = {each.rank for each in ranks.logs}
    missing = [rank for rank in ranks.ranks if rank not in known]
    sentences = [*ranks.log_notes]
    if missing:
        named = f"{', '.join(map(str, missing[:10]))}{f' and {len(missing) - 10:,} more' if len(missing) > 10 else ''}"
        who = f"rank {named}" if len(missing) == 1 else f"ranks {named}"
        sentences.append(f"There is no log of torch.compile of {who}: what they compiled is not known.")
    if not len(ranks) and len(ranks.logs) > 1:
        sentences.append(
            "The ranks are taken to have one clock, as on one host; who waited stands in their traces alone."
        )
    return sentences


# Tables.


def compiles_table(ranks: RankSet) -> Table:
    """One row per compilation, the one that others waited for longest first, then the longest that no other made."""
    compiled = ranks.compiled
    is_known = compiled.wait != NULL
    table = Table(
        (
            numbers(col.RANK, [ranks.logs[number].rank for number in compiled.log.tolist()] or np.empty(0, np.int64)),
            texts(col.COMPILE_ID, [each.id for each in compiled.each]),
            texts(
                col.FUNCTION.but(help="The function that was compiled."),
                [each.function or None for each in compiled.each],
            ),
            texts(col.LINE.but(help="File and line where it begins."), [each.place or None for each in compiled.each]),
            micros(
                col.START_US.but(help="Start on the one clock, from the earliest rank, or of logs alone compilation."),
                compiled.start
                - (ranks.origin_ns if len(ranks) else int(compiled.start.min(initial=np.iinfo(np.int64).max))),
            ),
            micros(col.COMPILE_US, compiled.time),
            micros(col.ALONE_US.but(help="The part of it in which no other rank compiled."), compiled.alone),
            numbers(col.COMPILING_RANKS, compiled.together),
            numbers(
                col.RANKS.but(heading="made by", help="Ranks that made it, by id, function, line and reason."),
                compiled.made_by,
            ),
            micros(col.APART_US, compiled.apart, null=compiled.apart == NULL),
            micros(col.COMPILE_WAIT_US, compiled.wait, null=~is_known),
            numbers(
                col.COLLECTIVES.but(help="Collectives in which others waited for it."),
                np.where(is_known, compiled.collectives, NULL),
            ),
            texts(col.RECOMPILED_FOR, [each.reason or None for each in compiled.each]),
            texts(col.CACHE, [each.caches or None for each in compiled.each]),
        ),
        note=" ".join(compile_remarks(ranks)) if ranks.logs else NO_LOG,
    )
    return table.take(np.lexsort((-compiled.alone, -compiled.wait)))


def rank_columns(ranks: RankSet, numbers_: Sequence[int]) -> tuple[Column, ...]:
    """Compilations, their time, alone, and waits meanwhile, for each of some ranks; null for one without a log."""
    compiled, known = ranks.compiled, [each.rank for each in ranks.logs]
    row = np.array([known.index(each) if each in known else -1 for each in numbers_], np.int64)
    count = np.bincount(compiled.log, minlength=len(known))
    wait = np.bincount(compiled.log, np.maximum(compiled.wait, 0), len(known))
    no_wait = np.bincount(compiled.log, compiled.wait == NULL, len(known)) > 0
    help = "The part of it in which no other rank compiled."
    return (
        numbers(col.COMPILATIONS, np.append(count, NULL)[row]),
        micros(
            col.COMPILE_US.but(help="Time in which the rank compiled."),
            np.append(compiled.time_of_log, 0)[row],
            null=row < 0,
        ),
        micros(
            col.ALONE_US.but(heading="compiled alone", help=help),
            np.append(compiled.alone_of_log, 0)[row],
            null=row < 0,
        ),
        micros(col.COMPILE_WAIT_US, np.append(wait, 0)[row], null=np.append(no_wait, True)[row]),
    )


def logs_table(ranks: RankSet) -> Table:
    """One row per rank of logs that have no traces beside them, the one that compiled alone longest first."""
    compiled, known = ranks.compiled, [each.rank for each in ranks.logs]
    longest = [
        compiled.each[int(rows[compiled.time[rows].argmax()])].words if len(rows) else None
        for number in range(len(known))
        for rows in [np.flatnonzero(compiled.log == number)]
    ]
    columns = (
        numbers(col.RANK, known),
        texts(col.FILE, [ranks.shown_path(each.path) for each in ranks.logs]),
        *rank_columns(ranks, known)[:3],
        texts(col.FUNCTION.but(heading="longest", help="The function that it compiled longest."), longest),
    )
    table = Table(columns, note=" ".join(compile_remarks(ranks)), headline=log_headline(ranks))
    return table.take(np.argsort(-compiled.alone_of_log, kind="stable"))
