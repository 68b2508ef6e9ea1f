"""What holds of every trace, however it was recorded or changed: each a function, which raises `Broken`.

They compare analyses with each other, and none with a label: the parts of idle time with the idle time, a finding with
its scope, the number of a pane with the same number elsewhere. `broken(trace)` goes through all of them.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tests.support.finding_labels import IDLE_RULES
from tracetui.checking.lists import measured
from tracetui.checking.namespace import TraceNames, plain
from tracetui.comparing.side import side
from tracetui.errors import AnalysisFailed
from tracetui.findings import Finding, Severity, finding_list, findings
from tracetui.findings.idle_time import place_times
from tracetui.findings.scope import Scope
from tracetui.idle.gpu_spans import step_spans
from tracetui.idle.idle_parts import idle_parts
from tracetui.idle.scope_times import (
    idle_stretches,
    idle_within,
    median_step,
    recorded_extent,
    scope_windows,
    step_periods,
)
from tracetui.idle.verdict import Verdict, verdict_on
from tracetui.idle.waits import MIN_GAP_NS, device_order
from tracetui.linking.step_kinds import counted_steps
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, covered_within, union
from tracetui.model.quantities import duration
from tracetui.model.table import Table
from tracetui.model.trace import Trace
from tracetui.panes import PANES

MAX_STEPS = 3
"""Maximum steps of a trace that are looked at one by one."""
LONGEST = re.compile(r"longest in (.*?)(?:; |$)")
PLACE = re.compile(r"(?P<name>.+?) (?P<time>[\d,.]+) (?P<unit>ns|µs|ms|s)(?:, |$)")
UNITS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
MAX_ERROR_US = 0.0011
"""Two numbers of one thing may differ by the float of a microsecond."""


class Broken(AssertionError):
    """An invariant does not hold of a trace."""


def require(holds: bool, text: str) -> None:
    """Raise `Broken` with a text where something does not hold."""
    if not holds:
        raise Broken(text)


def _busy(trace: Trace) -> Iterator[tuple[int, Int64, Int64]]:
    """For each device its number, and start and end in ns of the stretches in which it ran something."""
    order, slices = device_order(trace), trace.slices
    for number in np.unique(order.device).tolist():
        rows = order.row[order.device == number]
        yield number, *union(slices.start[rows], slices.end[rows])


def some_steps(trace: Trace) -> list[int]:
    """Numbers of the first, the median and the last step, of those whose number is that of no other step."""
    numbers, times = np.unique(steps(trace).number, return_counts=True)
    alone = numbers[times == 1].tolist()
    middle = median_step(trace)
    picked = [*alone[:1], *([middle] if middle in alone else []), *alone[-1:]]
    return sorted({int(number) for number in picked if number is not None})[:MAX_STEPS]


def idle_stretches_cover_idle_time(trace: Trace) -> None:
    """The stretches of idle time cover that of each device once and exactly, but for pauses too short for a gap."""
    begin, finish = recorded_extent(trace)
    every = idle_stretches(trace)
    for number, low, high in _busy(trace):
        mine = every.take(np.flatnonzero(every.device == number))
        require(bool((mine.dur >= 0).all()), f"a stretch of device {number} ends before it starts")
        require(bool((mine.start[1:] >= mine.end[:-1]).all()), f"stretches of device {number} overlap")
        outside = bool((mine.start < begin).any() or (mine.end > finish).any())
        require(not outside, f"stretches of device {number} lie outside of what was recorded")
        busy = covered_within(low, high, mine.start, mine.end)
        require(not busy.any(), f"device {number} ran something for {int(busy.sum())} ns of its idle time")
        rows = device_order(trace).row[device_order(trace).device == number]
        # From activity to activity: one that took no time parts a pause that is short from a gap.
        pauses = trace.slices.start[rows][1:] - np.maximum.accumulate(trace.slices.end[rows])[:-1]
        short = int(pauses[(pauses > 0) & (pauses < MIN_GAP_NS)].sum())
        idle = finish - begin - int((high - low).sum())
        told = int(mine.dur.sum())
        require(told + short == idle, f"device {number}: stretches of {told} ns of {idle} ns idle, {short} in pauses")


def periods_make_the_scope(trace: Trace) -> None:
    """The periods of one thread with GPU activity follow each other; those that count are the scope of all steps."""
    low, high = step_periods(trace)
    require(bool((high >= low).all()), "a period ends before it starts")
    lanes, ran = steps(trace).lane, step_spans(trace).ran
    for lane in np.unique(lanes[ran]).tolist():
        mine = np.flatnonzero((lanes == lane) & (high > low))
        mine = mine[np.argsort(low[mine], kind="stable")]
        require(bool((low[mine][1:] >= high[mine][:-1]).all()), f"periods of thread {lane} overlap")
    if len(np.unique(lanes)) == 1 and ran.any() and (high > low).any() and not steps(trace).is_served:
        total = int((high - low)[counted_steps(trace)].sum())
        require(Scope(trace, None).time == total, f"periods of {total} ns, a scope of {Scope(trace, None).time} ns")


def busy_and_idle_are_the_span(trace: Trace) -> None:
    """In the windows of every scope the time that a device ran something and its idle time are the whole."""
    for step in (None, *some_steps(trace)):
        low, high = scope_windows(trace, step)
        every = list(_busy(trace))
        busy = sum(int(covered_within(start, end, low, high).sum()) for _, start, end in every)
        idle, length = int(idle_within(trace, low, high).sum()), int((high - low).sum()) * len(every)
        require(busy + idle == length, f"step {step}: busy {busy} ns and idle {idle} ns of {length} ns")
        require(0 <= idle <= length, f"step {step}: idle {idle} ns of {length} ns")


def findings_cost_no_more_than_their_scope(trace: Trace) -> None:
    """No finding costs more than its scope, and those about idle time together no more than it."""
    for step in (None, *some_steps(trace)):
        scope, listed = Scope(trace, step), finding_list(trace, step)
        dear = [each for each in listed if (each.cost or 0) > scope.time or (each.cost or 0) < 0]
        require(not dear, f"step {step}: {[(each.id, each.cost) for each in dear]} of {scope.time} ns")
        if not _has_gpu(trace):
            continue
        idle = scope.idle / scope.devices
        spent = {each.id: each.cost or 0 for each in listed if each.id in IDLE_RULES and each.id != "pageable-copy"}
        require(sum(spent.values()) <= idle, f"step {step}: {spent} of {idle:.0f} ns idle")


def _has_gpu(trace: Trace) -> bool:
    return len(device_order(trace).row) > 0


def names_take_no_longer_than_they_ran(trace: Trace) -> None:
    """`longest in NAME T`: T is no more than all time of slices of that name."""
    sums: dict[str, float] = {}
    for name, dur in zip(trace.slices.name.tolist(), trace.slices.dur.tolist(), strict=True):
        sums[trace.names[name]] = sums.get(trace.names[name], 0.0) + dur
    for cause in np.unique(idle_parts(trace).cause).tolist():
        parts = idle_parts(trace)
        for name, spent in place_times(trace, parts.take(np.flatnonzero(parts.cause == cause))).items():
            require(spent <= sums[name], f"{name} {spent} ns of {sums[name]:.0f} ns")
    for step in (None, *some_steps(trace)):
        for finding in finding_list(trace, step):
            for words in LONGEST.findall(finding.evidence):
                for place in PLACE.finditer(words):
                    time, decimals = float(place["time"].replace(",", "")), len(place["time"].partition(".")[2])
                    least = (time - 0.51 * 10.0**-decimals) * UNITS[place["unit"]]
                    most = sums.get(place["name"], least)
                    require(least <= most, f"{finding.id}: {place[0]} of {duration(int(most))}")


def verdict_agrees_with_findings(trace: Trace) -> None:
    """A GPU that is kept busy has no major finding about idle time, and one that starves is not called busy."""
    for step in (None, *some_steps(trace)):
        verdict = verdict_on(trace, step)
        if verdict is None:
            continue
        _check_causes(verdict, step)
        idle = [each for each in finding_list(trace, step) if _is_idle(each) and each.severity is Severity.MAJOR]
        require(verdict.level > 0 or not idle, f"step {step}: {verdict.words}, and {[each.title for each in idle]}")
        headline = findings(trace, step).headline
        calls_busy = "Nothing large to save" in headline or "Largest saving: " in headline
        require(not calls_busy or verdict.level < 2, f"step {step}: {verdict.text}, and {headline}")


def _check_causes(verdict: Verdict, step: int | None) -> None:
    judged = verdict.judged
    require(sum(judged.causes) <= judged.idle, f"step {step}: causes of {sum(judged.causes)} of {judged.idle} ns")
    require(sum(judged.groups) == sum(judged.causes), f"step {step}: groups and causes differ")
    require(0 <= judged.exposed <= judged.time, f"step {step}: exposed {judged.exposed} of {judged.time} ns")
    require(0 <= judged.share <= 100 and 0 <= judged.idle_pct <= 100, f"step {step}: {judged.share} % idle")


def _is_idle(finding: Finding) -> bool:
    return finding.id in IDLE_RULES and finding.id != "pageable-copy" and finding.cost is not None


def one_number_for_one_thing(trace: Trace) -> None:
    """Period and idle time of a step are the same in Steps, Range, the findings' scope, a comparison and a check."""
    table = PANES["steps"].build(trace)
    if len(table) == 0 or not _has_gpu(trace):
        return
    numbers = table["step"].values.tolist()
    for step in some_steps(trace):
        row, scope = numbers.index(step), Scope(trace, step)
        if not table["period_us"].cell(row):
            # A step that ran nothing on a GPU has its CPU time for a scope.
            continue
        part = side(trace, str(step))
        rows = list(PANES["range"].build(trace, step).rows())
        verdict = verdict_on(trace, step)
        require(verdict is not None, f"step {step} has no verdict")
        for name, own, what, others in (
            ("gpu_idle_us", scope.idle, "GPU idle", verdict.judged.idle if verdict else 0),
            ("period_us", scope.time, "range", scope.time),
        ):
            values = {
                "Steps": table[name].cell(row),
                "scope": own / 1000,
                "Range": sum(float(each["total_us"] or 0) for each in rows if each["what"] == what),
                "compare": measured(part)[name].values.tolist()[0],
                "check": plain(TraceNames(part).bare(name)),
                "verdict": others / 1000,
            }
            _require_equal(f"{name} of step {step}", values)


