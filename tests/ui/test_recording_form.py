"""From the list of traces to a new one by keys: the list of workloads, the form, the screen of the recording."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input, Static
from tracetui_workloads import registry
from tracetui_workloads.recording.launcher import Options, Outcome, Stage
from tracetui_workloads.recording.protocol import Failure

from tests.support.app import keys, opened, settle
from tests.support.recording_form import form, said, settle_recording
from tests.support.waiting import until
from tests.support.workloads.children import needs_torch
from tests.support.workloads.traced import LINEAR, trace_file
from tracetui.cli.main import build_parser
from tracetui.cli.recording import requests_of
from tracetui.ui.app import TraceApp
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.compare.several_screen import SeveralScreen
from tracetui.ui.ranks.rank_view import RankScreen
from tracetui.ui.recording import recording_form
from tracetui.ui.recording.recording_form import (
    ChoiceField,
    RecordingForm,
    RecordingScreen,
    WorkloadPicker,
    command_line,
    values_of,
)
from tracetui.ui.trace.trace_screen import TraceScreen
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.picker import TextPage
from tracetui.ui.widgets.table_view import TableView

pytestmark = pytest.mark.full

SIZES = [(120, 40), (60, 12)]


@pytest.mark.parametrize("size", SIZES)
async def test_from_the_list_to_a_form(folder, size):
    app = TraceApp([str(folder)])
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert "r record" in said(app, "#hints")
        assert "Press r" in app.screen.query_one(TableView).note
        await pilot.press("r")
        await settle(pilot)
        table = app.screen.query_one(TableView).table
        assert table is not None
        assert [row["here"] for row in table.rows()] == ["runs here", "runs here", "needs a GPU"]
        await pilot.press("escape")
        await form(app, pilot, row=2)
        assert isinstance(app.screen, WorkloadPicker), "what cannot run is not tried"
        assert said(app, "#title").endswith("big cannot run: needs a GPU")
        await pilot.press("k", "k", "enter")
        await pilot.pause()
        has_every_parameter_with_its_default(app, size)
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, WorkloadPicker)


def has_every_parameter_with_its_default(app, size):
    assert isinstance(app.screen, RecordingForm)
    shown = [field for field in app.screen.query(".field") if field.region]
    assert [field.value for field in app.screen.query(Input)][:4] == ["1024", "32", "64", "3"]
    assert [field.value for field in app.screen.query(ChoiceField)][:5] == ["no", "auto", "bf16", "no", "no"]
    assert len(shown) == 10 or size[1] < 24, "three parameters, six options, and the rest"
    assert said(app, "#command") == "tracetui run linear"
    for hint in ("enter record", "esc back"):
        assert hint in said(app, "#hints")


CHOSEN = [
    (
        1,
        ["right", "right", "down", "left", "tab", "backspace", "4", *["down"] * 4, "space"],
        "tracetui run attention --compile --impl=sdpa -p backend=cudnn --batch=4",
        Options(compile=True),
    ),
    (
        0,
        [*["down"] * 4, "left", "left", "down", "right", "down", "space", "down", "backspace", "5"],
        "tracetui run linear --device=cpu --dtype=fp16 --cold --active=5",
        Options(device="cpu", dtype="fp16", cold=True, active=5),
    ),
]
"""The row of a workload, keys in its form, and what is asked for then."""


async def test_values_and_options_are_chosen_by_keys(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 30)) as pilot:
        for row, pressed, words, options in CHOSEN:
            await form(app, pilot, row)
            await keys(pilot, *pressed)
            assert said(app, "#command") == words
            await pilot.press("enter")
            await settle_recording(app, pilot)
            request = recordings[0][-1]
            assert request.options == options
            assert list(request.argv) == words.split()
            # Escape cancels it and keeps the form, then goes back from screen to screen.
            await pilot.press("escape")
            await settle(pilot)
            assert isinstance(app.screen, RecordingForm) and said(app, "#command") == words
            await pilot.press("escape", "escape")
            await pilot.pause()
        first = recordings[0][0]
        assert (first.params["impl"], first.params["batch"], first.params["seq"]) == ("sdpa", 4, 1024)


async def test_rarer_options_are_folded(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(80, 24)) as pilot:
        await form(app, pilot, row=1)
        field = app.screen.query_one("#field-option-shapes", ChoiceField)
        assert not field.region
        await pilot.press("up")
        assert app.focused is app.screen.query_one("#field-more")
        await pilot.press("space")
        await keys(pilot, *["down"] * 7)
        assert app.focused is field
        await keys(pilot, "right", "down", "space", "down", "space")
        assert field.region
        assert said(app, "#command") == "tracetui run attention --shapes=on --stack --memory"
        await pilot.press("enter")
        await settle_recording(app, pilot)
        assert recordings[0][0].options == Options(shapes="on", stack=True, memory=True)


async def test_what_is_refused_in_the_form(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(80, 24)) as pilot:
        await form(app, pilot)
        for is_shown in (True, False, True):
            await keys(pilot, *(["up", "space"] if app.focused is app.screen.query(Input).first() else ["space"]))
            assert bool(app.screen.query_one("#field-option-wait").region) == is_shown
        await keys(pilot, "down", "right", "enter")
        assert isinstance(app.screen, RecordingForm)
        assert said(app, "#trouble").strip() == "--mode and --backend say how to compile; add --compile."
        await pilot.press("escape", "escape")
        await form(app, pilot)
        await pilot.press("x", "enter")
        await pilot.pause()
        assert isinstance(app.screen, RecordingForm)
        assert "whole number" in said(app, "#trouble")
        assert recordings[0] == []


async def test_long_forms_fit_on_a_small_terminal(folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for name in ("attention", "fused_mlp", "split_stack"):
            await app.push_screen(RecordingForm(name, registry.built_in(name)))
            await pilot.pause()
            assert not any(field.region for field in app.screen.query(".folded .field"))
            assert app.screen.query_one("#fields").max_scroll_y == 0
            bars = [bar for bar in app.screen.query(".about").results(Bar) if bar.region]
            assert bars and [bar.text for bar in bars if len(bar.text) > bar.size.width] == []
            await app.pop_screen()


@pytest.mark.parametrize("given", [{}, {"impl": "sdpa", "backend": "flash"}])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"compile": "yes", "backend": "aot_eager", "dtype": "fp32", "device": "cpu"},
        {"cold": "yes", "active": "5", "wait": "0", "warmup": "2", "seed": "7", "shapes": "on", "stack": "yes"},
        {"memory": "yes", "warm_seconds": "0.5", "compile": "yes", "mode": "max-autotune"},
    ],
)
def test_the_command_asks_for_the_same(given, changed):
    parser = build_parser()
    attention = registry.built_in("attention")
    parsed, rest = parser.parse_known_args(command_line("attention", given, changed)[1:])
    parsed.parameters = rest
    [request] = requests_of(parsed)
    assert request.options == Options(**values_of(attention, changed))
    assert request.params == attention.values(given)


async def test_a_recording_fails_is_cancelled_and_is_opened(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(80, 24)) as pilot:
        await form(app, pilot)
        await pilot.press("2")
        for part in (it_has_stages_times_and_remarks, a_failure_is_told_until_it_was_read, escape_cancels_it):
            await pilot.press("enter")
            await settle_recording(app, pilot)
            await part(app, pilot, recordings[1])
            assert isinstance(app.screen, RecordingForm)
            assert app.screen.query(Input).first().value.endswith("2"), "the form is kept"
        await pilot.press("enter")
        await settle_recording(app, pilot)
        path = trace_file(folder / "x.json", "fwd", LINEAR, ABOUT)
        recordings[1].put_nowait(Outcome(path, None))
        await opened(app, pilot)
        assert isinstance(app.screen, TraceScreen)
        assert "x.json" in said(app, "#header")
        assert len(app.screen_stack) == 2, "nothing of the way here is left"
        await pilot.press("I")
        await pilot.pause()
        assert isinstance(app.screen, TextPage)
        lesson = str(app.screen.query_one("#text", Static).render())
        assert "One kernel per forward" in lesson
        assert "found     linear t addmm" in lesson
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, TraceScreen)


ABOUT = {
    "workload": "linear",
    "label": "fwd",
    "device": "cpu",
    "torch": "2.13.0",
    "options": {"compile": False},
    "params": {"batch": 1024},
}
"""What a recording says of itself."""


async def test_the_folder_of_several_ranks_opens_as_a_set(recordings, folder):
    app = TraceApp([str(folder)])
    made = folder / "run"
    async with app.run_test(size=(80, 24)) as pilot:
        await form(app, pilot)
        await pilot.press("enter")
        await settle_recording(app, pilot)
        made.mkdir()
        paths = [trace_file(made / f"rank{rank}.json", "fwd", LINEAR, ABOUT, rank) for rank in (0, 1)]
        recordings[1].put_nowait(Outcome(made, None, ranks=[Outcome(path, None) for path in paths]))
        await until(pilot, lambda: isinstance(app.screen, RankScreen), "the set is not shown")
        await until(pilot, lambda: "2 ranks of 2" in said(app, "#header"), "its ranks are not read")


async def test_variants_are_timed_in_turns_after_the_last_one(recordings, folder, monkeypatch):
    asked: list = []

    async def time_variants(requests, on_event, cancel):
        asked.extend(requests)
        on_event(Stage("timing"))
        return [Outcome(None, Failure("error", "No.")) if each.variant == "eager" else TIMED for each in requests]

    monkeypatch.setattr(recording_form, "time_variants", time_variants)
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 40)) as pilot:
        await form(app, pilot)
        app.screen.query_one("#field-option-compare", Input).value = "eager,batch=2"
        await pilot.press("enter")
        for variant in ("eager", "batch=2"):
            await settle_recording(app, pilot)
            about = {"variant": variant, "unprofiled": {"median_us": 5.0, "profiled_us": 9.0}}
            path = trace_file(folder / f"{variant}.json", "fwd", LINEAR, about)
            recordings[1].put_nowait(Outcome(path, None, 1, about))
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "they are not compared")
    assert [request.variant for request in asked] == ["eager", "batch=2"]
    assert '"session": "one"' in (folder / "batch=2.json").read_text()
    assert '"session"' not in (folder / "eager.json").read_text(), "it keeps its own time"


TIMED = Outcome(None, None, 0, {"unprofiled": {"median_us": 6.0, "session": "one"}})


async def test_three_variants_are_compared(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 40)) as pilot:
        await form(app, pilot)
        app.screen.query_one("#field-option-compare", Input).value = "eager,batch=2,batch=3"
        await pilot.press("enter")
        for variant in ("eager", "batch=2", "batch=3"):
            await settle_recording(app, pilot)
            about = {**ABOUT, "variant": variant}
            recordings[1].put_nowait(Outcome(trace_file(folder / f"{variant}.json", "fwd", LINEAR, about), None))
        await until(pilot, lambda: isinstance(app.screen, SeveralScreen), "they are not compared")
        assert isinstance(app.screen, SeveralScreen) and len(app.screen.names) == 3


async def it_has_stages_times_and_remarks(app, pilot, _):
    stages = str(app.screen.query_one("#stages", Static).render())
    assert "importing torch" in stages
    assert "1.500 s" in stages
    assert "▸ recording" in stages
    assert "2/5" in stages
    assert "No GPU [red]here�[0m" in str(app.screen.query_one("#notes", Static).render())
    assert said(app, "#log") == "[bold]hello"
    assert "linear" in said(app, "#what")
    await escape_cancels_it(app, pilot, _)


async def a_failure_is_told_until_it_was_read(app, pilot, ending):
    ending.put_nowait(Outcome(None, Failure("oom", "Not enough memory.", "Try a smaller --batch.")))
    await settle(pilot)
    assert "Not enough memory. Try a smaller --batch." in str(app.screen.query_one("#notes", Static).render())
    assert "esc back" in said(app, "#keys")
    await pilot.press("escape")
    await pilot.pause()


async def escape_cancels_it(app, pilot, _):
    await pilot.press("escape")
    await settle(pilot)


async def test_ctrl_c_leaves_the_form_and_copies_nothing(folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 30)) as pilot:
        await form(app, pilot)
        assert isinstance(app.screen, RecordingForm)
        await pilot.press("ctrl+c")
        assert app.return_code == 0 and not app.is_running
    assert app.clipboard == ""


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_who_quits_stops_the_recording_first(recordings, folder, key):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 30)) as pilot:
        await form(app, pilot)
        await pilot.press("enter")
        await settle_recording(app, pilot)
        assert isinstance(app.screen, RecordingScreen)
        recording = app.screen._recording
        await pilot.press(key)
        await pilot.pause(0.1)
    assert recording is not None
    assert recording.done()


async def test_an_app_that_ends_stops_the_recording(recordings, folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 30)) as pilot:
        await form(app, pilot)
        await pilot.press("enter")
        await settle_recording(app, pilot)
        assert isinstance(app.screen, RecordingScreen)
        recording = app.screen._recording
        app.exit()
    assert recording is not None
    assert recording.done()
    assert not recording.cancelled()


@pytest.mark.full
@needs_torch
async def test_a_real_recording_from_the_list_to_the_trace(folder, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 30)) as pilot:
        await form(app, pilot)
        await pilot.press("enter")
        await opened(app, pilot)
        assert "1024_32_64_bf16_warm_eager.json.gz" in said(app, "#header")
    assert [path.name for path in Path("traces").rglob("*.json*")] == ["1024_32_64_bf16_warm_eager.json.gz"]
