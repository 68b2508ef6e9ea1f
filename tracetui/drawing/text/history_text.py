"""A folder of traces over time as text: a line of cells and a sentence for each change, or all of it as JSON or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tracetui.comparing.noise import Change
from tracetui.drawing.hues import sparkline
from tracetui.drawing.text.envelope import json_text
from tracetui.drawing.text.export import FORMULA_SIGNS, lines, plain_rows, prose, sentence
from tracetui.history.digest import MODULE_GROUP, STEP_TIME, UNPROFILED
from tracetui.history.series import History, Measure, Run, Series, Shift, listed_names, measure, named
from tracetui.linking.frames import PATH_SEPARATOR
from tracetui.model import columns as col
from tracetui.model.quantities import counted, how_much, quantity, time_scale
from tracetui.model.table import Table, TextKind, texts
from tracetui.text import clean

TREND_CELLS = 40
"""Maximum cells of a line; of more runs several share a cell."""
MIN_TREND_RANGE = 0.1
"""Deviation from the median that fills the height of a line, at least: less is drawn smaller."""
MODULE_CELLS = 56
"""Maximum cells of the whole path of a module."""
SHOWN_COMMIT = 10
"""Characters of a commit in a sentence."""
_WORDS = {
    STEP_TIME: "step time",
    UNPROFILED: "step time, no profiler",
    "gpu_idle_pct": "GPU idle",
    "cpu_ops": "operators",
}
_MEASURE = replace(col.MEASURE, text=TextKind.WORD, width=40, grow=0, is_key=True)
"""Its names are in words here."""


def trend(values: Sequence[float | None], cells: int = TREND_CELLS) -> str:
    """A line of cells for values in order, the median at half height; what differs from it by a tenth fills a line."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if len(values) > cells:
        parts = np.array_split(np.array([np.nan if each is None else each for each in values]), cells)
        return trend([None if np.isnan(each).all() else float(np.nanmedian(each)) for each in parts], cells)
    middle = sorted(known)[(len(known) - 1) // 2]
    if middle <= 0:
        return sparkline(values)
    most = max(MIN_TREND_RANGE, max(abs(value / middle - 1) for value in known))
    return sparkline([None if value is None else 1 + (value / middle - 1) / most for value in values])


LIST_CELLS = 8
"""Cells of the line beside a trace in a list: its own run and those before it."""


def step_time_lines(all_series: Sequence[Series]) -> dict[str, str]:
    """For each trace by path the step times up to its own as a line, its own as text, and by how much it changed it."""
    found: dict[str, str] = {}
    for series in all_series:
        each = measure(series, STEP_TIME)
        marks = {shift.run.path: f" {_signed(shift)}" for shift in each.shifts}
        medians = _by_run(series, each)
        whole = trend(medians, len(medians))
        for index, (run, median) in enumerate(zip(series.runs, medians, strict=True)):
            if median is not None:
                line = whole[max(index + 1 - LIST_CELLS, 0) : index + 1]
                found[run.path] = f"{line:>{LIST_CELLS}} {quantity(median, 'us')}{marks.get(run.path, '')}"
    return found


def name_of(name: str) -> str:
    """A measure in words; of a module with a long path the last two of it, which tell it from others."""
    if name.startswith(MODULE_GROUP) and len(name) > MODULE_CELLS:
        return f"{MODULE_GROUP}… / {PATH_SEPARATOR.join(name.split(PATH_SEPARATOR)[-2:])}"
    return _WORDS.get(name, name.removesuffix("_us").replace("_", " ") if ":" not in name else name)


def change_sentence(shift: Shift) -> str:
    """A change with the run that brought it, its noise, and what moved with it."""
    facts, old = shift.run.digest.facts, shift.previous.digest.facts
    scale = time_scale((shift.before, shift.after))
    values = (
        scale.change(shift.before, shift.after)
        if shift.unit == "us"
        else f"{quantity(shift.before, shift.unit)} → {quantity(shift.after, shift.unit)}"
    )
    # `+` behind a commit stands for changes that were not committed.
    commit = facts.commit[:SHOWN_COMMIT] + "+" * facts.is_dirty
    with_it = [f"commit {commit}"] if facts.commit and facts.commit != old.commit else []
    with_it += [f"torch {old.torch} → {facts.torch}"] if facts.torch and old.torch and facts.torch != old.torch else []
    by = f" ({', '.join(with_it)})" if with_it else ""
    before = f"{counted(shift.runs[0], 'run')} before"
    noise = scale.roughly(shift.noise) if shift.unit == "us" else quantity(shift.noise, shift.unit)
    noise = "" if np.isnan(shift.noise) else f", a further one may differ by {noise}"
    since = "in this run alone" if shift.runs[1] == 1 else f"{counted(shift.runs[1], 'run')} since"
    moved = "; ".join(
        f"{name_of(each.name)} {time_scale((each.before, each.after)).change(each.before, each.after)}"
        for each in shift.moved
    )
    with_moved = f" With it: {moved}." if moved else ""
    amount = how_much(shift.before, shift.after)
    return clean(
        f"{name_of(shift.name)} {values}, {amount}, from {shift.run.name} on{by}: {before}{noise}, {since}.{with_moved}"
    )


def as_text(known: History, wanted: Sequence[str], form: str) -> str:
    """Every series as a table and sentences, in plain columns or as Markdown (`md`), with a line break at its end."""
    is_md = form == "md"
    parts = []
    alone = [series.runs[0].name for series in known.series[1:] if len(series.runs) == 1]
    for series in known.series:
        if series is not known.series[0] and len(series.runs) == 1:
            continue
        measures = [measure(series, name) for name in listed_names(series, wanted)]
        first, last = series.runs[0].name, series.runs[-1].name
        place = f"{first} to {last}" if len(series.runs) > 1 else first
        title = clean(f"{series.title}: {counted(len(series.runs), 'run')}, {place}")
        table = _table(series, measures)
        said = [change_sentence(shift) for each in measures for shift in each.shifts]
        all_shifts = [shift for each in measures for shift in each.shifts]
        if last_shifts := [shift for shift in all_shifts if shift.name == STEP_TIME] or all_shifts:
            previous, run = last_shifts[-1].previous, last_shifts[-1].run
            said.append(clean(f"Compare: tracetui compare {previous.path} {run.path}"))
        if is_md:
            body = "\n".join(lines(table, list(table.columns))) if len(table) else "No rows."
            parts += ["\n\n".join([f"**{prose(title)}**", body, *(sentence(each) for each in said)]) + "\n"]
        else:
            # A measure stands in a sentence, and below the table.
            below = "".join(f"{each}\n" for each in said)
            parts.append(f"{title}\n{plain_rows(table, 'history', None, True)}{below and chr(10)}{below}")
    left_out = [f"{named(alone)} not shown: like no other run.", *known.left_out] if alone else known.left_out
    parts += ["".join(f"{prose(each) if is_md else each}\n" for each in left_out)] if left_out else []
    return "\n".join(parts)


def as_json(known: History, wanted: Sequence[str]) -> str:
    """Every series with its runs, the median of each measure in each run, and the changes."""
    document = {
        "folder": clean(known.folder),
        "series": [_series(series, wanted) for series in known.series],
        "left_out": list(known.left_out),
    }
    return json_text("history", document)


def as_csv(known: History, wanted: Sequence[str]) -> str:
    """A row for each measure of each run."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["series", "file", "began", "commit", "measure", "unit", "median", "level", "is_change"])
    for number, series in enumerate(known.series, 1):
        for each in (measure(series, name) for name in listed_names(series, wanted)):
            for level in each.levels:
                for row in range(level.first, level.end):
                    run = series.runs[int(each.values.run[row])]
                    is_change = row == level.first and row > 0
                    name = f"'{run.name}" if run.name.startswith(FORMULA_SIGNS) else run.name
                    median = round(float(each.values.median[row]), 6)
                    writer.writerow(
                        [number, name, _began(run), run.digest.facts.commit, each.name, each.unit, median]
                        + [round(level.median, 6), int(is_change)]
                    )
    return out.getvalue()


def _table(series: Series, measures: Sequence[Measure]) -> Table:
    medians = [_by_run(series, each) for each in measures]
    known = [[value for value in each if value is not None] for each in medians]
    return Table(
        (
            texts(_MEASURE, [clean(name_of(each.name)) for each in measures]),
            texts(col.TREND, [trend(each) for each in medians]),
            texts(col.FIRST_VALUE, [quantity(row[0], each.unit) for row, each in zip(known, measures, strict=True)]),
            texts(col.LAST_VALUE, [quantity(row[-1], each.unit) for row, each in zip(known, measures, strict=True)]),
            texts(col.CHANGES, [_changes(each) for each in measures]),
        )
    )


def _by_run(series: Series, each: Measure) -> list[float | None]:
    medians: list[float | None] = [None] * len(series.runs)
    for run, median in zip(each.values.run.tolist(), each.values.median.tolist(), strict=True):
        medians[run] = median
    return medians


def _changes(each: Measure) -> str:
    """The changes of a measure in a cell; without one, whether the last run is within noise."""
    if each.shifts:
        marks = [f"{_signed(shift)} {shift.run.name}" for shift in each.shifts[-2:]]
        return clean(", ".join([*(["..."] if len(each.shifts) > 2 else []), *marks]))
    noise = each.levels[-1].noise if each.levels else float("nan")
    if np.isnan(noise):
        return f"cannot tell: {counted(len(each.values), 'run')}"
    middle = abs(each.levels[-1].median)
    width = f" within noise, {100 * noise / middle:,.2g} %" if middle and noise else ""
    return f"{'same' if each.last is Change.SAME else 'cannot tell'}{width}"


def _signed(shift: Shift) -> str:
    if shift.before <= 0 or shift.after > 10 * shift.before:
        return f"→ {quantity(shift.after, shift.unit)}"
    return f"{100 * (shift.after / shift.before - 1):+,.3g} %".replace("-", "−")


def _began(run: Run) -> str:
    return datetime.fromtimestamp(run.moment_ns / 1e9, UTC).isoformat(timespec="seconds")


def _series(series: Series, wanted: Sequence[str]) -> dict[str, Any]:
    facts = series.runs[-1].digest.facts
    names = ("program", "device", "stepped", "world_size", "rank")
    return {
        "title": clean(series.title),
        **{name: getattr(facts, name) for name in names},
        "runs": [
            {
                "file": clean(run.path),
                "began": _began(run),
                "is_time_of_file": not run.digest.facts.began_ns,
                "commit": run.digest.facts.commit or None,
                "is_dirty": run.digest.facts.is_dirty,
                "steps": run.digest.facts.steps,
                "view": run.digest.facts.view or None,
            }
            for run in series.runs
        ],
        "measures": [_measure(series, measure(series, name)) for name in listed_names(series, wanted)],
    }


def _measure(series: Series, each: Measure) -> dict[str, Any]:
    ends = [int(each.values.run[level.first]) for level in each.levels]
    return {
        "measure": clean(each.name),
        "unit": each.unit,
        "medians": [None if value is None else round(value, 6) for value in _by_run(series, each)],
        "levels": [
            {"first_run": first, "median": round(level.median, 6), "noise": _number(level.noise)}
            for first, level in zip(ends, each.levels, strict=True)
        ],
        "changes": [
            {
                "file": clean(shift.run.path),
                "view": shift.run.digest.facts.view or None,
                "run": first,
                "before": round(shift.before, 6),
                "after": round(shift.after, 6),
                "ratio": round(shift.after / shift.before, 6) if shift.before else None,
                "noise": _number(shift.noise),
                "runs_before": shift.runs[0],
                "runs_since": shift.runs[1],
                "previous_file": clean(shift.previous.path),
                "moved": [{"measure": one.name, "before": one.before, "after": one.after} for one in shift.moved],
                "sentence": change_sentence(shift),
            }
            for first, shift in zip(ends[1:], each.shifts, strict=True)
        ],
        "last_run": each.last.value,
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 6)
