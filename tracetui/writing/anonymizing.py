"""Events with every name that is a user's own replaced by a stand-in: the same for the same name, and no way back.

Stand-ins are made with a secret, so that a name cannot be found by trying likely ones; whoever has the secret can
make two files with the same stand-ins. Fields that are not listed here are left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from tracetui.kernel_names.decode import decode
from tracetui.kernel_names.generated import memory, operators
from tracetui.kernel_names.text import name_parts
from tracetui.model.trace import Kind
from tracetui.reading.decode import decoded
from tracetui.reading.torch import kind_of

# Names that are public: what PyTorch, CUDA, ROCm and their libraries call things.
#
# A name is public when all of it is made of words from these tables. What is missing here is taken for a user's own
# and replaced, which costs a name that could have stayed; a wide table would give one away that should not have.

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


def is_public_name(name: str) -> bool:
    """True for a name that PyTorch itself gives to operators, annotations, instants or its own cost."""
    if name in _PLAIN or _PATTERNS.fullmatch(name) or _COLLECTIVE.fullmatch(name):
        return True
    if match := _OPERATOR.fullmatch(name):
        return match[1] in NAMESPACES
    if match := _OPTIMIZER.fullmatch(name):
        return match[1] in _OPTIMIZERS
    match = _NODE.fullmatch(name)
    return match is not None and _letters(match["stem"]) in _operator_letters()


@cache
def _operator_letters() -> frozenset[str]:
    return frozenset(map(_letters, operators()))


def _letters(name: str) -> str:
    """A name without what differs between `native_layer_norm` and `NativeLayerNorm`."""
    return name.replace("_", "").lower()


# Arguments and metadata without what is a user's own: which keys stay, and which values.
#
# Numbers, shapes and types stay. Every other argument, and all metadata that is not listed here, is left out.

_ARGUMENTS = """
    External id|external id|correlation|device|context|stream|queued|priority|channel|channel_type|cbid|cid|kind
    Op count
    grid|block|registers per thread|shared memory|blocks per SM|warps per SM|est. achieved occupancy %|occupancy
    bytes|size|memory bandwidth (GB/s)|fromDevice|inDevice|toDevice|fromContext|inContext|toContext|src|dst|ptr
    hsa_queue
    Input Dims|Input dims|Input Strides|Input type|Concrete Inputs|Sequence number|Fwd thread id|Ev Idx
    Record function id|Profiler Event Index|Trace iteration|finished|Python id|Python parent id|Python module id
    Python thread|Device Type|Device Id|Addr|Bytes|Total Allocated|Total Reserved|graph id|graph node id
    original_stream|annotated_stream
    cuda_sync_kind|wait_on_stream|wait_on_cuda_event_record_corr_id|wait_on_cuda_event_id|event_id
    num_warps|num_stages|Collective name|dtype|In msg nelems|Out msg nelems|Group size|In split size|Out split size
    Rank|Src Rank|Dst Rank|Seq|Global rank start|Global rank stride|Is asynchronized op
"""
ARGUMENTS = frozenset(key.strip() for line in _ARGUMENTS.strip().splitlines() for key in line.split("|"))
"""Arguments that stay."""
KERNEL = "kernel"
"""The argument in which a launch call of ROCm names its kernel."""

_FLAG_TEXT = """
    schemaVersion cupti_version cuda_runtime_version cuda_driver_version hip_runtime_version hip_driver_version
    roctracer_version rocprofiler_version with_stack with_flops with_modules record_shapes profile_memory
    baseTimeNanoseconds
