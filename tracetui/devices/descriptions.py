"""The description of the device of each GPU activity: its own, that of its equals, or the user's.

A file describes the devices that its process saw, and a kernel may carry another id. Where all described devices are of
one model, an undescribed one is taken to be of that model too, and the notes of panes say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np

from tracetui.devices.peaks import Peaks, device_peaks, has_model_name, peaks_named
from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.kernel_names import decode
from tracetui.linking.trees import active_streams, lane_numbers
from tracetui.model.intervals import Int64
from tracetui.model.recorded import whole_number
from tracetui.model.results import kept
from tracetui.model.table import NULL
from tracetui.model.trace import ALL_DEVICES, Device, Kind, Trace
from tracetui.text import clean

# Limits of a device per multiprocessor, from the trace or, where it has none, by compute capability.
#
# Sources of the table: the technical specifications by compute capability in the CUDA C++ Programming Guide and
# NVIDIA's `cuda_occupancy.h`. AMD records neither registers nor LDS in traces, so its devices have no limits here.

KIB = 1024


@frozen(eq=True, slots=True)
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
    """True for a device of AMD, where the compute capability means nothing."""
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


MODEL_KEYS = ("computeMajor", "computeMinor", "numSms", "warpSize")
"""Properties in which devices of one model agree."""
MAX_MEMORY_RATIO = 1.05
"""Maximum ratio of the memory of two devices of one model, which differs a little from board to board."""


def device_index(trace: Trace, rows: Int64) -> Int64:
    """Index in `trace.devices` of the description of each GPU activity's device, -1 where there is none."""
    numbers = lane_numbers(trace).device[trace.slices.lane[rows]]
    used, member = np.unique(numbers, return_inverse=True)
    return np.array([description_index(trace, number) for number in used.tolist()], np.int64)[member]


def description_index(trace: Trace, number: int) -> int:
    """Index in `trace.devices` of the description that applies to the device with a number, -1 where there is none."""
    for index, device in enumerate(trace.devices):
        if device.id in (number, ALL_DEVICES):
            return index
    return 0 if are_alike(trace.devices) else -1


def is_assumed(trace: Trace, number: int) -> bool:
    """True where the device with a number takes the description of others."""
    ids = {device.id for device in trace.devices}
    return not ids & {number, ALL_DEVICES} and are_alike(trace.devices)


def assumed_devices(trace: Trace) -> list[int]:
    """Numbers of the devices that ran kernels and take the description of others."""
    return [number for number in kernel_devices(trace) if is_assumed(trace, number)]


def sized_devices(trace: Trace) -> list[int]:
    """Numbers of the devices that ran kernels and whose model only their size tells."""
    index = {number: description_index(trace, number) for number in kernel_devices(trace)}
    return [number for number, row in index.items() if row >= 0 and model_by_size(trace.devices[row])]


def has_assumed_name(trace: Trace, number: int) -> bool:
    """True where the name of the device with a number is that of others, or of the model that its size tells."""
    index = description_index(trace, number)
    if index < 0:
        return False
    device = trace.devices[index]
    return is_assumed(trace, number) if device.name.strip() else model_by_size(device) is not None


@kept(on_disk=True)
def kernel_devices(trace: Trace) -> list[int]:
    """Numbers of the devices that ran kernels, in order."""
    lanes = np.unique(trace.slices.lane[trace.slices.of_kind(Kind.KERNEL)])
    numbers: list[int] = np.unique(lane_numbers(trace).device[lanes]).tolist()
    return numbers


def are_alike(devices: Sequence[Device]) -> bool:
    """True where one device or more is described, all of one model: name, capability, multiprocessors and memory."""
    models = {
        (device.name.strip(), *(whole_number(device.properties.get(key)) for key in MODEL_KEYS)) for device in devices
    }
    if len(models) != 1 or not any(value for model in models for value in model):
        return False
    sizes = [max(whole_number(device.properties.get("totalGlobalMem")) or 0, 0) for device in devices]
    return max(sizes) <= MAX_MEMORY_RATIO * min(sizes)


