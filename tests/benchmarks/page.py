"""The tables of `docs/performance.md`, written between two marks of the page."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import FIGURES, Results, reading, size_words
from tests.benchmarks.growth import exponent
from tests.benchmarks.peers import PEERS
from tests.benchmarks.runs import best

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
HEADINGS = ("figure", "goal", "measured", "reached")
PEER_HEADINGS = ("program", "CPU", "on the clock", "peak", "tracetui is faster (CPU)", "events", "GPU activities")
WHAT = {
    "tracetui": "usable",
    "orjson": "`orjson.loads`, no garbage collector",
    **{peer.name: peer.what for peer in PEERS},
}
"""What is measured of each program."""


def machine() -> dict[str, Any]:
    """What the times depend on."""
    return {
        "cpu": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("numpy", "orjson", "textual")},
        "load": os.getloadavg()[0],
    }


def processor() -> str:
    """The model of the CPU, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown CPU"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else "unknown CPU"


def occasion_words(results: Results) -> str:
    """When, how often and on which machine the benchmarks ran, in sentences."""
    occasions = {name: measured["occasion"] for name, measured in results.items()}
    names_of: dict[tuple[str, int], list[str]] = {}
    for name, occasion in occasions.items():
        names_of.setdefault((occasion["day"], occasion["rounds"]), []).append(name)
    dates = [
        f"{day} in {rounds} rounds" + ("" if len(names_of) == 1 else f" ({', '.join(names)})")
        for (day, rounds), names in names_of.items()
    ]
    facts = list(occasions.values())[-1]["machine"]
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    loads = [occasion["machine"]["load"] for occasion in occasions.values()]
    return (
        f"Measured on {', '.join(dates)}: {facts['cpu']}, {facts['cores']} cores; {facts['system']}, Python "
        f"{facts['python']}, {packages}. Load average before each benchmark: {min(loads):.1f} to {max(loads):.1f}."
    )


def markdown_table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown; bars in cells are escaped."""
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure_rows(results: Results) -> list[list[str]]:
    """Title, goal, what was measured, and whether that reaches it."""
    rows = []
    for figure in FIGURES:
        came_to = reading(figure, results)
        if came_to is None:
            rows.append([figure.title, figure.goal, "not measured", "–"])
            continue
        word = {True: "yes", False: "**no**", None: "–"}[came_to.is_reached]
        rows.append([figure.title, figure.goal, came_to.text, word])
    return rows


def peer_rows(measured: Mapping[str, Any]) -> list[list[str]]:
    """Every program at one size, tracetui first; those that are missing below, with the reason."""
    ours = measured["sides"]["tracetui"]
    rows = []
    for name, side in measured["sides"].items():
        activities = "not asked" if side["activities"] is None else f"{side['activities']:,}"
        faster = "" if name == "tracetui" else f"{best(side, 'cpu') / best(ours, 'cpu'):.1f} times"
        times = [f"{best(side, 'cpu'):.2f} s", f"{best(side, 'wall'):.2f} s", f"{best(side, 'peak') / 1e6:,.0f} MB"]
        rows.append([f"{name} ({WHAT[name]})", *times, faster, f"{side['events']:,}", activities])
    return rows


def differences(measured: Mapping[str, Any]) -> str:
    """A sentence on how many GPU activities the programs found."""
    ours = measured["sides"]["tracetui"]["activities"]
    others = {name: side["activities"] for name, side in measured["sides"].items() if side["activities"] is not None}
    unequal = [f"{name} {number:,}" for name, number in others.items() if number != ours]
    if unequal:
        return f"Not all found the same {ours:,} GPU activities: {', '.join(unequal)}."
    return f"All {len(others)} that were asked found the same {ours:,} GPU activities."


def peer_section(measured: Mapping[str, Any]) -> str:
    """The programs at one size: a table, what they found, which were missing."""
    missing = [f"* {name} was not measured: {' '.join(reason.split())}" for name, reason in measured["missing"].items()]
    return "\n\n".join(
        [
            f"Loading {size_words(measured['bytes'])}, the best of all rounds:",
            markdown_table(PEER_HEADINGS, peer_rows(measured)),
            differences(measured),
            *(["\n".join(missing)] if missing else []),
        ]
    )


def growth_section(measured: Mapping[str, Any]) -> str:
    """CPU seconds of everything at each size, and the power of the size that they grow with."""
    rows = []
    for name, seconds in measured["seconds"].items():
        power = exponent(measured["bytes"], seconds)
        rows.append([name, *(f"{each:.3f} s" for each in seconds), "–" if power is None else f"{power:.2f}"])
    power = exponent(measured["ranks"], measured["rank_seconds"])
    ranks = ", ".join(
        f"{count} in {each:.2f} s" for count, each in zip(measured["ranks"], measured["rank_seconds"], strict=True)
    )
    return "\n\n".join(
        [
            "CPU time by size, each pane of a trace of which nothing else was asked, each command as a whole process:",
            markdown_table(("what", *map(size_words, measured["bytes"]), "grows with size to the"), rows),
            f"Ranks: {ranks}, which grows with their number to the {0 if power is None else power:.2f}.",
        ]
    )


def measured_region(results: Results) -> str:
    """What stands between the marks."""
    parts = [
        occasion_words(results),
        markdown_table(HEADINGS, figure_rows(results)),
    ]
    if "loading" in results:
        parts += [peer_section(results["loading"][size]) for size in ("middle", "large")]
    if "growth" in results:
        parts.append(growth_section(results["growth"]))
    return "\n\n".join(parts)


def with_region(page: str, region: str) -> str:
    """The page with another region between its marks.

    Raises: ValueError for a page without the two marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{region}\n\n{END}{after}"


def region_of(page: str) -> str:
    """What stands between the marks of a page."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def write_page(path: Path, results: Results) -> None:
    """Write the tables into the page.

    Raises: ValueError for a page without marks.
    """
    path.write_text(with_region(path.read_text(), measured_region(results)))
    print(f"wrote {path}", file=sys.stderr)
