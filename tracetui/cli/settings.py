"""`tracetui cache` and `tracetui config`: what is kept on this machine, and the settings in force."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from tracetui.cli.arguments import Command, completes_files
from tracetui.cli.streams import complain, remark
from tracetui.config import CHOICES, COLORS, Config, config
from tracetui.errors import UsageError
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui.opening.kept_traces import KeptTrace

CACHE_DESCRIPTION = """\
List the large traces that are kept in the cache, so that they open again at once, or clear it.

A trace of 20 MB or more, unpacked, is kept when it is read. It is read anew when its file has changed, and after an
update of tracetui. The cache holds at most 10 GiB, or what the environment variable TRACETUI_CACHE_SIZE says (`20GB`,
`500MB`; `0` for no cache); what was not opened for the longest goes first. What `tracetui ranks` keeps of the traces of
ranks, at most 2 GiB more, and `tracetui history` of every trace, at most 256 MiB, is counted below the list."""

FORMATS = ("text", "json")


def add_cache_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui cache`."""
    clear = parser.add_argument("--clear", nargs="*", metavar="TRACE", help="remove these traces from it, or all")
    completes_files(clear)
    parser.add_argument("--format", choices=FORMATS, default="text", help="how the list is printed (default: text)")


def run_cache(options: argparse.Namespace) -> int:
    """Print the list, or clear the cache."""
    # These load numpy, which `--help` must not wait for.
    from tracetui.history.digest import KEPT
    from tracetui.model.quantities import size
    from tracetui.opening.cache_folder import is_wanted, max_cache_bytes, misread_size, why_unusable
    from tracetui.opening.kept_traces import clear_cache, kept_entries
    from tracetui.opening.rank_reading import clear_summaries

    if misread := misread_size():
        remark(f"{clean(misread)}: the cache holds at most {size(max_cache_bytes())}.")
    if options.clear is not None:
        entries, removed = clear_cache(options.clear)
        summaries, more = clear_summaries(options.clear)
        digests, yet_more = clear_summaries(options.clear, KEPT)
        also = f" and {_counted(summaries, 'summary', 'summaries')} of ranks" if summaries else ""
        also += f" and {_counted(digests, 'digest', 'digests')}" if digests else ""
        bytes_ = size(removed + more + yet_more)
        remark(f"removed {_counted(entries, 'trace', 'traces')}{also}, {bytes_}")
        if options.clear and not entries + summaries + digests:
            remark(f"the cache holds nothing of {clean(', '.join(options.clear))}.")
    if is_wanted() and (trouble := why_unusable()):
        remark(f"Nothing can be kept, every trace is read anew: {clean(trouble)}.")
    if options.clear is None or options.format == "json":
        kept = kept_entries()
        if options.format == "json":
            sys.stdout.write(_document(kept))
        else:
            print("\n".join(_lines(kept)))
    return 0


def _lines(kept: list[KeptTrace]) -> list[str]:
    """One line per trace, then the total and the folder."""
    from tracetui.history.digest import KEPT
    from tracetui.model.quantities import size
    from tracetui.opening.cache_folder import DIGESTS, SUMMARIES, cache_path, max_cache_bytes
    from tracetui.opening.rank_reading import summaries_kept

    now = time.time()
    cells = []
    for each in kept:
        name = "(damaged)" if each.path is None else clean(each.path)
        if each.path is not None and not each.is_current:
            name += "  (changed or gone since, or read by another release)"
        cells.append((size(each.bytes), f"{age(now - each.used)} ago", name))
    widths = [max((len(row[column]) for row in cells), default=0) for column in (0, 1)]
    lines = [f"{bytes_:>{widths[0]}}  {used:<{widths[1]}}  {name}" for bytes_, used, name in cells]
    total = sum(each.bytes for each in kept)
    limit = max_cache_bytes()
    room = f"{size(total)} of {size(limit)}" if limit else "the cache is off (TRACETUI_CACHE_SIZE)"
    lines.append(f"{_counted(len(kept), 'trace', 'traces')}, {room}, in {clean(str(cache_path()))}")
    summaries, used = summaries_kept()
    if summaries:
        room = f"{size(used)} of {size(max_cache_bytes(SUMMARIES))}"
        lines.append(
            f"{_counted(summaries, 'summary', 'summaries')} of ranks, {room}, in {clean(str(cache_path(SUMMARIES)))}"
        )
    digests, used = summaries_kept(KEPT)
    if digests:
        room = f"{size(used)} of {size(max_cache_bytes(DIGESTS))}, in {clean(str(cache_path(DIGESTS)))}"
        lines.append(f"{_counted(digests, 'digest', 'digests')} for history, {room}")
    return lines


