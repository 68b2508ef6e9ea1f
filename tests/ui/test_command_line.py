"""The command line: what is typed behind `:`, how it is completed, and what is said about what it does not know."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest
from textual.app import App
from textual.widgets import Input

from tests.support.app import Shown, burst, keys, settle, shown, training
from tests.support.compile_logs import compilation, entry
from tests.support.waiting import until
from tracetui.reading.load import load
from tracetui.ui.base.exports import exports_folder, open_in_editor
from tracetui.ui.trace.line_commands import operators_meant


async def typed(app: Shown, pilot, line: str) -> None:
    """Type a line, and wait until it is closed or something is said about it."""
    burst(app, "colon", *line, "enter", "f5")
    await until(pilot, lambda: not app.view.search_line.is_open or "^" in below(app), f"{line} is not carried out")
    await settle(pilot)


def text_in(app: Shown) -> str:
    """The text of the line that has the focus."""
    assert isinstance(app.focused, Input)
    return app.focused.value


def below(app: Shown) -> str:
    """What stands below the line."""
    return app.view.search_line.below.text


def is_said(app: Shown, sentence: str) -> bool:
    return sentence in below(app)


PLACES = {
    "step 3": (3, "kernels", "gemm"),
    "kernel 2": (3, "kernels", "relu_kernel"),
    "op linear": (3, "kernels", "aten::linear"),
    "  find": (3, "findings", "aten::linear"),
    "step all": (None, "findings", "aten::linear"),
    "at s1/ops": (1, "ops", "aten::linear"),
    "range 1ms+1ms": (1, "range", "aten::linear"),
    "kernels": (1, "kernels", "aten::linear"),
}
"""Lines, each typed where the one before led, with the step, the pane and the selection that they lead to."""


@pytest.mark.full
async def test_lines_lead_to_places_and_keys_behind_them_are_carried_out():
    async with shown(training()) as (app, pilot):
        for line, place in PLACES.items():
            await typed(app, pilot, line)
            assert (app.view.step, app.view.panes.pane, app.selected) == place, line
            await until(pilot, lambda: app.text("#hints").startswith("F5"), "a key behind the line is lost")


async def test_the_list_is_filtered_sorted_and_grouped_by_name():
    async with shown(training()) as (app, pilot):
        await typed(app, pilot, "where dur > 100us")
        assert app.view.panes.arrangement.filter == "dur > 100us" and len(app.list.order) == 1
        await typed(app, pilot, "where")
        await typed(app, pilot, "sort dur asc")
        assert app.selected == "relu_kernel"
        await typed(app, pilot, "sort duration")
        assert app.selected == "gemm"
        await typed(app, pilot, "by name")
        assert app.view.panes.arrangement.by == "name"


SENTENCES = {
    "foo": "There is no command 'foo': there are step, kernel, op",
    "st": "'st' may be step or steps-by or steps.",
    "step 9": "There is no step '9': there are 1 to 3, and all.",
    "kernel 3": "There is no kernel '3' in this step: it has 2.",
    "op mm": "No operator begins with 'mm'.",
    "sort bar": "There is no column 'bar'.",
    "where dur > 3lightyears": "'lightyears' is no unit",
    "by day": "This list cannot be grouped by 'day': it can be grouped by name, tensor_cores",
    "gaps now": "Nothing goes behind :gaps.",
    "verify bf61": "There is no alternative 'bf61'. Did you mean bf16?",
    "range soon": "'soon' is no range of time",
    "theme pink": "There is no theme 'pink': there are dark, light",
}


@pytest.mark.full
async def test_what_is_not_known_is_a_sentence_and_the_line_stays():
    async with shown(training(), (200, 50)) as (app, pilot):
        for line, sentence in SENTENCES.items():
            burst(app, "colon", *line, "enter")
            await until(pilot, partial(is_said, app, sentence), f"not said of {line}: {sentence}")
            assert app.view.search_line.is_open and app.view.panes.pane == "kernels"
            await keys(pilot, "escape")
            assert app.list.has_focus and not app.view.search_line.is_open


async def test_tab_completes_and_up_brings_the_last_line_back():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "colon", *"ki", "tab")
        assert text_in(app) == "ki"
        await keys(pilot, "backspace", *"ernel", "backspace", "backspace", "tab", "tab")
        assert text_in(app) == "kernel"
        await keys(pilot, "ctrl+u", *"op li", "tab", "enter")
        assert app.selected == "aten::linear"
        await keys(pilot, "colon", "up")
        assert text_in(app) == "op aten::linear"


async def test_a_colon_within_a_search_is_a_letter():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "slash")
        await pilot.press("colon")
        assert text_in(app) == ":"


def test_an_operator_is_meant_by_its_name_before_others_begin_so():
    names = ["aten::add_", "aten::add", "aten::addmm", "c10d::add"]
    assert operators_meant(names, "add") == ["aten::add", "c10d::add"]
    assert operators_meant(names, "aten::add") == ["aten::add"]
    assert operators_meant(names, "addm") == ["aten::addmm"]
    assert operators_meant(names, "C10D::A") == ["c10d::add"]


@pytest.mark.parametrize("editor", ["", "true"])
@pytest.mark.full
async def test_generated_code_is_written_for_the_editor(editor, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("EDITOR", editor)
    monkeypatch.delenv("VISUAL", raising=False)
    code = entry({"inductor_output_code": {"filename": "/tmp/x.py"}}, "triton = 1\n\x1b[2J", "0/0", at_us=1500)
    (tmp_path / "log.log").write_text(compilation("0/0", 1000, 1000, more=code))
    async with shown(load(str(tmp_path / "log.log"))) as (app, pilot):
        await typed(app, pilot, "code 0/1")
        assert "no generated code of '0/1': there is some of 0/0" in below(app)
        await pilot.press("escape")
        await typed(app, pilot, "code 0/0")
        await until(pilot, lambda: exports_folder().exists() and [*exports_folder().iterdir()])
        (path,) = exports_folder().iterdir()
        text = path.read_text()
        assert "# /tmp/x.py\ntriton = 1" in text and "\x1b" not in text


def test_the_editor_has_the_file_while_the_app_is_away(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("VISUAL", f"cp --target-directory={tmp_path}")
    away = cast(App[None], SimpleNamespace(suspend=nullcontext))
    sentence, is_warning = open_in_editor(away, "a = 1\n", "code.py")
    assert (tmp_path / "code.py").read_text() == "a = 1\n" and not is_warning and "was open in cp" in sentence
    monkeypatch.setenv("VISUAL", "there-is-no-such-editor")
    assert open_in_editor(away, "a = 1\n", "code.py")[1]
