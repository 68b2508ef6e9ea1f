"""Files of SQLite that anybody may have written: they open, or end in a sentence; nothing in them is executed."""

from __future__ import annotations

import gzip
import random
import sqlite3
from pathlib import Path

import pytest

from tests.support.nsight import Export, training
from tracetui.cli.main import main
from tracetui.errors import NotATrace, OtherKind, TraceError
from tracetui.model.trace import Kind
from tracetui.reading.load import load
from tracetui.reading.nsight import load as loading
from tracetui.reading.nsight.database import connect
from tracetui.ui.opening.trace_files import looks_like_trace

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return training(8).write(tmp_path / "made.sqlite")


def change(path: str, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


RECURSION = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS start, x AS end FROM n"


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ([f"DROP TABLE {KERNELS}", f"CREATE VIEW {KERNELS} AS {RECURSION}"], "view"),
        ([f"CREATE VIEW cupti_activity_kind_memset2 AS {RECURSION}"], ""),
        ([f"DROP TABLE {KERNELS}", f"CREATE VIEW {KERNELS.lower()} AS {RECURSION}"], "view"),
        ([f"CREATE TRIGGER t AFTER INSERT ON {KERNELS} BEGIN DELETE FROM StringIds; END"], "trigger"),
        (["DROP TABLE OSRT_API", "CREATE VIRTUAL TABLE OSRT_API USING fts3(start, end)"], "virtual table"),
        ([f"ALTER TABLE {KERNELS} ADD COLUMN made AS (hex(zeroblob(1000000000)))"], "columns"),
        ([f"ALTER TABLE {KERNELS} ADD COLUMN rowid INTEGER"], "columns"),
        ([f"CREATE INDEX by_start ON {KERNELS} (start)"], ""),
    ],
)
@pytest.mark.full
def test_what_stands_in_place_of_a_table_is_refused(statements: list[str], said: str, path: str) -> None:
    change(path, "CREATE TABLE OSRT_API (start, end)", *statements)
    if not said:
        assert len(load(path).slices.of_kind(Kind.KERNEL)) == 16
        return
    with pytest.raises(NotATrace, match=said) as raised:
        load(path)
    assert "\n" not in str(raised.value)


def test_a_table_without_row_numbers_costs_itself_alone(path: str) -> None:
    change(path, "DROP TABLE NVTX_EVENTS", "CREATE TABLE NVTX_EVENTS (start PRIMARY KEY, end) WITHOUT ROWID")
    change(path, "INSERT INTO NVTX_EVENTS VALUES (1, 2)")
    trace = load(path)
    assert "NVTX_EVENTS" in trace.quality.damage and len(trace.slices.of_kind(Kind.KERNEL)) == 16


def test_values_of_another_type_are_left_out_and_counted(path: str) -> None:
    change(
        path,
        f"UPDATE {KERNELS} SET start = 'now' WHERE rowid = 1",
        f"UPDATE {KERNELS} SET end = x'00ff' WHERE rowid = 2",
        f"UPDATE {KERNELS} SET deviceId = 1.5 WHERE rowid = 3",
        f"UPDATE {KERNELS} SET gridX = 'wide' WHERE rowid = 4",
        f"UPDATE {KERNELS} SET start = 9223372036854775807 WHERE rowid = 5",
        "UPDATE StringIds SET value = 7 WHERE id = 1",
        "UPDATE NVTX_EVENTS SET text = 3.25 WHERE rowid = 1",
        "INSERT INTO TARGET_INFO_GPU (id, name) VALUES ('one', x'fffe')",
        "INSERT INTO PROCESSES VALUES (NULL, 'x', 5)",
    )
    trace = load(path)
    kernels = trace.slices.of_kind(Kind.KERNEL)
    assert len(kernels) == 12
    assert trace.quality.dropped >= 4
    assert any("another type" in note for note in trace.quality.notes)
    for row in range(len(trace.slices)):
        trace.event_of(row)


def test_nothing_but_reading_is_allowed(path: str) -> None:
    connection = connect(path)
    for statement in (
        f"DELETE FROM {KERNELS}",
        "CREATE TABLE x (y)",
        "ATTACH ':memory:' AS other",
        "SELECT load_extension('x')",
        "SELECT hex(zeroblob(100))",
        RECURSION,
    ):
        with pytest.raises(sqlite3.DatabaseError):
            connection.execute(statement).fetchone()
    connection.close()


