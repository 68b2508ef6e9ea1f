"""Occupancy: how many blocks of a kernel fit on a multiprocessor, what limits them, and how the grid fills the device.

Kineto's own estimate is reproduced exactly. It takes 48 KiB as the maximum shared memory of a block and so prints 0 %
for every kernel that opted in to more; the theoretical occupancy here does not (R3.35). Occupancy is no measure of
quality: matrix kernels of recent devices run one block per multiprocessor by design (R3.37). `advice` finds what would
raise it by trying smaller needs until one more block fits.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.devices.descriptions import Limits, device_index, device_note, is_amd, limits_of, units_of
from tracetui.frozen import frozen
from tracetui.kernel_names import decode
from tracetui.linking.groups import Combinations, combinations
from tracetui.linking.links import links
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import rounded_percent, size
from tracetui.model.results import kept
from tracetui.model.table import Column, Strings, coded, numbers
from tracetui.model.trace import Float64, Kind, Trace

# Launch configuration of kernels: grid, block, registers and shared memory, as recorded.
#
# The values are in the args of the kernel; ROCm records grid and block with the launch instead. A value that is no
# number or list of numbers counts as missing.

THREAD_GRIDS = ("hipExtModuleLaunchKernel",)
"""Launch calls whose grid counts threads and not blocks (R2.7)."""

Dims = tuple[int, ...]


@frozen
class Configuration:
    """One entry per row that was asked for."""

    grid: Int64
    """Blocks in each direction, as index in `shapes`; -1 for none."""
    block: Int64
    """Threads in each direction, likewise."""
    shapes: list[Dims]
    """The distinct grids and blocks, one to three numbers each."""
    registers: Int64
    """Registers per thread, NULL for none."""
    shared: Int64
    """Bytes of shared memory per block, static and dynamic, NULL for none."""
    occupancy: Int64
    """The profiler's estimate in percent, NULL for none."""

    def columns(self) -> tuple[Column, ...]:
        """Columns grid, block, registers, shared_bytes and kineto_occupancy_pct."""
        sizes = Strings("x".join(map(str, shape)) for shape in self.shapes)
        return (
            coded(col.GRID, self.grid, sizes),
            coded(col.BLOCK, self.block, sizes),
            numbers(col.REGISTERS, self.registers),
            numbers(col.SHARED_BYTES, self.shared),
            numbers(col.KINETO_OCCUPANCY_PCT, self.occupancy),
        )


def configuration(trace: Trace, rows: Int64) -> Configuration:
    """The launch configuration of GPU activities; a row of -1 has none."""
    given, event = trace.work_args, np.where(rows >= 0, trace.slices.event[rows], -1)
    shapes = _Shapes(*parsed_shapes(trace))
    grid, block = shapes.ids_of(given.text("grid", event)), shapes.ids_of(given.text("block", event))
    _take_from_launches(trace, rows, grid, block, shapes)
    return Configuration(
        grid,
        block,
        shapes.known,
        given.number("registers per thread", event),
        given.number("shared memory", event),
        given.number("est. achieved occupancy %", event),
    )


@kept(on_disk=True)
def parsed_shapes(trace: Trace) -> tuple[list[Dims], Int64]:
    """The distinct grids and blocks of a trace, and the number of each text's; -1 for none, and as a last entry."""
    ids: dict[Dims, int] = {}
    parsed = [_dims(text) for text in trace.work_args.strings]
    of_text = [-1 if dims is None else ids.setdefault(dims, len(ids)) for dims in parsed]
    return list(ids), np.array([*of_text, -1], np.int64)


class _Shapes:
    """The distinct grids and blocks of a trace by number, to which those of some rows are added."""

    def __init__(self, known: list[Dims], of_text: Int64) -> None:
        self.known = list(known)
        self._of_text = of_text
        self._ids = {dims: number for number, dims in enumerate(known)}

    def ids_of(self, texts: Int64) -> Int64:
        """The number of each text, -1 for anything but a list of one to three integers."""
        return self._of_text[texts]

    def id_of(self, dims: Dims) -> int:
        """The number of a shape."""
        if dims not in self._ids:
            self._ids[dims] = len(self.known)
            self.known.append(dims)
        return self._ids[dims]


def _dims(text: str) -> Dims | None:
    value = json.loads(text)
    if not isinstance(value, list) or not 1 <= len(value) <= 3:
        return None
    parts = [as_number(part) for part in value]
    # What is no number is not smaller than anything.
    return tuple(map(int, parts)) if all(abs(part) < 1 << 62 for part in parts) else None


