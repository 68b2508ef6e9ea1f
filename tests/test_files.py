"""A file that is written is all there or not there at all, whatever it is called and however the writing ends."""

from __future__ import annotations

import os
import threading

import pytest

from tests.support.waiting import POLL_SECONDS
from tracetui.files import whole_file, write_whole


@pytest.mark.parametrize("name", ["a" * 250, "é" * 125, "🙂" * 62, "." + "b" * 200])
def test_a_name_as_long_as_the_system_takes(tmp_path, name):
    write_whole(tmp_path / name, "text")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "text")]


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt(), SystemExit(143)])
@pytest.mark.parametrize("old", [None, b"old"])
def test_what_ends_in_the_middle_leaves_what_was_there(tmp_path, failure, old):
    path = tmp_path / "out"
    if old is not None:
        path.write_bytes(old)
    with pytest.raises(type(failure)), whole_file(path) as file:
        file.write(b"new")
        assert (path.read_bytes() if path.exists() else None) == old
        raise failure
    assert [each.read_bytes() for each in tmp_path.iterdir()] == ([] if old is None else [old])


def test_two_that_write_to_one_name_do_not_mix(tmp_path):
    path = tmp_path / "out"
    with whole_file(path) as first, whole_file(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_is_no_utf8_is_written_with_a_sign(tmp_path):
    write_whole(tmp_path / "out", "half \ud800\n")
    assert (tmp_path / "out").read_bytes() == b"half ?\n"


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "out", "text")
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join(POLL_SECONDS)
    assert read == ["text"]
    assert pipe.is_fifo()
