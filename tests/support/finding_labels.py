"""Labels of traces: what findings must say of each and must not, and how the findings of a trace compare.

A labels file is JSON: under `traces` for each file name a list `must` (`any`: patterns of which one matches the id,
title, evidence or advice of one row; `weight`: the least severity of it; `figures_any_of`: numbers of which the row
states one, each with `unit`, `value` and relative `tolerance`), a list `must_not` (`any`, `fields`, `from_weight`, or
`cost_share_below`: no row may state a smaller cost, as a share of `wall_us`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracetui.findings import Severity
from tracetui.findings.scope import Scope
from tracetui.idle.gpu_spans import exposure
from tracetui.model.quantities import duration
from tracetui.model.trace import Trace
from tracetui.panes import pane_named
from tracetui.reading.load import load

Row = Mapping[str, Any]
Label = Mapping[str, Any]

SHARE_SAID = 0.9
"""Minimum share of what is expected that is said."""
TEXT_FIELDS = ("id", "title", "evidence", "advice")
IDLE_RULES = (
    *("data-loading", "start-up", "allocator", "pageable-copy", "host-sync", "stalled-thread", "peer-wait"),
    *("long-gap-without-op", "launch-overhead", "dependency", "recompilation", "own-profiler"),
    *("graph-capture", "cpu-inputs"),
)
"""Rules about time in which no kernel ran; together they cost at most that time."""
_MS_PER_UNIT = {"ns": 1e-6, "µs": 1e-3, "us": 1e-3, "ms": 1.0, "s": 1e3}
_NUMBER = re.compile(r"(?P<digits>\d[\d,]*(\.\d+)?)(\s*(?P<unit>ns|µs|us|ms|s|%))?(?!\w)")
_PERCENT = re.compile(r"([\d,]+(?:\.\d+)?) %")


@dataclass(frozen=True)
class TraceScore:
    """How the findings of one trace compare with its label."""

    name: str
    missing: list[str] = field(default_factory=list)
    """Ids of expected claims that no row makes."""
    forbidden: list[str] = field(default_factory=list)
    """Ids of false claims that a row makes."""
    problems: list[str] = field(default_factory=list)
    """Rows that contradict themselves or each other, whatever the label says."""
    expected: int = 0
    banned: int = 0

    @property
    def is_fine(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.missing or self.forbidden or self.problems)


@dataclass(frozen=True)
class Score:
    """The scores of all labelled traces that are there."""

    traces: list[TraceScore]

    @property
    def said(self) -> tuple[int, int]:
        """Expected claims that are made, and expected claims."""
        expected = sum(each.expected for each in self.traces)
        return expected - sum(len(each.missing) for each in self.traces), expected

    @property
    def absent(self) -> tuple[int, int]:
        """False claims that are not made, and false claims that are labelled."""
        banned = sum(each.banned for each in self.traces)
        return banned - sum(len(each.forbidden) for each in self.traces), banned

    @property
    def is_good(self) -> bool:
        """Whether enough is said, nothing false is, and no row contradicts itself."""
        said, expected = self.said
        absent, banned = self.absent
        return said >= SHARE_SAID * expected and absent == banned and not any(each.problems for each in self.traces)


def scored(labels: Path) -> Score:
    """The score of every labelled trace that lies beside the labels or in a folder there.

    Raises: OSError or ValueError for labels that cannot be read.
    """
    given = json.loads(labels.read_text())["traces"]
    places = {path.name: path for path in sorted(labels.parent.rglob("*"), reverse=True) if path.is_file()}
    return Score([score(load(str(places[name])), name, label) for name, label in given.items() if name in places])


def score(trace: Trace, name: str, label: Label) -> TraceScore:
    """The score of one trace."""
    rows = list(pane_named("findings").build(trace).rows())
    wall = float(label.get("wall_us") or 0)
    must, must_not = label.get("must", ()), label.get("must_not", ())
    return TraceScore(
        name,
        [str(claim["id"]) for claim in must if not any(makes(row, claim) for row in rows)],
        [str(ban["id"]) for ban in must_not if any(breaks(row, ban, wall) for row in rows)],
        list(problems(trace, rows)),
        len(must),
        len(must_not),
    )


def makes(row: Row, claim: Label) -> bool:
    """Whether a row makes an expected claim: its words, its weight and one of its figures."""
    if _severity(row["severity"]) < _severity(claim["weight"]) or not _matches(row, claim["any"]):
        return False
    figures = claim.get("figures_any_of") or ()
    return not figures or any(_states(row, figure) for figure in figures)


def breaks(row: Row, ban: Label, wall_us: float) -> bool:
    """Whether a row makes a false claim."""
    if "cost_share_below" in ban:
        return row["cost_us"] is not None and float(row["cost_us"]) < float(ban["cost_share_below"]) * wall_us
    heavy = _severity(row["severity"]) >= _severity(ban["from_weight"])
    return heavy and _matches(row, ban["any"], ban.get("fields", TEXT_FIELDS))


def problems(trace: Trace, rows: Sequence[Row]) -> Iterator[str]:
    """What is wrong with rows by themselves, whatever a label says."""
    for row in rows:
        name, title, cost = row["id"], str(row["title"]), row["cost_us"]
        text = f"{title} {row['evidence']}"
        if any(len(str(row[each]).splitlines()) != 1 for each in TEXT_FIELDS):
            yield f"{name}: more than one line"
        if any(float(share.replace(",", "")) > 100 for share in _PERCENT.findall(text)):
            yield f"{name}: a share above 100 %"
        if cost is not None and duration(1000 * float(cost)) not in title:
            yield f"{name}: the title does not state its cost, {duration(1000 * float(cost))}"
    spent = 1000 * sum(float(row["cost_us"] or 0) for row in rows if row["id"] in IDLE_RULES)
    allowed = _without_kernels(trace)
    if spent > allowed:
        yield f"idle findings cost {duration(spent)}, and no kernel ran for {duration(allowed)}"


def _without_kernels(trace: Trace) -> float:
    """Time in ns in which no kernel ran, in the mean over the devices, with that before the first activity."""
    every, scope = exposure(trace), Scope(trace, None)
    if len(every.device) == 0:
        return scope.time
    return float((every.idle + every.exposed_copy).mean()) + scope.time_to_first_kernel


def _matches(row: Row, patterns: Sequence[str], fields: Sequence[str] = TEXT_FIELDS) -> bool:
    text = " | ".join(str(row.get(each) or "") for each in fields).replace("\n", " ")
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def _states(row: Row, figure: Label) -> bool:
    """Whether a row states a number of the figure's unit that is near enough."""
    value, unit = float(figure["value"]), figure["unit"]
    return any(abs(number - value) <= float(figure["tolerance"]) * value for number in _numbers(row, unit))


def _numbers(row: Row, unit: str) -> Iterator[float]:
    """Times in ms, shares in percent, or counts that a row states."""
    if unit == "ms" and row["cost_us"] is not None:
        yield float(row["cost_us"]) / 1000
    for match in _NUMBER.finditer(f"{row['title']} {row['evidence']}"):
        number, given = float(match["digits"].replace(",", "")), match["unit"]
        if unit == "ms" and given in _MS_PER_UNIT:
            yield number * _MS_PER_UNIT[given]
        elif (unit == "%" and given == "%") or (unit == "count" and given is None):
            yield number


def _severity(word: str) -> Severity:
    return Severity[word.upper()]
