"""List the workloads that `tracetui run` can record, and whether they run on this machine.

With a name, print its parameters, variants, lesson and sources."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from tracetui.cli.arguments import Command
from tracetui.cli.expectations import lesson_lines
from tracetui.errors import UsageError
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui_workloads.api import Workload
    from tracetui_workloads.registry import Entry

HERE = "runs here"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui workloads`."""
    parser.add_argument("name", nargs="?", metavar="WORKLOAD", help="only this one, with its parameters")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print the list, or one workload.

    Raises: UsageError for a workload that does not exist.
    """
    # Loads dataclasses and, for packages that register workloads, importlib.metadata.
    from tracetui_workloads.registry import entries

    rows = entries()
    if options.name is not None:
        rows = [row for row in rows if row.name == options.name.replace("-", "_")] or [
            row for row in rows if row.name == options.name
        ]
        if not rows:
            names = ", ".join(row.name for row in entries())
            raise UsageError(f"There is no workload {options.name}; there are {names}.")
    if options.json:
        # Loads orjson, which `--help` must not wait for.
        from tracetui.drawing.text.envelope import json_text

        sys.stdout.write(json_text("workloads", WorkloadsDocument(workloads=[*map(document, rows)]), indented=True))
    elif options.name is not None:
        print("\n".join(described(rows[0])))
    else:
        print("\n".join(listed(rows)))
    return 0


def listed(rows: list[Entry]) -> list[str]:
    """One line per workload: name, whether it runs here, summary; cut to the width of the terminal."""
    cells = [(clean(row.name), clean(row.reason) or HERE, summary_of(row)) for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in (0, 1)]
    lines = [f"{name:<{widths[0]}}  {here:<{widths[1]}}  {summary}".rstrip() for name, here, summary in cells]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return [line[:width] for line in lines]


def described(row: Entry) -> list[str]:
    """One workload with its parameters, variants and sources."""
    lines = [f"{clean(row.name)}: {summary_of(row)}", clean(row.reason) or HERE]
    if row.workload is None:
        return lines
    lines += ["", "parameters:"] if row.workload.params else []
    for param in row.workload.params:
        choices = f" ({', '.join(map(str, param.choices))})" if param.choices else ""
        lines.append(clean(f"  --{param.name.replace('_', '-')} {param.default}  {param.help}{choices}"))
    lines += ["", "variants for --compare:", *(f"  {line}" for line in variant_lines(row.name))]
    lines += ["", "lesson:", *(f"  {line}" for line in lesson_lines(row.workload, 2))] if row.workload.lesson else []
    lines += ["", "sources:", *(f"  {clean(source)}" for source in row.workload.see)] if row.workload.see else []
    return lines


def variant_lines(name: str) -> list[str]:
    """The named variants of a workload, each with its options."""
    variants = variants_as_words(name)
    width = max(map(len, variants))
    return [clean(f"{variant:<{width}}  {words}".rstrip()) for variant, words in variants.items()]


def variants_as_words(name: str) -> dict[str, str]:
    """The arguments of `tracetui run` for each variant."""
    from tracetui_workloads.recording.launcher import variants_of

    return {variant: " ".join(_words(name, changes)) for variant, changes in variants_of(name).items()}


class ParameterDocument(TypedDict):
    """A parameter of a workload, and the values that it takes where these are few."""

    name: str
    default: int | float | str | bool
    help: str
    choices: list[int | float | str | bool]


class WorkloadDocument(TypedDict):
    """A workload; `reason` says why it does not run here, `variants` has the arguments of each."""

    name: str
    summary: str | None
    source: str
    runs_here: bool
    reason: str | None
    parameters: list[ParameterDocument]
    variants: dict[str, str]
    dtype: str | None
    lesson: str | None
    see: list[str]


class WorkloadsDocument(TypedDict):
    workloads: list[WorkloadDocument]


def document(row: Entry) -> WorkloadDocument:
    """One workload as JSON for a script."""
    return {
        "name": row.name,
        "summary": row.workload.summary if row.workload else None,
        "source": row.source or "tracetui",
        "runs_here": not row.reason,
        "reason": row.reason or None,
        "parameters": parameters_of(row.workload) if row.workload else [],
        "variants": variants_as_words(row.name) if row.workload else {},
        "dtype": row.workload.dtype if row.workload else None,
        "lesson": " ".join(row.workload.lesson.split()) if row.workload else None,
        "see": list(row.workload.see) if row.workload else [],
    }


def parameters_of(workload: Workload) -> list[ParameterDocument]:
    """The parameters of a workload as JSON for a script."""
    return [
        {"name": param.name, "default": param.default, "help": param.help, "choices": list(param.choices)}
        for param in workload.params
    ]


def summary_of(row: Entry) -> str:
    """The summary of a workload, or its distribution where it could not be loaded."""
    return clean(row.workload.summary) if row.workload else f"from {clean(row.source)}"


def _words(name: str, changes: Mapping[str, Any]) -> Iterator[str]:
    """The workload, and the options and parameters that differ."""
    from tracetui_workloads.recording.protocol import OPTIONS
    from tracetui_workloads.registry import find

    workload = str(changes.get("workload", name))
    own = {param.name for param in find(workload).params}
    yield workload
    for key, value in changes.items():
        if key == "workload" or value is False:
            continue
        # Attention has a parameter with the name of an option.
        is_option = key in OPTIONS and key not in own
        flag = f"--{key.replace('_', '-')}"
        yield (flag if value is True else f"{flag} {value}") if is_option else f"-p {key}={value}"


COMMANDS = {
    "workloads": Command("list the workloads, and whether they run on this machine", __doc__, add_arguments, run)
}
