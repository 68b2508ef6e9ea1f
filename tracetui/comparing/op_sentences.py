"""Sentences about the CPU: operators that fused, are gone, new or called more or less often, and where time went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tracetui.comparing.calls import ANNOTATION, COMPILE, OP, RUNTIME, SLICE, WAIT, calls, is_generated
from tracetui.comparing.change_rows import CANNOT_TELL, FASTER, FUSED_INTO, GONE, NEW, SAME, SLOWER, Total
from tracetui.comparing.fairness import WITHIN_NOISE, bare, bares, in_brackets, joined, listed, per
from tracetui.comparing.measures import measures
from tracetui.comparing.noise import BEYOND_NOISE, Change, difference
from tracetui.comparing.op_changes import OpFusion, OpFusions, op_fusions
from tracetui.comparing.side import Side
from tracetui.linking.groups import distinct
from tracetui.linking.links import links, op_rows
from tracetui.model.intervals import Int64
from tracetui.model.quantities import Scale, counted, time_scale
from tracetui.model.trace import Float64, Trace
from tracetui.operators.views import VIEW_OPS

MIN_TIME_SHARE = 0.05
"""Minimum share of the time of all operators of a side, for an operator to be mentioned."""
MAX_NAMED_FUSIONS = 3
"""Maximum fusions named per sentence, and maximum operators named that are called at another rate."""
MAX_NAMED_FUSED_OPS = 4
"""Maximum operators named of those that one kernel replaced."""
_OWN = ("self_cpu_a_us", "self_cpu_b_us")


class OpCounts:
    """Numbers of operators, and which of them explain a change."""

    def __init__(self, a: Side, b: Side, rows: Sequence[Row], fusions: OpFusions) -> None:
        self._sides, self._rows, self._fusions = (a, b), rows, fusions
        self._least: list[float] = [
            MIN_TIME_SHARE * sum(row[name] for row in rows if row["kind"] == OP) for name in _OWN
        ]
        self._resized = self._find_resized()
        self.named = [row["name"] for row in self._resized if row["mark"] in (FASTER, SLOWER)]
        """Operators whose times are mentioned."""

    @property
    def is_change(self) -> bool:
        """Whether different operators run, or another number of them."""
        return bool(self._lead or self._fusions.fusions)

    def sentences(self) -> Iterator[str]:
        """Numbers of operators, with what fused or is called more or less often, and what only one side calls."""
        fused = [_fusion(each) for each in self._fusions.fusions if self._is_worth(each)][:MAX_NAMED_FUSIONS]
        resized = _rates(self._resized)
        alone = list(_alone(*self._sides, self._rows, self._fusions))
        lead = self._lead
        for reasons in (fused, resized, alone):
            if reasons and lead:
                yield f"{lead}{';' if reasons is alone else ':'} {'; '.join(reasons)}."
                lead = ""
            elif reasons:
                yield f"{'Operators ' if reasons is alone else ''}{'; '.join(reasons)}."
        if lead:
            yield f"{lead}."

    @cached_property
    def _lead(self) -> str:
        """`Operators per step 210 → 23`, without those of torch.compile itself; empty where unchanged."""
        machinery = [_of_compile(side) for side in self._sides]
        every = [measures(side)["cpu_ops"].values for side in self._sides]
        change = difference(every[0] - machinery[0], every[1] - machinery[1], exact=True)
        if change.change not in BEYOND_NOISE:
            return ""
        own = _and_of_compile(*(float(np.median(each)) for each in machinery))
        return f"Operators{per(*self._sides)} {change.a.median:,g} → {change.b.median:,g}{in_brackets(own)}"

    def _is_worth(self, fusion: OpFusion) -> bool:
        times = fusion.times.a.median, fusion.times.b.median
        return any(time > least for time, least in zip(times, self._least, strict=True))

    def _find_resized(self) -> list[Row]:
        """Operators that take much of the time and are called more or less often."""
        both = [row for row in self._rows if row["kind"] == OP and 0 < row["calls_a"] != row["calls_b"] > 0]
        found = [row for row in both if any(row[name] > least for name, least in zip(_OWN, self._least, strict=True))]
        found = [row for row in found if self._is_counted(row["name"])]
        return sorted(found, key=lambda row: -max(row[name] for name in _OWN))[:MAX_NAMED_FUSIONS]

    def _is_counted(self, name: str) -> bool:
        """Whether the numbers of calls differ by more than noise."""
        before, after = (each.count(each.of([name])) for each in (self._fusions.a, self._fusions.b))
        return difference(before, after, exact=True).change in BEYOND_NOISE


def _of_compile(side: Side) -> Float64:
    """Number of operators of each part that are entries of torch.compile."""
    side_calls = calls(side)
    own = np.array([index for index, key in enumerate(side_calls.keys) if key.kind == COMPILE], np.int64)
    held = np.isin(side_calls.row, op_rows(side.trace)) & np.isin(side_calls.key, own)
    return np.bincount(side_calls.part[held], minlength=len(side)).astype(np.float64)


def _and_of_compile(before: float, after: float) -> str:
    """Operators beside those that are counted: `and 5 of torch.compile`."""
    if before == after == 0:
        return ""
    return f"and {f'{before:,g} → ' if before not in (0, after) else ''}{after:,g} of torch.compile"


def _fusion(fusion: OpFusion) -> str:
    """What became what: `gelu and mul became graph_0_cpp_fused_gelu_mul_0 (6,922 → 4,086 µs)`."""
    before, after = (_together(bares(names)) for names in (fusion.before, fusion.after))
    times = fusion.times.a.median, fusion.times.b.median
    doubt = WITHIN_NOISE if fusion.times.change is Change.WITHIN_NOISE else ""
    return f"{before} became {after}{in_brackets(time_scale(times).change(*times), doubt)}"


def _together(names: Sequence[str]) -> str:
    return joined(names) if len(names) <= MAX_NAMED_FUSED_OPS else listed(names, MAX_NAMED_FUSED_OPS)


def _rates(rows: Sequence[Row]) -> list[str]:
    """Operators called more or less often; those with unchanged times are grouped by their numbers of calls."""
    scale = time_scale(time for row in rows for time in own_times(row))
    said: dict[str, list[str]] = {}
    for row in rows:
        times = f" ({scale.change(*own_times(row))})" if row["mark"] in (FASTER, SLOWER) else ""
        said.setdefault(f"{row['calls_a']:,g} → {row['calls_b']:,g} calls{times}", []).append(bare(row["name"]))
    return [f"{joined(names)} {rate}" for rate, names in said.items()]


def own_times(row: Row) -> tuple[float, float]:
    """Self CPU time of an operator row, before and after, in us."""
    return row["self_cpu_a_us"], row["self_cpu_b_us"]


def names_alone(a: Side, b: Side, rows: Sequence[Row]) -> Iterator[str]:
    """The sentence about operators that only one side calls."""
    said = list(_alone(a, b, rows, None))
    if said:
        yield f"Operators {'; '.join(said)}."


def _alone(a: Side, b: Side, rows: Sequence[Row], fusions: OpFusions | None) -> Iterator[str]:
    """What only one side calls: `gone: cat, and the view ops split, narrow (814 µs)`, without fused ones."""
    said = []
    for mark, here, other, number in ((GONE, a, b, 0), (NEW, b, a, 1)):
        mine = [row["name"] for row in rows if row["mark"] == mark and row["kind"] == OP]
        spent: float | None = None
        if fusions is not None:
            mine, spent = _untold(fusions, mine, number)
        else:
            spent = abs(sum(row["saves_us"] for row in rows if row["name"] in mine and row["mark"] == mark))
        names = bares(name for name in mine if name not in VIEW_OPS)
        views = bares(_views(here, _views(other)))
        parts = [
            listed(names),
            f"{'the ' if names else ''}view {'op' if len(views) == 1 else 'ops'} {listed(views)}" if views else "",
        ]
        if names or views:
            said.append((mark, ", and ".join(filter(None, parts)), spent if mine else None))
    scale = time_scale(spent for _, _, spent in said if spent)
    of = " of CPU time" if fusions is None else ""
    yield from (
        f"{mark}: {what}{in_brackets(f'{scale.one(spent)}{of}' if spent else '')}" for mark, what, spent in said
    )


def _untold(fusions: OpFusions, names: Sequence[str], number: int) -> tuple[list[str], float]:
    """Operators with calls outside of all fusions, the longest first, and the time of all these calls.

    That time includes the view ops folded into them.
    """
    calls, fused = (fusions.a, fusions.b)[number], (fusions.fused_a, fusions.fused_b)[number]
    free = calls.of(names) & ~fused
    found, spent = calls.calls, dict[str, float]()
    for index in np.unique(found.key[free]).tolist():
        spent[found.keys[index].name] = float(found.self_cpu[free & (found.key == index)].sum())
    into = np.where(found.into >= 0, found.into, found.key)
    wanted = np.array([key.kind == OP and key.name in spent for key in found.keys], bool)
    mask = ~fused & wanted[into] if spent else fused & ~fused
    return sorted(spent, key=lambda name: -spent[name]), float(np.median(calls.self_us(mask)))


def _views(side: Side, others: Sequence[str] = ()) -> list[str]:
    """Names of the view ops that a side calls and the other does not."""
    names = dict.fromkeys(key.name for key in calls(side).keys if key.kind == OP and key.name in VIEW_OPS)
    return [name for name in names if name not in others]


Row = Mapping[str, Any]

MIN_CHANGE_SHARE = 0.1
"""Minimum change of a row, as a share of the change of the CPU time, to be mentioned."""
MAIN_OP_SHARE = 0.5
"""Share of the CPU time on both sides, above which one operator is said to be most of it."""
MAX_NAMED_OPS = 3
"""Maximum operators named as costing more or less."""
LAUNCHES = "launch calls"
"""Name of all launch calls together, whatever the library calls them."""


def op_sentences(a: Side, b: Side, rows: Sequence[Row], totals: Mapping[str, Total]) -> Iterator[str]:
    """The explanation of the CPU time of sides without GPU activity: operators first, then costs."""
    fusions = op_fusions(a, b, rows)
    counts = OpCounts(a, b, rows, fusions)
    yield from counts.sentences()
    named = [*counts.named, *(name for each in fusions.fusions for name in (*each.before, *each.after))]
    costs = _costs([row for row in rows if row["name"] not in named], rows, totals)
    yield from _cost_sentence(costs, totals)
    if counts.is_change and not any(row["kind"] == OP for row in costs):
        yield from _main(rows, totals)
    yield from _compile(a, b, rows)


def op_sentences_of_gpu(
    a: Side, b: Side, rows: Sequence[Row], totals: Mapping[str, Total], named: Iterable[str]
) -> Iterator[str]:
    """The explanation of the CPU time of sides with GPU activity; kernel sentences mention the operators `told`."""
    launches = {name for side in (a, b) for name in _names(side.trace, links(side.trace).launches)}
    others = [row for row in rows if not (row["kind"] == RUNTIME and row["name"] in launches)]
    costs = _costs([*_launches(totals), *others], [*_launches(totals), *others], totals)
    yield from _cost_sentence(costs, totals)
    yield from _compile(a, b, rows)
    yield from names_alone(a, b, [row for row in rows if row["name"] not in {*named} and not is_generated(row["name"])])


def _names(trace: Trace, rows: Int64) -> list[str]:
    return [trace.names[name] for name in distinct(trace.slices.name[rows]).tolist()]


def _launches(totals: Mapping[str, Total]) -> list[Row]:
    """One row for all launch calls."""
    count, spent = totals.get("launches"), totals.get("launch_us")
    if count is None or spent is None or Change.UNKNOWN in (count.change, spent.change) or spent.gap:
        return []
    before, after = spent.difference.a.median, spent.difference.b.median
    marks = {Change.LESS: FASTER, Change.MORE: SLOWER}
    return [
        {
            "mark": marks.get(spent.change, CANNOT_TELL),
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
    """The rows that changed most in the direction of the total, where the total changed by more than noise.

    Operators that only one side calls are handled elsewhere.
    """
    whole = totals["cpu_us"]
    if whole.change not in BEYOND_NOISE:
        return []
    saved = -whole.difference.amount
    least = MIN_CHANGE_SHARE * max(abs(sum(row["saves_us"] for row in rows if row["kind"] != WAIT)), abs(saved))
    main_costs = [
        row
        for row in left
        if row["kind"] != WAIT
        and not (row["kind"] in (OP, ANNOTATION, COMPILE) and row["mark"] in (GONE, NEW))
        and row["mark"] not in (SAME, CANNOT_TELL)
        and row["saves_us"] * saved > 0
        and abs(row["saves_us"]) > least
    ]
    return sorted(main_costs, key=lambda row: -abs(row["saves_us"]))[:MAX_NAMED_OPS]


def _cost_sentence(costs: Sequence[Row], totals: Mapping[str, Total]) -> Iterator[str]:
    if costs:
        word = "Less" if totals["cpu_us"].change is Change.LESS else "More"
        scale = time_scale(time for row in costs for time in own_times(row))
        yield f"{word} CPU time in {listed([_cost(row, scale) for row in costs])}."


def _cost(row: Row, scale: Scale) -> str:
    """`bmm (1,925 → 1,454 µs)`; for an annotation the time outside of operators."""
    name = f"{row['name']} outside of operators" if row["kind"] in (ANNOTATION, SLICE) else bare(row["name"])
    if row["mark"] in (GONE, NEW, FUSED_INTO):
        return f"{name} ({scale.one(abs(row['saves_us']))}, {NEW if row['mark'] == NEW else GONE})"
    calls = "" if row["calls_a"] == row["calls_b"] else f"{row['calls_a']:,g} → {row['calls_b']:,g} calls"
    if row["name"] == LAUNCHES:
        calls = calls.removesuffix(" calls")
    return f"{name}{in_brackets(calls, scale.change(*own_times(row)))}"


def _main(rows: Sequence[Row], totals: Mapping[str, Total]) -> Iterator[str]:
    """The operator that takes most of the time on both sides, called as often as before: the rest matters little."""
    whole = totals["cpu_us"].difference
    for row in rows:
        is_main = (
            row["self_cpu_a_us"] > MAIN_OP_SHARE * whole.a.median
            and row["self_cpu_b_us"] > MAIN_OP_SHARE * whole.b.median
        )
        if row["kind"] == OP and is_main and row["calls_a"] == row["calls_b"]:
            doubt = WITHIN_NOISE if row["mark"] == CANNOT_TELL else ""
            times = in_brackets(time_scale(own_times(row)).change(*own_times(row)), doubt)
            calls = counted(round(row["calls_a"]), "call")
            yield f"Most of the CPU time is {bare(row['name'])}: {calls} as before{times}."


def _compile(a: Side, b: Side, rows: Sequence[Row]) -> Iterator[str]:
    """The entries of torch.compile, as one group."""
    for mark, column in ((NEW, "self_cpu_b_us"), (GONE, "self_cpu_a_us")):
        mine = [row for row in rows if row["kind"] == COMPILE and row["mark"] == mark]
        if not mine:
            continue
        spent = sum(row[column] for row in mine)
        names, cost = (
            listed([str(row["name"]) for row in mine]),
            f"{time_scale((spent,)).one(spent)} of CPU time{per(a, b)}",
        )
        what = counted(len(mine), "entry")
        lead = f"torch.compile adds {what}" if mark == NEW else f"{what} of torch.compile gone"
        yield f"{lead} ({cost}): {names}."
