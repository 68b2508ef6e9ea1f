"""The user's settings, `config.toml`: what the file says, and a sentence about everything in it that is wrong.

What is wrong costs that setting alone, and no command fails for it. An option comes before the environment, that before
the file, and the file before the default. Ids and names of keys are checked where keys are declared.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from tracetui.errors import nearest
from tracetui.frozen import frozen
from tracetui.panes import PANE_FILES, PANE_GROUPS, declared_columns
from tracetui.text import clean

VARIABLE = "TRACETUI_CONFIG"
"""The variable of the environment that names another file; empty for none."""
MAX_CONFIG_BYTES = 2**18
"""Maximum size of the file."""
THEME_NAMES = ("dark", "light", "ansi-dark", "ansi-light")
"""The themes of the app, by the names that users have for them."""
COLORS = ("auto", "always", "never")
"""When output is coloured."""
CHOICES = {
    "theme": ("auto", *THEME_NAMES),
    "pane": ("auto", *(name for names in PANE_GROUPS.values() for name in names)),
    "color": COLORS,
}
"""The values of each setting that is a word, the default first."""
TABLES = ("columns", "keys")
"""The tables of settings, of which each is a word or a list of words."""


@frozen(eq=True)
class Config:
    """The settings of a file, without those that are wrong."""

    path: str
    """The file, whether it exists or not; empty where none is to be read."""
    words: Mapping[str, str] = field(default_factory=dict)
    """The settings of `CHOICES` that the file has."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns of lists in their order, by pane, or `PANE by GROUP`."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys by the id of what they do, not checked yet."""
    problems: tuple[str, ...] = ()
    """A sentence for each setting that is wrong."""
    text: str = field(default="", repr=False)

    def word(self, name: str) -> str:
        """A setting that is a word."""
        return self.words.get(name, CHOICES[name][0])

    def columns_of(self, pane: str, by: str | None = None) -> tuple[str, ...]:
        """The columns of a list, none where the file does not say."""
        return self.columns.get(pane if by is None else f"{pane} by {by}", ())

    def place(self, *names: str) -> str:
        """File and line of a setting; without the line where it is not in a line of its own."""
        section = re.search(rf"^\s*\[\s*{re.escape(names[0])}\s*\]", self.text, re.MULTILINE) if names[1:] else None
        key = re.compile(rf"^\s*[\"']?{re.escape(names[-1])}[\"']?\s*=", re.MULTILINE)
        found = key.search(self.text, section.end() if section else 0)
        if found is None:
            return f"{self.path}: {'.'.join(names)}"
        line = self.text.count("\n", 0, found.end()) + 1
        return f"{self.path}, line {line}: {'.'.join(names)}"


def config() -> Config:
    """The settings of the user's file, which is read once."""
    path = os.environ.get(VARIABLE)
    if path is None:
        # Some milliseconds of import.
        from platformdirs import user_config_path

        path = str(user_config_path("tracetui", appauthor=False) / "config.toml")
    return _read(path, VARIABLE in os.environ)


@cache
def _read(path: str, is_named: bool) -> Config:
    if not path or not (is_named or os.path.lexists(path)):
        return Config(path)
    # Most users have no file, and every command asks for the settings.
    import tomllib

    shown = clean(path)
    try:
        if not os.path.isfile(path):
            return Config(path, problems=(f"{shown} is no file: no setting is taken from it.",))
        with Path(path).open("rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
        if len(data) > MAX_CONFIG_BYTES:
            return Config(path, problems=(f"{shown} is larger than {MAX_CONFIG_BYTES:,} bytes: it is not read.",))
        text = data.decode("utf-8-sig")
        document = tomllib.loads(text)
    except OSError as error:
        return Config(path, problems=(f"{shown} cannot be read: {error.strerror}.",))
    except UnicodeDecodeError as error:
        return Config(path, problems=(f"{shown} is no text in UTF-8 (byte {error.start:,}).",))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        why = clean(str(error)) if isinstance(error, tomllib.TOMLDecodeError) else "it is nested too deeply"
        return Config(path, problems=(f"{shown} is no TOML: {why}.",))
    return _checked(Config(path, text=text), document)


def _checked(empty: Config, document: Mapping[str, Any]) -> Config:
    words, tables = dict[str, str](), {name: dict[str, tuple[str, ...]]() for name in TABLES}
    problems = []

    def refuse(why: str, *names: str) -> None:
        problems.append(clean(f"{empty.place(*names)}: {why}"))

    for name, value in document.items():
        if name in CHOICES:
            if value in CHOICES[name]:
                words[name] = value
            else:
                offer = nearest(str(value)[:60], CHOICES[name], f"There are {', '.join(CHOICES[name])}.")
                refuse(f"there is no {name} {value!r:.60}. {offer}", name)
        elif name not in TABLES:
            refuse(f"there is no such setting. {nearest(name[:60], (*CHOICES, *TABLES))}", name)
        elif not isinstance(value, dict):
            refuse(f"this is a table: write [{name}], and its settings below.", name)
        else:
            for each, listed in value.items():
                chosen = [listed] if isinstance(listed, str) else listed
                if not (isinstance(chosen, list) and chosen and all(isinstance(one, str) for one in chosen)):
                    refuse(f"a word or a list of words is expected, not {listed!r:.60}.", name, each)
                elif why := _wrong_columns(each, chosen) if name == "columns" else "":
                    refuse(why, name, each)
                else:
                    tables[name][each] = tuple(dict.fromkeys(chosen))
    return Config(empty.path, words, tables["columns"], tables["keys"], tuple(problems), empty.text)


def _wrong_columns(pane: str, columns: list[str]) -> str:
    """A sentence on what is wrong with columns of a pane; empty where nothing is."""
    name, known = pane.partition(" by ")[0], declared_columns().values()
    if name not in PANE_FILES:
        return f"there is no pane {name!r:.60}. {nearest(name[:60], PANE_FILES)}"
    odd = next((each for each in columns if known and each not in known), None)
    return "" if odd is None else f"there is no column {odd!r:.60}. {nearest(odd[:60], known)}".rstrip()
