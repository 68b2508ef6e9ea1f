"""The digest of a trace: its measures over the steps, and what tells which traces it can be compared with (R6.1).

A digest is made of its trace once and kept as the summaries of ranks are. It has a few kB and holds no Python objects.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tracetui.comparing.fairness import bare, rank
from tracetui.comparing.measures import known_measures
from tracetui.comparing.noise import Sample
from tracetui.comparing.side import CAPTURE, STEP, Side, side
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Family, short_kernel
from tracetui.linking.call_sites import site_of
from tracetui.linking.links import op_rows
from tracetui.linking.step_kinds import unprofiled_time
from tracetui.linking.steps import steps
from tracetui.model.quantities import counted
from tracetui.model.trace import Float64, Trace
from tracetui.opening.cache_folder import DIGESTS
from tracetui.opening.rank_reading import SummaryKind
from tracetui.text import clean

DIGEST_VERSION = 2
"""Number of the layout and of what the measures mean; a digest of another one is not read."""
MAX_NAMES = 16
"""Maximum modules, and maximum kernels or operators, whose times are kept: the largest."""
MAX_NAME = 120
"""Maximum characters of a name."""
MAX_BYTES = 4 << 20
"""Maximum size of a digest that is read, unpacked."""
STEP_TIME = "step_us"
"""Name of the time of a step: its period on the GPU (R3.90), else its duration on the CPU."""
UNPROFILED = "unprofiled_us"
"""Name of the time of a step without the profiler, where the recorder measured it."""
MODULE_GROUP, KERNEL_GROUP, OP_GROUP = "module:", "kernel:", "op:"
"""Begin the names of times of modules, kernels and operators."""
FAMILY_TIMES = frozenset(f"{each.name.lower()}_us" for each in Family)
"""Names of the times of families."""
_RECORDED_WITH = ("compile", "dtype", "mode", "backend", "cold", "threads", "shapes", "stack", "memory")
"""Options of a recording that change its times."""
_MIN_TIME_NS, _MAX_TIME_NS = 10**18, 4 * 10**18
"""Times on the wall clock, from 2001 to 2096: others count from something else."""
_LENGTH = struct.Struct("<I")


@frozen(eq=True)
class DigestFacts:
    """Facts of a trace beside its measures."""

    program: str = ""
    """Workload, parameters and options of a recording of `tracetui run`; empty where the trace does not say."""
    device: str = ""
    """The GPUs by name; without GPU activities `CPU` and the threads of torch."""
    stepped: str = ""
    """What counts as a step."""
    world_size: int = 1
    rank: int = 0
    began_ns: int = 0
    """Start of the recording on the wall clock, 0 where it is not known."""
    commit: str = ""
    """The commit of the working tree, in hexadecimal; empty where the trace does not say."""
    is_dirty: bool = False
    """True where files of the working tree differed from the commit."""
    torch: str = ""
    steps: int = 0
    """Number of complete steps."""
    view: str = ""
    """View string of the step of median length; empty without steps."""
    loss: str = ""
    """Reason why the numbers may cover only a part of the recording, as the end of a sentence; else empty."""


class Summed(NamedTuple):
    """A measure over the steps of a trace."""

    median: float
    scatter: float
    """Distance of the quartiles, of fewer than four steps the range (R3.53); 0 for a single step."""
    error: float
    """For how much the median may be off: three standard errors."""


@frozen
class Digest:
    """Measures over the steps."""

    facts: DigestFacts
    units: Mapping[str, str]
    """The unit of each measure by its name, in their order."""
    values: Float64
    """Shape (measures, fields of `Summed`)."""

    @cached_property
    def measures(self) -> Mapping[str, Summed]:
        """The measures that the trace holds, by name."""
        return {name: Summed(*row) for name, row in zip(self.units, self.values.tolist(), strict=True)}

    def to_bytes(self) -> bytes:
        """The digest as one compressed block."""
        text = json.dumps({"facts": asdict(self.facts), "units": dict(self.units)}).encode()
        return zlib.compress(_LENGTH.pack(len(text)) + text + self.values.astype("<f8").tobytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Digest:
        """The digest that `to_bytes` wrote.

        Raises: ValueError for other bytes.
        """
        try:
            content = zlib.decompressobj().decompress(data, MAX_BYTES)
            (length,) = _LENGTH.unpack_from(content)
            text = json.loads(content[_LENGTH.size : _LENGTH.size + length])
            known = {each.name: text["facts"][each.name] for each in fields(DigestFacts)}
            values = np.frombuffer(content[_LENGTH.size + length :], "<f8")
            return cls(DigestFacts(**known), text["units"], values.reshape(len(text["units"]), len(Summed._fields)))
        except (KeyError, TypeError, struct.error, zlib.error) as error:
            raise ValueError("no digest of a trace") from error


KEPT = SummaryKind(DIGESTS, DIGEST_VERSION, Digest.from_bytes)
"""Digests in the user's cache."""


def digest_of_file(path: str) -> bytes:
    """Read a trace and return its digest as bytes.

    Raises: TraceError for a file that cannot be used, AnalysisFailed for a defect.
    """
    # Imports that a process can do without where the cache has everything.
    from tracetui.model.results import guarded
    from tracetui.reading.load import load

    trace = load(path)
    with guarded("The digest of the trace"):
        return digest(trace).to_bytes()