def counts_agree(trace: Trace) -> None:
    """Panes that count one thing count as many of it."""
    for step in (None, *some_steps(trace)):
        facts = {str(each["key"]): each["number"] for each in PANES["summary"].build(trace, step).rows()}
        activities = sum(float(facts[name] or 0) for name in ("kernels", "copies"))
        values: dict[str, object] = {"Summary": activities, "Kernels": len(PANES["kernels"].build(trace, step))}
        for by in ("name", "op", "family", "stream"):
            values[f"Kernels by {by}"] = _sum(PANES["kernels"].build(trace, step, by=by), "calls")
        _require_equal(f"GPU activities of step {step}", values)
        _require_equal(
            f"launches of step {step}",
            {"Summary": facts["launches"] or 0, "Launches": len(PANES["launches"].build(trace, step))},
        )
        ranged = PANES["steps"].build(trace, step)
        _require_equal(f"steps of step {step}", {"Summary": facts["steps"] or 0, "Steps": len(ranged)})
        if step is not None:
            for name in ("kernels", "copies", "launches", "cpu_ops", "view_ops", "occupancy_queries"):
                values = {
                    "Steps": ranged[name].cell(0) or 0,
                    "Summary": facts[name] or 0,
                    "check": plain(TraceNames(side(trace, str(step))).bare(name)),
                }
                _require_equal(f"{name} of step {step}", values)


