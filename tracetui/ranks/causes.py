"""The causes of a late rank: its stretch before each collective against that of the median rank (R5.5, R5.9).

A stretch is compared on each rank's own clock, so no shift is needed. No rank is named that the clocks could
have made late, or that is no later than the others are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.linking.groups import Groups
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import duration
from tracetui.model.table import Strings
from tracetui.ranks.clocks import Clocks
from tracetui.ranks.matching import Matches
from tracetui.ranks.rank_summary import PHASES, RankSummary
from tracetui.ranks.waiting import Charges, Waiting, find_waiting

# The names that a late rank ran longer or more often than the median rank (R5.9).

Float64 = NDArray[np.float64]

MAX_NAMED = 3
"""Names in a note, those with most excess."""
MIN_SLOWER_SHARE = 0.8
"""Minimum share of the kernel time that is slower by one factor where all kernels are said to be."""
FACTOR_SPREAD = 0.03
"""Share of the median factor by which the quartiles of the factors may differ from it."""
MIN_FACTOR = 1.03
"""Minimum factor that is worth a word."""
MIN_PLACE_SHARE = 0.5
"""Minimum share of what a late rank caused that belongs to one annotation or function, for it to be named."""
_FOLDERS = re.compile(r"^.*[/\\](?=[^/\\]+\.py\(\d+\): )")
"""Folders in front of the file of a Python frame."""
_COPIES = re.compile(r"^memcpy|^aten::copy_$|^aten::_?to_?copy", re.IGNORECASE)


@frozen
class NameExcess:
    """Excess of a rank over the median rank by name: parallel columns, one entry per name."""

    names: Sequence[str]
    calls: Float64
    """Calls of the late rank in the stretches that were compared."""
    usual_calls: Float64
    """Calls of the median rank in the same."""
    time: Float64
    usual_time: Float64

    @property
    def extra(self) -> Float64:
        """Time in ns of the calls beyond those of the median rank."""
        beyond = np.maximum(self.calls - self.usual_calls, 0)
        return beyond * np.divide(self.time, self.calls, out=np.zeros(len(self.time)), where=self.calls > 0)

    @property
    def slower(self) -> Float64:
        """Time in ns by which the other calls took longer."""
        return self.time - self.usual_time - self.extra

    @property
    def extra_share(self) -> float:
        """Share of the excess that is of more calls or other names, rather than of longer ones."""
        extra, slower = max(float(self.extra.sum()), 0.0), max(float(self.slower.sum()), 0.0)
        return extra / (extra + slower) if extra + slower > 0 else 0.0

    @property
    def factor(self) -> float | None:
        """The factor by which nearly all kernels are slower, None where they have none in common."""
        both = (self.calls > 0) & (self.usual_calls > 0) & (self.usual_time > 0)
        if not both.any():
            return None
        mine, usual = self.time[both] / self.calls[both], self.usual_time[both] / self.usual_calls[both]
        weight = self.time[both]
        ratio = mine / usual
        low, middle, high = (_weighted_quantile(ratio, weight, share) for share in (0.25, 0.5, 0.75))
        near = np.abs(ratio - middle) <= 2 * FACTOR_SPREAD * middle
        steady = max(high - middle, middle - low) <= FACTOR_SPREAD * middle
        if middle < MIN_FACTOR or not steady or weight[near].sum() < MIN_SLOWER_SHARE * weight.sum():
            return None
        return middle

    @property
    def kernel_words(self) -> str:
        """The names that are slower, in words; a lower clock is a guess, since no trace records its clock."""
        factor = self.factor
        if factor is not None and int((self.calls > 0).sum()) > 1:
            return f"all by {factor:.2f}: a lower clock?"
        return self._longest(self.slower, "longer")

    @property
    def extra_words(self) -> str:
        """The names that ran more often, in words."""
        extra = self.extra
        if len(extra) == 0 or extra.max() <= 0:
            return ""
        copies = np.array([bool(_COPIES.search(name)) for name in self.names], bool)
        words = self._longest(extra, "more")
        return f"copies: {words}" if copies[int(extra.argmax())] else words

    def _longest(self, excess: Float64, how: str) -> str:
        order = [index for index in np.argsort(-excess, kind="stable").tolist() if excess[index] > 0][:MAX_NAMED]
        return ", ".join(f"{self.names[index]} {duration(float(excess[index]))} {how}" for index in order)


def name_excess(summaries: Sequence[RankSummary], matches: Matches, rows: Int64, usual: Int64) -> NameExcess:
    """The excess of what ran before some entries over what ran before others; pairs with a -1 are left out."""
    words = Strings()
    paired = usual >= 0
    mine = _sums(summaries, matches, rows[paired], words)
    other = _sums(summaries, matches, usual[paired], words)
    size = len(words)
    padded = [np.pad(column, (0, size - len(column))) for column in (*mine, *other)]
    return NameExcess(words, padded[0], padded[2], padded[1], padded[3])


def _sums(summaries: Sequence[RankSummary], matches: Matches, rows: Int64, words: Strings) -> tuple[Float64, Float64]:
    """Calls and time in ns by name before some entries; an entry that stands twice counts twice."""
    calls, time = np.zeros(0), np.zeros(0)
    ranks = matches.entries.rank[rows]
    for rank in np.unique(ranks).tolist():
        summary = summaries[rank]
        entries = summary.stretch_names
        times = np.bincount(matches.entries.row[rows[ranks == rank]], minlength=len(summary.collectives))
        weight = times[entries.collective]
        texts = [summary.names[each] if each >= 0 else "others" for each in range(-1, len(summary.names))]
        used = np.unique(entries.name[weight > 0])
        ids = np.zeros(len(texts), np.int64)
        ids[used + 1] = [words.intern(texts[each + 1]) for each in used.tolist()]
        number = ids[entries.name + 1]
        calls = np.pad(calls, (0, len(words) - len(calls)))
        time = np.pad(time, (0, len(words) - len(time)))
        calls += np.bincount(number, entries.calls * weight, len(words))
        time += np.bincount(number, entries.time * weight, len(words))
    return calls, time


def _weighted_quantile(values: Float64, weight: Float64, share: float) -> float:
    """The value below which a share of the weight lies."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    index = int(np.searchsorted(reached, share * reached[-1]))
    return float(values[order[min(index, len(order) - 1)]])


