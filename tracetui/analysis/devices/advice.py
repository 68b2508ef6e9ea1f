"""What would raise the occupancy of a kernel: found by trying smaller needs until one more block fits."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.devices.configuration import configuration
from tracetui.analysis.devices.limits import KIB, Limits, device_index, limits_of
from tracetui.analysis.devices.residency import WARP, block_limits
from tracetui.model.trace import Kind, Trace

MOST_THREADS = 1024
"""Of a block."""


def advice_of(trace: Trace, row: int) -> str:
    """The advice for a kernel of a trace; empty where nothing is known or nothing is left to raise."""
    if trace.slices.kind[row] != Kind.KERNEL:
        return ""
    rows = np.array([row], np.int64)
    setup, device = configuration(trace, rows), int(device_index(trace, rows)[0])
    limits = limits_of(trace.devices[device]) if device >= 0 else None
    if limits is None or setup.grid[0] < 0 or setup.block[0] < 0 or setup.registers[0] < 0 or setup.shared[0] < 0:
        return ""
    blocks, threads = (int(np.prod(setup.shapes[place])) for place in (setup.grid[0], setup.block[0]))
    return advice(limits, blocks, threads, int(setup.registers[0]), int(setup.shared[0]))


def advice(limits: Limits, blocks: int, threads: int, registers: int, shared: int) -> str:
    """A sentence such as `8 registers fewer: 3 blocks per SM instead of 2`, empty where nothing is left to raise."""
    allowed = _allowed(limits, threads, registers, shared)
    active = min(allowed)
    if active == 0 or blocks <= 0:
        return ""
    room = limits.sms * active
    if blocks < room:
        return f"{room - blocks:,} blocks more fill the GPU once: {active} per SM on {limits.sms} SMs, now {blocks:,}"
    if min(allowed[2:]) == active:
        return _other_blocks(limits, threads, registers, shared)
    wanted = active + 1
    fewer = _fewer_registers(limits, threads, registers, wanted) if allowed[0] < wanted else 0
    less = _less_shared(limits, shared, wanted) if allowed[1] < wanted else 0
    if fewer is None or less is None:
        return ""
    parts = [f"{fewer} registers fewer"] if fewer else []
    parts += [f"{_size(less)} less shared memory"] if less else []
    return f"{' and '.join(parts)}: {wanted} blocks per SM instead of {active}"


def _allowed(limits: Limits, threads: int, registers: int, shared: int) -> list[int]:
    one = np.array([[threads], [registers], [shared]], np.int64)
    found: list[int] = block_limits(limits, one[0], one[1], one[2], limits.block_shared_optin)[:, 0].tolist()
    return found


def _fewer_registers(limits: Limits, threads: int, registers: int, wanted: int) -> int | None:
    """By how many registers per thread a kernel must shrink for so many blocks, None where none is few enough."""
    tried = np.arange(registers, 0, -1)
    same, nothing = np.full(len(tried), threads), np.zeros(len(tried), np.int64)
    enough = np.flatnonzero(block_limits(limits, same, tried, nothing, limits.block_shared)[0] >= wanted)
    return int(enough[0]) if len(enough) else None


def _less_shared(limits: Limits, shared: int, wanted: int) -> int | None:
    """The same in bytes of shared memory, in the steps in which it is handed out."""
    tried = np.arange(shared, -1, -limits.shared_unit)
    one, nothing = np.ones(len(tried), np.int64), np.zeros(len(tried), np.int64)
    enough = np.flatnonzero(block_limits(limits, one, nothing, tried, limits.block_shared_optin)[1] >= wanted)
    return int(shared - tried[enough[0]]) if len(enough) else None


def _other_blocks(limits: Limits, threads: int, registers: int, shared: int) -> str:
    """The nearest size of block that fills a multiprocessor better, all else being equal."""

    def filled(size: int) -> float:
        return min(_allowed(limits, size, registers, shared)) * size / limits.threads

    now = filled(-(-threads // WARP) * WARP)
    best = max(range(WARP, MOST_THREADS + 1, WARP), key=lambda size: (filled(size), -abs(size - threads)))
    if filled(best) <= now:
        return ""
    return f"blocks of {best} threads instead of {threads}: {100 * filled(best):.0f} % instead of {100 * now:.0f} %"


def _size(count: int) -> str:
    return f"{count / KIB:.3g} KiB" if count >= KIB else f"{count} bytes"
