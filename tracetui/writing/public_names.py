"""Names that are public: what PyTorch, CUDA, ROCm and their libraries call things.

A name is public when all of it is made of words from these tables. What is missing here is taken for a user's own and
replaced, which costs a name that could have stayed; a wide table would give one away that should not have.
"""

from __future__ import annotations

import re
from functools import cache

from tracetui.kernel_names.inductor import operators
from tracetui.kernel_names.others import memory
from tracetui.kernel_names.text import name_parts

_CATEGORIES_TEXT = """
    cpu_op operator user_annotation user runtime kernel gpu_memcpy memcpy gpu_memset memset gpu_user_annotation
    cuda_runtime cuda_driver hip_runtime hip_driver xpu_runtime xpu_driver mtia_runtime cuda_sync xpu_sync cuda_event
    python_function overhead trace cpu_instant_event ac2g async_cpu_to_gpu async_gpu async launch fwdbwd
    forward_backward fwd_bwd collective_comm hardware_counters __metadata
    graph_event_node graph_host_node mtia_counters
"""
CATEGORIES = frozenset(_CATEGORIES_TEXT.split())
"""Categories and flows of the PyTorch profiler, in small letters."""

NAMESPACES = frozenset({"aten", "prim", "prims", "c10d", "_c10d_functional", "_c10d_functional_autograd"})
"""Namespaces of operators that are PyTorch's own."""

_PLAIN = frozenset(
    {
        "detach",
        "detach_",
        "record_param_comms",
        "CompiledFunction",
        "CompiledFunctionBackward",
        "TorchDynamo Cache Lookup",
        "Pregraph bytecode",
        "AOTDispatcher Runtime Wrapper Prologue",
        "Torch-Compiled Region",
        "DataParallel.forward",
        "DistributedDataParallel.forward",
        "FullyShardedDataParallel.forward",
        "PythonSubclass",
        "Iteration Start: PyTorch Profiler",
        "Record Window End",
        "EventRecord",
        "HostNode",
        "Memcpy",
        "Memset",
        "[memory]",
        "[OutOfMemory]",
        "[No name]",
        "INVALID",
    }
)
_PATTERNS = re.compile(
    r"ProfilerStep#\d+|PyTorch Profiler( \(-?\d+\))?|Torch-Compiled Region: \d+/\d+"
    r"|enumerate\(DataLoader\)#_(SingleProcess|MultiProcessing)DataLoaderIter\.__next__"
    r"|torch::autograd::(AccumulateGrad|CopySlices|GraphRoot|Error|NotImplemented)"
    r"|torch[.:]+distributed[.:\w]*reducer::(mul_out|copy_bucket_to_grad)"
    r"|Stream (Sync|Synchronize|Wait Event)|(Event|Context|Device) (Sync|Synchronize)"
    r"|Driver Compiler|Buffer Flush|Instrumentation|Resource|Runtime Triggered Module Loading|Lazy Function Loading"
    r"|Command Buffer Full|Activity Buffer Request|Unknown"
    r"|Power \(W\)|Temperature \(C\)|(SM|Memory) Clock \(MHz\)|Fan Speed \(%\)|Cycles \(Current Kernel\)"
    r"|SM Active( \(%\))?|(DRAM|HBM) BW( \(%\))?|HBM (Read|Write)( \(%\))?|PCIe( \(%\))?|NVLink [RT]X( \(%\))?"
    r"|(sm__(cycles_active|inst_executed|throughput)|dram__((read|write)_)?throughput|lts__throughput|pcie__throughput"
    r"|nvl[rt]x__bytes)(\.(avg|sum|min|max|per_second|pct_of_peak_(sustained|burst)_(active|elapsed)))*"
)
_OPERATOR = re.compile(r"(\w+)::\w+(\.\w+)?")
_NODE = re.compile(r"(?P<stem>[A-Za-z]\w*?)Backward\d*")
_COLLECTIVE = re.compile(
    r"(nccl|gloo|mpi|ucc|xccl|hccl):_?(all_?reduce|reduce|broadcast|all_?gather|reduce_?scatter|all_?to_?all|scatter"
    r"|gather|barrier|send|recv|coalesced|_base|_coalesced|_into_tensor|_tensor| |\d|->|<-)*"
)
_OPTIMIZER = re.compile(r"Optimizer\.(?:step|zero_grad)#(\w+)\.(?:step|zero_grad)")
_OPTIMIZER_TEXT = (
    "Adadelta Adafactor Adagrad Adam AdamW Adamax ASGD LBFGS Muon NAdam RAdam RMSprop Rprop SGD SparseAdam"
)
_OPTIMIZERS = frozenset(_OPTIMIZER_TEXT.split())
_CALL = re.compile(r"(cuda|cu|hip|hsa|nccl|xpu|ur|ze|mtia)[A-Z]\w*")
_VENDOR = re.compile(
    r"(ampere|volta|turing|maxwell|pascal|kepler|hopper|sm\d+)_(xmma_|\w*?(gemm|gemv|cudnn|wgrad|dgrad|fprop))\w*"
    r"|nvjet_(sm\d+_)?[a-z]{3}_\d\w*|cutlass(_\d+x?)?_(tensorop|simt|wmma)_\w+|Cijk_[A-Z]\w*_MT\d\w*"
    r"|igemm_(fwd|bwd|wrw)_\w+|__amd_rocclr_\w+|fmha_cutlass[FB]_\w+"
    r"|nccl(Symk?)?(Dev)?Kernel_\w+|nccl[A-Z]\w*|cu(blas|dnn|fft|sparse|solver|rand)\w*"
    r"|gemm(SN|k1|v\dN|2|NSP)\w*|gemvNSP\w*|gemv2[NT]_kernel\w*|splitKreduce_kernel|dot_kernel|reduce_1Block_kernel"
    r"|scal_kernel\w*|(im|ex)plicit_convolve_\w?gemm|kernel_(conv|grad)_params|nhwcAddPaddingKernel"
    r"|multi_tensor_apply_kernel|TensorListMetadata|elementwise_kernel_with_index|(Trivial)?OffsetCalculator"
    r"|triton_(_[\dde]+)?"
    r"|__nv_\w+|__half2?|__hip_bfloat16"
)
"""Kernels, and types in their names, of NVIDIA's and AMD's libraries."""

