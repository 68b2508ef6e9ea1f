"""A decoded kernel name as fields for tables, rules and sentences, and the families for colours and sums."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Family(IntEnum):
    """The family of a slice."""

    GEMM = 0
    """Matrix products and convolutions."""
    ATTENTION = 1
    REDUCTION = 2
    """Sums, norms, softmax, scans, sorts, selections: each result depends on many elements."""
    POINTWISE = 3
    COPY = 4
    """Copies, fills by the driver, transposes, conversions, gathers, writes to a KV cache."""
    COMMUNICATION = 5
    """Collectives between devices, exchanges of tokens with experts on other devices, and their barriers."""
    OTHER = 6
    OP = 7
    ANNOTATION = 8
    RUNTIME = 9
    PYTHON = 10
    OVERHEAD = 11


class Purpose(StrEnum):
    """What a kernel does in a model, finer than its family."""

    GEMM = "gemm"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    COMMUNICATION = "communication"
    ROUTING = "moe routing"
    """Choosing experts, moving tokens to them and back on the same device."""
    NORM = "norm"
    ACTIVATION = "activation"
    QUANTISATION = "quantise"
    KV_CACHE = "kv cache"
    ROPE = "rope"
    SAMPLING = "sampling"
    EMBEDDING = "embedding"
    SCHEDULING = "scheduling"
    """Positions, lengths and ids of the tokens of the next step."""
    COPY = "copy"
    """Copies, fills, gathers, transposes."""
    REDUCTION = "reduction"
    POINTWISE = "pointwise"
    OTHER = "other"


LAYOUT_CONVERSION = "layout conversion"
"""Operation of kernels that rearrange a tensor between NCHW and NHWC and compute nothing."""
OPERAND_CONVERSION = "operand conversion"
"""Operation of kernels that convert the element type of an operand for the product or convolution behind them."""

MAX_SHORT_NAME = 40
"""Maximum characters of a short name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A decoded name; missing fields are None or empty, inferred fields are listed in `inferred`."""

    family: Family
    """Family for colours and sums."""
    operation: str
    """Finer than the family: gemm, gemm helper, attention, softmax, sort, layout conversion, ...; `unknown`."""
    purpose: Purpose = Purpose.OTHER
    """What it does in a model."""
    serving: bool = False
    """Whether that purpose holds only where a model is served: a training program sorts other things than logits."""
    library: str | None = None
    """Who wrote or generated it: cuBLAS nvjet, CUTLASS 3.x, Inductor, PyTorch, NCCL, Tensile, ..."""
    vendor: str | None = None
    """Vendor whose hardware the library targets: NVIDIA or AMD; None where it runs on either."""
    arch: str | None = None
    """Architecture it was built for: sm90, gfx942, ampere. A newer device may run it."""
    op: str | None = None
    """The operation in one word: add, mean, AllReduce, forward, dgrad."""
    a: str | None = None
    """Element type of the input, or of matrix A: bf16, f32, i64, f8, 2-byte."""
    b: str | None = None
    acc: str | None = None
    """Type of the accumulator or the computation."""
    out: str | None = None
    tile: tuple[int, ...] = ()
    """Two sides of the output tile of a block and, where the name tells, its depth, in the order of the name."""
    columns_first: bool | None = None
    """Whether the tile's first side lies along the columns of the output in PyTorch: BLAS libraries are column-major,
    all but xmma, as grids of real traces show. None where unknown.
    """
    stages: int | None = None
    """Depth of the pipeline that loads tiles."""
    cluster: tuple[int, ...] = ()
    """Thread blocks of one cluster."""
    warps: int | None = None
    threads: int | None = None
    """Threads of one block."""
    instruction: str | None = None
    """Shape of the matrix instruction, MxNxK."""
    layout: str | None = None
    """tn, nn, nt or tt for A and B as the library counts, or nhwc and nchw."""
    align: int | None = None
    """Elements to which the operands must be aligned."""
    split_k: bool | None = None
    """Whether K is split over several blocks whose results are added; None where the name does not tell."""
    vector: int | None = None
    """Elements that one thread loads at once."""
    head: int | None = None
    """Size of an attention head."""
    epilogue: tuple[str, ...] = ()
    """Operations on the result before it is stored."""
    fused_ops: tuple[str, ...] = ()
    """Operators that a generated kernel was fused from, not what it executes."""
    index: int | None = None
    """Number of a generated kernel in its module."""
    tensor_core: bool | None = None
    """Whether Tensor Cores (Matrix Cores on AMD) compute; None where the name does not tell."""
    flags: tuple[str, ...] = ()
    """Other stated properties: causal, varlen, strided, pageable, relu-capable, stream-k."""
    warnings: tuple[str, ...] = ()
    """Caveats about this name or its time."""
    unknown: tuple[str, ...] = ()
    """Parts of the name that are not understood, as they are."""
    inferred: frozenset[str] = frozenset()
    """Names of the fields above that are likely and not certain."""
    short: str = ""
    """A label of at most 40 characters."""
    sentence: str = ""
    """The decoded name in a sentence."""

    @property
    def dtype(self) -> str | None:
        """The type to show: that of the input elements, else of the output."""
        return self.a or self.out

    def tiles(self, rows: int, columns: int, batch: int = 1) -> int | None:
        """Number of tiles for `batch` outputs of rows x columns; None where the name does not tell.

        Blocks may be fewer, where each computes several tiles, or more, where K is split.
        """
        if len(self.tile) < 2 or self.columns_first is None or 0 in self.tile:
            return None
        across, down = self.tile[:2] if self.columns_first else self.tile[1::-1]
        return -(-columns // across) * -(-rows // down) * batch

    def confidence(self, field: str) -> str | None:
        """`exact` where the grammar of the name is known, `inferred` where not, None where the field is empty."""
        if getattr(self, field) in (None, "", ()):
            return None
        return "inferred" if field in self.inferred else "exact"
