"""Duration over batch in braille: a plot per kind with several sizes, and nothing where there is nothing to see."""

from __future__ import annotations

from tests.support.build import annotation, make_trace, op
from tests.support.serving import GEMM, Served, decode, served
from tracetui.drawing.drawn_columns import share_lines
from tracetui.drawing.text.pictures import BLANK, batch_lines, list_picture, picture_lines
from tracetui.model.table import Table
from tracetui.panes import PANES


def table(steps: list[Served]) -> Table:
    return PANES["serving"].build(served(steps), by="batch")


def dots(lines: list[str]) -> list[tuple[int, int]]:
    """Column and row of the cells with a dot, counted from the upper left corner of the plot."""
    return [
        (column, row) for row, line in enumerate(lines) for column, letter in enumerate(line) if ord(letter) > BLANK
    ]


def test_longer_steps_of_larger_batches_lie_further_up_and_right() -> None:
    lines = batch_lines(table([decode(i, busy=20 * 2**i, period=2_000, requests=2**i) for i in range(5)]), 60, 14)
    assert lines[0].strip() == "GPU span of decode, ms"
    assert lines[-1].rstrip().endswith("requests")
    assert all(len(line) <= 60 for line in lines)
    seen = dots(lines)
    assert seen[0][0] > seen[-1][0], "the highest dot is right of the lowest"
    assert seen[0][1] < seen[-1][1]


def test_each_kind_has_a_plot_of_its_own() -> None:
    prefills = [
        Served(f"execute_context_1({tokens})_generation_0(0)", 10_000 * i, 40, [(GEMM, 10_000 * i + 20, tokens)])
        for i, tokens in enumerate((128, 512, 1024))
    ]
    decodes = [decode(i, requests=1 + i, at=100_000) for i in range(3)]
    lines = batch_lines(table([*prefills, *decodes]), 60, 12)
    assert [line.strip() for line in lines if "ms" in line] == [
        "GPU span of prefill, ms",
        "GPU span of decode, ms",
    ]
    assert [line.split()[-1] for line in lines if line.rstrip().endswith(("tokens", "requests"))] == [
        "tokens",
        "requests",
    ]


def test_without_a_gpu_a_plot_is_of_the_time_on_the_cpu() -> None:
    steps = [annotation(f"step[DECODE bs={1 + index}]", 100_000 * index, 80_000) for index in range(4)]
    made = PANES["serving"].build(make_trace([*steps, op("aten::mm", 10, 1_000)]), by="batch")
    assert batch_lines(made, 60, 14)[0].strip() == "CPU time of decode, ms"


def test_one_size_or_no_room_is_no_plot() -> None:
    same = table([decode(i) for i in range(4)])
    assert batch_lines(same, 60, 14) == []
    several = table([decode(i, requests=1 + i) for i in range(4)])
    assert batch_lines(several, 20, 14) == batch_lines(several, 60, 4) == []
    assert batch_lines(several, 60, 14)


def test_lists_with_a_drawing() -> None:
    several = table([decode(i, requests=1 + i) for i in range(4)])
    bars = share_lines(several, 60, 14)
    assert len(bars) == 5 and picture_lines("serving", "batch", several, 60, 14) == [
        *bars,
        *batch_lines(several, 60, 12),
    ]
    assert picture_lines("serving", "batch", several, 36, 14) == batch_lines(several, 36, 14)
    assert picture_lines("serving", None, several, 60, 14) == bars
    assert list_picture("serving", "batch", several) == list_picture("serving", "batch", several)
    assert list_picture("serving", "batch", several) != list_picture("serving", "batch", table([decode(0)]))
    assert list_picture("kernels", None, several) is None
