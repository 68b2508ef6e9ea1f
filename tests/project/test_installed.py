"""The wheel, installed where nothing of the checkout is: the oldest packages it allows, and the newest Python here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT, SAMPLES
from tests.support.pins import lowest, project

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
    folder = tmp_path_factory.mktemp("wheel")
    words = ["wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "-w", str(folder), str(ROOT)]
    said = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
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


@pytest.mark.parametrize("which", ["oldest packages", "newest Python"])
def test_the_wheel_alone_is_the_whole_tool(installed, which):
    run = installed[which]
    assert run("-m", "tracetui", "--version").strip() == f"tracetui {project()['version']}"
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
