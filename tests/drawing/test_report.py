"""The report: what it says is what the panes say, nothing out of a trace is obeyed, nothing comes from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import make_trace, op, step
from tests.support.paths import SAMPLES
from tests.support.report_page import Page, read_page
from tests.support.reports import ATTACKS, check_tables, html_of, training
from tests.support.traces import loaded
from tracetui.cli.main import main
from tracetui.drawing.report.lanes_svg import BUDGET, Stretch, blocks, lanes_figure
from tracetui.drawing.report.page import NAME_WIDTH, Report, Section, page
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.errors import UsageError
from tracetui.model import columns as col
from tracetui.model.table import Table, numbers, texts
from tracetui.model.trace import Trace
from tracetui.panes import pane_named
from tracetui.text import clean


def read(trace: Trace, step: int | None = None) -> Page:
    return read_page(html_of(trace, step))


def test_the_findings_start_with_their_headline() -> None:
    trace = training()
    headline = pane_named("findings").build(trace).headline
    texts = read(trace).texts
    assert headline and headline in texts
    assert texts.index(headline) < next(number for number, words in enumerate(texts) if words.startswith("The weighti"))


def test_tables_are_those_of_the_panes() -> None:
    trace = training()
    assert check_tables(trace, read(trace), 2) >= 5


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("d03_v100_2rank_5steps_mem_occ_nccl.json.gz", marks=pytest.mark.full),
        pytest.param("d06_h100_stack_mem.json.gz", marks=pytest.mark.full),
        "d08_b200_cuda13_ep_moe.json",
        "d09_rtx3090_compile_triton.json",
        "d12_cpu_only_resnet18.json",
        pytest.param("d15_chrome_all_phases.json.gz", marks=pytest.mark.full),
    ],
)
def test_real_traces(name: str, shared_trace) -> None:
    trace = loaded(shared_trace(name))
    html = html_of(trace)
    found = read_page(html)
    assert len(html.encode()) < 2_500_000
    assert found.open_tags == []
    title = next(words for words in found.sections.values() if words.startswith("Lanes"))
    number = re.search(r"step (\d+)", title)
    check_tables(trace, found, int(number[1]) if number else None)
    assert len(found.slice_titles) > 50


def test_the_middle_step_comes_first_and_another_on_request() -> None:
    trace = training()
    assert "Lanes of step 2" in read(trace).sections.values()
    assert "Lanes of step 3" in read(trace, 3).sections.values()
    with pytest.raises(UsageError, match="7"):
        html_of(trace, 7)


def test_every_slice_of_the_step_is_drawn() -> None:
    titles = read(training()).slice_titles
    for wanted in ("ProfilerStep#2, 900.0 µs", "aten::gemm, 50.0 µs", "relu_kernel, 40.0 µs (elementwise)"):
        assert wanted in titles
    assert not any("ProfilerStep#1," in words for words in titles)
    assert any(words.startswith("idle ") or "gaps, the longest idle" in words for words in titles)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.full
def test_names_are_read_and_never_obeyed(attack: str) -> None:
    plain, attacked = read(training()), read(training((attack, "relu_kernel"), f"{attack}.json"))
    tags = {tag for tag, _ in attacked.tags}
    assert tags <= {tag for tag, _ in plain.tags} | {"li", "ol", "h3"}
    assert attacked.open_tags == []
    assert len(attacked.named("script")) == 1 and len(attacked.named("style")) == 1
    for tag, attributes in attacked.tags:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        assert "style" not in attributes
    # What is read as a name is the whole name, without what steers a screen.
    assert any(clean(attack) in words for words in attacked.texts)


def test_no_control_character_gets_through() -> None:
    html = html_of(training(ATTACKS))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)


@given(st.text(max_size=30))
def test_any_text_survives_a_cell(name: str) -> None:
    table = Table((texts("name", [name, "b"]), numbers("calls", [1, 2])))
    found = read_page(page(Report("t", sections=(Section("S", table=table),))))
    assert found.open_tags == []
    assert found.tables["s"][1] == [clean(name)[:NAME_WIDTH], "1"]


def test_nothing_comes_from_elsewhere() -> None:
    html = html_of(training())
    assert re.findall(r"https?:", html) == []
    found = read_page(html)
    for tag, attributes in found.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "image", "use", "foreignobject")
        assert "src" not in attributes
        assert str(attributes.get("href", "#")).startswith("#")
    assert all(address.startswith("#lanes-") for address in re.findall(r"url\(([^)]*)", html))
    assert "@import" not in html and "@font-face" not in html


def test_the_policy_allows_exactly_what_is_there() -> None:
    html = html_of(training())
    (policy,) = [
        str(attributes["content"])
        for attributes in read_page(html).named("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["base-uri"] == "'none'" and rules["form-action"] == "'none'"
    for tag in ("script", "style"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


def test_headings_have_scopes_units_and_help() -> None:
    html = html_of(training())
    found = read_page(html)
    assert set(found.scopes) == {"col", "row"}
    assert 'title="dur_us: ' in html and ">late launches %</th>" in html
    assert "<dt>launch→start</dt>" in html and "<dt>start µs</dt>" in html


def test_links_lead_to_sections() -> None:
    found = read(training())
    targets = {str(attributes["href"])[1:] for attributes in found.named("a")}
    assert targets == {*found.sections, "content"}


def test_a_cut_table_says_how_much_is_missing() -> None:
    table = Table((texts("name", [f"k{i}" for i in range(50)]),), note="A note <b>.")
    html = page(Report("t", sections=(Section("S", table=table, limit=7, more="All of it: command"),)))
    assert "7 of 50 rows; the other 43 are left out. All of it: command" in html
    assert "A note &lt;b&gt;." in html
    assert len(read_page(html).tables["s"]) == 8


def test_null_and_doubt_are_marked() -> None:
    table = Table((texts("name", ["a", None]), numbers(col.DUR_US, [1.25, np.nan])), doubts={"clock": ("dur_us",)})
    html = page(Report("t", sections=(Section("S", table=table),)))
    found = read_page(html)
    assert found.tables["s"] == [["name", "duration~"], ["a", "1.2 µs"], ["–", "–"]]
    assert "Doubtful, as health says: clock: duration." in html
    assert 'data-v="1.25"' in html and 'data-v=""' in html


def test_a_trace_without_a_gpu_is_a_whole_page() -> None:
    found = read(loaded(SAMPLES / "mlp_train_cpu.json.gz"))
    assert {"Operators", "Health", "Summary"} <= set(found.sections.values())
    assert any("There is no GPU activity in this trace" in words for words in found.texts)
    assert len(found.slice_titles) > 20


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 90)), max_size=60),
    st.floats(0.5, 20),
)
def test_merging_loses_no_slice_and_no_time(pieces: list[tuple[int, int]], finest: float) -> None:
    starts, ends, at = [], [], 0
    for gap, dur in pieces:
        starts.append(at + gap)
        at += gap + dur
        ends.append(at)
    stretch = Stretch(0, max(at, 1), 100.0)
    made = blocks(np.array(starts, np.int64), np.array(ends, np.int64), stretch, finest)
    assert made.first.tolist() == [0, *made.last.tolist()][: len(made)]
    assert (made.last[-1] if len(made) else 0) == len(starts)
    widths = made.right - made.left
    assert (widths >= finest * 0.999).all()
    assert (made.left >= 0).all() and (made.right <= 100 + finest).all()
    filled = sum(e - s for s, e in zip(starts, ends, strict=True)) * stretch.per_ns
    assert float((widths * made.share).sum()) <= filled + 1e-6
    single = (made.last - made.first) == 1
    wide = single & (widths > finest * 1.0001)
    for i in np.flatnonzero(wide).tolist():
        row = int(made.first[i])
        assert made.right[i] - made.left[i] == pytest.approx((ends[row] - starts[row]) * stretch.per_ns)


@pytest.mark.full
def test_a_crowd_stays_within_the_budget() -> None:
    events = [step(1, 0, 30_000_000)]
    for lane in range(30):
        events += [op(f"aten::x{i % 7}", i * 10_000, 5_000, lane=("1", str(lane))) for i in range(3_000)]
    trace = make_trace(events)
    figure = lanes_figure(TimelineIndex(trace), 0, 30_000_000, "step 1")
    assert figure.slices >= 90_000 and figure.blocks <= BUDGET
    assert len(figure.svg) < 2_000_000
    counted = sum(int(number.replace(",", "")) for number in re.findall(r"<title>([\d,]+) slices", figure.svg))
    alone = len(re.findall(r"<title>(?!Lanes)(?![\d,]+ slices)", figure.svg))
    assert counted + alone == figure.slices


def written(tmp_path: Path, *more: str) -> int:
    return main(["report", str(SAMPLES / "mlp_train_cpu.json.gz"), *more])


def test_the_file_is_named_after_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert written(tmp_path) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mlp_train_cpu.report.html"]


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["report", str(SAMPLES / "mlp_train_cpu.json.gz"), "-o", "-"]) == 0
    out = capfdbinary.readouterr().out
    assert out.startswith(b"<!doctype html>") and out.rstrip().endswith(b"</html>")


def test_a_step_that_is_not_there_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(SAMPLES / "mlp_train_cpu.json.gz"), "--step", "99", "-o", "-"]) == 2
    assert "99" in capsys.readouterr().err
