"""Every input that fuzzing kept: what must hold of any bytes holds of these."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import properties

FUZZ = Path(__file__).parent
SNAPSHOTS = sorted((FUZZ / "corpus").glob("*.pickle"))
LOGS = sorted((FUZZ / "corpus").glob("*.log"))
REQUESTS = sorted((FUZZ / "corpus").glob("*.requests"))
SEEDS = [path for path in sorted((FUZZ / "corpus").iterdir()) if path not in [*SNAPSHOTS, *LOGS, *REQUESTS]]


def kept(target: str) -> dict[str, bytes]:
    """The inputs by name that together reach all that fuzzing of a target reached."""
    with zipfile.ZipFile(FUZZ / f"{target}.zip") as packed:
        return {name: packed.read(name) for name in packed.namelist()}


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.name)
@pytest.mark.full
def test_a_seed_opens_and_every_pane_of_it_can_be_made(path):
    data = path.read_bytes()
    properties.check_opening(data)
    with properties.opened(data) as trace:
        assert trace is not None
        properties.check_every_pane(trace)


def changed(data: bytes, rng: random.Random, byte: Callable[[random.Random], int]) -> bytes:
    """The data with one to four bytes changed."""
    copy = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        copy[rng.randrange(len(copy))] = byte(rng)
    return bytes(copy)


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_a_snapshot_whose_bytes_are_changed_is_read_or_refused(path):
    data, rng = path.read_bytes(), random.Random(path.name)
    properties.check_snapshots(data)
    for _ in range(60):
        properties.check_snapshots(changed(data, rng, lambda rng: rng.randrange(256)))


def byte_of_a_log(rng: random.Random) -> int:
    """A byte that means something in a log, or a letter."""
    return rng.choice(b'\n\t{}[]":,0\xff') if rng.random() < 0.5 else 65


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
@pytest.mark.full
def test_a_log_whose_bytes_are_changed_is_read_or_refused(path):
    data, rng = path.read_bytes(), random.Random(path.name)
    properties.check_logs(data)
    for _ in range(8):
        properties.check_logs(changed(data, rng, byte_of_a_log))


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.name)
def test_requests_whose_bytes_are_changed_are_read_or_refused(path):
    data, rng = path.read_bytes(), random.Random(path.name)
    properties.check_requests(data)
    for _ in range(15):
        properties.check_requests(changed(data, rng, byte_of_a_log))


def check_each(check: Callable[[bytes], None], inputs: dict[str, bytes], target: str) -> None:
    """Check each of some inputs.

    Raises: AssertionError with the name of the first that breaks a property.
    """
    for name, data in inputs.items():
        try:
            check(data)
        except Exception as error:
            raise AssertionError(f"{name} of {target}.zip: {error!r}") from error


@pytest.mark.full
@pytest.mark.parametrize("target", ["opening", "panes"])
def test_all_that_was_kept_opens_or_is_refused(target):
    inputs = kept(target)
    assert len(inputs) > 200
    check_each(properties.check_opening, inputs, target)


@pytest.mark.full
def test_all_that_was_kept_of_protobuf_opens_or_is_refused():
    inputs = kept("packets")
    assert len(inputs) > 200
    check_each(properties.check_packets, inputs, "packets")


@pytest.mark.nightly
def test_every_pane_of_what_was_kept_can_be_made():
    check_each(properties.check_panes, kept("panes"), "panes")


@pytest.mark.full
def test_all_that_was_kept_of_exports_opens_or_is_refused():
    inputs = kept("exports")
    assert len(inputs) > 90
    check_each(properties.check_exports, inputs, "exports")
