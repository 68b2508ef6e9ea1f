"""Reading the packets of a Perfetto file beside a reader in plain Python and beside `protobuf`, in turns.

Each side frames the packets and collects the columns of slices, annotations with names as numbers, and GPU activity;
nothing is paired. `protobuf` (no dependency, `pip install protobuf`) parses messages that are declared with the fields
that occur, and its objects are walked in Python. The file is `../shared/traces/pftrace/d06_*`, or the one given.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import importlib.util
import io
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.paths import SHARED
from tests.support.perfetto.torch_reader import read_torch
from tracetui.model.trace import Quality
from tracetui.reading.columns import Collector
from tracetui.reading.load_progress import collector_off
from tracetui.reading.perfetto.packet_collector import PacketCollector
from tracetui.reading.perfetto.packets import PacketReader
from tracetui.reading.source import CountedFile, Source

_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Trace": {"packet": (1, "*Packet")},
    "Packet": {
        "timestamp": (8, "uint64"),
        "sequence": (10, "uint32"),
        "flags": (13, "uint32"),
        "track_event": (11, "TrackEvent"),
        "stage": (53, "Stage"),
    },
    "TrackEvent": {
        "type": (9, "int32"),
        "track": (11, "uint64"),
        "name": (10, "uint64"),
        "categories": (3, "*uint64"),
        "annotations": (4, "*Annotation"),
        "submissions": (3000, "Submissions"),
    },
    "Submissions": {"id": (1, "*uint64")},
    "Annotation": {"name": (10, "string"), "int_value": (4, "int64")},
    "Stage": {
        "id": (1, "uint64"),
        "duration": (2, "uint64"),
        "gpu": (11, "int32"),
        "queue": (13, "uint64"),
        "stage": (14, "uint64"),
        "name": (20, "uint64"),
        "kernel": (19, "uint64"),
        "extra": (6, "*Extra"),
    },
    "Extra": {"name": (1, "string"), "value": (2, "string")},
}
"""The messages and their fields: number and type, `*` for a repeated one."""


def of_columns(data: bytes) -> int:
    """Read as the importer does; the number of packets."""
    packets = PacketCollector(Collector(Quality()))
    raw = CountedFile(io.BytesIO(data), len(data), lambda: False, "benchmark")  # type: ignore[arg-type]
    for block in PacketReader(Source("benchmark", None, raw, raw, "plain")):
        packets.add(block)
    return packets.collector.events


def of_plain_python(data: bytes) -> int:
    """Read byte by byte; the number of packets."""
    return read_torch(data).packets


def protobuf_reader() -> Callable[[bytes], int]:
    """What reads with `protobuf`."""
    # Untyped, so that it is checked the same whether it is installed or not.
    descriptor_pb2, descriptor_pool, message_factory = (
        importlib.import_module(f"google.protobuf.{name}")
        for name in ("descriptor_pb2", "descriptor_pool", "message_factory")
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package="t", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = kinds.LABEL_REPEATED if kind.startswith("*") else kinds.LABEL_OPTIONAL
            plain = kind.removeprefix("*")
            if plain in _MESSAGES:
                message.field.add(
                    name=field, number=number, label=label, type=kinds.TYPE_MESSAGE, type_name=f".t.{plain}"
                )
            else:
                message.field.add(name=field, number=number, label=label, type=getattr(kinds, f"TYPE_{plain.upper()}"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    trace = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Trace"))
    return lambda data: _walk(trace.FromString(data))


def _walk(trace: Any) -> int:
    begins: list[tuple[Any, ...]] = []
    ends: list[tuple[int, int]] = []
    numbers: list[tuple[int, int, int]] = []
    others: list[tuple[int, int]] = []
    stages: list[tuple[int, ...]] = []
    extra: list[tuple[int, int, str]] = []
    names: dict[str, int] = {}
    for packet in trace.packet:
        if packet.HasField("track_event"):
            event = packet.track_event
            if event.type == 1:
                for each in event.annotations:
                    name = names.setdefault(each.name, len(names))
                    if each.HasField("int_value"):
                        numbers.append((len(begins), name, each.int_value))
                    else:
                        others.append((len(begins), name))
                begins.append((packet.timestamp, event.track, event.name, event.categories[:1]))
            else:
                ends.append((packet.timestamp, event.track))
        elif packet.HasField("stage"):
            stage = packet.stage
            for each in stage.extra:
                extra.append((len(stages), names.setdefault(each.name, len(names)), each.value))
            stages.append((packet.timestamp, stage.duration, stage.gpu, stage.queue, stage.stage, stage.name, stage.id))
    return len(trace.packet)


def main() -> None:
    """Measure all sides in turns, and print the best of each and the ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.perfetto_reading", description=__doc__)
    default = next((SHARED / "pftrace").glob("d06_*"), None)
    parser.add_argument("trace", nargs="?", type=Path, default=default)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    raw = options.trace.read_bytes()
    data = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    sides: dict[str, Callable[[bytes], int]] = {"columns": of_columns, "plain Python": of_plain_python}
    if importlib.util.find_spec("google") and importlib.util.find_spec("google.protobuf"):
        sides["protobuf"] = protobuf_reader()
    best = dict.fromkeys(sides, float("inf"))
    with collector_off():
        for _ in range(options.rounds):
            for side, read in sides.items():
                start = time.process_time()
                packets = read(data)
                best[side] = min(best[side], time.process_time() - start)
    print(
        f"{options.trace.name}: {packets:,} packets, {len(data) / 1e6:,.1f} MB; CPU seconds, best of {options.rounds}"
    )
    for side, seconds in best.items():
        ratio, peak = seconds / best["columns"], _peak(sides[side], data)
        print(f"  {side:13} {seconds:.2f} s, {ratio:.1f} times the columns, peak {peak:,.0f} MB")


def _peak(read: Callable[[bytes], int], data: bytes) -> float:
    """MB that Python and numpy allocated at most while reading; `protobuf` allocates its messages elsewhere."""
    tracemalloc.start()
    read(data)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak


if __name__ == "__main__":
    main()
