"""How busy other programs kept the machine's CPUs for a while, from `/proc`; unknown elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

MIN_SECONDS = 0.2
"""Seconds below which the clock of `/proc/stat`, which ticks every 10 ms, says too little."""
BUSY_CPUS, BUSY_SHARE = 0.25, 0.1
"""CPUs, and share of all CPUs, that other programs must use for a warning."""


@dataclass(frozen=True, slots=True)
class Load:
    """What other programs used."""

    others_cpus: float
    """CPUs that they kept busy on average."""
    cpus: int
    """CPUs of the machine."""

    @property
    def is_high(self) -> bool:
        """Whether times may be too long because of it."""
        return self.others_cpus > max(BUSY_CPUS, BUSY_SHARE * self.cpus)

    @property
    def sentence(self) -> str:
        """A warning in words."""
        return f"Other programs kept {self.others_cpus:.1f} of {self.cpus} CPUs busy meanwhile: times may be too long."

    def as_metadata(self) -> dict[str, Any]:
        """The entry `load` of the metadata."""
        return {"others_cpus": round(self.others_cpus, 2), "cpus": self.cpus}


class LoadMeter:
    """Measures from its creation on."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._began = self._read()

    def load(self, total: Callable[[float], float] = float) -> Load | None:
        """The load since the meter was created; None where the system does not tell, or after too short a time.

        `total` adds up what all processes of the recording used, where these are several.
        """
        now = self._read()
        if self._began is None or now is None:
            return None
        seconds, busy, own = (after - before for after, before in zip(now, self._began, strict=True))
        own = total(own)
        if seconds < MIN_SECONDS:
            return None
        return Load(max(busy - own, 0.0) / seconds, os.cpu_count() or 1)

    def _read(self) -> tuple[float, float, float] | None:
        """Seconds on a clock, busy CPU seconds of the machine, and those of this process and its ended children."""
        try:
            fields = self._stat.read_text().split("\n", 1)[0].split()[1:]
            # user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user.
            ticks = [int(field) for field in fields[:8]]
        except (OSError, ValueError):
            return None
        if len(ticks) < 8:
            return None
        busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        return monotonic(), busy, sum(os.times()[:4])
