"""Writes the trace of a training loop on a GPU that was never run: what the pictures with a GPU show.

A small transformer is trained for some steps on an H100 that is simulated: the thread launches, the stream runs in
order what was launched, and the CPU waits where a real program would. Names, shapes and launch configurations are those
of PyTorch 2.8; times are round figures. Usage: `python docs/example_trace.py OUT.json.gz`.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tracetui.demo.program import THREAD, Kernel, Program, Shapes

FORWARD_THREAD, BACKWARD_THREAD = THREAD, 4267
TOKENS, WIDTH, HIDDEN, HEADS, BLOCKS = 4096, 2048, 8192, 16, 4
STEPS = (3, 4, 5, 6)
FUNCTOR = "void at::native::vectorized_elementwise_kernel<4, at::native::"
GEMM_FORWARD = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN"
GEMM_BACKWARD = "nvjet_tst_192x192_64x3_2x1_v_bz_coopB_NNN"
GELU = FUNCTOR + (
    "GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::"
    "{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int)"
)
ADD = FUNCTOR + "CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int)"
MUL = FUNCTOR + (
    "BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, "
    "std::array<char*, 3ul> >(int)"
)
LAYER_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int)"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t>, false, true, false, false, true, true, false>(pytorch_flash::Flash_fwd_params)"
)
FLASH_BACKWARD = (
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::Flash_bwd_kernel_traits<128, 64, "
    "128, 8, cutlass::bfloat16_t>, false, true, false, false, true, true, false>(pytorch_flash::Flash_bwd_params)"
)
ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
    "(at::native::ADAM_MODE)1, false> >(int)"
)
DEVICE = {
    "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85017493504, "computeMajor": 9, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
    "sharedMemPerBlock": 49152, "numSms": 132, "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448,
    "sharedMemPerMultiprocessor": 233472,
}  # fmt: skip


class Training(Program):
    """A program with Python frames, whose times vary a little."""

    def __init__(self) -> None:
        super().__init__(DEVICE, cpu_varies=(0.9, 1.15), gpu_varies=(0.98, 1.03))
        self._python = 0
        self._frames: list[int] = []

    @contextmanager
    def frame(self, name: str) -> Iterator[None]:
        """A Python function, or a module as `nn.Module: NAME`."""
        self._python += 1
        number, parent, start = self._python, self._frames[-1] if self._frames else None, self.now
        self._frames.append(number)
        self.spend(1.5)
        yield
        self.spend(0.8)
        self._frames.pop()
        self.slice("python_function", name, start, self.now, {"Python id": number, "Python parent id": parent})

    def op(
        self, name: str, shapes: Shapes = (), us: float = 2.0, sequence: int = 0, cat: str = "cpu_op"
    ) -> AbstractContextManager[None]:
        """An operator or an annotation; the number joins an operator to its backward."""
        is_backward = self.thread == BACKWARD_THREAD
        more = {"Sequence number": sequence, "Fwd thread id": int(is_backward)} if sequence else {}
        return super().op(name, shapes, us, cat, **more)

    def copy(self, name: str, us: float, size: int) -> None:
        """A copy that the CPU waits for."""
        rate = {"bytes": size, "memory bandwidth (GB/s)": round(size / us / 1000, 3)}
        self.enqueue("cudaMemcpyAsync", 12.0, "gpu_memcpy", name, us, rate)
        self.synchronize("cudaStreamSynchronize")


def kernel(name: str, us: float, blocks: int, threads: int = 256, registers: int = 32, shared: int = 0) -> Kernel:
    """A kernel whose grid and blocks have one direction."""
    return Kernel(name, us, (blocks, 1, 1), (threads, 1, 1), registers, shared)


def gemm(program: Training, rows: int, inner: int, columns: int, name: str = GEMM_FORWARD) -> None:
    """The calls of a matrix product."""
    program.query()
    program.spend(5)
    us = 2 * rows * inner * columns / 6.2e8
    program.launch(kernel(name, us, max(rows * columns // 32768, 1), 384, 168, 213 * 1024))


def linear(program: Training, module: str, inner: int, columns: int, sequence: int) -> None:
    """A module Linear without bias."""
    shapes = [[TOKENS, inner], [columns, inner]]
    with (
        program.frame(f"nn.Module: {module}"),
        program.frame("torch/nn/modules/linear.py(124): forward"),
        program.op("aten::linear", shapes, 3),
    ):
        with program.op("aten::t", shapes[1:], 2), program.op("aten::transpose", shapes[1:], 1.5):
            program.spend(1)
        with program.op("aten::mm", [[TOKENS, inner], [inner, columns]], 6, sequence):
            gemm(program, TOKENS, inner, columns)


def norm(program: Training, module: str, sequence: int) -> None:
    """A module LayerNorm."""
    shapes = [[TOKENS, WIDTH], [], [WIDTH], [WIDTH]]
    with (
        program.frame(f"nn.Module: {module}"),
        program.frame("torch/nn/modules/normalization.py(229): forward"),
        program.op("aten::layer_norm", shapes, 3),
        program.op("aten::native_layer_norm", shapes, 8, sequence),
    ):
        program.launch(kernel(LAYER_NORM, 22, TOKENS, 128, 40, 24))


def attention(program: Training, number: int, sequence: int) -> None:
    """The attention of a block."""
    heads = [[1, HEADS, TOKENS, WIDTH // HEADS]] * 3
    with program.frame(f"nn.Module: Attention_{number}"), program.frame("model.py(31): forward"):
        linear(program, f"Linear_{4 * number}", WIDTH, 3 * WIDTH, sequence)
        for view in ("aten::view", "aten::split", "aten::transpose"):
            with program.op(view, [[TOKENS, 3 * WIDTH]], 2.5):
                pass
        with (
            program.op("aten::scaled_dot_product_attention", heads, 6),
            program.op("aten::_scaled_dot_product_flash_attention", heads, 9, sequence + 1),
        ):
            program.launch(kernel(FLASH, 190, TOKENS // 128 * HEADS, 128, 255, 80 * 1024))
        linear(program, f"Linear_{4 * number + 1}", WIDTH, WIDTH, sequence + 2)


def mlp(program: Training, number: int, sequence: int) -> None:
    """The feed-forward part of a block."""
    with program.frame(f"nn.Module: MLP_{number}"), program.frame("model.py(52): forward"):
        linear(program, f"Linear_{4 * number + 2}", WIDTH, HIDDEN, sequence)
        with program.frame(f"nn.Module: GELU_{number}"), program.op("aten::gelu", [[TOKENS, HIDDEN]], 6, sequence + 1):
            program.launch(kernel(GELU, 58, TOKENS * HIDDEN // 4096, 128, 32))
        linear(program, f"Linear_{4 * number + 3}", HIDDEN, WIDTH, sequence + 2)


def forward(program: Training) -> None:
    """The model."""
    with program.frame("train.py(33): forward"), program.frame("nn.Module: GPT_0"):
        for number in range(BLOCKS):
            base = 100 + 20 * number
            with program.frame(f"nn.Module: Block_{number}"), program.frame("model.py(74): forward"):
                norm(program, f"LayerNorm_{2 * number}", base)
                attention(program, number, base + 1)
                add(program, base + 4)
                norm(program, f"LayerNorm_{2 * number + 1}", base + 5)
                mlp(program, number, base + 6)
                add(program, base + 9)


def add(program: Training, sequence: int) -> None:
    """A residual connection."""
    with program.op("aten::add", [[TOKENS, WIDTH]] * 2, 5, sequence):
        program.launch(kernel(ADD, 21, TOKENS * WIDTH // 4096, 128, 32))


def backward(program: Training) -> None:
    """The backward pass, on the thread of the autograd engine."""
    with program.frame("train.py(35): backward"):
        program.spend(30)
        program.thread = BACKWARD_THREAD
        for number in reversed(range(BLOCKS)):
            base = 100 + 20 * number
            node(program, "MmBackward0", base + 8, lambda: products(program, WIDTH, HIDDEN))
            node(program, "GeluBackward0", base + 7, lambda: gelu_backward(program))
            node(program, "MmBackward0", base + 6, lambda: products(program, HIDDEN, WIDTH))
            node(program, "MmBackward0", base + 3, lambda: products(program, WIDTH, WIDTH))
            node(program, "ScaledDotProductFlashAttentionBackward0", base + 2, lambda: flash_backward(program))
            node(program, "MmBackward0", base + 1, lambda: products(program, 3 * WIDTH, WIDTH))
        program.thread = FORWARD_THREAD
        program.spend(20)


def node(program: Training, name: str, sequence: int, body: Any) -> None:
    """One node of the graph of autograd."""
    engine = f"autograd::engine::evaluate_function: {name}"
    with program.op(engine, (), 6, sequence), program.op(name, (), 5, sequence):
        body()


def products(program: Training, columns: int, inner: int) -> None:
    """The gradients of a weight and of its input."""
    with program.op("aten::mm", [[columns, TOKENS], [TOKENS, inner]], 6):
        gemm(program, columns, TOKENS, inner, GEMM_BACKWARD)
    with program.op("aten::mm", [[TOKENS, columns], [columns, inner]], 6):
        gemm(program, TOKENS, columns, inner, GEMM_BACKWARD)


def gelu_backward(program: Training) -> None:
    """The gradient of the activation."""
    with program.op("aten::gelu_backward", [[TOKENS, HIDDEN]] * 2, 6):
        program.launch(kernel(MUL, 84, TOKENS * HIDDEN // 4096, 128, 40))


def flash_backward(program: Training) -> None:
    """The gradients of the attention."""
    with program.op("aten::_scaled_dot_product_flash_attention_backward", (), 12):
        program.launch(kernel(FLASH_BACKWARD, 520, TOKENS // 128 * HEADS, 256, 255, 144 * 1024))


def optimizer(program: Training) -> None:
    """A fused AdamW, and the loss that is printed."""
    with (
        program.frame("torch/optim/adamw.py(80): step"),
        program.op("Optimizer.step#AdamW.step", (), 60, cat="user_annotation"),
    ):
        for _ in range(4):
            with program.op("aten::_fused_adamw_", (), 14):
                program.launch(kernel(ADAM, 210, 320, 512, 64))
    with (
        program.frame("train.py(38): log"),
        program.op("aten::item", [[]], 3),
        program.op("aten::_local_scalar_dense", [[]], 4),
    ):
        program.copy("Memcpy DtoH (Device -> Pinned)", 1.8, 4)


def batch(program: Training) -> None:
    """The next batch, which the main process makes and copies from pageable memory."""
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    with (
        program.frame("torch/utils/data/dataloader.py(701): __next__"),
        program.op(loader, (), 8, cat="user_annotation"),
    ):
        with program.frame("data.py(12): tokenize"):
            program.spend(1_900)
        with program.frame("data.py(21): collate"), program.op("aten::stack", [[TOKENS]] * 4, 40):
            program.spend(120)
    with (
        program.op("aten::to", [[TOKENS]], 5),
        program.op("aten::_to_copy", [[TOKENS]], 6),
        program.op("aten::copy_", [[TOKENS]], 6),
    ):
        program.copy("Memcpy HtoD (Pageable -> Device)", 9, 8 * TOKENS)


def training() -> dict[str, Any]:
    """The trace, as `export_chrome_trace` writes it."""
    program = Training()
    with program.frame("train.py(41): main"):
        for number in STEPS:
            name = f"ProfilerStep#{number}"
            with program.op(name, (), 20, cat="user_annotation"), program.frame("train.py(30): step"):
                batch(program)
                forward(program)
                backward(program)
                optimizer(program)
    threads = {FORWARD_THREAD: "python", BACKWARD_THREAD: "pt_autograd_0"}
    metadata = {
        "cuda_runtime_version": 12080, "record_shapes": 1, "with_stack": 1, "with_modules": 1,
        "tracetui": {"simulated": True},
    }  # fmt: skip
    return program.trace(metadata, threads)


def main() -> None:
    """Write the file that is named on the command line."""
    # Without its name and the time of writing, so that two runs write the same file.
    with open(sys.argv[1], "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(json.dumps(training()).encode())


if __name__ == "__main__":
    main()