CAUSES = ("input", "host", "kernels", "extra", "compile")
"""The causes that a late rank can have; scripts read these words."""
MIN_RUN_SHARE = 0.02
"""Minimum wait caused, as a share of the run for every other rank."""
MIN_TIMES_MEDIAN = 3
"""Minimum wait caused, as a multiple of the median of the other ranks."""
MIN_HIDDEN_SHARE = 1 / 3
"""Minimum wait that a rank would cause without those that are later, as a share of what the worst of these causes."""
SECOND_WITHIN = 2
"""Ratio of the largest cause to another within which both are named."""
MIN_LATE_STEP_SHARE = 0.1
"""Minimum wait caused in a step, as a share of that in the worst step, to be late in it; of the step as of the run."""


MIN_PASSED_SHARE = 0.5
"""Minimum share of the waits for a rank that began at another one, for it to have passed them on."""
PASSED_ON = "from rank"
"""Stands before the number of the rank that began a delay, in place of a cause."""


@frozen(eq=True)
class LateRank:
    """A late rank with its causes."""

    index: int
    """Index of the rank among those that are there."""
    causes: tuple[tuple[str, float], ...]
    """Causes with their excess in ns, the largest first; empty where the trace shows none."""
    note: str
    """Details of the cause, in words."""
    steps: tuple[int, ...]
    """Numbers of the steps in which others waited for it."""
    of_steps: int
    """Number of steps that were recorded."""
    phase: str
    """Part of the step in which most of it was."""
    last: int
    """Collectives that it came last to, of ..."""
    of: int
    """... those that it took part in."""
    caused_ns: float
    """Time that others wait for it; of a rank behind other late ranks, what they would wait without these."""
    longest_ns: float
    """The largest part of that which is of one rank."""
    behind: tuple[int, ...] = ()
    """Indices of the ranks that are late where it is, so that others hardly wait for it."""

    @property
    def cause(self) -> str | None:
        """The largest cause, None where none is known."""
        return self.causes[0][0] if self.causes else None


