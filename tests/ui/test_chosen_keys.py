"""Keys that the settings choose: which are refused, and that hints, help and tabs have no others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import ROOT, SAMPLES
from tests.support.waiting import PROCESS_SECONDS
from tracetui.config import CHOICES, TABLES
from tracetui.ui.base.keys import FIXED, KEY_NAMES, chosen_keys, key_name, shown_key


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("?", "question_mark"),
        ("[", "left_square_bracket"),
        ("+", "plus"),
        ("J", "J"),
        ("é", "é"),
        ("↓", "down"),
        ("esc", "escape"),
        ("full_stop", "full_stop"),
        ("ctrl+x", "ctrl+x"),
        ("alt+1", "alt+1"),
        ("ctrl+↓", "ctrl+down"),
        ("f5", "f5"),
        ("F5", ""),
        ("cltr+x", ""),
        ("ctrl+", ""),
        ("gg", ""),
        ("", ""),
        ("\x1b", ""),
    ],
)
def test_keys_have_the_names_that_the_help_shows(text: str, name: str) -> None:
    assert key_name(text) == name


def test_the_keys_in_force_can_be_saved() -> None:
    assert chosen_keys(KEY_NAMES, {each: list(map(shown_key, names)) for each, names in KEY_NAMES.items()}) == (
        KEY_NAMES,
        {},
    )


def test_keys_can_change_places() -> None:
    names, refused = chosen_keys(KEY_NAMES, {"pin": ["x"], "measure": ["p"], "down": ["↓", "j", "j"]})
    assert refused == {}
    assert (names["pin"], names["measure"], names["down"]) == (("x",), ("p",), ("down", "j"))


@pytest.mark.parametrize(
    ("wanted", "refused", "said"),
    [
        ({"pinn": ["f2"]}, "pinn", "pin"),
        ({"pin": ["F2"]}, "pin", "f2"),
        ({"escape": ["f2"]}, "escape", "keeps"),
        ({"pin": ["ctrl+c"]}, "pin", "quit_anywhere"),
        ({"pin": ["x"]}, "pin", "measure"),
        ({"pin": ["f2"], "measure": ["f2"]}, "measure", "pin"),
        ({"pin": ["3"]}, "pin", "tab_3"),
        ({"tab_M": ["pin"]}, "tab_M", "pin"),
    ],
)
def test_what_cannot_be_is_refused_and_keeps_its_key(wanted: dict[str, list[str]], refused: str, said: str) -> None:
    names, why = chosen_keys(KEY_NAMES, wanted)
    assert list(why) == [refused] and said in why[refused]
    assert names.get(refused) == KEY_NAMES.get(refused)


@given(
    st.dictionaries(
        st.sampled_from([*KEY_NAMES, "nothing"]),
        st.lists(st.sampled_from(["j", "x", "p", "3", "f2", "esc", "ctrl+c", "?", "odd"]), min_size=1, max_size=2),
    )
)
def test_no_key_ever_means_two_things_and_nothing_is_without_one(wanted: dict[str, list[str]]) -> None:
    names, why = chosen_keys(KEY_NAMES, wanted)
    keys = [key for each in names.values() for key in each]
    assert len(keys) == len(set(keys)) and all(names.values()) and set(names) == set(KEY_NAMES)
    assert all(names[each] == KEY_NAMES[each] for each in FIXED)
    assert set(why) <= set(wanted)


SCRIPT = """
import asyncio, json, sys
from tests.support.waiting import until
from tracetui.ui.app import TraceApp
from tracetui.ui.widgets.picker import help_rows

async def main():
    app = TraceApp([sys.argv[1]])
    async with app.run_test(size=(140, 40)) as pilot:
        await until(pilot, lambda: hasattr(app.screen, "view") and app.screen.view.panes.table is not None)
        view, hints = app.screen.view, app.screen.query_one("#hints")
        seen = {"pane": view.panes.pane, "columns": view.panes.view.shown_columns, "step": view.step}
        seen["hints"] = hints.text
        await pilot.press("f2")
        seen["next"] = view.step
        await pilot.press("right_square_bracket")
        seen["old"], seen["notice"] = view.step, hints.text
        await pilot.press("f7")
        seen["tab"], seen["tabs"] = view.panes.pane, view.panes._bar.text
        seen["help"] = [row[0] for row in help_rows(app.screen, None)]
        seen["said"] = [each.message for each in app._notifications]
    print(json.dumps(seen))

asyncio.run(main())
"""


@pytest.mark.full
def test_a_chosen_key_works_and_stands_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        'pane = "ops"\n[columns]\nops = ["calls", "name"]\n'
        '[keys]\nnext_step = "f2"\ntab_M = "f7"\nsteps_by = ["f9"]\nhelp = "f1"\npin = "x"\n'
    )
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(SAMPLES / "mlp_train_cpu.json.gz")],
        cwd=ROOT,
        env={**os.environ, "TRACETUI_CONFIG": str(file)},
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
        check=True,
    )
    seen = json.loads(result.stdout)
    assert (seen["pane"], seen["columns"]) == ("ops", ["calls", "name"])
    assert seen["next"] == seen["old"] == seen["step"] + 1
    assert "[ f2 step" in seen["hints"] and "f1 help" in seen["hints"]
    assert "f1 lists the keys" in seen["notice"]
    assert seen["tab"] == "memory" and "f7 memory" in seen["tabs"]
    keys = [key for keys in seen["help"] for key in keys.split()]
    assert {"f2", "f1", "f7", "p"} <= set(keys) and not {"]", "?", "M"} & set(keys)
    [said] = seen["said"]
    assert "line 9" in said and "measure" in said


def test_the_document_lists_every_id_with_its_keys() -> None:
    from tracetui.ui.base import keys

    text = (ROOT / "docs" / "config.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (`.+?`) \| ", text.partition("## Keys")[2], re.MULTILINE))
    single = {each: names for each, names in KEY_NAMES.items() if not each.startswith("tab_")}
    assert rows == {each: " ".join(f"`{keys.shown_key(name)}`" for name in names) for each, names in single.items()}
    assert set(re.findall(r"`(tab_\w)`", text)) == {each for each in KEY_NAMES if each.startswith("tab_")}
    assert all(f"| `{name}` |" in text for name in CHOICES) and all(f"`[{name}]`" in text for name in TABLES)
