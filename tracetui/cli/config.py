"""Print the settings in force as TOML that can be saved as the file of settings, with where each comes from.

An option comes before the environment (TRACETUI_THEME, NO_COLOR, FORCE_COLOR), that before the file, and the file
before the default. TRACETUI_CONFIG names another file, and none where it is empty. What is wrong in the file is said on
standard error, and the exit code is 2."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tracetui.cli.streams import complain
from tracetui.config import CHOICES, COLORS, Config, config
from tracetui.errors import UsageError
from tracetui.text import clean

HELP = "print the settings in force, and where each comes from"
FORMATS = ("text", "json")
HEADS = {
    "theme": f"one of {', '.join(CHOICES['theme'])}; auto: by the terminal",
    "pane": "what a trace opens with; auto: the overview",
    "color": f"one of {', '.join(COLORS)}",
    "columns": "PANE, or 'PANE by GROUP', and its columns in their order; other panes have their own",
    "keys": "the first of several is the one that is shown",
}
"""What is said of a setting, or of a table of them."""


class Setting(NamedTuple):
    """A setting in force."""

    table: str
    """`columns`, `keys`, or empty."""
    name: str
    value: str | list[str]
    source: str
    """The line of the file, `default`, an option or a variable of the environment."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui config`."""
    parser.add_argument("--format", choices=FORMATS, default="text", help="what to print (default: text)")


def run(options: argparse.Namespace) -> int:
    """Print the settings; the exit code is 2 where the file has others that are wrong."""
    # Keys are declared for Textual, which takes a third of a second to import.
    from tracetui.ui.app import VARIABLE
    from tracetui.ui.base.keys import key_problems

    asked = config()
    settings = list(in_force(asked, *options.color_in_force))
    problems = [*asked.problems, *key_problems()]
    if (theme := os.environ.get(VARIABLE)) and theme not in CHOICES["theme"]:
        problems.append(clean(f"{VARIABLE}: there is no theme {theme!r:.60}. There are {', '.join(CHOICES['theme'])}."))
    if options.format == "json":
        # Loads numpy by way of the columns.
        from tracetui.drawing.text.envelope import json_text

        document = {
            "file": clean(asked.path) or None,
            "settings": [each._asdict() for each in settings],
            "problems": problems,
        }
        sys.stdout.write(json_text("config", document, indented=True))
    else:
        there = "" if os.path.exists(asked.path) else " (there is no such file)"
        print(f"# {clean(asked.path)}{there}" if asked.path else "# no file: TRACETUI_CONFIG is empty")
        print("\n".join(lines(settings)))
    sys.stdout.flush()
    for problem in problems:
        complain(problem)
    return UsageError.exit_code if problems else 0


def in_force(asked: Config, color: str, color_source: str) -> Iterator[Setting]:
    """Every setting that has a value."""
    from tracetui.ui.app import VARIABLE
    from tracetui.ui.base.keys import KEY_NAMES, REFUSED, shown_key

    def line(*names: str) -> str:
        return asked.place(*names).removeprefix(f"{asked.path}, ").rpartition(":")[0]

    for name in CHOICES:
        value, source = asked.word(name), line(name) if name in asked.words else "default"
        if name == "theme" and os.environ.get(VARIABLE) in CHOICES["theme"]:
            value, source = os.environ[VARIABLE], VARIABLE
        if name == "color":
            value, source = color, color_source or source
        yield Setting("", name, value, source)
    for name, columns in asked.columns.items():
        yield Setting("columns", name, list(columns), line("columns", name))
    for name, keys in KEY_NAMES.items():
        is_asked = name in asked.keys and name not in REFUSED
        yield Setting("keys", name, list(map(shown_key, keys)), line("keys", name) if is_asked else "default")


def lines(settings: list[Setting]) -> Iterator[str]:
    """The settings as TOML, each with where it comes from as a remark."""
    for table in dict.fromkeys(("", "columns", "keys")):
        if table:
            yield from ("", f"# {HEADS[table]}", f"[{table}]")
        for each in settings:
            if each.table == table:
                name = each.name if re.fullmatch(r"[\w-]+", each.name, re.ASCII) else json.dumps(each.name)
                said = f"; {HEADS[each.name]}" if not table else ""
                value = json.dumps(each.value, ensure_ascii=False)
                yield clean(f"{name} = {value}  # {each.source}{said}")
