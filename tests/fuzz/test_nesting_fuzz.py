"""Nesting and searching in C stay within their columns: a second of what `make fuzz` does for two minutes."""

import subprocess

import pytest

from tests.fuzz.nesting import fuzz


@pytest.mark.full
def test_nothing_is_read_or_written_out_of_bounds():
    try:
        said = fuzz(seconds=1, seed=1)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs a C compiler with sanitizers: {error}")
    assert said.returncode == 0, said.stderr
    assert "nothing found" in said.stdout
