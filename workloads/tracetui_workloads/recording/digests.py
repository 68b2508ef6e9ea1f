"""Digests of weights and inputs, which show whether two recordings compute on the same numbers; in the child."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

MAX_HASHED_BYTES = 1 << 28
"""Maximum bytes hashed per recording, which takes 0.3 s; of larger tensors every second, third ... number is hashed."""
DIGEST_LENGTH = 16
"""Characters of a digest: enough to tell tensors apart, it protects no secret."""


def digests(operands: Mapping[str, Any], max_bytes: int = MAX_HASHED_BYTES) -> dict[str, str]:
    """A digest of data types, shapes and numbers by name; values that hold no plain tensor are left out."""
    plain = {name: [tensor for tensor in _tensors(value) if is_plain(tensor)] for name, value in operands.items()}
    size = sum(tensor.nbytes for tensors in plain.values() for tensor in tensors)
    stride = max(-(-size // max_bytes), 1)
    return {name: _digest(tensors, stride) for name, tensors in sorted(plain.items()) if tensors}


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor's numbers are stored densely in memory: not sparse, quantized, nested or on `meta`."""
    import torch

    is_dense = tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_nested
    return is_dense and type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type != "meta"


def _digest(tensors: list[torch.Tensor], stride: int) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        numbers = tensor.detach().resolve_conj().resolve_neg().flatten()[::stride].cpu().contiguous()
        if numbers.nbytes:
            # The bytes in memory; torch's `numpy()` would need numpy.
            digest.update((ctypes.c_char * numbers.nbytes).from_address(numbers.data_ptr()))
    return digest.hexdigest()[:DIGEST_LENGTH]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensor itself, or the parameters and buffers of a module."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()
        yield from value.buffers()
