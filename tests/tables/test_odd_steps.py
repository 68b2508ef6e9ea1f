"""Steps that differ from the others."""

import numpy as np
import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.model.table import Table, numbers, texts
from tracetui.panes import PANES
from tracetui.tables.odd_steps import odd_steps, part_times


def _steps(busy: list[float], comm: list[float], idle: list[float], kind: list[str | None] | None = None) -> Table:
    return Table(
        (
            numbers("period_us", np.array(busy) + np.array(idle)),
            numbers("exposed_comm_us", np.array(comm)),
            numbers("gpu_idle_us", np.array(idle)),
            texts("kind", kind or [None] * len(busy)),
        )
    )


def test_the_parts_of_a_step_that_overlaps_the_one_before_are_its_period() -> None:
    """Its own work is more than its period, of two devices: the bar, its length and its change are of the period."""
    period, idle = np.array([100.0, 100.0, 140.0]), np.array([10.0, 10.0, 20.0])
    columns = {"period_us": period, "gpu_busy_us": period + 50, "exposed_comm_us": np.full(3, 200.0)}
    columns |= {"gpu_idle_us": 2 * idle, "idle_pct": 100 * idle / period}
    table = Table(tuple(numbers(name, values) for name, values in columns.items()))
    assert np.sum(list(part_times(table, 2).values()), axis=0).tolist() == [100.0, 100.0, 140.0]
    assert part_times(table, 2)["idle"].tolist() == [10.0, 10.0, 20.0]
    odd = odd_steps(table, 2)[2]
    assert odd is not None and round(odd.change, 6) == 0.4


def test_a_shorter_step_that_communicates_longer_is_odd() -> None:
    """Its length alone says nothing: what grew comes first."""
    table = _steps([200, 200, 200, 260], [60, 60, 60, 120], [150, 150, 151, 80])
    usual, _, _, odd = odd_steps(table)
    assert usual is not None and usual.parts == ()
    assert odd is not None and odd.change < 0
    assert odd.parts == (("comm", 60.0), ("idle", -70.0))


def test_parts_below_a_twentieth_of_the_step_are_usual() -> None:
    """A part that doubles and is small makes no step odd."""
    odd = odd_steps(_steps([100, 100, 109], [4, 4, 13], [100, 100, 100]))[2]
    assert odd is not None and odd.parts == ()


def test_a_step_that_is_longer_by_several_small_parts_is_odd() -> None:
    """A sixteenth longer, with no part off by a twentieth: unmarked it would stand below shorter steps that are."""
    odd = odd_steps(_steps([100, 100, 108], [0, 0, 0], [100, 100, 105]))[2]
    assert odd is not None and round(odd.change, 3) == 0.065 and odd.parts == (("compute", 8.0),)


def test_each_kind_has_a_median_of_its_own() -> None:
    """A prefill among decodes is another kind of step, and one alone cannot be compared."""
    table = _steps([10, 10, 10, 500], [0] * 4, [1] * 4, ["decode", "decode", "decode", "prefill"])
    found = odd_steps(table)
    assert found[3] is None
    assert found[0] is not None and found[0].parts == ()


def test_without_a_gpu_the_cpu_time_is_the_only_part() -> None:
    """Steps of a trace without GPU differ in their time on the CPU."""
    nothing = np.full(3, np.nan)
    names = "period_us", "exposed_comm_us", "gpu_idle_us"
    table = Table((*(numbers(name, nothing) for name in names), numbers("dur_us", np.array([10.0, 10.0, 20.0]))))
    assert list(part_times(table)) == ["CPU"]
    odd = odd_steps(table)[2]
    assert odd is not None and odd.parts == (("CPU", 10.0),)


def test_the_table_of_steps_has_what_the_screen_draws() -> None:
    """A step chosen alone is compared with all others, too."""
    events: list[Event] = []
    for number, dur in enumerate((100, 100, 100, 150)):
        at = 1_000_000 * number
        events += [step(number, at, 900_000), op("aten::mm", at, 1_000), launch(at + 10, 100, number + 1)]
        events.append(kernel("gemm", at + 1_000, 1_000 * dur, correlation=number + 1))
    trace = make_trace(events)
    whole, alone = PANES["steps"].build(trace), PANES["steps"].build(trace, 3)
    assert whole["off_median"].cell(3) == alone["off_median"].cell(0) == "compute +50.0 µs"
    assert alone["to_median"].cell(0) == pytest.approx(1.05)
