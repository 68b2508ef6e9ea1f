"""The tutorial's programs, eager and compiled, with the kernels and the times it reports of an A100."""

from __future__ import annotations

from dataclasses import replace

from tests.support.build import Event, make_trace
from tests.support.comparing.recording import Call, Work, record
from tracetui.model.trace import Device, Kind, Trace

A100 = Device(0, "NVIDIA A100-SXM4-80GB", {"numSms": 108})
EAGER, COMPILED, FUSED = "eager", "compile", "fused"
"""How a program is run; `fused` is the hand-written Triton kernel."""

BF16, F32 = "c10::BFloat16", "float"
GATE_UP = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
DOWN = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"
ADD_GEMM = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn"
LINEAR_GEMM = "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8"
_LAMBDA = "{lambda()#1}::operator()() const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}"
_GELU = f"at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{_LAMBDA}"
GELU = (
    f"void at::native::vectorized_elementwise_kernel<4, {_GELU}, std::array<char*, 2ul> >"
    f"(int, {_GELU}, std::array<char*, 2ul>)"
)


def _binary(functor: str) -> str:
    inner = (
        "at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
        f"at::native::binary_internal::{functor}<float> >"
    )
    return (
        f"void at::native::vectorized_elementwise_kernel<4, {inner}, std::array<char*, 3ul> >"
        f"(int, {inner}, std::array<char*, 3ul>)"
    )


MUL, ADD = _binary("MulFunctor"), _binary("AddFunctor")
GEGLU = "triton_poi_fused__unsafe_view_gelu_mul_0"
LIGER = "_geglu_tanh_forward_kernel"
COPY = "Memcpy DtoD (Device -> Device)"
_FUNCTION = "at::native::tanh_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const"
_TANH = f"{_FUNCTION}::{{lambda()#2}}::operator()() const::{{lambda(float)#1}}"
TANH = (
    f"void at::native::vectorized_elementwise_kernel<4, {_TANH}, at::detail::Array<char*, 2> >"
    f"(int, {_TANH}, at::detail::Array<char*, 2>)"
)
NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"
    "(int, float, float const*, float const*, float const*, float*, float*, float*)"
)
CAT = (
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*, "
    "at::native::(anonymous namespace)::CatArrInputTensorMetadata<float, unsigned int, 128, 1>, "
    "at::native::(anonymous namespace)::TensorSizeStride<unsigned int, 4u>, int, unsigned int)"
)
_DIRECT = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const"
    "::{lambda()#7}::operator()() const::{lambda(float)#1}"
)
BIAS_COPY = (
    f"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<{_DIRECT}>"
    f"(at::TensorIteratorBase&, {_DIRECT} const&)::{{lambda(int)#1}}>(int, at::native::gpu_kernel_impl<{_DIRECT}>"
    f"(at::TensorIteratorBase&, {_DIRECT} const&)::{{lambda(int)#1}})"
)
GEMV = "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 2, 2, false, false>(float, float)"
_CLAMP = (
    "at::native::(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar, c10::Scalar, "
    "at::native::detail::ClampLimits)::{lambda()#1}::operator()() const::{lambda()#7}::operator()() const"
    "::{lambda(float)#1}"
)
RELU = (
    f"void at::native::vectorized_elementwise_kernel<4, {_CLAMP}, at::detail::Array<char*, 2> >"
    f"(int, {_CLAMP}, at::detail::Array<char*, 2>)"
)
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false, false>()"
MASKED_FILL = "void at::native::elementwise_kernel<128, 4, at::native::masked_fill_kernel<c10::BFloat16> >()"
FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>, true>()"
BMM = ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "ampere_bf16_s16816gemm_bf16_64x64_ldg8_nn")


def mlp(mode: str = EAGER, steps: int = 3, jitter: float = 0.01, seed: int = 0, shapes: bool = True) -> Trace:
    """Gate, up, gelu, mul and down of 8192 tokens, 768 wide with 3072 within."""
    return _trace(mlp_events(mode, steps, jitter, seed, shapes))


