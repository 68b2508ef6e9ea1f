"""The scanner reads and writes within its buffers: some seconds of what `make fuzz` does for ten minutes."""

import subprocess

import pytest

from tests.fuzz.scanner import fuzz


@pytest.mark.full
def test_nothing_is_read_or_written_out_of_bounds():
    try:
        said = fuzz(seconds=5, seed=1)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs a C compiler with sanitizers: {error}")
    assert said.returncode == 0, said.stderr
    assert "nothing found" in said.stdout
