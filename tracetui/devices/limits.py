"""Limits of a device per multiprocessor, from the trace or, where it has none, by compute capability.

Sources of the table: the technical specifications by compute capability in the CUDA C++ Programming Guide and NVIDIA's
`cuda_occupancy.h`. AMD records neither registers nor LDS in traces, so its devices have no limits here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracetui.devices.model_names import device_peaks
from tracetui.devices.peaks import Peaks
from tracetui.model.trace import Device
from tracetui.model.whole_numbers import whole_number

KIB = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of an NVIDIA multiprocessor; sizes in bytes, registers as 32-bit words."""

    sms: int
    """Multiprocessors of the device."""
    threads: int
    """Threads on a multiprocessor."""
    blocks: int
    """Blocks on a multiprocessor."""
    registers: int
    """Registers of a multiprocessor."""
    block_registers: int
    """Registers that one block may have."""
    shared: int
    """Shared memory of a multiprocessor."""
    block_shared: int
    """Shared memory of one block without opting in to more."""
    block_shared_optin: int
    """Shared memory that one block may opt in to."""
    reserved: int
    """Shared memory that the driver reserves per block."""
    shared_unit: int
    """Allocation unit of shared memory."""
    partitions: int
    """Partitions of a multiprocessor, each with its own registers and scheduler."""
    thread_registers: int
    """Registers that one thread may have."""


# compute capability: blocks, threads, KiB of shared memory, KiB that a block may ask for
_BY_CAPABILITY = {
    (6, 0): (32, 2048, 64, 48),
    (6, 1): (32, 2048, 96, 48),
    (7, 0): (32, 2048, 96, 96),
    (7, 5): (16, 1024, 64, 64),
    (8, 0): (32, 2048, 164, 163),
    (8, 6): (16, 1536, 100, 99),
    (8, 7): (16, 1536, 164, 163),
    (8, 9): (24, 1536, 100, 99),
    (9, 0): (32, 2048, 228, 227),
    (10, 0): (32, 2048, 228, 227),
    (10, 3): (32, 2048, 228, 227),
    (11, 0): (24, 1536, 228, 227),
    (12, 0): (24, 1536, 100, 99),
    (12, 1): (24, 1536, 100, 99),
}


def is_amd(device: Device) -> bool:
    """Whether a device is made by AMD, where the compute capability means nothing."""
    return device.properties.get("warpSize") == 64 or "amd" in device.name.casefold()


def limits_of(device: Device) -> Limits | None:
    """The limits of an NVIDIA device; None for others, for unknown capabilities and without the number of SMs."""
    given = device.properties
    capability = (_whole(given, "computeMajor"), _whole(given, "computeMinor"))
    sms = _whole(given, "numSms")
    if is_amd(device) or capability not in _BY_CAPABILITY or not sms:
        return None
    major, minor = capability
    blocks, threads, shared, optin = _BY_CAPABILITY[capability]
    return Limits(
        sms=sms,
        threads=_whole(given, "maxThreadsPerMultiprocessor") or threads,
        blocks=blocks,
        registers=_whole(given, "regsPerMultiprocessor") or 65_536,
        block_registers=_whole(given, "regsPerBlock") or 65_536,
        shared=_whole(given, "sharedMemPerMultiprocessor") or shared * KIB,
        block_shared=_whole(given, "sharedMemPerBlock") or 48 * KIB,
        block_shared_optin=_whole(given, "sharedMemPerBlockOptin") or optin * KIB,
        reserved=KIB if major >= 8 else 0,
        shared_unit=128 if major >= 8 else 256,
        partitions=2 if (major, minor) == (6, 0) else 4,
        thread_registers=256 if major >= 7 else 255,
    )


def units_of(device: Device) -> int | None:
    """Multiprocessors (compute units on AMD) of a device, None where the trace does not say."""
    return _whole(device.properties, "numSms") or None


def peaks_of(device: Device) -> Peaks | None:
    """The peak rates of a device by its name, else by capability and size; None where they are not known."""
    return device_peaks(device.name, device.properties)


def _whole(properties: Mapping[str, Any], key: str) -> int:
    """A positive integer property, 0 for none."""
    return max(whole_number(properties.get(key)) or 0, 0)
