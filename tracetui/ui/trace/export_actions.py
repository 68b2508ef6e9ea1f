"""Copying rows and view strings of a trace, and writing its panes to files; each says where it went."""

from __future__ import annotations

from textual.app import App

from tracetui.errors import TracetuiError
from tracetui.files import numbered
from tracetui.model.quantities import count
from tracetui.model.time_range import TimeRange
from tracetui.model.trace import Trace
from tracetui.ui.base.exports import (
    MARKDOWN_ROWS,
    ExportNotice,
    copy_out,
    export_path,
    exports_folder,
    home_path,
    reason,
    save,
    stem,
)
from tracetui.ui.trace.pane_list import PaneList


def send_row(app: App[object], panes: PaneList) -> ExportNotice:
    """Copy the current row of a list as Markdown."""
    row = panes.view.row
    if row < 0:
        return "There is no row to copy.", True
    return copy_out(app, panes.as_text("md", row), "row.md", "The row")


def send_view(app: App[object], text: str) -> ExportNotice:
    """Copy a view string."""
    return copy_out(app, text, "view.txt", f"{text}")


def export_pane(panes: PaneList, trace: Trace) -> ExportNotice:
    """Write the listed rows of a pane to a CSV file, and the first of them as Markdown beside it."""
    rows = len(panes.view.order)
    if panes.table is None or rows == 0:
        return "There is nothing to export in this pane.", True
    part = panes.listed_part
    which = "all" if part is None else f"range{part.text}" if isinstance(part, TimeRange) else f"step{part}"
    by = f"-by-{panes.arrangement.by}" if panes.arrangement.by else ""
    name = f"{stem(trace.label)}-{panes.pane}{by}-{which}"
    try:
        path = save(panes.as_text("csv"), f"{name}.csv")
        save(panes.as_text("md", most=MARKDOWN_ROWS), f"{path.stem}.md")
    except OSError as error:
        return f"The pane could not be written to {home_path(exports_folder())}: {reason(error)}.", True
    first = f"the first {MARKDOWN_ROWS} " if rows > MARKDOWN_ROWS else ""
    return f"{count(rows)} row{'' if rows == 1 else 's'} written to {home_path(path)}, {first}beside it as .md", False


def write_range(trace: Trace, time_range: TimeRange) -> ExportNotice:
    """Write what is open in a range of time as a trace among the exports, where no file is replaced."""
    # What writes traces is needed only once one is written.
    from tracetui.writing.formats import part_of, suffix_of
    from tracetui.writing.output import output
    from tracetui.writing.selection import Wanted

    name = f"{stem(trace.label)}-{time_range.text}{suffix_of(trace)}.gz"
    try:
        path = next(free for free in numbered(export_path(name)) if not free.exists())
        cut = part_of(trace, Wanted(window=(float(time_range.start), float(time_range.end))))
        with output(str(path)) as sink:
            kept = cut.write(sink)
    except TracetuiError as error:
        return f"The range could not be written: {error}", True
    except OSError as error:
        return f"The range could not be written to {home_path(exports_folder())}: {reason(error)}.", True
    return f"{count(kept.events)} of {count(trace.events)} events written to {home_path(path)}", False
