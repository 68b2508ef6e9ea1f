"""The report as a browser shows it: nothing violates its policy, nothing is fetched, and the headings sort."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.app import shown
from tests.support.chromium import Chromium, executable
from tests.support.paths import SAMPLES
from tests.support.report_page import Page, read_page
from tests.support.reports import ATTACKS, check_tables, html_of, training
from tests.support.traces import loaded
from tracetui.model.trace import Trace

pytestmark = pytest.mark.full

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
CLICKS = """
const told = [];
for (const [key, clicks] of PLAN) {
    const heading = [...document.querySelectorAll("#operators thead th")].find((h) => h.title.startsWith(key));
    for (let number = 0; number < clicks; number++) {
        heading.querySelector("button").click();
    }
    told.push({
        rows: [...document.querySelectorAll("#operators tbody tr")].map((r) => [...r.cells].map((c) => c.textContent)),
        sorts: [...document.querySelectorAll("th[aria-sort]")].map((h) => h.getAttribute("aria-sort")),
    });
}
document.body.dataset.told = JSON.stringify(told);
"""
"""Clicks on headings, a plan of [column, how often], and tells the rows and the marks after every entry of it."""


@pytest.fixture
def browser(tmp_path: Path) -> Chromium:
    program = executable()
    if program is None:
        pytest.skip("needs chromium, chromium-browser or google-chrome")
    return Chromium(program, tmp_path)


@pytest.fixture
def opened(browser: Chromium, tmp_path: Path) -> Callable[[str], Page]:
    """A function from HTML to the page after its script ran; fails where anything went wrong on the way."""

    def open_page(html: str) -> Page:
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        visit = browser.open(path)
        assert visit.console == []
        assert visit.requested == []
        return read_page(visit.dom)

    return open_page


def sortable(found: Page) -> bool:
    """Whether the script ran."""
    return any(attributes.get("data-sortable") == "yes" for attributes in found.named("html"))


@pytest.mark.smoke
def test_a_page_is_whole_and_silent(opened: Callable[[str], Page]) -> None:
    trace = training()
    found = opened(html_of(trace))
    assert sortable(found)
    assert len(found.named("button")) > 20
    check_tables(trace, found, 2)
    assert "relu_kernel, 40.0 µs (elementwise)" in found.slice_titles


def test_attacks_stay_words(opened: Callable[[str], Page]) -> None:
    trace = training(ATTACKS)
    found = opened(html_of(trace))
    assert sortable(found)
    assert len(found.named("script")) == 1
    check_tables(trace, found, 2)


def test_a_foreign_script_does_not_run(browser: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    smuggled = '<script>document.documentElement.dataset.owned = "yes"</script>'
    path.write_text(html_of(training()).replace("</main>", f"{smuggled}</main>"), encoding="utf-8")
    visit = browser.open(path)
    assert 'data-owned="yes"' not in visit.dom
    assert any("Content Security Policy" in line for line in visit.console)


def test_headings_sort(browser: Chromium, tmp_path: Path) -> None:
    html = html_of(loaded(SAMPLES / "mlp_train_cpu.json.gz"))
    # One page for all: three clicks on a heading undo each other, so the last entry begins as the first did.
    plan = [("self_cpu_us", 1), ("self_cpu_us", 1), ("self_cpu_us", 1), ("calls", 3)]
    path = tmp_path / "report.html"
    script = CLICKS.replace("PLAN", json.dumps(plan))
    # The page's own policy would not let anything but its own script run.
    path.write_text(POLICY.sub("", html).replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    visit = browser.open(path)
    assert visit.console == [] and visit.requested == []
    (body,) = read_page(visit.dom).named("body")
    head, *original = read_page(html).tables["operators"]
    orders = ("down", "up", "", "")
    for (key, _), order, told in zip(plan, orders, json.loads(str(body["data-told"])), strict=True):
        check_sorted(head, original, key, order, told)


MICROSECONDS = {"": 1.0, "ns": 1e-3, "µs": 1.0, "ms": 1e3, "s": 1e6}


def number_of(cell: str) -> float:
    """The number in a cell, of a duration in microseconds."""
    number, _, unit = cell.partition(" ")
    return float(number.replace(",", "")) * MICROSECONDS[unit]


def check_sorted(head: list[str], original: list[list[str]], key: str, order: str, told: dict[str, Any]) -> None:
    """The rows of a table are in order of a column, or as they were, and its heading says which."""
    column = next(i for i, words in enumerate(head) if words.startswith(key.replace("_us", "").split("_")[0]))
    values, before = ([number_of(row[column]) for row in rows] for rows in (told["rows"], original))
    wanted = {"down": sorted(before, reverse=True), "up": sorted(before), "": before}[order]
    assert values == wanted
    assert len(set(values)) > 3 and before not in (sorted(before), sorted(before, reverse=True))
    assert told["sorts"] == {"down": ["descending"], "up": ["ascending"], "": []}[order]


@pytest.mark.parametrize(
    "name",
    [
        # Communication, occupancy and steps; graphs and stacks; another program. One without a GPU is sorted above.
        "d08_b200_cuda13_ep_moe.json",
        "d10_cudagraph_stack.json",
        "d15_chrome_all_phases.json.gz",
    ],
)
def test_real_traces(name: str, opened: Callable[[str], Page], shared_trace: Callable[[str], Path]) -> None:
    trace: Trace = loaded(shared_trace(name))
    found = opened(html_of(trace))
    assert sortable(found) and len(found.slice_titles) > 50


def test_light_and_dark_differ(browser: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html_of(training()), encoding="utf-8")
    assert ground(browser.timeline_index(path, 1200, 400)) > 240
    assert ground(browser.timeline_index(path, 1200, 400, dark=True)) < 40


def test_no_page_is_wider_than_its_window(browser: Chromium, tmp_path: Path) -> None:
    path, widths = tmp_path / "frames.html", (320, 400, 1200)
    # A window has a least width; a frame has none.
    page = escape(POLICY.sub("", html_of(training())))
    frames = "".join(f'<iframe srcdoc="{page}" width="{w}" height="900" style="border:0"></iframe>' for w in widths)
    path.write_text(
        f"{frames}<script>onload = () => "
        "{ const sizes = Array.from(frames).map((frame) => frame.document.documentElement);"
        "document.body.dataset.widths = sizes.map((inner) => inner.scrollWidth);"
        "document.body.dataset.heights = sizes.map((inner) => inner.scrollHeight) }</script>",
        encoding="utf-8",
    )
    found = re.search(r'data-widths="([\d,]+)" data-heights="([\d,]+)"', browser.open(path).dom)
    assert found is not None
    measured, heights = ([int(number) for number in group.split(",")] for group in found.groups())
    assert len(measured) == len(widths)
    assert all(inner <= width for inner, width in zip(measured, widths, strict=True)), measured
    assert all(height > 900 for height in heights), heights


def ground(png: bytes) -> float:
    """How bright, of 255, the upper left corner of a picture is."""
    assert png.startswith(b"\x89PNG")
    data, at = b"", 8
    width = depth = 0
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, depth = struct.unpack(">I", body[:4])[0], 4 if body[9] == 6 else 3
        if kind == b"IDAT":
            data += body
        at += length + 12
    first = np.frombuffer(zlib.decompress(data)[1 : 1 + depth], np.uint8)
    assert width > 0
    return float(first[:3].mean())


async def test_a_picture_of_the_screen_opens(
    browser: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with shown(training(), (160, 40)) as (_, pilot):
        await pilot.press("ctrl+s")
        await pilot.pause()
    (path,) = (tmp_path / "data").rglob("*.svg")
    visit = browser.open(path)
    assert visit.requested == [] and visit.console == []
    assert "relu" in visit.dom


def test_a_request_would_be_noticed(browser: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text('<img src="http://elsewhere.example/x.png">')
    assert browser.open(path).requested == ["http://elsewhere.example/x.png"]
