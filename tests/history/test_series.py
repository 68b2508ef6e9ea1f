"""Series of runs, and changes of a measure in them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.histories import run_of_digest, simulated, write_trace
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.comparing.noise import Change
from tracetui.errors import UsageError
from tracetui.history.digest import STEP_TIME, Digest, Summed, beyond, digest, level, levels, values_of
from tracetui.history.series import commits, history, in_series, kept_history, measure, natural, verdicts
from tracetui.opening import cache_folder
from tracetui.opening.rank_reading import SummaryWork

HERE = SummaryWork(1, uses_cache=False)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv(cache_folder.SIZE_VARIABLE)
    return tmp_path / "caches" / "tracetui" / "history"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Eight runs, of which the last three take longer, recorded in the order of their numbers."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for number in range(1, 9):
        slow = 1300 if number > 5 else 1000
        write_trace(folder / f"run{number + 4}.json", [slow + number, slow, slow - number], number)
    return folder


def test_a_digest_comes_back_from_its_bytes():
    made = digest(loaded(SAMPLES / "mlp_train_cpu.json.gz"))
    again = Digest.from_bytes(made.to_bytes())
    assert again.facts == made.facts and again.units == made.units
    np.testing.assert_array_equal(again.values, made.values)
    assert made.measures["cpu_ops"].median == 361 and made.facts.stepped == "profiler step"
    assert made.measures["op:mm"].median > 0 and len(made.to_bytes()) < 4096


@pytest.mark.parametrize("bad", [b"", b"x", Digest.to_bytes, "cut"])
def test_other_bytes_are_no_digest(bad):
    made = digest(loaded(SAMPLES / "linear_eager_cpu.json.gz")).to_bytes()
    data = made[:-9] if bad == "cut" else made[:20] + made if callable(bad) else bad
    with pytest.raises(ValueError):
        Digest.from_bytes(data)


def test_the_run_that_brought_a_change_is_named_with_what_moved(runs):
    (series,) = history(str(runs), work=HERE).series
    (shift,) = measure(series, STEP_TIME).shifts
    assert (shift.run.name, shift.previous.name, shift.runs) == ("run10.json", "run9.json", (5, 3))
    assert [each.name for each in shift.moved] == ["op:mm"]
    assert measure(series, "cpu_ops").shifts == ()


def test_orders_by_time_and_by_natural_name(runs):
    os.rename(runs / "run5.json", runs / "run100.json")
    by_time, by_name = ([each.name for each in history(str(runs), by, HERE).series[0].runs] for by in ("time", "name"))
    assert by_time[0] == by_name[-1] == "run100.json" and by_name[0] == "run6.json"
    assert sorted(["b", "a10", "a2", "A1"], key=natural) == ["A1", "a2", "a10", "b"]


def test_kept_digests_are_not_made_again_and_a_list_reads_no_trace(runs, cache, monkeypatch):
    first = history(str(runs))
    assert len(list(cache.glob("*.digest"))) == 8

    def fail(path):
        raise AssertionError("it was read again")

    monkeypatch.setattr("tracetui.history.series.digest_of_file", fail)
    monkeypatch.setattr("tracetui.reading.load.load", fail)
    again = history(str(runs))
    assert [run.name for run in again.series[0].runs] == [run.name for run in first.series[0].runs]
    paths = sorted(map(str, runs.iterdir()))
    write_trace(runs / "run5.json", [5000, 5000])
    (kept,) = kept_history(paths, str(runs))
    assert len(kept.runs) == 7


def test_like_is_compared_with_like():
    names = [
        run_of_digest("a", 10),
        run_of_digest("b", 10, program="q"),
        run_of_digest("c", 10, device="other"),
        run_of_digest("d", 10, rank=1, world_size=2),
        run_of_digest("e", 11),
        run_of_digest("f", 11, program="", more={"kernel:gemm": 90, "kernel:add": 10}),
        run_of_digest("g", 11, program="", more={"kernel:conv": 95, "kernel:add": 5}),
        run_of_digest("h", 11, program="", more={"kernel:gemm": 30, "kernel:new": 70}),
    ]
    assert [[run.name for run in each.runs] for each in in_series(names)] == [
        ["a", "e"],
        ["f", "h"],
        ["b"],
        ["c"],
        ["d"],
        ["g"],
    ]


def test_what_cannot_be_used_is_said(runs):
    (runs / "notes.json").write_text("{}")
    (runs / "cut.json").write_text((runs / "run5.json").read_text()[:-200])
    known = history(str(runs), work=HERE)
    assert len(known.series[0].runs) == 8
    assert len(known.left_out) == 2 and {"notes.json", "cut.json"} == {each.split()[0] for each in known.left_out}


def git(folder, *words):
    given = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *given, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def committed(folder, number):
    (folder / "x.py").write_text(f"# {number}\n")
    git(folder, "add", "x.py")
    git(folder, "commit", "-qm", str(number))
    return git(folder, "rev-parse", "HEAD")


@pytest.mark.full
def test_commits_are_in_their_order_and_nothing_that_they_configure_runs(tmp_path):
    git(tmp_path, "init", "-q")
    known = [committed(tmp_path, number) for number in range(3)]
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "gpg.program"):
        git(tmp_path, "config", key, f"touch {tmp_path / 'ran'}; false")
    git(tmp_path, "config", "log.showSignature", "true")
    for number, commit in enumerate([known[2], known[0], known[1]]):
        write_trace(tmp_path / f"{number}.json", [1000] * 3, number, git={"commit": commit, "dirty": False})
    write_trace(tmp_path / "other.json", [1000] * 3, 5, git={"commit": "f" * 40, "dirty": False})
    found = history(str(tmp_path), "git", HERE)
    assert [run.name for run in found.series[0].runs] == ["1.json", "2.json", "0.json"]
    assert [each for each in found.left_out if "commit" in each and "other.json" in each]
    assert commits(str(tmp_path), ["-n", "--help", "f" * 40]) == [] and not (tmp_path / "ran").exists()


def test_without_commits_there_is_no_order_by_them(runs, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(runs.parent))
    with pytest.raises(UsageError):
        history(str(runs), "git", HERE)


def test_a_new_run_is_held_beside_the_last_level():
    old = [run_of_digest(str(number), 20 if number < 6 else 10 + number % 3 / 20, number) for number in range(14)]
    (series,) = in_series(old)
    by_time = {us: verdicts(series, run_of_digest("new", us, 20))[0] for us in (9.0, 10.05, 12.0, 19.0)}
    assert [each.change is Change.MORE for each in by_time.values()] == [False, False, True, True]
    assert by_time[9.0].runs == ("6", "13")


SERIES = 100
"""Simulated series of each kind."""


def changes(values):
    return [each.first for each in levels(values)[1:]]


@pytest.mark.parametrize(
    ("runs", "noise", "steps"),
    [
        (4, 0.02, 10),
        (6, 0.05, 3),
        *(pytest.param(*more, marks=pytest.mark.full) for more in ((12, 0.02, 10), (40, 0.1, 5))),
    ],
)
def test_noise_alone_is_no_change_in_95_of_100_series(runs, noise, steps):
    random = np.random.default_rng(runs)
    assert sum(bool(changes(simulated(random, runs, noise, steps=steps))) for _ in range(SERIES)) <= 5


@pytest.mark.parametrize(
    ("runs", "at"), [(20, 16), *(pytest.param(*more, marks=pytest.mark.full) for more in ((20, 10), (40, 5), (40, 38)))]
)
def test_ten_percent_more_at_two_percent_noise_are_found_at_their_run(runs, at):
    random = np.random.default_rng(runs + at)
    found = [changes(simulated(random, runs, 0.02, {at: 1.1})) for _ in range(SERIES)]
    assert sum(each == [at] for each in found) >= 85
    assert sum(any(abs(one - at) <= 1 for one in each) for each in found) >= 93


def test_a_single_last_run_is_found_where_it_is_far_out():
    random = np.random.default_rng(1)
    found = [changes(simulated(random, 12, 0.01, {11: 1.15})) for _ in range(SERIES)]
    assert sum(each == [11] for each in found) >= 95


def test_slow_runs_that_were_mended_have_a_beginning_and_an_end():
    random = np.random.default_rng(2)
    found = [changes(simulated(random, 40, 0.01, {18: 1.1, 25: 1.0})) for _ in range(20)]
    assert sum(each == [18, 25] for each in found) >= 18


def counts(*numbers):
    return values_of([Summed(float(number), 0.0, 0.0) for number in numbers], "")


@pytest.mark.parametrize(
    ("numbers", "at"),
    [
        ([100] * 9, []),
        ([100, 104], [1]),
        ([100, 100, 100, 104], [3]),
        ([100] * 5 + [104] * 5, [5]),
        ([100, 100, 101, 100, 101, 100, 101, 101], []),
        ([0] * 6, []),
        ([7], []),
        ([], []),
    ],
)
def test_of_counts_every_difference_matters(numbers, at):
    assert changes(counts(*numbers)) == at


def test_one_odd_run_between_others_is_no_change():
    times = [100.0, 101, 99, 100, 180, 101, 100, 99, 100, 101, 99.5, 100]
    assert changes(values_of([Summed(each, 1.0, 1.0) for each in times], "us")) == []


@given(st.lists(st.floats(0, 1e12), max_size=30), st.sampled_from(["", "us", "%"]))
def test_levels_hold_every_run_once_and_are_the_same_each_time(medians, unit):
    values = values_of([Summed(each, 0.0, 0.0) for each in medians], unit)
    found = levels(values)
    assert [row for each in found for row in range(each.first, each.end)] == list(range(len(medians)))
    assert repr(levels(values)) == repr(found)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(1, 1e6), min_size=4, max_size=20), st.sampled_from([2.0**-8, 2.0**7]))
def test_the_unit_of_a_time_decides_nothing(medians, factor):
    one, other = (levels(values_of([Summed(each * by, 0, 0) for each in medians], "us")) for by in (1.0, factor))
    assert [each.first for each in one] == [each.first for each in other]


def test_a_new_run_is_told_or_not():
    runs = values_of([Summed(each, 1.0, 1.0) for each in (100.0, 101, 99, 100, 101.5, 98.5, 100, 101)], "us")
    before = level(runs, 0, 8)
    known = {value: beyond(before, value, 1.0, 1.0) for value in (90.0, 100.5, 103, 120, float("nan"))}
    assert list(known.values()) == [Change.LESS, Change.SAME, Change.WITHIN_NOISE, Change.MORE, Change.UNKNOWN]
    # Its own steps scatter more than those of the others.
    assert beyond(before, 120.0, 30.0, 1.0) is Change.WITHIN_NOISE
    assert beyond(level(runs, 0, 2), 500.0, 1.0) is Change.WITHIN_NOISE
