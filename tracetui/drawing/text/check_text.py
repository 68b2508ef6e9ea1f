"""A check as text: a line for each assertion, a Markdown table for a pull request, or JSON for a script.

A check as JUnit XML, as GitLab, Jenkins and the reporters for GitHub Actions read it.

A test case for each assertion: one that does not hold is a failure, one that the trace holds no value for an error,
and one that noise hides is skipped, or with `strict` a failure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Literal, TypedDict, cast
from xml.etree import ElementTree

from rich.cells import cell_len

from tracetui.checking.report import CheckOutcome, CheckReport, Leaf, Status
from tracetui.checking.values import NO, Amount, Offender, Piece
from tracetui.comparing.side import Side
from tracetui.drawing.format import shorten
from tracetui.drawing.text.envelope import json_text
from tracetui.drawing.text.export import code, prose, sentence
from tracetui.drawing.text.readable_table import TraceFacts, facts, recorded_on
from tracetui.files import is_url
from tracetui.model.quantities import ABSENT, MAX_DIGITS, adapted, significant
from tracetui.model.table import Table
from tracetui.text import REPLACEMENT, clean

# The actual and the wanted values of a check, in words: `44.7 %`, `< 10 %`, `1.62 ms`.

LONGEST = 200
"""Characters of a text out of a trace."""
DIGITS = 4
"""Significant digits of a number at least; more where two that differ would otherwise look the same."""
WORDS = {
    Status.HOLDS: "ok",
    Status.FAILS: "FAIL",
    Status.MISSING: "missing",
    Status.UNDECIDED: "cannot tell",
    Status.ERROR: "ERROR",
}
"""The words for each status in a line."""
_LABELS = {"µs": "us", "μs": "us", "B": "bytes", "FLOP": "flop"}
"""Other names of the units that adapt."""


def outcome_text(outcome: CheckOutcome) -> str:
    """The actual and the wanted values, as one line."""
    compound = len(outcome.leaves) > 1 or outcome.is_compound
    texts = []
    for leaf in outcome.leaves:
        if leaf.actual or not outcome.why:
            actual, wanted = _actual_words(leaf), _pair(leaf)[1]
            words = f"found {actual or ABSENT}, wanted {wanted}" if wanted else f"found {actual}"
            texts.append(f"{leaf.text}: {words}" if compound else words)
    return clean("; ".join([*filter(None, texts), *([outcome.why] if outcome.why else [])]))


def actual_text(outcome: CheckOutcome) -> str:
    """The actual values, without the wanted ones."""
    texts = [_actual_words(leaf) if leaf.actual else ABSENT for leaf in outcome.leaves]
    return clean("; ".join(texts)) or ABSENT


def closing(report: CheckReport) -> str:
    """The number of assertions that hold, in words."""
    total, holding = len(report.outcomes), report.count(Status.HOLDS)
    counts = [(report.count(status), status) for status in Status if status != Status.HOLDS]
    words = {
        Status.FAILS: "fails" if counts[0][0] == 1 else "fail",
        Status.MISSING: "missing",
        Status.ERROR: "ended in an error",
    }
    parts = [f"{number} {words.get(status, 'cannot be told')}" for number, status in counts if number]
    end = f": {', '.join(parts)}" if parts else ""
    return f"{holding} of {total} {'holds' if holding == total == 1 else 'hold'}{end}"


def amount(value: Amount, digits: int = DIGITS) -> str:
    """A number with its unit, to `digits` significant digits; whole numbers in full."""
    number, unit = adapted(value.value, _LABELS.get(value.unit.label, value.unit.label))
    return f"{significant(number, digits)} {unit}".rstrip()


def _actual_words(leaf: Leaf) -> str:
    """The actual values, with the rows to blame."""
    rows = leaf.blamed.text
    return f"{_pair(leaf)[0]} ({shorten(clean(rows), LONGEST)})" if rows else _pair(leaf)[0]


def _pair(leaf: Leaf) -> tuple[str, str]:
    """The actual and the wanted value, with as many digits as it takes to tell them apart."""
    wanted = leaf.wanted[1:] if leaf.wanted[:1] == ("==",) else leaf.wanted
    figures = [[piece for piece in side if isinstance(piece, Amount)] for side in (leaf.actual, leaf.wanted)]
    texts = ("", "")
    for digits in range(DIGITS, MAX_DIGITS + 2):
        texts = _text(leaf.actual, digits), _text(wanted, digits)
        same = [a.value != b.value and amount(a, digits) == amount(b, digits) for a in figures[0] for b in figures[1]]
        if not any(same):
            break
    return texts


def _text(pieces: Sequence[Piece], digits: int) -> str:
    words = [amount(piece, digits) if isinstance(piece, Amount) else shorten(clean(piece), LONGEST) for piece in pieces]
    return " ".join(words).replace(" )", ")").replace(" ,", ",")


def open_command(row: Offender) -> str:
    """The command that shows a row in the app; empty where there is no view or no file of its own."""
    if not row.view or not row.path or is_url(row.path):
        return ""
    return clean(shlex.join(["tracetui", "open", row.path, "--at", row.view]))


def _commands(outcome: CheckOutcome) -> dict[str, str]:
    """The rows that make an assertion fail, or an example of its number, each with the command that shows it."""
    failing = [leaf for leaf in outcome.leaves if leaf.answer == NO] if outcome.status == Status.FAILS else []
    rows = [row for leaf in failing for row in leaf.blamed.first or filter(None, (leaf.example,))]
    return {shorten(clean(row.text), LONGEST): command for row in rows if (command := open_command(row))}


_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, not even escaped."""


