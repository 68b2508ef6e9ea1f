"""Which kernel, which step: an assertion about a list that fails names the rows that are to blame."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.checks import US, cpu_only, outcome, pane, uneven, work
from tests.support.traces import loaded
from tracetui.checking.report import assertion, report
from tracetui.checking.values import Offender
from tracetui.comparing.side import side
from tracetui.drawing.text.check_text import (
    check_json,
    check_markdown,
    check_text,
    junit,
    open_command,
    outcome_text,
)
from tracetui.model.viewpoint import read_view_string

D03 = "d03_v100_2rank_5steps_mem_occ_nccl.json.gz"


def test_at_most_three_are_named_and_the_others_counted():
    found = outcome(work(*[500] * 7), "max(steps.dur_us) < 1us")
    assert "(step 1, step 2, step 3 and 4 more)" in outcome_text(found)
    assert found.leaves[0].blamed.total == 7


def test_runs_and_captures_have_names_too():
    assert "(not run 1, run 2)" in outcome_text(outcome(cpu_only(2), "all(runs.dur_us < 1us)", "aten::mm"))
    assert "(my_kernel in step 2)" in outcome_text(outcome(uneven(), "max(kernels.dur_us) < 5", "aten::mm"))
    whole = make_trace([op("aten::mm", 0, 20 * US), launch(US, US, 1), kernel("k", 5 * US, US, correlation=1)])
    assert outcome_text(outcome(whole, "max(kernels.dur_us) < 1ns")).startswith("found 1,000 ns (k), wanted")


def test_findings_and_doubts_are_named():
    trace = uneven()
    ids = pane(trace, "findings")
    found = outcome(trace, "findings == 0")
    assert found.status.value == "fails" and ids
    assert all(row["id"] in outcome_text(found) for row in ids[:3])
    lost = make_trace([step(1, 0, 90 * US), op("aten::mm", 0, 20 * US), kernel("k", 5 * US, US, correlation=4)])
    said = outcome_text(outcome(lost, "doubts == 0"))
    assert "launch" in said.split("(")[1]


def test_every_form_names_them():
    made = report(side(uneven()), [assertion("max(kernels.dur_us) < 50us"), assertion("all(steps.dur_us < 1us)")])
    assert "my_kernel in step 2" in check_text(made)
    assert "(my_kernel in step 2)" in check_markdown(made)
    message = ElementTree.fromstring(junit(made)).find(".//failure").get("message")  # type: ignore[union-attr]
    assert message == "found 90 µs (my_kernel in step 2), wanted < 50 µs"
    first, second = json.loads(check_json(made))["checks"]
    assert first["rows"] == [
        {"list": "kernels", "name": "my_kernel", "step": 2, "view": "s2/kernels/e7", "command": None}
    ]
    assert [row["step"] for row in second["rows"]] == [1, 2, 3]
    assert (first["rows_in_all"], second["rows_in_all"]) == (1, 3)


def test_a_name_of_a_row_is_not_printed_raw():
    events = [step(1, 0, 900 * US), op("a\x1b[31m", US, 20 * US)]
    shown = check_text(report(side(make_trace(events)), [assertion("max(ops.self_cpu_us, name ~ 'a') < 1us")]))
    assert "\x1b" not in shown and "(a" in shown


@pytest.mark.full
def test_the_same_rows_as_in_the_panes_of_a_real_trace(shared_trace):
    trace = loaded(shared_trace(D03))
    kernels = pane(trace, "kernels")
    longest = max((row for row in kernels if row["kind"] == "kernel" and row["step"]), key=lambda row: row["dur_us"])
    said = outcome_text(outcome(trace, "max(kernels.dur_us) < 4ms"))
    assert f"({longest['short_name']} in step {longest['step']})" in said
    slow = [row["step"] for row in pane(trace, "steps") if row["dur_us"] >= 350_000]
    assert f"(not {', '.join(f'step {number}' for number in slow)})" in outcome_text(
        outcome(trace, "all(steps.dur_us < 350ms)")
    )
    assert len(slow) == 1


def test_every_row_has_a_view_that_shows_it():
    trace = uneven()
    asked = (
        "max(kernels.dur_us) < 1us",
        "all(steps.dur_us < 1us)",
        "max(gaps.dur_us) < 1us",
        "kernels == 5 or cpu_ops < 0",
    )
    rows = {
        row.list_name: row for text in asked for leaf in outcome(trace, text).leaves for row in leaf.blamed.first[:1]
    }
    assert rows.keys() == {"kernels", "steps", "gaps"}
    views = {name: read_view_string(row.view) for name, row in rows.items()}
    longest = views["kernels"]
    assert (longest.step, longest.pane) == (2, "kernels")
    (shown,) = [at for at, event in enumerate(trace.slices.event.tolist()) if event == longest.event]
    assert trace.name_of(shown) == "my_kernel"
    assert views["steps"].step == 1 and views["steps"].pane is None
    assert views["gaps"].is_gap and views["gaps"].event >= 0
    for text, view in (("findings == 0", "findings"), ("max(ops.self_cpu_us) < 1ns", "ops")):
        (leaf,) = outcome(trace, text).leaves
        first = read_view_string(leaf.blamed.first[0].view)
        assert first.event >= 0 or first.pane == view
    (leaf,) = outcome(work(500, 510, 900), "dur_us < 1us").leaves
    assert not leaf.blamed.first and leaf.example is not None and leaf.example.view == "s2", "the step of the median"
    run = outcome(cpu_only(2), "all(runs.dur_us < 1us)", "aten::mm").leaves[0].blamed.first[1]
    assert read_view_string(run.view).event >= 0


def test_the_command_names_the_trace_or_the_baseline_and_is_quoted():
    row = Offender("kernels", "k", 2, "by=a b/s2/kernels/e7", "new trace.json")
    assert open_command(row) == "tracetui open 'new trace.json' --at 'by=a b/s2/kernels/e7'"
    assert open_command(replace(row, path="https://host/x.json?token=1")) == open_command(replace(row, path="")) == ""
    assert open_command(replace(row, view="")) == ""
    old, new = (replace(uneven(), path=name) for name in ("old.json", "new.json"))
    asked = [assertion("max(baseline.kernels.dur_us) < 1us"), assertion("max(kernels.dur_us) < 1us")]
    made = report(side(new), asked, side(old))
    told = [each["rows"][0]["command"] for each in json.loads(check_json(made))["checks"]]
    assert [words.split()[2] for words in told] == ["old.json", "new.json"]
    for form in (check_markdown(made), junit(made)):
        assert all(words in form for words in told)
