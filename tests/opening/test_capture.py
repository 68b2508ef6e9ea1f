"""Captures of processes: what is asked of them, and the datagrams of that."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.errors import CannotRun, UsageError
from tracetui.opening.attach_listener import Job, Question, Registration, answer_to, read_datagram
from tracetui.opening.attached_capture import (
    LONE_QUESTIONS,
    NO_ALLOCATIONS,
    REFUSAL_SECONDS,
    STACK_SECONDS,
    Capture,
    PrivateFolders,
    State,
    TraceRequest,
)

PID = 4242


@dataclass
class Said:
    """What a process said, and what it was answered."""

    pid: int
    message: Question | Registration
    is_reached: bool = True
    answers: list[str] = field(default_factory=list)

    def answer(self, configuration=""):
        self.answers.append(configuration)
        return self.is_reached


@dataclass
class World:
    """A clock, and which processes run."""

    now: float = 0.0
    gone: set[int] = field(default_factory=set)


@pytest.fixture
def world():
    return World()


def capture_of(world, folder, jobs=None, request=None, timeout=100.0):
    jobs = jobs or [Job(PID, "python train.py", seconds=60)]
    request = request or TraceRequest()
    return Capture(jobs, request, lambda job: folder, timeout, lambda: world.now, lambda job: job.pid not in world.gone)


def asks(capture, pid=PID, is_free=True, is_reached=True):
    said = Said(pid, Question(pid, is_free), is_reached)
    capture.hear(said)
    assert len(said.answers) == 1, "every question has one answer"
    return said.answers[0]


def written(folder, text='{"traceEvents": []}\n', pid=PID):
    folder.joinpath(str(pid), f"trace_{pid}.json").write_text(text)


def test_a_process_is_asked_once_and_its_file_is_taken_when_it_no_longer_grows(world, tmp_path):
    capture = capture_of(world, tmp_path)
    assert "ACTIVITIES_DURATION_MSECS=2000" in asks(capture)
    assert asks(capture, is_free=False) == ""
    written(tmp_path, '{"traceEvents": [')
    capture.look()
    capture.look()
    assert not capture.is_over
    written(tmp_path)
    capture.look()
    assert not capture.is_over
    capture.look()
    assert capture.targets[PID].state is State.DONE
    assert capture.targets[PID].file == tmp_path / str(PID) / f"trace_{PID}.json"


def test_a_partial_file_is_not_taken(world, tmp_path):
    capture = capture_of(world, tmp_path)
    asks(capture)
    tmp_path.joinpath(str(PID), f"trace_{PID}.json.tmp").write_text('{"traceEvents": []}')
    capture.look()
    capture.look()
    assert not capture.is_over


def test_a_process_that_was_not_chosen_is_answered_and_left_alone(world, tmp_path):
    capture = capture_of(world, tmp_path)
    assert asks(capture, pid=1) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_registration_is_answered(world, tmp_path):
    capture = capture_of(world, tmp_path)
    said = Said(PID, Registration(PID))
    capture.hear(said)
    assert said.answers == [""]
    assert capture.targets[PID].state is State.WAITING


def test_a_process_with_a_profiler_of_its_own_is_asked_once_that_is_over(world, tmp_path):
    capture = capture_of(world, tmp_path)
    assert asks(capture, is_free=False) == ""
    assert asks(capture) != ""


def test_an_answer_that_did_not_arrive_is_given_again(world, tmp_path):
    capture = capture_of(world, tmp_path)
    assert asks(capture, is_reached=False) != ""
    assert asks(capture) != ""


def test_a_process_that_is_free_again_without_a_file_has_refused(world, tmp_path):
    capture = capture_of(world, tmp_path, request=TraceRequest(iterations=3))
    asks(capture)
    for _ in range(LONE_QUESTIONS):
        capture.look()
        assert not capture.is_over
        asks(capture)
    capture.look()
    assert not capture.is_over, "on a busy machine a process starts late"
    world.now += REFUSAL_SECONDS
    capture.look()
    assert "counts no iterations" in capture.targets[PID].why


def test_a_long_trace_is_no_refusal(world, tmp_path):
    capture = capture_of(world, tmp_path)
    asks(capture)
    for _ in range(5 * LONE_QUESTIONS):
        asks(capture, is_free=False)
    capture.look()
    assert not capture.is_over


def test_a_process_that_ends_keeps_what_it_wrote_before(world, tmp_path):
    capture = capture_of(world, tmp_path, [Job(1, "a", seconds=60), Job(2, "b", seconds=60)])
    asks(capture, 1)
    asks(capture, 2)
    written(tmp_path, pid=1)
    capture.look()
    world.gone = {1, 2}
    capture.look()
    assert capture.targets[1].state is State.DONE
    assert (capture.targets[2].state, capture.targets[2].why) == (State.FAILED, "it has ended")


@pytest.mark.parametrize("is_asked", (False, True))
def test_time_runs_out(world, tmp_path, is_asked):
    capture = capture_of(world, tmp_path, timeout=10)
    if is_asked:
        asks(capture)
    world.now = 10.1
    capture.look()
    assert ("written nothing" in capture.targets[PID].why) == is_asked
    assert ("KINETO_USE_DAEMON=1" in capture.targets[PID].why) != is_asked


def test_the_stack_of_a_process_that_has_just_started_is_not_asked_for(world, tmp_path):
    job = Job(PID, "python train.py", seconds=STACK_SECONDS - 6)
    capture = capture_of(world, tmp_path, [job], TraceRequest(stack=True))
    assert asks(capture) == ""
    world.now = 6.1
    assert "PROFILE_WITH_STACK=true" in asks(capture)


def test_a_process_in_a_container_is_told_so(world, tmp_path):
    capture = capture_of(world, tmp_path, [Job(PID, "python", is_elsewhere=True)])
    assert capture.is_over
    assert "container" in capture.targets[PID].why


@pytest.mark.parametrize("name", ("[memory]", "aten::empty"))
def test_a_trace_without_the_allocations_that_were_asked_for_says_so(world, tmp_path, name):
    capture = capture_of(world, tmp_path, request=TraceRequest(memory=True))
    asks(capture)
    # The name lies on both sides of the border of two blocks.
    text = '{"traceEvents": [' + " " * ((1 << 20) - 23)
    written(tmp_path, text + json.dumps({"name": name}) + "]}")
    capture.look()
    capture.look()
    assert capture.targets[PID].state is State.DONE
    assert capture.targets[PID].lacks == ("" if name == "[memory]" else NO_ALLOCATIONS)


def test_a_folder_that_cannot_be_made_costs_its_own_trace_only(world, tmp_path):
    def folder_of(job):
        if job.pid == 2:
            raise CannotRun("no room")
        return tmp_path

    jobs = [Job(1, "a", seconds=60), Job(2, "b", seconds=60)]
    capture = Capture(jobs, TraceRequest(), folder_of, 100.0, lambda: world.now, lambda pid: True)
    assert (asks(capture, 1) != "", asks(capture, 2)) == (True, "")
    assert (capture.targets[1].state, capture.targets[2].why) == (State.ASKED, "no room")


def test_private_folders_are_where_each_process_may_write(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    jobs = [
        Job(1, "a", trace_folder=str(here)),
        Job(2, "b", trace_folder=f"{here}"),
        Job(3, "c", trace_folder=f"{there}/"),
    ]
    with PrivateFolders() as folders:
        first, second, third = (folders.of(job) for job in jobs)
        assert first == second and (first.parent, third.parent) == (here, there)
        assert first.stat().st_mode & 0o777 == 0o700
        first.joinpath("left.json").write_text("{}")
        assert str(folders.of(Job(4, "d"))).startswith("/tmp/")
    assert list(here.iterdir()) == [] and list(there.iterdir()) == []


@pytest.mark.parametrize(
    "folder", ("traces", "../traces", "/tmp/../tmp", "/tmp//traces", "/tmp/./x", "/tmp/a..b", "/no/such")
)
def test_a_folder_in_which_kineto_takes_no_path(folder):
    with PrivateFolders() as folders, pytest.raises(CannotRun, match=r"no absolute path|No such file"):
        folders.of(Job(1, "a", trace_folder=folder))


def datagram(kind, content):
    return struct.pack("=Q32s", len(content), kind) + content


# As torch 2.13 sent it: kinds, how many process ids, job, its own id and that of its shell.
ASKS = datagram(b"req", struct.pack("=iiq2i", 3, 2, 0, 8589, 8500))


def test_a_question_names_its_process_and_whether_it_is_free():
    assert read_datagram(ASKS) == Question(8589, True)
    assert read_datagram(datagram(b"req", struct.pack("=iiqi", 1, 1, 0, 7))) == Question(7, False)


def test_a_registration_names_its_process():
    assert read_datagram(datagram(b"ctxt", struct.pack("=iiq", 0, 8589, 12))) == Registration(8589)


@pytest.mark.parametrize("length", range(len(ASKS)))
def test_a_cut_datagram_is_none(length):
    assert read_datagram(ASKS[:length]) is None


@pytest.mark.parametrize("count", (0, -1, 3, 2**31 - 1))
def test_a_wrong_number_of_process_ids_is_none(count):
    assert read_datagram(datagram(b"req", struct.pack("=iiq2i", 3, count, 0, 8589, 8500))) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_none(data):
    assert read_datagram(data) is None or isinstance(read_datagram(data), (Registration, Question))


def test_an_answer_has_size_type_and_content():
    size, kind, content = struct.unpack("=Q32s5s", answer_to(Question(1, True), "A=1\n\n"))
    assert (size, kind.rstrip(b"\0"), content) == (5, b"req", b"A=1\n\n")
    assert answer_to(Question(1, True)) == datagram(b"req", b"")
    assert answer_to(Registration(1)) == datagram(b"ctxt", struct.pack("=i", 1))


def lines(request):
    return dict(line.partition("=")[::2] for line in request.configuration(Path("/t/trace.json")).splitlines())


def test_seconds():
    asked = lines(TraceRequest(1.5, shapes=True))
    assert asked["ACTIVITIES_DURATION_MSECS"] == "1500"
    assert asked["ACTIVITIES_LOG_FILE"] == "/t/trace.json"
    assert asked["PROFILE_REPORT_INPUT_SHAPES"] == "true"
    assert asked["PROFILE_WITH_STACK"] == asked["PROFILE_PROFILE_MEMORY"] == "false"
    # Kineto alone would let five seconds pass.
    assert asked["ACTIVITIES_WARMUP_PERIOD_SECS"] == "1"
    assert "ACTIVITIES_ITERATIONS" not in asked


def test_iterations():
    asked = lines(TraceRequest(iterations=3))
    assert asked["ACTIVITIES_ITERATIONS"] == "3"
    # A process that counts no iterations would otherwise take a trace of half a second.
    assert asked["ACTIVITIES_DURATION_MSECS"] == "0" and "PROFILE_START_TIME" not in asked


@pytest.mark.parametrize("seconds", (0.0, -1.0, 601.0, float("nan"), float("inf")))
def test_a_length_that_makes_no_trace(seconds):
    with pytest.raises(UsageError):
        TraceRequest(seconds)


def test_a_negative_number_of_iterations():
    with pytest.raises(UsageError):
        TraceRequest(iterations=-1)
