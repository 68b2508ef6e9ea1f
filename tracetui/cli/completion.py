"""Completion in bash, zsh and fish: a short script for each shell, and the candidates that it asks `tracetui` for.

`tracetui --complete SHELL WORDS` prints one a line, behind a tab what it does; first, but for fish, `paths` or `words`:
paths are quoted as file names. A shell evaluates nothing of it. Names of files with control characters are left out.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tracetui.config import COLORS
from tracetui.opening.rank_folder import FILE_SUFFIXES
from tracetui.panes import PANE_FILES, PANES, columns_of

BASH = """\
_tracetui() {
    local kind= line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("${line%%$'\\t'*}"); fi
    done < <(command tracetui --complete bash "$2" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    if [[ $kind == paths ]]; then compopt -o filenames 2>/dev/null; fi
}
complete -F _tracetui tracetui"""
ZSH = """\
#compdef tracetui
_tracetui() {
    local -a lines values shown folders
    local line
    lines=("${(@f)$(command tracetui --complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in "${(@)lines[2,-1]}"; do
        if [[ $line == */ ]]; then
            folders+=("$line")
        else
            values+=("${line%%$'\\t'*}")
            shown+=("${line/$'\\t'/  -- }")
        fi
    done
    if [[ $lines[1] == paths ]]; then
        compadd -f -S '' -a folders
        compadd -f -a values
    else
        compadd -l -d shown -a values
    fi
}
compdef _tracetui tracetui"""
FISH = """\
function __tracetui_candidates
    set -l words (commandline -opc)
    set -e words[1]
    command tracetui --complete fish $words (commandline -ct) 2>/dev/null
end
complete -c tracetui -f -a '(__tracetui_candidates)'"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
"""The script for each shell."""

MAX_SECONDS = 0.2
"""Maximum seconds for reading a folder or the steps of a trace."""
_STEP = re.compile(rb"ProfilerStep#(\d+)")
_STEP_BYTES = 64
"""Bytes that the name of a step does not exceed."""
OTHER_COLUMNS = {"ranks": "ranks.rank_tables", "compare": "comparing.change_rows"}
"""The file with the columns of commands whose tables are no panes."""


class PrintCompletion(argparse.Action):
    """Prints a completion script and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(
            option_strings,
            argparse.SUPPRESS,
            choices=tuple(SCRIPTS),
            help='print a completion script for your shell, for example: eval "$(tracetui --print-completion bash)"',
        )

    def __call__(self, parser: argparse.ArgumentParser, *values: Any) -> None:
        """Print the script for the shell that was named."""
        print(SCRIPTS[str(values[1])])
        parser.exit()


class Candidate(NamedTuple):
    """A candidate for a word."""

    text: str
    help: str = ""
    is_path: bool = False


def print_candidates(shell: str, words: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Print the candidates for the last of some words; bash sends what it takes for it, and the line to the cursor."""
    taken = ""
    if shell == "bash" and len(words) > 1:
        word, words = words[0].lstrip("'\""), _words(words[1])[1:]
        # bash takes a word apart at = and :, and replaces what is behind them.
        taken = words[-1].removesuffix(word) if words and words[-1].endswith(word) else ""
    elif shell == "fish" and words:
        words = [*words[:-1], *_words(words[-1])]
    found = [each for each in candidates(words, parser) if each.text.isprintable()] if words else []
    if shell != "fish":
        print("paths" if any(each.is_path for each in found) else "words")
    for each in found:
        text = each.text.rstrip("/") if shell == "bash" and each.is_path else each.text
        print(text.removeprefix(taken) + (f"\t{each.help}" if each.help else ""))


def _words(line: str) -> list[str]:
    """The words of a line that may end within quotes, the last one empty behind a space."""
    for closing in ("", "'", '"'):
        try:
            *words, last = shlex.split(f"{line}\0{closing}")
        except ValueError:
            continue
        return [*words, last.removesuffix("\0")]
    return []


def candidates(words: Sequence[str], parser: argparse.ArgumentParser) -> list[Candidate]:
    """Candidates for the last of some words behind `tracetui`, in order."""
    *before, current = words
    commands = next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    helps = {each.dest: str(each.help) for each in commands._choices_actions}
    while before and before[0].startswith("-"):
        before = before[2 if before[0] == "--color" else 1 :]
    if list(words[-2:-1]) == ["--color"]:
        return [Candidate(each) for each in COLORS if each.startswith(current)]
    if not before and current.startswith("-"):
        return _options(parser, current)
    if not before or (before[0] == "help" and len(before) == 1):
        traces = [] if before else [Candidate("help", "print what a command does"), *_paths(current, FILE_SUFFIXES)]
        named = [Candidate(name, text) for name, text in helps.items() if name.startswith(current)]
        return [*named, *(each for each in traces if each.text.startswith(current))]
    name = before[0] if before[0] in helps else "open"
    command = commands.choices[name]
    action, given = _expected(command, before[name == before[0] :], current)
    option, sign, value = current.partition("=")
    if action is None and current.startswith("-") and not sign:
        return _options(command, current)
    head = f"{option}=" if action is None and sign else ""
    action = command._option_string_actions.get(option) if head else action
    if action is None:
        return []
    found = _values(action, value if head else current, {"command": name, **given})
    return [each._replace(text=head + each.text) for each in found]


def _options(parser: argparse.ArgumentParser, current: str) -> list[Candidate]:
    shown = [action for action in parser._actions if action.help is not argparse.SUPPRESS]
    pairs = ((option, action.help or "") for action in shown for option in action.option_strings)
    return [Candidate(option, text % {"default": ""}) for option, text in pairs if option.startswith(current)]


def _expected(
    command: argparse.ArgumentParser, before: Sequence[str], current: str
) -> tuple[argparse.Action | None, dict[str, str]]:
    """The argument that the current word is a value of, None for an option, and the values that stand before it."""
    places = [action for action in command._actions if not action.option_strings]
    given: dict[str, str] = {}
    pending: argparse.Action | None = None
    index = 0
    for word in before:
        option = command._option_string_actions.get(word)
        if option is not None:
            pending = option if option.nargs != 0 else None
        elif pending is not None:
            given[pending.dest] = word
            pending = pending if pending.nargs in ("*", "+") else None
        elif not word.startswith("-") or word == "-":
            given.setdefault(places[min(index, len(places) - 1)].dest, word) if places else None
            index += 1
    if pending is not None or current.startswith("-") or not places:
        return pending, given
    is_over = index >= len(places) and places[-1].nargs not in ("*", "+")
    return (None if is_over else places[min(index, len(places) - 1)]), given


def _values(action: argparse.Action, current: str, given: Mapping[str, str]) -> list[Candidate]:
    """The values of an argument that begin with a text; `given` are those of other arguments on the line."""
    if action.metavar == "A,B,C":
        head, comma, current = current.rpartition(",")
    else:
        head, comma = "", ""
    make = _KINDS.get(str(action.metavar)) or _KINDS.get(action.dest)
    if action.choices is not None:
        found: Iterator[Candidate] = map(Candidate, map(str, action.choices))
    elif make is not None:
        found = make(current, given)
    elif getattr(action, "complete", None):
        found = _paths(current)
    else:
        return []
    return [each._replace(text=f"{head}{comma}{each.text}") for each in found if each.text.startswith(current)]


def _paths(current: str, suffixes: tuple[str, ...] = ("",)) -> Iterator[Candidate]:
    """Folders and the files with one of some suffixes that begin as a path does."""
    folder, name = os.path.split(current)
    ends = time.monotonic() + MAX_SECONDS
    try:
        entries = os.scandir(os.path.expanduser(folder) or ".")
    except OSError:
        return
    with entries:
        for entry in entries:
            if entry.name.startswith(name) and not (entry.name.startswith(".") and not name):
                path = os.path.join(folder, entry.name)
                if entry.is_dir():
                    yield Candidate(f"{path}/", is_path=True)
                elif entry.name.endswith(suffixes):
                    yield Candidate(path, is_path=True)
            if time.monotonic() > ends:
                return


def _columns(current: str, given: Mapping[str, str]) -> Iterator[Candidate]:
    file = OTHER_COLUMNS.get(given["command"]) or PANE_FILES.get(given.get("pane", ""))
    column, colon, _ = current.partition(":")
    return map(Candidate, [f"{column}:asc", f"{column}:desc"] if colon else columns_of(file) if file else [])


def _groups(_: str, given: Mapping[str, str]) -> Iterator[Candidate]:
    # Loads numpy: which groupings a pane has is known to its file alone.
    pane = given.get("pane", "")
    return map(Candidate, PANES[pane].groups if pane in PANES else ())


def _steps(_: str, given: Mapping[str, str]) -> Iterator[Candidate]:
    path = given.get("trace") or given.get("traces") or ""
    return map(Candidate, step_numbers(path))


def step_numbers(path: str) -> list[str]:
    """The numbers of the profiler's steps in a file; none where it is no file or takes too long to read."""
    # These are for this alone.
    import gzip
    import zlib

    import zstandard

    if not os.path.isfile(path):
        return []
    found: set[bytes] = set()
    ends, tail = time.monotonic() + MAX_SECONDS, b""
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
            file.seek(0)
            stream: Any = file
            if magic[:2] == b"\x1f\x8b":
                stream = gzip.GzipFile(fileobj=file)
            elif magic == b"\x28\xb5\x2f\xfd":
                stream = zstandard.ZstdDecompressor().stream_reader(file)
            while block := stream.read(2**18):
                found.update(_STEP.findall(tail + block))
                tail = block[-_STEP_BYTES:]
                if time.monotonic() > ends:
                    return []
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        # A file that is cut off has steps, too.
        pass
    return [str(number) for number in sorted({int(each) for each in found if len(each) < 10})]


def _demos(_: str, __: Mapping[str, str]) -> Iterator[Candidate]:
    # What is simulated is for this and its own command.
    from tracetui.demo.catalogue import DEMOS

    return map(Candidate, DEMOS)


def _workloads(current: str, _: Mapping[str, str]) -> Iterator[Candidate]:
    # The programs are for this and their own commands.
    from tracetui_workloads.registry import BUILT_IN

    yield from map(Candidate, BUILT_IN)
    yield from _paths(current, (".py",))


_KINDS: dict[str, Callable[[str, Mapping[str, str]], Iterator[Candidate]]] = {
    "TRACE": lambda current, _: _paths(current, FILE_SUFFIXES),
    "COL": _columns,
    "A,B,C": _columns,
    "FILTER": _columns,
    "GROUP": _groups,
    "WORKLOAD": _workloads,
    "step": _steps,
    "steps": _steps,
    "names": _demos,
}
"""What completes an argument, by the word that stands for its value, or by its name."""
