"""Which versions of torch were tried; `--version`, the README and the tests take it from here."""

from __future__ import annotations

OLDEST, NEWEST = "1.8", "2.15"
"""The versions of torch between which files were read."""
RECORDED = ("2.13.0", "2.14.1", "2.15.0")
"""The versions of torch with which the tests record."""
TRIED = (
    f"Tried with files of torch {OLDEST} to {NEWEST} (CUDA and ROCm); the tests record with torch "
    f"{', '.join(RECORDED[:-1])} and {RECORDED[-1]}."
)
"""All of it in a sentence."""
