"""Figures published of the simulated programs: devices, kernels, and times in microseconds.

Each figure names its source. What no source has is derived here, and says from what. Sources:

part 1    https://huggingface.co/blog/torch-profiler, an A100-SXM4-80GB
part 2    https://huggingface.co/blog/torch-mlp-fusion, an A100-SXM4-80GB
puzzler   https://gpupuzzlers.com/posts/fusion, an A100 with 40 GB; launch configurations from its trace
"""

from __future__ import annotations

from typing import Any

from tracetui.demo.program import Kernel

PART_1 = "https://huggingface.co/blog/torch-profiler"
PART_2 = "https://huggingface.co/blog/torch-mlp-fusion"
PUZZLER = "https://gpupuzzlers.com/posts/fusion"

A100_80GB: dict[str, Any] = {
    "id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 84990623744, "computeMajor": 8, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536,
    "regsPerMultiprocessor": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "sharedMemPerMultiprocessor": 167936,
    "numSms": 108, "sharedMemPerBlockOptin": 166912,
}  # fmt: skip
A100_40GB = {**A100_80GB, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42505273344}

_ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::"
_ADD = _ELEMENTWISE + "CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int)"
_GELU = _ELEMENTWISE + (
    "GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}::operator()() const::"
    "{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int)"
)
_MUL = _ELEMENTWISE + (
    "BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, "
    "std::array<char*, 3ul> >(int)"
)
_GEMM = "ampere_bf16_s16816gemm_bf16_"


