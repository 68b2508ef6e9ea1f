"""Triton kernels of a GeGLU block, each with its autograd function and the `nn.Module` that calls it.

GeGLU, gelu(gate) * up, is one elementwise kernel, forward and backward. The intermediate gelu(gate) stays in registers.
The kernel computes in float32 for all data types.

Two matmuls and the GeGLU itself are one kernel too: gelu(x @ gate.T) * (x @ up.T), forward only. Each program keeps two
accumulator tiles, one per matmul, in registers, loads a tile of x once for both, and writes their GeGLU: the results of
the matmuls are never written to memory. The layout of the weights is that of `nn.Linear`. A further kernel is for
Hopper and later: tensor descriptors, which the host makes, let the copy engine fetch whole tiles, and a grid of one
program for each multiprocessor takes tiles until there are none left.

This module imports torch and triton at the top; the child process imports it after it has checked for both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

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


class Tiles(NamedTuple):
    """The size of the tiles, and the warps and pipeline stages of a program."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    group: int = 8
    """Tiles of rows that run at the same time, so that they share weights in the L2 cache."""
    is_persistent: bool = False
    """True for the kernel with descriptors and a persistent grid."""
    least: int = 0
    """The compute capability, such as 90, before which the compiler lacks registers and spills them to memory."""

    def __str__(self) -> str:
        persistent = ", persistent" if self.is_persistent else ""
        return f"{self.rows}x{self.columns}x{self.depth}, {self.warps} warps, {self.stages} stages{persistent}"


CANDIDATES = (
    Tiles(128, 128, 64, 8, 3, is_persistent=True, least=90),
    Tiles(128, 64, 64, 4, 4, is_persistent=True, least=90),
    Tiles(128, 128, 32, 8, 4, is_persistent=True, least=90),
    Tiles(128, 128, 64, 8, 3, least=90),
    Tiles(128, 128, 64, 8, 4, least=90),
    Tiles(128, 128, 32, 8, 4, least=90),
    Tiles(128, 64, 64, 4, 4, least=90),
    Tiles(64, 128, 64, 4, 4),
    Tiles(64, 64, 64, 4, 4),
    Tiles(64, 64, 32, 4, 3),
)
"""Candidate tile sizes. Two accumulator tiles of 128 x 128 need as many registers as one of 128 x 256, the usual size
on Hopper; the last candidates fit in the shared memory of smaller GPUs, also with float32."""


