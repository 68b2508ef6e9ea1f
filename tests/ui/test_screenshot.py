"""`ctrl+s` writes the screen as an SVG that needs nothing but itself, and `e` both forms of a pane."""

from __future__ import annotations

import csv
import errno
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.app import shown, training
from tests.support.build import kernel, launch, make_trace, op
from tracetui.files import write_whole
from tracetui.model.trace import Trace
from tracetui.ui.app import TraceApp
from tracetui.ui.base.exports import self_contained
from tracetui.ui.base.keys import all_commands

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "tracetui" / "exports"


def nasty() -> Trace:
    """Names that look like markup, styles and addresses."""
    names = ("</style><script>x", "@font-face {a}", "<!-- hidden -->", 'Fira Code"&amp;')
    events = []
    for number, name in enumerate(names):
        at = number * 1000
        events += [
            op(name, at, 900),
            launch(at + 10, 5, number + 1),
            kernel(name, at + 100, 700, correlation=number + 1),
        ]
    return make_trace(events)


def words(svg: str) -> str:
    """All text of a picture, as it is read."""
    root = ElementTree.fromstring(svg)
    return " ".join("".join(element.itertext()) for element in root.iter(f"{SVG}text")).replace("\xa0", " ")


async def pictured(trace: Trace, folder: Path, size: tuple[int, int] = (160, 44)) -> tuple[str, str]:
    """The picture that the key writes, and what was said about it."""
    async with shown(trace, size) as (app, pilot):
        await pilot.press("ctrl+s")
        await pilot.pause()
        said = app.text("#hints")
    (path,) = folder.glob("*.svg")
    return path.read_text("utf-8"), said


async def test_the_picture_is_what_is_on_screen(folder: Path) -> None:
    svg, said = await pictured(training(), folder)
    assert re.search(r"Picture of the screen written to .*made-\d{8}-\d{6}\.svg", said)
    assert "ProfilerStep#2" in words(svg) and "aten::linear" in words(svg)


@pytest.mark.parametrize("make", [training, nasty])
async def test_nothing_is_fetched(make, folder: Path) -> None:
    svg, _ = await pictured(make(), folder)
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", svg))
    assert addresses == {"http://www.w3.org/2000/svg"}
    styles = svg.partition("</style>")[0]
    assert "url(" not in styles and "@import" not in styles and "@font-face" not in styles
    assert "monospace" in styles and "Fira" not in styles
    assert "<script" not in svg and "href" not in svg


async def test_names_are_escaped_and_stay(folder: Path) -> None:
    svg, _ = await pictured(nasty(), folder, (200, 50))
    root = ElementTree.fromstring(svg)
    assert {element.tag for element in root.iter()} <= {
        SVG + tag for tag in ("svg", "style", "defs", "clipPath", "rect", "text", "g", "circle", "path")
    }
    for name in ("</style><script>x", "@font-face {a}", "<!-- hidden -->", 'Fira Code"&amp;'):
        assert name in words(svg)


def test_what_follows_the_styles_is_left_alone() -> None:
    svg = "<svg><!-- by --><style>@font-face { src: url(http://x) } a { font-family: Fira Code, monospace }</style>"
    screen = "<text>@font-face { x } Fira Code</text></svg>"
    made = self_contained(svg + screen)
    assert made.endswith(screen) and "http" not in made and "by" not in made


async def test_it_is_a_command_of_the_palette(folder: Path) -> None:
    async with shown(training()) as (app, _):
        titles = [found.binding.description for found in all_commands(app.screen)]
        assert titles.count("Picture of the screen") == 1
        keys = [key for found in all_commands(app.screen) for key in found.binding.key.split(",")]
        assert keys.count("ctrl+s") == 1


async def test_a_folder_that_cannot_be_written_is_said(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where the folder should be")
    async with shown(training(), (160, 40)) as (app, pilot):
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert "The picture could not be written to" in app.text("#hints")
        await pilot.press("e")
        await pilot.pause()
        assert "The pane could not be written to" in app.text("#hints")


async def test_a_full_disk_leaves_no_half_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with shown(training(), (160, 40)) as (app, pilot):
        for name in ("link", "replace"):
            monkeypatch.setattr(os, name, full)
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert "No space left on device (XDG_DATA_HOME names another folder)" in app.text("#hints")
    assert list(folder.iterdir()) == []


async def test_it_works_before_there_is_a_trace(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    app = TraceApp([str(tmp_path / "empty")])
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        await pilot.press("ctrl+s")
        await pilot.pause()
    assert len(list(folder.glob("tracetui-*.svg"))) == 1


async def test_export_writes_csv_and_markdown(folder: Path) -> None:
    async with shown(training(), (160, 40)) as (app, pilot):
        await pilot.press("e")
        await pilot.pause()
        said = app.text("#hints")
        assert "2 rows written to" in said and "made-kernels-step2.csv and .md" in said
    assert len(list(csv.DictReader((folder / "made-kernels-step2.csv").read_text().splitlines()))) == 2
    text = (folder / "made-kernels-step2.md").read_text()
    assert text.startswith("**kernels**, step 2, of `made.json`")


def test_a_file_that_may_not_be_replaced_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_whole(path, "one")
    with pytest.raises(FileExistsError):
        write_whole(path, "two", replace=False)
    assert path.read_text() == "one"
    write_whole(path, "two")
    assert path.read_text() == "two" and list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_whole(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()
