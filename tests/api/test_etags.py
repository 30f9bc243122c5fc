"""Conditional reads: a caller who has the answer already gets 304 and no body."""

import pytest

from api.gateway import Gateway
from tidemill.http.etags import is_named, tag_of


def test_a_list_that_has_not_changed_is_304_without_a_body_and_a_changed_one_comes_whole(gateway: Gateway) -> None:
    gateway.enqueue()
    first = gateway.get("/v1/jobs")
    tag = first.headers["etag"]
    again = gateway.get("/v1/jobs", headers={"if-none-match": tag})
    assert (again.status, again.text, again.headers["etag"]) == (304, "", tag)
    assert "authorization" in again.headers["vary"]
    assert gateway.get("/v1/jobs", headers={"if-none-match": '"another", ' + tag}).status == 304
    gateway.enqueue()
    changed = gateway.get("/v1/jobs", headers={"if-none-match": tag})
    assert changed.status == 200
    assert len(changed.json["items"]) == 2
    assert changed.headers["etag"] != tag


def test_another_project_with_our_tag_gets_its_own_answer(gateway: Gateway) -> None:
    gateway.enqueue()
    tag = gateway.get("/v1/jobs").headers["etag"]
    other = Gateway(gateway.dsn)
    try:
        found = other.get("/v1/jobs", headers={"if-none-match": tag})
        assert (found.status, found.json["items"]) == (200, [])
    finally:
        other.close()


def test_failures_and_writes_have_no_tag(gateway: Gateway) -> None:
    assert "etag" not in gateway.get("/v1/jobs", query={"limit": "0"}, headers={"if-none-match": "*"}).headers
    assert gateway.get("/v1/jobs/00000000-0000-7000-8000-000000000000", headers={"if-none-match": "*"}).status == 404
    assert "etag" not in gateway.post("/v1/jobs", {"job_type": "t"}, headers={"if-none-match": "*"}).headers
    assert gateway.get("/v1/jobs", key=None, headers={"if-none-match": "*"}).status == 401


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        (None, False),
        ("", False),
        ("*", True),
        ('W/"a"', True),
        ('"a"', True),
        ('"b", W/"a"', True),
        ('"b"', False),
        ("a", False),
        ('"a', False),
    ],
)
def test_tags_are_compared_as_rfc_9110_says(given: str | None, holds: bool) -> None:
    assert is_named('W/"a"', given) is holds


def test_equal_bodies_have_equal_tags_and_others_do_not() -> None:
    assert tag_of("{}") == tag_of("{}") != tag_of("[]")
