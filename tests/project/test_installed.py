"""The wheel, installed where nothing of the checkout is: the oldest packages it allows, and the newest Python here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from hatch_build import compiler
from tests.support.paths import ROOT, SAMPLES
from tests.support.pins import lowest, project
from tests.support.wheel_check import faults

pytestmark = pytest.mark.full
SAMPLE = SAMPLES / "mlp_train_cpu.json.gz"
WALK = """
import asyncio, sys
from tracetui.ui.app import TraceApp

async def main():
    app = TraceApp([sys.argv[1]])
    async with app.run_test(size=(120, 40)) as pilot:
        while not hasattr(app.screen, "trace"):
            await pilot.pause(0.05)
        for key in ["]", "2", "j", "enter", "f", "0", "?", "escape", "q"]:
            await pilot.press(key)
    print("left with", app.return_code)

asyncio.run(main())
"""


@cache
def pythons() -> list[str]:
    """The interpreters of this machine that the project allows, oldest first, one for each version."""
    names = [f"python3.{minor}" for minor in range(11, 20)]
    places = [sys.executable, *names, *map(str, Path.home().glob(".pyenv/versions/*/bin/python"))]
    found = {version: place for place in reversed(places) if (version := version_of(place)) >= (3, 11)}
    return [found[version] for version in sorted(found)]


def version_of(python: str) -> tuple[int, int]:
    """Major and minor version of an interpreter, (0, 0) for none."""
    try:
        said = subprocess.run(
            [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True
        )
        major, minor = said.stdout.split()
    except (OSError, ValueError):
        return 0, 0
    return int(major), int(minor)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The project as a wheel."""
    return made_wheel(tmp_path_factory.mktemp("wheel"))


def made_wheel(folder: Path, root: Path = ROOT, **environment: str) -> Path:
    """Build the project into a folder."""
    words = ["wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "-w", str(folder), str(root)]
    said = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, env={**os.environ, **environment}
    )
    if said.returncode and re.search("connection|resolve|No matching distribution", said.stderr, re.IGNORECASE):
        pytest.skip(f"needs a package index: {said.stderr.strip().splitlines()[-1]}")
    assert said.returncode == 0, said.stderr
    return next(folder.glob("tracetui-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> dict[str, Installed]:
    """The wheel in two environments; both are made at once, for pip mostly waits."""
    pinned: dict[str, tuple[str, list[str]]] = {
        "oldest packages": (pythons()[0], lowest()),
        "newest Python": (pythons()[-1], []),
    }

    def make(which: str) -> Installed:
        python, packages = pinned[which]
        run = Installed(tmp_path_factory.mktemp("installed"), python)
        run.install(str(wheel), *packages)
        return run

    with ThreadPoolExecutor(len(pinned)) as pool:
        return dict(zip(pinned, pool.map(make, pinned), strict=True))


def test_every_dependency_says_from_which_version_on():
    assert len(lowest()) == len(project()["dependencies"])


def test_a_wheel_has_the_libraries_where_there_is_a_compiler(wheel):
    """One wheel serves every Python on a platform; without a compiler it is pure and serves every platform."""
    assert ("-py3-none-any." in wheel.name) == (compiler() is None)
    assert faults(wheel) == []


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy of the checkout, for what is built takes the libraries out of it."""
    folder = tmp_path_factory.mktemp("copied") / "source"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "sample_traces"))
    return folder


@pytest.mark.parametrize("environment", [{"CC": "no-such-compiler"}, {"TRACETUI_PURE": "1"}], ids=["none", "pure"])
def test_without_a_compiler_the_wheel_is_pure(source, tmp_path, environment):
    pure = made_wheel(tmp_path / "wheel", root=source, **environment)
    assert pure.name.endswith("-py3-none-any.whl")
    assert faults(pure) == []
    unpacked = Unpacked(pure, tmp_path)
    assert "Events are read in Python, as tracetui was installed without a C compiler" in unpacked("--version")
    assert "aten::mm" in unpacked("show", "ops", str(SAMPLE), "--format", "md")


def test_a_wheel_of_another_platform_reads_in_python_and_says_why(source, tmp_path):
    if compiler() is None:
        pytest.skip("needs a C compiler")
    made = made_wheel(tmp_path / "wheel", root=source, TRACETUI_PLATFORM="manylinux_2_17_s390x")
    assert made.name.endswith("-py3-none-manylinux_2_17_s390x.whl")
    assert faults(made) and all("is for another machine" in fault for fault in faults(made))
    unpacked = Unpacked(made, tmp_path)
    unpacked.make_foreign()
    assert "Events are read in Python, as _scanner.so cannot be loaded" in unpacked("--version")
    assert "aten::mm" in unpacked("show", "ops", str(SAMPLE), "--format", "md")


class Unpacked:
    """Runs what is in a wheel with the packages that are installed here."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self._folder = folder / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self._folder)

    def make_foreign(self) -> None:
        """Say in the header of every library that it is for s390x."""
        for library in self._folder.rglob("*.so"):
            data = bytearray(library.read_bytes())
            data[18:20] = (22).to_bytes(2, "little")
            library.write_bytes(data)

    def __call__(self, *words: str) -> str:
        """What a command prints; it must succeed."""
        env = {key: value for key, value in os.environ.items() if key not in ("TRACETUI_PURE", "PYTHONPATH")}
        command = [sys.executable, "-m", "tracetui", *words]
        said = subprocess.run(command, cwd=self._folder, env=env, capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        return said.stdout


@pytest.mark.parametrize("which", ["oldest packages", "newest Python"])
def test_the_wheel_alone_is_the_whole_tool(installed, which):
    run = installed[which]
    assert run("-m", "tracetui", "--version").splitlines()[0] == f"tracetui {project()['version']}"
    assert "aten::mm" in run("-m", "tracetui", "show", "ops", str(SAMPLE), "--format", "md")
    assert "mlp" in run("-m", "tracetui", "workloads")
    assert run("-c", WALK, str(SAMPLE)).strip() == "left with 0"
    packages = run("-c", "from importlib.metadata import distributions as all; print(*(each.name for each in all()))")
    assert {"tracetui", "textual"} <= set(packages.split()) and "torch" not in packages


class Installed:
    """Runs the Python of a new environment, far from the checkout."""

    def __init__(self, folder: Path, python: str) -> None:
        self._folder = folder
        # A pip of its own would take longer than what it is to install.
        subprocess.run([python, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
        self._env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV_"))}

    def install(self, *packages: str) -> None:
        """Put packages into it."""
        into = [sys.executable, "-m", "pip", "--python", str(self._python), "--disable-pip-version-check"]
        self._run(*into, "install", "--quiet", "--no-compile", *packages)

    def __call__(self, *words: str) -> str:
        """What a command prints; it must succeed."""
        return self._run(str(self._python), *words)

    @property
    def _python(self) -> Path:
        return self._folder / "env" / "bin" / "python"

    def _run(self, *words: str) -> str:
        said = subprocess.run(words, capture_output=True, text=True, cwd=self._folder, env=self._env)
        assert said.returncode == 0, said.stderr
        return said.stdout