"""
_FLAGS = frozenset(_FLAG_TEXT.split())
_RANKS = frozenset({"rank", "world_size", "pg_count"})

_kept_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def anonymous_args(raw: bytes, stand_in: Callable[[str], str], kernel_name: Callable[[str], str]) -> bytes:
    """The arguments of an event that may stay, numbers byte for byte."""
    try:
        fields = _kept_fields.decode(raw)
    except msgspec.MsgspecError:
        return b"{}"
    public: dict[str, Any] = {}
    for key, value in fields.items():
        if key in ARGUMENTS:
            public[key] = value if b'"' not in bytes(value) else _anonymous_value(key, decoded(bytes(value)), stand_in)
        elif key == KERNEL:
            name = decoded(bytes(value))
            if isinstance(name, str):
                public[key] = kernel_name(name)
    return msgspec.json.encode(public)


def _anonymous_value(key: str, value: Any, stand_in: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return value if all(TEXTS.fullmatch(part) for part in value.split("|")) else stand_in(value)
    if isinstance(value, list):
        return [_anonymous_value(key, item, stand_in) for item in value]
    if isinstance(value, dict):
        # The only argument with keys of its own that the profiler writes.
        return (
            {name: _anonymous_value("", item, stand_in) for name, item in value.items()} if key == "occupancy" else {}
        )
    return value


def anonymous_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The keys beside the events that may stay: options and versions of the recording, ranks and devices."""
    public = {key: value for key, value in metadata.items() if key in _FLAGS and is_number(value)}
    devices = metadata.get("deviceProperties")
    if isinstance(devices, list):
        public["deviceProperties"] = [
            {key: value for key, value in entry.items() if key in ("name", "vendor") or is_number(value)}
            for entry in devices
            if isinstance(entry, dict)
        ]
    if metadata.get("displayTimeUnit") in ("ms", "ns"):
        public["displayTimeUnit"] = metadata["displayTimeUnit"]
    ranks = metadata.get("distributedInfo")
    if isinstance(ranks, dict):
        kept = {key: value for key, value in ranks.items() if key in _RANKS and is_number(value)}
        if ranks.get("backend") in ("nccl", "gloo", "mpi", "ucc"):
            kept["backend"] = ranks["backend"]
        public["distributedInfo"] = kept
    return public


def is_number(value: Any) -> bool:
    """True for numbers of JSON, and for true and false."""
    return isinstance(value, (int, float))


# Names of kernels with stand-ins for what is a user's own, and everything else where it was.
#
# A C++ name is read identifier by identifier: what stands in a namespace of PyTorch or of a known library stays, so
# that `at::native::vectorized_elementwise_kernel<4, mine::Gate<float>>` loses `mine` and `Gate` alone.

StandIn = Callable[[str], str]
"""Gives the stand-in for a text."""

_TOKEN = re.compile(r"(?P<word>[^\W\d]\w*)|(?P<number>\d\w*)|(?P<join>::)|(?P<open>[<(\[{])|(?P<close>[>)\]}])|.", re.S)
_IDENTIFIER = re.compile(r"([^\W\d]\w*)(\.kd)?")
_ANONYMOUS = "(anonymous namespace)"


def anonymous_kernel(name: str, stand_in: StandIn) -> str:
    """The name of a kernel, copy or fill without what is a user's own."""
    if memory(name_parts(name)) is not None:
        # A copy or a fill.
        return name
    plain = _IDENTIFIER.fullmatch(name)
    if plain is None:
        return _anonymous_cpp(name, stand_in)
    if _VENDOR.fullmatch(plain[1]):
        return name
    # Inductor names a kernel after its operators: that stays where all of them are PyTorch's own.
    parts = decode(name)
    is_public = (parts.library or "").startswith("Inductor") and bool(parts.fused_ops) and not parts.unknown
    return name if is_public else stand_in(name)


def _anonymous_cpp(name: str, stand_in: StandIn) -> str:
    pieces: list[str] = []
    # Of the path that is being read, and of those around its brackets: None between two paths.
    is_public: bool | None = None
    outer: list[bool | None] = []
    joined = False
    for token in _TOKEN.finditer(name.replace(_ANONYMOUS, "\0")):
        text = token[0]
        if token["word"]:
            if not (joined and is_public is not None):
                is_public = _begins_public(token)
            pieces.append(text if is_public or text in WORDS else stand_in(text))
        elif token["open"]:
            outer.append(is_public)
            is_public = None
            pieces.append(text)
        elif token["close"]:
            is_public = outer.pop() if outer else None
            pieces.append(text)
        else:
            # A number or an anonymous namespace goes on with the path; other signs end it.
            is_public = is_public if token["join"] or text == "\0" else None
            pieces.append(_ANONYMOUS if text == "\0" else text)
        joined = token["join"] is not None
    return "".join(pieces)


def _begins_public(token: re.Match[str]) -> bool:
    """True where the first identifier of a path is that of a known library."""
    text = token[0]
    rest = token.string[token.start() :]
    if rest.startswith(PATHS):
        return True
    is_namespace = token.string[token.end() : token.end() + 2] == "::"
    return _VENDOR.fullmatch(text) is not None or (is_namespace and text in ROOTS)


PREFIX = "anon_"
_LETTERS = "bcdghjkmpqrtvwxz"
"""Sixteen letters of which no word of a kernel's name is made, and no number, which other names differ in."""
_BYTES = 6
"""Of a stand-in: a hundred thousand names have two of the same with a chance of one in fifty thousand."""

