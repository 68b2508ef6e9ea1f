"""The generation of the GPU that ran the kernels: as described, else as the names of kernels tell.

A kernel that was built for one generation also runs on newer ones, so that names give a lower bound: the newest
generation named. What follows from a lower bound is what that generation can do; what it cannot do, a newer device may.
Code for AMD runs on exactly the architecture that it was built for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tracetui.devices.descriptions import ALL_DEVICES, device_index
from tracetui.devices.limits import is_amd, peaks_of
from tracetui.kernel_names import decode
from tracetui.model.intervals import Int64
from tracetui.model.trace import Device, Kind, Trace
from tracetui.model.whole_numbers import whole_number

NVIDIA, AMD = "NVIDIA", "AMD"


class GenerationSource(StrEnum):
    """Where the generation of a device is known from."""

    DESCRIBED = "described"
    """The file describes the device."""
    OPTION = "--device"
    """The user named the device."""
    KERNEL_NAMES = "kernel names"
    """Names of kernels; a lower bound on NVIDIA devices."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Generation:
    """The generation of a device, and what its matrix units compute; None wherever that is not known."""

    source: GenerationSource = GenerationSource.UNKNOWN
    vendor: str | None = None
    """NVIDIA or AMD."""
    capability: tuple[int, int] | None = None
    """Compute capability of an NVIDIA device, at least."""
    architecture: str = ""
    """Volta, Turing, Ampere, Ada, Hopper, Blackwell, or gfx942 and the like on AMD; empty where unknown."""
    has_matrix_units: bool = True
    """False for models without the Tensor Cores that other models of their generation have."""

    @property
    def is_lower_bound(self) -> bool:
        """Whether the device may be newer than `capability`."""
        return self.source == GenerationSource.KERNEL_NAMES and self.vendor == NVIDIA

    @property
    def has_fp16_tensor_cores(self) -> bool | None:
        """Whether Tensor Cores (Matrix Cores on AMD) multiply fp16."""
        return self._has((7, 0), _AMD_FP16)

    @property
    def has_tf32(self) -> bool | None:
        """Whether Tensor Cores multiply fp32 rounded to TF32."""
        return self._has((8, 0), {"gfx942"})

    @property
    def has_bf16(self) -> bool | None:
        """Whether Tensor Cores multiply bf16."""
        return self._has((8, 0), _AMD_FP16)

    @property
    def has_fp8(self) -> bool | None:
        """Whether Tensor Cores multiply 8-bit floating point numbers."""
        return self._has((8, 9), _AMD_FP8)

    @property
    def has_fp4(self) -> bool | None:
        """Whether Tensor Cores multiply 4-bit floating point numbers."""
        return self._has((10, 0), {"gfx950"})

    def _has(self, since: tuple[int, int], architectures: Iterable[str]) -> bool | None:
        if self.vendor == AMD:
            return self.architecture in architectures if self.architecture else None
        if self.capability is None:
            return None
        if self.capability >= since:
            return self.has_matrix_units
        return None if self.is_lower_bound else False


UNKNOWN_GENERATION = Generation()
_AMD_FP8 = {"gfx942", "gfx950", "gfx1200", "gfx1201"}
_AMD_FP16 = {"gfx908", "gfx90a", "gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151"} | _AMD_FP8
"""Architectures whose matrix units multiply fp16 and bf16: CDNA, and RDNA from the third on."""
_ARCHITECTURES = {"maxwell": 50, "pascal": 60, "volta": 70, "turing": 75, "ampere": 80, "ada": 89, "hopper": 90}
_ARCHITECTURES |= {"blackwell": 100}
"""Compute capability times ten of the first devices of each architecture."""
_CAPABILITIES = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121}
_BUILT_FOR = re.compile(
    # `sm80_to_sm89` names a range of devices, of which the last is no lower bound.
    r"(?<![a-z0-9])(?<!to_)sm_?(\d{2,3})[af]?(?![a-z0-9])|(?<![a-z0-9])(gfx\d{2,3}[0-9a-f])(?![a-z0-9])"
    r"|(?<![a-z0-9])(volta|turing|ampere|hopper|blackwell)(?![a-z0-9])"
)
_WITHOUT_TENSOR_CORES = re.compile(r"\bgtx 16|\bmx[45]\d\d\b|\bt(?:400|500|550|600|1000|1200|2000)\b", re.IGNORECASE)
"""Models of compute capability 7.5 that have no Tensor Cores."""


def generation(trace: Trace) -> Generation:
    """The generation of the devices that ran kernels, the oldest where they differ; unknown where vendors differ."""
    return trace.remember("generation", lambda: _find(trace))