def _sum(table: Table, name: str) -> float:
    return float(np.sum(table[name].values)) if len(table) else 0.0


def _require_equal(name: str, values: Mapping[str, object]) -> None:
    # What a check does not know, it gives no other number for.
    values = {key: value for key, value in values.items() if value is not None or key not in ("check", "compare")}
    known = [float(value) for value in values.values() if isinstance(value, int | float)]
    same = len(known) == len(values) and max(known) - min(known) <= MAX_ERROR_US + 1e-9 * abs(max(known))
    require(same, f"{name}: {values}")


INVARIANTS: dict[str, Callable[[Trace], None]] = {
    each.__name__: each
    for each in (
        idle_stretches_cover_idle_time,
        periods_make_the_scope,
        busy_and_idle_are_the_span,
        findings_cost_no_more_than_their_scope,
        names_take_no_longer_than_they_ran,
        verdict_agrees_with_findings,
        one_number_for_one_thing,
        counts_agree,
    )
}
"""All of them by name."""


def broken(trace: Trace) -> Iterator[str]:
    """What does not hold of a trace, or could not be found out, each in a line with the name of the invariant."""
    for name, check in INVARIANTS.items():
        try:
            check(trace)
        except (Broken, AnalysisFailed) as fault:
            yield f"{name}: {fault}"
        except Exception:
            yield f"{name}: {traceback.format_exc(limit=-3)}"
