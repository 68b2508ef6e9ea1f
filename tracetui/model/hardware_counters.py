"""Names of a GPU's hardware counters: their units, and the ones that the profiler computed (R2.15).

Shared by the importers of all formats, which find the same counters in different places.
"""

from __future__ import annotations

import re
from enum import Enum

from tracetui.model.quantities import significant
from tracetui.model.trace import Counter, Float64, Int32, Int64

_PROCESS = re.compile(r"GPU (\d{1,9}) Counters")
_BRACKETS = re.compile(r"\(([^()\s]{1,8})\)$")
_SHARE_OF_PEAK = re.compile(r"\.pct(_of_peak\w*)?$|\.pct_of_peak")
_METRIC = re.compile(r"[a-z0-9]+__\w+(\.\w+)*")
"""A metric of CUPTI: unit of the chip, quantity, roll-ups."""
_DERIVED = {"Cycles (Current Kernel)": "cycles"}
"""Counters that the profiler computes (durations times the median clock), with their units."""


def gpu_of_process(process: str) -> int:
    """The number of the GPU whose counters stand under a process such as `GPU 0 Counters`, -1 for other processes."""
    match = _PROCESS.fullmatch(process)
    return int(match[1]) if match else -1


def unit_of(name: str) -> str:
    """The unit of a counter: that in the brackets at its end, `%` for a share of a peak, else nothing."""
    if name in _DERIVED:
        return _DERIVED[name]
    match = _BRACKETS.search(name)
    if match:
        return match[1]
    return "%" if _SHARE_OF_PEAK.search(name) else ""


class Quantity(Enum):
    """The quantities that analyses know; torch and CUPTI have different names for the same one."""

    SM_ACTIVE = "SM Active"
    """Share of the time in which multiprocessors had work."""
    DRAM = "DRAM BW"
    """Use of the memory's bandwidth, as a share of its peak."""
    SM_CLOCK = "SM Clock"
    POWER = "Power"
    TEMPERATURE = "Temperature"


_QUANTITIES = {
    "SM Active": Quantity.SM_ACTIVE,
    "sm__cycles_active": Quantity.SM_ACTIVE,
    "DRAM BW": Quantity.DRAM,
    "HBM BW": Quantity.DRAM,
    "dram__throughput": Quantity.DRAM,
    "SM Clock": Quantity.SM_CLOCK,
    "Power": Quantity.POWER,
    "Temperature": Quantity.TEMPERATURE,
}
_UNITS = {
    Quantity.SM_ACTIVE: "%",
    Quantity.DRAM: "%",
    Quantity.SM_CLOCK: "MHz",
    Quantity.POWER: "W",
    Quantity.TEMPERATURE: "C",
}


def quantity_of(name: str) -> Quantity | None:
    """The quantity of a counter by its name; None for another quantity, or another unit than is usual for it."""
    quantity = _QUANTITIES.get(_base(name))
    return quantity if quantity and unit_of(name) == _UNITS[quantity] else None


def _base(name: str) -> str:
    """A name without its unit; of a metric of CUPTI without its roll-up."""
    return name.split(".")[0] if _METRIC.fullmatch(name) else _BRACKETS.sub("", name).strip() or name


def short_counter(name: str) -> str:
    """The name of a counter for a narrow column: without its unit; metrics of CUPTI in words."""
    quantity = quantity_of(name)
    if not _METRIC.fullmatch(name):
        return _base(name)
    return quantity.value if quantity else _base(name).replace("__", " ").replace("_", " ")


def with_unit(value: float, unit: str) -> str:
    """A value of a counter and its unit: `54 %`, `1755 MHz`."""
    text = significant(value, 3) if abs(value) < 1000 else f"{value:.0f}"
    return f"{text} {unit}" if unit else text


def hardware_counter(gpu: int, name: str, process: str, time: Int64, value: Float64, event: Int32) -> Counter:
    """A counter of a GPU; times in ns from the start of the trace, ascending."""
    return Counter(
        process=process,
        name=name,
        series="",
        time=time,
        value=value,
        unit=unit_of(name),
        pid=process,
        event=event,
        gpu=gpu,
        is_derived=name in _DERIVED,
    )
