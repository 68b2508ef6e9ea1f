"""`action.yml` and the template for GitLab: what their shell runs, with hostile inputs and with the tool itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT, SAMPLES

yaml = pytest.importorskip("yaml", reason="needs pyyaml: the extra `dev`")

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
GITLAB = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab.yml").read_text())[".tracetui-check"]
RECORDER = '#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word" >> "$LOG"; done; printf "\\n\\0" >> "$LOG"\n'
"""A program that writes its arguments down."""
HOSTILE = ("a b", "$(touch hacked)", "`touch hacked`", "'; touch hacked; '", '"; touch hacked; "', "-o", "--help", "*")


def step(name: str) -> dict[str, Any]:
    (found,) = [each for each in STEPS if each.get("name") == name]
    return dict(found)


class Machine:
    """A folder in which scripts run, with programs that write down how they are called."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        self.tool = folder / "temp" / "tracetui-tool" / "bin"
        self.tool.mkdir(parents=True)
        self.program(self.tool / "tracetui")
        self.program(self.tool / "pip")
        self.program(folder / "bin" / "python3")

    def program(self, path: Path, text: str = RECORDER) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run(self, script: str, shell: str = "bash", **variables: str) -> subprocess.CompletedProcess[str]:
        known = {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "LOG": str(self.log),
            "RUNNER_TEMP": str(self.folder / "temp"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "GITHUB_ACTION_PATH": "/action",
            "HOME": str(self.folder),
        }
        return subprocess.run(
            [shell, "-c", script], env=known | variables, cwd=self.folder, capture_output=True, text=True, timeout=120
        )

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of each call."""
        words = self.log.read_text().split("\0") if self.log.exists() else []
        found: list[list[str]] = [[]]
        for word in words[:-1]:
            if word == "\n":
                found.append([])
            else:
                found[-1].append(word)
        return found[:-1]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_no_input_is_text_of_a_script() -> None:
    for each in STEPS:
        assert "${{" not in each.get("run", ""), each
        assert "run" not in each or each["shell"] == "bash"
    used = " ".join(str(value) for each in STEPS for value in (each.get("env"), each.get("with"), each.get("if")))
    assert set(re.findall(r"inputs\.([\w-]+)", used)) == set(ACTION["inputs"])
    assert "$[[" not in GITLAB["script"][0], "an interpolated input"


def test_actions_are_pinned() -> None:
    used = [each["uses"] for each in STEPS if "uses" in each]
    assert len(used) == 2 and all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", each) for each in used)


def test_the_version_is_a_release_a_commit_or_that_of_the_action(machine: Machine) -> None:
    install = step("Install tracetui")["run"]
    variables = {"REPOSITORY": "https://git.example.org/x/tracetui", "PYTHON": ""}
    for version, wanted in (
        ("0.1.0", "tracetui @ git+https://git.example.org/x/tracetui@v0.1.0"),
        ("3f2a91c", "tracetui @ git+https://git.example.org/x/tracetui@3f2a91c"),
        ("", "/action"),
    ):
        assert machine.run(install, VERSION=version, **variables).returncode == 0
        assert machine.calls[-1][-1] == wanted
        assert machine.calls[-2][:2] == ["-m", "venv"]
    for version in (*HOSTILE, "-r x", "1;id", "../x", "v1 @ x"):
        count = len(machine.calls)
        assert machine.run(install, VERSION=version, **variables).returncode == 2
        assert len(machine.calls) == count


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_inputs_stay_words(machine: Machine, text: str) -> None:
    variables = {"TRACE": text, "ASSERTIONS": text, "ASSERTIONS_FILE": text, "BASELINE": text}
    done = machine.run(step("Check the trace")["run"], **variables)
    folder = str(machine.folder / "temp" / "tracetui")
    assert (done.returncode, done.stderr) == (0, "")
    made = {"TRACE": text, "FOLDER": folder}
    assert machine.run(step("Make the report")["run"], **made).returncode == 0
    path = f"./{text}" if text.startswith("-") else text
    summary = ["--summary", "md", f"--summary=junit={folder}/check.xml", "--force"]
    files = ["-f", path, "-f", f"{folder}/assertions.txt"]
    assert machine.calls == [
        ["check", path, *summary, f"--baseline={text}", *files],
        ["report", path, "--force", "-o", f"{folder}/report.html"],
    ]
    assert Path(folder, "assertions.txt").read_text() == f"{text}\n"
    assert not (machine.folder / "hacked").exists()


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_variables_of_gitlab_stay_words(machine: Machine, text: str, shell: str) -> None:
    shutil.copytree(machine.tool, machine.folder / ".tracetui" / "bin")
    names = ("TRACE", "ASSERTIONS", "FILE", "BASELINE")
    variables = GITLAB["variables"] | {f"TRACETUI_{name}": text for name in names} | {"INSTALL": text}
    done = machine.run(GITLAB["script"][0], shell, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    venv, pip, check, report = machine.calls
    path = f"./{text}" if text.startswith("-") else text
    assert venv == ["-m", "venv", ".tracetui"] and pip[-1] == f"tracetui @ {text}"
    assert check[:2] == ["check", path] and check[4:] == [
        "--force",
        f"--baseline={text}",
        "-f",
        path,
        "-f",
        "tracetui-check/assertions.txt",
    ]
    assert report[:2] == ["report", path]
    assert not (machine.folder / "hacked").exists()


@pytest.mark.full
@pytest.mark.parametrize("limit", ["1s", pytest.param("1us", marks=pytest.mark.smoke)])
def test_with_the_tool_itself(machine: Machine, limit: str) -> None:
    paths = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    real = f'#!/bin/sh\nexport PYTHONPATH="{paths}"\nexec "{sys.executable}" -m tracetui "$@"\n'
    machine.program(machine.tool / "tracetui", real)
    shutil.copy(SAMPLES / "mlp_eager_cpu.json.gz", machine.folder / "new trace.json.gz")
    (machine.folder / "summary.md").write_text("From a step before.\n")
    variables = {
        "TRACE": "new trace.json.gz#3",
        "ASSERTIONS": f"dur_us < {limit}",
        "ASSERTIONS_FILE": "",
        "BASELINE": "",
    }
    done = machine.run(step("Check the trace")["run"], **variables)
    is_met = limit == "1s"
    assert done.returncode == (0 if is_met else 1), done.stderr
    assert ("1 of 1 holds" if is_met else "FAIL") in done.stdout
    summary = (machine.folder / "summary.md").read_text()
    assert summary.startswith("From a step before.\n") and "dur_us" in summary
    folder = (machine.folder / "output").read_text().strip().removeprefix("folder=")
    assert "<testcase" in Path(folder, "check.xml").read_text()
    machine.run(step("Make the report")["run"], TRACE=variables["TRACE"], FOLDER=folder)
    assert Path(folder, "report.html").stat().st_size > 10_000
