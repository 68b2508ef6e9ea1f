"""Every example name of the kernel-name families F1 to F16, with the fields it must give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tracetui.kernel_names import Family, decode
from tracetui.kernel_names.decoded import Decoded
from tracetui.kernel_names.text import name_parts
from tracetui.kernel_names.wording import sentence_of

ARGS = "(ncclDevKernelArgsStorage<4096ul>)"
FUNCTOR = "void at::native::vectorized_elementwise_kernel<4, at::native::"
TRAITS = "pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>"

MEMORY: list[tuple[str, dict[str, Any]]] = [
    ("Memcpy HtoD (Pageable -> Device)", {"operation": "memcpy", "op": "H2D", "flags": ("pageable",)}),
    ("Memcpy DtoH (Device -> Pageable)", {"operation": "memcpy", "op": "D2H", "flags": ("pageable",)}),
    ("Memcpy DtoD (Device -> Device)", {"operation": "memcpy", "op": "D2D", "flags": (), "warnings": ()}),
    ("Memset (Device)", {"operation": "memset", "family": Family.COPY}),
    ("CopyDeviceToHost", {"operation": "memcpy", "op": "D2H", "vendor": "AMD"}),
    ("FillBuffer", {"operation": "memset", "vendor": "AMD"}),
]
COLLECTIVES = [
    (
        f"ncclDevKernel_AllReduce_Sum_f32_RING_LL{ARGS}",
        {"op": "AllReduce", "a": "f32", "flags": ("ring family", "sum")},
    ),
    (f"ncclDevKernel_AllGather_RING_LL{ARGS}", {"op": "AllGather", "a": None}),
    ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", {"op": "ReduceScatter", "a": "bf16"}),
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", {"op": "AllReduce", "a": "f32"}),
    (
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
        {"operation": "send/recv", "a": None},
    ),
    (f"ncclDevKernel_Generic{ARGS}", {"op": "Generic", "a": None}),
    ("multimem_all_reduce_kernel<c10::BFloat16, 16>", {"op": "AllReduce", "a": "bf16"}),
    ("void vllm::cross_device_reduce_1stage<half, 8>(int)", {"op": "AllReduce", "a": "f16"}),
    ("deep_ep::intranode::dispatch<8>(int)", {"library": "DeepEP"}),
]
INDUCTOR = [
    (
        "triton_poi_fused__unsafe_view_gelu_mul_0",
        {"operation": "pointwise", "fused_ops": ("_unsafe_view", "gelu", "mul")},
    ),
    ("triton_poi_fused_addmm_gelu_view_17", {"fused_ops": ("addmm", "gelu", "view"), "index": 17}),
    (
        "triton_red_fused_add_addmm_mul_native_layer_norm_split_unsqueeze_view_18",
        {
            "operation": "reduction",
            "fused_ops": ("add", "addmm", "mul", "native_layer_norm", "split", "unsqueeze", "view"),
        },
    ),
    (
        "triton_per_fused__to_copy_addmm_mean_pow_view_7",
        {"operation": "persistent reduction", "fused_ops": ("_to_copy", "addmm", "mean", "pow", "view")},
    ),
    (
        "triton_poi_fused__scaled_dot_product_flash_attention_cat_transpose_view_10",
        {"fused_ops": ("_scaled_dot_product_flash_attention", "cat", "transpose", "view"), "family": Family.POINTWISE},
    ),
    (
        "triton_tem_fused__to_copy_addmm_gelu_t_view_9",
        {"operation": "gemm", "fused_ops": ("_to_copy", "addmm", "gelu", "t", "view"), "tensor_core": True},
    ),
    (
        "triton_tem_fused_flex_attention_backward_zeros_3",
        {"operation": "attention", "op": "backward", "fused_ops": ("flex_attention_backward", "zeros")},
    ),
    ("triton__0d1d2d3d4de", {"library": "Inductor", "fused_ops": (), "family": Family.POINTWISE}),
    ("triton__0d1d2d3de4de", {"fused_ops": (), "family": Family.REDUCTION}),
    ("triton_poi_fused_0", {"operation": "pointwise", "fused_ops": (), "index": 0, "unknown": ()}),
    ("triton_", {"library": "Inductor", "operation": "fused"}),
    ("triton_fused_add_mul_0", {"fused_ops": ("add", "mul"), "operation": "fused"}),
    ("aoti_model_triton_poi_fused_add_1", {"fused_ops": ("add",), "index": 1}),
    (
        "triton_per_fused_Linear_layer_norm_tanh_view_0_0d1d2d3d4d",
        {"fused_ops": ("Linear", "layer_norm", "tanh", "view")},
    ),
    ("triton_poi_fused_never_heard_of_this_3", {"fused_ops": (), "unknown": ("never_heard_of_this",)}),
]
USERS = [
    (
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu",
        {"a": "bf16", "b": "mxfp4", "out": "bf16", "tile": (128, 128, 128), "split_k": False, "epilogue": ("swiglu",)},
    ),
    ("_geglu_tanh_forward_kernel", {"family": Family.POINTWISE, "library": "Triton"}),
    ("_topk_forward", {"operation": "sort"}),
    ("rotary_kernel", {"family": Family.POINTWISE}),
    ("fused_moe_kernel", {"family": Family.GEMM}),
    ("my_own_kernel", {"operation": "unknown", "family": Family.OTHER, "unknown": ("my_own_kernel",), "library": None}),
]
ATTENTION = [
    (
        f"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
        f"cutlass::bfloat16_t, {TRAITS} >, false, true, false, false, false, true, "
        f"false>(pytorch_flash::Flash_fwd_params)",
        {"op": "forward", "head": 64, "tile": (128, 128), "warps": 4, "a": "bf16", "flags": ("causal", "even K")},
    ),
    (
        "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8, "
        "2, 4, 2, false, "
        "false, cutlass::half_t>, true, false, false, false, false, true, false>(flash::Flash_bwd_params)",
        {"op": "backward", "head": 128, "tile": (64, 128), "warps": 8, "a": "f16", "flags": ("dropout", "even K")},
    ),
    (
        "void flash::compute_attn_ws<Flash_fwd_kernel_traits<192, 128, 128, 12, 2, false, 1, "
        "cutlass::bfloat16_t, 128>, "
        "true, flash::SingleTileScheduler, flash::SeqLenTraits<true> >",
        {
            "head": 192,
            "tile": (128, 128),
            "warps": 12,
            "stages": 2,
            "flags": ("causal", "varlen", "value heads of 128"),
        },
    ),
    (
        "void cutlass::device_kernel<flash::FlashAttnBwd<flash::CollectiveMainloopBwd<2, cute::tuple<cute::C<1>, "
        "cute::C<1>, cute::C<1> >, cute::tuple<cute::C<64>, cute::C<128>, cute::C<192> >, cutlass::bfloat16_t, float, "
        "cutlass::arch::Sm90, true, true, false> > >(Params)",
        {"op": "backward", "tile": (64, 128, 192), "a": "bf16", "flags": ("causal",), "arch": "sm90"},
    ),
    (
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
        {"op": "forward", "a": "bf16", "tile": (64, 64), "arch": "sm80"},
    ),
    (
        "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_6_128x64x64_4x1x1_cga1x1x1_kernel0_0",
        {"op": "forward", "a": "16-bit", "tile": (128, 64), "head": 64, "warps": 4},
    ),
    (
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x1x1_kernel0_0",
        {"op": "backward", "head": 128, "arch": "sm90"},
    ),
    (
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
        {"a": "f8e4m3", "out": "bf16", "head": 64, "tile": (128, 128), "arch": "sm100a", "unknown": ()},
    ),
    ("aiter::fmha_fwd_hd128_bf16_rtz", {"head": 128, "a": "bf16", "vendor": "AMD", "op": "forward"}),
    ("attn_fwd", {"family": Family.ATTENTION, "op": "forward"}),
    ("kernel_unified_attention_2d", {"family": Family.ATTENTION}),
]
NVJET = [
    (
        "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN",
        {
            "a": "bf16", "acc": "f32", "out": "bf16", "tile": (144, 128, 64), "stages": 6, "cluster": (2, 1),
            "epilogue": ("bias",), "layout": "tn", "split_k": False, "columns_first": True,
        },
    ),
    (
        "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT",
        {"tile": (64, 64, 64), "stages": 16, "cluster": (2, 1), "flags": ("2-CTA", "vertical raster"), "layout": "tn"},
    ),
    (
        "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT",
        {"a": "f16", "out": "f16", "tile": (256, 128, 64), "stages": 4, "cluster": (1, 2), "layout": "nn"},
    ),
    (
        "nvjet_sm90_hss_64x8_64x16_1x1_h_bz_splitK_NNT",
        {"arch": "sm90", "a": "f16", "out": "f32", "tile": (64, 8, 64), "stages": 16, "split_k": True, "layout": "nn"},
    ),
    (
        "nvjet_qqtst_128x256_128x6_2x2_2cta_h_bz_Avec32UE8M0_Bvec32UE8M0_TNT",
        {"a": "f8", "b": "f8", "acc": "f32", "out": "bf16", "tile": (128, 256, 128), "stages": 6, "cluster": (2, 2)},
    ),
]  # fmt: skip
CUTLASS = [
    (
        "cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_64x64x16_1x1x1_3_tnn_align1_bias_f32_relu",
        {
            "arch": "sm100", "a": "f32", "tile": (64, 64, 16), "stages": 3, "layout": "tn", "epilogue": ("bias",),
            "flags": ("relu-capable",), "tensor_core": False, "unknown": (),
        },
    ),
    (
        "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64_1x1x1_0_tnn_align8_warpspecialized_"
        "pingpong_epi_tma",
        {
            "instruction": "64x128x16", "a": "bf16", "b": "bf16", "acc": "f32", "out": "bf16", "tile": (128, 128, 64),
            "cluster": (1, 1, 1), "stages": None, "flags": ("warp specialised", "pingpong", "TMA epilogue"),
            "tensor_core": True,
        },
    ),
    (
        "void cutlass::device_kernel<cutlass3x_sm90_tensorop_s64x256x16gemm_f16_f16_f32_void_f16_128x256x64_2"
        "x1x1_0_tnn_"
        "align8_warpspecialized_cooperative_epi_tma>(Params)",
        {"a": "f16", "tile": (128, 256, 64), "cluster": (2, 1, 1), "library": "CUTLASS 3.x"},
    ),
    (
        "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8",
        {
            "arch": "sm80", "instruction": "16x16x16", "a": "bf16", "acc": "f32", "out": "bf16", "tile": (32, 32, 32),
            "stages": 1, "layout": "tn", "align": 8, "tensor_core": True,
        },
    ),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(P::Params)",
        {"instruction": "16x8x16", "a": "bf16", "tile": (64, 64, 64), "stages": 6, "flags": ("relu-capable",)},
    ),
    (
        "cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4",
        {"a": "tf32", "acc": "f32", "out": "f32", "instruction": "16x8x8", "tile": (64, 64, 16), "layout": "nt"},
    ),
    (
        "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1",
        {
            "tile": (128, 128), "stages": None, "align": 1,
            "warnings": ("align 1: misaligned shapes, slow path",),
        },
    ),
    (
        "cutlass_80_simt_sgemm_128x32_8x5_nn_align1",
        {"a": "f32", "tile": (128, 32, 8), "stages": 5, "tensor_core": False, "warnings": ()},
    ),
    (
        "cutlass_tensorop_s1688fprop_optimized_tf32_128x128_32x4_nhwc_align4",
        {
            "operation": "convolution", "op": "forward",
            "a": "tf32", "tile": (128, 128, 32), "stages": 4, "layout": "nhwc",
        },
    ),
]  # fmt: skip
CASK = [
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
        "_kernel__5x_"
        "cublas",
        {"a": "bf16", "tile": (128, 128, 64), "layout": "tn", "flags": ("1 warpgroup",), "split_k": False},
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize256x128x64_warpgroupsize2x1x1_execute_segment_k_off"
        "_kernel__5x_"
        "cublas",
        {"tile": (256, 128, 64), "flags": ("2 warpgroups",), "tensor_core": True, "columns_first": False},
    ),
    (
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_"
        "warpsize2x2x1_g1_tensor16x8x8_alignc4_execute_kernel_cudnn",
        {
            "operation": "convolution", "op": "forward", "a": "tf32", "tile": (128, 128, 16), "stages": 4, "warps": 4,
            "instruction": "16x8x8", "layout": "nchw",
        },
    ),
    (
        "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_"
        "warpsize2x2x1_g1_tensor16x8x8_execute_split_k_kernel_cudnn_train",
        {"op": "wgrad", "split_k": True},
    ),
    (
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn",
        {"a": "bf16", "acc": "f32", "out": "bf16", "instruction": "16x8x16", "tile": (128, 256, 64), "stages": 3},
    ),
    (
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
        {"tile": (128, 128, 32), "stages": 5, "layout": "tn"},
    ),
    (
        "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_relu_f2f_stages_64x6_tn",
        {"a": "f16", "tile": (64, 64, 64), "stages": 6, "vector": 8},
    ),
    ("ampere_sgemm_128x64_nn", {"a": "f32", "tile": (128, 64), "tensor_core": False, "layout": "nn"}),
    ("volta_sgemm_32x32_sliced1x4_tn", {"a": "f32", "tile": (32, 32), "flags": ("sliced-K 4",)}),
    ("ampere_gcgemm_64x64_nt", {"a": "c64", "flags": ("Gaussian complex (3 products)",), "layout": "nt"}),
    (
        "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
        {"operation": "convolution", "a": "f32", "tensor_core": False},
    ),
    (
        "_5x_cudnn_volta_scudnn_128x64_relu_interior_nn_v1",
        {"library": "cuDNN SASS", "operation": "convolution", "a": "f32", "tensor_core": False},
    ),
    ("_9x_cublas_ampere_sgemm_128x32_tn", {"library": "cuBLAS SASS", "a": "f32", "layout": "tn"}),
    (
        "_5x_cudnn_sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_"
        "warpsize1x2x1_g1_ffma_aligna4_alignc4_execute_kernel__5x_cudnn",
        {"operation": "convolution", "a": "f32", "tensor_core": False},
    ),
    ("volta_h884gemm_64x64_ldg8_nn", {"a": "f16", "acc": "f16", "instruction": "8x8x4", "tensor_core": True}),
]  # fmt: skip
HELPERS = [
    (
        "void cublasLt::splitKreduce_kernel<32, 16, int, __nv_bfloat16, __nv_bfloat16, float, __nv_bfloat16, "
        "true, true, "
        "false>(cublasLt::cublasSplitKParams<float>)",
        {"op": "split-K reduce", "a": "bf16", "operation": "gemm helper", "tensor_core": False},
    ),
    (
        "void splitKreduce_kernel<float, float, float, float, true, false, false>(cublasSplitKParams<float>)",
        {"op": "split-K reduce", "a": "f32"},
    ),
    (
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, "
        "false, false, "
        "cublasGemvParamsEx<int> >(P)",
        {"operation": "gemv", "op": "transposed", "a": "bf16", "acc": "f32", "threads": 128},
    ),
    (
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, "
        "__nv_bfloat16, float, false, true, true, false, 7, false, P>(P)",
        {"operation": "gemv", "a": "bf16", "acc": "f32"},
    ),
    ("void gemmk1_kernel<float, 256, 5, false>(P)", {"operation": "gemm", "op": "depth 1", "a": "f32", "threads": 256}),
]
ROCM = [
    (
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT320x224x64_MI16x16x1_SN_LDSB1_ISA942_IU1_MIWT5_14_SK0_WG64_4_1",
        {
            "layout": "tn", "a": "bf16", "acc": "f32", "out": "bf16", "tile": (320, 224, 64), "instruction": "16x16",
            "arch": "gfx942", "threads": 256, "flags": ("bias-capable", "wave tile 5x14"), "tensor_core": True,
        },
    ),
    (
        "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT128x160x64_MI16x16x1_SN",
        {"a": "bf16", "out": "bf16", "acc": "f32", "tile": (128, 160, 64), "layout": "tn"},
    ),
    (
        "Cijk_Ailk_Bjlk_BBS_BH_Bias_HAS_SAV_UserArgs_MT128x64x32_MI32x32x1_SN_ISA90a_IU1",
        {"layout": "nt", "arch": "gfx90a", "tile": (128, 64, 32), "instruction": "32x32"},
    ),
    (
        "Cijk_Ailk_Bljk_BBS_BH_MT256x256x32_MI32x32x8_SN_GSU1_GSUASB_WG128_2_1_WGM32",
        {"layout": "nn", "tile": (256, 256, 32), "split_k": False, "threads": 256},
    ),
    ("Cijk_Ailk_Bljk_S_B_Bias_MT64x64x16_MI32x32x2_SN", {"a": "f32", "out": "f32"}),
    (
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_wr2x2_ta1x8x2x1_1x4x1x64_gkgs",
        {"op": "forward", "arch": "gfx942", "a": "bf16", "layout": "nhwc", "tile": (128, 128, 32), "split_k": True},
    ),
    (
        "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt64x64x64_wt32x32x8_ws1x1_gkgs",
        {"operation": "convolution", "op": "wgrad", "tile": (64, 64, 64)},
    ),
    (
        "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdI",
        {"operation": "norm", "op": "rms_norm forward", "library": "ck_tile"},
    ),
    (
        "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS_8sequenceIJLi128ELi128ELi32ELi"
        "128ELi32ELi128"
        "EEEDF16b",
        {"operation": "attention", "op": "prefill paged KV", "a": "bf16", "tile": (128, 128), "head": 128},
    ),
    (
        "void ck::tensor_operation::device::kernel_grouped_conv_fwd_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<"
        "unsigned short, unsigned short, float, unsigned short, ck::tensor_operation::element_wise::PassThrough, "
        "(ck::tensor_operation::device::GemmSpecialization)7, 256, 128, 128, 64, 8, 8, 32, 32> >(P)",
        {"operation": "convolution", "op": "forward", "threads": 256, "tile": (128, 128, 64), "a": "bf16"},
    ),
]  # fmt: skip
CUDNN = [
    (
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(P)",
        {"operation": "norm", "op": "batch_norm forward", "a": "f32"},
    ),
    ("void cudnn::bn_bw_1C11_singleread<float, 512, true, 1, 2, 0>(P)", {"op": "batch_norm backward"}),
    (
        "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(P)",
        {"operation": "layout conversion", "op": "NCHW to NHWC", "a": "f16", "family": Family.COPY},
    ),
    (
        "void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, true, true>(P)",
        {"operation": "convolution", "a": "f32", "tensor_core": False},
    ),
    (
        "cask_cudnn_infer::computeOffsetsKernel(cask_cudnn_infer::ComputeOffsetsParams)",
        {"operation": "convolution helper"},
    ),
]
NATIVE = [
    (
        FUNCTOR + "CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
        {"op": "add", "a": "f32", "vector": 4, "flags": ("2 inputs",), "inferred": frozenset()},
    ),
    (
        FUNCTOR + "GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const"
        "::{lambda()#3}::operator()() const::{lambda(c10::Half)#1}, std::array<char*, 2ul> >(int)",
        {"op": "gelu", "a": "f16", "vector": 4, "flags": ("1 input",)},
    ),
    (
        "void at::native::elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl_nocast<at::native::"
        "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
        "const::{lambda()#12}::operator()() "
        "const::{lambda(c10::BFloat16)#1}>(at::TensorIteratorBase&, int)::{lambda(int, bool)#1}>(int)",
        {"op": "copy", "a": "bf16", "flags": ("strided",), "family": Family.COPY},
    ),
    (
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
        "::{lambda()#3}::operator()() const::{lambda()#4}::operator()() const::{lambda(long)#1}, "
        "std::array<char*, 2ul>, 4, "
        "TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1> >(int)",
        {"op": "copy", "out": "i64", "a": None},
    ),
    (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, "
        "float, float, float>, "
        "unsigned int, float, 4, 4> >(int)",
        {"op": "mean", "a": "f32", "threads": 512, "family": Family.REDUCTION},
    ),
    (
        "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, "
        "at::native::func_wrapper_t<c10::BFloat16, "
        "at::native::sum_functor<c10::BFloat16, float, c10::BFloat16>::operator()(at::TensorIterator&)::{lamb"
        "da(float, float)"
        "#1}>, unsigned int, c10::BFloat16, 4, 4> >(int)",
        {"op": "sum", "a": "bf16", "acc": "f32", "out": "bf16"},
    ),
    (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)",
        {"op": "layer_norm", "a": "bf16", "acc": "f32"},
    ),
    (
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous "
        "namespace)::OpaqueType<2u>, "
        "unsigned int, 3, 64, 64>(int)",
        {"op": "cat", "a": "2-byte"},
    ),
    (
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16, "
        "at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(int)",
        {"op": "softmax", "a": "bf16", "vector": 8},
    ),
    (
        FUNCTOR
        + "BUnaryFunctor<c10::BFloat16, c10::BFloat16, bool, at::native::(anonymous namespace)::CompareEqFunctor<"
        "c10::BFloat16> >, std::array<char*, 2ul> >(int)",
        {"op": "eq/ne", "a": "bf16", "out": "bool", "flags": ("scalar", "1 input")},
    ),
    (
        FUNCTOR + "(anonymous namespace)::where_kernel_impl(at::TensorIterator&)::{lambda()#1}::operator()() const"
        "::{lambda(bool, c10::BFloat16, c10::BFloat16)#1}, std::array<char*, 4ul> >(int)",
        {"op": "where", "a": "bf16", "flags": ("3 inputs",)},
    ),
    (
        FUNCTOR
        + "bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int)",
        {"op": "cast", "a": "f32", "out": "bf16"},
    ),
    (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
        "::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
        "(at::native::ADAM_MODE)0, false>, float const*>(int)",
        {"operation": "optimizer", "op": "fused_adam", "a": "f32"},
    ),
    (
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)",
        {"operation": "gather", "a": None},
    ),
    *(
        (
            f"void at::native::(anonymous namespace)::{kernel}<float>(long, float const*, float*)",
            {"operation": "norm", "op": op, "family": Family.REDUCTION, "a": "f32"},
        )
        for kernel, op in (
            ("ComputeFusedParamsCUDAKernel", "group_norm"),
            ("ComputeInternalGradientsCUDAKernel", "group_norm backward"),
            ("ComputeBackwardFusedParamsCUDAKernel", "group_norm backward"),
            ("Compute1dBackwardFusedParamsCUDAKernel", "group_norm backward"),
            ("GammaBeta1dBackwardCUDAKernel2", "group_norm wgrad"),
            ("GammaBetaBackwardCUDAKernel1", "group_norm wgrad"),
            ("GammaBetaBackwardSimpleCUDAKernel", "layer_norm wgrad"),
            ("GammaBetaBackwardCUDAKernelTemplate", "layer_norm wgrad"),
        )
    ),
    ("void at::native::some_new_kernel<c10::Half>(int)", {"operation": "pytorch", "op": "some_new", "a": "f16"}),
]
CUB = [
    (
        "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, float, int>::Policy800, "
        "false, long>(int)",
        {"operation": "sort", "op": "RadixSortOnesweep", "a": "i64", "b": "f32"},
    ),
    (
        "void at_cuda_detail::cub::DeviceScanKernel<at_cuda_detail::cub::AgentScanPolicy<128, 15, int>, int*, int*, "
        "at_cuda_detail::cub::ScanTileState<int, true> >(int)",
        {"operation": "scan", "a": "i32"},
    ),
    (
        "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust::cuda_cub"
        "::__fill::functor<float> > >(int)",
        {"library": "thrust"},
    ),
]
ALL = [
    *MEMORY, *COLLECTIVES, *INDUCTOR, *USERS, *ATTENTION, *NVJET, *CUTLASS,
    *CASK, *HELPERS, *ROCM, *CUDNN, *NATIVE, *CUB,
]  # fmt: skip


@pytest.mark.parametrize(("name", "fields"), ALL, ids=lambda value: value[:60] if isinstance(value, str) else "")
def test_example(name, fields):
    found = decode(name)
    assert {field: getattr(found, field) for field in fields} == fields


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (
            "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN",
            "A bf16 matrix product (GEMM) by cuBLAS nvjet: tiles of 144x128 outputs",
        ),
        ("nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", "64 along K, 6 stages"),
        ("nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", "x @ W.T as in Linear's forward; bias added"),
        ("nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", "Not understood: bz, N (third letter of TNN)."),
        (COLLECTIVES[0][0], "RING LL is only the entry point"),
        (CUTLASS[6][0], "Align 1: misaligned shapes, slow path."),
        (CUTLASS[4][0], "relu-capable"),
        (MEMORY[1][0], "Pageable: staged and synchronous"),
        ("triton_poi_fused_addmm_gelu_view_17", "The work of addmm runs in a kernel of its own"),
        (HELPERS[0][0], "Belongs to the GEMM before it"),
        ("rotary_kernel", "Likely, not certain: family, library, operation."),
    ],
)
def test_sentence(name, part):
    assert part in decode(name).sentence


TENSOR_CORES = [*NVJET, CUTLASS[1], CUTLASS[5], CASK[0], CASK[2], CASK[4], *ATTENTION[:8], ROCM[0], ROCM[5]]
NO_TENSOR_CORES = ["ampere_sgemm_128x64_nn", CUTLASS[0][0], CUTLASS[7][0], CASK[10][0], HELPERS[0][0], HELPERS[2][0]]


@pytest.mark.parametrize("name", [name for name, _ in TENSOR_CORES], ids=lambda name: name[:50])
def test_on_matrix_units(name):
    assert decode(name).tensor_core is True


@pytest.mark.parametrize("name", NO_TENSOR_CORES, ids=lambda name: name[:50])
def test_not_on_matrix_units(name):
    assert decode(name).tensor_core is False


def test_confidence_of_a_field():
    found = decode("nvjet_qqtst_128x256_128x6_2x2_2cta_h_bz_TNT")
    assert found.confidence("tile") == "exact"
    assert found.confidence("out") == "inferred"
    assert found.confidence("epilogue") is None


@pytest.mark.parametrize(
    ("name", "rows", "columns", "tiles"),
    [
        ("nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", 888, 2880, 140),
        (ROCM[0][0], 15360, 4096, 897),
        ("ampere_fp16_s16816gemm_fp16_128x256_ldg8_f2f_stages_64x3_tn", 8192, 6400, 50 * 32),
        ("my_own_kernel", 10, 10, None),
    ],
)
def test_tiles_that_cover_an_output(name, rows, columns, tiles):
    """The first two are the measured targets: a grid of 140 on H100, 229,632 work items of 256 on MI300X."""
    assert decode(name).tiles(rows, columns) == tiles


def test_custom_operators_extend_the_vocabulary():
    name = "triton_poi_fused_add_my_special_op_2"
    assert decode(name).fused_ops == ()
    assert decode(name, custom_ops=frozenset({"my_special_op"})).fused_ops == ("add", "my_special_op")


@pytest.mark.parametrize(
    "field", [field for field in Decoded.__dataclass_fields__ if field not in ("inferred", "short", "sentence")]
)
def test_what_is_likely_is_called_by_words_and_not_by_a_field_of_the_code(field):
    decoded = Decoded(family=Family.OTHER, operation="x")
    values: dict[str, Any] = {field: "x" if field in ("family", "operation") else ("x",)}
    found = replace(decoded, **values, inferred=frozenset({field}), sentence="A kernel.")
    words = sentence_of(found, name_parts("x")).partition("Likely, not certain: ")[2].partition(".")[0].split()
    assert words and not {"a", "b", "out", "acc", "op", "arch", "align", "flags"} & set(words)
