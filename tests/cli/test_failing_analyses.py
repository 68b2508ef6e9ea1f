"""One analysis that fails costs its own pane, rule, check, assertion, table or section; the command says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.comparing import tutorial
from tests.support.comparing.recording import write
from tests.support.failing import Breaks, Defect, break_idle_time, check_sentence, fail, reports
from tests.support.paths import SHARED
from tests.support.rank_files import write_ranks
from tracetui.cli.main import main
from tracetui.errors import AnalysisFailed
from tracetui.findings import rules
from tracetui.health import health_table
from tracetui.model.table import Table
from tracetui.panes import PANES
from tracetui.reading.load import load

pytestmark = pytest.mark.usefixtures("breaks")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two traces with a GPU, which no test writes to."""
    folder = tmp_path_factory.mktemp("pair")
    files = [write(tutorial.mlp_events(mode), folder / f"{mode}.json") for mode in (tutorial.EAGER, tutorial.COMPILED)]
    return str(files[0]), str(files[1])


@pytest.fixture
def trace(pair: tuple[str, str]) -> str:
    return pair[0]


@pytest.fixture
def idle_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    break_idle_time(monkeypatch)


@pytest.fixture
def slow_launches(tmp_path: Path) -> str:
    """A loop whose GPU waits for the CPU most of the time."""
    events: list[dict[str, Any]] = []

    def add(name: str, cat: str, start: int, dur: int, tid: int, **args: int) -> None:
        events.append(
            {"ph": "X", "name": name, "cat": cat, "ts": start, "dur": dur, "pid": tid, "tid": tid, "args": args}
        )

    for number in range(200):
        at = 100 * number
        add("aten::mm", "cpu_op", at, 80, 1)
        add("cudaLaunchKernel", "cuda_runtime", at + 60, 5, 1, correlation=number + 1)
        add("gemm", "kernel", at + 70, 10, 0, correlation=number + 1, device=0, stream=7)
    path = tmp_path / "slow.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return str(path)


Said = pytest.CaptureFixture[str]


def rule_that_fails(scope: object) -> None:
    fail()