def main_causes(causes: Sequence[tuple[str, float]]) -> tuple[str, ...]:
    """The causes to be named: the largest, which stands first, and those that are nearly as large."""
    return tuple(cause for cause, excess in causes if excess >= causes[0][1] / SECOND_WITHIN)


def late_ranks(
    summaries: Sequence[RankSummary], matches: Matches, waiting: Waiting, clocks: Clocks, run_ns: int
) -> list[LateRank]:
    """The ranks that stand out by what others waited for them, the latest first; often there is none.

    Behind them stand ranks that are late in the same operations, and would stand out without them. Those that only
    passed on what they had waited for are no longer late by themselves, and are not named.
    """
    suspects = standing_out(waiting.root, np.arange(len(summaries)), run_ns)
    if not suspects:
        return []
    latest = _with_causes(suspects, summaries, matches, waiting)
    rest = np.setdiff1d(np.arange(len(summaries)), suspects)
    fewer, _ = matches.without(suspects)
    without = find_waiting(fewer, clocks)
    hidden = standing_out(without.root, rest, run_ns)
    behind = [
        replace(each, behind=tuple(suspects))
        for each in _with_causes(hidden, summaries, fewer, without)
        if each.caused_ns >= MIN_HIDDEN_SHARE * latest[0].caused_ns
        and sum(excess for _, excess in each.causes) * (len(rest) - 1) >= MIN_HIDDEN_SHARE * each.caused_ns
    ]
    return [*latest, *behind]


@frozen(eq=True)
class PassedOn:
    """A rank that others waited for because it had itself waited for another one."""

    source: int
    """Index of the rank that began most of it."""
    time: float
    """Time in ns of the waits for it that began there, of ..."""
    whole: float
    """... all waits for it."""


def passed_on(waiting: Waiting, late: Sequence[LateRank], ranks: int, run_ns: int) -> dict[int, PassedOn]:
    """Ranks that others waited for as long as for a late one, by index, where most of that began elsewhere (R5.7)."""
    caused, passing = waiting.attributed.caused(ranks), {}
    least = max(MIN_RUN_SHARE * run_ns * (ranks - 1), 1)
    for index in np.setdiff1d(np.flatnonzero(caused >= least), [each.index for each in late]).tolist():
        began = waiting.began_at(index, ranks)
        source = int(began.argmax())
        if source != index and began[source] >= MIN_PASSED_SHARE * caused[index]:
            passing[index] = PassedOn(source, float(began[source]), float(caused[index]))
    return passing


def standing_out(attributed: Charges, ranks: Int64, run_ns: int) -> list[int]:
    """Those of some ranks for which others waited long, longer than for most, and longer than clocks could make up.

    Of a chain of waits the rank at its beginning is asked, not those that only passed the delay on.
    """
    size = int(ranks.max(initial=-1)) + 1
    caused, error = attributed.caused(size), attributed.caused_error(size)
    least = MIN_RUN_SHARE * run_ns * (len(ranks) - 1)
    late = []
    for index in ranks[np.argsort(-caused[ranks], kind="stable")].tolist():
        if len(ranks) < 2 or caused[index] < max(least, 1):
            break
        others = caused[ranks[ranks != index]]
        if caused[index] >= MIN_TIMES_MEDIAN * float(np.median(others)) and caused[index] > error[index]:
            late.append(int(index))
    return late