def junit(report: CheckReport) -> str:
    """The check as one test suite, with a line break at its end."""
    undecided = "failure" if report.strict else "skipped"
    tag_of = {Status.FAILS: "failure", Status.MISSING: "error", Status.ERROR: "error", Status.UNDECIDED: undecided}
    tags = [tag_of.get(each.status, "") for each in report.outcomes]
    counts = {
        "tests": str(len(tags)),
        "failures": str(tags.count("failure")),
        "errors": str(tags.count("error")),
        "skipped": str(tags.count("skipped")),
        "time": "0",
    }
    title = f"tracetui check {report.title}"
    # Schemas know no skipped tests of all suites together.
    sums = {name: text for name, text in counts.items() if name != "skipped"}
    suites = ElementTree.Element("testsuites", {"name": "tracetui check", **sums})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _safe(title), **counts})
    for outcome, tag in zip(report.outcomes, tags, strict=True):
        _add_case(suite, outcome, tag, _safe("tracetui." + report.title.replace(".", "_")))
    lines = [f"{WORDS[each.status]}  {each.expression}  {outcome_text(each)}" for each in report.outcomes]
    system_out = [*report.unfair, *lines, *report.remarks, closing(report)]
    ElementTree.SubElement(suite, "system-out").text = "\n".join(map(_safe, system_out))
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _add_case(suite: ElementTree.Element, outcome: CheckOutcome, tag: str, place: str) -> None:
    names = {"classname": place, "name": _safe(outcome.expression), "time": "0"}
    case = ElementTree.SubElement(suite, "testcase", names)
    if not tag:
        return
    message = _safe(outcome_text(outcome))
    detail = ElementTree.SubElement(case, tag, {"message": message})
    # GitLab shows the text, Jenkins and GitHub the message.
    detail.text = "\n".join([_safe(outcome.expression), message, *map(_safe, _commands(outcome).values())])
    if tag != "skipped":
        detail.set("type", outcome.status.value)


def _safe(text: str) -> str:
    return _ILLEGAL.sub(REPLACEMENT, clean(text))


WIDEST = 60
"""Characters of an expression that others are lined up with."""
BETWEEN = "  "


def render_check(report: CheckReport, form: str) -> str:
    """The check as `text`, `json`, `junit` or `md`, with a line break at its end.

    Raises: KeyError for another form.
    """
    return {"text": check_text, "json": check_json, "junit": junit, "md": check_markdown}[form](report)


def check_text(report: CheckReport) -> str:
    """Warnings of an unfair check, a line for each assertion, remarks, and how many hold."""
    rows = [(WORDS[each.status], clean(each.expression), outcome_text(each)) for each in report.outcomes]
    first = max((len(status) for status, _, _ in rows), default=0)
    second = max((cell_len(text) for _, text, _ in rows if cell_len(text) <= WIDEST), default=0)
    lines = [
        BETWEEN.join((status.ljust(first), text + " " * max(second - cell_len(text), 0), words)).rstrip()
        for status, text, words in rows
    ]
    return "".join(
        f"{line}\n" for line in [*map(clean, report.unfair), *lines, *map(clean, report.remarks), closing(report)]
    )


def check_markdown(report: CheckReport) -> str:
    """A table that can be pasted into a pull request."""
    marks = {
        Status.HOLDS: "ok",
        Status.FAILS: "**FAIL**",
        Status.MISSING: "**missing**",
        Status.UNDECIDED: "cannot tell",
        Status.ERROR: "**ERROR**",
    }
    rows = [
        (
            marks[each.status],
            code(clean(each.expression)),
            prose(clean(each.why) if each.why and not any(leaf.actual for leaf in each.leaves) else actual_text(each)),
            prose(clean("; ".join(_pair(leaf)[1] for leaf in each.leaves)) or ABSENT),
        )
        for each in report.outcomes
    ]
    table = [("", "assertion", "found", "wanted"), ("---",) * 4, *rows]
    recorded = recorded_on(report.side.trace) if report.side else []
    origin = " · ".join([code(clean(report.title)), *map(prose, recorded)])
    beside = f" · beside {code(clean(report.baseline.name))}" if report.baseline else ""
    body = "\n".join("| " + " | ".join(row) + " |" for row in table)
    before, behind = ([prose(clean(text)) for text in each] for each in (report.unfair, report.remarks))
    links = [
        f"- {code(clean(each.expression))}, {sentence(name)}: {code(command)}"
        for each in report.outcomes
        for name, command in _commands(each).items()
    ]
    parts = [
        f"**{closing(report)}** · {origin}{beside}",
        *before,
        body,
        *(["\n".join(links)] if links else []),
        *behind,
    ]
    return "\n\n".join(parts) + "\n"


