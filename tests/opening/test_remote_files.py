"""Traces at URLs: read in blocks, taken up again where a connection breaks off, with sentences that hold no secret."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import zstandard

from tests.support.http_files import HttpFiles, served
from tests.support.own_cache import own_cache
from tests.support.paths import ROOT
from tracetui.errors import NotATrace, NotFound
from tracetui.model.trace import Trace
from tracetui.opening.cache_folder import identity_of
from tracetui.opening.kept_traces import keep_trace, read_trace
from tracetui.reading import remote_files
from tracetui.reading.load import load
from tracetui.reading.remote_files import RemoteFile, remote_version

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

RANDOM = Random(1)
EVENTS = [
    {
        "ph": "X",
        "cat": "cpu_op",
        "name": f"op_{n % 50}",
        "pid": 1,
        "tid": 1,
        "ts": 10 * n,
        "dur": 5,
        "args": {"number": n, "noise": f"{RANDOM.getrandbits(256):x}"},
    }
    for n in range(20_000)
]
PLAIN = json.dumps({"traceEvents": EVENTS}).encode()


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", PLAIN)
    return packed.getvalue()


FORMS: dict[str, Callable[[], bytes]] = {
    "json": lambda: PLAIN,
    "json.gz": lambda: gzip.compress(PLAIN, 1),
    "json.zst": lambda: zstandard.compress(PLAIN),
    "zip": zipped,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpFiles]:
    monkeypatch.setattr(remote_files, "RETRY_SECONDS", (0.01, 0.01, 0.01))
    with served({}) as state:
        yield state


def arguments(trace: Trace, index: int) -> dict:
    """What is read again of an event."""
    return trace.store.event(int(trace.slices.event[index]))["args"]


def require_whole(trace: Trace) -> None:
    """All events are there, and the arguments of the last are those that were written."""
    assert len(trace.slices) == len(EVENTS) and not trace.quality.notes
    assert arguments(trace, -1) == EVENTS[-1]["args"]
    assert arguments(trace, 0) == EVENTS[0]["args"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("takes_ranges", [True, False])
@pytest.mark.full
def test_a_trace_of_a_server_is_read_and_its_arguments_later(server: HttpFiles, form: str, takes_ranges: bool) -> None:
    server.files[f"/run/trace.{form}"] = FORMS[form]()
    server.takes_ranges = takes_ranges
    trace = load(server.url(f"/run/trace.{form}"))
    server.files.clear()
    require_whole(trace)
    assert trace.path == server.url(f"/run/trace.{form}") and trace.label == f"trace.{form}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.full
def test_a_trace_of_another_file_system_is_read(form: str) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe(f"/remote/trace.{form}", FORMS[form]())
    trace = load(f"memory://remote/trace.{form}")
    memory.rm("/remote", recursive=True)
    require_whole(trace)


def test_blocks_are_asked_for_one_after_the_other_and_none_twice(
    server: HttpFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_files, "BLOCK_BYTES", 1 << 20)
    server.files["/trace.json"] = PLAIN
    load(server.url("/trace.json"))
    bounds = [tuple(map(int, wanted.removeprefix("bytes=").split("-"))) for wanted in server.fetched]
    assert bounds[0] == (0, remote_files.FIRST_BYTES - 1) and bounds[-1][1] == len(PLAIN) - 1
    assert all(after[0] == before[1] + 1 for before, after in pairwise(bounds))


def test_the_beginning_alone_costs_one_small_request(server: HttpFiles) -> None:
    server.files["/trace.json"] = PLAIN
    with RemoteFile(server.url("/trace.json")) as file:
        assert file.read(100) == PLAIN[:100]
    assert server.fetched == [f"bytes=0-{remote_files.FIRST_BYTES - 1}"]


@pytest.mark.parametrize("form", ["json", "json.gz"])
@pytest.mark.parametrize("takes_ranges", [True, False])
@pytest.mark.full
def test_a_connection_that_breaks_off_is_taken_up_again(server: HttpFiles, form: str, takes_ranges: bool) -> None:
    server.files[f"/trace.{form}"] = FORMS[form]()
    server.takes_ranges, server.max_bytes, server.breaks = takes_ranges, 300_000, 2
    require_whole(load(server.url(f"/trace.{form}")))
    assert server.breaks == 0


def test_a_server_that_always_breaks_off_gives_smaller_blocks_to_the_end(server: HttpFiles) -> None:
    server.files["/trace.json"] = PLAIN
    server.max_bytes = 100_000
    require_whole(load(server.url("/trace.json")))


def test_a_server_that_gives_up_is_named_with_the_byte(server: HttpFiles) -> None:
    server.files["/trace.json"] = PLAIN
    server.max_bytes = 10_000
    with RemoteFile(server.url("/trace.json")) as file:
        # Who asks again is told the same, and does not wait.
        for _ in range(2):
            with pytest.raises(NotFound, match="the connection broke off") as error:
                file.read(100)
            assert str(error.value).startswith(server.url("/trace.json")) and "tried 4 times" in str(error.value)


def test_a_file_that_changes_meanwhile_is_not_mixed(server: HttpFiles) -> None:
    server.files["/trace.json"] = PLAIN
    with RemoteFile(server.url("/trace.json")) as file:
        file.read(100)
        server.etag, server.max_bytes, server.breaks = '"2"', 1000, 1
        with pytest.raises(NotFound, match="was changed while it was read"):
            while file.read(1 << 20):
                pass


def test_a_beginning_that_is_read_may_be_gone_back_to(server: HttpFiles) -> None:
    server.files["/trace.json"] = PLAIN
    with RemoteFile(server.url("/trace.json")) as file:
        file.seek(-50, io.SEEK_END)
        assert file.read(100) == PLAIN[-50:] and file.read(1) == b""
        file.seek(10)
        assert file.read(5) == PLAIN[10:15] and file.tell() == 15


def test_reading_ends_where_nobody_wants_it_any_more(server: HttpFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["/trace.json"] = PLAIN
    server.max_bytes = 10_000
    monkeypatch.setattr(remote_files, "RETRY_SECONDS", (600.0,))
    with RemoteFile(server.url("/trace.json")) as file:
        file.cancelled = lambda: True
        assert file.read(100) == b""


@pytest.mark.parametrize(
    ("path", "password", "cause"),
    [
        ("/nothing.json", "", "there is nothing at this address (HTTP 404)"),
        ("/trace.json", "me:other", "there is no permission (HTTP 403)"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_cause_and_no_secret(
    server: HttpFiles, path: str, password: str, cause: str
) -> None:
    server.files["/trace.json"], server.password = PLAIN, password
    with pytest.raises(NotFound) as error:
        load(f"http://me:word1@{server.address}{path}?signature=word2")
    assert cause in str(error.value) and server.url(path) in str(error.value)
    assert "word" not in str(error.value) and error.value.__cause__ is None


@pytest.mark.parametrize(
    ("to", "cause"),
    [
        ("file:///etc/passwd", "an address that is none of the web, which is not followed"),
        ("ftp://host/trace.json", "an address that is none of the web, which is not followed"),
        ("/there.json", "from one address to the next without end"),
    ],
)
@pytest.mark.parametrize("path", ["/here.json", "/folder/"])
def test_a_server_that_leads_astray_is_told_and_asked_no_more(
    server: HttpFiles, path: str, to: str, cause: str
) -> None:
    server.leads_to = {path: to, "/there.json": path}
    with pytest.raises(NotFound, match=f"{server.url(path)} .*{cause}"):
        load(server.url(path)) if path.endswith("json") else list(remote_files.walk_remote(server.url(path)))
    # At most ten redirects, of the question for the size and the one for the content.
    assert len(server.asked) <= 2 * 11


def test_a_redirect_within_the_web_is_followed(server: HttpFiles) -> None:
    server.files["/trace.json"], server.leads_to = PLAIN, {"/moved.json": "/trace.json"}
    assert len(load(server.url("/moved.json")).slices) == len(EVENTS)


def test_a_password_and_a_query_are_sent(server: HttpFiles) -> None:
    server.files["/trace.json"], server.password = PLAIN, "me:word"
    trace = load(f"http://me:word@{server.address}/trace.json?signature=xyz")
    assert len(trace.slices) == len(EVENTS) and trace.path == server.url("/trace.json?...")
    assert {path for _, path, _ in server.asked} == {"/trace.json?signature=xyz"}


def test_a_server_that_is_not_there_and_a_scheme_that_is_none_are_named() -> None:
    with pytest.raises(NotFound, match="there is no connection to the server"):
        load("http://127.0.0.1:9/trace.json")
    with pytest.raises(NotFound, match=r"nothing://x/trace.json cannot be read"):
        load("nothing://x/trace.json")
    with pytest.raises(NotFound, match="names one file system within another"):
        load("simplecache::http://127.0.0.1:9/trace.json")


def test_a_server_that_says_nothing_is_given_up(server: HttpFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["/trace.json"], server.silent_seconds = PLAIN, 5.0
    monkeypatch.setattr(remote_files, "ANSWER_SECONDS", 0.01)
    with pytest.raises(NotFound, match="the server did not answer in time"):
        load(server.url("/trace.json"))


def test_what_is_no_trace_is_refused_as_a_file_is(server: HttpFiles) -> None:
    server.files["/page.json"] = b"<!DOCTYPE html><p>Log in"
    with pytest.raises(NotATrace, match="is an HTML page"):
        load(server.url("/page.json"))


def test_without_fsspec_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(NotFound, match="pip install fsspec aiohttp"):
        load("https://host/trace.json")


@pytest.mark.full
def test_a_file_of_this_machine_is_read_without_fsspec(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(PLAIN)
    code = (
        "import sys; from tracetui.cli.main import main\n"
        f"assert main(['show', 'summary', {str(tmp_path / 'trace.json')!r}]) == 0\n"
        "assert 'fsspec' not in sys.modules and 'aiohttp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_a_trace_of_a_server_is_kept_until_its_etag_changes(
    server: HttpFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_cache(monkeypatch, tmp_path)
    server.files["/trace.json"] = PLAIN
    url = server.url("/trace.json")
    assert keep_trace(read_trace(url))
    server.asked.clear()
    require_whole(read_trace(url))
    assert not server.fetched
    server.etag = '"2"'
    read_trace(url)
    assert server.fetched


def test_without_an_etag_and_with_a_query_nothing_is_kept(server: HttpFiles) -> None:
    server.files["/trace.json"] = PLAIN
    assert remote_version(server.url("/trace.json")) and identity_of(server.url("/trace.json"))
    assert identity_of(server.url("/trace.json?...")) is None and identity_of(server.url("/nothing.json")) is None
    server.etag = ""
    assert identity_of(server.url("/trace.json")) is None