def _blocks(elements: int, per_block: int = 512) -> tuple[int, int, int]:
    """The grid of a pointwise kernel: four elements for each of 128 threads."""
    return (-(-elements // per_block), 1, 1)


# Part 1. Registers and shared memory of the addition (32 and 0) are published. Those of the matrix products are
# derived: shared memory from tile, depth and stages in the name, registers from recordings of the fp16 kernels.

SELF_CPU_64_US, SELF_GPU_64_US = 2314.0, 23.104
"""The last lines of the table at size 64, of three steps, the first one cold."""
SELF_CPU_4096_US, SELF_GPU_4096_US = 4908.0, 4495.0
"""The same at size 4096."""
LABEL_STARTS_US = (138.736, 517.926, 610.039)
"""Starts of `matmul_add` in the three steps at size 64, the first one cold. Warm steps follow each other as the second
and the third."""
DEAD_WINDOWS_US = (227.757, 5.521, 4.488)
"""From there to the start of `aten::matmul`."""
SYNCHRONIZE_US = 1780.0
"""`cudaDeviceSynchronize` behind the steps at size 64."""
STEP_US = 80.0
"""A warm step: of the 92 µs from one to the next 12 go to `prof.step()`, which is not recorded."""
COLD_STEP_US = SELF_CPU_64_US - SYNCHRONIZE_US - 2 * STEP_US
"""The first step: what is left of the sum."""
SYNCHRONIZE_4096_US = SELF_CPU_4096_US - COLD_STEP_US - 2 * STEP_US
"""`cudaDeviceSynchronize` at size 4096, where the steps of the CPU are the same: what is left of that sum."""
# How a step's 7.7 µs divide is not published: two thirds for the product.
MM_64 = Kernel(f"{_GEMM}64x64_ldg8_f2f_stages_64x5_nn", SELF_GPU_64_US * 2 / 9, (1, 1, 1), (128, 1, 1), 122, 81920)
ADD_64 = Kernel(_ADD, SELF_GPU_64_US / 9, _blocks(64 * 64))
# The addition reads two matrices and writes one, at the 2.03 TB/s that the published copy of a matrix in 33 µs takes.
ADD_4096 = Kernel(_ADD, 3 * 2 * 4096**2 / 2.03e6, _blocks(4096**2))
_USUAL_MM_US = 580.0
MM_4096_US = (_USUAL_MM_US, SELF_GPU_4096_US - 2 * _USUAL_MM_US - 3 * ADD_4096.us, _USUAL_MM_US)
"""The products of the three steps: 580 µs "except when the GPU throws a fit", which in the published picture is in the
second of them; that one takes what is left of the sum, and then the mean of five is near the published 1,084 µs."""


def mm_4096(us: float) -> Kernel:
    """The product at size 4096, whose name is published."""
    return Kernel(f"{_GEMM}128x256_ldg8_f2f_stages_64x3_nn", us, (32, 16, 1), (256, 1, 1), 238, 147456)


# Part 2, linear. The name is published and the duration is not: that of an average kernel of part 1 at size 64. One
# warp for each tile of 32 x 32, whose two operands of 32 x 32 stand in shared memory.
LINEAR = Kernel(
    "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8",
    SELF_GPU_64_US / 6,
    (32, 2, 1),
    (32, 1, 1),
    80,
    4096,
)

# Part 2, MLP. The products' names, their 190, 190 and 170 µs, and the 89.4 µs of the fused kernel are published. gelu
# and mul take as long as their bytes do at the rate of the fused kernel: that reads two tensors of 8192 x 3072 and
# writes one, gelu reads one and writes one, mul reads two and writes one.
TOKENS, WIDTH, HIDDEN = 64 * 128, 768, 3072
FUSED_US = 89.4
GATE_OR_UP = Kernel(
    f"{_GEMM}128x128_ldg8_f2f_stages_32x5_tn", 190.0, (HIDDEN // 128, TOKENS // 128, 1), (128, 1, 1), 226, 81920
)
DOWN = Kernel(
    f"{_GEMM}128x256_ldg8_f2f_stages_64x3_tn", 170.0, (WIDTH // 128, TOKENS // 256, 1), (256, 1, 1), 238, 147456
)
GELU = Kernel(_GELU, FUSED_US * 2 / 3, _blocks(TOKENS * HIDDEN))
MUL = Kernel(_MUL, FUSED_US, _blocks(TOKENS * HIDDEN))
FUSED = Kernel("triton_poi_fused__unsafe_view_gelu_mul_0", FUSED_US, _blocks(TOKENS * HIDDEN, 1024))

# The puzzler: names, durations and launch configurations from its trace; so are the starts below, which are whole
# microseconds. Arguments in the names are left out.

_LAMBDAS = "{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}"
_TANH = f"{_ELEMENTWISE}tanh_kernel_cuda(at::TensorIteratorBase&)::{_LAMBDAS}, at::detail::Array<char*, 2> >(int)"
_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)"
SMALL_NORM = Kernel(_NORM, 6, (1024, 1, 1), (32, 4, 1), 40, 24)
LARGE_NORM = Kernel(_NORM, 43, (16384, 1, 1), (32, 4, 1), 40, 24)
SMALL_TANH = Kernel(_TANH, 4, (256, 1, 1), registers=17)
LARGE_TANH = Kernel(_TANH, 8, (4096, 1, 1), registers=17)
CAT = Kernel(
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)",
    13,
    (216, 16, 1),
    (512, 1, 1),
    20,
)
BIAS_COPY = Kernel(
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}> >"
    "(int)",
    4,
    (64, 1, 1),
    registers=16,
)
GEMV = Kernel(
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 2, 2, false, false>()",
    8,
    (2048, 1, 1),
    registers=47,
    shared=1536,
)
RELU = Kernel(
    f"{_ELEMENTWISE}(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar, c10::Scalar, "
    "at::native::detail::ClampLimits)::{lambda()#1}::operator()() const::{lambda()#7}::operator()() const::"
    "{lambda(float)#1}, at::detail::Array<char*, 2> >(int)",
    3,
    (32, 1, 1),
    registers=18,
)

PIECES = 16
PAIR_US, TANH_AFTER_US = 1323 / 15, 28
"""From the start of a layer norm to that of the next one, on average, and to that of its tanh."""
SPLIT_END_US = {"cat": 1418, "copy": 1528, "gemv": 1552, "relu": 1610}
"""Starts of the last kernels of split_stack, from that of the first: the span is 1,613 µs."""
COMBINED_US = {"tanh": 30, "copy": 121, "gemv": 145, "relu": 188}
"""Starts of the kernels of combined, from that of the first; tanh could start by then, and waits for the layer norm,
which takes 43: the span is 191 µs."""
