"""vLLM's scope around the forward pass marks steps only where nothing else does."""

from __future__ import annotations

from tests.support.build import annotation
from tests.support.serving import decode, served
from tracetui.linking.step_names import FORWARD
from tracetui.linking.steps import steps


def test_the_forward_pass_is_a_step_where_none_is_named() -> None:
    alone = served([type(each)(FORWARD, each.start, each.dur, each.kernels) for each in map(decode, range(3))])
    assert (steps(alone).found_by, len(steps(alone))) == (f"annotation {FORWARD}", 3)
    within = [annotation(FORWARD, 100_000 * index, 39_000) for index in range(3)]
    assert steps(served([*map(decode, range(3))], within)).found_by == "annotation execute_context"
