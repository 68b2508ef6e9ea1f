"""The model of a device by its name, else by what a description says of its size.

Names are matched by whole words, so that neither `RTX 3080 Ti` is an RTX 3080 nor `A10` an A100. Boards of one name
differ in multiprocessors and memory, which decide where a description gives them; what fits no board stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from tracetui.devices.peaks import MODELS, Peaks
from tracetui.model.whole_numbers import whole_number

MAX_UNITS_RATIO = 1.05
"""Maximum ratio of multiprocessors to those of a model of the same name; slices of a GPU have far fewer."""
MAX_PEAK_RATIO_OF_ALIKE = 1.1
"""Maximum ratio of the peaks of models that only the name would tell apart."""
MIN_MEMORY, MAX_MEMORY = 0.88e9, 1.02 * (1 << 30)
"""Minimum and maximum bytes of memory that a device reports per GB with which it is sold."""

_OTHER_BOARD = re.compile(
    r"(?<![a-z0-9])(?:ti|d|super|laptop|mobile|max-q|pcie|nvl|mig|fhhl|server|sff|oem|ada|embedded)(?![a-z0-9])"
)
"""Words after a model name that make it another model with other rates."""
_NO_MODEL = re.compile(r"(?:nvidia )?(?:graphics device|pg\d{3}\S*)")
"""Names that boards have before, or without, a name of the model."""


def device_peaks(name: str, properties: Mapping[str, Any]) -> Peaks | None:
    """The model of a device: by name, the most specific one first; else by capability, multiprocessors and memory."""
    return _best(_named(name), properties) if has_model_name(name) else _by_size(properties)


def has_model_name(name: str) -> bool:
    """Whether a name is that of a model, known here or not, and no placeholder such as `NVIDIA Graphics Device`."""
    text = name.strip().casefold()
    # The models are asked last: their patterns take a while to make.
    return bool(text) and (not _NO_MODEL.fullmatch(text) or bool(_named(name)))


def peaks_named(name: str) -> Peaks | None:
    """The model that a person names, None for an unknown one."""
    return _best(_named(name), {})


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Peaks], ...]:
    """The names of every model as a pattern, made when a device is first looked up."""
    return tuple((re.compile(rf"(?<![a-z0-9])(?:{model.names})(?![a-z0-9])"), model) for model in MODELS)


def _named(name: str) -> list[tuple[int, Peaks]]:
    """The models that a name fits, with the number of characters that name each."""
    text = " ".join(name.casefold().split())
    found = []
    for pattern, model in _patterns():
        match = pattern.search(text)
        if match and not _OTHER_BOARD.search(text, match.end()):
            found.append((len(match[0]), model))
    return found


def _best(named: Sequence[tuple[int, Peaks]], properties: Mapping[str, Any]) -> Peaks | None:
    """Of the models that fit a description as well, the one with the longest name."""
    kept = [pair for pair in named if _is_of_vendor(pair[1], properties) and _has_memory(pair[1], properties)]
    units = _positive(properties, "numSms")
    same_size = [pair for pair in kept if pair[1].units == units]
    if units and not same_size:
        kept = [pair for pair in kept if max(pair[1].units, units) <= MAX_UNITS_RATIO * min(pair[1].units, units)]
    # The first of equally long names counts.
    return max(same_size or kept, key=lambda pair: pair[0])[1] if kept else None


def _by_size(properties: Mapping[str, Any]) -> Peaks | None:
    """The model with the capability, multiprocessors and memory of a description, where these tell it."""
    units = _positive(properties, "numSms")
    if not units or not (_is_amd(properties) or _positive(properties, "computeMajor")):
        return None
    alike = [
        model
        for model in MODELS
        if model.units == units
        and model.is_amd == _is_amd(properties)
        and _is_of_vendor(model, properties)
        and _has_memory(model, properties)
    ]
    return _merged(alike)


def _merged(models: Sequence[Peaks]) -> Peaks | None:
    """One model for several whose peaks are nearly the same, with the larger ones; None where they differ."""
    if len(models) < 2:
        return models[0] if models else None
    if any(set(model.rates) != set(models[0].rates) for model in models):
        return None
    rates = {precision: [model.rates[precision] for model in models] for precision in models[0].rates}
    bandwidths = [model.bandwidth or 0 for model in models]
    if not all(map(_are_close, [*rates.values(), bandwidths])):
        return None
    title = " or ".join(dict.fromkeys(model.title for model in models))
    return replace(
        models[0],
        title=title,
        rates={precision: max(values) for precision, values in rates.items()},
        bandwidth=max(bandwidths) or None,
        cache=models[0].cache if len({model.cache for model in models}) == 1 else None,
    )


def _are_close(values: Iterable[float]) -> bool:
    known = list(values)
    return max(known) <= MAX_PEAK_RATIO_OF_ALIKE * min(known)


def _is_amd(properties: Mapping[str, Any]) -> bool:
    return properties.get("warpSize") == 64


def _is_of_vendor(model: Peaks, properties: Mapping[str, Any]) -> bool:
    """Whether a description is of the vendor of a model, and of its compute capability where that means something."""
    if _is_amd(properties) or model.is_amd:
        return model.is_amd == _is_amd(properties) or "warpSize" not in properties
    major, minor = _positive(properties, "computeMajor"), _positive(properties, "computeMinor")
    return not major or model.capability == (major, minor)


def _has_memory(model: Peaks, properties: Mapping[str, Any]) -> bool:
    """Whether a model is sold with the memory of a description, as far as both are known."""
    size = _positive(properties, "totalGlobalMem")
    return not size or not model.memory or any(MIN_MEMORY * gb <= size <= MAX_MEMORY * gb for gb in model.memory)


def _positive(properties: Mapping[str, Any], key: str) -> int:
    """A positive integer property, 0 for none."""
    return max(whole_number(properties.get(key)) or 0, 0)