def with_device(trace: Trace, name: str) -> Trace:
    """The trace with all its devices taken to be of a given model, whatever the file says about them.

    What is described otherwise is listed in `Device.overrides` and in the notes of `Quality`.
    Raises: UsageError for an unknown model.
    """
    peaks = peaks_named(name)
    if peaks is None:
        raise UsageError(f"The device {name!r} is not known here: name it as `H100`, `A100-SXM4-80GB` or `RTX 4090`.")
    chosen = Device(ALL_DEVICES, peaks.title, _properties(peaks, trace.devices), _overridden(peaks, trace.devices))
    quality = trace.quality
    if chosen.overrides:
        quality = replace(quality, notes=[*quality.notes, _override_note(chosen)])
    return replace(trace, devices=(chosen,), quality=quality, cache={})


def _properties(peaks: Peaks, described: Sequence[Device]) -> Mapping[str, Any]:
    """The properties of a model, with all that the file says about devices of its capability and size."""
    major, minor = peaks.capability
    own: dict[str, Any] = {"numSms": peaks.units}
    own |= {"warpSize": 64} if peaks.is_amd else {"computeMajor": major, "computeMinor": minor}
    entries = [device.properties for device in described]
    fits = are_alike(described) and all(entry.get(key) == own[key] for entry in entries for key in own)
    return {**entries[0], **own} if fits else own


def _overridden(peaks: Peaks, described: Iterable[Device]) -> tuple[str, ...]:
    """The distinct names in the file that are of another model; devices without a name count by their size."""
    names = []
    for device in described:
        units = whole_number(device.properties.get("numSms"))
        if device.name.strip() and device_peaks(device.name, device.properties) is not peaks:
            names.append(device.name)
        elif not device.name.strip() and units and units != peaks.units:
            names.append(f"{units} {'compute units' if is_amd(device) else 'SMs'} without a name")
    return tuple(dict.fromkeys(names))


def model_by_size(device: Device) -> Peaks | None:
    """The model of a device that the file does not name, by its capability, multiprocessors and memory."""
    return None if has_model_name(device.name) else device_peaks(device.name, device.properties)


def device_note(trace: Trace) -> str:
    """A caveat about the devices that the numbers rest on; empty where the file describes them all."""
    return " ".join(filter(None, (_description_note(trace), _size_note(trace))))


def _size_note(trace: Trace) -> str:
    """The sentence about devices whose model only their size tells."""
    sized = sized_devices(trace)
    if not sized:
        return ""
    first = trace.devices[description_index(trace, sized[0])]
    model = model_by_size(first)
    units = "compute units" if is_amd(first) else "SMs"
    named = f"is named {clean(first.name.strip())!r}" if first.name.strip() else "has no name"
    size = f"{whole_number(first.properties['numSms'])} {units}"
    return f"Device {sized[0]} {named}; by its {size} it is taken to be {model.title if model else ''}."


def _description_note(trace: Trace) -> str:
    used = kernel_devices(trace)
    assumed = assumed_devices(trace)
    if assumed:
        return f"{_numbered(assumed)} not described; taken to be like {_likened(trace)}."
    if trace.devices and trace.devices[0].overrides:
        return _override_note(trace.devices[0])
    without = [number for number in used if description_index(trace, number) < 0]
    if not without:
        return ""
    if not any(device.name.strip() or device.properties for device in trace.devices):
        return (
            "The trace does not describe its GPU (no deviceProperties), so that occupancy and shares of its peak are "
            "unknown; name it with --device, for example --device H100."
        )
    return (
        f"{_numbered(without)} not described and the described devices differ, so that occupancy and shares of the "
        "peak are unknown there; name the GPU with --device, for example --device H100."
    )


