"""Sums over time: what devices and streams did and did not do, of the whole trace and step by step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from tests.support.sums.costs import slow_costs
from tests.support.sums.device import QUERY
from tests.support.sums.rows import check_near, held, lasting, ns, rows_of, total
from tests.support.sums.slices import Slice, SlowTrace, busy, by_device, holes, stretches
from tracetui.idle.gpu_spans import Exposure, exposure, step_exposure
from tracetui.idle.idle_parts import idle_by_step
from tracetui.idle.scope_times import scope_windows, step_periods
from tracetui.idle.verdict import verdict
from tracetui.linking.steps import steps as steps_of
from tracetui.model.trace import Kind
from tracetui.operators.views import VIEW_OPS

SHORTEST = 30
"""Gaps of fewer ns do not count."""
PARTS = ("cpu_late_us", "in_launch_us", "waiting_us")
WAITS = ("host_wait_us", "kernel_wait_us", "other_us")
SYNC = r"^(cu|cuda|hip)(Device|Stream|Event|Ctx)Synchronize"


def check_gaps(slow: SlowTrace, step: int | None) -> None:
    """Gaps are all stretches in which a device ran nothing; where a launch is known, their parts add up to them."""
    table = rows_of(slow, "gaps", step)
    gaps = [(ended_by(work, end), start, end) for work in by_device(slow.work) for start, end in holes(work)]
    gaps = [gap for gap in gaps if gap[2] - gap[1] >= SHORTEST and step in (None, gap[0].step)]
    assert len(table) == len(gaps)
    assert total(table, "start_us") == sum(start for _, start, _ in gaps)
    assert total(table, "dur_us") == sum(end - start for _, start, end in gaps)
    known = [row for row in table if row["cpu_late_us"] is not None]
    assert len(known) == sum(after.launch is not None for after, _, _ in gaps)
    assert all(ns(row["dur_us"]) == sum(ns(row[name]) for name in PARTS) for row in known)
    by_cause = rows_of(slow, "gaps", step, "cause")
    assert total(by_cause, "gaps") == len(table)
    assert [total(by_cause, name) for name in PARTS] == [total(table, name) for name in PARTS]
    assert total(by_cause, "total_us") == total(table, "dur_us")
    if table:
        check_near(sum(row["pct"] for row in by_cause), 100)


def ended_by(work: Iterable[Slice], end: int) -> Slice:
    """The work that begins at the end of a gap; of several that which was launched last."""
    begun = [each for each in work if each.start == end]
    return min(begun, key=lambda each: (-each.launch.start if each.launch else float("inf"), each.row))


def check_verdict(slow: SlowTrace, step: int | None) -> None:
    """Time at work, gaps, and holes too short to count are the time of all devices; causes divide the gaps."""
    judged, devices = verdict(slow.trace), by_device(slow.work)
    idle = [end - start for work in devices for start, end in holes(work)]
    gaps = sum(length for length in idle if length >= SHORTEST)
    assert idle_by_step(slow.trace).sum() == gaps
    assert (judged is None) == (not slow.work)
    if judged is not None:
        assert (judged.covered, judged.idle) == (sum(map(busy, devices)), sum(idle))
        assert judged.pauses == sum(idle) - gaps
        assert judged.activities == len(slow.work)


def check_streams(slow: SlowTrace, step: int | None) -> None:
    """What a stream waited for is the time in which it ran nothing."""
    streams = defaultdict(list)
    for each in held(slow.work, step):
        streams[each.lane].append(each)
    table = rows_of(slow, "gaps", step, "stream")
    assert (len(table), total(table, "activities")) == (len(streams), sum(map(len, streams.values())))
    assert total(table, "idle_us") == sum(end - start for work in streams.values() for start, end in holes(work))
    assert all(ns(row["idle_us"]) == sum(ns(row[name]) for name in WAITS) for row in table)


def check_exposure(slow: SlowTrace, step: int | None) -> None:
    """Compute, communication and copies that nothing hid, work of other steps, and idle time are the time of every
    device."""
    launched = [[each for each in slow.work if each.within is one] for one in slow.steps]
    check_parts(slow, exposure(slow.trace), by_device(slow.work))
    check_parts(slow, step_exposure(slow.trace), [work for mine in launched for work in by_device(mine)])


def check_parts(slow: SlowTrace, found: Exposure, works: list[list[Slice]]) -> None:
    """The parts are those of the works, moment by moment."""
    expected: Counter[str] = Counter()
    for work in works:
        for start, end, open_now in on_device(slow, work):
            expected[what_ran(open_now, work)] += end - start
    parts = {name: getattr(found, name) for name in ("compute", "exposed_comm", "exposed_copy", "others", "idle")}
    assert {name: values.sum() for name, values in parts.items() if values.any()} == dict(+expected)
    assert np.array_equal(sum(parts.values()), found.span)


def on_device(slow: SlowTrace, work: list[Slice]) -> Iterator[tuple[int, int, list[Slice]]]:
    """What was open on the device of some work, of any step, from its first start to its last end."""
    low, high = min(each.start for each in work), max(each.end for each in work)
    beside = [each for each in slow.work if each.pid == work[0].pid]
    return ((start, end, now) for start, end, now in stretches(beside) if low <= start and end <= high)


def what_ran(open_now: list[Slice], own: list[Slice]) -> str:
    """The part of the exposure of some work to which a moment belongs, by what is open then."""
    kernels = [each for each in open_now if each.kind == Kind.KERNEL]
    computing = [each for each in kernels if not each.name.startswith("nccl")]
    mine = {id(each) for each in own}
    if not open_now:
        return "idle"
    if any(id(each) in mine for each in computing):
        return "compute"
    if not computing and any(id(each) in mine for each in kernels):
        return "exposed_comm"
    return "exposed_copy" if not kernels and any(id(each) in mine for each in open_now) else "others"


def check_steps(slow: SlowTrace, step: int | None) -> None:
    """Every step has what began in it and what it launched; a GPU is busy in the span of it, and idle in its period."""
    table, steps = rows_of(slow, "steps", step), slow.numbered(step)
    views = [op for op in slow.ops if op.name in VIEW_OPS and op not in slow.launching]
    kernels = [each for each in slow.work if each.kind == Kind.KERNEL]
    copies = [each for each in slow.work if each.kind != Kind.KERNEL]
    counts = {"kernels": kernels, "copies": copies, "launches": slow.launched, "cpu_ops": slow.ops, "view_ops": views}
    for name, slices in {**counts, "occupancy_queries": slow.calls_named(QUERY)}.items():
        assert total(table, name) == sum(each.within in steps for each in slices)
    assert (total(table, "start_us"), total(table, "dur_us")) == (sum(one.start for one in steps), lasting(steps))
    assert total(table, "sync_us") == lasting(each for each in waits(slow) if each.within in steps)
    works = [[each for each in slow.work if each.within is one] for one in steps]
    own_holes = sum(end - start for work in works for start, end in holes(work))
    assert total(table, "gpu_busy_us") == sum(map(busy, works))
    assert total(table, "gpu_span_us") == sum(map(busy, works)) + own_holes
    others = 0
    for mine in (some for work in works for some in by_device(work)):
        own = {id(each) for each in mine}
        for start, end, now in on_device(slow, mine):
            others += (end - start) * (bool(now) and not any(id(each) in own for each in now))
    assert total(table, "gpu_others_us") == others
    low, high = (bounds.tolist() for bounds in step_periods(slow.trace))
    rows = steps_of(slow.trace).row.tolist()
    windows = {row: (start, end) for row, start, end in zip(rows, low, high, strict=True)}
    devices = {each.pid: [one for one in slow.work if one.pid == each.pid] for each in slow.work}
    idle = length = 0
    for one, work in zip(steps, works, strict=True):
        if work:
            start, end = windows[one.row]
            length += end - start
            idle += sum(end - start - overlap(beside, start, end) for beside in devices.values())
    assert (total(table, "period_us"), total(table, "gpu_idle_us")) == (length, idle)


def overlap(work: list[Slice], low: int, high: int) -> int:
    """The time in a window in which some of the work is open."""
    return sum(max(min(end, high) - max(start, low), 0) for start, end, now in stretches(work) if now)


def waits(slow: SlowTrace) -> list[Slice]:
    """Calls that wait for the GPU, without that with which the profiler ends (R3.31)."""
    found = slow.calls_named(SYNC)
    if found and slow.launched:
        last = min(found, key=lambda each: (-each.start, each.row))
        if "Device" in last.name and last.start > max(call.start for call in slow.launched):
            found.remove(last)
    return found


def check_summary(slow: SlowTrace, step: int | None) -> None:
    """The summary counts what there is in the trace or the step, and its times are those of the same."""
    told = {row["key"]: row["number"] for row in rows_of(slow, "summary", step)}
    work, steps = held(slow.work, step), slow.numbered(step)
    kernels = sum(each.kind == Kind.KERNEL for each in work)
    assert (told["kernels"], told["copies"]) == (kernels, len(work) - kernels)
    assert told["cpu_ops"] == len(held(slow.ops, step))
    assert told["launches"] == len(held(slow.launched, step))
    assert told["steps"] == len(steps)
    assert told["without_launch"] == sum(each.launch is None for each in slow.work)
    nodes = [node for node in slow_costs(slow) if step in (None, node.slice.step)]
    assert ns(told["self_cpu_total_us"]) == sum(node.own for node in nodes)
    if slow.work:
        low, high = min(each.start for each in slow.slices), max(each.end for each in slow.slices)
        if step is not None:
            starts, ends = scope_windows(slow.trace, step)
            low, high = int(starts[0]), int(ends[-1])
        open_times = [(start, end) for start, end, open_now in stretches(slow.work) if open_now]
        spent = sum(max(min(end, high) - max(start, low), 0) for start, end in open_times)
        assert ns(told["gpu_busy_us"]) == spent
    # Of several steps of one number the verdict is that on the first, and without one this is null.
    if any(step is None or each.within is steps[0] for each in work):
        assert ns(told["self_device_total_us"]) == lasting(work)
