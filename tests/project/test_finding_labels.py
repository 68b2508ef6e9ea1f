"""The findings of labelled traces say what is expected and nothing false, and the score notices when they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import finding_labels as command
from tests.support.build import kernel, launch, make_trace, step
from tests.support.finding_labels import Row, breaks, makes, problems, score, scored
from tests.support.findings import MS
from tests.support.paths import SAMPLES, SHARED

ROW: Row = {
    "id": "data-loading",
    "severity": "major",
    "title": "The GPU waits for data: 320.00 ms, 27 % of the steps",
    "evidence": "6 calls of SingleProcessDataLoaderIter",
    "advice": "Give the DataLoader workers.",
    "cost_us": 320_000.0,
}


def _claim(pattern: str, weight: str = "major", **figure: Any) -> dict[str, Any]:
    return {"id": "x", "any": [pattern], "weight": weight, **({"figures_any_of": [figure]} if figure else {})}


@pytest.mark.parametrize(
    ("claim", "made"),
    [
        (_claim("dataloader"), True),
        (_claim("nothing like it"), False),
        (_claim("data", unit="ms", value=300, tolerance=0.1), True),
        (_claim("data", unit="ms", value=200, tolerance=0.1), False),
        (_claim("data", unit="%", value=27, tolerance=0.01), True),
        (_claim("data", unit="%", value=6, tolerance=0.1), False),
        (_claim("data", unit="count", value=6, tolerance=0.01), True),
        (_claim("data", unit="count", value=27, tolerance=0.01), False),
    ],
)
def test_a_row_makes_a_claim_with_its_words_weight_and_figure(claim, made):
    assert makes(ROW, claim) == made
    assert not makes({**ROW, "severity": "minor"}, claim)


@pytest.mark.parametrize(
    ("ban", "broken"),
    [
        ({"any": ["workers"], "from_weight": "minor"}, True),
        ({"any": ["workers"], "from_weight": "minor", "fields": ["id", "title"]}, False),
        ({"cost_share_below": 0.4}, True),
        ({"cost_share_below": 0.3}, False),
    ],
)
def test_a_row_breaks_a_ban_with_its_words_from_a_weight_or_with_its_cost(ban, broken):
    assert breaks(ROW, ban, 1_000_000.0) == broken
    assert not breaks({**ROW, "severity": "note", "cost_us": None}, ban, 1_000_000.0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"evidence": "two\nlines"}, "data-loading: more than one line"),
        ({"evidence": "1,101 % of it"}, "data-loading: a share above 100 %"),
        ({"cost_us": 310_000.0}, "data-loading: the title does not state its cost, 310.00 ms"),
    ],
)
def test_rows_that_contradict_themselves_are_reported(change, problem):
    calls = [step(0, 0, 1000 * MS), launch(10, 10, 1), launch(600 * MS, 10, 2)]
    trace = make_trace([*calls, kernel("a", 100, MS, correlation=1), kernel("b", 601 * MS, MS, correlation=2)])
    assert list(problems(trace, [ROW])) == []
    assert list(problems(trace, [{**ROW, **change}])) == [problem]
    assert list(problems(trace, [ROW, {**ROW, "id": "host-sync"}])) == [
        "idle findings cost 640.00 ms, and no kernel ran for 600.00 ms"
    ]


def test_a_trace_is_scored_by_its_label():
    trace = make_trace([step(0, 0, 1000 * MS)])
    label = {
        "must": [_claim("no GPU", "note"), _claim("no GPU")],
        "must_not": [{"id": "y", "any": ["GPU"], "from_weight": "note"}],
    }
    result = score(trace, "made.json", label)
    assert (result.missing, result.forbidden, result.expected, result.banned) == (["x"], ["y"], 2, 1)


def test_labels_lie_beside_their_traces_and_the_exit_code_tells(tmp_path: Path, monkeypatch, capsys):
    name = "mlp_eager_cpu.json.gz"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / name).write_bytes((SAMPLES / name).read_bytes())
    labels = tmp_path / "labels.json"
    good = {"must": [{"id": "no-gpu", "any": ["no GPU"], "weight": "note"}]}
    bad = {"must_not": [{"id": "no-gpu", "any": ["no GPU"], "from_weight": "note"}]}
    for label, code in ((good, 0), (bad, 1)):
        labels.write_text(json.dumps({"traces": {name: label, "absent.json": good}}))
        monkeypatch.setattr("sys.argv", ["finding_labels", str(labels)])
        assert command.main() == code
        assert "1 traces: " in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["finding_labels", str(tmp_path / "none.json")])
    assert command.main() == 2
    assert "There are no labels" in capsys.readouterr().err


UNMET: dict[str, tuple[str, ...]] = {}
"""Labels that no rule meets yet, by trace: what is missing, then what is false. One that is met is taken out here."""


@pytest.mark.full
def test_the_findings_of_real_traces_say_what_is_expected_and_nothing_false():
    labels = SHARED / "findings.json"
    if not labels.exists():
        pytest.skip("needs ../shared/traces/findings.json, which is not there")
    result = scored(labels)
    wrong = {each.name[:3]: (*each.missing, *each.forbidden, *each.problems) for each in result.traces}
    assert {name: ids for name, ids in wrong.items() if ids} == UNMET, "\n".join(command.lines(result))
