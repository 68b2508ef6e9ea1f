"""Families and short names as lanes and tables show them, on names that real traces hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, make_trace
from tracetui.kernel_names.slice_names import MAX_SHORT_NAME, Family, families, family, short_kernel
from tracetui.model.trace import Kind

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, "
KERNELS = [
    (
        ELEMENTWISE + "at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, float)",
        "add<bf16> vec4",
        Family.POINTWISE,
    ),
    (
        ELEMENTWISE + "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::"
        "MulFunctor<float> >, std::array<char*, 3ul> >(int, char*)",
        "mul<f32> vec4",
        Family.POINTWISE,
    ),
    (
        ELEMENTWISE + "at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}"
        "::operator()() const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int)",
        "silu<bf16> vec4",
        Family.POINTWISE,
    ),
    (
        "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::"
        "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}>(int)::{lambda(int)#1}>(int)",
        "copy<f32> strided",
        Family.COPY,
    ),
    (
        "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
        "at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float)#1}>, "
        "unsigned int, float, 4> >(at::native::ReduceOp<float>)",
        "sum<f32> reduce",
        Family.REDUCTION,
    ),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(Params)",
        "GEMM bf16 64x64x64 TN",
        Family.GEMM,
    ),
    ("ampere_sgemm_128x64_nn", "GEMM f32 128x64 NN", Family.GEMM),
    ("nvjet_sm103_tst_64x8_64x16_1x4_h_bz_TNT", "GEMM bf16 64x8x64 TN", Family.GEMM),
    (
        "void splitKreduce_kernel<float, float>(cublasSplitKParams<float>, cublasGemvTensor)",
        "split-K reduce<f32>",
        # It adds up the parts of the product before it, and its time belongs there.
        Family.GEMM,
    ),
    (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "NCCL AllReduce bf16 sum",
        Family.COMMUNICATION,
    ),
    (
        "triton_per_fused_add_native_layer_norm_3",
        "fused per(add,native_layer_norm) #3",
        Family.REDUCTION,
    ),
    ("triton_poi_fused_gelu_mul_0", "fused(gelu,mul) #0", Family.POINTWISE),
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "MemEffAttn fwd bf16", Family.ATTENTION),
    (
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128>, false>(Params)",
        "FlashAttn fwd",
        Family.ATTENTION,
    ),
    (
        "_ZN7cutlass13device_kernelIN2at4cuda6detail4gemm6kernel13GemmUniversalIiEEEEvv",
        "GEMM GemmUniversal",
        Family.GEMM,
    ),
    ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)", Family.COPY),
    ("my_own_kernel", "my_own_kernel", Family.OTHER),
]


@pytest.mark.parametrize(("name", "short", "kind_of_work"), KERNELS)
def test_kernels(name, short, kind_of_work):
    assert short_kernel(name) == short
    assert family(name, Kind.KERNEL) == kind_of_work


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.MEMCPY, Family.COPY),
        (Kind.MEMSET, Family.COPY),
        (Kind.CPU_OP, Family.OP),
        (Kind.RUNTIME, Family.RUNTIME),
        (Kind.ANNOTATION, Family.ANNOTATION),
        (Kind.PYTHON, Family.PYTHON),
        (Kind.OTHER, Family.OTHER),
    ],
)
def test_other_kinds_do_not_look_at_the_name(kind, expected):
    assert family("gemm", kind) == expected


@given(st.text(alphabet="abcK_:<>(){}[] ,0129Z*&~", max_size=80))
def test_no_name_is_too_odd(name):
    assert 0 < len(short_kernel(name)) <= MAX_SHORT_NAME
    assert family(name, Kind.KERNEL) in Family


def test_families_of_slices_are_those_of_their_names() -> None:
    kinds = [Kind.KERNEL, Kind.MEMCPY, Kind.CPU_OP, Kind.PYTHON, Kind.OTHER]
    names = [name for name, _, _ in KERNELS]
    trace = make_trace([Event(name, 10 * i, 5, kind) for i, name in enumerate(names) for kind in kinds])
    slices = trace.slices
    for rows in (np.arange(len(slices)), slices.of_kind(Kind.KERNEL)[::-1], np.empty(0, np.int64)):
        expected = [family(trace.name_of(row), Kind(slices.kind[row])) for row in rows.tolist()]
        assert families(trace, rows).tolist() == expected
