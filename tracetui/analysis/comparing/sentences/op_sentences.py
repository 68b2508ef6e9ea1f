"""Sentences about the CPU's work: what costs more or less, what most of it is, and what torch.compile adds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tracetui.analysis.common.groups import distinct
from tracetui.analysis.comparing.changes.change_rows import FASTER, FUSED_INTO, GONE, NEW, SAME, SLOWER, UNTOLD
from tracetui.analysis.comparing.changes.op_fusions import op_fusions
from tracetui.analysis.comparing.changes.totals_table import Total
from tracetui.analysis.comparing.sentences.op_counts import OpCounts, names_alone, own_times
from tracetui.analysis.comparing.sentences.words import WITHIN_NOISE, Unit, bare, in_brackets, listed, per, unit
from tracetui.analysis.comparing.sides.calls import ANNOTATION, OP, RUNTIME, SLICE, WAIT
from tracetui.analysis.comparing.sides.noise import Change
from tracetui.analysis.comparing.sides.op_names import COMPILE, is_generated
from tracetui.analysis.comparing.sides.side import Side
from tracetui.analysis.findings.words import counted
from tracetui.analysis.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace

Row = Mapping[str, Any]

TELLING = 0.1
"""Of the change of the CPU's time: rows that change less explain nothing."""
MAIN = 0.5
"""Of the CPU's time: an operator that takes as much on both sides is what most of it is."""
MAX_NAMED_OPS = 3
"""Maximum operators named as costing more or less."""
LAUNCHES = "launch calls"
"""All calls that put work on a GPU, whatever the library calls them."""
BELIEVED = (Change.LESS, Change.MORE)


def op_sentences(a: Side, b: Side, rows: Sequence[Row], totals: Mapping[str, Total]) -> Iterator[str]:
    """What explains the CPU's time of sides that put nothing on a GPU: operators first, then costs."""
    fusions = op_fusions(a, b, rows)
    counts = OpCounts(a, b, rows, fusions)
    yield from counts.sentences()
    told = [*counts.told, *(name for each in fusions.fusions for name in (*each.before, *each.after))]
    costs = _costs([row for row in rows if row["name"] not in told], rows, totals)
    yield from _cost_sentence(costs, totals)
    if counts.is_change and not any(row["kind"] == OP for row in costs):
        yield from _main(rows, totals)
    yield from _compile(a, b, rows)


def op_sentences_of_gpu(
    a: Side, b: Side, rows: Sequence[Row], totals: Mapping[str, Total], told: Iterable[str]
) -> Iterator[str]:
    """What explains the CPU's time where a GPU does the work; `told` are operators of which its kernels tell."""
    launches = {name for side in (a, b) for name in _names(side.trace, links(side.trace).launches)}
    others = [row for row in rows if not (row["kind"] == RUNTIME and row["name"] in launches)]
    costs = _costs([*_launches(totals), *others], [*_launches(totals), *others], totals)
    yield from _cost_sentence(costs, totals)
    yield from _compile(a, b, rows)
    yield from names_alone(a, b, [row for row in rows if row["name"] not in {*told} and not is_generated(row["name"])])


def _names(trace: Trace, rows: Int64) -> list[str]:
    return [trace.names[name] for name in distinct(trace.slices.name[rows]).tolist()]


def _launches(totals: Mapping[str, Total]) -> list[Row]:
    """A row for all calls that put work on a GPU."""
    count, spent = totals.get("launches"), totals.get("launch_us")
    if count is None or spent is None or Change.UNKNOWN in (count.change, spent.change) or spent.gap:
        return []
    before, after = spent.difference.a.median, spent.difference.b.median
    marks = {Change.LESS: FASTER, Change.MORE: SLOWER}
    return [
        {
            "mark": marks.get(spent.change, UNTOLD),
            "name": LAUNCHES,
            "kind": RUNTIME,
            "calls_a": count.difference.a.median,
            "calls_b": count.difference.b.median,
            "self_cpu_a_us": before,
            "self_cpu_b_us": after,
            "saves_us": before - after,
        }
    ]


def _costs(left: Sequence[Row], rows: Sequence[Row], totals: Mapping[str, Total]) -> list[Row]:
    """The rows that changed most in the direction of the whole, where that changed by more than noise.

    Operators that one side alone calls are told apart.
    """
    whole = totals["cpu_us"]
    if whole.change not in BELIEVED:
        return []
    saved = -whole.difference.amount
    least = TELLING * max(abs(sum(row["saves_us"] for row in rows if row["kind"] != WAIT)), abs(saved))
    told = [
        row
        for row in left
        if row["kind"] != WAIT
        and not (row["kind"] in (OP, ANNOTATION, COMPILE) and row["mark"] in (GONE, NEW))
        and row["mark"] not in (SAME, UNTOLD)
        and row["saves_us"] * saved > 0
        and abs(row["saves_us"]) > least
    ]
    return sorted(told, key=lambda row: -abs(row["saves_us"]))[:MAX_NAMED_OPS]


def _cost_sentence(costs: Sequence[Row], totals: Mapping[str, Total]) -> Iterator[str]:
    if costs:
        word = "Less" if totals["cpu_us"].change is Change.LESS else "More"
        scale = unit(time for row in costs for time in own_times(row))
        yield f"{word} CPU time in {listed([_cost(row, scale) for row in costs])}."


def _cost(row: Row, scale: Unit) -> str:
    """`bmm (1,925 → 1,454 µs)`; of an annotation the time in which no operator ran."""
    name = f"{row['name']} outside of operators" if row["kind"] in (ANNOTATION, SLICE) else bare(row["name"])
    if row["mark"] in (GONE, NEW, FUSED_INTO):
        return f"{name} ({scale.one(abs(row['saves_us']))}, {NEW if row['mark'] == NEW else GONE})"
    calls = "" if row["calls_a"] == row["calls_b"] else f"{row['calls_a']:,g} → {row['calls_b']:,g} calls"
    if row["name"] == LAUNCHES:
        calls = calls.removesuffix(" calls")
    return f"{name}{in_brackets(calls, scale.change(*own_times(row)))}"


def _main(rows: Sequence[Row], totals: Mapping[str, Total]) -> Iterator[str]:
    """The operator that most of the time is, on either side, as often as before: why the rest matters little."""
    whole = totals["cpu_us"].difference
    for row in rows:
        is_main = row["self_cpu_a_us"] > MAIN * whole.a.median and row["self_cpu_b_us"] > MAIN * whole.b.median
        if row["kind"] == OP and is_main and row["calls_a"] == row["calls_b"]:
            doubt = WITHIN_NOISE if row["mark"] == UNTOLD else ""
            times = in_brackets(unit(own_times(row)).change(*own_times(row)), doubt)
            calls = counted(round(row["calls_a"]), "call")
            yield f"Most of the CPU time is {bare(row['name'])}: {calls} as before{times}."


def _compile(a: Side, b: Side, rows: Sequence[Row]) -> Iterator[str]:
    """The machinery of torch.compile, in one group."""
    for mark, column in ((NEW, "self_cpu_b_us"), (GONE, "self_cpu_a_us")):
        mine = [row for row in rows if row["kind"] == COMPILE and row["mark"] == mark]
        if not mine:
            continue
        spent = sum(row[column] for row in mine)
        names, cost = listed([str(row["name"]) for row in mine]), f"{unit((spent,)).one(spent)} of CPU time{per(a, b)}"
        what = counted(len(mine), "row")
        lead = f"torch.compile adds {what}" if mark == NEW else f"{what} of torch.compile gone"
        yield f"{lead} ({cost}): {names}."
