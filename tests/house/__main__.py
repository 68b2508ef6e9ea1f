"""`make house`: figures of the code held against `house.toml`, where each may only fall.

    python -m tests.house            prints the figures; exit code 1 where one is above its budget
    python -m tests.house --write    lowers budgets to what was measured, and adds those of new folders; raises none
    python -m tests.house --write --moved    budgets of folders follow the files, while their sums do not rise
    python -m tests.house --fast     without what runs the app and the commands, which takes most of the time
    python -m tests.house --list tracetui/idle    only names the short functions below a path

A budget is raised by hand in `house.toml`, on purpose, and the commit says why. Figures that need the shared traces are
left out where these are not at hand. What the figures are stands in `source` and `running`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.house import source
from tests.support.paths import ROOT

BUDGET = ROOT / "house.toml"
HEADER = """\
# Figures of the code that may only fall: `make house` measures, `python -m tests.house --write` lowers what fell.
# Raise one by hand, with the reason in the commit. Words and names are looked for because they stand here: add one by
# hand, with 0 or what is left of it.
"""
Budgets = dict[str, dict[str, Any]]
"""By section and name a number, or several by their names."""


def measure(words: dict[str, int], names: dict[str, int], *, runs: bool) -> Budgets:
    """Every figure, in the sections of the file."""
    from tracetui.panes import PANES

    code = source.read_sources(ROOT, *source.CODE)
    folders = source.folder_figures(ROOT, *source.CODE, "tests")
    in_words, as_names = source.word_counts(code, words, names)
    figures: Budgets = {
        "sums": _sums(folders),
        "code": source.code_figures(code, list(PANES)),
        "folders": folders,
        "words": {word: in_words[word] for word in words},
        "names": {name: as_names[name] for name in names},
    }
    if runs:
        # It loads the app.
        from tests.house.running import running_figures

        figures["runs"] = running_figures()
    return figures


def _sums(folders: Budgets) -> Budgets:
    tools = "tests tools"
    parts = {
        "code": [each for each in folders if each.startswith(("tracetui", "workloads"))],
        "tests": [each for each in folders if each.startswith("tests") and each != tools],
        tools: [each for each in folders if each == tools],
    }
    return {name: source.summed([folders[each] for each in these]) for name, these in parts.items()}


def flat(figures: Budgets) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each number with the names that lead to it."""
    for section, entries in figures.items():
        for name, value in entries.items():
            if isinstance(value, dict):
                yield from (((section, name, key), number) for key, number in value.items())
            else:
                yield (section, name), value


def excesses(figures: Budgets, budgets: Budgets) -> list[str]:
    """A sentence for every figure above its budget, or without one."""
    allowed = dict(flat(budgets))
    sentences = []
    for names, number in flat(figures):
        what = ": ".join(names[:2]) + (f": {names[2]}" if len(names) > 2 else "")
        if names not in allowed:
            sentences.append(f"{what} is {number:,} and has no budget: python -m tests.house --write adds it.")
        elif number > allowed[names]:
            sentences.append(
                f"{what} is {number:,}, {number - allowed[names]:,} above its budget of {allowed[names]:,}: bring it "
                "down, or raise the budget in house.toml and say why in the commit."
            )
    return sentences


def lowered(figures: Budgets, budgets: Budgets, *, moved: bool = False) -> Budgets:
    """The budgets at the figures where these are lower; what was not measured is kept, folders that are gone are not.

    With `moved`, folders are at their figures whatever they were, where no sum is above its budget.
    """
    allowed = dict(flat(budgets))
    follows = moved and not excesses({"sums": figures["sums"]}, budgets)
    result: Budgets = {section: dict(entries) for section, entries in budgets.items() if section not in figures}
    for section, entries in figures.items():
        kept = dict(budgets.get(section, {})) if section == "runs" else {}
        result[section] = kept
        for name, value in entries.items():
            if isinstance(value, dict):
                kept[name] = {
                    key: number
                    if follows and section == "folders"
                    else min(number, allowed.get((section, name, key), number))
                    for key, number in value.items()
                }
            else:
                kept[name] = min(value, allowed.get((section, name), value))
    return result


def as_toml(budgets: Budgets) -> str:
    """The file."""
    lines = [HEADER]
    for section in ("sums", "code", "runs", "folders", "words", "names"):
        lines.append(f"[{section}]")
        for name, value in sorted(budgets.get(section, {}).items()):
            text = value
            if isinstance(value, dict):
                text = "{ " + ", ".join(f"{key} = {number}" for key, number in value.items()) + " }"
            key = name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name)
            lines.append(f"{key} = {text}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _print(figures: Budgets, budgets: Budgets) -> None:
    allowed = dict(flat(budgets))
    for section, entries in figures.items():
        print(f"{section}")
        for name, value in entries.items():
            if isinstance(value, dict):
                cells = [f"{key} {_beside(n, allowed.get((section, name, key)))}" for key, n in value.items()]
                print(f"  {name:<45} {'  '.join(cells)}")
            else:
                print(f"  {name:<45} {_beside(value, allowed.get((section, name)))}")


def _beside(number: int, budget: int | None) -> str:
    return f"{number:,}" if number == budget else f"{number:,} (budget {'none' if budget is None else f'{budget:,}'})"


def main(words: Sequence[str] | None = None, path: Path = BUDGET) -> int:
    """Measure, print, and compare or write; exit code 1 where a figure is above its budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="lower the budgets to what was measured")
    parser.add_argument("--moved", action="store_true", help="folders follow the files, where sums do not rise")
    parser.add_argument("--fast", action="store_true", help="run nothing: figures of the source code alone")
    parser.add_argument("--list", metavar="PATH", help="name the short functions below a path, and measure nothing")
    options = parser.parse_args(words)
    if options.list is not None:
        print("\n".join(source.short_functions(source.read_sources(ROOT, *source.CODE), options.list)))
        return 0
    budgets = tomllib.loads(path.read_text())
    figures = measure(budgets["words"], budgets["names"], runs=not options.fast)
    _print(figures, budgets)
    if not options.fast and not figures["runs"]:
        print("What runs by keys and commands was not measured: ../shared/traces is not at hand.")
    if options.write:
        budgets = lowered(figures, budgets, moved=options.moved)
        path.write_text(as_toml(budgets))
    sentences = excesses(figures, budgets)
    print("\n".join(["", *sentences] if sentences else ["", "No figure is above its budget."]))
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