_ROOTS_TEXT = """
    at c10 std cub thrust cutlass cutlass__5x_cudnn cute cublasLt cublas cudnn cask_cudnn cufft at_cuda_detail
    rocprim hipcub __gnu_cxx
"""
ROOTS = frozenset(_ROOTS_TEXT.split())
"""Outermost C++ namespaces of PyTorch and of the libraries that it is built with."""
PATHS = ("internal::gemvx::", "epilogue::impl::")
"""Inner namespaces of libraries under an outermost one of a common name."""
_WORDS_TEXT = """
    void int float double bool char short long unsigned signed const volatile struct class enum operator auto decltype
    true false lambda instance anonymous namespace unnamed type clone kd isra part constprop half
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ptrdiff_t nullptr_t new delete
"""
WORDS = frozenset(_WORDS_TEXT.split())
"""Words of C++ and of its compilers."""

TEXTS = re.compile(
    r"|True|False|None|[-+\d.,eE\[\]() x]*|0x[0-9a-fA-F]+"
    r"|(unsigned |long |signed )*(char|short|int|long|float|double|half|bool|__half|__nv_bfloat16)"
    r"|c10::(complex<\w+>|Half|BFloat16|Float8_\w+|q?u?int\d+|ComplexHalf|Float4_\w+)|(u?int|float|bfloat|bool)\d*(_t)?"
    r"|Scalar|ScalarList|TensorList|GenericList|Tensor|Optional|Half|BFloat16|Byte|Char|Short|Int|Long|Float|Double|Bool"
    r"|nccl|gloo|mpi|ucc|triton|Dispatch (Kernel|Task)|[HDPA]to[HDPA]|Device|Host|WARPS|REGS|SMEM|BLOCKS|BARRIERS|none"
    r"|(_?all_?reduce|broadcast|all_?gather|reduce_?scatter|all_?to_?all|barrier|send|recv|wait|init)(_?base|v|_oop)?"
)
"""Values of arguments that say nothing about a program: numbers, types, kinds of copies and collectives."""


def is_public_text(text: str) -> bool:
    """Whether the value of an argument may stay."""
    return all(TEXTS.fullmatch(part) for part in text.split("|"))


def is_call(name: str) -> bool:
    """Whether a name is that of a runtime or driver call."""
    return name == "INVALID" or _CALL.fullmatch(name) is not None


def is_transfer(name: str) -> bool:
    """Whether a name is that of a copy or a fill by the driver."""
    return memory(name_parts(name)) is not None


def is_vendor_name(name: str) -> bool:
    """Whether an identifier is one of the kernels or types of a vendor's library."""
    return _VENDOR.fullmatch(name) is not None


def is_public_name(name: str) -> bool:
    """Whether PyTorch itself gives this name to operators, annotations, instants or its own cost."""
    if name in _PLAIN or _PATTERNS.fullmatch(name) or _COLLECTIVE.fullmatch(name):
        return True
    if found := _OPERATOR.fullmatch(name):
        return found[1] in NAMESPACES
    if found := _OPTIMIZER.fullmatch(name):
        return found[1] in _OPTIMIZERS
    found = _NODE.fullmatch(name)
    return found is not None and _letters(found["stem"]) in _operator_letters()


@cache
def _operator_letters() -> frozenset[str]:
    return frozenset(map(_letters, operators()))


def _letters(name: str) -> str:
    """A name without what differs between `native_layer_norm` and `NativeLayerNorm`."""
    return name.replace("_", "").lower()
