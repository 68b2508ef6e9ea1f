"""The course of a capture, with processes that say what a test wants and a clock that stands still."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tracetui.attaching.capture import LONE_QUESTIONS, STACK_SECONDS, Capture, State
from tracetui.attaching.datagrams import Question, Registration
from tracetui.attaching.jobs import Job
from tracetui.attaching.trace_request import TraceRequest

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
    return Capture(jobs, request, folder, timeout, lambda: world.now, lambda pid: pid not in world.gone)


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
