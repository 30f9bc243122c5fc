"""Cursors: taken back for the list they were made for, and for nothing else."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.domain.errors import Invalid
from tidemill.http.cursors import Cursors, KeyRing
from tidemill.store.api_keys import SigningKey

OLD = SigningKey("00000000-0000-4000-8000-000000000001", b"o" * 48, False)
NEW = SigningKey("00000000-0000-4000-8000-000000000002", b"n" * 48, True)


class Keys:
    """Stands in for the database: counts how often it is asked."""

    def __init__(self, *keys: SigningKey) -> None:
        self.keys, self.asked = list(keys), 0

    def run(self, work: Any) -> Any:
        self.asked += 1
        return self.keys


def cursors(*, endpoint: str = "jobs", project: str = "p", ring: KeyRing | None = None, **filters: Any) -> Cursors:
    return Cursors(ring or KeyRing(Keys(NEW, OLD)), endpoint, project, filters)


def refused(made: Cursors, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        made.position(text)
    assert caught.value.faults[0].loc == ("query", "cursor")


def test_a_cursor_comes_back_as_the_position_it_was_made_of() -> None:
    position = ["2027-01-01T00:00:00.000001Z", "01a228eb-d498-746a-aaf2-0395defd9e29"]
    text = cursors(queue="a").text(position)
    assert cursors(queue="a").position(text) == position
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("other", [{"endpoint": "queues"}, {"project": "q"}, {"queue": "b"}, {"sort": "run_at"}, {"state": ["queued"]}])
def test_a_cursor_of_another_list_is_refused(other: dict[str, Any]) -> None:
    refused(cursors(**other), cursors().text(["x"]))


def test_every_changed_character_is_refused() -> None:
    text = cursors().text([None, "01a228eb-d498-746a-aaf2-0395defd9e29"])
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for place in range(len(raw)):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        refused(cursors(), base64.urlsafe_b64encode(changed).rstrip(b"=").decode())


@given(st.text(max_size=80))
def test_any_other_text_is_refused(text: str) -> None:
    refused(cursors(), text)


def test_a_retired_key_still_verifies_and_no_longer_signs() -> None:
    retired = KeyRing(Keys(NEW, OLD))
    by_old = cursors(ring=KeyRing(Keys(OLD._replace(signs=True)))).text(["x"])
    assert cursors(ring=retired).position(by_old) == ["x"]
    assert cursors(ring=retired).text(["x"]) != by_old


def test_keys_are_read_once_and_again_for_one_that_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    store = Keys(OLD._replace(signs=True))
    ring = KeyRing(store)
    for _ in range(5):
        cursors(ring=ring).text(["x"])
    assert store.asked == 1
    by_new = cursors().text(["x"])
    store.keys = [NEW, OLD]
    now[0] += 2
    assert cursors(ring=ring).position(by_new) == ["x"]
    assert store.asked == 2
