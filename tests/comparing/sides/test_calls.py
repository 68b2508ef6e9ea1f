"""Which calls are folded into which."""

from __future__ import annotations

import pytest

from tests.support.build import kernel, launch, make_trace, op, step
from tracetui.comparing.measures import calls
from tracetui.comparing.side import side


@pytest.mark.parametrize("name", ["detach", "detach_"])
def test_what_a_view_op_calls_within_is_folded_with_it(name: str) -> None:
    """Both are seen once per call by a reader: as `aten::detach`, or as the operator around that."""
    trace = make_trace(
        [
            step(1, 0, 1_000),
            op("aten::linear", 10, 100),
            op(f"aten::{name}", 20, 30),
            op(name, 25, 10),
            op(f"aten::{name}", 200, 30),
            op(name, 205, 10),
            op(name, 300, 10),
            launch(400, 10, 1),
            kernel("k", 500, 10, correlation=1),
        ]
    )
    found = calls(side(trace))
    told = [
        (found.keys[key].name, found.keys[into].name if into >= 0 else "")
        for key, into in zip(found.key, found.into, strict=True)
    ]
    assert told[:6] == [
        ("aten::linear", ""),
        (f"aten::{name}", "aten::linear"),
        (name, "aten::linear"),
        (f"aten::{name}", ""),
        (name, f"aten::{name}"),
        (name, ""),
    ]
