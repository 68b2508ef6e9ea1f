"""Results on disk: each comes back as it was made, from the module that makes it, and as far as it still holds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support.captures import CapturedLaunch, captured, write_trace
from tests.support.graphs import replay
from tests.support.paths import ROOT
from tracetui.devices.descriptions import with_device
from tracetui.health.health_table import checks_of
from tracetui.linking.step_sources import with_steps
from tracetui.model.results import KEPT, Kept
from tracetui.model.trace import Kind, Trace
from tracetui.opening.cache_file import Encoder, decode
from tracetui.opening.cache_folder import is_read_by
from tracetui.opening.capture_files import with_captures
from tracetui.opening.kept_traces import kept_results, stored_classes
from tracetui.opening.trace_opening import OpenOptions, keep_opened, open_trace
from tracetui.panes import PANES
from tracetui.reading.load import load

MM = {"Input Dims": [[8, 16], [16, 4]], "Input type": ["float", "float"]}
GRAPH = [CapturedLaunch("aten::mm", "gemm_kernel", "Linear_0", op_args=MM), CapturedLaunch("aten::add", "add_kernel")]


def makers() -> list[str]:
    """The modules whose source declares results on disk."""
    files = (file for file in (ROOT / "tracetui").rglob("*.py") if "\n@kept(o" in file.read_text(encoding="utf-8"))
    return sorted(".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files)


def stored() -> list[Kept]:
    for name in makers():
        import_module(name)
    return [each for each in KEPT.values() if each.on_disk and each.function.__module__ in makers()]


def arguments(function: Kept, trace: Trace) -> list[tuple[Any, ...]]:
    """The arguments of a function for which every trace has a result."""
    given: dict[str, list[tuple[Any, ...]]] = {
        "_slices_matching": [("Launch", 2, int(Kind.RUNTIME))],
        "_check_result": [(check.name,) for check in checks_of(trace)],
    }
    return given.get(function.name, [()])


def known(function: Kept, trace: Trace, *args: Any) -> Any:
    return getattr(import_module(function.function.__module__), function.name)(trace, *args)


def encoded(result: Any) -> tuple[Any, list[tuple[str, Any]]]:
    encoder = Encoder(stored_classes())
    return encoder.tree(result), [(array.dtype.str, array.tolist()) for array in encoder.arrays]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A trace with a graph that is replayed."""
    return str(write_trace(tmp_path / "rank0.json", replay(10_000, 91, ["gemm_kernel", "add_kernel"])))


@pytest.fixture
def capture(tmp_path: Path) -> str:
    return str(write_trace(tmp_path / "elsewhere" / "capture.json", captured([GRAPH])))


@pytest.mark.full
def test_each_result_on_disk_is_encoded_and_read_back_equal(path: str, capture: str) -> None:
    trace = with_captures(load(path), (capture,))
    for function in stored():
        for args in arguments(function, trace):
            result = known(function, trace, *args)
            encoder = Encoder(stored_classes())
            tree = encoder.tree({function.key(*args): result})
            ((key, again),) = decode(tree, encoder.arrays, stored_classes()).items()
            assert key in trace.cache, function.name
            assert type(again) is type(result) and repr(encoded(again)) == repr(encoded(result)), function.name


@pytest.mark.full
def test_all_results_come_back_in_a_process_that_has_imported_none_of_their_modules(path: str) -> None:
    trace = open_trace(path)
    for function in stored():
        for args in arguments(function, trace):
            known(function, trace, *args)
    assert {function.name for function in stored()} <= {
        key[0] if isinstance(key, tuple) else key for key in trace.cache
    }
    assert keep_opened(trace)
    script = (
        "import sys; from tracetui.opening.kept_traces import add_results, kept_results, read_trace, keep_trace\n"
        "trace = read_trace(sys.argv[1]); add_results(trace)\n"
        "assert not keep_trace(trace) and len(kept_results(trace)) == len(trace.cache)\n"
        "print(*map(repr, trace.cache), sep='\\n')"
    )
    told = subprocess.run([sys.executable, "-c", script, path], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(told.stdout.splitlines()) == set(map(repr, kept_results(trace)))


def test_code_of_results_on_disk_is_part_of_the_version_of_a_reading() -> None:
    script = (
        "import sys\nfrom importlib import import_module\nfor name in sys.argv[1:]: import_module(name)\n"
        "print(*[name for name, module in sys.modules.items() if name.startswith('tracetui.') and module.__file__])"
    )
    command = [sys.executable, "-c", script, "tracetui.opening.kept_traces", *makers()]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    names = set(told.stdout.split())
    # These decide nothing about what a trace holds.
    others = {
        f"tracetui.{name}"
        for name in ("crash_report", "drawing", "drawing.format", "drawing.hues", "errors", "files", "frozen", "text")
    }
    assert len(names) > 60 and not [name for name in names - others if not is_read_by(name)]


def choices(path: str, capture: str) -> Iterator[Trace]:
    """The trace with what a user may choose about it."""
    trace = load(path)
    yield with_device(trace, "H100")
    yield with_steps(trace, "none")
    yield with_captures(trace, (capture,))


@pytest.mark.full
def test_results_of_the_file_are_the_same_whatever_the_user_chooses(path: str, capture: str) -> None:
    plain = load(path)
    for chosen in choices(path, capture):
        for function in stored():
            for args in arguments(function, plain) if function.of_file else ():
                mine, other = known(function, plain, *args), known(function, replace(chosen, cache={}), *args)
                assert encoded(mine) == encoded(other), function.name


def test_nothing_that_rests_on_recordings_outlives_another_recording(path: str, capture: str) -> None:
    names = ("health", "findings", "kernels", "modules", "roofline", "summary")
    trace = open_trace(path, OpenOptions(uses_cache=False))
    before = [repr(list(PANES[name].build(trace).rows())) for name in names]
    late = with_captures(trace, (capture,))
    anew = with_captures(load(path), (capture,))
    after = [repr(list(PANES[name].build(late).rows())) for name in names]
    assert after == [repr(list(PANES[name].build(anew).rows())) for name in names] != before