def _likened(trace: Trace) -> str:
    """The devices whose description is taken, in words: `device 0 (NVIDIA H100 PCIe)`."""
    first = trace.devices[0]
    name = clean(first.name.strip()) or "without a name"
    return f"device {first.id} ({name})" if len(trace.devices) == 1 else f"the {len(trace.devices)} described ({name})"


def _numbered(numbers: list[int]) -> str:
    """`Device 3 is`, `Devices 3, 5 are`; a device may lack a number."""
    words = ", ".join("without a number" if number == NULL else str(number) for number in numbers)
    return f"Device {words} is" if len(numbers) == 1 else f"Devices {words} are"


def _override_note(device: Device) -> str:
    """The sentence about a device that the user chose against the file."""
    names = " and ".join(map(clean, device.overrides))
    return f"--device: all GPUs are taken to be {device.name}, though the file says {names}."


def device_names(trace: Trace) -> dict[int, str]:
    """Names of the devices that ran something by number, in order; `GPU 0` where no description names one."""
    numbered = lane_numbers(trace).device
    used = {int(numbered[index]): trace.lanes[index].process for index in active_streams(trace)}
    return {number: _name(trace, number) or process for number, process in sorted(used.items())}


def _name(trace: Trace, number: int) -> str:
    """The name of the device with a number as described, else that of its model by size; empty where unknown."""
    index = description_index(trace, number)
    if index < 0:
        return ""
    model = model_by_size(trace.devices[index])
    return trace.devices[index].name or (model.title if model else "")


# The generation of the GPU that ran the kernels: as described, else as the names of kernels tell.
#
# A kernel that was built for one generation also runs on newer ones, so that names give a lower bound: the newest
# generation named. What follows from a lower bound is what that generation can do; what it cannot do, a newer device
# may. Code for AMD runs on exactly the architecture that it was built for.

NVIDIA, AMD = "NVIDIA", "AMD"


class GenerationSource(StrEnum):
    """The source of the generation of a device."""

    DESCRIBED = "described"
    """The file describes the device."""
    OPTION = "--device"
    """The user named the device."""
    KERNEL_NAMES = "kernel names"
    """Names of kernels; a lower bound on NVIDIA devices."""
    UNKNOWN = "unknown"


@frozen(eq=True, slots=True)
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
        """True where the device may be newer than `capability`."""
        return self.source == GenerationSource.KERNEL_NAMES and self.vendor == NVIDIA

    @property
    def has_fp16_tensor_cores(self) -> bool | None:
        """True where Tensor Cores (Matrix Cores on AMD) multiply fp16."""
        return self._has((7, 0), _AMD_FP16)

    @property
    def has_tf32(self) -> bool | None:
        """True where Tensor Cores multiply fp32 rounded to TF32."""
        return self._has((8, 0), {"gfx942"})

    @property
    def has_bf16(self) -> bool | None:
        """True where Tensor Cores multiply bf16."""
        return self._has((8, 0), _AMD_FP16)

    def _has(self, since: tuple[int, int], architectures: Iterable[str]) -> bool | None:
        if self.vendor == AMD:
            return self.architecture in architectures if self.architecture else None
        if self.capability is None:
            return None
        if self.capability >= since:
            return self.has_matrix_units
        return None if self.is_lower_bound else False


UNKNOWN_GENERATION = Generation()
_AMD_CDNA = {"gfx908", "gfx90a", "gfx942", "gfx950"}
_AMD_FP16 = {"gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151", "gfx1200", "gfx1201"} | _AMD_CDNA
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


@kept
def gpu_generation(trace: Trace) -> Generation:
    """The generation of the devices that ran kernels, the oldest where they differ; unknown where vendors differ."""
    kernels = trace.slices.of_kind(Kind.KERNEL)
    devices = device_index(trace, kernels)
    each = [_of_kernels(trace, int(index), kernels[devices == index]) for index in np.unique(devices)]
    if len({one.vendor for one in each}) != 1:
        return UNKNOWN_GENERATION
    return min(each, key=lambda one: (one.capability or (0, 0), one.architecture))


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
