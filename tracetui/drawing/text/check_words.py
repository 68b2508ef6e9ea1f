"""What a check found and wanted, in words: `44.7 %`, `< 10 %`, `1.62 ms`."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.checking.report import CheckReport
from tracetui.checking.values import Amount, Piece
from tracetui.checking.verdict import CheckOutcome, Leaf, Status
from tracetui.drawing.format import shorten
from tracetui.model.quantities import ABSENT, MAX_DIGITS, adapted, significant
from tracetui.safe_text import clean

LONGEST = 200
"""Characters of a text out of a trace."""
DIGITS = 4
"""Significant digits of a number at least; more where two that differ would otherwise look the same."""
WORDS = {
    Status.HOLDS: "ok",
    Status.FAILS: "FAIL",
    Status.MISSING: "missing",
    Status.UNDECIDED: "cannot tell",
    Status.ERROR: "ERROR",
}
"""What each status is called in a line."""
_LABELS = {"µs": "us", "μs": "us", "B": "bytes", "FLOP": "flop"}
"""Other names of the units that adapt."""


def told(outcome: CheckOutcome) -> str:
    """What was found and wanted, as one line."""
    compound = len(outcome.leaves) > 1 or outcome.is_compound
    said = [_leaf(leaf, compound) for leaf in outcome.leaves if leaf.found or not outcome.why]
    return clean("; ".join([*filter(None, said), *([outcome.why] if outcome.why else [])]))


def found_text(outcome: CheckOutcome) -> str:
    """What was found, without what was wanted."""
    texts = [_found(leaf) if leaf.found else ABSENT for leaf in outcome.leaves]
    return clean("; ".join(texts)) or ABSENT


def wanted_text(outcome: CheckOutcome) -> str:
    """What was wanted."""
    return clean("; ".join(_pair(leaf)[1] for leaf in outcome.leaves)) or ABSENT


def closing(report: CheckReport) -> str:
    """How many of the assertions hold, in words."""
    total, held = len(report.outcomes), report.count(Status.HOLDS)
    counts = [(report.count(status), status) for status in Status if status != Status.HOLDS]
    words = {
        Status.FAILS: "fails" if counts[0][0] == 1 else "fail",
        Status.MISSING: "missing",
        Status.ERROR: "ended in an error",
    }
    parts = [f"{number} {words.get(status, 'cannot be told')}" for number, status in counts if number]
    end = f": {', '.join(parts)}" if parts else ""
    return f"{held} of {total} {'holds' if held == total == 1 else 'hold'}{end}"


def amount(value: Amount, digits: int = DIGITS) -> str:
    """A number with its unit and so many significant digits, whole numbers in full."""
    number, unit = adapted(value.value, _LABELS.get(value.unit.label, value.unit.label))
    return f"{significant(number, digits)} {unit}".rstrip()


def _leaf(leaf: Leaf, among_others: bool) -> str:
    found, wanted = _found(leaf), _pair(leaf)[1]
    words = f"found {found or ABSENT}, wanted {wanted}" if wanted else f"found {found}"
    return f"{leaf.text}: {words}" if among_others else words


def _found(leaf: Leaf) -> str:
    """What was found, with the rows to blame for it."""
    rows = leaf.blamed.text
    return f"{_pair(leaf)[0]} ({shorten(clean(rows), LONGEST)})" if rows else _pair(leaf)[0]


def _pair(leaf: Leaf) -> tuple[str, str]:
    """Found and wanted with as many digits as it takes to tell them apart."""
    wanted = leaf.wanted[1:] if leaf.wanted[:1] == ("==",) else leaf.wanted
    figures = [[piece for piece in side if isinstance(piece, Amount)] for side in (leaf.found, leaf.wanted)]
    texts = ("", "")
    for digits in range(DIGITS, MAX_DIGITS + 2):
        texts = _text(leaf.found, digits), _text(wanted, digits)
        same = [a.value != b.value and amount(a, digits) == amount(b, digits) for a in figures[0] for b in figures[1]]
        if not any(same):
            break
    return texts


def _text(pieces: Sequence[Piece], digits: int) -> str:
    words = [amount(piece, digits) if isinstance(piece, Amount) else shorten(clean(piece), LONGEST) for piece in pieces]
    return " ".join(words).replace(" )", ")").replace(" ,", ",")