@triton.jit
def gateup_forward(
    x_ptr: tl.tensor,
    gate_ptr: tl.tensor,
    up_ptr: tl.tensor,
    out_ptr: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    depth: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
) -> None:
    """Write gelu(x @ gate.T) * (x @ up.T); all are contiguous, x is (height, depth), the weights are (width, depth)."""
    program = tl.program_id(0)
    row_tiles, column_tiles = tl.cdiv(height, ROWS), tl.cdiv(width, COLUMNS)
    in_group = GROUP * column_tiles
    first_row = program // in_group * GROUP
    group_rows = tl.minimum(row_tiles - first_row, GROUP)
    row = (first_row + program % in_group % group_rows) * ROWS + tl.arange(0, ROWS)
    column = program % in_group // group_rows * COLUMNS + tl.arange(0, COLUMNS)
    step = tl.arange(0, DEPTH)

    # Rows and columns beyond the edge load valid ones again, which needs no mask, and are not stored.
    x_tile = x_ptr + (row % height).to(tl.int64)[:, None] * depth + step[None, :]
    weight = (column % width).to(tl.int64)[None, :] * depth + step[:, None]
    gate_tile, up_tile = gate_ptr + weight, up_ptr + weight
    gate = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    up = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for done in range(0, depth, DEPTH):
        left = depth - done
        x = tl.load(x_tile, mask=step[None, :] < left, other=0.0)
        gate = tl.dot(x, tl.load(gate_tile, mask=step[:, None] < left, other=0.0), gate, input_precision="ieee")
        up = tl.dot(x, tl.load(up_tile, mask=step[:, None] < left, other=0.0), up, input_precision="ieee")
        x_tile += DEPTH
        gate_tile += DEPTH
        up_tile += DEPTH

    out = gate * share_of_gelu(gate) * up
    out_tile = out_ptr + row.to(tl.int64)[:, None] * width + column[None, :]
    mask = (row < height)[:, None] & (column < width)[None, :]
    tl.store(out_tile, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def gateup_persistent(
    x_desc: tl.tensor,
    gate_desc: tl.tensor,
    up_desc: tl.tensor,
    out_desc: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    depth: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
) -> None:
    """The same, tile after tile; descriptors read zeros beyond an edge and write nothing there."""
    row_tiles, column_tiles = tl.cdiv(height, ROWS), tl.cdiv(width, COLUMNS)
    in_group = GROUP * column_tiles
    for tile in tl.range(tl.program_id(0), row_tiles * column_tiles, tl.num_programs(0), flatten=True):
        first_row = tile // in_group * GROUP
        group_rows = tl.minimum(row_tiles - first_row, GROUP)
        row = (first_row + tile % in_group % group_rows) * ROWS
        column = tile % in_group // group_rows * COLUMNS
        gate = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        up = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for done in range(0, depth, DEPTH):
            x = x_desc.load([row, done])
            gate = tl.dot(x, gate_desc.load([column, done]).T, gate, input_precision="ieee")
            up = tl.dot(x, up_desc.load([column, done]).T, up, input_precision="ieee")
        out = gate * share_of_gelu(gate) * up
        out_desc.store([row, column], out.to(out_desc.dtype))


class GateUpFunction(torch.autograd.Function):
    """gelu(x @ gate.T) * (x @ up.T); a trace shows it as one operator of this name. It has no backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, tiles: Tiles) -> torch.Tensor:
        """Shapes: x is (rows, depth), both weights are (columns, depth), the result is (rows, columns)."""
        x, gate, up = x.contiguous(), gate.contiguous(), up.contiguous()
        (height, depth), width = x.shape, gate.shape[0]
        out = torch.empty(height, width, device=x.device, dtype=x.dtype)
        programs = triton.cdiv(height, tiles.rows) * triton.cdiv(width, tiles.columns)
        kernel: Any = gateup_forward
        tensors: tuple[Any, ...] = (x, gate, up, out)
        if tiles.is_persistent:
            # One program for each multiprocessor; two where Triton interprets.
            on_gpu = x.device.type == "cuda"
            at_once = torch.cuda.get_device_properties(x.device).multi_processor_count if on_gpu else 2
            kernel, programs = gateup_persistent, min(programs, at_once)
            weight = [tiles.columns, tiles.depth]
            shapes = ([tiles.rows, tiles.depth], weight, weight, [tiles.rows, tiles.columns])
            tensors = tuple(_descriptor(tensor, shape) for tensor, shape in zip(tensors, shapes, strict=True))
        kernel[(programs,)](
            *tensors,
            height,
            width,
            depth,
            ROWS=tiles.rows,
            COLUMNS=tiles.columns,
            DEPTH=tiles.depth,
            GROUP=tiles.group,
            num_warps=tiles.warps,
            num_stages=tiles.stages,
        )
        return out


def _descriptor(tensor: torch.Tensor, shape: list[int]) -> Any:
    # Older Triton lacks it, and is not asked for it (`usable`).
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor.from_tensor(tensor, shape)


DEFAULT_TILES = Tiles(128, 128, 64, 8, 3)


def gateup(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, tiles: Tiles = DEFAULT_TILES) -> torch.Tensor:
    """gelu(x @ gate.T) * (x @ up.T) in one kernel, from (..., depth) to (..., columns), without a gradient.

    Raises: ValueError when shapes or types do not fit.
    """
    if gate.shape != up.shape or gate.dim() != 2 or x.shape[-1] != gate.shape[1]:
        shapes = " and ".join(str(tuple(each.shape)) for each in (x, gate, up))
        raise ValueError(f"x, gate and up do not fit: {shapes}")
    if not x.dtype == gate.dtype == up.dtype:
        raise ValueError(f"x, gate and up are {x.dtype}, {gate.dtype} and {up.dtype}")
    apply: Callable[..., torch.Tensor] = GateUpFunction.apply
    out = apply(x.reshape(-1, x.shape[-1]), gate, up, tiles)
    return out.view(*x.shape[:-1], gate.shape[0])


class GateUpMlp(nn.Module):
    """A feed-forward block of three linear layers without bias, the first two and their GeGLU in one kernel."""

    def __init__(self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, tiles: Tiles = DEFAULT_TILES) -> None:
        super().__init__()
        self.gate, self.up, self.down, self.tiles = gate, up, down, tiles

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shapes: input and output are (..., dim)."""
        return cast(torch.Tensor, self.down(gateup(x, self.gate.weight, self.up.weight, self.tiles)))


Timer = Callable[[Callable[[], object]], float]
"""A function that measures the time of a call in ms."""


def usable(candidates: Sequence[Tiles], x: torch.Tensor, width: int) -> list[Tiles]:
    """The candidates that the device of x has the registers for, and the persistent ones where rows are aligned.

    `width` is the number of columns of the result.
    """
    if x.device.type != "cuda" or torch.version.hip is not None:
        return [tiles for tiles in candidates if not tiles.is_persistent]
    major, minor = torch.cuda.get_device_capability(x.device)
    fits = [tiles for tiles in candidates if tiles.least <= 10 * major + minor]
    # A descriptor needs rows that begin at multiples of 16 bytes.
    is_aligned = all(count * x.element_size() % 16 == 0 for count in (x.shape[-1], width))
    has_descriptors = find_spec("triton.tools.tensor_descriptor") is not None
    return [tiles for tiles in fits if not tiles.is_persistent or (is_aligned and has_descriptors)]


def fastest_tiles(
    x: torch.Tensor,
    gate: torch.Tensor,
    up: torch.Tensor,
    candidates: Sequence[Tiles] = CANDIDATES,
    timer: Timer | None = None,
) -> Tiles:
    """The fastest candidate for these shapes on this device, of those that fit its registers and shared memory.

    Those that cannot be used there are not tried.

    Raises: the last error of Triton where none fits.
    """
    from triton.runtime.errors import OutOfResources
    from triton.testing import do_bench

    times: dict[Tiles, float] = {}
    last_error: Exception | None = None
    with torch.no_grad():
        for tiles in usable(candidates, x, gate.shape[0]):
            try:
                times[tiles] = (timer or do_bench)(partial(gateup, x, gate, up, tiles))
            except OutOfResources as error:
                last_error = error
            except Exception as error:
                # Descriptors are young: a Triton that does not compile them has the other kernel.
                if not tiles.is_persistent:
                    raise
                last_error = error
    if not times:
        raise last_error or ValueError("there are no candidates")
    return min(times, key=times.__getitem__)
