"""`tracetui run --compare` when a variant fails in the middle: what was recorded stays, and nothing else does."""

from __future__ import annotations

import gzip
import json
import signal
import sys

import pytest

from tests.support.waiting import SOON
from tests.support.workloads.faults import Run, light

pytestmark = pytest.mark.full

FUNCTIONS = """
import os, time, torch
def first(): torch.ones(4) + 1
def crashes():
    if os.fork() == 0:
        time.sleep(600)
    os.write(1, b"\\x1b[31mlast words\\n")
    os.abort()
def waits():
    open("../there", "w").close()
    time.sleep(600)
def last(): torch.ones(4) + 2
"""


def compared(folder, words) -> Run:
    """A run of some of the functions."""
    return light(folder, FUNCTIONS, "--compare", words, step="first", out="../out/")


def recorded(ended):
    """The functions of which there is a whole trace, by what it says of itself."""
    return {json.loads(gzip.decompress(content))["tracetui"]["label"] for content in ended.files.values()}


def test_a_variant_that_crashes_keeps_no_other_from_being_recorded(tmp_path):
    ended = compared(tmp_path, "first,crashes,last").ended()
    ended.left_nothing()
    ended.spoke_cleanly()
    assert ended.code == 4
    assert recorded(ended) == {"own.first", "own.last"}
    assert len(ended.stdout.splitlines()) == 2
    assert "tracetui: crashes: The recording crashed while making the first call: SIGABRT" in ended.stderr


def test_one_alone_is_not_compared(tmp_path):
    ended = compared(tmp_path, "first,crashes").ended()
    ended.left_nothing()
    assert ended.code == 4
    assert ended.sentence == "Only first was recorded: there is nothing to compare."
    assert recorded(ended) == {"own.first"}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts what leaves its group")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_command_that_ends_in_the_middle(tmp_path, number, code):
    run = compared(tmp_path, "first,waits,last")
    run.wait_for((tmp_path / "there").exists)
    run.process.send_signal(number)
    ended = run.ended(SOON)
    ended.left_nothing()
    assert ended.code == code
    assert recorded(ended) == {"own.first"}
    if code > 0:
        assert ended.stdout == "../out/own.first_warm_eager_first.json.gz\n"
        assert "Cancelled" in ended.stderr
        ended.spoke_cleanly()
