"""What tells whether two recordings compute on the same numbers: a digest of each weight and input; in the child."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

ENOUGH = 1 << 28
"""Bytes of all tensors together that are looked at, a third of a second; of more, every second, third ... number."""
LETTERS = 16
"""Of a digest, which is to tell apart and not to keep secret."""


def digests(operands: Mapping[str, Any], enough: int = ENOUGH) -> dict[str, str]:
    """A digest by name, of data types, shapes and numbers; without what holds no plain tensor."""
    held = {name: [tensor for tensor in _tensors(value) if is_plain(tensor)] for name, value in operands.items()}
    size = sum(tensor.nbytes for tensors in held.values() for tensor in tensors)
    every = max(-(-size // enough), 1)
    return {name: _digest(tensors, every) for name, tensors in sorted(held.items()) if tensors}


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether its numbers lie in memory as they are, neither sparse nor quantized nor on no device at all."""
    import torch

    is_dense = tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_nested
    return is_dense and type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type != "meta"


def _digest(tensors: list[torch.Tensor], every: int) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        numbers = tensor.detach().resolve_conj().resolve_neg().flatten()[::every].cpu().contiguous()
        if numbers.nbytes:
            # Bytes as they lie in memory; numpy need not be there.
            digest.update((ctypes.c_char * numbers.nbytes).from_address(numbers.data_ptr()))
    return digest.hexdigest()[:LETTERS]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """A tensor, or the parameters and buffers of a module."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()
        yield from value.buffers()
