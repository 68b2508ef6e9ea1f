"""Devices as traces describe them."""

from __future__ import annotations

from tracetui.model.trace import Device

H100 = Device(
    0,
    "NVIDIA H100 80GB HBM3",
    {
        "computeMajor": 9,
        "computeMinor": 0,
        "numSms": 132,
        "maxThreadsPerMultiprocessor": 2048,
        "regsPerBlock": 65_536,
        "regsPerMultiprocessor": 65_536,
        "sharedMemPerBlock": 49_152,
        "sharedMemPerBlockOptin": 232_448,
        "sharedMemPerMultiprocessor": 233_472,
        "warpSize": 32,
    },
)


A100 = Device(0, "NVIDIA A100-SXM4-80GB", {"computeMajor": 8, "computeMinor": 0, "numSms": 108})


MI300X = Device(0, "AMD Instinct MI300X", {"computeMajor": 9, "computeMinor": 4, "numSms": 304, "warpSize": 64})