@pytest.mark.usefixtures("idle_fails")
def test_a_pane_that_fails_is_a_sentence_and_the_others_are_printed(trace: str, capsys: Said) -> None:
    assert main(["show", "gaps", trace]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    check_sentence(output.err)
    assert main(["show", "kernels", trace, "--format", "json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["rows"] and output.err == ""


def test_a_rule_that_fails_drops_itself_alone(
    slow_launches: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["show", "findings", slow_launches, "--format", "json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert "launch-overhead" in {row["id"] for row in whole["rows"]}
    failing = [rule_that_fails if rule.__name__ == "launch_overhead" else rule for rule in rules.RULES]
    monkeypatch.setattr(rules, "RULES", tuple(failing))
    assert main(["show", "findings", slow_launches, "--format", "json"]) == 1
    output = capsys.readouterr()
    check_sentence(output.err)
    told = json.loads(output.out)
    assert told["rows"] == [row for row in whole["rows"] if row["id"] != "launch-overhead"]
    check_sentence(told["note"])
    assert told["headline"].startswith("1 rule failed")


def test_a_check_of_the_trace_that_fails_drops_itself_and_is_told_where_it_would_mark_numbers(
    trace: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    (index,) = [index for index, check in enumerate(health_table.CHECKS) if "kernels.dur_us" in check.touches][:1]
    checks = list(health_table.CHECKS)
    checks[index] = replace(checks[index], find=fail)
    monkeypatch.setattr(health_table, "CHECKS", tuple(checks))
    assert main(["show", "health", trace, "--format", "json"]) == 1
    output = capsys.readouterr()
    check_sentence(output.err)
    names = {row["check"] for row in json.loads(output.out)["rows"]}
    assert checks[index].name not in names and len(names) == len(checks) - 1
    assert main(["show", "kernels", trace, "--format", "json"]) == 1
    output = capsys.readouterr()
    check_sentence(output.err)
    assert json.loads(output.out)["rows"]


@pytest.mark.usefixtures("idle_fails")
def test_a_report_has_the_other_sections_and_one_file_has_the_traceback(
    trace: str, tmp_path: Path, capsys: Said
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", trace, "-o", str(page)]) == 1
    told = check_sentence(capsys.readouterr().err)
    html = page.read_text()
    assert str(told) in html
    for name in ("Kernels by name", "Operators", "Health"):
        assert f"<h2>{name}" in html or name in html
    assert "GPU busy, of the whole trace" not in html
    assert reports() == [told]


def test_a_comparison_has_its_other_parts(pair: tuple[str, str], capsys: Said, breaks: Breaks) -> None:
    breaks("tracetui.comparing.statement.op_changes")
    assert main(["compare", *pair, "--format", "json"]) == 1
    output = capsys.readouterr()
    check_sentence(output.err)
    told = json.loads(output.out)
    assert told["totals"]["rows"] and told["kernels"]["rows"] and told["ops"]["rows"] == []
    check_sentence(told["ops"]["note"])
    # The statement is made of the operators too.
    (sentence,) = told["statement"]
    check_sentence(sentence)


@pytest.mark.parametrize("form", ["table", "md", "json"])
@pytest.mark.parametrize(
    "name",
    ["statement.totals", "statement.kernel_changes", "statement.op_changes", "statement.statement"],
)
def test_a_comparison_is_printed_in_every_form(
    name: str, form: str, pair: tuple[str, str], capsys: Said, breaks: Breaks, tmp_path: Path
) -> None:
    breaks(f"tracetui.comparing.{name}")
    assert main(["compare", *pair, "--format", form]) == 1
    output = capsys.readouterr()
    check_sentence(output.err)
    check_sentence(output.out.replace("\\", ""))
    assert "gemm" in output.out.lower()
    assert main(["report", *pair, "-o", str(tmp_path / "page.html")]) == 1
    check_sentence(capsys.readouterr().err)


@pytest.mark.usefixtures("idle_fails")
def test_several_sides_and_the_description_of_a_side(pair: tuple[str, str], capsys: Said) -> None:
    assert main(["compare", *pair, pair[0]]) == 1
    check_sentence(capsys.readouterr().err)
    assert main(["compare", *pair, "--show", "kernels"]) == 0
    assert capsys.readouterr().out


@pytest.mark.usefixtures("idle_fails")
def test_an_assertion_that_rests_on_it_is_an_error_and_no_pass(trace: str, tmp_path: Path, capsys: Said) -> None:
    junit = tmp_path / "junit.xml"
    asked = ["kernels > 0", "idle_operators_us >= 0", "not idle_operators_us < 0", "count(gaps) >= 0"]
    assert main(["check", trace, *asked, "--format", "json", "--summary", f"junit={junit}"]) == 1
    output = capsys.readouterr()
    check_sentence(output.err)
    told = json.loads(output.out)
    assert [each["status"] for each in told["checks"]] == ["holds", "error", "error", "error"]
    assert told["counts"]["error"] == 3 and not told["passes"]
    assert all(each["found"] is None for each in told["checks"][1:])
    suite = ElementTree.parse(junit).getroot()[0]
    assert suite.attrib["errors"] == "3"
    assert main(["check", trace, "kernels > 0"]) == 0


def test_an_assertion_about_findings_is_an_error_where_a_rule_failed(
    trace: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "RULES", (*rules.RULES, rule_that_fails))
    asked = ["findings >= 0", "count(findings, id == 'x') == 0", "findings('major') >= 0", "kernels > 0"]
    assert main(["check", trace, *asked, "--format", "json"]) == 1
    output = capsys.readouterr()
    check_sentence(output.err)
    statuses = [each["status"] for each in json.loads(output.out)["checks"]]
    assert statuses == ["error", "error", "error", "holds"]


def test_a_baseline_alone_asks_for_what_fails_too(pair: tuple[str, str], capsys: Said, breaks: Breaks) -> None:
    breaks("tracetui.comparing.measures._gpu_times")
    assert main(["check", pair[0], "--baseline", pair[1], "--format", "json"]) == 1
    output = capsys.readouterr()
    check_sentence(output.err)
    statuses = {each["expression"]: each["status"] for each in json.loads(output.out)["checks"]}
    assert statuses["not_slower(gpu_busy_us)"] == "error" and statuses["not_slower(kernels)"] != "error"


@pytest.mark.usefixtures("idle_fails")
def test_names_that_can_be_asked_are_listed_without_those_that_fail(trace: str, capsys: Said) -> None:
    assert main(["check", "--names", trace, "--format", "json"]) == 1
    output = capsys.readouterr()
    check_sentence(output.err)
    names = {row["name"] for row in json.loads(output.out)["rows"]}
    assert {"kernels", "count(kernels)"} <= names
    assert not {"idle_operators_us", "count(gaps)"} & names


@pytest.mark.parametrize("name", ["find_waiting", "find_clocks"])
def test_ranks_have_their_other_tables(name: str, tmp_path: Path, capsys: Said, breaks: Breaks) -> None:
    folder = str(write_ranks(tmp_path / "run"))
    breaks(f"tracetui.ranks.rank_set.{name}")
    assert main(["ranks", folder, "--show", "matrix"]) == 1
    check_sentence(capsys.readouterr().err)
    asked = ["world_size == 4", "late == 0", "count(matrix) >= 0"]
    assert main(["check", folder, *asked, "--format", "json"]) == 1
    output = capsys.readouterr()
    check_sentence(output.err)
    assert [each["status"] for each in json.loads(output.out)["checks"]] == ["holds", "error", "error"]
    page = tmp_path / "page.html"
    assert main(["report", folder, "-o", str(page)]) == 1
    check_sentence(capsys.readouterr().err)
    assert "could not be made" in page.read_text()


def test_a_rank_whose_summary_fails_is_left_out(tmp_path: Path, capsys: Said, breaks: Breaks) -> None:
    folder = str(write_ranks(tmp_path / "run"))
    breaks("tracetui.ranks.stretches.summarise_trace")
    assert main(["ranks", folder, "--jobs", "1"]) == 1
    check_sentence(capsys.readouterr().err)


def test_a_pane_that_failed_is_not_made_again(trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def noted(*_: object) -> Table:
        asked.append(1)
        raise Defect

    opened = load(trace)
    monkeypatch.setitem(PANES, "ops", replace(PANES["ops"], table=noted))
    for _ in range(3):
        with pytest.raises(AnalysisFailed):
            PANES["ops"].build(opened)
    assert len(asked) == 1


@pytest.mark.parametrize("command", [["show", "summary"], ["show", "findings"], ["report"], ["compare"], ["check"]])
def test_the_trace_whose_gaps_lost_their_parts(command: list[str], tmp_path: Path, capsys: Said) -> None:
    """A GPU 50 to 190 ms behind the CPU, whose queue was taken for the clock."""
    path = SHARED / "d17_a100_16rank_5steps_graphs.json.gz"
    if not path.exists():
        pytest.skip("needs ../shared/traces, which is not there")
    more = {
        "report": ["-o", str(tmp_path / "page.html")],
        "compare": ["#552"],
        "check": ["gpu_idle_pct <= 100", "count(gaps) > 0"],
    }
    name = f"{path}#551" if command == ["compare"] else str(path)
    assert main([*command, name, *more.get(command[0], [])]) == 0
    assert "could not be made" not in capsys.readouterr().err