StatusName = Literal["holds", "fails", "missing", "cannot_tell", "error"]


class RowDocument(TypedDict):
    """A row that an assertion fails by: where it is listed, and the view that shows it."""

    list: str
    name: str | None
    step: int | None
    view: str | None
    command: str | None


class LeafDocument(TypedDict):
    """A comparison of an assertion: the answer, the first number or text found, and the rows to blame.

    `example` is the step whose number is nearest to that of all.
    """

    expression: str
    answer: bool | None
    found: float | str | None
    unit: str | None
    rows: list[RowDocument]
    rows_in_all: int
    example: RowDocument | None


class OutcomeDocument(TypedDict):
    """An assertion; one of several comparisons has these in `parts`."""

    expression: str
    status: StatusName
    found: float | str | None
    unit: str | None
    wanted: str
    message: str
    rows: list[RowDocument]
    rows_in_all: int | None
    example: RowDocument | None
    parts: list[LeafDocument]


class CheckedSide(TraceFacts):
    """A trace that was checked, or the baseline, and the parts of it that were looked at."""

    scope: str
    parts: int
    part: str


class FolderFacts(TypedDict):
    folder: str


class CheckDocument(TypedDict):
    """A check; `unfair` and `remarks` are the lines before and after the results in text."""

    passes: bool
    counts: dict[StatusName, int]
    trace: CheckedSide | FolderFacts
    baseline: CheckedSide | None
    unfair: list[str]
    checks: list[OutcomeDocument]
    remarks: list[str]


def check_json(report: CheckReport) -> str:
    """The outcomes with their numbers, for a script."""
    document: CheckDocument = {
        "passes": report.passes,
        "counts": {
            cast(StatusName, status.value.replace(" ", "_")): count
            for status in Status
            if (count := report.count(status)) or status != Status.ERROR
        },
        "trace": _side(report.side) if report.side else {"folder": clean(report.title)},
        "baseline": _side(report.baseline) if report.baseline else None,
        "unfair": [clean(reason) for reason in report.unfair],
        "checks": [_outcome(each) for each in report.outcomes],
        "remarks": [clean(remark) for remark in report.remarks],
    }
    return json_text("check", document)


def names_text(table: Table, width: int | None = None) -> str:
    """The names that expressions can use, as aligned columns; the help is cut at a width where there is one."""
    rows = [[clean(str(row[name] or "")) for name in ("name", "value", "unit", "help")] for row in table.rows()]
    widths = [min(max(map(cell_len, column)), 34) for column in zip(*rows, strict=True)]
    lines = []
    for name, value, unit, help in rows:
        head = f"{name:<{widths[0]}}  {value or ABSENT:>{widths[1]}} {unit:<{widths[2]}}"
        lines.append(f"{head}  {help}"[:width].rstrip())
    return "".join(f"{line}\n" for line in lines)


def _outcome(outcome: CheckOutcome) -> OutcomeDocument:
    leaves = [_leaf(leaf) for leaf in outcome.leaves]
    compound = outcome.is_compound or len(leaves) != 1
    first = {"found": None, "unit": None} if compound else leaves[0]
    return {
        "expression": clean(outcome.expression),
        "status": cast(StatusName, outcome.status.value.replace(" ", "_")),
        "found": first["found"],
        "unit": first["unit"],
        "wanted": clean("; ".join(_pair(leaf)[1] for leaf in outcome.leaves)) or ABSENT,
        "message": outcome_text(outcome),
        "rows": [] if compound else leaves[0]["rows"],
        "rows_in_all": None if compound else leaves[0]["rows_in_all"],
        "example": None if compound else leaves[0]["example"],
        "parts": leaves if compound else [],
    }


def _leaf(leaf: Leaf) -> LeafDocument:
    """The first number of the actual value, or its text."""
    numbers = [piece for piece in leaf.actual if isinstance(piece, Amount)]
    texts = [clean(piece).strip('"') for piece in leaf.actual if isinstance(piece, str)]
    return {
        "expression": clean(leaf.text),
        "answer": {1: True, 0: False}.get(leaf.answer),
        "found": numbers[0].value if numbers else texts[0] if texts else None,
        "unit": numbers[0].unit.label if numbers else None,
        "rows": [*map(_row, leaf.blamed.first)],
        "rows_in_all": leaf.blamed.total,
        "example": _row(leaf.example) if leaf.example else None,
    }


def _row(row: Offender) -> RowDocument:
    return {
        "list": row.list_name,
        "name": clean(row.name) or None,
        "step": row.step,
        "view": clean(row.view) or None,
        "command": open_command(row) or None,
    }


def _side(side: Side) -> CheckedSide:
    return {**facts(side.trace), "scope": clean(side.scope), "parts": len(side), "part": side.part_kind}
