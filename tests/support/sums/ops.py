"""Sums over the ops pane and the views pane."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.support.sums.costs import Node, counted, slow_costs, slow_self_times
from tests.support.sums.rows import Row, check_near, held, lasting, ns, rows_of, total
from tests.support.sums.slices import Slice, SlowTrace, busy
from tracetui.model.trace import GPU_WORK, Kind
from tracetui.operators.views import VIEW_OPS

TIMES = ("self_cpu_us", "cpu_total_us", "self_device_us", "device_total_us")
ON_DEVICE = {"kernel", "memcpy", "memset", "GPU annotation", "wait"}
Sums = dict[tuple[str, bool], tuple[int, ...]]
"""Calls, kernels and times by name and whether it is an annotation."""


def check_ops(slow: SlowTrace, step: int | None) -> None:
    """Rows and their sums are those of torch's tree.

    Rows of ops are the names of ops. Torch's key does not know calls and overhead of such a name apart, so that
    their calls are those of the ops in the table and of whatever else bears the name.
    """
    nodes = slow_costs(slow)
    mine = [node for node in nodes if step in (None, node.slice.step)]
    table = rows_of(slow, "ops", step)
    assert sums_of(table) == slow_sums(slow, mine)
    assert total(table, "calls") == len(mine)
    assert all(row["cpu_total_us"] >= 0 for row in table)
    ops = {node.name for node in mine if node.slice.kind == Kind.CPU_OP}
    named = [node for node in mine if node.name in ops and not node.is_note]
    of_ops = [row for row in table if row["kind"] == "op"]
    assert {row["name"] for row in of_ops} == ops
    assert total(of_ops, "calls") == len(named)
    if step is None:
        check_self_times(table, nodes)


def sums_of(table: list[Row]) -> Sums:
    found: Sums = {}
    for row in table:
        values = row["calls"], row["kernels"] or 0, *(ns(row[name]) for name in TIMES)
        _add(found, (row["name"], row["kind"] == "annotation"), values)
    return found


def slow_sums(slow: SlowTrace, nodes: Iterable[Node]) -> Sums:
    """The same of nodes; without any GPU work nothing is said of devices."""
    found: Sums = {}
    for node in nodes:
        below = node.all_work()
        kernels = len(slow.launched.get(node.slice, ())) or sum(each.is_work for each in below)
        device = (lasting(node.work), lasting(below)) if slow.work else (0, 0)
        _add(found, (node.name, node.is_note), (1, kernels, node.own, node.dur, *device))
    return found


def _add(sums: Sums, key: tuple[str, bool], values: tuple[int, ...]) -> None:
    sums[key] = tuple(map(sum, zip(sums[key], values, strict=True))) if key in sums else values


def check_self_times(table: list[Row], nodes: list[Node]) -> None:
    """All self times are the durations of what is outermost, which is how long a thread is busy if nothing overlaps."""
    outermost = defaultdict(list)
    for node in nodes:
        if node.parent is None and not node.is_asynchronous:
            outermost[node.thread].append(node.slice)
    assert total(table, "self_cpu_us") == sum(map(lasting, outermost.values()))
    for mine in outermost.values():
        assert busy(mine) <= lasting(mine)


def check_ops_by_shape(slow: SlowTrace, step: int | None) -> None:
    """Shapes divide the rows."""
    nodes = [node for node in slow_costs(slow) if step in (None, node.slice.step)]
    assert sums_of(rows_of(slow, "ops", step, "shape")) == slow_sums(slow, nodes)


def check_ops_by_event(slow: SlowTrace, step: int | None) -> None:
    """Beside the rows of threads there are those of devices and, in the whole trace, of allocators."""
    for by in ("event", "frame"):
        table, every = rows_of(slow, "ops", step, by), slow_costs(slow, frames=by == "frame")
        nodes = [node for node in every if step in (None, node.slice.step)]
        allocated = [row for row in table if row["kind"] == "allocation"]
        on_device = [row for row in table if row["kind"] in ON_DEVICE]
        rest = [row for row in table if row["kind"] not in {*ON_DEVICE, "allocation"}]
        assert sums_of(rest) == slow_sums(slow, nodes)
        assert total(allocated, "calls") == (loose_instants(slow, nodes) if step is None else 0)
        check_device_rows(slow, on_device, step)


def check_device_rows(slow: SlowTrace, table: list[Row], step: int | None) -> None:
    """What ran on a device has no CPU time, owns itself, and annotations are 2 ns shorter than the file says."""
    ran = held(slow.of_kind(*GPU_WORK, Kind.GPU_ANNOTATION, Kind.SYNC), step)
    durations = [each.dur - 2 * (each.kind == Kind.GPU_ANNOTATION) for each in ran]
    device = sum(max(dur, 0) for dur in durations) if slow.work else 0
    assert total(table, "calls") == len(ran)
    assert total(table, "kernels") == (sum(each.is_work for each in ran))
    assert [total(table, name) for name in TIMES] == [0, 0, device, device]


def loose_instants(slow: SlowTrace, nodes: list[Node]) -> int:
    """How many events of allocators torch counts: outside of all slices, and failures anywhere."""
    instants = slow.trace.instants
    names = [slow.trace.names[name] for name in instants.name.tolist()]
    moments = [moment for name, moment in zip(names, instants.time.tolist(), strict=True) if name == "[memory]"]
    held = [moment for moment in moments if any(node.slice.start <= moment <= node.end for node in nodes)]
    return len(moments) - len(held) + names.count("[OutOfMemory]")


def check_walls(slow: SlowTrace, step: int | None) -> None:
    """For every name the time in which work launched inside of its slices ran, what runs side by side counting once."""
    every = counted(slow)
    above = slow.around(every, every)
    launched: dict[Slice, list[Slice]] = defaultdict(list)
    for call, work in slow.launched.items():
        holder: Slice | None = call
        while holder is not None:
            launched[holder] += work
            holder = above.get(holder)
    expected: Counter[tuple[str, bool]] = Counter()
    for node in slow_costs(slow):
        if step in (None, node.slice.step):
            expected[node.name, node.is_note] += busy(launched[node.slice])
    table = rows_of(slow, "ops", step)
    assert all((row["gpu_wall_us"] is None) == (not slow.launched) for row in table)
    assert {(row["name"], row["kind"] == "annotation"): ns(row["gpu_wall_us"]) for row in table} == expected


def check_views(slow: SlowTrace, step: int | None) -> None:
    """Ops inside which nothing was launched, and no others; of a trace without a GPU the known views alone."""
    listed = [op for op in slow.ops if op not in slow.launching and (slow.work or op.name in VIEW_OPS)]
    mine, own = held(listed, step), slow_self_times(slow)
    table, names = rows_of(slow, "views", step), {op.name for op in mine}
    assert total(table, "calls") == len(mine)
    assert total(table, "cpu_total_us") == lasting(mine)
    assert total(table, "self_cpu_us") == sum(own[op] for op in mine)
    assert total(table, "calls") + total(table, "launched") == sum(op.name in names for op in held(slow.ops, step))
    steps = slow.numbered(step)
    if lasting(steps):
        inside = [op for op in mine if op.within is not None]
        check_near(sum(row["per_step"] for row in table) * len(steps), len(inside))
        share = sum(row["pct_of_step_cpu"] for row in table)
        check_near(share * lasting(steps) / 100, sum(own[op] for op in inside))
