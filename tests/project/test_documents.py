"""What the documents say of commands, output, keys, files and tests is so, and their links lead somewhere."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from tests.support.paths import ROOT, SAMPLES
from tracetui.cli.main import COMMANDS, build_parser, main
from tracetui.linking.links import links
from tracetui.linking.steps import steps
from tracetui.opening.trace_opening import SideName
from tracetui.panes import PANE_FILES, PANE_GROUPS, pane_named
from tracetui.reading.load import load
from tracetui.ui.app import TraceApp
from tracetui.ui.base.keys import all_commands

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), SAMPLES / "README.md"])
TEXTS = {path: path.read_text() for path in DOCUMENTS}
LARGEST_PICTURE = 250_000
"""Bytes."""


@pytest.mark.parametrize("name", ["README.md", "docs/text.md"])
def test_the_panes_of_show_are_the_declared_ones(name: str) -> None:
    listed = re.search(r"^PANE is (.*?)[.:]", TEXTS[ROOT / name], re.MULTILINE | re.DOTALL)
    assert listed is not None and re.findall(r"`(\w+)`", listed[1]) == list(PANE_FILES)


def test_the_table_of_panes_has_those_of_the_screen() -> None:
    rows = re.findall(r"^\| (?:\*\*.*?\*\*)? ?\| ([^|]+?) \|", TEXTS[ROOT / "docs/screen.md"], re.MULTILINE)
    titles = [pane_named(name).title for names in PANE_GROUPS.values() for name in names]
    assert sorted(row for row in rows if row in titles) == sorted(titles)


def name_of(path: Path) -> str:
    """A document as test ids show it."""
    return str(path.relative_to(ROOT))


def blocks_of(text: str) -> Iterator[list[str]]:
    """The indented and the fenced blocks of a document, without their indentation."""
    for fenced in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield fenced.splitlines()
    for indented in re.findall(
        r"(?:^    .*\n)+", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.M
    ):
        yield [line[4:] for line in indented.splitlines()]


# Links


def anchors_of(text: str) -> set[str]:
    """The anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path):
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", TEXTS[path]):
        if re.match(r"https?:", link):
            continue
        file, _, anchor = unquote(link).partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text())):
            broken.append(link)
    assert broken == []


def test_every_page_is_reached_from_the_readme():
    linked = set(re.findall(r"\]\(docs/([\w.-]+\.md)", TEXTS[ROOT / "README.md"]))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"gpu.md"} <= linked


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
@pytest.mark.full
def test_files_and_tests_that_are_named_exist(path):
    """A test may be named without its folder: `test_blocks.py`, `terminal/test_sizes.py`."""
    named = re.findall(
        r"`((?:[\w.]+/)*test_\w+\.py|(?:tests|docs|tracetui|workloads|sample_traces)/[\w./]*\w)/?`", TEXTS[path]
    )
    every = [name_of(file) for file in (ROOT / "tests").rglob("*.py")]
    missing = [
        name
        for name in named
        if not (ROOT / name).exists() and not any(f"/{file}".endswith(f"/{name}") for file in every)
    ]
    assert [name for name in missing if name not in MADE] == []


MADE = ("docs/gpu.md",)
"""Files that a command of the project makes."""


# Commands and their output


def commands_of(text: str) -> list[list[str]]:
    """The words of every `tracetui ...` line of the blocks, without the remark behind it."""
    found = []
    for line in (line for block in blocks_of(text) for line in block):
        match = re.match(r"(?:\$ |- run: |- |.*\| )?(tracetui .*)", line)
        if match and "[--" not in line:
            command = re.split(r"\s{2,}| [|>&] ", match[1])[0]
            found.append(shlex.split(command)[1:])
    return found


COMMAND_LINES = sorted({(name_of(path), *words) for path, text in TEXTS.items() for words in commands_of(text)})


def test_the_documents_have_commands():
    assert {words[1] for words in COMMAND_LINES if len(words) > 1} >= set(COMMANDS) - {"open"}
    assert len(COMMAND_LINES) > 40


@pytest.mark.parametrize("line", COMMAND_LINES, ids=" ".join)
def test_commands_are_understood(line):
    _, *words = line
    if not words or words[0] not in (*COMMANDS, "--print-completion"):
        words = ["open", *words]
    _, unknown = build_parser().parse_known_args(words)
    assert not unknown or words[0] == "run"


def examples() -> list[tuple[str, tuple[str, ...]]]:
    """Every command of the documents that reads a sample trace, with the lines that are shown below it."""
    found = []
    for path, text in TEXTS.items():
        for block in blocks_of(text):
            starts = [number for number, line in enumerate(block) if line.startswith("$ tracetui")]
            for first, last in pairwise([*starts, len(block)]):
                if "sample_traces/" in block[first]:
                    found.append((f"{name_of(path)}: {block[first][2:]}", tuple(block[first + 1 : last])))
    return found


def test_the_documents_have_examples():
    assert len(examples()) >= 4