def digest(trace: Trace) -> Digest:
    """The digest of the complete steps of a trace, or of the whole capture where it has none."""
    whole = side(trace)
    measures, _ = known_measures(whole)
    rows = {each.name: (each.unit, each.values) for each in measures.values()}
    period = rows.get("period_us", ("us", np.full(len(whole), np.nan)))[1]
    rows = {STEP_TIME: ("us", np.where(np.isnan(period), rows["dur_us"][1], period)), **rows}
    for name, values in _times_by_name(whole):
        # Kernels whose names differ in what nobody reads are one.
        rows[name] = ("us", rows[name][1] + values if name in rows else values)
    step_time = rows[STEP_TIME][1]
    there = {name: values[~np.isnan(values)] for name, (_, values) in rows.items()}
    known = {name: _summed(values) for name, values in there.items() if len(values)}
    if (own := unprofiled_time(trace)) is not None and own.low_us and own.high_us:
        width = own.high_us - own.low_us
        # Of an interval of 95 %.
        known[UNPROFILED], rows[UNPROFILED] = Summed(own.median_us, width, 3 / 3.92 * width), ("us", step_time)
    middle = np.argsort(step_time, kind="stable")[max(len(whole) - 1, 0) // 2] if len(whole) else -1
    view = f"s{whole.number[middle]}" if whole.part_kind == STEP and middle >= 0 else ""
    units = {name: rows[name][0] for name in known}
    return Digest(_facts(trace, whole, view), units, np.array(list(known.values())).reshape(len(known), -1))


def _summed(values: Float64) -> Summed:
    scatter = float(np.nan_to_num(Sample(values).scatter))
    # The standard error of a median is 0.93 times the distance of the quartiles over the root of the sample's size.
    return Summed(float(np.median(values)), scatter, 3 * 0.93 * scatter / math.sqrt(len(values)))


def _facts(trace: Trace, whole: Side, view: str) -> DigestFacts:
    own = trace.metadata.get("tracetui")
    about: Mapping[str, Any] = own if isinstance(own, Mapping) else {}
    git = about.get("git")
    tree: Mapping[str, Any] = git if isinstance(git, Mapping) else {}
    place = rank(trace)
    device = " + ".join(sorted({each.name for each in trace.devices if each.name})) or "GPU"
    if len(whole.activities()[0]) == 0:
        threads = about.get("threads")
        device = f"CPU, {counted(threads, 'thread')}" if isinstance(threads, int) else "CPU"
    began = trace.origin_ns + trace.window[0]
    return DigestFacts(
        program=_program(about),
        device=clean(device),
        stepped=CAPTURE if whole.part_kind == CAPTURE else clean(steps(trace).found_by)[:MAX_NAME],
        world_size=place.of if place else 1,
        rank=place.number if place else 0,
        began_ns=began if _MIN_TIME_NS < began < _MAX_TIME_NS else 0,
        commit=_text(tree.get("commit")),
        is_dirty=tree.get("dirty") is True,
        torch=_text(about.get("torch")),
        steps=len(whole) if whole.part_kind == STEP else 0,
        view=view,
        loss=clean(trace.quality.loss),
    )


def _program(about: Mapping[str, Any]) -> str:
    """The workload, its parameters, and the options of the recording that are not usual, in words."""
    name = _text(about.get("workload"))
    if not name:
        return ""
    # A function by its annotation, which is the same in whatever folder its file lies.
    words = [_text(about.get("label")) or name if ":" in name else name]
    for key in ("params", "options"):
        given = about.get(key)
        for option, value in sorted(given.items()) if isinstance(given, Mapping) else ():
            if key == "params":
                words.append(f"{option}={value}")
            elif option in _RECORDED_WITH and value not in (False, None, "", 0, "default", "inductor", "auto"):
                words.append(str(option) if value is True else f"{option}={value}")
    return clean(" ".join(words))[: 2 * MAX_NAME]


def _text(value: object) -> str:
    return clean(value)[:MAX_NAME] if isinstance(value, str) else ""


def _times_by_name(whole: Side) -> Iterator[tuple[str, Float64]]:
    """Time in µs of the largest modules and kernels; without GPU activities self time of operators on the CPU."""
    trace = whole.trace
    rows, part = whole.activities()
    times, group = whole.times(rows), KERNEL_GROUP
    if len(rows) == 0:
        rows, group = op_rows(trace), OP_GROUP
        part = whole.part_of(rows)
        rows, part = rows[part >= 0], part[part >= 0]
        times = whole.self_times()[rows]
    ids, paths, _ = site_of(trace, rows, "module")
    shown = bare if group == OP_GROUP else short_kernel
    for beginning, number, texts in (
        (MODULE_GROUP, ids, paths),
        (group, trace.slices.name[rows].astype(np.int64), trace.names),
    ):
        known = number >= 0
        used, index = np.unique(number[known], return_inverse=True)
        sums = np.bincount(index * len(whole) + part[known], times[known], len(used) * len(whole))
        table = sums.reshape(len(used), len(whole)) / 1000
        for row in np.argsort(-table.sum(axis=1), kind="stable")[:MAX_NAMES].tolist():
            text = str(texts[int(used[row])])
            yield beginning + clean(text if beginning == MODULE_GROUP else shown(text))[:MAX_NAME], table[row]
