"""Sentences about the CPU: operators that fused, are gone, new or called more or less often, and where time went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracetui.comparing.change_rows import CANNOT_TELL, FASTER, FUSED_INTO, GONE, NEW, SAME, SLOWER, Total
from tracetui.comparing.fairness import WITHIN_NOISE, bare, bares, clauses_behind, in_brackets, joined, listed, per
from tracetui.comparing.measures import ANNOTATION, COMPILE, OP, RUNTIME, SLICE, WAIT, calls, is_generated, measures
from tracetui.comparing.noise import BEYOND_NOISE, Change, difference
from tracetui.comparing.op_changes import OpFusions, op_fusions
from tracetui.comparing.side import Side
from tracetui.linking.groups import distinct
from tracetui.linking.links import links, op_rows
from tracetui.model.quantities import Scale, counted, time_scale
from tracetui.operators.views import VIEW_OPS

MIN_TIME_SHARE = 0.05
"""Minimum share of the time of all operators of a side, for an operator to be mentioned."""
MAX_NAMED_FUSIONS = 3
"""Maximum fusions named per sentence, and maximum operators named that are called at another rate."""
MAX_NAMED_FUSED_OPS = 4
"""Maximum operators named of those that one kernel replaced."""
_OWN = ("self_cpu_a_us", "self_cpu_b_us")
MIN_CHANGE_SHARE = 0.1
"""Minimum change of a row, as a share of the change of the CPU time, to be mentioned."""
MAIN_OP_SHARE = 0.5
"""Share of the CPU time on both sides, above which one operator is said to be most of it."""
MAX_NAMED_OPS = 3
"""Maximum operators named as costing more or less."""
LAUNCHES = "launch calls"
"""Name of all launch calls together, whatever the library calls them."""

Row = Mapping[str, Any]


def op_sentences(a: Side, b: Side, rows: Sequence[Row], totals: Mapping[str, Total]) -> Iterator[str]:
    """The explanation of the CPU time of sides without GPU activity: operators first, then costs."""
    fusions = op_fusions(a, b, rows)
    least = [MIN_TIME_SHARE * sum(row[name] for row in rows if row["kind"] == OP) for name in _OWN]
    fused = []
    for each in fusions.fusions:
        times = each.times.a.median, each.times.b.median
        if times[0] > least[0] or times[1] > least[1]:
            before, after = (joined(bares(names), MAX_NAMED_FUSED_OPS) for names in (each.before, each.after))
            doubt = WITHIN_NOISE if each.times.change is Change.WITHIN_NOISE else ""
            fused.append(f"{before} became {after}{in_brackets(time_scale(times).change(*times), doubt)}")
    resized = _resized(rows, fusions, least)
    lead = _number_of_ops(a, b)
    clauses = (
        (":", "", fused[:MAX_NAMED_FUSIONS]),
        (":", "", _rates(resized)),
        (";", "Operators ", _alone(a, b, rows, fusions)),
    )
    yield from clauses_behind(lead, clauses)
    named = {row["name"] for row in resized if row["mark"] in (FASTER, SLOWER)}
    named |= {name for each in fusions.fusions for name in (*each.before, *each.after)}
    costs = _costs([row for row in rows if row["name"] not in named], rows, totals)
    yield from _cost_sentence(costs, totals)
    if (lead or fusions.fusions) and not any(row["kind"] == OP for row in costs):
        yield from _main(rows, totals)
    yield from _compile(a, b, rows)


def op_sentences_of_gpu(
    a: Side, b: Side, rows: Sequence[Row], totals: Mapping[str, Total], named: Iterable[str]
) -> Iterator[str]:
    """The explanation of the CPU time of sides with GPU activity; kernel sentences mention the operators `named`."""
    launches = {
        trace.names[name]
        for trace in (a.trace, b.trace)
        for name in distinct(trace.slices.name[links(trace).launches]).tolist()
    }
    costing = _launches(totals)
    costing += [row for row in rows if not (row["kind"] == RUNTIME and row["name"] in launches)]
    yield from _cost_sentence(_costs(costing, costing, totals), totals)
    yield from _compile(a, b, rows)
    yield from names_alone(a, b, [row for row in rows if row["name"] not in {*named} and not is_generated(row["name"])])


def _number_of_ops(a: Side, b: Side) -> str:
    """`Operators per step 210 → 23`, without those of torch.compile itself; empty where unchanged."""
    own, counts = [], []
    for side in (a, b):
        side_calls = calls(side)
        keys = np.array([index for index, key in enumerate(side_calls.keys) if key.kind == COMPILE], np.int64)
        mask = np.isin(side_calls.row, op_rows(side.trace)) & np.isin(side_calls.key, keys)
        own.append(np.bincount(side_calls.part[mask], minlength=len(side)).astype(np.float64))
        counts.append(measures(side)["cpu_ops"].values - own[-1])
    change = difference(counts[0], counts[1], exact=True)
    if change.change not in BEYOND_NOISE:
        return ""
    before, after = (float(np.median(each)) for each in own)
    first = f"{before:,g} → " if before not in (0, after) else ""
    aside = "" if before == after == 0 else f"and {first}{after:,g} of torch.compile"
    return f"Operators{per(a, b)} {change.a.median:,g} → {change.b.median:,g}{in_brackets(aside)}"


def _resized(rows: Sequence[Row], fusions: OpFusions, least: Sequence[float]) -> list[Row]:
    """Operators above some times that are called more or less often by more than noise, the longest first."""
    resized = []
    for row in rows:
        is_large = row[_OWN[0]] > least[0] or row[_OWN[1]] > least[1]
        if row["kind"] == OP and 0 < row["calls_a"] != row["calls_b"] > 0 and is_large:
            before, after = (each.count(each.of([row["name"]])) for each in (fusions.a, fusions.b))
            if difference(before, after, exact=True).change in BEYOND_NOISE:
                resized.append(row)
    return sorted(resized, key=lambda row: -max(own_times(row)))[:MAX_NAMED_FUSIONS]


def _rates(rows: Sequence[Row]) -> list[str]:
    """Operators with their numbers of calls; those with equal numbers and unchanged times in one clause."""
    scale = time_scale(time for row in rows for time in own_times(row))
    names: dict[str, list[str]] = {}
    for row in rows:
        times = f" ({scale.change(*own_times(row))})" if row["mark"] in (FASTER, SLOWER) else ""
        names.setdefault(f"{row['calls_a']:,g} → {row['calls_b']:,g} calls{times}", []).append(bare(row["name"]))
    return [f"{joined(mine)} {rate}" for rate, mine in names.items()]


def own_times(row: Row) -> tuple[float, float]:
    """Self CPU time of an operator row, before and after, in us."""
    return row["self_cpu_a_us"], row["self_cpu_b_us"]


def names_alone(a: Side, b: Side, rows: Sequence[Row]) -> Iterator[str]:
    """The sentence about operators that only one side calls."""
    if clauses := _alone(a, b, rows, None):
        yield f"Operators {'; '.join(clauses)}."


def _alone(a: Side, b: Side, rows: Sequence[Row], fusions: OpFusions | None) -> list[str]:
    """Clauses on operators of one side: `gone: cat, and the view ops split, narrow (814 µs)`, without fused ones."""
    views = [[key.name for key in calls(side).keys if key.kind == OP and key.name in VIEW_OPS] for side in (a, b)]
    parts: list[tuple[str, str, float]] = []
    for index, mark in enumerate((GONE, NEW)):
        mine = [row["name"] for row in rows if row["mark"] == mark and row["kind"] == OP]
        if fusions is None:
            spent = abs(sum(row["change_us"] for row in rows if row["name"] in mine and row["mark"] == mark))
        else:
            mine, spent = _outside_fusions(fusions, mine, index)
        names = bares(name for name in mine if name not in VIEW_OPS)
        view_names = bares(name for name in views[index] if name not in views[1 - index])
        clause = listed(names)
        if view_names:
            word = f"{'the ' if names else ''}view {'op' if len(view_names) == 1 else 'ops'}"
            clause += f"{', and ' if names else ''}{word} {listed(view_names)}"
        if clause:
            parts.append((mark, clause, spent if mine else 0.0))
    scale = time_scale(spent for _, _, spent in parts if spent)
    of = " of CPU time" if fusions is None else ""
    return [
        f"{mark}: {clause}{in_brackets(f'{scale.one(spent)}{of}' if spent else '')}" for mark, clause, spent in parts
    ]


def _outside_fusions(fusions: OpFusions, names: Sequence[str], index: int) -> tuple[list[str], float]:
    """Operators with calls outside of all fusions, the longest first, and the time of all these calls.

    That time includes the view ops folded into them; `index` is 0 for A and 1 for B.
    """
    side_calls, fused = (fusions.a, fusions.b)[index], (fusions.fused_a, fusions.fused_b)[index]
    free, all_calls = side_calls.of(names) & ~fused, side_calls.calls
    spent = dict[str, float]()
    for key in np.unique(all_calls.key[free]).tolist():
        spent[all_calls.keys[key].name] = float(all_calls.self_cpu[free & (all_calls.key == key)].sum())
    into = np.where(all_calls.into >= 0, all_calls.into, all_calls.key)
    wanted = np.array([key.kind == OP and key.name in spent for key in all_calls.keys], bool)
    mask = ~fused & wanted[into] if spent else np.zeros(len(fused), bool)
    return sorted(spent, key=lambda name: -spent[name]), float(np.median(side_calls.self_us(mask)))


def _launches(totals: Mapping[str, Total]) -> list[Row]:
    """One row for all launch calls."""
    count, spent = totals.get("launches"), totals.get("launch_us")
    if count is None or spent is None or Change.UNKNOWN in (count.change, spent.change) or spent.gap:
        return []
    before, after = spent.difference.a.median, spent.difference.b.median
    return [
        {
            "mark": {Change.LESS: FASTER, Change.MORE: SLOWER}.get(spent.change, CANNOT_TELL),
            "name": LAUNCHES,
            "kind": RUNTIME,
            "calls_a": count.difference.a.median,
            "calls_b": count.difference.b.median,
            "self_cpu_a_us": before,
            "self_cpu_b_us": after,
            "change_us": after - before,
        }
    ]


def _costs(left: Sequence[Row], rows: Sequence[Row], totals: Mapping[str, Total]) -> list[Row]:
    """The rows of `left` that changed most in the direction of the total, where that changed by more than noise.

    Operators that only one side calls stand in other sentences.
    """
    whole = totals["cpu_us"]
    if whole.change not in BEYOND_NOISE:
        return []
    change = whole.difference.delta
    least = MIN_CHANGE_SHARE * max(abs(sum(row["change_us"] for row in rows if row["kind"] != WAIT)), abs(change))
    costs = [row for row in left if row["kind"] != WAIT and row["mark"] not in (SAME, CANNOT_TELL)]
    costs = [row for row in costs if row["kind"] not in (OP, ANNOTATION, COMPILE) or row["mark"] not in (GONE, NEW)]
    costs = [row for row in costs if row["change_us"] * change > 0 and abs(row["change_us"]) > least]
    return sorted(costs, key=lambda row: -abs(row["change_us"]))[:MAX_NAMED_OPS]


def _cost_sentence(costs: Sequence[Row], totals: Mapping[str, Total]) -> Iterator[str]:
    if costs:
        word = "Less" if totals["cpu_us"].change is Change.LESS else "More"
        scale = time_scale(time for row in costs for time in own_times(row))
        yield f"{word} CPU time in {listed([_cost(row, scale) for row in costs])}."


def _cost(row: Row, scale: Scale) -> str:
    """`bmm (1,925 → 1,454 µs)`; for an annotation the time outside of operators."""
    name = f"{row['name']} outside of operators" if row["kind"] in (ANNOTATION, SLICE) else bare(row["name"])
    if row["mark"] in (GONE, NEW, FUSED_INTO):
        return f"{name} ({scale.one(abs(row['change_us']))}, {NEW if row['mark'] == NEW else GONE})"
    word = "" if row["name"] == LAUNCHES else " calls"
    count = "" if row["calls_a"] == row["calls_b"] else f"{row['calls_a']:,g} → {row['calls_b']:,g}{word}"
    return f"{name}{in_brackets(count, scale.change(*own_times(row)))}"


def _main(rows: Sequence[Row], totals: Mapping[str, Total]) -> Iterator[str]:
    """The operator that takes most of the time on both sides, called as often as before: the rest matters little."""
    whole = totals["cpu_us"].difference
    for row in rows:
        before, after = times = own_times(row)
        is_main = before > MAIN_OP_SHARE * whole.a.median and after > MAIN_OP_SHARE * whole.b.median
        if row["kind"] == OP and is_main and row["calls_a"] == row["calls_b"]:
            doubt = WITHIN_NOISE if row["mark"] == CANNOT_TELL else ""
            change = in_brackets(time_scale(times).change(*times), doubt)
            count = counted(round(row["calls_a"]), "call")
            yield f"Most of the CPU time is {bare(row['name'])}: {count} as before{change}."


def _compile(a: Side, b: Side, rows: Sequence[Row]) -> Iterator[str]:
    """The entries of torch.compile, as one group."""
    for mark, column in ((NEW, "self_cpu_b_us"), (GONE, "self_cpu_a_us")):
        mine = [row for row in rows if row["kind"] == COMPILE and row["mark"] == mark]
        if mine:
            spent, entries = sum(row[column] for row in mine), counted(len(mine), "entry")
            lead = f"torch.compile adds {entries}" if mark == NEW else f"{entries} of torch.compile gone"
            cost = f"{time_scale((spent,)).one(spent)} of CPU time{per(a, b)}"
            yield f"{lead} ({cost}): {listed([str(row['name']) for row in mine])}."
