"""Collectives and point-to-point transfers between devices (F2).

NCCL instantiates few kernels, so the algorithm and protocol in a name are those of the entry point and not of what ran.
"""

from __future__ import annotations

import re

from tracetui.kernel_names.decoded import Decoded, Family, brief_type, cpp_type, first_float, spelled
from tracetui.kernel_names.text import ParsedName
from tracetui.kernel_names.wording import label, meaning
from tracetui.text import lazy_pattern

_COLLECTIVE = "AllGatherV|AllGather|AllReduce|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll|AlltoAll"
_ALGORITHM = "TREE|RING|COLLNET_DIRECT|COLLNET_CHAIN|NVLS_TREE|NVLS|PAT"
_PROTOCOL = "LL128|LL|SIMPLE"
_NEW = lazy_pattern(
    rf"ncclDevKernel_(?P<coll>{_COLLECTIVE})"
    rf"(?:_(?P<redop>Sum|Prod|MinMax|PreMulSum|SumPostDiv)_(?P<type>[a-z]+\d+\w*?))?"
    rf"(?:_(?P<algo>{_ALGORITHM}))?(?:_(?P<proto>{_PROTOCOL}))?(?P<rest>_\w+)?$"
)
_OLD = lazy_pattern(
    rf"ncclKernel_(?P<coll>{_COLLECTIVE})_(?P<algo>{_ALGORITHM})_(?P<proto>{_PROTOCOL})_(?P<redop>[A-Za-z]+)"
    r"_(?P<type>\w+)$"
)
_LIBRARIES = (
    (r"_(?:n|r|ms)ccl_", "NCCL"),
    (r"_quick_?reduce_", "quick-reduce"),
    (r"_mscclpp_", "MSCCL++"),
    (r"_(?:nv|roc)shmem[ix]?_", "NVSHMEM"),
    (r"_k?userbuffers_", "Transformer Engine userbuffers"),
    (r"_cross_device_", "custom all-reduce (vLLM, SGLang)"),
    (r"_(?:tensorrt|trtllm|trt|lamport|mnnvl|moe_a_2_a|oneshot|twoshot)_", "TensorRT-LLM"),
    (r"_(?:multimem|one_shot|two_shot|symm_mem|symmetric)_", "PyTorch symmetric memory"),
    (r"_(?:deep_ep|internode|intranode|notify_dispatch|cached_notify)_", "DeepEP"),
)
"""Libraries by words of the qualified name; the first match counts, and every one is a guess."""
_LIBRARY_PATTERNS = tuple((lazy_pattern(pattern), library) for pattern, library in _LIBRARIES)
_OPERATIONS = (
    (r"_all_?reduce_|_cross_device_reduce_|_quick_?reduce_|_(?:one|two)_?shot_", "AllReduce"),
    (r"_all_?gather_", "AllGather"),
    (r"_reduce_?scatter_", "ReduceScatter"),
    (r"_all_?to_?all_|_all_2_all_", "AllToAll"),
)
_OPERATION_PATTERNS = tuple((lazy_pattern(pattern), op) for pattern, op in _OPERATIONS)
_EXCHANGE = lazy_pattern(
    r"_(?:(?:cached|notify|low|latency|hybrid|ep|async|persistent|normal|deterministic|impl|kernel|ll|send|recv|copy|reduce|"
    r"epilogue|prologue|nvl|rdma|stage|phase|prepare|v|t|\d+)_)*(?:dispatch|combine)_"
    r"(?:(?:low|latency|async|impl|kernel|ll|send|recv|copy|reduce|epilogue|prologue|deterministic|nvl|rdma|stage|phase|v|t|"
    r"\d+)_)*$"
)
"""Kernels of expert parallelism that are called after nothing but the exchange."""
_EXCHANGE_WORD = lazy_pattern(r"_(?:ep|ll|send|recv|rdma|notify|cached|nvl)_")
_LOCAL = lazy_pattern(r"_(?:[a-z]*attn|[a-z]*attention|flash|fmha|mla|split_?kv?|decode|prefill|layout|sampl[a-z]*)_")
_OLDEST = lazy_pattern(
    r"nccl(?P<coll>[A-Z][A-Za-z]*?)(?P<algo>Ring|Tree|CollNet)(?P<proto>LL128|LL|Simple)?Kernel_(?P<redop>[a-z]+)_(?P<type>\w+)$"
)
_GENERIC_KERNEL = lazy_pattern(r"ncclDevKernel_?(?:Debug_)?Generic(?:_\d+)?$")
_SYMMETRIC = lazy_pattern(
    rf"ncclSymk?(?:Dev)?Kernel_(?P<coll>{_COLLECTIVE})_(?P<rest>\w+?)(?:_(?P<redop>[a-z]+)_(?P<type>[a-z]+\d+\w*))?$"
)
_ENTRY_POINT = "is only the entry point: the real algorithm and protocol are not in the name."
_WAITING = "The time includes waiting for the slowest rank."
_GENERIC = "Generic runs what has no kernel of its own, with RCCL nearly everything; the args say which collective."


