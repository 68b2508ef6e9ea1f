"""Whether a variant computes what eager computes, in the same data type; in the child."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

TOLERANCES = {"bfloat16": (2e-2, 2e-2), "float16": (5e-3, 5e-3), "float32": (1e-4, 1e-4)}
"""Relative and absolute, by data type: what another order of the same operations may change."""


def same_as(eager: Callable[[], torch.Tensor], variant: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """A check for `Prepared.check`: both are called once and their results compared."""

    def check() -> None:
        import torch

        with torch.no_grad():
            wanted, found = eager(), variant()
        relative, absolute = TOLERANCES[str(wanted.dtype).removeprefix("torch.")]
        torch.testing.assert_close(found, wanted, rtol=relative, atol=absolute)

    return check
