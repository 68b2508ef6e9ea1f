"""Peak rates of devices: dense arithmetic (no sparsity) by precision, memory bandwidth, and size of the last-level
cache.

Every row was checked against two sources, or against one and the product of multiprocessors, clock and operations per
clock (which a test repeats); a number that could not be confirmed, or on which sources disagree, is left out. Boards
run slower when power is limited, so that a share of these peaks is an upper bound and no target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracetui.model.whole_numbers import whole_number

PRECISIONS = ("fp32", "tf32", "fp16", "fp8", "int8", "fp4")
"""Columns of rates; bf16 counts as fp16, and fp32 is that of the vector units."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peak rates of one device model."""

    title: str
    capability: tuple[int, int]
    """Compute capability; (0, 0) on AMD."""
    units: int
    """Multiprocessors, or compute units."""
    clock: float
    """Boost clock in GHz at which the Tensor Cores reach their rate; 0 where it is not published."""
    rates: Mapping[str, float]
    """TFLOP/s (TOP/s for int8) by precision; a missing precision is unknown or not supported."""
    bandwidth: float | None
    """Memory bandwidth in GB/s."""
    cache: float | None
    """Size of the last-level cache in MiB."""
    source: str
    """Source of the numbers."""
    memory: float = 0.0
    """Minimum memory in GB of this model, where the name does not tell models apart."""

    @property
    def is_amd(self) -> bool:
        """Whether this is a device of AMD."""
        return self.capability == (0, 0)


def device_peaks(name: str, properties: Mapping[str, Any]) -> Peaks | None:
    """The model of a device: by name, the most specific key first; else by compute capability and size."""
    memory = whole_number(properties.get("totalGlobalMem"))
    found = _by_name(name, None if memory is None else memory / 1e9, properties.get("numSms"))
    if found is not None or name:
        return found
    wanted = (properties.get("computeMajor"), properties.get("computeMinor"), properties.get("numSms"))
    alike = [row for _, row in _ROWS if (*row.capability, row.units) == wanted]
    # Several boards carry the same chip with other clocks and memory; then none is named.
    return alike[0] if len(alike) == 1 else None


def peaks_named(name: str) -> Peaks | None:
    """The model that a person names, None for an unknown one."""
    return _by_name(name, None, None) if name.strip() else None


def _by_name(name: str, memory: float | None, units: object) -> Peaks | None:
    text = name.casefold()
    fitting = []
    for key, row in _ROWS:
        match = re.search(rf"(?<![a-z0-9])(?:{key})(?![a-z0-9])", text)
        if match and not _OTHER_BOARD.search(text, match.end()) and (memory or 0) >= row.memory:
            fitting.append((len(match[0]), row))
    same_size = [pair for pair in fitting if pair[1].is_amd and pair[1].units == units]
    # The sort is stable: of equally long matches the last in the table, which asks for more memory, is taken.
    ranked = sorted(same_size or fitting, key=lambda pair: pair[0])
    return ranked[-1][1] if ranked else None


_OTHER_BOARD = re.compile(r"(?<![a-z0-9])(?:ti|d|super|laptop|mobile|max-q|pcie|nvl|mig)(?![a-z0-9])")
"""Words after a model name that make it another model with other rates."""
_HOPPER = {"tf32": 494.7, "fp16": 989.4, "fp8": 1978.9, "int8": 1978.9}
_AMPERE = {"fp32": 19.5, "tf32": 156.0, "fp16": 312.0, "int8": 624.0}


def _cdna(fp32: float, fp16: float, tf32: float | None = None, eights: int = 1, fours: int = 0) -> dict[str, float]:
    """Rates of AMD's Matrix Cores from that of fp16; 8-bit types are `eights`, 4-bit types `fours` times as fast."""
    rates = {"fp32": fp32, "fp16": fp16, "int8": eights * fp16}
    if eights > 1:
        rates["fp8"] = eights * fp16
    if tf32:
        rates["tf32"] = tf32
    if fours:
        rates["fp4"] = fours * fp16
    return rates


