"""Sums over the panes of what ran on a GPU and of what put it there: kernels, launches, occupancy, roofline."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from tests.support.sums.rows import check_near, held, lasting, rows_of, total
from tests.support.sums.slices import Slice, SlowTrace
from tracetui.devices.kernel_work import kernel_work
from tracetui.model.trace import Kind

PRODUCT, PRODUCT_DIMS = "aten::mm", [[4, 8], [8, 2]]
"""A call of which the work is known."""
QUERY = "(?i)occupancy(max|available)"


def check_kernels(slow: SlowTrace, step: int | None) -> None:
    """However GPU work is grouped, it is all of it."""
    work = held(slow.work, step)
    table = rows_of(slow, "kernels", step)
    assert (len(table), total(table, "dur_us")) == (len(work), lasting(work))
    for by in ("name", "op", "family", "annotation", "stream"):
        table = rows_of(slow, "kernels", step, by)
        assert (total(table, "calls"), total(table, "total_us")) == (len(work), lasting(work))
    owners = Counter(each.owner.name if each.owner else None for each in work)
    assert {row["op"]: row["calls"] for row in rows_of(slow, "kernels", step, "op")} == owners


def check_graphs(slow: SlowTrace, step: int | None) -> None:
    """Graphs are launches of several activities, or that say so by their name."""
    launches = [call for call, work in slow.launched.items() if len(work) > 1 or "GraphLaunch" in call.name]
    mine = held(launches, step)
    table = rows_of(slow, "kernels", step, "graph")
    assert total(table, "replays") == len(mine)
    assert total(table, "total_us") == sum(lasting(slow.launched[call]) for call in mine)


def check_launches(slow: SlowTrace, step: int | None) -> None:
    """Calls that put work on a GPU; a delay is the stream at work and the dispatch."""
    table, calls = rows_of(slow, "launches", step), held(slow.launched, step)
    work = [each for call in calls for each in slow.launched[call]]
    delay = sum(max(slow.launched[call][0].start - call.end, 0) for call in calls)
    assert (len(table), total(table, "kernels"), total(table, "dur_us")) == (len(calls), len(work), lasting(calls))
    assert total(table, "queue_delay_us") == delay
    assert total(table, "stream_wait_us") + total(table, "dispatch_us") == delay
    assert total(table, "stream_wait_us") == sum(stream_wait(slow, call) for call in calls)
    assert total(table, "queue_depth") == sum(queue_depth(slow, call) for call in calls)
    check_near(sum(row["overhead_us"] * row["kernels"] for row in table), lasting(calls) / 1000)
    for by in ("name", "op", "stream"):
        table = rows_of(slow, "launches", step, by)
        assert (total(table, "calls"), total(table, "kernels")) == (len(calls), len(work))
        assert total(table, "total_us") == lasting(calls)


def stream_wait(slow: SlowTrace, call: Slice) -> int:
    """For how long (ns) after a call its stream was still at what had begun before the first work of the call."""
    first = slow.launched[call][0]
    order = sorted(slow.work, key=lambda each: each.row)
    ends = [each.end for each in order[: order.index(first)] if each.lane == first.lane]
    return max(min(max(ends, default=call.end), first.start) - call.end, 0)


def queue_depth(slow: SlowTrace, call: Slice) -> int:
    """Launches for the device of a call's first work that were made by then, less those whose first work had begun."""
    pid = slow.launched[call][0].pid
    mine = [(other, work[0]) for other, work in slow.launched.items() if work[0].pid == pid]
    made = sum(other.start <= call.start for other, _ in mine)
    return max(made - sum(first.start <= call.start for _, first in mine), 0)


def check_occupancy(slow: SlowTrace, step: int | None) -> None:
    """However queries are grouped, they are all of them."""
    queries = held(slow.calls_named(QUERY), step)
    table = rows_of(slow, "occupancy", step)
    assert (len(table), total(table, "dur_us")) == (len(queries), lasting(queries))
    table = rows_of(slow, "occupancy", step, "op")
    assert (total(table, "queries"), total(table, "total_us")) == (len(queries), lasting(queries))
    assert {row["op"] for row in table} == {each.owner.name if each.owner else None for each in queries}


def check_roofline(slow: SlowTrace, step: int | None) -> None:
    """Each call of an op stands at one kernel with the time of all it launched; nothing is listed that did not run."""
    calls = defaultdict(list)
    for each in slow.work:
        replayed = each.launch is not None and len(slow.launched[each.launch]) > 1
        if each.owner is not None and not replayed and each.kind != Kind.MEMCPY:
            calls[each.owner].append(each)
    mains = {op: work for op, work in calls.items() if any(each.kind == Kind.KERNEL for each in work)}
    found = kernel_work(slow.trace)
    is_main = found.group >= 0
    assert (is_main.sum(), found.span[is_main].sum()) == (len(mains), sum(map(lasting, mains.values())))
    if step is None:
        products = [work for op, work in mains.items() if op.name == PRODUCT and dims(slow, op) == PRODUCT_DIMS]
        table = [row for row in rows_of(slow, "roofline", step) if row["op"] == PRODUCT]
        table = [row for row in table if row["input_shapes"] == json.dumps(PRODUCT_DIMS)]
        assert total(table, "calls") == len(products)
        assert total(table, "total_us") == sum(map(lasting, products))
    for name in {op.name for op in mains}:
        table = [row for row in rows_of(slow, "roofline", step) if row["op"] == name]
        mine = [work for op, work in mains.items() if op.name == name and held(work, step)]
        assert total(table, "calls") <= len(mine)
        assert total(table, "total_us") <= sum(map(lasting, mine))


def dims(slow: SlowTrace, op: Slice) -> Any:
    """The shapes that an op was called with."""
    return slow.trace.event_of(op.row)["args"].get("Input Dims")
