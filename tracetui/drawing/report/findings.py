"""Findings as a list: weight, title, evidence, advice, and where in the app to look."""

from __future__ import annotations

from shlex import quote

from tracetui.drawing.format import clean, duration
from tracetui.drawing.report.words import text
from tracetui.model.table import Table

_WEIGHTS = {"major": "▲▲▲", "minor": "▲▲", "note": "▲"}


def findings_html(table: Table, label: str) -> str:
    """The findings as an ordered list; nothing for an empty table."""
    items = []
    for row in table.rows():
        severity = str(row["severity"])
        cost = row["cost_us"]
        took = (
            f'<span class="cost">{duration(1000 * float(cost))}</span>'
            if isinstance(cost, int | float) and cost
            else ""
        )
        jump = f'<p class="jump">tracetui {text(quote(label))} --at {text(str(row["jump"]))}</p>' if row["jump"] else ""
        weight = f'<span class="weight {text(severity)}">{_WEIGHTS.get(severity, "")} {text(severity)}</span>'
        items.append(
            f'<li id="{text(str(row["id"]))}"><h3>{weight} {text(clean(str(row["title"])))} {took}</h3>'
            f'<p>{text(str(row["evidence"]))}</p><p class="advice">{text(str(row["advice"]))}</p>{jump}</li>'
        )
    return f'<ol class="findings">{"".join(items)}</ol>' if items else ""