_NUMERIC = re.compile(rb'-?\d+(\.\d+)?([eE][-+]?\d+)?|"(0x[0-9a-fA-F]+|-?\d+(\.\d+)?)"|null|true|false')
_TIMES = ("ts", "dur", "tts", "tdur", "flow_in", "flow_out")
_IDS = ("id", "bind_id")
_ONE_LETTER_FIELDS = ("ph", "bp", "s")
_PUBLIC_ID = re.compile(r"|-?\d+|stream \d+|GPU \d+( Counters)?|Spans|Traces|PyTorch Profiler")
_PUBLIC_PROCESS = re.compile(r"(python|pt_main_thread)[\d.]*")
_PUBLIC_LABEL = re.compile(r"CPU|(GPU|XPU|MTIA|HPU|NPU) \d+")
_PUBLIC_THREAD = re.compile(r"stream \d+( *context| \(sync\))? *|thread -?\d+( \((python[\d.]*|pt_\w+)?\))?")
_NUMBERED_THREAD = re.compile(r"thread -?\d+")
_PUBLIC_LANES = {
    "process_name": _PUBLIC_PROCESS,
    "process_labels": _PUBLIC_LABEL,
    "thread_name": _PUBLIC_THREAD,
}
_METADATA_TEXTS = {"process_name": "name", "process_labels": "labels", "thread_name": "name"}
_FLOWS = (b"s", b"t", b"f")
_SORT_INDEXES = ("process_sort_index", "thread_sort_index")
_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
_PARTLY_PUBLIC = (
    (re.compile(r"(autograd::engine::evaluate_function: )(.+)()", re.DOTALL), True),
    (re.compile(r"(Optimizer\.(?:step|zero_grad)#)(.+)(\.(?:step|zero_grad))", re.DOTALL), False),
    (re.compile(r"(## Call CompiledFxGraph )(\w+)( ##)"), False),
    (re.compile(r"((?:nccl|gloo|mpi|ucc|xccl|hccl):)(.+)()", re.DOTALL), False),
)
"""Names of which only a part is a user's own, and whether that part may be a public name as well."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.encode


class Anonymizer:
    """Replaces the names that are a user's own by stand-ins, with one secret for all of a file."""

    def __init__(self, secret: bytes) -> None:
        self._key = hashlib.blake2b(secret, digest_size=32).digest()
        self._stand_ins: dict[str, str] = {}
        self._names: dict[tuple[bytes, Kind], bytes] = {}
        self._categories: dict[bytes, tuple[bytes, str]] = {}

    def stand_in(self, text: str) -> str:
        """The stand-in for a text; the empty text stays."""
        if text and text not in self._stand_ins:
            digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_BYTES, key=self._key).hexdigest()
            self._stand_ins[text] = PREFIX + "".join(_LETTERS[int(digit, 16)] for digit in digest)
        return self._stand_ins[text] if text else text

    def name(self, text: str, kind: Kind) -> str:
        """The name of a slice without what is a user's own."""
        if kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET):
            return anonymous_kernel(text, self.stand_in)
        if kind == Kind.PYTHON:
            return self._frame(text)
        is_call = kind == Kind.RUNTIME and (text == "INVALID" or _CALL.fullmatch(text) is not None)
        if is_call or is_public_name(text):
            return text
        for pattern, may_be_public in _PARTLY_PUBLIC:
            if match := pattern.fullmatch(text):
                inner = self.name(match[2], kind) if may_be_public else self.stand_in(match[2])
                return f"{match[1]}{inner}{match[3]}"
        # A generated kernel lends its name to the operator that launches it.
        return anonymous_kernel(text, self.stand_in) if text.isidentifier() else self.stand_in(text)

    def events(self, events: Iterable[bytes]) -> Iterator[bytes]:
        """The same events without what is a user's own."""
        for event in events:
            try:
                fields = _fields.decode(event)
            except msgspec.MsgspecError:
                # No object, hence no event.
                continue
            yield _encode(self._anonymous_event(fields))

    def _anonymous_event(self, fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
        event: dict[str, Any] = {}
        for key in _ONE_LETTER_FIELDS:
            if key in fields and len(text := bytes(fields[key])) == 3:
                event[key] = msgspec.Raw(text)
        phase = bytes(fields.get("ph", b""))[1:2]
        anonymous_category, category = self._category(bytes(fields.get("cat", b'""')))
        if "cat" in fields:
            event["cat"] = msgspec.Raw(anonymous_category)
        for key in ("pid", "tid"):
            if key in fields:
                event[key] = self._id_of_lane(bytes(fields[key]))
        if "name" in fields:
            kind = kind_of(category, _text(bytes(fields.get("pid", b'""'))))
            event["name"] = msgspec.Raw(self._name(bytes(fields["name"]), kind, phase))
        for key in _TIMES:
            if key in fields and _NUMERIC.fullmatch(bytes(fields[key])):
                event[key] = fields[key]
        self._add_ids(fields, event)
        if "args" in fields:
            event["args"] = msgspec.Raw(self._args(fields, phase))
        return event

    def _name(self, raw: bytes, kind: Kind, phase: bytes) -> bytes:
        """A name as JSON; that of metadata is one of few, or replaced."""
        cached = self._names.get((raw, kind)) if phase != b"M" else None
        if cached is None:
            text = _text(raw)
            if phase in _FLOWS and text in CATEGORIES:
                return raw
            if phase == b"M":
                return _encode(text if text in (*_METADATA_TEXTS, *_SORT_INDEXES) else self.stand_in(text))
            cached = self._names[raw, kind] = _encode(self.name(text, kind))
        return cached

    def _category(self, raw: bytes) -> tuple[bytes, str]:
        """A category without what is a user's own, as JSON, and as it is."""
        known = self._categories.get(raw)
        if known is None:
            text = _text(raw)
            parts = [part if part.strip().lower() in CATEGORIES else self.stand_in(part) for part in text.split(",")]
            known = self._categories[raw] = _encode(",".join(parts)), text
        return known

    def _id_of_lane(self, raw: bytes) -> msgspec.Raw:
        """A process or thread id: numbers and the profiler's own words stay."""
        if _NUMERIC.fullmatch(raw):
            return msgspec.Raw(raw)
        text = _text(raw)
        return msgspec.Raw(raw if _PUBLIC_ID.fullmatch(text.strip()) else _encode(self.stand_in(text)))

    def _add_ids(self, fields: Mapping[str, msgspec.Raw], event: dict[str, Any]) -> None:
        for key in _IDS:
            if key in fields:
                event[key] = self._id(bytes(fields[key]))
        if "scope" in fields:
            event["scope"] = self.stand_in(_text(bytes(fields["scope"])))
        double = decoded(bytes(fields["id2"])) if "id2" in fields else None
        if isinstance(double, dict):
            ids = {key: _encode(value) for key, value in double.items() if key in ("local", "global")}
            event["id2"] = {key: self._id(value) for key, value in ids.items()}

    def _id(self, raw: bytes) -> msgspec.Raw:
        return msgspec.Raw(raw if _NUMERIC.fullmatch(raw) else _encode(self.stand_in(_text(raw))))

    def _args(self, fields: Mapping[str, msgspec.Raw], phase: bytes) -> bytes:
        if phase == b"M":
            return self._metadata_args(_text(bytes(fields.get("name", b'""'))), bytes(fields["args"]))
        if phase == b"C":
            return self._counter_args(bytes(fields["args"]))
        return anonymous_args(bytes(fields["args"]), self.stand_in, lambda name: anonymous_kernel(name, self.stand_in))

    def _metadata_args(self, name: str, raw: bytes) -> bytes:
        """The args of an event that names or orders a process or a thread."""
        args = decoded(raw)
        if not isinstance(args, dict):
            return b"{}"
        if name in _SORT_INDEXES:
            return _encode({key: value for key, value in args.items() if key == "sort_index" and is_number(value)})
        key = _METADATA_TEXTS.get(name, "")
        text = args.get(key)
        if not isinstance(text, str):
            return b"{}"
        return _encode({key: self._lane_name(name, text)})

    def _lane_name(self, name: str, text: str) -> str:
        if _PUBLIC_LANES[name].fullmatch(text.strip()) or not text.strip():
            return text
        numbered = _NUMBERED_THREAD.match(text) if name == "thread_name" else None
        return f"{numbered[0]} ({self.stand_in(text)})" if numbered else self.stand_in(text)

    def _counter_args(self, raw: bytes) -> bytes:
        """The series of a counter, whose names are a user's own."""
        try:
            series = _fields.decode(raw)
        except msgspec.MsgspecError:
            return b"{}"
        return _encode({self.stand_in(key): value for key, value in series.items() if _NUMERIC.fullmatch(bytes(value))})

    def _frame(self, text: str) -> str:
        """A Python frame with stand-ins for file, function and module, still in the form of a frame."""
        if match := _FRAME.fullmatch(text):
            function = f"{match['line']}: {match['function']}"
            return f"{self.stand_in(match['file'])}.py(0): {self.stand_in(function)}"
        if text.startswith("nn.Module: "):
            return f"nn.Module: {self.stand_in(text)}"
        return f"<built-in {self.stand_in(text)}>" if text.startswith("<built-in ") else self.stand_in(text)


def _text(raw: bytes) -> str:
    """A JSON value as text, itself where it is one."""
    value = decoded(raw)
    return value if isinstance(value, str) else raw.decode("utf-8", "replace")
