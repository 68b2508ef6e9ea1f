"""Devices that the file does not describe, and devices that the user names against the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.build import Event, kernel, make_trace
from tests.support.devices import A100, H100, MI300X
from tracetui.devices.descriptions import (
    are_alike,
    assumed_devices,
    device_index,
    device_names,
    gpu_generation,
    with_device,
)
from tracetui.errors import UsageError
from tracetui.health.health_table import doubts
from tracetui.model.trace import Device, Kind, Trace
from tracetui.panes import PANES

SETUP = {"grid": [8, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 0}


def on_device(number: int, start: int = 0, name: str = "k") -> Event:
    """A kernel on a device."""
    event = kernel(name, start, 10, args=SETUP)
    return replace(event, lane=(str(number), event.lane[1]))


def trace_of(numbers: list[int], devices: list[Device]) -> Trace:
    """A trace with a kernel on each of the numbered devices."""
    return make_trace([on_device(number, 20 * index) for index, number in enumerate(numbers)], devices=devices)


def indexes(trace: Trace) -> list[int]:
    rows = trace.slices.of_kind(Kind.KERNEL)
    return device_index(trace, rows[np.argsort(trace.slices.start[rows])]).tolist()


def value(trace: Trace, key: str) -> object:
    """A line of the summary."""
    return next(row["value"] for row in PANES["summary"].build(trace).rows() if row["key"] == key)


def copies(device: Device, *numbers: int) -> list[Device]:
    return [replace(device, id=number) for number in numbers]


def test_a_device_that_is_not_described_is_like_its_equals() -> None:
    trace = trace_of([9], copies(H100, 0, 1))
    assert (indexes(trace), assumed_devices(trace)) == ([0], [9])
    table = PANES["kernels"].build(trace)
    assert table.row(0)["occupancy_pct"] == 100
    assert table.note.endswith("Device 9 is not described; taken to be like the 2 described (NVIDIA H100 80GB HBM3).")
    assert value(trace, "devices") == "NVIDIA H100 80GB HBM3 (assumed)"
    assert gpu_generation(trace).capability == (9, 0)
    found = doubts(trace)
    assert found["device assumed"].count == 1  # type: ignore[union-attr]
    assert found["device not described"].count == 0  # type: ignore[union-attr]


def test_a_device_that_is_described_is_not_assumed() -> None:
    trace = trace_of([1], copies(H100, 0, 1))
    assert (indexes(trace), assumed_devices(trace)) == ([1], [])
    assert "described" not in PANES["kernels"].build(trace).note
    assert value(trace, "devices") == "NVIDIA H100 80GB HBM3"
    assert doubts(trace)["device assumed"].count == 0  # type: ignore[union-attr]


def test_a_device_stays_unknown_where_descriptions_differ() -> None:
    trace = trace_of([9, 1], [H100, replace(A100, id=1)])
    assert (indexes(trace), assumed_devices(trace)) == ([-1, 1], [])
    table = PANES["kernels"].build(trace)
    assert [row["occupancy_pct"] is None for row in table.rows()] == [True, False]
    assert "Device 9 is not described and the described devices differ" in table.note
    assert value(trace, "devices") == "NVIDIA A100-SXM4-80GB, GPU 9"
    assert doubts(trace)["device not described"].count == 1  # type: ignore[union-attr]
    assert doubts(trace)["device assumed"].count == 0  # type: ignore[union-attr]


def test_several_devices_that_are_not_described() -> None:
    trace = trace_of([3, 5], [H100])
    note = PANES["roofline"].build(trace).note + PANES["kernels"].build(trace).note
    assert "Devices 3, 5 are not described; taken to be like device 0 (NVIDIA H100 80GB HBM3)." in note
    amd = PANES["kernels"].build(trace_of([3], [MI300X])).note
    assert "LDS" in amd and "taken to be like device 0 (AMD Instinct MI300X)" in amd


@pytest.mark.parametrize(
    ("devices", "alike"),
    [
        ([], False),
        ([Device(0, "")], False),
        ([H100], True),
        (copies(H100, 0, 1, 2), True),
        ([H100, A100], False),
        ([H100, Device(1, H100.name, {**H100.properties, "numSms": 66})], False),
        (
            [Device(0, "G", {"totalGlobalMem": 34_084_028_416}), Device(1, "G", {"totalGlobalMem": 34_089_730_048})],
            True,
        ),
        (
            [Device(0, "G", {"totalGlobalMem": 17_000_000_000}), Device(1, "G", {"totalGlobalMem": 34_089_730_048})],
            False,
        ),
        ([Device(0, "", {"computeMajor": 9}), Device(1, "", {"computeMajor": 9})], True),
    ],
)
def test_devices_of_one_model(devices: list[Device], alike: bool) -> None:
    assert are_alike(devices) is alike


def test_the_user_may_name_another_device_than_the_file() -> None:
    trace = with_device(trace_of([0, 1], [A100, replace(A100, id=1), Device(2, "Tesla T4")]), "h100")
    assert indexes(trace) == [0, 0]
    said = "all GPUs are taken to be H100 SXM, though the file says NVIDIA A100-SXM4-80GB and Tesla T4."
    assert trace.quality.notes == [f"--device: {said}"]
    assert said in PANES["kernels"].build(trace).note
    assert value(trace, "devices") == "H100 SXM (--device), H100 SXM (--device)"
    assert list(device_names(trace).values()) == ["H100 SXM"] * 2
    assert doubts(trace)["device taken from --device"].count == 2  # type: ignore[union-attr]
    assert gpu_generation(trace).source == "--device"
    with pytest.raises(UsageError, match="not known"):
        with_device(trace, "Voodoo 2")


def test_nothing_is_overridden_by_the_model_that_the_file_names() -> None:
    trace = with_device(trace_of([0], [H100]), "H100")
    assert (trace.devices[0].overrides, trace.quality.notes) == ((), [])
    assert trace.devices[0].properties["sharedMemPerBlockOptin"] == 232_448
    assert doubts(trace)["device taken from --device"].count == 0  # type: ignore[union-attr]


def test_a_device_without_a_name_is_overridden_where_its_size_is_another() -> None:
    bare = Device(0, "", {"computeMajor": 9, "computeMinor": 0, "numSms": 114})
    assert with_device(trace_of([0], [bare]), "H100 PCIe").devices[0].overrides == ()
    other = with_device(trace_of([0], [bare]), "A100-SXM4-80GB")
    assert other.devices[0].overrides == ("114 SMs without a name",)
    assert other.devices[0].properties["numSms"] == 108


def test_a_device_without_a_name_is_named_by_its_size() -> None:
    properties = {
        "computeMajor": 9,
        "computeMinor": 4,
        "numSms": 304,
        "warpSize": 64,
        "totalGlobalMem": 206_141_652_992,
    }
    trace = trace_of([2], [Device(number, "", properties) for number in range(4)])
    note = PANES["roofline"].build(trace).note + PANES["kernels"].build(trace).note
    assert "Device 2 has no name; by its 304 compute units it is taken to be MI300X." in note
    assert value(trace, "devices") == "MI300X (assumed)"
    found = doubts(trace)
    assert found["device assumed"].count == 1  # type: ignore[union-attr]
    assert found["device without a name"].count == 0  # type: ignore[union-attr]


def test_a_device_without_a_name_and_of_no_known_size_stays_nameless() -> None:
    trace = trace_of([2], [Device(2, "", {"computeMajor": 9, "computeMinor": 4, "numSms": 303, "warpSize": 64})])
    assert "by its" not in PANES["kernels"].build(trace).note
    assert value(trace, "devices") == "GPU 2"
    found = doubts(trace)
    assert found["device assumed"].count == 0  # type: ignore[union-attr]
    assert found["device without a name"].count == 1  # type: ignore[union-attr]


def test_a_placeholder_stays_the_name_of_a_device() -> None:
    properties = {"computeMajor": 8, "computeMinor": 0, "numSms": 108, "totalGlobalMem": 85_049_933_824}
    trace = trace_of([0], [Device(0, "NVIDIA Graphics Device", properties)])
    assert value(trace, "devices") == "NVIDIA Graphics Device"
    note = PANES["kernels"].build(trace).note
    assert (
        "is named 'NVIDIA Graphics Device'; by its 108 SMs it is taken to be A100-SXM4-80GB or A100 80GB PCIe." in note
    )