def generation_of(device: Device) -> Generation:
    """The generation of a device by its description; unknown where that names neither capability nor model."""
    source = GenerationSource.OPTION if device.id == ALL_DEVICES else GenerationSource.DESCRIBED
    if is_amd(device):
        return Generation(source, AMD, architecture=_amd_architecture(device))
    major, minor = (whole_number(device.properties.get(key)) for key in ("computeMajor", "computeMinor"))
    peaks = peaks_of(device)
    capability = (major, minor or 0) if major else peaks.capability if peaks else None
    if capability is None:
        return UNKNOWN_GENERATION
    with_units = not _WITHOUT_TENSOR_CORES.search(device.name)
    return Generation(source, NVIDIA, capability, _architecture(capability), with_units)


def _find(trace: Trace) -> Generation:
    kernels = trace.slices.of_kind(Kind.KERNEL)
    devices = device_index(trace, kernels)
    each = [_of_kernels(trace, int(index), kernels[devices == index]) for index in np.unique(devices)]
    if len({one.vendor for one in each}) != 1:
        return UNKNOWN_GENERATION
    return min(each, key=lambda one: (one.capability or (0, 0), one.architecture))


def _of_kernels(trace: Trace, index: int, kernels: Int64) -> Generation:
    """The generation of one device, or of those that the file does not describe (-1)."""
    described = generation_of(trace.devices[index]) if index >= 0 else UNKNOWN_GENERATION
    if described.capability or described.architecture:
        return described
    named = generation_by_names(trace.names[name] for name in np.unique(trace.slices.name[kernels]).tolist())
    return named if described.vendor in (None, named.vendor) else described


def generation_by_names(names: Iterable[str]) -> Generation:
    """The newest generation that the names of kernels tell; unknown where they tell none, or two vendors."""
    architectures = {architecture for name in names if (architecture := _built_for(name))}
    amd = sorted(architecture for architecture in architectures if architecture.startswith("gfx"))
    capabilities = [capability for each in architectures if (capability := _capability(each))]
    if amd and not capabilities:
        # Code for several architectures of AMD in one trace does not tell which of them ran.
        return Generation(GenerationSource.KERNEL_NAMES, AMD, architecture=amd[0] if len(amd) == 1 else "")
    if not capabilities or amd:
        return UNKNOWN_GENERATION
    newest = max(capabilities)
    return Generation(GenerationSource.KERNEL_NAMES, NVIDIA, newest, _architecture(newest))


def _built_for(name: str) -> str:
    """The architecture in the name of a kernel: sm90, gfx942, ampere; empty where it has none."""
    decoded = decode(name)
    if decoded.arch and "arch" not in decoded.inferred:
        return decoded.arch
    if decoded.library == "cuBLAS nvjet":
        return "sm90"
    match = _BUILT_FOR.search(name.casefold())
    return "" if match is None else f"sm{match[1]}" if match[1] else match[2] or match[3]


def _capability(architecture: str) -> tuple[int, int] | None:
    number = re.fullmatch(r"sm(\d{2,3})[af]?", architecture)
    tens = int(number[1]) if number else _ARCHITECTURES.get(architecture)
    return divmod(tens, 10) if tens in _CAPABILITIES else None


def _architecture(capability: tuple[int, int]) -> str:
    """The name of the architecture of a compute capability; empty before Maxwell."""
    tens = 10 * capability[0] + capability[1]
    names = [name for name, first in _ARCHITECTURES.items() if first <= tens]
    return names[-1].capitalize() if names else ""


_AMD_MODELS = (
    (r"mi100", "gfx908"),
    (r"mi2\d\dx?", "gfx90a"),
    (r"mi3(?:00[ax]|08x|25x)", "gfx942"),
    (r"mi35\dx", "gfx950"),
)
_AMD_UNITS = {(9, 0, 120): "gfx908", (9, 0, 104): "gfx90a", (9, 0, 110): "gfx90a"}
"""Architecture by version and number of compute units where the version alone leaves it open."""
_AMD_VERSIONS = {(9, 4): "gfx942", (9, 5): "gfx950"}


def _amd_architecture(device: Device) -> str:
    """The architecture of an AMD device by its name, else by the version in its description; empty where unknown."""
    for model, architecture in _AMD_MODELS:
        if re.search(rf"\b{model}\b", device.name, re.IGNORECASE):
            return architecture
    keys = ("computeMajor", "computeMinor", "numSms")
    major, minor, units = (whole_number(device.properties.get(key)) or 0 for key in keys)
    return _AMD_VERSIONS.get((major, minor)) or _AMD_UNITS.get((major, minor, units), "")