class KeptDocument(TypedDict):
    """A trace in the cache, null for a damaged entry, and seconds since it was opened last."""

    path: str | None
    bytes: int
    age_s: float
    current: bool


class SummariesDocument(TypedDict):
    folder: str
    count: int
    bytes: int
    max_bytes: int


class CacheDocument(TypedDict):
    folder: str
    bytes: int
    max_bytes: int
    traces: list[KeptDocument]
    rank_summaries: SummariesDocument
    digests: SummariesDocument


def _document(kept: list[KeptTrace]) -> str:
    """The list for a script."""
    from tracetui.drawing.text.envelope import json_text
    from tracetui.history.digest import KEPT
    from tracetui.opening.cache_folder import DIGESTS, SUMMARIES, cache_path, max_cache_bytes
    from tracetui.opening.rank_reading import summaries_kept

    now = time.time()
    digests, digest_bytes = summaries_kept(KEPT)
    summaries, used = summaries_kept()
    traces: list[KeptDocument] = [
        {
            "path": None if each.path is None else clean(each.path),
            "bytes": each.bytes,
            "age_s": round(max(now - each.used, 0.0), 3),
            "current": each.is_current,
        }
        for each in kept
    ]
    document: CacheDocument = {
        "folder": clean(str(cache_path())),
        "bytes": sum(each.bytes for each in kept),
        "max_bytes": max_cache_bytes(),
        "traces": traces,
        "rank_summaries": {
            "folder": clean(str(cache_path(SUMMARIES))),
            "count": summaries,
            "bytes": used,
            "max_bytes": max_cache_bytes(SUMMARIES),
        },
        "digests": {
            "folder": clean(str(cache_path(DIGESTS))),
            "count": digests,
            "bytes": digest_bytes,
            "max_bytes": max_cache_bytes(DIGESTS),
        },
    }
    return json_text("cache", document, indented=True)


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def age(seconds: float) -> str:
    """A time in the one unit that suits it: `5 min`."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


CONFIG_DESCRIPTION = """\
Print the settings in force as TOML that can be saved as the file of settings, with where each comes from.

An option comes before the environment (TRACETUI_THEME, NO_COLOR, FORCE_COLOR), that before the file, and the file
before the default. TRACETUI_CONFIG names another file, and none where it is empty. What is wrong in the file is said on
standard error, and the exit code is 2."""

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


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui config`."""
    parser.add_argument("--format", choices=FORMATS, default="text", help="what to print (default: text)")


def run_config(options: argparse.Namespace) -> int:
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
    # `cache`, and what takes the age of a file from here, do without.
    import json

    for table in dict.fromkeys(("", "columns", "keys")):
        if table:
            yield from ("", f"# {HEADS[table]}", f"[{table}]")
        for each in settings:
            if each.table == table:
                name = each.name if re.fullmatch(r"[\w-]+", each.name, re.ASCII) else json.dumps(each.name)
                said = f"; {HEADS[each.name]}" if not table else ""
                value = json.dumps(each.value, ensure_ascii=False)
                yield clean(f"{name} = {value}  # {each.source}{said}")


COMMANDS = {
    "cache": Command(
        "list the traces that open again at once, and clear the cache",
        CACHE_DESCRIPTION,
        add_cache_arguments,
        run_cache,
    ),
    "config": Command(
        "print the settings in force, and where each comes from", CONFIG_DESCRIPTION, add_config_arguments, run_config
    ),
}
