"""What of a URL may be shown: no password and no signature, and the whole is found again."""

from __future__ import annotations

import pytest

from tracetui import files
from tracetui.files import full_url, is_url, public_url, url_below, url_name


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_full_urls", {})


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("https://host/a.json", True),
        ("s3://bucket/a", True),
        ("simplecache::s3://bucket/a", True),
        ("C:/a.json", False),
        ("run/a.json#3", False),
        ("https:/a", False),
        ("-", False),
    ],
)
def test_a_path_is_a_url_or_none(path: str, is_one: bool) -> None:
    assert is_url(path) is is_one


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("https://host/a.json", "https://host/a.json"),
        ("https://me:word@host/a.json", "https://host/a.json"),
        ("https://token@host/a.json", "https://host/a.json"),
        ("https://host/a.json?X-Amz-Signature=word", "https://host/a.json?..."),
        ("HTTPS://me:word@host:8/a.json?x=word", "HTTPS://host:8/a.json?..."),
        ("ftp://me:word@host/a.json", "ftp://host/a.json"),
        ("abfs://container@account/a.json", "abfs://container@account/a.json"),
        ("s3://bucket/a?b@c.json", "s3://bucket/a?b@c.json"),
        ("run/me:word@host", "run/me:word@host"),
    ],
)
def test_the_public_form_has_no_secret_and_leads_to_the_whole(url: str, public: str) -> None:
    assert public_url(url) == public
    assert public_url(public) == public
    assert full_url(public) == url


def test_two_urls_that_differ_in_their_query_stay_two() -> None:
    one, other = public_url("https://host/a?file=1"), public_url("https://host/a?file=2")
    assert one != other and public_url("https://host/a?file=1") == one
    assert [full_url(one), full_url(other)] == ["https://host/a?file=1", "https://host/a?file=2"]


def test_a_scope_stays_behind_the_public_form() -> None:
    assert public_url("https://me:word@host/a.json?x=1#3") == "https://host/a.json?...#3"
    assert full_url("https://host/a.json?...") == "https://me:word@host/a.json?x=1"


def test_what_lies_below_a_url_is_asked_for_with_its_password() -> None:
    below = url_below(public_url("https://me:word@host/run/"), "/a.json")
    assert below == "https://host/run/a.json" and full_url(below) == "https://me:word@host/run/a.json"


def test_the_name_of_a_url_is_that_of_its_file() -> None:
    assert url_name("https://host/run/a.json.gz?...") == "a.json.gz"
    assert url_name("s3://bucket/run/") == "run"
