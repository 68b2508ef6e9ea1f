"""A check as JUnit XML, as GitLab, Jenkins and the reporters for GitHub Actions read it.

A test case for each assertion: one that does not hold is a failure, one that the trace holds no value for an error,
and one that noise hides is skipped, or with `strict` a failure.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tracetui.analysis.checking.report import Report
from tracetui.analysis.checking.verdict import Outcome, Status
from tracetui.drawing.check_words import WORDS, closing, told
from tracetui.drawing.format import REPLACEMENT, clean

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 does not allow, not even escaped."""


def junit(report: Report) -> str:
    """The check as one test suite, with a line break at its end."""
    tags = [_tag(each, report.strict) for each in report.outcomes]
    counts = {
        "tests": str(len(tags)),
        "failures": str(tags.count("failure")),
        "errors": str(tags.count("error")),
        "skipped": str(tags.count("skipped")),
        "time": "0",
    }
    title = f"tracetui check {report.side.name}"
    # Schemas know no skipped tests of all suites together.
    sums = {name: text for name, text in counts.items() if name != "skipped"}
    suites = ElementTree.Element("testsuites", {"name": "tracetui check", **sums})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _safe(title), **counts})
    for outcome, tag in zip(report.outcomes, tags, strict=True):
        _add_case(suite, outcome, tag, _class_name(report.side.name))
    lines = [f"{WORDS[each.status]}  {each.expression}  {told(each)}" for each in report.outcomes]
    said = [*report.unfair, *lines, *report.remarks, closing(report)]
    ElementTree.SubElement(suite, "system-out").text = "\n".join(map(_safe, said))
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _tag(outcome: Outcome, strict: bool) -> str:
    if outcome.status == Status.UNTOLD:
        return "failure" if strict else "skipped"
    return {Status.FAILS: "failure", Status.MISSING: "error"}.get(outcome.status, "")


def _add_case(suite: ElementTree.Element, outcome: Outcome, tag: str, place: str) -> None:
    names = {"classname": place, "name": _safe(outcome.expression), "time": "0"}
    case = ElementTree.SubElement(suite, "testcase", names)
    if not tag:
        return
    message = _safe(told(outcome))
    detail = ElementTree.SubElement(case, tag, {"message": message})
    # GitLab shows the text, Jenkins and GitHub the message.
    detail.text = f"{_safe(outcome.expression)}\n{message}"
    if tag != "skipped":
        detail.set("type", outcome.status.value)


def _class_name(name: str) -> str:
    """The file as the name of a class: readers take a point for the start of a deeper package."""
    return _safe("tracetui." + name.replace(".", "_"))


def _safe(text: str) -> str:
    return _ILLEGAL.sub(REPLACEMENT, clean(text))
