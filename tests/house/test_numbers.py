"""The digests tell numbers from words and see what matters; those of the traces at hand are the committed ones."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.house import numbers as house_numbers
from tests.house.numbers import RECORD, differences, document_digest, measure, prose_digest, read_record, table_digest
from tests.support.paths import SAMPLES, SHARED
from tracetui.model.table import ColumnSpec, Strings, Table, TextKind, coded, numbers, texts

TABLE = Table(
    (
        texts(ColumnSpec("name", "name", "Its name."), ["a", "b"]),
        numbers(ColumnSpec("dur_us", "duration", "How long.", "us"), [1.5, np.nan]),
        texts(ColumnSpec("advice", "advice", "What to do.", text=TextKind.PROSE), ["Do this.", None]),
    ),
    np.array([7, -1]),
    note="A note.",
)


def with_column(index: int, **changes: object) -> Table:
    """The table with one column changed."""
    columns = list(TABLE.columns)
    columns[index] = replace(columns[index], **changes)  # type: ignore[arg-type]
    return replace(TABLE, columns=tuple(columns))


def changed(table: Table) -> tuple[bool, bool]:
    """Whether numbers and whether words are others than those of `TABLE`."""
    before, after = table_digest(TABLE), table_digest(table)
    return before[0] != after[0], before[1] != after[1]


@pytest.mark.parametrize(
    "table",
    [
        with_column(1, values=np.array([1.6, np.nan])),
        with_column(1, values=np.array([1.5, 0.0])),
        with_column(1, doubtful=np.array([True, False])),
        with_column(1, spec=replace(TABLE.columns[1].spec, unit="ns")),
        with_column(1, spec=replace(TABLE.columns[1].spec, name="time_us")),
        TABLE.take(np.array([1, 0])),
        replace(TABLE, slices=np.array([8, -1])),
        replace(TABLE, slices=None),
        replace(TABLE, columns=TABLE.columns[::-1]),
    ],
    ids=["value", "null", "doubt", "unit", "key", "order of rows", "slices", "no slices", "order of columns"],
)
def test_a_number_is_seen(table: Table) -> None:
    assert changed(table)[0]


def test_new_words_are_told_from_new_numbers() -> None:
    assert changed(replace(TABLE, note="Another note.")) == (False, True)
    assert changed(replace(TABLE, columns=(*TABLE.columns[:2], texts(TABLE.columns[2].spec, ["Do that.", None])))) == (
        False,
        True,
    )


def test_headings_ids_of_texts_and_the_last_bit_are_no_difference() -> None:
    strings = Strings()
    ids = [strings.intern(each) for each in ("b", "a")]
    same = replace(TABLE, columns=(coded(TABLE.columns[0].spec, np.array(ids[::-1]), strings), *TABLE.columns[1:]))
    assert changed(same) == (False, False)
    assert changed(with_column(0, spec=TABLE.columns[0].spec.but(heading="title", help="Another."))) == (False, False)
    assert changed(with_column(1, values=np.array([np.nextafter(1.5, 2), np.nan]))) == (False, False)


def test_json_is_taken_apart_likewise() -> None:
    plain = document_digest('{"columns": [{"name": "a", "help": "x"}], "note": "One.", "n": 1}', "", 0)
    assert document_digest('{"columns": [{"name": "a", "help": "y"}], "note": "One.", "n": 1}', "", 0) == plain
    worded = document_digest('{"columns": [{"name": "a", "help": "x"}], "note": "Two.", "n": 1}', "", 0)
    assert worded[0] == plain[0] and worded[1] != plain[1]
    assert document_digest('{"columns": [{"name": "a", "help": "x"}], "note": "One.", "n": 2}', "", 0)[0] != plain[0]
    assert prose_digest("3 kernels", "", 0)[0] == prose_digest("kernels: 3", "", 0)[0] != prose_digest("4", "", 0)[0]


def test_a_difference_names_trace_and_pane() -> None:
    before = {"d.json": {"kernels": "aa 11", "ops": "bb 22", "gaps": "cc 33"}, "absent.json": {"ops": "dd 44"}}
    after = {"d.json": {"kernels": "ab 11", "ops": "bb 23", "steps": "ee 55"}}
    assert differences(before, after) == [
        "d.json gaps: is no longer made",
        "d.json kernels: numbers differ",
        "d.json ops: only words differ",
        "d.json steps: is new",
    ]
    assert differences(before, {"d.json": {"ops": "bb 22"}}, "ops") == []


def test_the_record_is_small_and_holds_digests_alone() -> None:
    assert RECORD.stat().st_size <= 150_000
    digests = [digest for lines in read_record().values() for digest in lines.values()]
    assert all(re.fullmatch(r"[0-9a-f]{10} [0-9a-f]{6}", each) for each in digests)


def test_a_digest_does_not_tell_where_the_checkout_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The JSON of three sides has commands, which repeat the paths.
    unit = " ".join(["sample_traces/linear_eager_cpu.json.gz"] * 3)
    digests = []
    for root in (tmp_path / "here", tmp_path / "and there"):
        shutil.copytree(SAMPLES, root / "sample_traces")
        monkeypatch.setattr(house_numbers, "ROOT", root)
        monkeypatch.setattr(house_numbers, "SAMPLES", root / "sample_traces")
        monkeypatch.chdir(root)
        digests.append(list(house_numbers.pair_digests(unit, lambda _: True)))
        house_numbers.forget_opened()
    assert len(digests[0]) == 2 and digests[0] == digests[1]


@pytest.mark.full
def test_the_numbers_of_the_samples_are_the_committed_ones() -> None:
    record, _ = measure("sample_traces/", jobs=2)
    assert len(record) > 15 and differences(read_record(), record, "sample_traces/") == []


@pytest.mark.nightly
def test_the_numbers_of_the_shared_traces_are_the_committed_ones() -> None:
    if not SHARED.exists():
        pytest.skip("needs the traces beside the checkout")
    record, _ = measure("", jobs=2)
    assert set(read_record()) <= set(record), "a trace that was there is gone"
    assert differences(read_record(), record, "") == []
