"""A check as text, JSON, Markdown and JUnit: read back, and proof against what a trace may hold."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import make_trace, op
from tests.support.checks import US, cpu_only, work
from tracetui.checking.report import CheckReport, assertion, report
from tracetui.checking.values import SHARE, THINGS, Amount, Unit
from tracetui.comparing.side import side
from tracetui.drawing.text.check_text import amount, check_json, check_markdown, check_text, junit
from tracetui.model.quantities import significant

TRACE = work(800, 900, 700)
TEXTS = ["kernels == 7", "kernels == 3", "max(memory.bytes) > 0", "not_slower(dur_us)", "dur_us < 1ms and launches < 2"]


def made(strict: bool = False) -> CheckReport:
    return report(side(TRACE), [*map(assertion, TEXTS)], side(work(790, 880, 690)), strict=strict)


def test_a_line_each_with_found_and_wanted():
    lines = check_text(made()).splitlines()
    words = [line.split("  ")[0] for line in lines[: len(TEXTS)]]
    assert words == ["FAIL", "ok", "missing", "cannot tell", "FAIL"]
    assert lines[0].endswith("found 3, wanted 7")
    assert "profile_memory=True" in lines[2]
    assert "found 800 µs (+1.3 %), wanted <= 790 µs (noise 200 µs)" in lines[3]
    assert lines[4].endswith("launches < 2: found 3, wanted < 2")
    assert lines[-1] == "1 of 5 hold: 2 fail, 1 missing, 1 cannot be told"


def test_the_json_has_the_numbers():
    document = json.loads(check_json(made()))
    assert document["passes"] is False
    assert document["counts"] == {"holds": 1, "fails": 2, "missing": 1, "cannot_tell": 1}
    assert [each["status"] for each in document["checks"]] == ["fails", "holds", "missing", "cannot_tell", "fails"]
    assert (document["checks"][0]["found"], document["checks"][0]["wanted"]) == (3, "7")
    assert document["checks"][2]["found"] is None
    assert [each["found"] for each in document["checks"][4]["parts"]] == [3]
    assert (document["trace"]["parts"], document["trace"]["part"]) == (3, "step")
    assert document["baseline"]["file"] == "made.json"


@pytest.mark.parametrize("strict", [False, True])
def test_junit_is_read_back(strict):
    root = ElementTree.fromstring(junit(made(strict)))
    (suite,) = root
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == TEXTS
    kinds = [[child.tag for child in case] for case in cases]
    assert kinds == [["failure"], [], ["error"], ["failure"] if strict else ["skipped"], ["failure"]]
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {
        "tests": "5",
        "failures": "3" if strict else "2",
        "errors": "1",
        "skipped": "0" if strict else "1",
    }
    assert {name: root.get(name) for name in counts} == {**counts, "skipped": None}
    assert all(case.get("classname") == "tracetui.made_json" and case.get("time") for case in cases)
    failure = cases[0].find("failure")
    assert failure is not None
    assert failure.get("message") == "found 3, wanted 7"
    assert "kernels == 7" in (failure.text or "")


@pytest.mark.full
@given(st.text(max_size=40))
def test_no_name_breaks_any_form(name):
    trace = make_trace([op(name, 0, 10 * US)], label=name or "x")
    given_name = name.replace("'", "").replace("\n", " ")
    texts = [f"any(ops.name == '{given_name}')", f"op('{given_name}').calls == 3", "file == 'y'"]
    outcomes = report(side(trace), [assertion(each) for each in texts])
    root = ElementTree.fromstring(junit(outcomes))
    assert len(root.findall(".//testcase")) == 3
    text = check_text(outcomes)
    assert len(text.splitlines()) == len(outcomes.outcomes) + len(outcomes.remarks) + 1
    assert not any(letter in text for letter in "\x1b\x00\u202e\x85")
    assert len(json.loads(check_json(outcomes))["checks"]) == 3
    rows = [line for line in check_markdown(outcomes).splitlines() if line.startswith("|")]
    assert len(rows) == 5


def test_markdown_is_one_table_and_escapes():
    shown = check_markdown(report(side(cpu_only()), [assertion("file == '<b>|`x`'"), assertion("kernels == 1")]))
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert "``file == '<b>\\|`x`'``" in rows[2]
    assert shown.count("<b>") == 1
    assert "**missing**" in shown


def test_numbers_that_differ_never_look_the_same():
    line = check_text(report(side(TRACE), [assertion("dur_us < 799.9999us")])).splitlines()[0]
    found, wanted = line.split("found ")[1].split(", wanted < ")
    assert found == "800 µs" and wanted == "799.9999 µs"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (1462, "1,462"), (1234567, "1,234,567"), (44.7123, "44.71"), (0.000123456, "0.0001235")],
)
def test_figures(value, text):
    assert significant(value) == text


def test_amounts_carry_their_unit():
    assert amount(Amount(44.66, SHARE)) == "44.66 %"
    assert amount(Amount(5, THINGS)) == "5"
    assert amount(Amount(1.5, Unit("ms"))) == "1.5 ms"
    assert amount(Amount(1500, Unit("us"))) == "1.5 ms"
    assert amount(Amount(1e26, Unit("us"))) == "1.000e+20 s"
    assert amount(Amount(3 << 20, Unit("bytes"))) == "3 MiB"
