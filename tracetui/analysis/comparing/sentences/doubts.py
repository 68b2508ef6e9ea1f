"""What health doubts of a trace where that touches the numbers of a side: sentences beside its times.

What other sentences say already is left out: files that were not read to their end, Python frames on one side alone,
and work without a launch record, which belongs to no step and is placed in runs by its own start.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.comparing.sides.side import STEP, Side
from tracetui.analysis.comparing.sides.traits import traits
from tracetui.analysis.health.checks import Check, Severity
from tracetui.analysis.health.health_table import doubtful, doubts
from tracetui.analysis.linking.placement import partial_steps
from tracetui.analysis.linking.steps import steps

USED = frozenset(("kernels", "kernels.dur_us", "ops.self_cpu_us", "ops.cpu_total_us"))
"""Columns of other panes that hold what is compared."""
OF_STEPS = frozenset(("steps.kernels", "steps.dur_us", "steps.gpu_busy_us", "steps.gpu_idle_us"))
"""Likewise, where the parts are steps."""
CAUSES = "gaps.cause"
"""Told of what is wrong, and not of what is merely rough."""
WHOLE = "steps"
"""A check that touches all of this pane is about a file of which a part is missing."""
FRAMES = "ops.self_cpu_us"
"""What Python frames touch."""
CUT = "steps.dur_us"
"""What steps touch that the profiler cut."""


def doubts_told(a: Side, b: Side, severity: Severity, names: tuple[str, str] = ("A", "B")) -> Iterator[str]:
    """A sentence for each doubt of this severity, which says of which side it is, how often, and what it does."""
    mine = [list(_of(a, b, severity)), list(_of(b, a, severity))]
    for check in dict.fromkeys([*mine[0], *mine[1]]):
        held = [place for place in (0, 1) if check in mine[place]]
        counts = dict.fromkeys(_count((a, b)[place], check) for place in held)
        whose = " and ".join(names[place] for place in held)
        yield f"Doubtful in {whose}, as health says: {check.name} ({' and '.join(counts)}). {check.effect}"


def _of(side: Side, other: Side, severity: Severity) -> Iterator[Check]:
    for check in doubtful(side.trace):
        if check.severity == severity and _touches(check, side) and not _is_elsewhere(check, side, other):
            yield check


def _touches(check: Check, side: Side) -> bool:
    used = USED | OF_STEPS if side.sort == STEP else USED
    used |= {CAUSES} if check.severity == Severity.WRONG else set()
    return WHOLE not in check.touches and not used.isdisjoint(check.touches)


def _is_elsewhere(check: Check, side: Side, other: Side) -> bool:
    """Whether other sentences say it, or what it found is in none of the parts."""
    if check.severity == Severity.DOUBT and FRAMES in check.touches and traits(side).frames != traits(other).frames:
        return True
    if CUT in check.touches:
        cut = steps(side.trace).row[partial_steps(side.trace)]
        return not np.isin(side.row, cut).any()
    doubt = doubts(side.trace)[check.name]
    if doubt is None or doubt.count != 1 or doubt.row < 0:
        return False
    return bool(side.part_of(np.array([doubt.row]))[0] < 0)


def _count(side: Side, check: Check) -> str:
    doubt = doubts(side.trace)[check.name]
    if doubt is None:
        return "0"
    return f"{doubt.count:,} of {doubt.of:,}" if doubt.of else f"{doubt.count:,}"
