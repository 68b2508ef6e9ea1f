"""One analysis that fails costs its own pane of the app, of the comparison and of the ranks; nothing ends the app."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.support import compared_app
from tests.support.app import settle, shown, to_pane, training
from tests.support.comparing import tutorial
from tests.support.comparing.recording import write
from tests.support.failing import Breaks, break_idle_time, check_sentence, fail, reports
from tests.support.paths import SHARED
from tests.support.rank_files import write_ranks
from tests.support.waiting import until
from tracetui.opening.rank_folder import RankSetName
from tracetui.opening.trace_opening import SideName
from tracetui.panes import PANES
from tracetui.ui.app import TraceApp
from tracetui.ui.compare.compare_list import CHANGE_TABS
from tracetui.ui.ranks.rank_view import RankScreen, RankView

pytestmark = pytest.mark.usefixtures("breaks")


def notified(app: TraceApp) -> str:
    """Everything that was said above the screen."""
    return " ".join(note.message for note in app._notifications)


async def test_the_panes_that_do_not_rest_on_it_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    break_idle_time(monkeypatch)
    async with shown(training(), size=(160, 50)) as (app, pilot):
        listed = {}
        for name in PANES:
            if name not in ("counters", "range", "flame"):
                await pilot.press(*to_pane(name))
                await settle(pilot)
                listed[name] = app.view.panes.table
        assert app.crash == "" and app.is_running
        assert listed["gaps"] is None
        await pilot.press(PANES["gaps"].key)
        check_sentence(app.list.note)
        for name in ("kernels", "ops", "launches", "health", "views"):
            assert listed[name] is not None
        assert len(reports()) == 1


async def test_a_rule_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracetui.findings import rules

    monkeypatch.setattr(rules, "RULES", (*rules.RULES, lambda scope: fail()))
    async with shown(training(), size=(160, 50)) as (app, pilot):
        await pilot.press(PANES["findings"].key)
        await settle(pilot)
        table = app.view.panes.table
        assert table is not None
        check_sentence(table.note)
        assert app.view.panes.headline.startswith("1 rule failed")


async def test_what_is_asked_for_by_a_key_says_so_and_other_keys_go_on(breaks: Breaks) -> None:
    async with shown(training(), size=(160, 50)) as (app, pilot):
        breaks("tracetui.linking.chains.links")
        await pilot.press("g")
        await pilot.pause()
        assert app.crash == "" and app.is_running
        check_sentence(notified(app))
        await pilot.press(*to_pane("ops"), "?")
        await pilot.pause()
        assert app.is_running


async def test_a_description_that_fails_is_a_sentence_in_the_details(breaks: Breaks) -> None:
    breaks("tracetui.ui.trace.trace_view.describe")
    async with shown(training(), size=(200, 50)) as (app, pilot):
        await pilot.press("j")
        await settle(pilot)
        assert app.crash == "" and app.is_running
        said = " ".join(line.text.strip() for line in app.view.panes.details.lines)
        assert "The description could not be made: it failed with Defect" in " ".join(said.split())


@pytest.fixture
def pair(tmp_path: Path) -> tuple[SideName, SideName]:
    files = [
        write(tutorial.mlp_events(mode), tmp_path / f"{mode}.json") for mode in (tutorial.EAGER, tutorial.COMPILED)
    ]
    return SideName(str(files[0])), SideName(str(files[1]))


@pytest.mark.parametrize(
    ("name", "failed"),
    [
        ("statement.totals", {"totals"}),
        ("statement.kernel_changes", {"kernels"}),
        ("statement.op_changes", {"ops", "statement"}),
        ("statement.statement", {"statement"}),
    ],
)
async def test_the_compare_screen_has_its_other_tabs(
    name: str, failed: set[str], pair: tuple[SideName, SideName], breaks: Breaks
) -> None:
    breaks(f"tracetui.comparing.{name}")
    async with compared_app.shown(*pair) as (app, _):
        await settle(_)
        panes = app.view.panes
        assert {tab for tab in CHANGE_TABS if not panes.has(tab)} == failed - {"statement"}
        for tab in failed & set(CHANGE_TABS):
            check_sentence(str(panes._tables[tab]))
        if "statement" in failed:
            check_sentence(" ".join(app.view.statement.sentences))
        else:
            assert "could not be made" not in " ".join(app.view.statement.sentences)
        assert app.crash == "" and app.is_running


async def test_the_compare_screen_opens_where_idle_time_fails(
    pair: tuple[SideName, SideName], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two thirds of the header and the statement rest on the verdict."""
    break_idle_time(monkeypatch)
    async with compared_app.shown(*pair) as (app, pilot):
        assert app.view.panes.has("kernels")
        await pilot.press("2", "j", ".", "]", "1", "enter")
        await settle(pilot)
        assert app.crash == "" and app.is_running
        check_sentence(" ".join(app.view.statement.sentences))


async def test_a_search_for_partners_that_fails_is_a_notice(
    pair: tuple[SideName, SideName], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracetui.ui.compare.highlighted_slices.match", fail)
    async with compared_app.shown(*pair) as (app, _):
        assert all(app.view.panes.has(tab) for tab in CHANGE_TABS)
        assert app.crash == "" and app.is_running


class Ranks(TraceApp):
    """The app on a folder of ranks."""

    @property
    def view(self) -> RankView:
        assert isinstance(self.screen, RankScreen)
        return self.screen.query_one(RankView)


async def read(app: Ranks, pilot: Pilot[int]) -> None:
    await until(
        pilot, lambda: isinstance(app.screen, RankScreen) and app.view.ranks is not None, "the ranks are not read"
    )
    await settle(pilot)


@pytest.mark.parametrize("name", ["find_waiting", "late_ranks"])
async def test_the_screen_of_ranks_has_its_other_tabs(name: str, tmp_path: Path, breaks: Breaks) -> None:
    folder = write_ranks(tmp_path / "run")
    breaks(f"tracetui.ranks.rank_set.{name}")
    app = Ranks([], ranks=RankSetName((str(folder),)))
    async with app.run_test(size=(140, 40)) as pilot:
        await read(app, pilot)
        assert app.crash == "" and app.is_running
        said = " ".join(app.view.statement.sentences)
        check_sentence(said)
        assert "ranks" not in app.view.panes.tables
        await pilot.press("1")
        await settle(pilot)
        check_sentence(app.view.panes.view.note)
        assert app.view.panes.has("files")
        await pilot.press("2", "enter", "3", "enter", "6", "j")
        await settle(pilot)
        assert app.crash == "" and app.is_running


async def test_two_steps_of_the_trace_whose_gaps_lost_their_parts() -> None:
    path = SHARED / "d17_a100_16rank_5steps_graphs.json.gz"
    if not path.exists():
        pytest.skip("needs ../shared/traces, which is not there")
    async with compared_app.shown(SideName(str(path), "551"), SideName(str(path), "552")) as (app, _):
        assert app.crash == "" and all(app.view.panes.has(tab) for tab in CHANGE_TABS)
        assert "could not be made" not in json.dumps(app.view.statement.sentences)
