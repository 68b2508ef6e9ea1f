"""GeGLU, gelu(gate) * up, in one elementwise kernel, forward and backward.

The intermediate gelu(gate) stays in registers. The kernel computes in float32 for all data types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import nn
from torch.autograd.function import once_differentiable

BLOCK = 1024
"""Elements per program: eight per thread of four warps, which are 16 bytes of bfloat16."""

SLOPE: tl.constexpr = tl.constexpr(0.7978845608028654)
"""The square root of 2 / pi."""
CUBIC: tl.constexpr = tl.constexpr(0.044715)
"""The factor of gate cubed. Both constants stand right of a tensor: left of one, Triton's interpreter turns the product
into a constant."""


@triton.jit
def share_of_gelu(gate: tl.tensor) -> tl.tensor:
    """gelu(gate) / gate in the tanh approximation: (1 + tanh(u)) / 2, which is sigmoid(2 u)."""
    # The sigmoid needs no device library: the code runs on CUDA, ROCm and in the interpreter.
    return tl.sigmoid((gate + gate * gate * gate * CUBIC) * SLOPE * 2.0)


@triton.jit
def geglu_forward(
    gate_ptr: tl.tensor, up_ptr: tl.tensor, out_ptr: tl.tensor, count: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """Write gelu(gate) * up."""
    # A grid over elements, not rows: a row of 3072 elements in a block of 4096 would leave a quarter of it idle.
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    out = gate * share_of_gelu(gate) * up
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def geglu_packed_forward(
    both_ptr: tl.tensor, out_ptr: tl.tensor, count: tl.tensor, width: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """Write gelu(gate) * up of rows in which `width` elements of gate stand before as many of up."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    # The row of an element is as many widths to the right in `both` as it is rows down in `out`.
    gate_ptrs = both_ptr + offsets + offsets // width * width
    gate = tl.load(gate_ptrs, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gate_ptrs + width, mask=mask, other=0.0).to(tl.float32)
    out = gate * share_of_gelu(gate) * up
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def geglu_backward(
    slope_ptr: tl.tensor,
    gate_ptr: tl.tensor,
    up_ptr: tl.tensor,
    gate_slope_ptr: tl.tensor,
    up_slope_ptr: tl.tensor,
    count: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Write the gradients of gate and up, from the gradient of the output; the sigmoid is computed again."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    slope = tl.load(slope_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    share = share_of_gelu(gate)
    gelu_slope = share + 2.0 * gate * share * (1.0 - share) * SLOPE * (1.0 + gate * gate * CUBIC * 3.0)
    gate_slope = slope * up * gelu_slope
    up_slope = slope * gate * share
    tl.store(gate_slope_ptr + offsets, gate_slope.to(gate_slope_ptr.dtype.element_ty), mask=mask)
    tl.store(up_slope_ptr + offsets, up_slope.to(up_slope_ptr.dtype.element_ty), mask=mask)


class GegluFunction(torch.autograd.Function):
    """gelu(gate) * up with the tanh approximation; a trace shows it as one operator of this name."""

    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """Shapes: any, but the same for both tensors."""
        gate, up = gate.contiguous(), up.contiguous()
        out = torch.empty_like(gate)
        count = gate.numel()
        geglu_forward[(triton.cdiv(count, BLOCK),)](gate, up, out, count, BLOCK=BLOCK)
        ctx.save_for_backward(gate, up)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradients of gate and up."""
        gate, up = ctx.saved_tensors
        gate_slope, up_slope = torch.empty_like(gate), torch.empty_like(up)
        count = gate.numel()
        geglu_backward[(triton.cdiv(count, BLOCK),)](
            slope.contiguous(), gate, up, gate_slope, up_slope, count, BLOCK=BLOCK
        )
        return gate_slope, up_slope


def geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """gelu(gate) * up with the tanh approximation, in one kernel; differentiable once.

    Raises: ValueError when the tensors differ in shape, type or device.
    """
    if (gate.shape, gate.dtype, gate.device) != (up.shape, up.dtype, up.device):
        raise ValueError(f"gate is {gate.dtype} {tuple(gate.shape)}, and up is {up.dtype} {tuple(up.shape)}")
    apply: Callable[..., torch.Tensor] = GegluFunction.apply
    return apply(gate, up)


class GegluPackedFunction(torch.autograd.Function):
    """The same of one tensor with gate and up side by side; a trace shows it as one operator of this name."""

    @staticmethod
    def forward(ctx: Any, both: torch.Tensor) -> torch.Tensor:
        """Shapes: (..., 2 width) to (..., width)."""
        both = both.contiguous()
        width = both.shape[-1] // 2
        out = torch.empty(*both.shape[:-1], width, device=both.device, dtype=both.dtype)
        count = out.numel()
        geglu_packed_forward[(triton.cdiv(count, BLOCK),)](both, out, count, width, BLOCK=BLOCK)
        return out


def geglu_packed(both: torch.Tensor) -> torch.Tensor:
    """gelu(gate) * up of tensors with gate in the first half of the last dimension, in one kernel, without a gradient.

    Raises: ValueError for an odd last dimension.
    """
    if both.dim() == 0 or both.shape[-1] % 2:
        raise ValueError(f"gate and up are halves of the last dimension, not of {tuple(both.shape)}")
    apply: Callable[..., torch.Tensor] = GegluPackedFunction.apply
    return apply(both)


class PackedGegluMlp(nn.Module):
    """A feed-forward block of which gate and up are one product, with GeGLU as one kernel; for inference."""

    def __init__(self, gate: nn.Linear, up: nn.Linear, down: nn.Module) -> None:
        super().__init__()
        self.gate_up = nn.Parameter(torch.cat([gate.weight, up.weight]).detach(), requires_grad=False)
        self.down = down

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shapes: input and output are (..., dim)."""
        return cast(torch.Tensor, self.down(geglu_packed(nn.functional.linear(x, self.gate_up))))


class GegluMlp(nn.Module):
    """A feed-forward block of three linear layers without bias, with GeGLU as one kernel between them."""

    def __init__(self, gate: nn.Module, up: nn.Module, down: nn.Module) -> None:
        super().__init__()
        self.gate, self.up, self.down = gate, up, down

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shapes: input and output are (..., dim)."""
        return cast(torch.Tensor, self.down(geglu(self.gate(x), self.up(x))))