@frozen
class StretchExcess:
    """The excess of the stretch of each entry over that of the median rank, in ns and by part."""

    input: Float64
    host: Float64
    busy: Float64
    compile: Float64
    """Excess of the time in which the rank compiled: as much of the idle and then of the busy excess is not theirs."""
    median: Int64
    """The entry whose stretch is the median of the ranks that were not last; -1 where all were."""

    @classmethod
    def of(
        cls, summaries: Sequence[RankSummary], matches: Matches, waiting: Waiting, late: Bool | None = None
    ) -> StretchExcess:
        """Compare with the ranks that were not last, or with those that are not among `late` entries."""
        entries = matches.entries
        parts = {name: column_of(summaries, matches, name) for name in ("stretch", "input", "host", "busy", "compile")}
        others = np.flatnonzero(~(waiting.is_last if late is None else late))
        number = entries.instance[others]
        order = np.lexsort((parts["stretch"][others], number))
        first = np.searchsorted(number[order], np.arange(len(matches.instances)))
        count = np.bincount(number, minlength=len(matches.instances))
        median = np.full(len(matches.instances), -1, np.int64)
        known = count > 0
        median[known] = others[order[(first + (count - 1) // 2)[known]]]
        groups = Groups(np.arange(len(matches.instances)), number)
        excess = {name: column - _medians(groups, column[others])[entries.instance] for name, column in parts.items()}
        # Compiling has operators of its own, and kernels that it tries.
        of_host = np.clip(np.minimum(excess["compile"], excess["host"]), 0, None)
        of_busy = np.clip(np.minimum(excess["compile"] - of_host, excess["busy"]), 0, None)
        host, busy = excess["host"] - of_host, excess["busy"] - of_busy
        return cls(excess["input"], host, busy, of_host + of_busy, median[entries.instance])


def _medians(groups: Groups, values: Int64) -> Float64:
    """The median of each group, 0 for an empty one."""
    has_rows = groups.calls > 0
    result = np.zeros(len(groups))
    if has_rows.any():
        number = np.cumsum(has_rows) - 1
        result[has_rows] = Groups(groups.key[has_rows], number[groups.member]).median(values)
    return result


def column_of(summaries: Sequence[RankSummary], matches: Matches, name: str) -> Int64:
    """A column of the ranks' collectives in the order of the entries."""
    entries = matches.entries
    sizes = np.array([len(each.collectives) for each in summaries], np.int64)
    first = np.cumsum(sizes) - sizes
    values = np.concatenate([np.empty(0, np.int64), *(getattr(each.collectives, name) for each in summaries)])
    column: Int64 = values[first[entries.rank] + entries.row].astype(np.int64)
    return column


def _with_causes(
    suspects: Sequence[int], summaries: Sequence[RankSummary], matches: Matches, waiting: Waiting
) -> list[LateRank]:
    if not suspects:
        return []
    excess = StretchExcess.of(summaries, matches, waiting)
    return [_late_rank(index, summaries, matches, waiting, excess) for index in suspects]


def _late_rank(
    index: int, summaries: Sequence[RankSummary], matches: Matches, waiting: Waiting, excess: StretchExcess
) -> LateRank:
    entries = matches.entries
    attributed = waiting.attributed
    blamed = np.bincount(attributed.instance[attributed.late == index], minlength=len(matches.instances)) > 0
    rows = np.flatnonzero((entries.rank == index) & waiting.is_last & blamed[entries.instance])
    causes, names = explained(summaries, matches, excess, rows)
    own = summaries[index]
    mine = attributed.late == index
    caused = np.bincount(attributed.instance[mine], attributed.time[mine], len(matches.instances)).astype(np.float64)
    steps, phase = _late_steps_and_phase(own, matches, caused, index, len(summaries) - 1)
    if causes and causes[0][0] == "input":
        phase = "input"
    return LateRank(
        index=index,
        causes=causes,
        note="; ".join(filter(None, (_place(own, matches, rows, caused, causes, phase), cause_note(causes, names)))),
        steps=steps,
        of_steps=len(own.steps),
        phase=phase,
        last=len(rows),
        caused_ns=float(attributed.time[mine].sum()),
        longest_ns=float(np.bincount(attributed.waiting[mine], attributed.time[mine]).max(initial=0.0)),
        of=int(np.count_nonzero((entries.rank == index) & matches.instances.is_symmetric[entries.instance])),
    )


def explained(
    summaries: Sequence[RankSummary], matches: Matches, excess: StretchExcess, rows: Int64
) -> tuple[tuple[tuple[str, float], ...], NameExcess]:
    """Causes with their excess in ns, summed over some entries, the largest first, and the names that ran before these.

    Small causes are left out.
    """
    names = name_excess(summaries, matches, rows, excess.median[rows])
    busy = max(float(excess.busy[rows].sum()), 0.0)
    extra = busy * names.extra_share
    sums = {
        "input": float(excess.input[rows].sum()),
        "host": float(excess.host[rows].sum()),
        "compile": float(excess.compile[rows].sum()),
        "kernels": busy - extra,
        "extra": extra,
    }
    largest = max(sums.values())
    kept = [(cause, value) for cause, value in sums.items() if value > 0 and value >= 0.01 * largest]
    return tuple(sorted(kept, key=lambda each: -each[1])), names


def _late_steps_and_phase(
    own: RankSummary, matches: Matches, caused: Float64, index: int, others: int
) -> tuple[tuple[int, ...], str]:
    """The steps in which others waited for a rank, and the part of the step in which most of it was.

    `caused` is the time in ns that they waited for it in each operation.
    """
    entries = matches.entries
    rows = np.flatnonzero(entries.rank == index)
    time = caused[entries.instance[rows]]
    step, phase = own.collectives.step[entries.row[rows]], own.collectives.phase[entries.row[rows]]
    by_step = np.bincount(step[step >= 0], time[step >= 0], len(own.steps))
    length = max(own.steps.median, 0)
    least = max(MIN_LATE_STEP_SHARE * by_step.max(initial=0), MIN_RUN_SHARE * length * others, 1)
    late = np.flatnonzero(by_step >= least)
    by_phase = np.bincount(phase, time, len(PHASES))
    return tuple(own.steps.number[late].tolist()), PHASES[int(by_phase.argmax())]


def _place(
    own: RankSummary,
    matches: Matches,
    rows: Int64,
    caused: Float64,
    causes: Sequence[tuple[str, float]],
    phase: str,
) -> str:
    """The annotation or function that the host of a late rank was in, where it is one for most of what it caused."""
    place, time = own.collectives.place[matches.entries.row[rows]], caused[matches.entries.instance[rows]]
    if not set(main_causes(causes)) & {"host", "input"} or not (place >= 0).any():
        return ""
    by_name = np.bincount(place[place >= 0], time[place >= 0])
    name = _FOLDERS.sub("", own.names[int(by_name.argmax())])
    is_most = by_name.max() >= MIN_PLACE_SHARE * time.sum()
    return f"in {name}" if is_most and name.strip("# ").lower() != phase else ""


def cause_note(causes: Sequence[tuple[str, float]], names: NameExcess) -> str:
    """Details of the causes: a factor that all kernels share, copies, or the names with most excess."""
    if not causes:
        return "its stretches before the collectives are no longer than those of the others"
    kinds = main_causes(causes)
    words = []
    if "kernels" in kinds:
        words.append(names.kernel_words)
    if "extra" in kinds:
        words.append(names.extra_words)
    if len(kinds) > 1:
        words.append("also " + " and ".join(kinds[1:]))
    return "; ".join(filter(None, words))