def collective(name: ParsedName) -> Decoded | None:
    """Decode kernels of NCCL, RCCL, symmetric memory, expert parallelism and inference servers."""
    if name.base.startswith("nccl"):
        if _GENERIC_KERNEL.match(name.base):
            return Decoded(
                family=Family.COMMUNICATION,
                operation="collective",
                # RCCL numbers its generic kernels by how far they are unrolled, NCCL does not.
                library="RCCL" if name.base[-1].isdigit() else "NCCL",
                op="Generic",
                warnings=(_GENERIC, _WAITING),
                inferred=frozenset({"library"}),
            )
        symmetric = _SYMMETRIC.match(name.base)
        if symmetric is not None:
            return _symmetric(symmetric)
        match = _NEW.match(name.base) or _OLD.match(name.base) or _OLDEST.match(name.base)
        if match is not None:
            return _nccl(match)
    found = meaning(name)
    if (found is not None and found.family == Family.COMMUNICATION) or _is_exchange(name):
        return _other(name)
    return None


def _is_exchange(name: ParsedName) -> bool:
    """True where a kernel sends tokens to experts on other devices or fetches them back."""
    base = spelled(name.base)
    if not _EXCHANGE.match(base) or _LOCAL.search(spelled(name.path)):
        return False
    return _EXCHANGE_WORD.search(base) is not None or not name.text.isidentifier()


def _nccl(match: re.Match[str]) -> Decoded:
    parts = match.groupdict()
    exchange = parts["coll"] == "SendRecv"
    kind = None if exchange else brief_type(parts["type"])
    entry = " ".join(word.upper() for word in (parts["algo"], parts["proto"]) if word)
    flags = [f"{parts['algo'].lower().replace('_', ' ')} family"] if parts["algo"] and not exchange else []
    if parts["redop"] and not exchange:
        flags.append(parts["redop"].lower())
    likely = {"flags"} if parts["algo"] else set()
    if kind is not None and kind.startswith(("u", "i")):
        likely.add("a")
    rest = (parts.get("rest") or "").strip("_")
    return Decoded(
        family=Family.COMMUNICATION,
        operation="send/recv" if exchange else "collective",
        library="NCCL",
        op=parts["coll"],
        a=kind,
        flags=tuple(flags),
        warnings=(*([f"{entry} {_ENTRY_POINT}"] if entry else []), _WAITING),
        unknown=(rest,) if rest else (),
        inferred=frozenset(likely),
    )


def _symmetric(match: re.Match[str]) -> Decoded:
    """A kernel of NCCL on symmetric memory; its algorithm is in the name, `RSxLDMC_AGxSTMC`."""
    kind = brief_type(match["type"])
    return Decoded(
        family=Family.COMMUNICATION,
        operation="collective",
        library="NCCL",
        op=match["coll"],
        a=kind,
        flags=(match["rest"].replace("_", " "), *([match["redop"]] if match["redop"] else []), "symmetric memory"),
        warnings=(_WAITING,),
    )


def _other(name: ParsedName) -> Decoded:
    types = [kind for kind in map(cpp_type, name.arguments) if kind]
    words = spelled(name.path)
    library = next((library for pattern, library in _LIBRARY_PATTERNS if pattern.search(words)), None)
    if library is None and _EXCHANGE.match(spelled(name.base)):
        library = "expert parallelism"
    op = next((op for pattern, op in _OPERATION_PATTERNS if pattern.search(spelled(label(name)))), None)
    return Decoded(
        family=Family.COMMUNICATION,
        operation="collective",
        library=library,
        op=op or label(name),
        a=first_float(types),
        warnings=(_WAITING,),
        inferred=frozenset({"library", "a"}),
    )
