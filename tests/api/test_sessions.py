"""Logging in and staying in: nobody learns who has an account, failures wait, a refresh token that was copied ends the login."""

import hashlib
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import uuid4

import jwt
import pytest

from api.gateway import STAGE, Gateway, Reply, event_rest, event_v2
from api.people import PASSWORD, Person, person, quick_decoy
from tidemill import passwords
from tidemill.domain import sessions as rules
from tidemill.domain.sessions import Refresh, refresh_rule
from tidemill.http import auth, tokens
from tidemill.http.key_ring import KeyRing
from tidemill.http.request import Request
from tidemill.store.database import Database

HTTPS = {"x-forwarded-proto": "https"}


def login(gateway: Gateway, email: str, password: str = PASSWORD, *, ip: str = "192.0.2.1", **headers: str) -> Reply:
    event = event_v2("POST", "/v1/auth/login", body={"email": email, "password": password}, headers={**HTTPS, **headers})
    event["requestContext"]["http"]["sourceIp"] = ip
    return gateway.send(event)


def refresh(gateway: Gateway, cookie: str, path: str = "/v1/auth/refresh") -> Reply:
    event = event_v2("POST", path, headers=HTTPS)
    event["cookies"] = [cookie.partition(";")[0]] if cookie else []
    return gateway.send(event)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_decoy(monkeypatch)


@pytest.fixture
def owner(gateway: Gateway) -> Person:
    return person(gateway, "owner")


def test_a_login_opens_the_projects_of_its_organizations(gateway: Gateway, owner: Person) -> None:
    reply = login(gateway, f" {owner.email.upper()} ")
    assert reply.status == 200, reply.text
    assert reply.json["user"] == {"id": owner.id, "email": owner.email, "full_name": ""}
    assert reply.json["expires_in"] == 900
    headers = {"x-tidemill-project": gateway.project_id}
    token = reply.json["access_token"]
    assert gateway.get("/v1/queues", key=token, headers=headers).json["items"][0]["name"] == "default"
    assert gateway.get("/v1/queues", key=token).json["errors"][0]["loc"] == ["header", "x-tidemill-project"]
    assert jwt.get_unverified_header(token).keys() == {"alg", "kid", "typ"}
    assert gateway.sql("select count(*) from tidemill.sessions where refresh_hash is null or length(refresh_hash) <> 32") == [(0,)]


def test_the_refresh_token_is_in_a_cookie_that_scripts_and_other_sites_never_get(gateway: Gateway, owner: Person) -> None:
    (cookie,) = login(gateway, owner.email).cookies
    assert cookie.startswith("__Host-tidemill_refresh=")
    assert cookie.endswith("; Path=/; Max-Age=1209600; HttpOnly; SameSite=Strict; Secure")
    (plain,) = login(gateway, owner.email, **{"x-forwarded-proto": "http"}).cookies
    assert plain.startswith("tidemill_refresh=")
    assert plain.endswith("HttpOnly; SameSite=Strict")
    (unsaid,) = login(gateway, owner.email, **{"x-forwarded-proto": ""}).cookies
    assert unsaid.endswith("; Secure")
    rest = event_rest("POST", "/v1/auth/login", body={"email": owner.email, "password": PASSWORD})
    assert gateway.send(rest).headers["set-cookie"].endswith("; Secure")


def test_an_unknown_email_a_wrong_password_and_a_closed_account_look_the_same(gateway: Gateway, owner: Person) -> None:
    closed, bare = person(gateway, "viewer"), person(gateway, "viewer", password_hash=None)
    gateway.sql("update tidemill.users set is_active = false where id = %s", [closed.id])
    replies = [
        login(gateway, owner.email, "wrong password"), login(gateway, "nobody@example.test"), login(gateway, closed.email),
        login(gateway, bare.email), login(gateway, "nobody@example.test\u00e9"),
    ]  # fmt: skip
    assert {reply.status for reply in replies} == {401}
    assert {reply.json["detail"] for reply in replies} == {"the email or the password is wrong"}
    assert all(not reply.cookies for reply in replies)
    assert len({tuple(sorted(reply.headers)) for reply in replies}) == 1


