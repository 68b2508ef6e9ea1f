"""Completion: what a word may become, and the scripts in real shells where these are installed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.paths import ROOT, SAMPLES
from tests.support.processes import COMMAND, loaded_after
from tests.support.waiting import POLL_SECONDS
from tracetui.cli.completion import SCRIPTS, candidates, print_candidates, step_numbers
from tracetui.cli.main import COMMANDS, build_parser, main
from tracetui.cli.snapshots import PANES as SNAPSHOT_PANES
from tracetui.panes import PANES

TRAIN = str(SAMPLES / "mlp_train_cpu.json.gz")


def offered(*words: str) -> list[str]:
    return [each.text for each in candidates(words, build_parser())]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sh"], ["show"]),
        (["--quiet", "--color", "never", "sh"], ["show"]),
        (["--color", "n"], ["never"]),
        (["help", "co"], ["compare", "config"]),
        (["show", "ker"], ["kernels"]),
        (["show", "--limit", "3", "ker"], ["kernels"]),
        (["show", "--quiet", "ker"], ["kernels"]),
        (["show", "ops", TRAIN, "--format", "js"], ["json"]),
        (["show", "ops", TRAIN, "--format=js"], ["--format=json"]),
        (["show", "ops", TRAIN, "--lim"], ["--limit"]),
        (["show", "ops", "--columns", "name,self_cpu_u"], ["name,self_cpu_us"]),
        (["show", "ops", "--sort", "self_cpu_us:d"], ["self_cpu_us:desc"]),
        # The file of the table names kinds of rows and causes too, which are no columns.
        (["show", "gaps", "--sort", "anno"], []),
        (["show", "ops", TRAIN, "--step", ""], ["2", "3", "4"]),
        (["show", "ops", TRAIN, "--by", "sh"], ["shape"]),
        (["cut", TRAIN, "--steps", "3"], ["3"]),
        (["ranks", "x", "--sort", "late_s"], ["late_steps"]),
        (["demo", "mlp_c"], ["mlp_compile"]),
        (["run", "fused_m"], ["fused_mlp"]),
        (["show", "ops", TRAIN, "x"], []),
        (["show", "nothing", "--columns", ""], []),
        (["show", "ops", "nowhere/"], []),
    ],
)
def test_what_a_word_may_become(words: list[str], found: list[str]) -> None:
    assert offered(*words) == found


def test_every_command_and_every_pane_is_offered() -> None:
    assert set(COMMANDS) <= set(offered(""))
    assert offered("show", "") == [*PANES, *SNAPSHOT_PANES]


def test_traces_are_offered_and_other_files_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "a.pftrace", "a.md", ".a.json", "odd\nname.json"):
        tmp_path.joinpath(name).touch()
    (tmp_path / "a folder").mkdir()
    assert sorted(offered("show", "ops", "a")) == ["a folder/", "a.json", "a.pftrace"]
    assert sorted(offered("show", "ops", "./")) == ["./a folder/", "./a.json", "./a.pftrace", "./odd\nname.json"]
    assert "a.md" in offered("report", "a.json", "-o", "a.")


def test_a_line_that_ends_in_quotes_and_a_word_that_bash_takes_apart(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(shell: str, *words: str) -> list[str]:
        print_candidates(shell, words, build_parser())
        return capsys.readouterr().out.splitlines()

    folder = str(SAMPLES.relative_to(ROOT))
    assert printed("bash", "js", "tracetui show ops x --format=js") == ["words", "json"]
    assert printed("bash", "de", "tracetui show ops x --sort calls:de") == ["words", "desc"]
    assert printed("bash", f"'{folder}/mlp_tr", f"tracetui '{folder}/mlp_tr") == [
        "paths",
        f"{folder}/{Path(TRAIN).name}",
    ]
    assert printed("fish", "show", f"'{folder}/mlp_tr") == []
    assert printed("zsh", "show", "ops", f"{folder}/mlp_tr") == ["paths", f"{folder}/{Path(TRAIN).name}"]
    assert printed("bash") == printed("zsh") == ["words"] and printed("fish") == []


def test_a_file_with_a_control_character_in_its_name_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("odd\nname.json").touch()
    assert main(["--complete", "zsh", "open", "o"]) == 0
    assert capsys.readouterr().out == "words\n"


def test_steps_are_read_while_that_is_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert step_numbers(TRAIN) == ["2", "3", "4"]
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(Path(TRAIN).read_bytes()[:-2000])
    assert set(step_numbers(str(cut))) <= {"2", "3", "4"}
    os.mkfifo(tmp_path / "pipe")
    assert step_numbers(str(tmp_path / "pipe")) == step_numbers(str(tmp_path)) == step_numbers("absent") == []
    monkeypatch.setattr("tracetui.cli.completion.MAX_SECONDS", -1.0)
    assert step_numbers(TRAIN) == []


@pytest.mark.full
def test_panes_columns_and_steps_are_offered_without_numpy() -> None:
    for words in (["show", ""], ["show", "ops", "--columns", ""], ["show", "ops", TRAIN, "--step", ""]):
        statement = f"from tracetui.cli.main import main; main(['--complete', 'zsh', *{words!r}])"
        assert "numpy" not in loaded_after(statement)


STARTS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "-i", "--no-config"],
}
LOADING = {
    "bash": 'source "$SCRIPT"',
    "zsh": 'autoload -U compinit; compinit -u; source "$SCRIPT"',
    "fish": 'source "$SCRIPT"',
}


@pytest.fixture
def typed(tmp_path: Path) -> Callable[[str, str, str], str]:
    """A function that types into a shell until it shows a text, and returns all that was shown."""

    def type_into(shell: str, keys: str, awaited: str) -> str:
        for program_needed in (shell, "setsid"):
            if shutil.which(program_needed) is None:
                pytest.skip(f"{program_needed} is not installed")
        script, folder = tmp_path / "script", tmp_path / "bin"
        script.write_text(SCRIPTS[shell])
        folder.mkdir()
        program = folder / "tracetui"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {" ".join(COMMAND)} "$@"\n')
        program.chmod(0o755)
        names = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "SCRIPT": str(script),
        }
        ours, theirs = pty.openpty()
        shown, ends = b"", time.monotonic() + POLL_SECONDS

        def wait_for(text: str) -> None:
            nonlocal shown
            while text.encode() not in shown and time.monotonic() < ends:
                if select.select([ours], [], [], 0.2)[0]:
                    shown += os.read(ours, 65536)
            assert text.encode() in shown, shown

        child = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *STARTS[shell]],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=tmp_path / "work",
            env={**os.environ, "TERM": "dumb", **names},
            start_new_session=True,
        )
        try:
            # A shell drops what is typed before it has taken the terminal.
            while b"loaded" not in shown and time.monotonic() < ends:
                os.write(ours, f"{LOADING[shell]}; echo lo''aded\n".encode())
                if select.select([ours], [], [], 5)[0]:
                    time.sleep(1)
                    shown += os.read(ours, 65536)
            shown = b""
            os.write(ours, keys.encode())
            wait_for(awaited)
            return shown.decode(errors="replace")
        finally:
            child.kill()
            child.wait()
            os.close(ours)
            os.close(theirs)

    (tmp_path / "work").mkdir()
    return type_into


@pytest.mark.full
@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_completes_a_pane(shell: str, typed: Callable[[str, str, str], str]) -> None:
    typed(shell, "tracetui show kern\t", "tracetui show kernels ")


@pytest.mark.full
@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_quotes_a_name_and_runs_nothing_of_it(
    shell: str, typed: Callable[[str, str, str], str], tmp_path: Path
) -> None:
    (tmp_path / "work" / "a $(touch ran).json").touch()
    typed(shell, "tracetui show ops a\t", r"a\ \$\(touch\ ran\).json")
    assert sorted(each.name for each in (tmp_path / "work").iterdir()) == ["a $(touch ran).json"]
