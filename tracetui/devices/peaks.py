"""Peak rates of device models: dense arithmetic (no sparsity) by precision, memory bandwidth, and size of the
last-level cache.

Every row was checked against two sources, or against one and the product of multiprocessors, clock and operations per
clock (which a test repeats); a number that could not be confirmed, or on which sources disagree, is left out. Boards
run slower when power is limited, so that a share of these peaks is an upper bound and no target.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from tracetui.frozen import frozen
from tracetui.model.recorded import whole_number
from tracetui.text import lazy_pattern


@frozen(eq=True, slots=True)
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
    """TFLOP/s (TOP/s for int8) by precision: fp32, tf32, fp16, fp8, int8, fp4; a missing one is unknown or unsupported.

    bf16 counts as fp16, and fp32 is that of the vector units.
    """
    bandwidth: float | None
    """Memory bandwidth in GB/s."""
    cache: float | None
    """Size of the last-level cache in MiB."""
    source: str
    """Source of the numbers."""
    memory: tuple[int, ...] = ()
    """Sizes of memory in GB with which the model is sold."""
    names: str = ""
    """A regular expression, in lower case, of the names of the model."""

    @property
    def is_amd(self) -> bool:
        """True for a device of AMD."""
        return self.capability == (0, 0)


def _graphics(
    title: str,
    capability: tuple[int, int],
    units: int,
    clock: float,
    fp32: float,
    factors: Mapping[str, float],
    bandwidth: float,
    cache: float | None,
    memory: tuple[int, ...],
    source: str,
    names: str = "",
) -> Peaks:
    """A board of graphics, whose rates are multiples of that of fp32, by its generation and whether it is GeForce."""
    rates = {"fp32": fp32} | {precision: round(factor * fp32, 2) for precision, factor in factors.items()}
    return Peaks(title, capability, units, clock, rates, bandwidth, cache, source, memory, names or title.casefold())


_TURING, _GA, _ADA, _RTX_BLACKWELL = (7, 5), (8, 6), (8, 9), (12, 0)
# Tensor Cores multiply at these multiples of the rate of fp32. GeForce boards accumulate in fp32, as PyTorch does, at
# half of the rate for accumulation in fp16, which is the one that is advertised.
_TURING_PRO = {"fp16": 8, "int8": 16}
_TURING_GEFORCE = {"fp16": 4, "int8": 16}
_GA_PRO = {"tf32": 2, "fp16": 4, "int8": 8}
_GA_GEFORCE = {"tf32": 1, "fp16": 2, "int8": 8}
_ADA_PRO = {"tf32": 2, "fp16": 4, "fp8": 8, "int8": 8}
_ADA_GEFORCE = {"tf32": 1, "fp16": 2, "fp8": 4, "int8": 8}
_BLACKWELL_PRO = _ADA_PRO | {"fp4": 16}
_BLACKWELL_GEFORCE = _ADA_GEFORCE | {"fp4": 16}

_GTX = "NVIDIA, GeForce GTX 10 and 16 specifications"
_TURING_PAPER = "NVIDIA Turing white paper"
_TURING_PAGE = "NVIDIA, GeForce RTX 20 specifications"
_QUADRO = "NVIDIA Quadro RTX data sheet"
_GA_PAPER = "NVIDIA GA102 white paper"
_GA_PAGE = "NVIDIA, GeForce RTX 30 specifications"
_RTX_A = "NVIDIA RTX A series data sheet"
_ADA_PAPER = "NVIDIA Ada white paper"
_ADA_PAGE = "NVIDIA, GeForce RTX 40 specifications, with AI TOPS"
_RTX_ADA = "NVIDIA RTX Ada Generation data sheet"
_BLACKWELL_PAPER = "NVIDIA RTX Blackwell white paper"
_BLACKWELL_PAGE = "NVIDIA, GeForce RTX 50 specifications, with AI TOPS"
_RTX_PRO = "NVIDIA RTX PRO Blackwell data sheet"
_V100, _P100, _A100, _H100 = (f"NVIDIA {name} data sheet" for name in ("V100", "P100", "A100", "H100"))

_GRAPHICS = (
    _graphics("GTX 1060", (6, 1), 10, 1.708, 4.4, {}, 192, None, (6,), _GTX),
    _graphics("GTX 1070", (6, 1), 15, 1.683, 6.5, {}, 256, 2, (8,), _GTX),
    _graphics("GTX 1080", (6, 1), 20, 1.733, 8.9, {}, 320, 2, (8,), _GTX),
    _graphics("GTX 1080 Ti", (6, 1), 28, 1.582, 11.3, {}, 484, 2.75, (11,), _GTX),
    _graphics("GTX 1660", _TURING, 22, 1.785, 5.0, {}, 192, 1.5, (6,), _GTX),
    _graphics("GTX 1660 SUPER", _TURING, 22, 1.785, 5.0, {}, 336, 1.5, (6,), _GTX),
    _graphics("GTX 1660 Ti", _TURING, 24, 1.77, 5.4, {}, 288, 1.5, (6,), _GTX),
    _graphics("RTX 2060", _TURING, 30, 1.68, 6.45, _TURING_GEFORCE, 336, 3, (6,), _TURING_PAGE),
    _graphics(
        "RTX 2060 12GB", _TURING, 34, 1.65, 7.18, _TURING_GEFORCE, 336, 3, (12,), _TURING_PAGE, "rtx 2060(?: 12gb)?"
    ),
    _graphics("RTX 2060 SUPER", _TURING, 34, 1.65, 7.18, _TURING_GEFORCE, 448, 4, (8,), _TURING_PAGE),
    _graphics("RTX 2070", _TURING, 36, 1.62, 7.46, _TURING_GEFORCE, 448, 4, (8,), _TURING_PAPER),
    _graphics("RTX 2070 SUPER", _TURING, 40, 1.77, 9.06, _TURING_GEFORCE, 448, 4, (8,), _TURING_PAGE),
    _graphics("RTX 2080", _TURING, 46, 1.71, 10.07, _TURING_GEFORCE, 448, 4, (8,), _TURING_PAPER),
    _graphics("RTX 2080 SUPER", _TURING, 48, 1.815, 11.15, _TURING_GEFORCE, 496, 4, (8,), _TURING_PAGE),
    _graphics("RTX 2080 Ti", _TURING, 68, 1.545, 13.45, _TURING_GEFORCE, 616, 5.5, (11,), _TURING_PAPER),
    _graphics("TITAN RTX", _TURING, 72, 1.77, 16.3, _TURING_PRO, 672, 6, (24,), _TURING_PAPER),
    _graphics("Quadro RTX 4000", _TURING, 36, 1.545, 7.1, _TURING_PRO, 416, 4, (8,), _QUADRO),
    _graphics("Quadro RTX 5000", _TURING, 48, 1.815, 11.2, _TURING_PRO, 448, 4, (16,), _QUADRO),
    _graphics("Quadro RTX 6000", _TURING, 72, 1.77, 16.3, _TURING_PRO, 672, 6, (24,), _TURING_PAPER),
    _graphics("Quadro RTX 8000", _TURING, 72, 1.77, 16.3, _TURING_PRO, 672, 6, (48,), _TURING_PAPER),
    _graphics("RTX 3050", _GA, 20, 1.777, 9.1, _GA_GEFORCE, 224, 2, (8,), _GA_PAGE),
    _graphics("RTX 3060", _GA, 28, 1.777, 12.74, _GA_GEFORCE, 360, 3, (12,), _GA_PAGE),
    _graphics("RTX 3060 8GB", _GA, 28, 1.777, 12.74, _GA_GEFORCE, 240, None, (8,), _GA_PAGE, "rtx 3060(?: 8gb)?"),
    _graphics("RTX 3060 Ti", _GA, 38, 1.665, 16.2, _GA_GEFORCE, 448, 4, (8,), _GA_PAGE),
    _graphics("RTX 3070", _GA, 46, 1.725, 20.3, _GA_GEFORCE, 448, 4, (8,), _GA_PAPER),
    _graphics("RTX 3070 Ti", _GA, 48, 1.77, 21.75, _GA_GEFORCE, 608, 4, (8,), _GA_PAGE),
    _graphics("RTX 3080", _GA, 68, 1.71, 29.8, _GA_GEFORCE, 760, 5, (10,), _GA_PAPER),
    _graphics("RTX 3080 12GB", _GA, 70, 1.71, 30.6, _GA_GEFORCE, 912, 6, (12,), _GA_PAGE, "rtx 3080(?: 12gb)?"),
    _graphics("RTX 3080 Ti", _GA, 80, 1.665, 34.1, _GA_GEFORCE, 912, 6, (12,), _GA_PAGE),
    _graphics("RTX 3090 Ti", _GA, 84, 1.86, 40.0, _GA_GEFORCE, 1008, 6, (24,), _GA_PAGE),
    _graphics("RTX A2000", _GA, 26, 1.2, 8.0, _GA_PRO, 288, None, (6, 12), _RTX_A, "(?:rtx )?a2000"),
    _graphics("RTX A4000", _GA, 48, 1.56, 19.2, _GA_PRO, 448, 4, (16,), _RTX_A, "(?:rtx )?a4000"),
    _graphics("RTX A4500", _GA, 56, 1.65, 23.7, _GA_PRO, 640, 6, (20,), _RTX_A, "(?:rtx )?a4500"),
    _graphics("RTX A5000", _GA, 64, 1.695, 27.8, _GA_PRO, 768, 6, (24,), _RTX_A, "(?:rtx )?a5000"),
    _graphics("RTX A5500", _GA, 80, 1.665, 34.1, _GA_PRO, 768, 6, (24,), _RTX_A, "(?:rtx )?a5500"),
    _graphics("RTX A6000", _GA, 84, 1.8, 38.7, _GA_PRO, 768, 6, (48,), _RTX_A, "(?:rtx )?a6000"),
    _graphics("A2", _GA, 10, 1.77, 4.5, _GA_PRO, 200, None, (16,), "NVIDIA A2 data sheet"),
    # Half of the A10's rates by multiprocessor and clock, unlike what some lists say.
    _graphics("A10G", _GA, 80, 1.71, 35.0, {"tf32": 1, "fp16": 2}, 600, 6, (24,), "NVIDIA A10G brief"),
    _graphics(
        "A16, one GPU", _GA, 10, 1.755, 4.5, _GA_PRO, 200, None, (16,), "NVIDIA A16 data sheet, a quarter", "a16"
    ),
    _graphics("RTX 4060", _ADA, 24, 2.46, 15.1, _ADA_GEFORCE, 272, 24, (8,), _ADA_PAGE),
    _graphics("RTX 4060 Ti", _ADA, 34, 2.535, 22.1, _ADA_GEFORCE, 288, 32, (8, 16), _ADA_PAGE),
    _graphics("RTX 4070", _ADA, 46, 2.475, 29.15, _ADA_GEFORCE, 504, 36, (12,), _ADA_PAGE),
    _graphics("RTX 4070 SUPER", _ADA, 56, 2.475, 35.5, _ADA_GEFORCE, 504, 48, (12,), _ADA_PAGE),
    _graphics("RTX 4070 Ti", _ADA, 60, 2.61, 40.1, _ADA_GEFORCE, 504, 48, (12,), _ADA_PAGE),
    _graphics("RTX 4070 Ti SUPER", _ADA, 66, 2.61, 44.1, _ADA_GEFORCE, 672, 48, (16,), _ADA_PAGE),
    _graphics("RTX 4080", _ADA, 76, 2.505, 48.7, _ADA_GEFORCE, 716.8, 64, (16,), _ADA_PAPER),
    _graphics("RTX 4080 SUPER", _ADA, 80, 2.55, 52.2, _ADA_GEFORCE, 736, 64, (16,), _ADA_PAGE),
    _graphics("RTX 4090 D", _ADA, 114, 2.52, 73.5, _ADA_GEFORCE, 1008, 72, (24,), _ADA_PAGE),
    _graphics("RTX 2000 Ada", _ADA, 22, 2.13, 12.0, _ADA_PRO, 224, 12, (16,), _RTX_ADA),
    _graphics("RTX 4000 SFF Ada", _ADA, 48, 1.56, 19.2, _ADA_PRO, 280, 48, (20,), _RTX_ADA),
    _graphics("RTX 4000 Ada", _ADA, 48, 2.175, 26.7, _ADA_PRO, 360, 48, (20,), _RTX_ADA),
    _graphics("RTX 4500 Ada", _ADA, 60, 2.58, 39.6, _ADA_PRO, 432, 48, (24,), _RTX_ADA),
    _graphics("RTX 5000 Ada", _ADA, 100, 2.55, 65.3, _ADA_PRO, 576, 72, (32,), _RTX_ADA),
    _graphics("RTX 5880 Ada", _ADA, 110, 2.46, 69.3, _ADA_PRO, 960, None, (48,), _RTX_ADA),
    _graphics("RTX 6000 Ada", _ADA, 142, 2.505, 91.1, _ADA_PRO, 960, 96, (48,), _RTX_ADA),
    _graphics("RTX 5050", _RTX_BLACKWELL, 20, 2.572, 13.2, _BLACKWELL_GEFORCE, 320, None, (8,), _BLACKWELL_PAGE),
    _graphics("RTX 5060", _RTX_BLACKWELL, 30, 2.497, 19.2, _BLACKWELL_GEFORCE, 448, None, (8,), _BLACKWELL_PAGE),
    _graphics("RTX 5060 Ti", _RTX_BLACKWELL, 36, 2.572, 23.7, _BLACKWELL_GEFORCE, 448, 32, (8, 16), _BLACKWELL_PAGE),
    _graphics("RTX 5070", _RTX_BLACKWELL, 48, 2.512, 30.9, _BLACKWELL_GEFORCE, 672, 48, (12,), _BLACKWELL_PAPER),
    _graphics("RTX 5070 Ti", _RTX_BLACKWELL, 70, 2.452, 43.9, _BLACKWELL_GEFORCE, 896, 48, (16,), _BLACKWELL_PAPER),
    _graphics("RTX 5080", _RTX_BLACKWELL, 84, 2.617, 56.3, _BLACKWELL_GEFORCE, 960, 64, (16,), _BLACKWELL_PAPER),
    _graphics("RTX PRO 5000 Blackwell", _RTX_BLACKWELL, 110, 0, 64.5, _BLACKWELL_PRO, 1344, None, (48, 72), _RTX_PRO),
    _graphics(
        "RTX PRO 6000 Blackwell Workstation",
        _RTX_BLACKWELL,
        188,
        2.617,
        125.95,
        _BLACKWELL_PRO,
        1792,
        128,
        (96,),
        _BLACKWELL_PAPER,
        "rtx pro 6000(?: blackwell)?(?: workstation)?",
    ),
    _graphics(
        "RTX PRO 6000 Blackwell Max-Q",
        _RTX_BLACKWELL,
        188,
        2.28,
        109.7,
        _BLACKWELL_PRO,
        1792,
        128,
        (96,),
        _RTX_PRO,
        "rtx pro 6000(?: blackwell)? max-q",
    ),
    _graphics(
        "RTX PRO 6000 Blackwell Server",
        _RTX_BLACKWELL,
        188,
        2.493,
        120.0,
        _BLACKWELL_PRO,
        1597,
        128,
        (96,),
        _RTX_PRO,
        "rtx pro 6000(?: blackwell)? server",
    ),
)

_T4 = {"fp32": 8.1, "fp16": 65.0, "int8": 130.0}
_RTX_3090 = {"fp32": 35.6, "tf32": 35.6, "fp16": 71.0, "int8": 284.0}
_A10 = {"fp32": 31.2, "tf32": 62.5, "fp16": 125.0, "int8": 250.0}
_A40 = {"fp32": 37.4, "tf32": 74.8, "fp16": 149.7, "int8": 299.3}
_RTX_4090 = {"fp32": 82.6, "tf32": 82.6, "fp16": 165.2, "fp8": 330.3, "int8": 660.6}
_L4 = {"fp32": 30.3, "tf32": 60.0, "fp16": 121.0, "fp8": 242.0, "int8": 242.0}
_L40 = {"fp32": 90.5, "tf32": 90.5, "fp16": 181.05, "fp8": 362.0, "int8": 362.0}
_L40S = {"fp32": 91.6, "tf32": 183.0, "fp16": 362.05, "fp8": 733.0, "int8": 733.0}
_RTX_5090 = {"fp32": 104.8, "tf32": 104.8, "fp16": 209.5, "fp8": 419.0, "int8": 838.0, "fp4": 1676.0}
_AMPERE = {"fp32": 19.5, "tf32": 156.0, "fp16": 312.0, "int8": 624.0}
_HOPPER = {"fp32": 66.9, "tf32": 494.7, "fp16": 989.4, "fp8": 1978.9, "int8": 1978.9}
_HOPPER_PCIE = {"fp32": 51.0, "tf32": 378.0, "fp16": 756.0, "fp8": 1513.0, "int8": 1513.0}
_HOPPER_NVL = {"fp32": 60.0, "tf32": 417.5, "fp16": 835.0, "fp8": 1671.0, "int8": 1671.0}
_B200 = {"fp32": 80.0, "tf32": 1125.0, "fp16": 2250.0, "fp8": 4500.0, "int8": 4500.0, "fp4": 9000.0}
_GB200 = {"fp32": 80.0, "tf32": 1250.0, "fp16": 2500.0, "fp8": 5000.0, "int8": 5000.0, "fp4": 10000.0}
_B300 = {"fp32": 75.0, "tf32": 1125.0, "fp16": 2250.0, "fp8": 4500.0}
_GB300 = {"fp16": 2500.0, "fp8": 5000.0}
_A30 = {"fp32": 10.3, "tf32": 82.0, "fp16": 165.0, "int8": 330.0}
_A100_40 = "a100-sxm4-40gb|a100-pcie-40gb|a100|a800 40gb|pg509-200"
_A100_80 = "(?:a100|a800)-sxm4-80gb|a100|a800|pg509-210"

_PUBLISHED = (
    Peaks("T4", _TURING, 40, 1.59, _T4, 320, 4, "NVIDIA T4 data sheet", (16,), "t4"),
    Peaks("RTX 3090", _GA, 82, 1.695, _RTX_3090, 936, 6, _GA_PAPER, (24,), "rtx 3090"),
    Peaks("A10", _GA, 72, 1.695, _A10, 600, 6, "NVIDIA A10 data sheet", (24,), "a10"),
    Peaks("A40", _GA, 84, 1.74, _A40, 696, 6, "NVIDIA A40 data sheet", (48,), "a40"),
    Peaks("RTX 4090", _ADA, 128, 2.52, _RTX_4090, 1008, 72, _ADA_PAPER, (24,), "rtx 4090"),
    Peaks("L4", _ADA, 58, 2.04, _L4, 300, 48, "NVIDIA L4 data sheet, halved for dense", (24,), "l4"),
    Peaks("L40", _ADA, 142, 2.49, _L40, 864, 96, "NVIDIA L40 data sheet; cache from arXiv 2606.22588", (48,), "l40"),
    Peaks("L40S", _ADA, 142, 2.52, _L40S, 864, None, "NVIDIA L40S data sheet", (48,), "l40s"),
    Peaks("L20", _ADA, 92, 2.52, {"fp16": 119.5}, 864, None, "verl and LLMRoofline (two lists agree)", (48,), "l20"),
    Peaks("RTX 5090", _RTX_BLACKWELL, 170, 2.407, _RTX_5090, 1792, 96, _BLACKWELL_PAPER, (32,), "rtx 5090"),
)
"""Boards of graphics whose rates are published by precision."""

_DATA_CENTER = (
    Peaks("P40", (6, 1), 30, 1.531, {"fp32": 11.76, "int8": 47.0}, 346, 3, "NVIDIA P40 data sheet", (24,), "p40"),
    Peaks(
        "P100-PCIE", (6, 0), 56, 1.303, {"fp32": 9.3, "fp16": 18.7}, 732, 4, _P100, (16,), "p100-pcie-16gb|p100-pcie"
    ),
    Peaks("P100-PCIE-12GB", (6, 0), 56, 1.303, {"fp32": 9.3, "fp16": 18.7}, 549, 3, _P100, (12,), "p100-pcie-12gb"),
    Peaks("P100-SXM2", (6, 0), 56, 1.48, {"fp32": 10.6, "fp16": 21.2}, 732, 4, _P100, (16,), "p100-sxm2|p100"),
    Peaks("TITAN V", (7, 0), 80, 1.455, {"fp32": 14.9}, 653, 4.5, "NVIDIA, TITAN V specifications", (12,), "titan v"),
    Peaks(
        "V100-SXM2",
        (7, 0),
        80,
        1.53,
        {"fp32": 15.7, "fp16": 125.0},
        900,
        6,
        _V100,
        (16, 32),
        "v100-sxm2|v100-sxm3|v100-dgxs|v100",
    ),
    Peaks("V100-PCIE", (7, 0), 80, 1.38, {"fp32": 14.0, "fp16": 112.0}, 900, 6, _V100, (16, 32), r"v100-pcie\S*"),
    Peaks(
        "V100S-PCIE", (7, 0), 80, 1.597, {"fp32": 16.4, "fp16": 130.0}, 1134, 6, _V100, (32,), r"v100s-pcie\S*|v100s"
    ),
    Peaks("A30", (8, 0), 56, 1.44, _A30, 933, 24, "NVIDIA A30 data sheet", (24,), "a30"),
    Peaks("A100-SXM4-40GB", (8, 0), 108, 1.41, _AMPERE, 1555, 40, _A100, (40,), _A100_40),
    Peaks("A100-SXM4-80GB", (8, 0), 108, 1.41, _AMPERE, 2039, 40, _A100, (80,), _A100_80),
    Peaks(
        "A100 80GB PCIe",
        (8, 0),
        108,
        1.41,
        _AMPERE,
        1935,
        40,
        _A100,
        (80,),
        "(?:a100|a800) 80gb pcie|(?:a100|a800)-pcie-80gb",
    ),
    Peaks("H100 SXM", (9, 0), 132, 1.83, _HOPPER, 3350, 50, _H100, (80,), "h100|h800"),
    Peaks("H100 PCIe", (9, 0), 114, 1.62, _HOPPER_PCIE, 2000, 50, _H100, (80,), "(?:h100|h800) pcie"),
    Peaks("H100 NVL", (9, 0), 132, 0.0, _HOPPER_NVL, 3938, 50, "NVIDIA H100 NVL; torchtitan", (94,), "h100 nvl"),
    Peaks("H200 SXM", (9, 0), 132, 1.83, _HOPPER, 4800, 50, "NVIDIA H200 data sheet", (141,), "h200"),
    Peaks("H200 NVL", (9, 0), 132, 0.0, _HOPPER_NVL, 4800, None, "NVIDIA H200 data sheet", (141,), "h200 nvl"),
    Peaks("GH200 96GB", (9, 0), 132, 1.83, _HOPPER, 4000, None, "NVIDIA GH200", (96,), "gh200 (?:480|120|96)gb"),
    Peaks("GH200", (9, 0), 132, 1.83, _HOPPER, None, None, "NVIDIA GH200", (96, 144), "gh200"),
    Peaks("H20", (9, 0), 78, 0.0, {"fp16": 148.0, "fp8": 296.0}, 4000, None, "verl and LLMRoofline", (96,), "h20"),
    Peaks("B200", (10, 0), 148, 1.856, _B200, 8000, None, "NVIDIA DGX B200 data sheet", (180, 192), "b200"),
    Peaks("GB200", (10, 0), 148, 2.062, _GB200, 8000, None, "NVIDIA GB200 NVL72", (186, 192), "gb200"),
    Peaks(
        "B300",
        (10, 3),
        148,
        1.856,
        _B300,
        8000,
        None,
        "NVIDIA DGX B300; sources disagree on int8 and fp4",
        (270, 288),
        "b300",
    ),
    Peaks("GB300", (10, 3), 148, 2.062, _GB300, 8000, None, "NVIDIA GB300 NVL72", (279, 288), "gb300"),
    Peaks("GB10", (12, 1), 48, 0.0, {"fp4": 500.0}, 273, 24, "NVIDIA DGX Spark, halved for dense", (128,), "gb10"),
    Peaks(
        "Jetson AGX Orin",
        (8, 7),
        16,
        1.3,
        {"fp32": 5.3, "int8": 85.0},
        204.8,
        None,
        "NVIDIA Jetson AGX Orin data sheet, halved for dense",
        (64,),
        "orin",
    ),
    Peaks(
        "Jetson Thor",
        (11, 0),
        20,
        1.575,
        {"fp16": 258.0, "fp8": 517.0, "fp4": 1035.0},
        273,
        None,
        "NVIDIA Jetson T5000 data sheet, halved for dense",
        (128,),
        "thor",
    ),
)


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


def _instinct(
    title: str,
    units: int,
    clock: float,
    rates: Mapping[str, float],
    bandwidth: float,
    cache: float,
    memory: int,
    source: str = "",
    names: str = "",
) -> Peaks:
    source = source or f"AMD {title}"
    return Peaks(title, (0, 0), units, clock, rates, bandwidth, cache, source, (memory,), names or title.casefold())


_INSTINCT = (
    # bf16 is half as fast as fp16 on the MI100.
    _instinct("MI100", 120, 1.502, _cdna(46.1, 184.6), 1229, 8, 32, "AMD MI100; fp32 is of the matrix units"),
    _instinct("MI210", 104, 1.7, _cdna(45.3, 181.0), 1638, 8, 64, "AMD MI210; fp32 is of the matrix units"),
    _instinct("MI250X, one die", 110, 1.7, _cdna(47.9, 191.5), 1638, 8, 64, "AMD MI250X, halved", "mi250x"),
    _instinct("MI250, one die", 104, 1.7, _cdna(45.3, 181.0), 1638, 8, 64, "AMD MI250, halved", "mi250|mi250x / mi250"),
    _instinct("MI300X", 304, 2.1, _cdna(163.4, 1307.4, 653.7, eights=2), 5300, 256, 192),
    _instinct("MI300A", 228, 2.1, _cdna(122.6, 980.6, 490.3, eights=2), 5300, 256, 128),
    _instinct("MI325X", 304, 2.1, _cdna(163.4, 1307.4, 653.7, eights=2), 6000, 256, 256),
    _instinct("MI350X", 256, 2.2, _cdna(144.2, 2306.9, eights=2, fours=4), 8000, 256, 288),
    _instinct("MI355X", 256, 2.4, _cdna(157.3, 2516.6, eights=2, fours=4), 8000, 256, 288),
)

MODELS = _GRAPHICS + _PUBLISHED + _DATA_CENTER + _INSTINCT
"""Every model; of two that fit a name and a device equally well the first counts."""


# The model of a device by its name, else by what a description says of its size.
#
# Names are matched by whole words, so that neither `RTX 3080 Ti` is an RTX 3080 nor `A10` an A100. Boards of one name
# differ in multiprocessors and memory, which decide where a description gives them; what fits no board stays unknown.

MAX_UNITS_RATIO = 1.05
"""Maximum ratio of multiprocessors to those of a model of the same name; slices of a GPU have far fewer."""
MAX_PEAK_RATIO_OF_ALIKE = 1.1
"""Maximum ratio of the peaks of models that only the name would tell apart."""
MIN_MEMORY, MAX_MEMORY = 0.88e9, 1.02 * (1 << 30)
"""Minimum and maximum bytes of memory that a device reports per GB with which it is sold."""

_OTHER_BOARD = re.compile(
    r"(?<![a-z0-9])(?:ti|d|super|laptop|mobile|max-q|pcie|nvl|mig|fhhl|server|sff|oem|ada|embedded)(?![a-z0-9])"
)
"""Words after a model name that make it another model with other rates."""
_NO_MODEL = re.compile(r"(?:nvidia )?(?:graphics device|pg\d{3}\S*)")
"""Names that boards have before, or without, a name of the model."""


def device_peaks(name: str, properties: Mapping[str, Any]) -> Peaks | None:
    """The model of a device: by name, the most specific one first; else by capability, multiprocessors and memory."""
    return _best(_models_named(name), properties) if has_model_name(name) else _by_size(properties)


def has_model_name(name: str) -> bool:
    """True for the name of a model, known here or not, and no placeholder such as `NVIDIA Graphics Device`."""
    text = name.strip().casefold()
    # The models are asked last: their patterns take a while to make.
    return bool(text) and (not _NO_MODEL.fullmatch(text) or bool(_models_named(name)))


def peaks_named(name: str) -> Peaks | None:
    """The model that a person names, None for an unknown one."""
    return _best(_models_named(name), {})


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Peaks], ...]:
    """The names of every model as a pattern, made when a device is first looked up."""
    return tuple((lazy_pattern(rf"(?<![a-z0-9])(?:{model.names})(?![a-z0-9])"), model) for model in MODELS)


def _models_named(name: str) -> list[tuple[int, Peaks]]:
    """The models that a name fits, with the number of characters that name each."""
    text = " ".join(name.casefold().split())
    matches = []
    for pattern, model in _patterns():
        # Most names are plain words, which need no pattern where they are missing.
        if model.names.replace(" ", "").isalnum() and model.names not in text:
            continue
        match = pattern.search(text)
        if match and not _OTHER_BOARD.search(text, match.end()):
            matches.append((len(match[0]), model))
    return matches


def _best(named: Sequence[tuple[int, Peaks]], properties: Mapping[str, Any]) -> Peaks | None:
    """Of the models that fit a description as well, the one with the longest name."""
    kept = [pair for pair in named if _is_of_vendor(pair[1], properties) and _has_memory(pair[1], properties)]
    units = _positive(properties, "numSms")
    same_size = [pair for pair in kept if pair[1].units == units]
    if units and not same_size:
        kept = [pair for pair in kept if max(pair[1].units, units) <= MAX_UNITS_RATIO * min(pair[1].units, units)]
    # The first of equally long names counts.
    return max(same_size or kept, key=lambda pair: pair[0])[1] if kept else None


def _by_size(properties: Mapping[str, Any]) -> Peaks | None:
    """The model with the capability, multiprocessors and memory of a description, where these tell it."""
    units = _positive(properties, "numSms")
    if not units or not (_is_amd(properties) or _positive(properties, "computeMajor")):
        return None
    alike = [
        model
        for model in MODELS
        if model.units == units
        and model.is_amd == _is_amd(properties)
        and _is_of_vendor(model, properties)
        and _has_memory(model, properties)
    ]
    return _merged(alike)


def _merged(models: Sequence[Peaks]) -> Peaks | None:
    """One model for several whose peaks are nearly the same, with the larger ones; None where they differ."""
    if len(models) < 2:
        return models[0] if models else None
    if any(set(model.rates) != set(models[0].rates) for model in models):
        return None
    rates = {precision: [model.rates[precision] for model in models] for precision in models[0].rates}
    bandwidths = [model.bandwidth or 0 for model in models]
    if not all(map(_are_close, [*rates.values(), bandwidths])):
        return None
    title = " or ".join(dict.fromkeys(model.title for model in models))
    return replace(
        models[0],
        title=title,
        rates={precision: max(values) for precision, values in rates.items()},
        bandwidth=max(bandwidths) or None,
        cache=models[0].cache if len({model.cache for model in models}) == 1 else None,
    )


def _are_close(values: Iterable[float]) -> bool:
    known = list(values)
    return max(known) <= MAX_PEAK_RATIO_OF_ALIKE * min(known)


def _is_amd(properties: Mapping[str, Any]) -> bool:
    return properties.get("warpSize") == 64


def _is_of_vendor(model: Peaks, properties: Mapping[str, Any]) -> bool:
    """True for a description of the vendor of a model, and of its compute capability where that means something."""
    if _is_amd(properties) or model.is_amd:
        return model.is_amd == _is_amd(properties) or "warpSize" not in properties
    major, minor = _positive(properties, "computeMajor"), _positive(properties, "computeMinor")
    return not major or model.capability == (major, minor)


def _has_memory(model: Peaks, properties: Mapping[str, Any]) -> bool:
    """True where a model is sold with the memory of a description, as far as both are known."""
    size = _positive(properties, "totalGlobalMem")
    return not size or not model.memory or any(MIN_MEMORY * gb <= size <= MAX_MEMORY * gb for gb in model.memory)


def _positive(properties: Mapping[str, Any], key: str) -> int:
    """A positive integer property, 0 for none."""
    return max(whole_number(properties.get(key)) or 0, 0)
