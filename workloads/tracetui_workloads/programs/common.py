"""Expectations that several workloads share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracetui_workloads.api import Expect

if TYPE_CHECKING:
    import torch


def compiled_region(when: str) -> Expect:
    """One call of compiled code per step, whatever the backend."""
    return Expect(
        "calls of compiled code per step",
        "matching_ops_per_step",
        1,
        when,
        "one graph holds the whole forward",
        of="^Torch-Compiled Region",
    )


# The check that a variant computes the same result as eager mode, in the same data type; in the child.

TOLERANCES = {"bfloat16": (2e-2, 2e-2), "float16": (5e-3, 5e-3), "float32": (1e-4, 1e-4)}
"""Relative and absolute tolerance by data type: what another order of the same operations can change."""


def same_as(eager: Callable[[], torch.Tensor], variant: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """A function for `Prepared.check` that calls both once and compares their results."""

    def check() -> None:
        import torch

        with torch.no_grad():
            expected, actual = eager(), variant()
        relative, absolute = TOLERANCES[str(expected.dtype).removeprefix("torch.")]
        torch.testing.assert_close(actual, expected, rtol=relative, atol=absolute)

    return check