def mlp_events(
    mode: str = EAGER, steps: int = 3, jitter: float = 0.01, seed: int = 0, shapes: bool = True
) -> list[Event]:
    """The same as events."""
    label = "kernels_mlp_fwd" if mode == FUSED else "mlp_fwd"
    return record(label, mlp_calls(mode), steps, jitter, seed, shapes)


def mlp_calls(mode: str, tokens: int = 8192, width: int = 768, hidden: int = 3072) -> tuple[Call, ...]:
    """One forward pass."""
    given, within = [tokens, width], [tokens, hidden]
    gate_up = _product(given, [width, hidden], GATE_UP, 190_400), _product(given, [width, hidden], GATE_UP, 190_400)
    down = _product(within, [hidden, width], DOWN, 170_500)
    if mode == COMPILED:
        pair = Work(GEGLU, 89_400, args=_shape(3072, 256), call="cuLaunchKernel")
        pointwise = Call(GEGLU, [within, within, within, []], [BF16, BF16, BF16, "Scalar"], 6_000, work=(pair,))
        return _compiled((*map(_into, gate_up), pointwise, _into(down)))
    if mode == FUSED:
        pair = Work(LIGER, 92_800, args=_shape(tokens, 256), call="cuLaunchKernel")
        function = Call("LigerGELUMulFunction", [within, within], [BF16, BF16], 30_000, work=(pair,))
        return *(_linear(each, 3) for each in gate_up), function, _linear(down, 3)
    gelu = Call("aten::gelu", [within, []], [BF16, ""], work=(Work(GELU, 59_600, args=_shape(12288, 128)),))
    mul = Call("aten::mul", [within, within], [BF16, BF16], work=(Work(MUL, 89_400, args=_shape(12288, 128)),))
    return *(_linear(each, 3) for each in gate_up), gelu, mul, _linear(down, 3)


def matmul_add(mode: str = EAGER, steps: int = 3, jitter: float = 0.01, seed: int = 0) -> Trace:
    """A product of matrices of 4096 and a sum, which the compiler makes one `addmm` with a copy before it."""
    return _trace(record("matmul_add", matmul_add_calls(mode), steps, jitter, seed))