def test_an_unknown_email_takes_as_long_as_a_wrong_password(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # with what hashing costs for real
    owner = person(gateway, "owner", password_hash=passwords.hash_password(PASSWORD))
    took: dict[str, list[float]] = {owner.email: [], "nobody@example.test": []}
    login(gateway, owner.email, "wrong")  # argon2 is loaded, the decoy made
    for _ in range(3):
        for email, times in took.items():
            gateway.sql("delete from tidemill.login_slots")
            began = time.process_time()
            login(gateway, email, "wrong")
            times.append(time.process_time() - began)
    known, unknown = (statistics.median(times) for times in took.values())
    assert 0.5 < known / unknown < 2
    assert unknown > 0.02, "a hash was computed"


def test_failures_of_an_account_have_to_wait_longer_and_longer_but_never_for_good(gateway: Gateway, owner: Person) -> None:
    for n in range(rules.ACCOUNT.free):
        assert login(gateway, owner.email, "wrong", ip=f"192.0.2.{n + 1}").status == 401
    refused = login(gateway, owner.email, ip="192.0.2.200")
    assert (refused.status, refused.json["code"]) == (429, "throttled")
    assert int(refused.headers["retry-after"]) == 1
    waits = []
    for _ in range(9):
        gateway.sql("update tidemill.login_slots set last_at = last_at - interval '70 s'")
        assert login(gateway, owner.email, "wrong", ip="192.0.2.201").status == 401
        waits.append(int(login(gateway, owner.email, ip="192.0.2.202").headers["retry-after"]))
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60, 60]
    gateway.sql("update tidemill.login_slots set last_at = last_at - interval '70 s'")
    assert login(gateway, owner.email).status == 200
    assert login(gateway, owner.email, "wrong").status == 401, "a success has cleared it"


def test_an_account_that_is_not_there_is_throttled_alike(gateway: Gateway) -> None:
    statuses = [login(gateway, "nobody@example.test", ip=f"192.0.2.{n}").status for n in range(1, 8)]
    assert statuses == [401] * 5 + [429] * 2


def test_guesses_at_once_get_no_more_tries(gateway: Gateway, owner: Person) -> None:
    others = [Gateway(gateway.dsn, project=(gateway.project_id, gateway.key)) for _ in range(6)]

    def guess(n: int) -> list[int]:  # a function's process has one request at a time
        return [login(others[n], owner.email, "wrong", ip=f"192.0.2.{3 * n + k}").status for k in range(1, 4)]

    try:
        with ThreadPoolExecutor(6) as threads:
            replies = [status for three in threads.map(guess, range(6)) for status in three]
    finally:
        for other in others:
            other.close()
    assert replies.count(401) <= rules.ACCOUNT.free + 1  # a second may pass
    assert replies.count(429) >= 12


def test_an_address_that_tries_many_accounts_has_to_wait(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth.passwords, "is_right", lambda *_: False)
    for n in range(rules.ADDRESS.free):
        assert login(gateway, f"n{n}@example.test").status == 401
    assert login(gateway, "other@example.test").status == 429
    assert login(gateway, "other@example.test", ip="198.51.100.7").status == 401


def test_the_memory_of_failures_is_bounded_and_hot_slots_are_not_taken_over(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "SLOTS", 1)
    monkeypatch.setattr(auth.passwords, "is_right", lambda *_: False)
    for n in range(8):
        login(gateway, f"n{n}@example.test", ip=f"192.0.2.{n}")
    assert gateway.sql("select kind, failures from tidemill.login_slots order by kind") == [("account", 1), ("address", 1)]
    for _ in range(5):
        login(gateway, "hot@example.test", ip="192.0.2.99")
    assert login(gateway, "cold@example.test", ip="192.0.2.98").status == 401
    assert login(gateway, "hot@example.test", ip="192.0.2.99").status == 429


