"""Which kernel, which step: an assertion about a list that fails names the rows that are to blame."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.checks import US, cpu_only, outcome, pane, uneven, work
from tracetui.checking.report import assertion, report
from tracetui.comparing.side import side
from tracetui.drawing.text.check_text import check_json, check_markdown, check_text, junit, outcome_text
from tracetui.reading.load import load

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


def test_the_same_rows_as_in_the_panes_of_a_real_trace(shared_trace):
    trace = load(str(shared_trace(D03)))
    kernels = pane(trace, "kernels")
    longest = max((row for row in kernels if row["kind"] == "kernel" and row["step"]), key=lambda row: row["dur_us"])
    said = outcome_text(outcome(trace, "max(kernels.dur_us) < 4ms"))
    assert f"({longest['short_name']} in step {longest['step']})" in said
    slow = [row["step"] for row in pane(trace, "steps") if row["dur_us"] >= 350_000]
    assert f"(not {', '.join(f'step {number}' for number in slow)})" in outcome_text(
        outcome(trace, "all(steps.dur_us < 350ms)")
    )
    assert len(slow) == 1
