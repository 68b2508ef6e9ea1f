"""The tabs of the app: one key each, and what the panes of memory and health look like there."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.app import Shown, burst, keys, settle, shown, to_pane, training
from tests.support.build import kernel, launch
from tests.support.compile_logs import compilation
from tests.support.health import plain
from tests.support.memory_events import copied, two_ops
from tests.support.waiting import until
from tracetui.model.table import Table, texts
from tracetui.model.trace import Quality, Trace
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.ui.base import keys as declared_keys
from tracetui.ui.trace.pane_list import PaneList
from tracetui.ui.trace.pane_parts import GROUP_KEYS, OWN_KEYS, TABS
from tracetui.ui.widgets.bar import damage_marks, header_parts
from tracetui.ui.widgets.columns import layout_of
from tracetui.ui.widgets.tabbed_list import Tab, TabGroup, group_parts


def test_every_pane_is_in_one_group_and_no_key_opens_two() -> None:
    assert sorted([*TABS, "flame"]) == sorted(PANES), "which has a screen of its own"
    known = [*GROUP_KEYS.values(), *OWN_KEYS.values()]
    assert sorted(known) == sorted(declared_keys.TABS.names.split(","))


def _shows(app: Shown, pane: str) -> bool:
    return app.view.panes.pane == pane


@pytest.mark.full
async def test_every_key_and_every_name_opens_its_pane() -> None:
    async with shown(two_ops()) as (app, pilot):
        for name in TABS:
            for way in [to_pane(name), *([(OWN_KEYS[name],)] if name in OWN_KEYS else [])]:
                burst(app, "6", *way)
                await until(pilot, partial(_shows, app, name), f"{way} does not open {name}")


async def test_a_number_opens_a_group_and_again_its_next_pane_with_rows() -> None:
    async with shown(training(), (200, 50)) as (app, pilot):
        seen = []
        for key in "3" * 3 + "2" * 5 + "32":
            await keys(pilot, key)
            seen.append(app.view.panes.pane)
        # No library asked for the occupancy of these kernels.
        assert seen == ["gaps", "findings", "gaps", "kernels", "ops", "views", "launches", "kernels", "gaps", "kernels"]


async def test_a_click_on_a_group_opens_it_and_one_on_a_pane_of_it_that() -> None:
    async with shown(training(), (200, 50)) as (app, pilot):
        for words, name in (("Idle", "gaps"), ("findings", "findings"), ("Kernels", "kernels"), ("ops", "ops")):
            bar = app.view.panes._bar
            await pilot.click(bar, offset=(bar.text.index(words) + 2, 0))
            assert app.view.panes.pane == name


TABS_OF_KERNELS = [Tab(name, name.title(), "1,234", "") for name in ("kernels", "ops", "launches", "occupancy")]
TWO_GROUPS = [
    TabGroup("Kernels", "2", TABS_OF_KERNELS, "ops"),
    TabGroup("Idle", "3", [Tab("gaps", "Gaps", "7", "6")], "gaps"),
]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (79, "2 Kernels: kernels 1,234 · ops 1,234 · launches 1,234 · occupancy 1,234  3 Idle"),
        (72, "2 Kernels: kernels · ops 1,234 · launches · occupancy  3 Idle"),
        (50, "2 Kernels: kernels · ops 1,234 ›  3 Idle"),
        (30, "2 Kernels: ‹ ops 1,234 ›  3"),
    ],
)
def test_counts_give_way_first_then_panes_then_titles_of_other_groups(width: int, line: str) -> None:
    assert "".join(part.text for part in group_parts(TWO_GROUPS, "ops", "", width)).rstrip() == line


@pytest.mark.full
async def test_a_tab_begins_at_the_top_and_is_found_as_it_was_left() -> None:
    async with shown(training(), (200, 50)) as (app, pilot):
        await pilot.press("A", *to_pane("kernels"), "end")
        await settle(pilot)
        assert app.list.cursor == len(app.list.order) - 1 > 1
        await pilot.press("H")
        await settle(pilot)
        assert app.list.cursor == 0 < len(app.list.order) - 1, "the gravest check"
        await pilot.press(*to_pane("ops"))
        await settle(pilot)
        assert app.list.cursor == 0
        await pilot.press("down", "down")
        await settle(pilot)
        left_at = app.list.text
        await pilot.press("7", *to_pane("ops"))
        await settle(pilot)
        assert (app.list.cursor, app.list.text) == (2, left_at)


async def test_grouping_goes_round_all_groups_of_memory() -> None:
    async with shown(two_ops(), (200, 50)) as (app, pilot):
        await pilot.press("M")
        seen = []
        for _ in range(4):
            await pilot.press("b")
            await settle(pilot)
            seen.append(app.view.panes.arrangement.by)
        assert seen == ["op", "device", "copy", None]


async def test_where_only_copies_were_recorded_the_first_key_lists_them() -> None:
    async with shown(copied(), (200, 50)) as (app, pilot):
        await keys(pilot, "M", "b")
        assert app.view.panes.arrangement.by == "copy" and len(app.list.order) == 3


@pytest.mark.full
async def test_the_tab_of_health_counts_what_checks_found_and_the_header_what_is_doubtful() -> None:
    doubtful = plain(launch(500, 10, 2), kernel("early", 400, 20, correlation=2))
    for trace, mark in ((doubtful, "⚠1"), (plain(), "")):
        async with shown(trace, (200, 50)) as (app, _):
            found = sum(row["severity"] in ("wrong", "doubt", "note") for row in PANES["health"].build(trace).rows())
            tab = next(tab for tab in app.view.panes._tabs() if tab.name == "health")
            assert tab.count == str(found or "") and not tab.is_empty
            assert mark in app.text("#header") and (mark or "⚠" not in app.text("#header"))


def test_the_header_says_what_reading_found_until_the_checks_are_done() -> None:
    trace = plain(quality=Quality(truncated_at=9, dropped=2, skipped_phases={"V": 3}))
    assert damage_marks(trace) == ["TRUNCATED", "⚠2 warnings"]
    assert damage_marks(trace, 1) == ["TRUNCATED", "⚠1 warning"]


@pytest.mark.parametrize(
    ("trace", "pane", "by", "titles"),
    [
        (two_ops(), "memory", None, ["step", "event", "bytes", "in use", "op"]),
        (two_ops(), "memory", "op", ["op", "device", "at peak", "% of peak", "allocated"]),
        (two_ops(), "memory", "device", ["device", "peak", "rise", "peak µs", "peak in"]),
        (copied(), "memory", "copy", ["copy", "calls", "bytes", "total", "GB/s"]),
        (plain(), "health", None, ["severity", "check", "count", "%", "effect"]),
        (plain(quality=Quality(examples=[(7, "mended: {")])), "health", "offender", ["at byte", "offender"]),
    ],
)
def test_columns_are_titled_for_the_screen(trace: Trace, pane: str, by: str | None, titles: list[str]) -> None:
    table = PANES[pane].build(trace, by=by)
    assert [shown.title for shown in layout_of(pane, table, by)][:5] == titles


@pytest.mark.full
async def test_a_tab_counts_what_its_list_lists_and_is_dim_where_that_is_nothing() -> None:
    async with shown(training(), (200, 50)) as (app, pilot):
        panes = app.view.panes
        for name in TABS:
            await keys(pilot, *to_pane(name))
            tab = next(tab for tab in panes._tabs() if tab.name == name)
            is_extra = name in (extra := ("counters", "range", "source", "compiles", "requests"))
            assert len(panes._tabs()) == len(TABS) - len(extra) + is_extra, "no tab for what the trace does not have"
            listed = len(app.list.order)
            if name == "health":
                assert 0 < int(tab.count) < listed, "what was found, not what was looked for"
            elif name != "summary":
                assert tab.count == (str(listed) if listed else ""), name
            assert tab.is_empty == (listed == 0), name
        await keys(pilot, *to_pane("kernels"))
        styles = {part.text.split(" ")[0]: part.style for part in panes._bar.parts if part.key}
        assert (styles["kernels"], styles["ops"], styles["occupancy"]) == ("current", "plain", "empty")


async def test_the_count_of_a_filtered_tab_is_that_of_its_rows() -> None:
    async with shown(training(), (200, 50)) as (app, pilot):
        await keys(pilot, "F", *"relu", "enter")
        tabs = {tab.name: tab.count for tab in app.view.panes._tabs()}
        assert tabs["kernels"] == "1"
        await keys(pilot, *to_pane("ops"))
        tabs = {tab.name: tab.count for tab in app.view.panes._tabs()}
        assert (tabs["kernels"], tabs["ops"]) == ("", str(len(app.list.order)))


def test_a_log_of_torch_compile_opens_on_its_compilations(tmp_path) -> None:
    (tmp_path / "log.log").write_text(compilation("0/0", 1000, 1000))
    assert PaneList(load(str(tmp_path / "log.log"))).pane == "compiles"
    assert PaneList(training()).pane == "overview"


HEADER = {
    "devices": "NVIDIA H100",
    "steps": 40,
    "kernels": 8716,
    "gpu_busy_pct": 19.0,
    "step_idle_pct": 63.0,
    "verdict": "overhead-bound",
}


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (118, "made.json  NVIDIA H100 · 40 steps · 8,716 kernels · GPU busy 37 % of steps · overhead-bound"),
        (82, "made.json  NVIDIA H100 · 40 steps · GPU busy 37 % of steps · overhead-bound"),
        (71, "made.json  NVIDIA H100 · GPU busy 37 % of steps · overhead-bound"),
        (60, "made.json  overhead-bound · H100 · busy 37 % of steps"),
        (58, "made.json  overhead-bound · busy 37 % of steps"),
        (20, "made.json  overhead-bound · busy 37 % of steps"),
    ],
)
def test_on_a_short_line_the_header_keeps_busy_time_and_verdict_then_the_gpu(width: int, words: str) -> None:
    summary = Table((texts("key", list(HEADER)), texts("value", [str(value) for value in HEADER.values()])))
    parts = header_parts(plain(), summary, width)
    assert "".join(part.text for part in parts) == words


def test_marks_and_the_name_of_the_gpu_are_shortened_before_the_gpu_or_the_verdict_goes() -> None:
    facts = HEADER | {"devices": "NVIDIA A100-SXM4-80GB x8", "doubts": 2, "without_launch": 509}
    summary = Table((texts("key", list(facts)), texts("value", [str(value) for value in facts.values()])))

    def line(width: int) -> str:
        return "".join(part.text for part in header_parts(plain(), summary, width))

    busy = "GPU busy 37 % of steps"
    assert (
        line(120) == f"made.json  ⚠2 warnings  ⚠509 without launch  NVIDIA A100-SXM4-80GB x8 · {busy} · overhead-bound"
    )
    assert line(83) == "made.json  ⚠2  ⚠509 no launch  overhead-bound · A100 x8 · busy 37 % of steps"


def test_without_steps_the_header_has_the_share_of_the_whole_time() -> None:
    facts = {key: value for key, value in HEADER.items() if key not in ("steps", "step_idle_pct")}
    summary = Table((texts("key", list(facts)), texts("value", [str(value) for value in facts.values()])))
    assert "GPU busy 19 % · overhead" in "".join(part.text for part in header_parts(plain(), summary, 120))