def matmul_add_calls(mode: str, size: int = 4096) -> tuple[Call, ...]:
    """One forward pass."""
    square, count = [size, size], size * size * 2
    gemm = Work(ADD_GEMM, 580_000, args=_shape(size // 128, 256), asks=mode == EAGER)
    if mode == COMPILED:
        copy = Work(COPY, 33_000, Kind.MEMCPY, {"bytes": count}, "cudaMemcpyAsync")
        scalars = [square, square, square, [], [], square]
        return _compiled((Call("aten::addmm", scalars, [BF16] * 3 + ["Scalar"] * 2 + [BF16], work=(copy, gemm)),))
    product = Call("aten::mm", [square, square], [BF16, BF16], work=(gemm,))
    add = Work(ADD, 64_000, args=_shape(16384, 128))
    return (
        Call("aten::matmul", [square, square], [BF16, BF16], inside=(product,)),
        Call("aten::add", [square, square, []], [BF16, BF16, "Scalar"], work=(add,)),
    )


def linear(mode: str = EAGER, steps: int = 3, jitter: float = 0.01, seed: int = 0) -> Trace:
    """A linear layer: one kernel either way, and `aten::t` in eager mode alone."""
    return _trace(record("linear_fwd", linear_calls(mode), steps, jitter, seed))


def linear_calls(mode: str) -> tuple[Call, ...]:
    """One forward pass."""
    dims, types = [[64], [1024, 32], [32, 64], [], []], [BF16] * 3 + ["Scalar"] * 2
    gemm = Work(LINEAR_GEMM, 5_000, args=_shape(64, 32), asks=True)
    if mode == COMPILED:
        out = Call("aten::addmm", [*dims, [1024, 64]], [*types, BF16], work=(gemm,))
        return _compiled((out,))
    views = _views([64, 32], "t")
    return (Call("aten::linear", inside=(*views, Call("aten::addmm", dims, types, work=(gemm,)))),)


def split_stack(mode: str = EAGER, steps: int = 3, jitter: float = 0.01, seed: int = 0) -> Trace:
    """16 inputs normalised and squashed one by one, then stacked: 36 kernels, compiled 19."""
    return _trace(record("split_stack", _stack_calls(mode, 16), steps, jitter, seed))


def combined(mode: str = EAGER, steps: int = 3, jitter: float = 0.01, seed: int = 0) -> Trace:
    """The same in one go: 5 kernels, compiled 4."""
    return _trace(record("combined", _stack_calls(mode, 1), steps, jitter, seed))


def _stack_calls(mode: str, parts: int) -> tuple[Call, ...]:
    rows = 16 * 1024 // parts
    dims, many = [rows, 256], parts > 1
    tail = [_stack_linear(mode)]
    if mode == COMPILED:
        name = "triton_per_fused_native_layer_norm_tanh_0" if many else "triton_per_fused_native_layer_norm_tanh_view_0"
        fused = Work(name, 5_000 if many else 11_000, args=_shape(rows, 64), call="cuLaunchKernel")
        relu = Work("triton_poi_fused_relu_1", 3_000, args=_shape(64, 128), call="cuLaunchKernel")
        calls = [Call(name, [dims, dims, []], [F32, F32, "Scalar"], work=(fused,)) for _ in range(parts)]
        last = Call("triton_poi_fused_relu_1", [[16384], []], [F32, "Scalar"], work=(relu,))
        return _compiled((*calls, *tail, last))
    one = (
        Call("aten::native_layer_norm", [dims, [], [], [], []], [F32, "", "", "", ""], work=(_norm(many, rows),)),
        Call("aten::tanh", [dims], [F32], work=(Work(TANH, 4_000 if many else 8_000, args=_shape(rows // 4, 128)),)),
    )
    stack = Call("aten::cat", [[dims] * parts, []], ["TensorList", "Scalar"], work=(Work(CAT, 13_000),))
    relu = Work(RELU, 3_000, args=_shape(32, 128))
    clamp = Call("aten::clamp_min", [[16384, 1], []], [F32, "Scalar"], work=(relu,))
    last = Call("aten::relu", [[16384, 1]], [F32], 2_000, (clamp,))
    return *one * parts, *([stack] if many else []), *tail, last


def _norm(many: bool, rows: int) -> Work:
    return Work(NORM, 6_000 if many else 43_000, args=_shape(rows, 128))


def _stack_linear(mode: str) -> Call:
    dims = [[1], [16384, 256], [256, 1], [], []]
    copy, gemv = Work(BIAS_COPY, 4_000, args=_shape(64, 128)), Work(GEMV, 8_000, args=_shape(2048, 128))
    inner = Call("aten::copy_", [[16384, 1], [16384, 1], []], [F32, F32, "Scalar"], work=(copy,))
    return Call("aten::addmm", dims, [F32] * 3 + ["Scalar"] * 2, inside=(inner,), work=(gemv,))


def attention(variant: str = "naive", steps: int = 3, jitter: float = 0.01, seed: int = 0) -> Trace:
    """Attention of 8 x 16 heads, 1024 long and 64 wide: `naive`, `in-place` or `flash`."""
    return _trace(record("attn_fwd", _attention_calls(variant), steps, jitter, seed))


def _attention_calls(variant: str) -> tuple[Call, ...]:
    heads, scores, mask = [128, 1024, 64], [8, 16, 1024, 1024], [1024, 1024]
    if variant == "flash":
        kernel = Work(FLASH, 146_800, args={"grid": [8, 8, 16], "block": [128, 1, 1], "registers per thread": 255})
        four = [8, 16, 1024, 64]
        return (Call("aten::_flash_attention_forward", [four] * 3, [BF16] * 3, work=(kernel,)),)
    copy = Work(COPY, 170_000, Kind.MEMCPY, {"bytes": 268_435_456}, "cudaMemcpyAsync")
    fill = Work(MASKED_FILL, 420_000, args=_shape(65536, 128))
    dims = [scores, mask, []]
    filled = Call("aten::masked_fill_", dims, [BF16, "bool", "Scalar"], work=(fill,))
    if variant == "naive":
        inner = Call("aten::copy_", [scores, scores, []], [BF16, BF16, "Scalar"], work=(copy,))
        filled = Call("aten::masked_fill", dims, [BF16, "bool", "Scalar"], inside=(inner, filled))
    first, last = (Work(name, dur, asks=True) for name, dur in zip(BMM, (180_000, 150_000), strict=True))
    softmax = Work(SOFTMAX, 330_000, args=_shape(32768, 128))
    return (
        Call("aten::bmm", [heads, [128, 64, 1024]], [BF16, BF16], work=(first,)),
        Call("aten::mul", [scores, []], [BF16, "Scalar"], work=(Work(MUL, 320_000, args=_shape(65536, 128)),)),
        filled,
        Call("aten::_softmax", [scores, [], []], [BF16, "Scalar", "Scalar"], work=(softmax,)),
        Call("aten::bmm", [[128, 1024, 1024], heads], [BF16, BF16], work=(last,)),
    )


def _trace(events: list[Event]) -> Trace:
    return make_trace(events, (A100,))


def _shape(grid: int, block: int) -> dict[str, list[int]]:
    return {"grid": [grid, 1, 1], "block": [block, 1, 1]}


def _product(left: list[int], right: list[int], name: str, dur: int) -> Call:
    work = Work(name, dur, args=_shape(left[0] // 128 * (right[1] // 128), 256), asks=True)
    return Call("aten::mm", [left, right], [BF16, BF16], work=(work,))


def _into(product: Call) -> Call:
    """A product as compiled code calls it: its result is among the inputs."""
    dims = product.dims or ()
    return replace(product, dims=[*dims, [dims[0][0], dims[1][1]]], types=[*(product.types or ()), BF16])


def _linear(product: Call, rank: int) -> Call:
    """A linear layer without a bias around a product: six names of which one reaches the GPU."""
    dims = product.dims or ()
    batched = [64, dims[0][0] // 64, dims[0][1]] if rank > 2 else dims[0]
    inner = (
        Call("aten::reshape", [batched], [BF16], 2_000, (Call("aten::view", [batched], [BF16], 1_000),)),
        product,
        Call("aten::_unsafe_view", [[dims[0][0], dims[1][1]]], [BF16], 1_000),
    )
    matmul = Call("aten::matmul", [batched, dims[1]], [BF16, BF16], inside=inner)
    return Call("aten::linear", [batched, dims[1][::-1]], [BF16, BF16], inside=(*_views(dims[1][::-1], "t"), matmul))


def _views(dims: list[int], name: str) -> tuple[Call, ...]:
    strided = Call("aten::as_strided", [dims], [BF16], 1_000)
    return (
        Call(f"aten::{name}", [dims], [BF16], 2_000, (Call("aten::transpose", [dims], [BF16], 2_000, (strided,)),)),
    )


def _compiled(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """What torch.compile puts around a compiled graph."""
    graph = Call("## Call CompiledFxGraph f57trjty6d3dozgoza ##", own=20_000, inside=calls, kind=Kind.ANNOTATION)
    region = Call(
        "Torch-Compiled Region: 0/0",
        own=30_000,
        inside=(Call("Pregraph bytecode", own=2_000), Call("AOTDispatcher Runtime Wrapper Prologue", own=3_000), graph),
    )
    return Call("TorchDynamo Cache Lookup", own=25_000), region
