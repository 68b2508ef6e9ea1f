"""The sample traces: small, real, without a trace of the machine they were made on, and made anew by their script."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec

import pytest

from tests.conftest import SAMPLES
from tracetui import load

NAMES = sorted(path.name for path in SAMPLES.glob("*.json.gz"))


def ops_of(path):
    """How often each operator occurs."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    return Counter(event["name"] for event in document["traceEvents"] if event.get("cat") == "cpu_op")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small_and_says_nothing_about_its_machine(name):
    path = SAMPLES / name
    assert path.stat().st_size < 300_000
    text = gzip.decompress(path.read_bytes()).decode()
    for private in ("host_name", "username", "traceName", "/home/", "/root/", "/tmp/", "/usr/"):
        assert private not in text


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_and_says_what_it_is(name):
    trace = load(str(SAMPLES / name))
    assert trace.metadata["tracetui"]["workload"] == name.removesuffix(".json.gz")
    assert trace.metadata["tracetui"]["device"] == "cpu"
    assert not trace.quality.notes


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_the_script_records_the_same_program(tmp_path):
    command = [sys.executable, str(SAMPLES / "record.py"), "mlp_eager_cpu", "-o", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.startswith("mlp_eager_cpu.json.gz")
    recorded, kept = ops_of(tmp_path / "mlp_eager_cpu.json.gz"), ops_of(SAMPLES / "mlp_eager_cpu.json.gz")
    # Which operators lie below these depends on the processor.
    for name in ("aten::linear", "aten::gelu", "aten::mul"):
        assert recorded[name] == kept[name] > 0