@pytest.mark.parametrize(("command", "shown"), examples())
@pytest.mark.full
def test_examples_print_what_is_shown(command, shown, capsys, monkeypatch):
    """A line that ends in `...` is shown in part; a line of `...` alone stands for any number of lines."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(shlex.split(command.partition(": tracetui ")[2])) in (0, 1)
    printed = capsys.readouterr().out
    for line in filter(None, (line.removesuffix("...").rstrip() for line in shown)):
        assert line in printed


def test_the_example_in_python_prints_what_is_shown(monkeypatch, capsys):
    """Its blocks are run one after the other; below one stands what it prints, `...` for any text."""
    monkeypatch.chdir(ROOT)
    text = TEXTS[ROOT / "docs" / "python.md"]
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for code, expected in blocks:
        exec(code, names)
        printed = capsys.readouterr().out
        assert re.fullmatch(".*".join(map(re.escape, expected.split("..."))), printed, re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_commands_of_a_document_write_different_files(path):
    """So that they can be typed one after the other."""
    lines = [line for block in blocks_of(TEXTS[path]) for line in block if "--force" not in line]
    written = [match[1] for line in lines if (match := re.search(r"\s(?:-o|--out)[ =](\S+)", line))]
    assert sorted(written) == sorted(set(written))


def workflows() -> list[str]:
    """The blocks of YAML in the documents."""
    blocks = (each for text in TEXTS.values() for each in re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S))
    return list(blocks)


def test_workflows_install_tracetui_and_not_the_checkout_in_its_place():
    """The checkout of a workflow is the repository of whoever follows it."""
    assert len(workflows()) == 2
    for text in workflows():
        job = (yaml.safe_load(text).get("jobs") or yaml.safe_load(text))["performance"]
        commands = [step.get("run", "") for step in job["steps"]] if "steps" in job else job["before_script"]
        installing = [shlex.split(each)[2:] for each in commands if each.startswith("pip install")]
        assert [words[0] for words in installing] == ["tracetui[workloads] @ $INSTALL"]
        assert (job.get("env") or job["variables"])["INSTALL"].startswith("git+https://")


# Keys


async def keys_of_screen(words: list[str], known: str) -> dict[str, list[str]]:
    """The keys of every command of the screen that the app shows for some traces; `known` is a command of it."""
    paths = [str(SAMPLES / word) for word in words]
    a_and_b = (SideName(paths[0], ""), SideName(paths[1], "")) if len(paths) == 2 else None
    app = TraceApp(paths, sides=a_and_b)
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(600):
            found = {each.binding.description: each.keys for each in all_commands(app.screen)}
            if known in found:
                return found
            await pilot.pause(0.05)
    raise AssertionError(f"no screen with {known!r} came up")


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["mlp_train_cpu.json.gz"], "Follow the link"),
        (["mlp_eager_cpu.json.gz", "mlp_compile_cpu.json.gz"], "Swap A and B"),
    ],
    ids=["one trace", "two traces"],
)
@pytest.mark.full
async def test_every_key_is_described(words, known):
    told = {key for span in re.findall(r"`([^`]+)`", TEXTS[ROOT / "docs" / "screen.md"]) for key in span.split()}
    told |= set("123456789")
    commands = await keys_of_screen(words, known)
    assert [title for title, keys in commands.items() if not told & set(keys)] == []


# Pictures and size


TOUR = "tour.svg"
PICTURES = [*runpy.run_path(str(ROOT / "docs" / "pictures.py"))["PICTURES"], TOUR]


def test_every_picture_is_made_and_stands_in_a_document():
    assert sorted(PICTURES) == sorted(path.name for path in (ROOT / "docs").glob("*.svg")) and len(PICTURES) >= 12
    shown = {name for text in TEXTS.values() for name in re.findall(r"\[[^\]]+\]\((?:docs/)?([\w-]+\.svg)\)", text)}
    assert sorted(shown) == sorted(PICTURES)


@pytest.mark.full
def test_the_example_trace_is_the_same_each_time(tmp_path):
    """Pictures differ only where the screen does."""
    for name in ("a", "b"):
        subprocess.run([sys.executable, ROOT / "docs" / "example_trace.py", tmp_path / name], check=True)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    trace = load(str(tmp_path / "a"))
    assert len(steps(trace)) == 4 and len(links(trace).launched) > 300


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_small_and_fetch_nothing(name):
    timeline_index = (ROOT / "docs" / name).read_text()
    # The tour is several screens.
    assert len(timeline_index) < LARGEST_PICTURE * (4 if name == TOUR else 1)
    assert not re.search(r"/tmp/|/home/|/root/|/work/", timeline_index)
    assert re.findall(r"https?://(?!www\.w3\.org/)|url\((?!#)|@import|<script|file:", timeline_index) == []


def test_the_readme_shows_a_gpu_and_says_that_it_is_simulated():
    [(caption, name)] = re.findall(r"^!\[([^\]]+)\]\(docs/(\w+\.svg)\)", TEXTS[ROOT / "README.md"], re.MULTILINE)
    timeline_index = (ROOT / "docs" / name).read_text().replace("&#160;", " ")
    assert "GPU 0 stream 7" in timeline_index and "GPU 0 idle" in timeline_index
    assert "imulated" in caption and "docs/example_trace.py" in TEXTS[ROOT / "README.md"]


def test_the_readme_begins_with_a_checkout():
    installing = TEXTS[ROOT / "README.md"].partition("## Install")[2]
    first = next(blocks_of(installing))
    assert first[0] == "git clone REPOSITORY tracetui && cd tracetui" and "REPOSITORY stands for" in installing


def test_the_readme_is_short():
    assert len(TEXTS[ROOT / "README.md"].splitlines()) <= 130


def test_every_folder_of_the_code_is_on_the_map():
    text = TEXTS[ROOT / "CONTRIBUTING.md"]
    folders = [file.parent for top in ("tracetui", "workloads") for file in (ROOT / top).glob("*/**/__init__.py")]
    assert [name_of(each) for each in folders if f"{each.name}/" not in text] == []


def test_every_promise_names_its_test():
    rows = re.findall(r"^\| (?!promise|-)([^|]+) \| ([^|]*) \|", TEXTS[ROOT / "docs" / "reliability.md"], re.MULTILINE)
    assert len(rows) > 30
    assert [
        promise for promise, test in rows if not re.search(r"`(?:\w+/)*(?:test_\w+\.py|fuzz|monkey\.py)`", test)
    ] == []
