"""The numbers of the overview, all of one scope: a step, a range of time, all steps, or the trace (R3.93).

Every one comes from a pane or from the function that a pane takes it from. Bars are means over the devices: the
families of GPU activities and the causes of idle time together are the time of the scope. A start-up that is most of a
trace without steps is left out of them, and said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import field, replace
from functools import partial

import numpy as np

from tracetui.errors import AnalysisFailed
from tracetui.findings import finding_list
from tracetui.findings.scope import Finding, Scope, Severity
from tracetui.frozen import frozen
from tracetui.idle.scope_times import (
    idle_stretches,
    idle_within,
    median_step,
    scope_title,
    step_overlaps,
    times_in_words,
)
from tracetui.idle.utilisation import MIN_BOUND_PERCENT, is_bound, mfu_sentence, scope_utilisation
from tracetui.idle.waits import WORDS, Cause, device_order, sync_calls
from tracetui.kernel_names.slice_names import Family, families, short_kernel
from tracetui.linking.autograd import PHASE_WORDS, Phase, phase_spans
from tracetui.linking.groups import distinct
from tracetui.linking.lines import known_sites
from tracetui.linking.links import links, op_rows
from tracetui.linking.placement import within
from tracetui.linking.step_kinds import averaged_steps, kind_words
from tracetui.linking.step_sources import NONE
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, Part, TimeRange, covered_within, difference, union
from tracetui.model.quantities import duration, rounded_percent
from tracetui.model.results import attempted, failures_in_words, guarded
from tracetui.model.table import Cell
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES
from tracetui.tables.step_table import COMMUNICATION, COMPUTE, CPU, IDLE, odd_steps, step_parts

MAX_ROWS = 40
"""Maximum kernels, operators and source lines: more than any screen has lines for."""
MAX_STEPS = 200
"""Maximum steps that are drawn, the first of them; more are counted."""
FAMILY_WORDS = {
    Family.GEMM: "GEMM",
    Family.ATTENTION: "attention",
    Family.POINTWISE: "elementwise",
    Family.REDUCTION: "reduction",
    Family.OTHER: "other kernels",
    Family.COMMUNICATION: "communication",
    Family.COPY: "copies",
}
"""Families in words, in the order of precedence where several run at once: what computes hides communication, and any
kernel hides copies, as in exposed communication (R3.30).
"""
BETWEEN_KERNELS = "between kernels"
"""Idle time too short to be a gap."""
MAKING = "computing …"
WAITS, OTHER_CPU, OPERATORS = "waits for the GPU", "Python or unknown", "operators"


@frozen(eq=True)
class Entry:
    """A row of the overview."""

    section: str
    """`gpu`, `mfu`, `idle`, `cpu`, `todo`, `step`, `serving`, `kernel`, `op`, `where` or `trust`."""
    name: str
    ns: float | None = None
    """Time in the scope; of GPU and idle time the mean over the devices, of a finding what it could save at most."""
    share: float | None = None
    """Of the scope, 0 to 1; of a start-up of the scope with it, of an operator without a GPU of all of them."""
    count: int | None = None
    note: str = ""
    """Of a finding what to do first, of a step what is odd, of a doubt its effect."""
    key: str = ""
    """The family, phase, severity, or number of the step."""
    row: int = -1
    """The slice that it leads to, -1 for none."""
    jump: str = ""
    """The viewpoint that it leads to, as a string."""
    parts: tuple[float, ...] = ()
    """Of a step its compute, exposed communication and idle time in ns, or its CPU time."""


@frozen(eq=True)
class Overview:
    """The overview of a scope."""

    title: str
    """`step 2, the median of 5`."""
    times: str
    """The times of a step in words: `period 346 ms, GPU span 341 ms, CPU 330 ms`."""
    ns: int
    """Length of the scope."""
    windows: tuple[tuple[int, int], ...]
    """Its disjoint stretches of time, on the clock of the GPU."""
    has_gpu: bool
    start_up: int = 0
    """Time in ns of a start-up that is left out."""
    median_kernel: float | None = None
    """Median duration in ns of the kernels of the scope."""
    steps: int = 0
    """Number of all steps, of which the first `MAX_STEPS` have an entry."""
    overlap: str = ""
    """Clause on steps that overlap on the GPU."""
    no_steps: str = ""
    """Words in place of steps."""
    where: str = ""
    """What the rows of the section `where` are: `source line`, `operator`."""
    entries: tuple[Entry, ...] = ()
    failures: tuple[str, ...] = field(default=())
    """A sentence about each section that could not be made."""
    pending: frozenset[str] = frozenset()
    """Sections that are still being made."""

    def of(self, *sections: str) -> list[Entry]:
        """The entries of some sections."""
        return [entry for entry in self.entries if entry.section in sections]


Maker = Callable[[Trace, Part | None, Overview], Iterator[Entry]]


def overview_stages(trace: Trace, part: Part | None) -> Iterator[Overview]:
    """The overview as it grows, what is known soonest first; a section that fails costs itself.

    Raises: UsageError when no step has the number.
    """
    base = _base(trace, part)
    entries: list[Entry] = []
    failures: list[AnalysisFailed] = []

    def made(what: str, _: str, make: Maker) -> list[Entry]:
        with guarded(f"The overview's {what}"):
            return list(make(trace, part, base))

    for number, stage in enumerate(_STAGES):
        results, failed = attempted(partial(made, *each) for each in stage)
        entries += (entry for result in results for entry in result)
        failures += failed
        # Sections stand in one order, whenever they were made.
        entries.sort(key=lambda entry: SECTIONS.index(entry.section))
        pending = frozenset(section for later in _STAGES[number + 1 :] for _, section, _ in later)
        yield replace(base, entries=tuple(entries), failures=failures_in_words(failures, "sections"), pending=pending)


def overview_of(trace: Trace, part: Part | None, told: Callable[[Overview], None] = lambda _: None) -> Overview:
    """The whole overview; `told` is called with what is known of it so far."""
    overview = None
    for overview in overview_stages(trace, part):
        told(overview)
    assert overview is not None
    return overview


def _base(trace: Trace, part: Part | None) -> Overview:
    """The scope: its title, its windows, and the start-up that is left out."""
    has_gpu = len(links(trace).gpu) > 0
    times, start_up = "", 0
    if isinstance(part, TimeRange):
        windows = np.array([part.start], np.int64), np.array([part.end], np.int64)
        title = f"range {part.text}"
    else:
        scope = Scope(trace, part)
        windows, title = scope.windows, _title(trace, part)
        if part is not None:
            times = times_in_words(trace, int(steps(trace).labelled(part)[0]))[0]
        # Where the causes of idle time fail, nothing is known of a start-up: the sections say so.
        with suppress(AnalysisFailed), guarded("The start-up"):
            if has_gpu and scope.rest < scope.time:
                start_up, windows = _without_start_up(trace, scope)
                title += ", after start-up"
    return Overview(
        title,
        times,
        max(int((windows[1] - windows[0]).sum()), 1),
        tuple(zip(windows[0].tolist(), windows[1].tolist(), strict=True)),
        has_gpu,
        start_up,
        _median_kernel(trace, part),
        len(steps(trace)),
        "they overlap" if step_overlaps(trace).any() else "",
        "turned off" if trace.steps_by == NONE else "none recorded",
        _where_by(trace, has_gpu),
    )


def _title(trace: Trace, step: int | None) -> str:
    """`decode step 12, the median of 14`, `the steps`, `the trace`."""
    if step is None:
        return scope_title(trace, None)
    all_steps = steps(trace)
    index = int(all_steps.labelled(step)[0])
    kind = kind_words(trace, index).partition(",")[0]
    named = f"{kind} step {step}" if kind else f"step {step}"
    if len(all_steps) == 1:
        return f"{named}, the only one"
    if step != median_step(trace):
        return f"{named}, one of {len(all_steps):,}"
    return f"{named}, the median of {int(averaged_steps(trace).sum()) or len(all_steps):,}"


def _without_start_up(trace: Trace, scope: Scope) -> tuple[int, tuple[Int64, Int64]]:
    """Time in ns of a start-up, and the windows of a scope without it."""
    low, high = scope.windows
    every = idle_stretches(trace).clipped(low, high)
    every = every.take(np.flatnonzero(every.device == every.device[:1].max(initial=-1)))
    lead = (every.gap < 0) & (every.after >= 0)
    is_start_up = every.cause == Cause.START_UP
    # Where first uses take most of the time before the first activity, all of it is theirs.
    if 2 * int(every.dur[lead & is_start_up].sum()) > int(every.dur[lead].sum()):
        is_start_up |= lead
    cut = union(every.start[is_start_up], every.end[is_start_up])
    windows = difference(low, high, *cut)
    return scope.time - int((windows[1] - windows[0]).sum()), windows


def _median_kernel(trace: Trace, part: Part | None) -> float | None:
    rows = within(trace, links(trace).gpu, part)
    rows = rows[trace.slices.kind[rows] == Kind.KERNEL]
    return float(np.median(trace.slices.dur[rows])) if len(rows) else None


def _windows(base: Overview) -> tuple[Int64, Int64]:
    every = np.array(base.windows, np.int64).reshape(-1, 2)
    return every[:, 0], every[:, 1]


def device_rows(trace: Trace) -> Iterator[Int64]:
    """The GPU activities of each device."""
    order = device_order(trace)
    for number in distinct(order.device).tolist():
        yield order.row[order.device == number]


def family_spans(trace: Trace, rows: Int64) -> Iterator[tuple[Family, int, Int64, Int64]]:
    """When some activities of a device ran, by family: in order of precedence the number of activities, and the start
    and end of the time that no family before has.
    """
    slices, of_row = trace.slices, families(trace, rows)
    taken = np.empty(0, np.int64), np.empty(0, np.int64)
    for family in FAMILY_WORDS:
        mine = rows[of_row == family]
        if len(mine) == 0:
            continue
        begin, end = union(slices.start[mine], slices.end[mine])
        yield family, len(mine), *difference(begin, end, *taken)
        taken = union(np.concatenate([taken[0], begin]), np.concatenate([taken[1], end]))


def _gpu(trace: Trace, _: Part | None, base: Overview) -> Iterator[Entry]:
    """Time of each family of GPU activities, the mean over the devices; what runs at once counts once."""
    low, high = _windows(base)
    slices, spent, calls, devices = trace.slices, dict.fromkeys(FAMILY_WORDS, 0.0), dict.fromkeys(FAMILY_WORDS, 0), 0
    for rows in device_rows(trace):
        devices += 1
        mine = rows[(slices.end[rows] > low[0]) & (slices.start[rows] < high[-1])]
        for family, number, begin, end in family_spans(trace, mine):
            spent[family] += int(covered_within(begin, end, low, high).sum())
            calls[family] += number
    for family in sorted(FAMILY_WORDS, key=lambda each: -spent[each]):
        if spent[family]:
            ns = spent[family] / devices
            yield Entry("gpu", FAMILY_WORDS[family], ns, ns / base.ns, calls[family], key=family.name.lower())


def _mfu(trace: Trace, part: Part | None, base: Overview) -> Iterator[Entry]:
    """The MFU of the scope; none where operations of most GPU time are not known, or start-up is left out."""
    if not base.has_gpu or base.start_up:
        return
    mfu, known = scope_utilisation(trace, part)
    if not np.isnan(mfu) and (known >= MIN_BOUND_PERCENT or not is_bound(trace, known)):
        title = base.title.partition(",")[0]
        key = "bound" if is_bound(trace, known) else ""
        yield Entry("mfu", "MFU", share=mfu / 100, note=mfu_sentence(trace, mfu, known, title), key=key)


def _idle(trace: Trace, _: Part | None, base: Overview) -> Iterator[Entry]:
    """Idle time of the devices by cause, their mean."""
    if not base.has_gpu:
        return
    low, high = _windows(base)
    devices = device_order(trace).devices
    whole = int(idle_within(trace, low, high).sum())
    every = idle_stretches(trace).clipped(low, high)
    sums = np.bincount(every.cause, every.dur, len(Cause)) if len(every) else np.zeros(len(Cause))
    causes = {WORDS[cause]: float(sums[cause]) for cause in Cause if sums[cause]}
    rest = whole - sum(causes.values())
    if rest > 0.5:
        causes[BETWEEN_KERNELS] = rest
    for name, total in sorted(causes.items(), key=lambda each: -each[1]):
        ns = total / devices
        yield Entry("idle", name, ns, ns / base.ns, key="idle")


def cpu_phases(trace: Trace) -> list[tuple[str, str, tuple[Int64, Int64]]]:
    """Phases of the CPU: a name, a key, and when some thread was in it; of several at once the first counts."""
    spans, slices, syncs = phase_spans(trace), trace.slices, sync_calls(trace)
    has_backward = len(spans.of(Phase.BACKWARD)[0]) > 0
    return [
        (PHASE_WORDS[Phase.DATA], "data", spans.of(Phase.DATA)),
        (PHASE_WORDS[Phase.OPTIMIZER], "optimizer", spans.of(Phase.OPTIMIZER)),
        (PHASE_WORDS[Phase.BACKWARD], "backward", spans.of(Phase.BACKWARD)),
        (WAITS, "wait", union(slices.start[syncs], slices.end[syncs])),
        (PHASE_WORDS[Phase.FORWARD] if has_backward else OPERATORS, "forward", spans.of(Phase.FORWARD)),
    ]


def phase_times(trace: Trace, low: Int64, high: Int64) -> list[tuple[str, str, Int64]]:
    """Time in ns of each of `cpu_phases` in each of some windows, what an earlier one has left out."""
    taken = np.empty(0, np.int64), np.empty(0, np.int64)
    before, times = np.zeros(len(low), np.int64), []
    for name, key, (begin, end) in cpu_phases(trace):
        taken = union(np.concatenate([taken[0], begin]), np.concatenate([taken[1], end]))
        now = covered_within(*taken, low, high)
        times.append((name, key, now - before))
        before = now
    return times


def _cpu(trace: Trace, _: Part | None, base: Overview) -> Iterator[Entry]:
    """The CPU by phase, and the rest."""
    spent = [(name, key, int(times.sum())) for name, key, times in phase_times(trace, *_windows(base))]
    entries = [Entry("cpu", name, ns, ns / base.ns, key=key) for name, key, ns in spent if ns]
    rest = base.ns - sum(ns for _, _, ns in spent)
    if rest > 0 and entries:
        entries.append(Entry("cpu", OTHER_CPU, rest, rest / base.ns, key="none"))
    yield from sorted(entries, key=lambda each: -(each.ns or 0))


def _todo(trace: Trace, part: Part | None, base: Overview) -> Iterator[Entry]:
    """The findings of the scope with what to do first."""
    if isinstance(part, TimeRange):
        return
    for each in finding_list(trace, part):
        if each.severity > Severity.NOTE or each.cost is not None:
            yield _finding(trace, each, part, base, "")


def _elsewhere(trace: Trace, part: Part | None, base: Overview) -> Iterator[Entry]:
    """The findings that only other steps have."""
    if part is None or isinstance(part, TimeRange):
        return
    known = {each.id for each in finding_list(trace, part)}
    own = int(steps(trace).row[steps(trace).labelled(part)[0]])
    whole = Scope(trace, None)
    for each in finding_list(trace, None):
        # That this step is held up is no news in it, but why.
        is_own = each.id == "held-up-step" and each.row == own
        if each.id not in known and each.severity > Severity.NOTE and each.cost is not None and not is_own:
            share = rounded_percent(100 * each.cost / whole.rest)
            yield _finding(trace, each, None, base, f"{share} of all steps")


def _finding(trace: Trace, finding: Finding, part: int | None, base: Overview, whose: str) -> Entry:
    jumps = PANES["findings"].build(trace, part)
    titles = [str(jumps["title"].cell(row)) for row in range(len(jumps))]
    index = titles.index(finding.title) if finding.title in titles else -1
    action = (finding.action or finding.advice.partition(". ")[0]).rstrip(".")
    whole = base.ns + (base.start_up if finding.id == "start-up" else 0)
    share = finding.cost / whole if finding.cost is not None and not whose else None
    # Behind the colon a title has its time and share, which stand beside it.
    title = finding.title.rpartition(": ")[0] if finding.cost is not None and ": " in finding.title else finding.title
    return Entry(
        "todo",
        f"{title}, {whose}" if whose else title,
        finding.cost,
        share,
        note=action[:1].upper() + action[1:],
        key=finding.severity.name.lower(),
        row=finding.row,
        jump=str(jumps["jump"].cell(index) or "") if index >= 0 else "",
    )


def _steps(trace: Trace, _: Part | None, base: Overview) -> Iterator[Entry]:
    """Every step with its parts, and what is odd about it."""
    if len(steps(trace)) == 0:
        return
    table = PANES["steps"].build(trace)
    parts, odd = step_parts(trace), odd_steps(trace)
    names = [name for name in (COMPUTE, COMMUNICATION, IDLE, CPU) if name in parts]
    for row in range(min(len(table), MAX_STEPS)):
        times = tuple(0.0 if np.isnan(value) else 1000 * value for value in (float(parts[name][row]) for name in names))
        off = odd[row]
        note = f"{_signed_share(off.change)} {off.words}" if off and off.parts else ""
        number, slice_row = str(table["step"].cell(row)), int(table.slices[row]) if table.slices is not None else -1
        yield Entry("step", number, sum(times), note=note, key=number, row=slice_row, parts=times)


def _serving(trace: Trace, _: Part | None, __: Overview) -> Iterator[Entry]:
    """Of an inference server each kind of step: the time per output token (TPOT), or that of a step."""
    if not PANES["serving"].is_offered(trace):
        return
    for row in PANES["serving"].build(trace).rows():
        per_token = row["token_us"] is not None
        us = row["token_us"] if per_token else row["gpu_period_us"] or row["median_us"]
        words = [f"{'TPOT' if per_token else 'a step'} {duration(1000 * _number(us))}"] if us else []
        words += [f"{_number(row[name]):,.0f} {what}" for name, what in _SERVED if row[name] is not None]
        yield Entry("serving", str(row["kind"]), 1000 * _number(us), None, int(_number(row["steps"])), ", ".join(words))


_SERVED = (("requests", "requests"), ("tokens", "tokens in"), ("output_tokens_per_s", "output tokens/s"))
"""Columns of the pane `serving` and their words."""


def _signed_share(share: float) -> str:
    if share >= 1:
        return f"×{1 + share:,.1f}"
    return f"{'+' if share >= 0 else '−'}{rounded_percent(100 * abs(share))}"


def _kernels(trace: Trace, part: Part | None, base: Overview) -> Iterator[Entry]:
    """The heaviest kernels and copies by name, the mean over the devices."""
    if not base.has_gpu:
        return
    table, rows = PANES["kernels"].build(trace, part, by="name"), within(trace, links(trace).gpu, part)
    _, first = np.unique(trace.slices.name[rows], return_index=True)
    shades = families(trace, rows[first]).tolist()
    family = {trace.name_of(row): Family(each).name.lower() for row, each in zip(rows[first], shades, strict=True)}
    devices = device_order(trace).devices
    totals, calls = 1000 * table["total_us"].values.astype(np.float64) / devices, table["calls"].values
    if part is None:
        # The pane has those outside of the steps, too.
        names = [trace.names.find(str(table["name"].cell(row))) for row in range(len(table))]
        inside = covered_within(*_windows(base), trace.slices.start[rows], trace.slices.end[rows])
        totals = np.bincount(trace.slices.name[rows], inside, len(trace.names))[names] / devices
        calls = np.bincount(trace.slices.name[rows[inside > 0]], minlength=len(trace.names))[names]
    for row in np.argsort(-totals, kind="stable")[:MAX_ROWS].tolist():
        if not calls[row]:
            continue
        name, ns = str(table["name"].cell(row)), float(totals[row])
        yield Entry(
            "kernel",
            short_kernel(name),
            ns,
            ns / base.ns,
            int(calls[row]),
            key=family[name],
            row=int(table.slices[row]) if table.slices is not None else -1,
            note=name,
        )


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def _operators(trace: Trace, part: Part | None, base: Overview) -> Iterator[Entry]:
    """Without a GPU the operators by their own time on the CPU, or in another trace what took most time by name."""
    if base.has_gpu:
        return
    if len(op_rows(trace)):
        table = PANES["ops"].build(trace, part)
        rows = [row for row in table.rows() if row["kind"] == "op"]
        times = [(str(row["name"]), _number(row["calls"]), 1000 * _number(row["self_cpu_us"])) for row in rows]
    else:
        slices = trace.slices
        own = np.bincount(slices.name, np.maximum(slices.self_time, 0), len(trace.names))
        calls = np.bincount(slices.name, minlength=len(trace.names))
        times = [(trace.names[index], float(calls[index]), float(own[index])) for index in np.argsort(-own)[:MAX_ROWS]]
    whole = sum(ns for _, _, ns in times) or 1.0
    for name, number, ns in sorted(times, key=lambda each: -each[2])[:MAX_ROWS]:
        if ns > 0:
            yield Entry("op", name, ns, ns / whole, int(number), key="forward")


def _where_by(trace: Trace, has_gpu: bool) -> str:
    sites = known_sites(trace) if has_gpu else ()
    return next((site for site in ("line", "function", "module") if site in sites), "operator" if has_gpu else "")


def _where(trace: Trace, part: Part | None, base: Overview) -> Iterator[Entry]:
    """GPU time by source line where frames were recorded, by module, or else by operator, the mean over the devices."""
    if not base.where:
        return
    if base.where == "operator":
        rows: list[tuple[Cell, Cell, Cell]] = [
            (row["name"], row["calls"], row["self_device_us"])
            for row in PANES["ops"].build(trace, part).rows()
            if row["kind"] == "op" and row["self_device_us"]
        ]
    else:
        table = PANES["kernels"].build(trace, part, by=base.where)
        rows = [(row[base.where], row["calls"], row["total_us"]) for row in table.rows() if row[base.where]]
    devices = device_order(trace).devices
    for name, calls, us in sorted(rows, key=lambda each: -_number(each[2]))[:MAX_ROWS]:
        ns = 1000 * _number(us) / devices
        yield Entry("where", str(name), ns, ns / base.ns, int(_number(calls)), key="other")


def _trust(trace: Trace, _: Part | None, __: Overview) -> Iterator[Entry]:
    """The checks of the trace itself that found something, the doubts first."""
    table = PANES["health"].build(trace)
    rows = [row for row in table.rows() if row["severity"] not in (None, "fine", "ok")]
    for row in sorted(rows, key=lambda each: each["severity"] == "note"):
        number = int(_number(row["count"]))
        yield Entry("trust", str(row["check"]), count=number, note=str(row["effect"] or ""), key=str(row["severity"]))


SECTIONS = ("gpu", "mfu", "idle", "cpu", "todo", "step", "serving", "kernel", "op", "where", "trust")
"""In the order of the rows."""
_STAGES: tuple[tuple[tuple[str, str, Maker], ...], ...] = (
    (
        ("GPU time by family", "gpu", _gpu),
        ("heaviest kernels", "kernel", _kernels),
        ("heaviest operators", "op", _operators),
        ("phases of the CPU", "cpu", _cpu),
    ),
    (("causes of idle time", "idle", _idle),),
    (
        ("steps", "step", _steps),
        ("kinds of steps", "serving", _serving),
        ("MFU", "mfu", _mfu),
    ),
    (
        ("what to do first", "todo", _todo),
        ("doubts about the trace", "trust", _trust),
    ),
    (("source lines", "where", _where),),
    (("what to do in other steps", "elsewhere", _elsewhere),),
)
"""What is made one after another: what it is in words, its section, and what makes it."""


def trust_words(overview: Overview) -> tuple[str, str]:
    """Doubts about the numbers in few words, or that there is none; and what to know of the recording."""
    if "trust" in overview.pending:
        return MAKING, ""
    doubts = [entry.name for entry in overview.of("trust") if entry.key != "note"]
    notes = [entry.name for entry in overview.of("trust") if entry.key == "note"]
    said = f"doubts: {', '.join(doubts)}" if doubts else "no doubt about any number"
    return said, f"notes: {', '.join(notes)}" if notes else ""


def spare_words(overview: Overview) -> str:
    """Sentence in place of findings where there is none."""
    if {"todo", "idle"} & overview.pending:
        return MAKING
    if not overview.has_gpu:
        return ""
    idle = sum(entry.ns or 0 for entry in overview.of("idle"))
    kernel = f"; the median kernel takes {duration(overview.median_kernel)}" if overview.median_kernel else ""
    busy = f"the GPU is idle for {rounded_percent(100 * idle / overview.ns)} of {overview.title.partition(',')[0]}"
    return f"No rule names a saving: {busy}{kernel}."


def length_words(overview: Overview) -> str:
    """The scope and its times: `step 2, the median of 5 · period 346 ms, GPU span 341 ms, CPU 330 ms`."""
    return f"{overview.title} · {overview.times or duration(overview.ns)}"


def left_out_words(overview: Overview) -> str:
    """A sentence about the start-up that is left out; empty for none."""
    if not overview.start_up:
        return ""
    return f"A start-up of {duration(overview.start_up)} is left out: warm up before recording. All below is the rest."
