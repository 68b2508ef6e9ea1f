"""The whole trace in one line: how busy it was, where the steps are, and which stretch the lanes show."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.linking.steps import steps
from tracetui.drawing.format import duration
from tracetui.drawing.raster import Picture
from tracetui.drawing.report.blocks import Stretch
from tracetui.drawing.report.words import text
from tracetui.drawing.window import Window

WIDTH, HEIGHT, COLUMNS = 1140, 44, 380
MOST_STEPS = 200


def overview(picture: Picture, start_ns: int, end_ns: int) -> str:
    """The busy share over the trace as SVG, with the stretch between two moments marked."""
    low, high = picture.trace.window
    if high <= low:
        return ""
    share = picture.gpu_busy(Window.over(low, high - low, COLUMNS), COLUMNS)
    what = "GPU" if picture.has_gpu else "CPU"
    bottom = HEIGHT - 12
    each = WIDTH / COLUMNS
    points = "".join(f"H{i * each:.1f}V{bottom - (bottom - 2) * y:.1f}" for i, y in enumerate(share.tolist()))
    stretch = Stretch(low, high, WIDTH)
    left, right = stretch.place(np.array([start_ns, end_ns])).tolist()
    title = f"How busy the {what} was over the whole trace, {duration(high - low)}"
    return (
        f'<figure class="overview"><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(title)}">{_seen("seen", left, right, bottom)}'
        f'<path class="busy" d="M0 {bottom}{points}H{WIDTH}V{bottom}Z"/>{_seen("frame", left, right, bottom)}'
        f"{_steps(picture, stretch)}</svg><figcaption>{text(title)}; the band is what the lanes below show."
        f"</figcaption></figure>"
    )


def _seen(style: str, left: float, right: float, bottom: int) -> str:
    """The stretch that the lanes show: a ground below what was busy, and a frame above it."""
    left, right = max(left, 1.0), min(max(right, left + 3), WIDTH - 1)
    return f'<rect class="{style}" x="{left:.1f}" y="1" width="{right - left:.1f}" height="{bottom}"/>'


def _steps(picture: Picture, stretch: Stretch) -> str:
    """A line under each step; every other one thicker, so that neighbours are told apart."""
    found = steps(picture.trace)
    if not 0 < len(found) <= MOST_STEPS:
        return ""
    left, right = stretch.place(found.start).tolist(), stretch.place(found.end).tolist()
    return "".join(
        f'<rect class="step" x="{a:.1f}" y="{HEIGHT - 9}" width="{max(b - a - 1, 1):.1f}" height="{3 + 3 * (i % 2)}">'
        f"<title>step {number}, {duration(int(end - start))}</title></rect>"
        for i, (a, b, number, start, end) in enumerate(
            zip(left, right, found.number.tolist(), found.start.tolist(), found.end.tolist(), strict=True)
        )
    )