def _take_from_launches(trace: Trace, rows: Int64, grid: Int64, block: Int64, shapes: _Shapes) -> None:
    """Fill in grid and block of kernels that lack them from their launches, and convert grids of threads to blocks."""
    launch = np.where(rows >= 0, links(trace).launch[rows], -1)
    launched = (launch >= 0) & (trace.slices.kind[rows] == Kind.KERNEL)
    for sizes, name in ((grid, "grid"), (block, "block")):
        bare = np.flatnonzero(launched & (sizes < 0))
        sizes[bare] = shapes.ids_of(trace.work_args.text(name, trace.slices.event[launch[bare]]))
    calls = [trace.names.find(name) for name in THREAD_GRIDS]
    counted = np.flatnonzero(launched & (grid >= 0) & (block >= 0) & np.isin(trace.slices.name[launch], calls))
    pairs = combinations(grid[counted], block[counted])
    blocks = [
        shapes.id_of(
            tuple(-(-count // max(size, 1)) for count, size in zip(shapes.known[a], shapes.known[b], strict=False))
        )
        for a, b in zip(grid[counted[pairs.first]].tolist(), block[counted[pairs.first]].tolist(), strict=True)
    ]
    grid[counted] = np.array(blocks, np.int64)[pairs.member] if len(counted) else grid[counted]


def as_number(value: Any) -> float:
    """A value from the args of an event as a number; NaN for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


MAX_BLOCK_THREADS = 1024
"""Maximum threads of a block."""


def advice_of(trace: Trace, row: int, setup: Configuration) -> str:
    """The advice for a kernel of a trace with its configuration, which is the only one of `setup`.

    Empty where the configuration is unknown or nothing can be raised.
    """
    if trace.slices.kind[row] != Kind.KERNEL:
        return ""
    device = int(device_index(trace, np.array([row], np.int64))[0])
    limits = limits_of(trace.devices[device]) if device >= 0 else None
    if limits is None or setup.grid[0] < 0 or setup.block[0] < 0 or setup.registers[0] < 0 or setup.shared[0] < 0:
        return ""
    blocks, threads = (int(np.prod(setup.shapes[index])) for index in (setup.grid[0], setup.block[0]))
    return advice(limits, blocks, threads, int(setup.registers[0]), int(setup.shared[0]))


@lru_cache(maxsize=1024)
def advice(limits: Limits, blocks: int, threads: int, registers: int, shared: int) -> str:
    """A sentence such as `8 fewer registers: 3 blocks per SM instead of 2`; empty where nothing can be raised."""
    allowed = _allowed(limits, threads, registers, shared)
    active = min(allowed)
    if active == 0 or blocks <= 0:
        return ""
    room = limits.sms * active
    if blocks < room:
        more = f"{room - blocks:,} more blocks would fill the GPU once"
        return f"{more}: {active} per SM on {limits.sms} SMs, now {blocks:,}"
    if min(allowed[2:]) == active:
        return _other_blocks(limits, threads, registers, shared)
    wanted = active + 1
    # Registers per thread that a kernel must save for a number of blocks, None where none is enough.
    if allowed[0] < wanted:
        tried = np.arange(registers, 0, -1)
        same, nothing = np.full(len(tried), threads), np.zeros(len(tried), np.int64)
        enough = np.flatnonzero(block_limits(limits, same, tried, nothing, limits.block_shared)[0] >= wanted)
        fewer = int(enough[0]) if len(enough) else None
    else:
        fewer = 0
    # The same in bytes of shared memory, in allocation units.
    if allowed[1] < wanted:
        tried = np.arange(shared, -1, -limits.shared_unit)
        one, nothing = np.ones(len(tried), np.int64), np.zeros(len(tried), np.int64)
        enough = np.flatnonzero(block_limits(limits, one, nothing, tried, limits.block_shared_optin)[1] >= wanted)
        less = int(shared - tried[enough[0]]) if len(enough) else None
    else:
        less = 0
    if fewer is None or less is None:
        return ""
    parts = [f"{fewer} fewer registers"] if fewer else []
    parts += [f"{size(less)} less shared memory"] if less else []
    return f"{' and '.join(parts)}: {wanted} blocks per SM instead of {active}"


def _allowed(limits: Limits, threads: int, registers: int, shared: int) -> list[int]:
    one = np.array([[threads], [registers], [shared]], np.int64)
    allowed: list[int] = block_limits(limits, one[0], one[1], one[2], limits.block_shared_optin)[:, 0].tolist()
    return allowed


def _other_blocks(limits: Limits, threads: int, registers: int, shared: int) -> str:
    """The nearest block size that fills a multiprocessor better, all else being equal."""

    def filled(size: int) -> float:
        return min(_allowed(limits, size, registers, shared)) * size / limits.threads

    now = filled(-(-threads // WARP) * WARP)
    best = max(range(WARP, MAX_BLOCK_THREADS + 1, WARP), key=lambda size: (filled(size), -abs(size - threads)))
    if filled(best) <= now:
        return ""
    shares = f"{rounded_percent(100 * filled(best))} instead of {rounded_percent(100 * now)}"
    return f"blocks of {best} threads instead of {threads}: {shares}"


WARP = 32
RESOURCES = ("registers", "shared memory", "warps", "blocks")
"""Resources of a multiprocessor, in the order of the rows of `block_limits`."""
UNLIMITED_BLOCKS = 1 << 40
"""Number of blocks where a kernel uses nothing of a resource."""
UPPER_BOUND = "upper bound: blocks are launched in clusters"
ARTEFACT = "the profiler's 0 % is an artefact: more than 48 KiB of shared memory per block"


@frozen
class Residency:
    """One entry per row; NaN and -1 where the trace does not tell."""

    active: Float64
    """Blocks resident on a multiprocessor."""
    theoretical: Float64
    """Theoretical occupancy in percent of the multiprocessor's threads."""
    bound: Float64
    """Percent that the grid can reach on average."""
    kineto: Float64
    """Kineto's estimate, in whole percent."""
    waves: Float64
    """Grid size divided by the blocks that run at once; below 1 the device is never full."""
    blocks_per_unit: Float64
    """Blocks of the grid per multiprocessor or compute unit."""
    limiter: Int64
    """Id in `limiters`."""
    limiters: Strings
    mark: Int64
    """Id in `marks`, a caveat about the number."""
    marks: Strings

    @property
    def tail(self) -> Float64:
        """Percent of the slots of all waves that stay empty in the last one."""
        whole = np.ceil(self.waves)
        with np.errstate(invalid="ignore", divide="ignore"):
            empty: Float64 = 100 * (whole - self.waves) / whole
        return empty

    def columns(self) -> dict[str, Column]:
        """Columns by name."""
        columns = (
            numbers(col.OCCUPANCY_PCT, self.theoretical),
            numbers(col.BOUND_OCCUPANCY_PCT, self.bound),
            coded(col.LIMITER, self.limiter, self.limiters),
            numbers(col.WAVES, self.waves),
            numbers(col.TAIL_PCT, self.tail),
            numbers(col.BLOCKS_PER_SM, self.blocks_per_unit),
            coded(col.OCCUPANCY_MARK, self.mark, self.marks),
        )
        return {column.name: column for column in columns}


def block_limits(
    limits: Limits, threads: Int64, registers: Int64, shared: Int64, most_shared: int
) -> NDArray[np.int64]:
    """Blocks per multiprocessor that each of `RESOURCES` allows: one row per resource, one column per kernel.

    `threads` per block, `registers` per thread, `shared` bytes per block, of which a block may have at most
    `most_shared`.
    """
    warps = -(-threads // WARP)
    per_warp = _up(registers * WARP, 256)
    groups = limits.registers // limits.partitions // np.maximum(per_warp, 1) * limits.partitions
    by_registers = np.where(per_warp > 0, groups // np.maximum(warps, 1), UNLIMITED_BLOCKS)
    too_many = per_warp * _up(warps, limits.partitions) > limits.block_registers
    by_registers[too_many | (registers > limits.thread_registers)] = 0
    taken = _up(shared + limits.reserved, limits.shared_unit)
    by_shared = np.where(taken > 0, limits.shared // np.maximum(taken, 1), UNLIMITED_BLOCKS)
    by_shared[taken > most_shared + limits.reserved] = 0
    by_warps = limits.threads // WARP // np.maximum(warps, 1)
    return np.stack([by_registers, by_shared, by_warps, np.full(len(threads), limits.blocks)])


def kineto_percent(limits: Limits, blocks: Int64, threads: Int64, registers: Int64, shared: Int64) -> Int64:
    """Kineto's `est. achieved occupancy %`, in its own 32-bit arithmetic."""
    active = block_limits(limits, threads, registers, shared, limits.block_shared).min(axis=0)
    filled = np.minimum(active.astype(np.float32), blocks.astype(np.float32) / np.float32(limits.sms))
    share = filled * threads.astype(np.float32) / np.float32(limits.threads)
    percent: Int64 = (0.5 + share.astype(np.float64) * 100).astype(np.int64)
    return percent


def residency(trace: Trace, rows: Int64, setup: Configuration) -> Residency:
    """The occupancy of GPU activities from their launch configuration; a row of -1 has none."""
    device = device_index(trace, rows)
    device[(rows < 0) | (trace.slices.kind[rows] != Kind.KERNEL)] = -1
    clustered = _clustered(trace, rows)
    kinds = combinations(device, setup.grid, setup.block, setup.registers, setup.shared, clustered.astype(np.int8))
    return _Calculation(trace, device, clustered, setup, kinds).result()


class _Calculation:
    """Computes each distinct configuration once."""

    def __init__(self, trace: Trace, device: Int64, clustered: Bool, setup: Configuration, kinds: Combinations) -> None:
        first = kinds.first
        self._trace, self._kinds = trace, kinds
        self._device, self._clustered = device[first], clustered[first]
        sizes = np.array([math.prod(map(float, shape)) for shape in setup.shapes] + [-1.0])
        sizes[~((sizes > 0) & (sizes < UNLIMITED_BLOCKS))] = -1
        whole = sizes.astype(np.int64)
        self._blocks, self._threads = whole[setup.grid[first]], whole[setup.block[first]]
        self._registers, self._shared = setup.registers[first], setup.shared[first]
        self._values = {name: np.full(len(kinds), np.nan) for name in ("active", "full", "bound", "kineto", "waves")}
        self._per_unit = np.full(len(kinds), np.nan)
        self._limiter, self._mark = np.full(len(kinds), -1), np.full(len(kinds), -1)
        self._limiters, self._marks = Strings(), Strings()

    def result(self) -> Residency:
        for index, device in enumerate(self._trace.devices):
            units = units_of(device)
            mine = np.flatnonzero((self._device == index) & (self._blocks > 0))
            if units is not None:
                self._per_unit[mine] = self._blocks[mine] / units
            limits = limits_of(device)
            known = self._threads[mine] > 0
            for needed in (self._registers[mine], self._shared[mine]):
                known &= (needed >= 0) & (needed < UNLIMITED_BLOCKS)
            if limits is not None:
                self._fill(limits, mine[known])
        member = self._kinds.member
        values = {name: column[member] for name, column in self._values.items()}
        return Residency(
            values["active"],
            values["full"],
            values["bound"],
            values["kineto"],
            values["waves"],
            self._per_unit[member],
            self._limiter[member],
            self._limiters,
            self._mark[member],
            self._marks,
        )

    def _fill(self, limits: Limits, mine: Int64) -> None:
        threads, registers, shared = self._threads[mine], self._registers[mine], self._shared[mine]
        blocks = self._blocks[mine]
        allowed = block_limits(limits, threads, registers, shared, limits.block_shared_optin)
        active = allowed.min(axis=0)
        kineto = kineto_percent(limits, blocks, threads, registers, shared)
        self._values["kineto"][mine] = kineto
        # A kernel that ran did fit: a zero says that the device described is not the one that ran it.
        fits = active > 0
        mine, threads, shared, blocks, active = (part[fits] for part in (mine, threads, shared, blocks, active))
        per_unit = blocks / limits.sms
        self._values["active"][mine] = active
        self._values["full"][mine] = 100 * active * -(-threads // WARP) * WARP / limits.threads
        self._values["bound"][mine] = 100 * np.minimum(active, per_unit) * threads / limits.threads
        self._values["waves"][mine] = per_unit / active
        tight = allowed[:, fits] == active
        for index, row in enumerate(mine.tolist()):
            words = ", ".join(name for name, hit in zip(RESOURCES, tight[:, index].tolist(), strict=True) if hit)
            if per_unit[index] < active[index]:
                few = f"{per_unit[index]:.1f}" if per_unit[index] >= 0.05 else "under 0.1"
                words = f"grid ({few} blocks per SM)"
            self._limiter[row] = self._limiters.intern(words)
        self._mark[mine[shared > limits.block_shared]] = self._marks.intern(ARTEFACT)
        self._mark[mine[self._clustered[mine]]] = self._marks.intern(UPPER_BOUND)


def occupancy_note(trace: Trace) -> str:
    """The reason why the occupancy of this trace is unknown; empty where it is known."""
    if trace.devices and all(is_amd(device) for device in trace.devices):
        unknown = (
            "Traces of AMD devices hold neither registers nor LDS: occupancy is unknown, only blocks_per_sm "
            "(workgroups per compute unit) is given."
        )
        return " ".join(filter(None, (unknown, device_note(trace))))
    return device_note(trace)


def _clustered(trace: Trace, rows: Int64) -> Bool:
    """Mask of the kernels whose name says that they run in clusters or on pairs of multiprocessors."""
    names = trace.slices.name[rows]
    used, index = np.unique(names, return_inverse=True)
    decoded = [decode(trace.names[name]) for name in used.tolist()]
    is_clustered = np.array([max(each.cluster, default=1) > 1 or "2-CTA" in each.flags for each in decoded], bool)
    mask: Bool = is_clustered[index]
    return mask & (rows >= 0)


def _up(values: Int64, unit: int) -> Int64:
    """Rounded up to a multiple."""
    return -(-values // unit) * unit
