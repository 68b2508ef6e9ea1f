"""What a day with a GPU found, as a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

import numpy as np

from tracetui.errors import TracetuiError
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.reading.load import load

ABSENT = "–"


@dataclass(frozen=True)
class Recording:
    """One recording, and what was looked up in it."""

    command: str
    """The words after `tracetui run`."""
    machine: str
    """What it was made on."""
    lines: Sequence[dict[str, Any]]
    """As `--verify --json` prints them."""
    facts: Sequence[str]
    """Cells of the table of recordings: numbers per step, and the kernels of one step."""
    unprofiled: dict[str, Any] | None = None
    """The time of a step without the profiler, as the recording has it."""
    is_gpu: bool = True
    """Whether it was made on a GPU."""

    @property
    def holds(self) -> bool:
        """Whether the trace shows everything it should."""
        return all(line["holds"] for line in self.lines)


def recording(command: str, about: dict[str, Any], lines: Sequence[dict[str, Any]], path: str) -> Recording:
    """The recording by what `tracetui run --verify --json` printed of it, and its trace."""
    return Recording(command, machine(about), lines, facts(path), about.get("unprofiled"), bool(about.get("gpu")))


def machine(about: dict[str, Any]) -> str:
    """Card and versions, in words."""
    gpu = about.get("gpu")
    if not gpu:
        return f"{about['device']}, torch {about['torch']}"
    return f"{gpu['name']}, driver {about['driver']}, torch {about['torch']}, CUDA {about['cuda']}"


FACTS = ("step, µs", "kernels", "copies", "GPU busy, µs", "GPU span, µs", "occupancy queries", "kernels of one step")


def facts(path: str) -> list[str]:
    """Cells for the columns of `FACTS`: medians over the steps, and names; none where the trace cannot be read."""
    try:
        trace = load(path)
        table = PANES["steps"].build(trace)
        rows = list(table.rows())
        numbers = [
            of_steps([row[name] for row in rows])
            for name in ("dur_us", "kernels", "copies", "gpu_busy_us", "gpu_span_us", "occupancy_queries")
        ]
        return [*numbers, kernel_names(trace, int(str(rows[-1]["step"])) if rows else None)]
    except TracetuiError:
        return [ABSENT] * len(FACTS)


def of_steps(values: Sequence[Any]) -> str:
    """The median of what the steps have."""
    known = [float(value) for value in values if value is not None and not np.isnan(float(value))]
    return f"{median(known):,.1f}".removesuffix(".0") if known else ABSENT


def kernel_names(trace: Trace, step: int | None) -> str:
    """Short names of the kernels and copies of a step in their order, a repeated one once with its number."""
    names = [str(row["short_name"]) for row in PANES["kernels"].build(trace, step).rows()]
    counts = {name: names.count(name) for name in names}
    told = [f"{count} × {name}" if count > 1 else name for name, count in counts.items()]
    return cell(", ".join(told)) or ABSENT


def page(
    verified: Sequence[Recording],
    sampled: Sequence[str],
    measured: Sequence[tuple[str, str]],
    trouble: Sequence[str],
    kernels: str = "",
    day: str = "",
) -> str:
    """The whole page; `measured` are headings with what was printed below them, `day` is today without one."""
    day = day or datetime.now(UTC).strftime("%-d %B %Y")
    machines = sorted({cell(each.machine) for each in verified})
    is_gpu = all(each.is_gpu for each in verified)
    title = "# On a GPU" if is_gpu else "# A trial without a GPU: none of these numbers is one of a GPU"
    parts = [
        title,
        f"Measured on {day} by `make gpu`" + (f", on {'; '.join(machines)}." if machines else "."),
        *([kernels] if kernels else []),
        *section("What the recordings show", [*promises(verified), "", *recordings(verified)] if verified else []),
        *section("Times without the profiler", unprofiled(verified)),
        *(line for heading, text in measured for line in section(heading, text.strip().splitlines())),
        *section("Samples", [f"* `{name}`: {size}" for name, _, size in (line.partition(": ") for line in sampled)]),
        *section("What did not run", [f"* {cell(line)}" for line in trouble]),
    ]
    return "\n\n".join(parts) + "\n"


def section(title: str, lines: Sequence[str]) -> list[str]:
    """A heading and its lines; nothing without lines."""
    return [f"## {title}", "\n".join(lines)] if lines else []


def promises(verified: Sequence[Recording]) -> list[str]:
    """A table of what was wanted and found, line by line."""
    rows = [
        [
            f"`{each.command}`",
            line["expectation"],
            line["wanted"],
            line["found"] or ABSENT,
            "" if line["holds"] else "no",
        ]
        for each in verified
        for line in each.lines
    ]
    return table(["`tracetui run`", "what", "wanted", "found", "as wanted"], rows)


def recordings(verified: Sequence[Recording]) -> list[str]:
    """A table of what ran in a step."""
    return table(["`tracetui run`", *FACTS], [[f"`{each.command}`", *each.facts] for each in verified])


def unprofiled(verified: Sequence[Recording]) -> list[str]:
    """A table of the times of a step without the profiler; nothing where none was measured."""
    rows = [
        [f"`{each.command}`", *map(_time, (each.unprofiled.get(key) for key in ("median_us", "low_us", "high_us")))]
        for each in verified
        if each.unprofiled
    ]
    return table(["`tracetui run`", "median, µs", "from", "to"], rows) if rows else []


def _time(value: float | None) -> str:
    """A time in µs; two runs give a median and no interval."""
    return ABSENT if value is None else f"{value:,.1f}"


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cell(str(each)) for each in line)} |" for line in lines]


def cell(text: str) -> str:
    """Text that breaks neither a line nor a table."""
    return " ".join(text.split()).replace("|", "\\|")