@pytest.mark.parametrize(
    ("source", "forwarded", "proxies", "found"),
    [
        ("192.0.2.1", "", 0, "192.0.2.1"),
        ("192.0.2.1", "203.0.113.9", 0, "192.0.2.1"),
        ("192.0.2.1", "6.6.6.6, 203.0.113.9, 192.0.2.1", 1, "203.0.113.9"),
        ("192.0.2.1", "6.6.6.6, 203.0.113.9", 1, "203.0.113.9"),
        ("192.0.2.1", "", 1, "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "", 0, "2001:db8:1:2::/64"),
        ("nonsense", "", 0, "unknown"),
    ],
)
def test_the_source_address_is_what_our_own_proxies_saw(source: str, forwarded: str, proxies: int, found: str) -> None:
    event = event_v2("POST", "/v1/auth/login", headers={"x-forwarded-for": forwarded} if forwarded else {})
    event["requestContext"]["http"]["sourceIp"] = source
    assert auth.source_of(Request.of(event, None), proxies) == found


def test_who_comes_past_the_front_door_cannot_log_in(gateway: Gateway, owner: Person) -> None:
    gateway.settings = replace(gateway.settings, origin_digest=hashlib.sha256(b"door").hexdigest())
    for sent in ({}, {"x-tidemill-origin": "window"}):
        assert login(gateway, owner.email, **sent).status == 401
    assert gateway.sql("select count(*) from tidemill.login_slots") == [(0,)], "nothing was tried"
    assert login(gateway, owner.email, **{"x-tidemill-origin": "door"}).status == 200


def test_a_refresh_exchanges_the_cookie_and_ends_with_the_login(gateway: Gateway, owner: Person) -> None:
    (first,) = login(gateway, owner.email).cookies
    renewed = refresh(gateway, first)
    assert renewed.status == 200
    (second,) = renewed.cookies
    assert second.partition(";")[0] != first.partition(";")[0]
    token = renewed.json["access_token"]
    assert gateway.get("/v1/me", key=token).status == 200
    gone = refresh(gateway, second, "/v1/auth/logout")
    assert gone.status == 204
    assert "Max-Age=0" in gone.cookies[0]
    assert gateway.get("/v1/me", key=token).status == 401, "at once, whatever the token's own time says"
    assert refresh(gateway, second).status == 401
    for nothing in ("", "__Host-tidemill_refresh=", "__Host-tidemill_refresh=x", "other=1"):
        assert refresh(gateway, nothing).status == 401
        assert refresh(gateway, nothing, "/v1/auth/logout").status == 204


def test_a_spent_token_that_comes_again_ends_the_whole_family(gateway: Gateway, owner: Person) -> None:
    (first,) = login(gateway, owner.email).cookies
    renewed = refresh(gateway, first)
    gateway.sql("update tidemill.sessions set rotated_at = rotated_at - interval '11 s' where rotated_at is not null")
    stolen = refresh(gateway, first)
    assert stolen.status == 401
    assert "Max-Age=0" in stolen.cookies[0]
    assert refresh(gateway, renewed.cookies[0]).status == 401
    assert gateway.get("/v1/me", key=renewed.json["access_token"]).status == 401
    noted = gateway.sql("select actor_kind, action, after ->> 'user_id' from tidemill.audit_log order by id desc limit 1")
    assert noted == [("system", "auth.reuse", owner.id)]
    assert login(gateway, owner.email).status == 200


def test_tabs_that_wake_at_once_all_stay_in(gateway: Gateway, owner: Person) -> None:
    (cookie,) = login(gateway, owner.email).cookies
    others = [Gateway(gateway.dsn, project=(gateway.project_id, gateway.key)) for _ in range(4)]
    try:
        with ThreadPoolExecutor(4) as threads:
            replies = list(threads.map(lambda other: refresh(other, cookie), others))
    finally:
        for other in others:
            other.close()
    assert [reply.status for reply in replies] == [200] * 4
    assert all(refresh(gateway, reply.cookies[0]).status == 200 for reply in replies)


def test_a_login_that_is_idle_or_old_is_over(gateway: Gateway, owner: Person) -> None:
    (idle,) = login(gateway, owner.email).cookies
    gateway.sql("update tidemill.sessions set expires_at = now() - interval '1 s'")
    assert refresh(gateway, idle).status == 401
    (old,) = login(gateway, owner.email).cookies
    gateway.sql("update tidemill.sessions set family_started_at = now() - interval '89.9 days'")
    renewed = refresh(gateway, old)
    assert renewed.status == 200
    (left,) = gateway.sql("select expires_at < now() + interval '3 hours' from tidemill.sessions order by id desc limit 1")
    assert left == (True,)
    gateway.sql("update tidemill.sessions set family_started_at = now() - interval '91 days'")
    assert refresh(gateway, renewed.cookies[0]).status == 401


def test_a_new_password_ends_the_other_logins_and_keeps_this_one(gateway: Gateway, owner: Person) -> None:
    here, there = login(gateway, owner.email), login(gateway, owner.email)
    token = here.json["access_token"]
    change = {"current_password": PASSWORD, "new_password": "an even better one"}
    wrong = gateway.post("/v1/me/password", change | {"current_password": "guess"}, key=token)
    assert (wrong.status, wrong.json["errors"][0]["loc"]) == (422, ["current_password"])
    assert gateway.post("/v1/me/password", change | {"new_password": "short"}, key=token).status == 422
    assert gateway.post("/v1/me/password", change, key=token).status == 204
    assert gateway.get("/v1/me", key=token).status == 200
    assert refresh(gateway, here.cookies[0]).status == 200
    assert gateway.get("/v1/me", key=there.json["access_token"]).status == 401
    assert refresh(gateway, there.cookies[0]).status == 401
    assert login(gateway, owner.email).status == 401
    assert login(gateway, owner.email, "an even better one").status == 200
    assert "better" not in str(gateway.sql("select to_jsonb(a)::text from tidemill.audit_log a"))


def test_tokens_that_are_forged_old_or_of_another_stage_open_nothing(gateway: Gateway, owner: Person) -> None:
    database = Database(gateway.dsn)
    (key,) = KeyRing(database, "session").read()
    claims = jwt.decode(owner.token, options={"verify_signature": False})
    now = claims["iat"]

    def signed(secret: bytes = key.secret, algorithm: str = "HS256", kid: str = key.kid, **other: Any) -> str:
        return jwt.encode({**claims, **other}, secret, algorithm=algorithm, headers={"kid": kid})

    assert gateway.get("/v1/me", key=signed()).status == 200
    head, body, mac = owner.token.split(".")
    bad = [
        signed(b"x" * 48), signed(key.secret * 2, algorithm="HS512"),
        signed(kid=str(uuid4())), signed(exp=now - 40), signed(iss="tidemill:prod"),
        signed(sub=str(uuid4())), signed(sid=str(uuid4())), signed(sid=5), jwt.encode(claims, "", algorithm="none"),
        f"{head}.{body}.", f"{head}.{body}.{mac[:-4]}AAAA", f".{body}.{mac}", "a.b.c", f"{head}.{body}",
        jwt.encode({name: value for name, value in claims.items() if name != "exp"}, key.secret, headers={"kid": key.kid}),
    ]  # fmt: skip
    for token in bad:
        assert gateway.get("/v1/me", key=token).status == 401, token
    database.close()


def test_signing_keys_rotate_with_an_overlap(gateway: Gateway, owner: Person) -> None:
    database = Database(gateway.dsn)
    login(gateway, owner.email)
    database.run(lambda store: store.rotate_signing_key("session", b"n" * 48, retired_secs_ago=0))
    assert owner.get("/v1/me").status == 200, "an old token goes on"
    fresh = KeyRing(database, "session")
    token = tokens.issue(fresh, tokens.Claims(owner.id, owner.family_id), stage=STAGE, now=int(time.time()))
    gateway.authorizer._keys._read_at -= 2  # a second has passed since it looked
    assert gateway.get("/v1/me", key=token).status == 200, "a key that is not known yet is looked for"
    database.run(lambda store: store.rotate_signing_key("session", b"m" * 48, retired_secs_ago=7_200))
    after = Gateway(gateway.dsn, project=(gateway.project_id, gateway.key))
    assert after.get("/v1/me", key=token).status == 401, "a key that has leaked is dropped at once"
    after.close()
    database.close()


def test_over_sessions_are_pruned_a_day_later(gateway: Gateway, owner: Person) -> None:
    login(gateway, owner.email)
    gateway.sql("update tidemill.sessions set expires_at = now() - interval '25 hours' where family_id <> %s", [owner.family_id])
    report = gateway.post("/v1/tick").json
    assert next(phase for phase in report["phases"] if phase["name"] == "prune")["counts"]["sessions"] == 1
    assert gateway.sql("select count(*) from tidemill.sessions") == [(1,)]


@pytest.mark.parametrize(
    ("is_over", "rotated_ms", "rule"),
    [
        (True, None, Refresh.REFUSE), (True, 60_000, Refresh.REFUSE), (False, None, Refresh.RENEW), (False, 10_000, Refresh.RENEW),
        (False, 10_001, Refresh.END_FAMILY),
    ],
)  # fmt: skip
def test_what_a_refresh_token_means(is_over: bool, rotated_ms: int | None, rule: Refresh) -> None:
    assert refresh_rule(is_over=is_over, rotated_ms=rotated_ms) is rule
