"""Collectives and point-to-point transfers between devices (F2).

NCCL instantiates few kernels, so the algorithm and protocol in a name are those of the entry point and not of what ran.
"""

from __future__ import annotations

import re

from tracetui.analysis.names.decoded import Decoded, Family
from tracetui.analysis.names.element_types import brief_type, cpp_type
from tracetui.analysis.names.text import ParsedName

_COLLECTIVE = "AllGatherV|AllGather|AllReduce|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll|AlltoAll"
_ALGORITHM = "TREE|RING|COLLNET_DIRECT|COLLNET_CHAIN|NVLS_TREE|NVLS|PAT"
_PROTOCOL = "LL128|LL|SIMPLE"
_NEW = re.compile(
    rf"nccl(?P<symmetric>Symk?)?DevKernel_(?P<coll>{_COLLECTIVE})"
    rf"(?:_(?P<redop>Sum|Prod|MinMax|PreMulSum|SumPostDiv)_(?P<type>[a-z]+\d+\w*?))?"
    rf"(?:_(?P<algo>{_ALGORITHM}))?(?:_(?P<proto>{_PROTOCOL}))?(?P<rest>_\w+)?$"
)
_OLD = re.compile(
    rf"ncclKernel_(?P<coll>{_COLLECTIVE})_(?P<algo>{_ALGORITHM})_(?P<proto>{_PROTOCOL})_(?P<redop>[A-Za-z]+)"
    r"_(?P<type>\w+)$"
)
_OTHERS = (
    (r"^(?:nccl|rccl|msccl)\w*", None, "NCCL"),
    (r"multimem_all_reduce|(?:one|two)_shot_all_reduce", "AllReduce", "PyTorch symmetric memory"),
    (r"multimem_\w+", None, "PyTorch symmetric memory"),
    (r"cross_device_reduce_[12]stage", "AllReduce", "custom all-reduce (vLLM, SGLang)"),
    (r"allreduce_fusion_kernel|trtllm_\w*allreduce", "AllReduce", "TensorRT-LLM"),
    (r"userbuffers_\w+", None, "Transformer Engine userbuffers"),
    (r"deep_ep::", None, "DeepEP"),
    (r"nvshmem\w*", None, "NVSHMEM"),
)
_OTHER_PATTERNS = tuple((re.compile(pattern), op, library) for pattern, op, library in _OTHERS)
_ENTRY_POINT = "is only the entry point: the real algorithm and protocol are not in the name."
_WAITING = "The time includes waiting for the slowest rank."
_GENERIC = "Generic runs what has no kernel of its own, with RCCL nearly everything; the args say which collective."


def collective(name: ParsedName) -> Decoded | None:
    """Decode kernels of NCCL, RCCL, symmetric memory and inference servers."""
    if name.base.startswith("nccl"):
        if name.base == "ncclDevKernel_Generic":
            return Decoded(
                family=Family.COMMUNICATION,
                operation="collective",
                library="NCCL",
                op="Generic",
                warnings=(_GENERIC, _WAITING),
                inferred=frozenset({"library"}),
            )
        match = _NEW.match(name.base) or _OLD.match(name.base)
        if match is not None:
            return _nccl(match)
    for pattern, op, library in _OTHER_PATTERNS:
        seen = pattern.search(name.path)
        if seen is not None:
            return _other(name, seen.group().rstrip(":"), op, library)
    return None


def _nccl(match: re.Match[str]) -> Decoded:
    parts = match.groupdict()
    exchange = parts["coll"] == "SendRecv"
    kind = None if exchange else brief_type(parts["type"])
    entry = " ".join(word for word in (parts["algo"], parts["proto"]) if word)
    flags = [f"{parts['algo'].lower().replace('_', ' ')} family"] if parts["algo"] and not exchange else []
    if parts["redop"] and not exchange:
        flags.append(parts["redop"].lower())
    if parts.get("symmetric"):
        flags.append("symmetric memory")
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


def _other(name: ParsedName, word: str, op: str | None, library: str) -> Decoded:
    types = [kind for kind in map(cpp_type, name.arguments) if kind]
    return Decoded(
        family=Family.COMMUNICATION,
        operation="collective",
        library=library,
        op=op or (name.base if word != name.base else word),
        a=types[0] if types else None,
        warnings=(_WAITING,),
        inferred=frozenset({"library", "a"}),
    )
