"""The commit of the program that a recording carries."""

from __future__ import annotations

import subprocess

import pytest
from tracetui_workloads.recording.profiling import working_tree


@pytest.mark.full
def test_the_commit_of_the_program_and_whether_files_differ(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "repository"
    folder.mkdir()
    program = f"{folder / 'x.py'}:f"
    (folder / "x.py").write_text("")
    assert working_tree(program) is None and working_tree(f"{folder / 'absent' / 'x.py'}:f") is None

    def git(*words):
        given = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *given, *words], cwd=folder, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    assert working_tree(program) is None
    git("add", "x.py")
    git("commit", "-qm", "one")
    (folder / "new.py").write_text("")
    commit = git("rev-parse", "HEAD").strip()
    assert working_tree(program) == {"commit": commit, "dirty": False}
    (folder / "x.py").write_text("# other")
    assert working_tree(program) == {"commit": commit, "dirty": True}
    monkeypatch.chdir(folder)
    assert working_tree("mlp") == working_tree("x.py:f") == {"commit": commit, "dirty": True}


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert working_tree("mlp") is None
