"""Declarations and steps that several workloads share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tracetui_workloads.api import Context, Expect, Param, Prepared

if TYPE_CHECKING:
    import torch

Variants = tuple[tuple[str, Mapping[str, Any]], ...]

EAGER_AND_COMPILE: Variants = (("eager", {}), ("compile", {"compile": True}))
"""Variants of a program whose only difference is `--compile`."""


def size_param(name: str, default: int, help: str, minimum: int = 1) -> Param:
    """A parameter for a number of elements, rows or layers: a larger value needs more memory."""
    return Param(name, default, help, minimum=minimum, grows_memory=True)


def variant_of_each(param: str, values: Iterable[str]) -> Variants:
    """A variant for each value of a parameter, with the name of the value."""
    return tuple((value, {param: value}) for value in values)


def compiled_region(
    when: str = "any compile",
    want: int | tuple[float, float] = 1,
    why: str = "one graph holds the whole forward",
    asks: str = "",
) -> Expect:
    """One call of compiled code per step, whatever the backend; or another number of them."""
    return Expect(
        "calls of compiled code per step",
        "matching_ops_per_step",
        want,
        when,
        why,
        of="^Torch-Compiled Region",
        asks=asks,
    )


def kernels(want: int | tuple[float, float], when: str, why: str, asks: str = "") -> Expect:
    """The number of kernels of a forward pass on a GPU."""
    return Expect("GPU kernels per forward", "kernels_per_forward", want, when, why, asks=asks)


# Tensors, steps and their check; these import torch, in the child.


def randn(context: Context, *shape: int) -> torch.Tensor:
    """A tensor of the context's type on its device, normally distributed."""
    import torch

    return torch.randn(shape, device=context.device, dtype=context.dtype)


def forward_pass(
    context: Context,
    function: Callable[..., torch.Tensor],
    *inputs: torch.Tensor,
    label: str,
    flops: float,
    bytes: float,
    operands: Mapping[str, Any],
    reference: Callable[..., torch.Tensor] | None = None,
) -> Prepared:
    """A function of some inputs without gradients, compiled according to the options.

    Its result is checked against that of `reference`, or when it is compiled against that of the function itself.
    """
    import torch

    run = context.compile(function)

    def step() -> torch.Tensor:
        with torch.no_grad():
            return run(*inputs)

    expected = reference or (function if context.compiled else None)
    check = same_as(lambda: expected(*inputs), step) if expected else None
    return Prepared(step, label=label, flops=flops, bytes=bytes, check=check, operands=operands)


TOLERANCES = {"bfloat16": (2e-2, 2e-2), "float16": (5e-3, 5e-3), "float32": (1e-4, 1e-4)}
"""Relative and absolute tolerance by data type, enough for another order of the same operations."""


def same_as(eager: Callable[[], torch.Tensor], variant: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """A function for `Prepared.check` that calls both once and compares their results in their data type."""

    def check() -> None:
        import torch

        with torch.no_grad():
            expected, actual = eager(), variant()
        relative, absolute = TOLERANCES[str(expected.dtype).removeprefix("torch.")]
        torch.testing.assert_close(actual, expected, rtol=relative, atol=absolute)

    return check
