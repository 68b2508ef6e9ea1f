"""The report on two sides: its words and numbers are those of the comparison, its timelines have one scale."""

from __future__ import annotations

import re

import pytest

from tests.support.comparing.tutorial import COMPILED, mlp
from tests.support.paths import SAMPLES
from tests.support.report_page import read_page
from tests.support.reports import ATTACKS, training
from tracetui.cli.main import main
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.drawing.report.page import page
from tracetui.drawing.report.reports import comparison_report
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.model.trace import Trace


def told(a: Trace, b: Trace) -> Comparison:
    """Two traces beside each other."""
    return Comparison(side(a), side(b))


def html_of(compared: Comparison) -> str:
    """The page on two sides."""
    return page(comparison_report(compared, (TimelineIndex(compared.a.trace), TimelineIndex(compared.b.trace))))


def test_it_says_what_the_comparison_says():
    compared = told(mlp(), mlp(COMPILED))
    found = read_page(html_of(compared))
    words = " ".join(found.texts)
    assert all(sentence in words for sentence in compared.statement)
    assert list(found.sections.values())[:3] == ["What differs", "Timeline of A", "Timeline of B"]


def test_the_kernels_are_those_of_the_comparison():
    compared = told(mlp(), mlp(COMPILED))
    rows = read_page(html_of(compared)).tables["gpu-work"]
    marks = [row[0] for row in rows[1:]]
    assert marks == [compared.kernels["mark"].cell(row) for row in range(len(compared.kernels))]
    assert "fused into" in marks


def test_both_timelines_have_one_scale():
    compared = told(mlp(), mlp(COMPILED))
    lengths = re.findall(r'aria-label="Lanes from step \d+, ([^"]+)"', html_of(compared))
    assert len(lengths) == 2
    assert lengths[0] == lengths[1]


def test_what_comes_after_the_shorter_side_is_pale():
    html = html_of(told(mlp(), mlp(COMPILED)))
    assert html.count('class="beyond"') == 1
    assert html_of(told(mlp(), mlp())).count('class="beyond"') == 0


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.full
def test_names_are_never_obeyed(attack):
    found = read_page(html_of(told(training((attack, "gemm"), label=attack), training(("gemm", attack)))))
    assert len(found.named("script")) == 1
    assert not [tag for tag, attributes in found.tags if any(key.startswith("on") for key in attributes)]


def test_the_command_writes_it(tmp_path, capsys):
    sample, out = SAMPLES / "mlp_eager_cpu.json.gz", tmp_path / "two.html"
    assert main(["report", f"{sample}#3", "#4", "-o", str(out)]) == 0
    assert "wrote" in capsys.readouterr().err
    assert "mlp_eager_cpu.json.gz#3" in " ".join(read_page(out.read_text()).texts)


def test_it_is_named_after_both(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report", f"{SAMPLES / 'mlp_eager_cpu.json.gz'}#3", "#4"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mlp_eager_cpu-3-to-4.report.html"]


def test_a_step_is_chosen_by_the_sides_themselves(tmp_path, capsys):
    sample = str(SAMPLES / "mlp_eager_cpu.json.gz")
    assert main(["report", sample, sample, "-o", str(tmp_path / "x.html"), "--step", "3"]) == 2
    assert "--step" in capsys.readouterr().err
