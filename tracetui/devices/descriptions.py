"""Which description applies to the device of each GPU activity: its own, that of its equals, or the user's.

A file describes the devices that its process saw, and a kernel may carry another id. Where all described devices are of
one model, an undescribed one is taken to be of that model too, and the notes of panes say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracetui.devices.limits import is_amd
from tracetui.devices.model_names import device_peaks, has_model_name, peaks_named
from tracetui.devices.peaks import Peaks
from tracetui.errors import UsageError
from tracetui.linking.lanes import active_streams, lane_numbers
from tracetui.model.intervals import Int64
from tracetui.model.table import NULL
from tracetui.model.trace import Device, Kind, Trace
from tracetui.model.whole_numbers import whole_number
from tracetui.safe_text import clean

ALL_DEVICES = -1
"""Id of a device that stands for all devices of a trace."""
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
    """Whether the device with a number takes the description of others."""
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
    """Whether the name of the device with a number is that of others, or of the model that its size tells."""
    index = description_index(trace, number)
    if index < 0:
        return False
    device = trace.devices[index]
    return is_assumed(trace, number) if device.name.strip() else model_by_size(device) is not None


def kernel_devices(trace: Trace) -> list[int]:
    """Numbers of the devices that ran kernels, in order."""

    def find() -> list[int]:
        lanes = np.unique(trace.slices.lane[trace.slices.of_kind(Kind.KERNEL)])
        numbers: list[int] = np.unique(lane_numbers(trace).device[lanes]).tolist()
        return numbers

    return trace.remember("kernel devices", find)


def are_alike(devices: Sequence[Device]) -> bool:
    """Whether devices, at least one, are described and of one model: name, capability, multiprocessors and memory."""
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
    """What a reader must know about the devices that the numbers rest on; empty where the file describes them all."""
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