def test_a_huge_text_is_not_taken_into_memory(path: str) -> None:
    change(path, "INSERT INTO StringIds VALUES (999, zeroblob(80000000))")
    assert "too big" in load(path).quality.damage


@pytest.mark.full
def test_every_cut_and_every_flip_opens_or_ends_in_a_sentence(path: str, tmp_path: Path) -> None:
    data = Path(path).read_bytes()
    chance = random.Random(30)
    other = tmp_path / "other.sqlite"
    for number in range(150):
        damaged = bytearray(data[: chance.randrange(100, len(data))] if number % 3 == 0 else data)
        for _ in range(chance.choice((0, 1, 4, 40))):
            damaged[chance.randrange(16, len(damaged))] = chance.randrange(256)
        other.write_bytes(damaged)
        try:
            trace = load(str(other))
            for row in range(0, len(trace.slices), 7):
                trace.event_of(row)
        except TraceError as error:
            assert str(error) and "\n" not in str(error)


def test_a_file_cut_off_shows_what_is_there(path: str) -> None:
    made = training(3_000)
    made.write(Path(path))
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: len(data) // 2])
    trace = load(path)
    assert trace.quality.is_part and len(trace.slices) > 0
    assert main(["show", "kernels", path]) == 1


def test_packed_exports_open_and_keep_their_arguments(path: str, tmp_path: Path) -> None:
    packed = tmp_path / "made.sqlite.gz"
    packed.write_bytes(gzip.compress(Path(path).read_bytes()))
    trace = load(str(packed))
    Path(path).unlink()
    packed.unlink()
    row = int(trace.slices.of_kind(Kind.KERNEL)[0])
    assert trace.event_of(row)["args"]["registers per thread"] == 32
    assert trace.format == "Nsight Systems, SQLite, gzip"


def test_arguments_of_a_file_that_went_or_changed_are_a_sentence(path: str) -> None:
    trace = load(path)
    change(path, "DELETE FROM NVTX_EVENTS")
    with pytest.raises(TraceError, match="changed"):
        trace.event_of(0)
    Path(path).unlink()
    with pytest.raises(TraceError, match="any more"):
        trace.event_of(0)


def test_other_databases_and_empty_exports_are_told_apart(tmp_path: Path) -> None:
    empty = Export().add(KERNELS, start=None, end=None, deviceId=0, streamId=7).write(tmp_path / "a.sqlite")
    with pytest.raises(TraceError, match="no event"):
        load(empty)
    other = Export().add("users", name="x").write(tmp_path / "b.sqlite")
    with pytest.raises(OtherKind, match="SQLite database"):
        load(other)
    assert looks_like_trace(Path(empty)) and not looks_like_trace(tmp_path / "missing")


def test_an_export_with_many_tables_before_those_of_events_is_listed(tmp_path: Path) -> None:
    made = Export()
    for number in range(120):
        made.add(f"EARLIER_{number:03}_{'x' * 80}", value=number)
    path = Path(made.add(KERNELS, start=1, end=2, deviceId=0, streamId=7).write(tmp_path / "a.sqlite"))
    assert b"CUPTI" not in path.read_bytes()[:8192]
    assert looks_like_trace(path)
    packed = tmp_path / "a.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert looks_like_trace(packed)


def test_no_export_is_written(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.json")
    for command in (["cut", path, "--window", "0ms:1ms"], ["repair", path]):
        assert main([*command, "-o", out]) == 2
        assert "none can be written" in capsys.readouterr().err
    assert main(["perfetto", path]) == 2
    assert not Path(out).exists()


def test_reading_stops_when_it_is_not_wanted_any_more(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    read = loading._Importer._kernels

    def read_and_stop(importer: loading._Importer) -> None:
        read(importer)
        asked.append(True)

    monkeypatch.setattr(loading._Importer, "_kernels", read_and_stop)
    trace = load(path, cancelled=lambda: bool(asked))
    assert trace.quality.partial and len(trace.slices) == 16
