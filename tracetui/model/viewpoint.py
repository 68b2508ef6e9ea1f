"""A viewpoint on a trace: the selection, its step and pane, and the stretch of time on screen.

Jumping back, marks and view strings all keep viewpoints. As text a viewpoint is a *view string* such as
`s3/kernels/e1234@12.5us+250us`: step 3, the pane, event 1234 of the file, and the window's start and length.
Every part may be left out; `all` instead of `s3` lists the rows of every step, `k42` instead of `e1234` means the
42nd kernel of the step, and `g1234` the gap before event 1234, in which its device ran nothing. `by=forward` in front
says that the runs of `forward` are the steps; in such a name `%2F` stands for `/`, and likewise for what else has a
meaning here. `range=12us+250us` is a range of time whose rows are listed, or with `s3` or `all` one that is only shown.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.model.intervals import TIME, UNITS, TimeRange, microseconds, read_time_range


@frozen(eq=True)
class Viewpoint:
    """The selection, step, pane and window of the screen; a field of None or -1 stays as it is on a visit."""

    step: int | None = None
    """Number of the step whose rows are listed."""
    pane: str | None = None
    event: int = -1
    """Number of the selected event in the file."""
    kernel: int = -1
    """Number of the selected kernel within the step, from 1; only in view strings written by hand."""
    start_ns: float | None = None
    length_ns: float | None = None
    every_step: bool = False
    """True where the rows of all steps are listed."""
    steps_by: str = ""
    """Name of the steps; empty for the steps of the profiler."""
    is_gap: bool = False
    """True where the gap before that event is selected, and not the event itself."""
    time_range: TimeRange | None = None
    """A range of time; its rows are listed unless `step` or `every_step` says otherwise."""
    part: str = ""
    """Part of the screen that has the focus, where a jump leads to another part; never in a view string."""

    @property
    def lists_range(self) -> bool:
        """True where the rows of the range are listed, and not those of a step or of all steps."""
        return self.time_range is not None and self.step is None and not self.every_step


ALL = "all"
"""Stands for every step."""
_BY = "by="
_RANGE = "range="
_PLAIN = "#:()[],.<>*+-_="
"""Characters that stand for themselves in a name, beside letters and digits."""
_WINDOW = re.compile(rf"{TIME}(?:\+{TIME})?\Z")


def view_string(viewpoint: Viewpoint) -> str:
    """The viewpoint as text that `--at` opens again."""
    parts = [_BY + quote(viewpoint.steps_by, safe=_PLAIN)] if viewpoint.steps_by else []
    if viewpoint.every_step:
        parts.append(ALL)
    elif viewpoint.step is not None:
        parts.append(f"s{viewpoint.step}")
    if viewpoint.time_range is not None:
        parts.append(_RANGE + viewpoint.time_range.text)
    if viewpoint.pane:
        parts.append(viewpoint.pane)
    if viewpoint.event >= 0:
        parts.append(f"{'g' if viewpoint.is_gap else 'e'}{viewpoint.event}")
    text = "/".join(parts)
    if viewpoint.start_ns is None:
        return text
    text += f"@{microseconds(viewpoint.start_ns)}us"
    return text if viewpoint.length_ns is None else f"{text}+{microseconds(viewpoint.length_ns)}us"


def read_view_string(text: str) -> Viewpoint:
    """The viewpoint that a view string names.

    Raises: UsageError when it cannot be understood.
    """
    where, _, when = text.strip().partition("@")
    start, length = read_window(text, when) if when else (None, None)
    step: int | None = None
    pane: str | None = None
    event = kernel = -1
    every_step = is_gap = False
    steps_by = ""
    time_range: TimeRange | None = None
    for part in filter(None, where.split("/")):
        numbered = re.fullmatch(r"([segk])(\d{1,18})", part)
        if part == ALL:
            every_step = True
        elif part.startswith(_BY):
            steps_by = unquote(part.removeprefix(_BY))
        elif part.startswith(_RANGE):
            time_range = read_time_range(part.removeprefix(_RANGE))
        elif numbered is None and part.isalpha():
            pane = part
        elif numbered is None:
            raise UsageError(
                f"the view {text!r} has a part {part!r}; expected s3, e120, g120, k42, by=NAME, "
                "range=12us+250us or a pane's name"
            )
        elif numbered[1] == "s":
            step = int(numbered[2])
        elif numbered[1] in "eg":
            event, is_gap = int(numbered[2]), numbered[1] == "g"
        else:
            kernel = int(numbered[2])
    return Viewpoint(step, pane, event, kernel, start, length, every_step, steps_by, is_gap, time_range)


def read_window(text: str, when: str) -> tuple[float, float | None]:
    """Start and length in ns of `12.5us+250us`; `text` is the view string around it.

    Raises: UsageError when it is no time.
    """
    match = _WINDOW.match(when)
    if match is None:
        raise UsageError(f"the view {text!r} has no time after @ such as 12.5us or 1.2ms+250us")
    start = float(match[1]) * UNITS[match[2]]
    return start, float(match[3]) * UNITS[match[4]] if match[3] else None
