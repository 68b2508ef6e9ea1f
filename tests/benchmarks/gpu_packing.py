"""Few files of a limited size out of many: what is fetched from a machine that is lent."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

MAX_FILES = 8
MAX_BYTES = 15 << 20
"""Of a file, a little below what is carried."""
PACKED = "packed.json"
"""Names what earlier calls have packed."""


def pack(work: Path, folder: Path) -> list[str]:
    """Pack what was not packed yet, the oldest first, and every outcome again; what had no room is said.

    The outcomes are small, and always all in the first file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = set(json.loads((work / PACKED).read_text())) if (work / PACKED).exists() else set()
    outcomes = sorted(work.glob("*.outcome.json"))
    results = sorted(
        (path for path in work.iterdir() if path.is_file() and path.name not in done and not _is_note(path)),
        key=lambda path: path.stat().st_mtime,
    )
    said, packed = [], []
    bins = _bins(results, sum(path.stat().st_size + 1024 for path in outcomes))
    for number, members in enumerate(bins):
        if number == MAX_FILES:
            left = [path.name for members in [members, *bins] for path in members]
            said.append(f"no room for {len(left)} files, which the next call packs: {', '.join(left[:6])}")
            break
        _write(folder / f"gpu_day_{number + 1}.tar", [*(outcomes if number == 0 else ()), *members])
        packed += [path.name for path in members]
    too_large = [path.name for path in results if path.stat().st_size > MAX_BYTES]
    said += [f"{name} is larger than a file may be, and stays in {work.name}" for name in too_large]
    (work / PACKED).write_text(json.dumps(sorted(done | set(packed))))
    return said


def _is_note(path: Path) -> bool:
    return path.name == PACKED or path.name.endswith(".outcome.json")


def _bins(paths: list[Path], taken: int) -> Iterator[list[Path]]:
    """The files of each archive, of which the first has `taken` bytes already; there is always a first one."""
    members: list[Path] = []
    for path in paths:
        size = path.stat().st_size + 1024
        if size > MAX_BYTES:
            continue
        if taken + size > MAX_BYTES:
            yield members
            members, taken = [], 0
        members.append(path)
        taken += size
    yield members


def _write(path: Path, members: list[Path]) -> None:
    with tarfile.open(path, "w") as archive:
        for member in members:
            data = member.read_bytes()
            entry = tarfile.TarInfo(member.name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
