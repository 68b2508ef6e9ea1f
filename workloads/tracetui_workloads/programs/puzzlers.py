"""GPU puzzler 7, "To Fuse or Not to Fuse?": the same computation on sixteen small tensors, and on one tensor.

https://gpupuzzlers.com/posts/fusion. The modules are created once and on the device, which the page leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracetui_workloads.api import MORE, Context, Contrast, Expect, Prepared, Workload
from tracetui_workloads.programs.common import EAGER_AND_COMPILE, compiled_region, forward_pass, kernels, size_param

if TYPE_CHECKING:
    import torch

LESSON = """\
Both compute the same result. With sixteen tensors the GPU runs 36 kernels and is idle between them, because each ends
before the next is launched. With one tensor it runs 5, and the layer norm takes longer than the next launch: horizontal
fusion saves launches and fills the GPU. Compiling fuses vertically, layer norm with tanh, which halves the memory
traffic; on the GPU it does not merge the sixteen tensors. The copy before the matmul is the bias, expanded because the
kernel for a matmul with one column cannot add it."""

SEE = ("https://gpupuzzlers.com/posts/fusion",)

PARAMS = (
    size_param("num_inputs", 16, "number of tensors"),
    size_param("batch_size", 1024, "rows per tensor"),
    size_param("input_dim", 256, "columns per tensor"),
)

FUSED_EXPECTS = (
    Expect(
        "a fused kernel with layer_norm and tanh in its name",
        "kernel_named",
        "fused_.*layer_norm.*tanh",
        "cuda compile backend=inductor",
        "vertical fusion",
        asks="Compiled, what fuses?",
    ),
    Expect(
        "a fused kernel with layer_norm and tanh in its name",
        "op_named",
        "fused_.*layer_norm.*tanh",
        "cpu compile backend=inductor",
        "vertical fusion, here in C++",
        asks="Compiled, what fuses?",
    ),
    Expect(
        "layer norms and tanh per step",
        "matching_ops_per_step",
        0,
        "compile backend=inductor",
        "they are inside the fused kernels",
        of="^aten::(native_layer_norm|tanh)$",
        asks="Which operators are gone?",
    ),
    compiled_region(),
)
"""Expectations of either program when compiled."""


def contrasts(split: str, split_compiled: str, combined: str, combined_compiled: str) -> tuple[Contrast, ...]:
    """Contrasts of the two programs, by the names of their variants in one of them."""
    return (
        Contrast(
            "operators of sixteen tensors by those of one",
            split,
            combined,
            "ops_per_step",
            (5, 12),
            "any eager num_inputs=16",
            "all but the matmul and what is around it is called sixteen times",
        ),
        Contrast(
            "GPU span of sixteen tensors by that of one",
            split,
            combined,
            "span_us",
            (3, MORE),
            "cuda eager num_inputs=16 batch_size=1024 input_dim=256",
            "horizontal fusion: fewer launches, and kernels long enough to hide the next one",
        ),
        Contrast(
            "GPU span of one tensor, eager by compiled",
            combined,
            combined_compiled,
            "span_us",
            (1, MORE),
            "cuda num_inputs=16 batch_size=1024 input_dim=256",
            "vertical fusion: layer norm and tanh are one kernel",
        ),
        Contrast(
            "kernels of sixteen tensors, eager by compiled",
            split,
            split_compiled,
            "kernels_per_forward",
            (1.5, 3),
            "cuda num_inputs=16",
            "sixteen pairs become sixteen kernels",
        ),
    )


SPLIT_STACK = Workload(
    name="split_stack",
    summary="puzzler 7: layer norm and tanh on sixteen tensors, then a linear layer",
    prepare="tracetui_workloads.programs.puzzlers:prepare_split_stack",
    params=PARAMS,
    studies="overhead",
    dtype="fp32",
    lesson=LESSON,
    expects=(
        kernels(
            36,
            "cuda eager num_inputs=16",
            "16 layer norms, 16 tanh, cat, copy, matmul, relu",
            asks="How many kernels does the GPU run for sixteen tensors?",
        ),
        kernels(
            (2, 35),
            "cuda compile backend=inductor",
            "layer norm and tanh are one kernel; the sixteen tensors are not merged",
        ),
        *FUSED_EXPECTS,
        Expect(
            "layer norms per step",
            "calls_per_step",
            16,
            "any eager num_inputs=16",
            "one for each tensor",
            of="aten::native_layer_norm",
            asks="How many layer norms run per step, and how many if the tensors were one?",
        ),
        Expect("concatenations per step", "calls_per_step", 1, "any eager", "stack calls cat", of="aten::cat"),
        Expect(
            "CPU operators per step",
            "ops_per_step",
            # With several threads, cat first calls narrow, slice and as_strided on its result.
            (210, 213),
            "cpu eager torch=2.13 num_inputs=16",
            "36 of them compute",
        ),
    ),
    contrasts=contrasts("eager", "compile", "combined", "combined_compile"),
    see=SEE,
    variants=(
        *EAGER_AND_COMPILE,
        ("combined", {"workload": "combined"}),
        ("combined_compile", {"workload": "combined", "compile": True}),
    ),
)

COMBINED = Workload(
    name="combined",
    summary="puzzler 7: the same computation on one tensor",
    prepare="tracetui_workloads.programs.puzzlers:prepare_combined",
    params=PARAMS,
    studies="overhead",
    dtype="fp32",
    lesson=LESSON,
    expects=(
        kernels(
            5,
            "cuda eager",
            "layer norm, tanh, copy, matmul, relu",
            asks="How many kernels does the GPU run for one tensor, and how many for sixteen?",
        ),
        Expect(
            "operators that launched kernels, in order",
            "kernels_in_order",
            "native_layer_norm tanh (copy_|addmm) addmm (relu|clamp_min)",
            "cuda eager",
            "the copy is the bias, expanded",
        ),
        Expect(
            "operators that compute, in order",
            "ops_in_order",
            "native_layer_norm tanh addmm relu",
            "any eager",
            "one of each for all sixteen tensors",
            of="^aten::(native_layer_norm|tanh|addmm|relu)$",
            asks="Which operators compute, and in which order?",
        ),
        kernels((2, 4), "cuda compile backend=inductor", "layer norm and tanh are one kernel"),
        *FUSED_EXPECTS,
        Expect("layer norms per step", "calls_per_step", 1, "any eager", "one for all", of="aten::native_layer_norm"),
        Expect("CPU operators per step", "ops_per_step", 23, "cpu eager torch=2.13", "a ninth of split_stack"),
    ),
    contrasts=contrasts("split_stack", "split_stack_compile", "eager", "compile"),
    see=SEE,
    variants=(
        *EAGER_AND_COMPILE,
        ("split_stack", {"workload": "split_stack"}),
        ("split_stack_compile", {"workload": "split_stack", "compile": True}),
    ),
)


class Parts:
    """The input and the layers that both programs share, with the same weights for the same seed."""

    def __init__(self, context: Context, num_inputs: int, batch_size: int, input_dim: int) -> None:
        import torch
        from torch import nn

        device, dtype = context.device, context.dtype
        self.shape = (num_inputs, batch_size, input_dim)
        self.x = torch.rand(num_inputs * batch_size * input_dim, device=device, dtype=dtype)
        self.norm = nn.LayerNorm(input_dim, eps=0, elementwise_affine=False, device=device, dtype=dtype)
        self.linear = nn.Linear(input_dim, 1, device=device, dtype=dtype)

    def split_stack(self, x: torch.Tensor) -> torch.Tensor:
        """Compute each tensor separately, then stack the results."""
        import torch

        _, rows, columns = self.shape
        pieces = torch.split(x, rows * columns)
        outputs = [torch.tanh(self.norm(piece.view(rows, columns))) for piece in pieces]
        return torch.relu(self.linear(torch.stack(outputs)))

    def combined(self, x: torch.Tensor) -> torch.Tensor:
        """Compute everything as one tensor."""
        import torch

        return torch.relu(self.linear(torch.tanh(self.norm(x.view(self.shape)))))


def prepare_split_stack(context: Context, num_inputs: int, batch_size: int, input_dim: int) -> Prepared:
    """The program on separate tensors, checked against the one on one tensor."""
    parts = Parts(context, num_inputs, batch_size, input_dim)
    return _prepared(context, parts, parts.split_stack, "split_stack")


def prepare_combined(context: Context, num_inputs: int, batch_size: int, input_dim: int) -> Prepared:
    """The program on one tensor."""
    parts = Parts(context, num_inputs, batch_size, input_dim)
    return _prepared(context, parts, parts.combined, "combined")


def _prepared(context: Context, parts: Parts, program: Callable[[torch.Tensor], torch.Tensor], label: str) -> Prepared:
    """One of the two programs, prepared with its input."""
    pieces, rows, columns = parts.shape
    elements = pieces * rows * columns
    return forward_pass(
        context,
        program,
        parts.x,
        label=label,
        flops=2 * elements,
        bytes=(elements + pieces * rows) * parts.x.element_size(),
        operands={"linear": parts.linear, "x": parts.x},
        reference=parts.combined if label == "split_stack" else None,
    )
