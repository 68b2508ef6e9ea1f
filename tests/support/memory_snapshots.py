"""Memory snapshots with a known answer: a small caching allocator that keeps its history as torch does."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20
START_US = 1_783_874_495_000_000
CUT = 2 * MIB
"""Bytes of a large segment are a multiple of it."""


def frame(line: int, file: str = "/home/u/proj/train.py", name: str = "forward") -> dict[str, Any]:
    """A frame as torch writes it."""
    return {"name": name, "filename": file, "line": line}


LIBRARY = frame(1790, "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", "_call_impl")


@dataclass
class FakeAllocator:
    """One device, best fit, nothing merged across segments; what is written is what torch writes."""

    limit: int = 1 << 34
    split_from: int = 512
    events: list[dict[str, Any]] = field(default_factory=list)
    segments: dict[int, int] = field(default_factory=dict)
    live: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By address: size, rounded, frames, is_pending, and whether the history has it."""
    next_address: int = 0x7F00_0000_0000
    active: list[int] = field(default_factory=list)
    """Bytes as the events count them after each event, from what was live when the history began."""
    reserved: list[int] = field(default_factory=list)
    recording: bool = True

    def gaps(self) -> list[tuple[int, int]]:
        """Free pieces: address and bytes."""
        found = []
        for start, length in self.segments.items():
            at = start
            for address in sorted(each for each in self.live if start <= each < start + length):
                if address > at:
                    found.append((at, address - at))
                at = address + self.live[address]["rounded"]
            if at < start + length:
                found.append((at, start + length - at))
        return found

    def alloc(self, size: int, frames: Sequence[dict[str, Any]] = (), **more: Any) -> int | None:
        """Allocate; None where there is no memory, which is written too."""
        rounded = max(-(-size // 512) * 512, 512)
        fitting = sorted((length, at) for at, length in self.gaps() if length >= rounded)
        if fitting:
            address = fitting[0][1]
        else:
            length = -(-rounded // CUT) * CUT
            if sum(self.segments.values()) + length > self.limit:
                self._write("oom", 0, size, frames, device_free=self.limit - sum(self.segments.values()), **more)
                return None
            address = self.next_address
            # Segments do not touch.
            self.next_address += length + CUT
            self.segments[address] = length
            self._write("segment_alloc", address, length, frames)
        self.live[address] = {
            "size": size,
            "rounded": rounded,
            "frames": list(frames),
            "is_pending": False,
            "is_known": self.recording,
        }
        self._write("alloc", address, size, frames, **more)
        return address

    def free(self, address: int, completes: bool = True) -> None:
        """Ask to free; without `completes` another stream still uses it."""
        block = self.live[address]
        self._write("free_requested", address, block["size"], ())
        block["is_pending"] = True
        if completes:
            self.complete(address)

    def complete(self, address: int) -> None:
        """Free what was asked for."""
        block = self.live.pop(address)
        self._write("free_completed", address, block["size"], ())

    def empty_cache(self) -> None:
        """Give back segments in which nothing is live."""
        for start, length in list(self.segments.items()):
            if not any(start <= each < start + length for each in self.live):
                del self.segments[start]
                self._write("segment_free", start, length, ())

    def _write(self, action: str, address: int, size: int, frames: Sequence[dict[str, Any]], **more: Any) -> None:
        if not self.recording:
            return
        event = {
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "time_us": START_US + 10 * len(self.events),
            "compile_context": "N/A",
            "user_metadata": "",
            "frames": list(frames),
            **more,
        }
        if action == "oom":
            del event["addr"]
        self.events.append(event)
        self.active.append(sum(block["size"] for block in self.live.values()))
        self.reserved.append(sum(self.segments.values()))

    def snapshot(self, device: int = 0) -> dict[str, Any]:
        """The dictionary that torch pickles."""
        segments = []
        for start, length in sorted(self.segments.items()):
            own = [(at, self.live[at]) for at in sorted(self.live) if start <= at < start + length]
            blocks = [
                {
                    "address": at,
                    "size": block["rounded"],
                    "requested_size": block["size"],
                    "state": "active_pending_free" if block["is_pending"] else "active_allocated",
                    "frames": block["frames"] if block["is_known"] else [],
                }
                for at, block in own
            ]
            blocks += [
                {"address": at, "size": size, "requested_size": 0, "state": "inactive", "frames": []}
                for at, size in self.gaps()
                if start <= at < start + length
            ]
            blocks.sort(key=lambda block: int(block["address"]))
            used = sum(block["rounded"] for _, block in own)
            segments.append(
                {
                    "device": device,
                    "address": start,
                    "total_size": length,
                    "allocated_size": used,
                    "active_size": used,
                    "requested_size": sum(block["size"] for _, block in own),
                    "stream": 0,
                    "segment_type": "large",
                    "segment_pool_id": (0, 0),
                    "is_expandable": False,
                    "frames": [],
                    "blocks": blocks,
                }
            )
        return {
            "segments": segments,
            "device_traces": [[] for _ in range(device)] + [self.events],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
            "external_annotations": [],
        }


def write(path: Path, snapshot: object, protocol: int = 4) -> str:
    """Pickle a snapshot to a file, whose path is returned."""
    path.write_bytes(pickle.dumps(snapshot, protocol=protocol))
    return str(path)


def fragmented() -> FakeAllocator:
    """A device of 64 MiB: half of it is free, in pieces of 4 MiB, when 16 MiB are asked for."""
    fake = FakeAllocator(limit=64 * MIB)
    whole = fake.alloc(64 * MIB, [frame(5)])
    assert whole is not None
    fake.free(whole)
    blocks = [fake.alloc(4 * MIB, [frame(10 + number % 2), LIBRARY, frame(90, name="main")]) for number in range(16)]
    for block in blocks[::2]:
        assert block is not None
        fake.free(block)
    assert fake.alloc(16 * MIB, [LIBRARY, frame(40, name="backward")]) is None
    return fake
