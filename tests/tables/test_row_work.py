"""The work behind the rows of a list."""

import numpy as np
import pytest

from tests.support.build import kernel, launch, make_trace, op, step
from tracetui.kernel_names.slice_names import Family
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.tables.kernels import row_families, step_times


def _trace() -> Trace:
    """Four steps; in the third the copy takes three times as long."""
    events = []
    for number in range(4):
        at = number * 10_000
        events.append(step(number + 1, at, 9_000))
        for index, (name, called, dur) in enumerate(
            (("ampere_sgemm_128x64_nn", "aten::mm", 400), ("my_kernel", "aten::copy_", 900 if number == 2 else 300))
        ):
            start, correlation = at + 1_000 + index * 2_000, number * 10 + index + 1
            events += [op(called, start, 500), launch(start + 100, 50, correlation)]
            events.append(kernel(name, start + 300, dur, correlation=correlation))
    return make_trace(events)


@pytest.mark.parametrize(("pane", "by", "value"), [("ops", None, "self_device_us"), ("kernels", "name", "total_us")])
@pytest.mark.parametrize("part", [None, 3])
def test_the_times_by_step_are_those_of_the_panes(pane: str, by: str | None, value: str, part: int | None) -> None:
    """Of the step that is listed the value of the cell, of all steps together their sum."""
    trace = _trace()
    table = PANES[pane].build(trace, part, by)
    times = step_times(trace, pane, by, table)
    assert times is not None
    listed = times.sum(axis=1) if part is None else times[:, part - 1]
    assert np.allclose(listed, np.nan_to_num(table[value].values))
    assert times.max() == pytest.approx(0.9)


def test_a_row_has_the_family_that_most_of_its_time_is() -> None:
    trace = _trace()
    table = PANES["ops"].build(trace)
    found = row_families(trace, "ops", None, table)
    assert found is not None
    by_name = {str(table["name"].cell(row)): int(found[row]) for row in range(len(table))}
    assert by_name["aten::mm"] == Family.GEMM
    assert by_name["ProfilerStep*"] == -1
