"""How well a kernel uses its device, in words: occupancy, waves, advice, operations, rates, bound. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.devices.configuration import configuration
from tracetui.devices.kernel_samples import MIN_SAMPLES, alone, kernel_samples
from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.residency import advice_of, residency
from tracetui.devices.roofline import BOUNDS, COMPUTE, MEMORY, roofline
from tracetui.kernel_names import Family, decode
from tracetui.model.hardware_counters import short_counter, with_unit
from tracetui.model.quantities import operations, percent, size, three_digits
from tracetui.model.table import DOUBTFUL
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.safe_text import clean
from tracetui.ui.description.styled_lines import DetailFact


def kernel_facts(trace: Trace, row: int) -> Iterator[DetailFact]:
    """Facts about a kernel, and the meaning of the name of a copy or fill; nothing for any other slice."""
    kind = Kind(int(trace.slices.kind[row]))
    if kind in GPU_WORK:
        yield DetailFact("in words", clean(decode(trace.name_of(row), kind).sentence))
    if kind == Kind.KERNEL:
        yield from _occupancy(trace, row)
        yield from _rates(trace, row)
        yield from _counters(trace, row)


def _counters(trace: Trace, row: int) -> Iterator[DetailFact]:
    """What the counters of its GPU say of a kernel, or that samples are too few to say anything."""
    sampled = False
    facts = []
    for number, counter in enumerate(trace.counters):
        if counter.gpu < 0:
            continue
        found = kernel_samples(trace, number)
        index = int(np.searchsorted(found.rows, row))
        if index >= len(found.rows) or found.rows[index] != row:
            continue
        sampled = True
        if found.dense[index]:
            low, high = (with_unit(float(values[index]), counter.unit) for values in (found.low, found.high))
            words = f"{with_unit(float(found.mean[index]), counter.unit)} on average, {low} to {high}"
            facts.append(
                DetailFact(clean(short_counter(counter.name)), clean(f"{words} ({found.samples[index]} samples)"))
            )
    if sampled and not facts:
        why = f"fewer than {MIN_SAMPLES} samples began" if alone(trace)[row] else "other activities ran"
        facts.append(DetailFact("counters", f"nothing of this kernel: {why} while it ran"))
    yield from facts


def _occupancy(trace: Trace, row: int) -> Iterator[DetailFact]:
    rows = np.array([row], np.int64)
    setup = configuration(trace, rows)
    resident = residency(trace, rows, setup)
    if np.isnan(resident.active[0]):
        return
    limiter = resident.limiters[int(resident.limiter[0])]
    active = int(resident.active[0])
    blocks = f"{active} block{'' if active == 1 else 's'} per SM"
    family = decode(trace.name_of(row)).family
    # R3.37: these work on large tiles, for which a multiprocessor has room for few blocks.
    heavy = family in (Family.GEMM, Family.ATTENTION)
    normal = "; low is normal for matrix and attention kernels" if heavy else ""
    yield DetailFact(
        "occupancy", f"{percent(resident.theoretical[0])} at most ({blocks}), limited by {limiter}{normal}"
    )
    free = f"{percent(resident.tail[0])} of the slots stay free in the last wave"
    yield DetailFact("waves", f"{three_digits(float(resident.waves[0]))}; {free}")
    if resident.mark[0] >= 0:
        yield DetailFact("note", resident.marks[int(resident.mark[0])])
    # Collectives take few multiprocessors on purpose.
    more = "" if family == Family.COMMUNICATION else advice_of(trace, row, setup)
    if more:
        yield DetailFact("to raise it", more)


def _rates(trace: Trace, row: int) -> Iterator[DetailFact]:
    work, roof = kernel_work(trace), roofline(trace)
    index = int(work.at(np.array([row]))[0])
    main = int(work.main[index])
    if main < 0 or (np.isnan(work.flops[main]) and np.isnan(work.bytes[main])):
        return
    if main != index:
        yield DetailFact("operations", "counted at the main kernel of its operator", int(work.rows[main]))
        return
    flops, moved = float(work.flops[main]), float(work.bytes[main])
    parts = [] if np.isnan(flops) else [operations(flops) + _rate(float(roof.tflops[main]), "TFLOP/s")]
    parts += [] if np.isnan(moved) else [size(moved) + _rate(float(roof.gbps[main]), "GB/s")]
    yield DetailFact("operations", ", ".join(parts))
    bound = int(roof.bound[main])
    if bound >= 0:
        yield DetailFact(
            "bound", _bound(bound, float(roof.share[main]), float(roof.peak[main]), float(roof.bandwidth[main]))
        )


def _rate(rate: float, unit: str) -> str:
    """What a kernel reached; nothing for one that lasted no time."""
    return "" if np.isnan(rate) else f" at {three_digits(rate)} {unit}"


def _bound(bound: int, share: float, peak: float, bandwidth: float) -> str:
    if bound in (COMPUTE, MEMORY):
        limit = f"{three_digits(peak)} TFLOP/s" if bound == COMPUTE else f"{three_digits(bandwidth)} GB/s"
        mark = DOUBTFUL if share > 1 else ""
        return f"{BOUNDS[bound]}: {mark}{percent(100 * share)} of {limit}"
    return {
        "L2": "faster than DRAM: data comes from the cache",
        "latency": "too short for a roofline: latency dominates",
        "?": "faster than possible: check shapes, data type and device",
    }[BOUNDS[bound]]