# The key is a regular expression, found as a whole word in the name without regard to case; the longest key that
# is found counts. GeForce boards have their rate for accumulation in fp32, which is what PyTorch uses.
_ROWS: tuple[tuple[str, Peaks], ...] = (
    (
        "v100-sxm2|v100-sxm3|v100-dgxs|v100",
        Peaks("V100-SXM2", (7, 0), 80, 1.53, {"fp32": 15.7, "fp16": 125.0}, 900, 6, "NVIDIA V100 data sheet"),
    ),
    (
        r"v100-pcie\S*",
        Peaks("V100-PCIE", (7, 0), 80, 1.38, {"fp32": 14.0, "fp16": 112.0}, 900, 6, "NVIDIA V100 data sheet"),
    ),
    (
        r"v100s-pcie\S*|v100s",
        Peaks("V100S-PCIE", (7, 0), 80, 1.597, {"fp32": 16.4, "fp16": 130.0}, 1134, 6, "NVIDIA V100 data sheet"),
    ),
    ("t4", Peaks("T4", (7, 5), 40, 1.59, {"fp32": 8.1, "fp16": 65.0, "int8": 130.0}, 320, 4, "NVIDIA T4 data sheet")),
    (
        "a100-sxm4-40gb|a100-pcie-40gb|a100",
        Peaks("A100-SXM4-40GB", (8, 0), 108, 1.41, _AMPERE, 1555, 40, "NVIDIA A100 data sheet"),
    ),
    (
        "(?:a100|a800)-sxm4-80gb|a800",
        Peaks("A100-SXM4-80GB", (8, 0), 108, 1.41, _AMPERE, 2039, 40, "NVIDIA A100 data sheet"),
    ),
    (
        "a100",
        Peaks("A100-SXM4-80GB", (8, 0), 108, 1.41, _AMPERE, 2039, 40, "NVIDIA A100 data sheet", memory=60),
    ),
    (
        "(?:a100|a800) 80gb pcie|a100-pcie-80gb",
        Peaks("A100 80GB PCIe", (8, 0), 108, 1.41, _AMPERE, 1935, 40, "NVIDIA A100 data sheet"),
    ),
    (
        "a10",
        Peaks(
            "A10",
            (8, 6),
            72,
            1.695,
            {"fp32": 31.2, "tf32": 62.5, "fp16": 125.0, "int8": 250.0},
            600,
            6,
            "NVIDIA A10 data sheet",
        ),
    ),
    (
        "a40",
        Peaks(
            "A40",
            (8, 6),
            84,
            1.74,
            {"fp32": 37.4, "tf32": 74.8, "fp16": 149.7, "int8": 299.3},
            696,
            6,
            "NVIDIA A40 data sheet",
        ),
    ),
    (
        "rtx a6000",
        Peaks("RTX A6000", (8, 6), 84, 1.8, {"fp32": 38.7, "tf32": 77.4, "fp16": 154.8}, 768, 6, "NVIDIA RTX A6000"),
    ),
    (
        "l4",
        Peaks(
            "L4",
            (8, 9),
            58,
            2.04,
            {"fp32": 30.3, "tf32": 60.0, "fp16": 121.0, "fp8": 242.0, "int8": 242.0},
            300,
            48,
            "NVIDIA L4 data sheet, halved for dense",
        ),
    ),
    (
        "l40",
        Peaks(
            "L40",
            (8, 9),
            142,
            2.49,
            {"fp32": 90.5, "tf32": 90.5, "fp16": 181.05, "fp8": 362.0, "int8": 362.0},
            864,
            96,
            "NVIDIA L40 data sheet; cache from arXiv 2606.22588",
        ),
    ),
    (
        "l40s",
        Peaks(
            "L40S",
            (8, 9),
            142,
            2.52,
            {"fp32": 91.6, "tf32": 183.0, "fp16": 362.05, "fp8": 733.0, "int8": 733.0},
            864,
            None,
            "NVIDIA L40S data sheet",
        ),
    ),
    ("l20", Peaks("L20", (8, 9), 92, 2.52, {"fp16": 119.5}, 864, None, "verl and LLMRoofline (two lists agree)")),
    (
        "rtx 3090",
        Peaks(
            "RTX 3090",
            (8, 6),
            82,
            1.695,
            {"fp32": 35.6, "tf32": 35.6, "fp16": 71.0, "int8": 284.0},
            936,
            6,
            "NVIDIA GA102 white paper",
        ),
    ),
    (
        "rtx 4090",
        Peaks(
            "RTX 4090",
            (8, 9),
            128,
            2.52,
            {"fp32": 82.6, "tf32": 82.6, "fp16": 165.2, "fp8": 330.3, "int8": 660.6},
            1008,
            72,
            "NVIDIA Ada white paper",
        ),
    ),
    (
        "rtx 5090",
        Peaks(
            "RTX 5090",
            (12, 0),
            170,
            2.407,
            {"fp32": 104.8, "tf32": 104.8, "fp16": 209.5, "fp8": 419.0, "int8": 838.0, "fp4": 1676.0},
            1792,
            96,
            "NVIDIA RTX Blackwell white paper",
        ),
    ),
    (
        "h100|h800",
        Peaks("H100 SXM", (9, 0), 132, 1.83, {"fp32": 66.9} | _HOPPER, 3350, 50, "NVIDIA H100 data sheet"),
    ),
    (
        "h100 pcie",
        Peaks(
            "H100 PCIe",
            (9, 0),
            114,
            1.62,
            {"fp32": 51.0, "tf32": 378.0, "fp16": 756.0, "fp8": 1513.0, "int8": 1513.0},
            2000,
            50,
            "NVIDIA H100 data sheet",
        ),
    ),
    (
        "h100 nvl",
        Peaks(
            "H100 NVL",
            (9, 0),
            132,
            0.0,
            {"fp32": 60.0, "tf32": 417.5, "fp16": 835.0, "fp8": 1671.0, "int8": 1671.0},
            3938,
            50,
            "NVIDIA H100 NVL; torchtitan",
        ),
    ),
    ("h200", Peaks("H200 SXM", (9, 0), 132, 1.83, {"fp32": 66.9} | _HOPPER, 4800, 50, "NVIDIA H200 data sheet")),
    ("gh200 480gb", Peaks("GH200 96GB", (9, 0), 132, 1.83, {"fp32": 66.9} | _HOPPER, 4000, None, "NVIDIA GH200")),
    ("gh200", Peaks("GH200", (9, 0), 132, 1.83, {"fp32": 66.9} | _HOPPER, None, None, "NVIDIA GH200")),
    ("h20", Peaks("H20", (9, 0), 78, 0.0, {"fp16": 148.0, "fp8": 296.0}, 4000, None, "verl and LLMRoofline")),
    (
        "b200",
        Peaks(
            "B200",
            (10, 0),
            148,
            1.856,
            {"fp32": 80.0, "tf32": 1125.0, "fp16": 2250.0, "fp8": 4500.0, "int8": 4500.0, "fp4": 9000.0},
            8000,
            None,
            "NVIDIA DGX B200 data sheet",
        ),
    ),
    (
        "gb200",
        Peaks(
            "GB200",
            (10, 0),
            148,
            2.062,
            {"fp32": 80.0, "tf32": 1250.0, "fp16": 2500.0, "fp8": 5000.0, "int8": 5000.0, "fp4": 10000.0},
            8000,
            None,
            "NVIDIA GB200 NVL72",
        ),
    ),
    (
        "b300",
        Peaks(
            "B300",
            (10, 3),
            148,
            1.856,
            {"fp32": 75.0, "tf32": 1125.0, "fp16": 2250.0, "fp8": 4500.0},
            8000,
            None,
            "NVIDIA DGX B300; sources disagree on int8 and fp4",
        ),
    ),
    (
        "gb300",
        Peaks(
            "GB300",
            (10, 3),
            148,
            2.062,
            {"fp16": 2500.0, "fp8": 5000.0},
            8000,
            None,
            "NVIDIA GB300 NVL72",
        ),
    ),
    ("mi210", Peaks("MI210", (0, 0), 104, 1.7, _cdna(45.3, 181.0), 1638, 8, "AMD MI210; fp32 is of the matrix units")),
    ("mi250x", Peaks("MI250X, one die", (0, 0), 110, 1.7, _cdna(47.9, 191.5), 1638, 8, "AMD MI250X, halved")),
    (
        "mi250|mi250x / mi250",
        Peaks("MI250, one die", (0, 0), 104, 1.7, _cdna(45.3, 181.0), 1638, 8, "AMD MI250, halved"),
    ),
    ("mi300x", Peaks("MI300X", (0, 0), 304, 2.1, _cdna(163.4, 1307.4, 653.7, eights=2), 5300, 256, "AMD MI300X")),
    ("mi300a", Peaks("MI300A", (0, 0), 228, 2.1, _cdna(122.6, 980.6, 490.3, eights=2), 5300, 256, "AMD MI300A")),
    ("mi325x", Peaks("MI325X", (0, 0), 304, 2.1, _cdna(163.4, 1307.4, 653.7, eights=2), 6000, 256, "AMD MI325X")),
    ("mi350x", Peaks("MI350X", (0, 0), 256, 2.2, _cdna(144.2, 2306.9, eights=2, fours=4), 8000, 256, "AMD MI350X")),
    ("mi355x", Peaks("MI355X", (0, 0), 256, 2.4, _cdna(157.3, 2516.6, eights=2, fours=4), 8000, 256, "AMD MI355X")),
)
