"""What an expectation can ask of all ranks: how many there are, and which of them is late and why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.paths import SHARED
from tracetui.opening.rank_folder import open_rank_set
from tracetui.ranks.rank_tables import RANK_METRICS
from tracetui.tables.expectations import NOTHING, Expectation, holds


class Ranks:
    """Ranks 2 and 5, of which one is late or none."""

    ranks = (2, 5)

    def __init__(self, *causes: str, is_late: bool = True) -> None:
        self.late = [SimpleNamespace(index=1, causes=[(cause, 1.0) for cause in causes])] if is_late else []

    def __len__(self) -> int:
        return len(self.ranks)


def found(ranks: Any, metric: str, want: Any, of: str = "") -> tuple[str | None, bool]:
    """What is found, and whether it is as wanted."""
    expected = Expectation("x", metric, want, of)
    observed = RANK_METRICS[metric](ranks, expected)
    return observed.text, holds(expected, observed)


def test_the_number_of_ranks():
    assert found(Ranks("input"), "ranks", 2) == ("2", True)
    assert found(Ranks("input"), "ranks", 3) == ("2", False)


@pytest.mark.parametrize(
    ("ranks", "want", "text", "is_so"),
    [
        (Ranks("input"), "^rank 5: input$", "rank 5: input", True),
        (Ranks("host", "input"), "^rank 5: .*input", "rank 5: host, input", True),
        (Ranks("kernels"), "^rank 5: .*input", "none", False),
        (Ranks("input"), "^rank 2: .*input", "none", False),
        (Ranks(), "^rank 5: unknown", "rank 5: unknown", True),
        (Ranks(is_late=False), "input", "none", False),
    ],
)
def test_who_is_late_and_why(ranks, want, text, is_so):
    assert found(ranks, "late_rank_named", want) == (text, is_so)


def test_that_nobody_is_late_can_be_wanted():
    assert found(Ranks(is_late=False), "late_rank_named", NOTHING, "rank") == ("none", True)
    assert found(Ranks("input"), "late_rank_named", NOTHING, "rank") == ("rank 5: input", False)


@pytest.mark.skipif(not (SHARED / "ranks").exists(), reason="the sets of ranks are not here")
def test_a_recorded_set():
    ranks = open_rank_set([str(SHARED / "ranks" / "g1_input_4ranks")])
    assert found(ranks, "ranks", 4) == ("4", True)
    assert found(ranks, "late_rank_named", "^rank 1: .*input")[1]
