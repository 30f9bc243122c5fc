"""Logging in, staying in, logging out. The refresh token travels in a cookie that scripts cannot read and other sites cannot send."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from typing import Annotated, Any, Final, Literal

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tidemill import passwords
from tidemill.domain.errors import Internal, Unauthenticated
from tidemill.domain.sessions import ACCESS_SECS, IDLE_SECS, PASSWORD_CHARS, SLOTS
from tidemill.engine import sessions as engine
from tidemill.http import tokens
from tidemill.http.audit import event
from tidemill.http.fields import CLOSED, Id
from tidemill.http.ids import new_id
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.operator_verbs import NothingIn
from tidemill.http.request import Request
from tidemill.http.tokens import Claims
from tidemill.store.postgres import PostgresStore
from tidemill.store.sessions import Slot, User

COOKIE: Final = "tidemill_refresh"
_REFUSED: Final = "the email or the password is wrong"
_GONE: Final = "the session is over: log in again"


@with_config(CLOSED)
class LoginIn(TypedDict):
    """Who, and the proof."""

    email: Annotated[str, Field(min_length=3, max_length=320)]
    password: Annotated[str, Field(min_length=1, max_length=PASSWORD_CHARS[1])]


class UserOut(TypedDict):
    """A user."""

    id: Id
    email: str
    full_name: str


class LoggedIn(TypedDict):
    """A session: send the token as `Authorization: Bearer`, and `POST /v1/auth/refresh` before it expires; the cookie proves who asks."""

    access_token: str
    token_type: Literal["Bearer"]
    expires_in: int
    user: UserOut


@operation(body=LoginIn, answers={200: LoggedIn})
def login(call: Call) -> Answer:
    """Log in. An unknown email and a wrong password look the same and take as long; repeated failures have to wait (429)."""
    email, password = call.body["email"].strip().lower(), call.body["password"]
    account, address = slots_of(call, email)

    def knock(store: PostgresStore) -> User | None:
        engine.knock(lambda kind, patience: store.count_login(kind, account if kind == "account" else address, patience))
        return store.user(email=email)

    user = call.database.run(knock)
    if not passwords.is_right(user.password_hash if user else None, password) or user is None:
        raise Unauthenticated(_REFUSED)
    token, session_id, family_id = secrets.token_urlsafe(32), str(new_id()), str(new_id())

    def begin(store: PostgresStore) -> int:
        with store.transaction():
            store.forgive(account, address)
            store.audit(event(call.request, "user", user.id, "auth.login", "session", family_id))
            return store.begin_session(session_id, user.id, family_id, engine.digest(token))

    return _granted(call, user, family_id, call.database.run(begin), token)


@operation(body=NothingIn, body_optional=True, answers={200: LoggedIn})
def refresh(call: Call) -> Answer:
    """Exchange the cookie for a new access token and a new cookie. A spent cookie that comes again, save within 10 s, ends the login."""
    token, session_id = secrets.token_urlsafe(32), str(new_id())

    def work(store: PostgresStore) -> engine.Renewed | None:
        with store.transaction():
            renewed, ended = engine.refresh(store, _cookie(call.request), session_id=session_id, next_token=token)
            if ended is not None:
                after = {"reason": "a spent refresh token came again", "user_id": ended.user.id}
                store.audit(event(call.request, "system", None, "auth.reuse", "session", ended.family_id, after))
        return renewed

    renewed: engine.Renewed | None = call.database.run(work) if _cookie(call.request) else None
    if renewed is None:
        error = Unauthenticated(_GONE)
        error.cookies = (_set_cookie(call.request, "", 0),)  # type: ignore[attr-defined]  # dispatch puts it on the answer
        raise error
    return _granted(call, renewed.user, renewed.family_id, renewed.now, token)


@operation(body=NothingIn, body_optional=True, answers={204: None})
def logout(call: Call) -> Answer:
    """End the login that the cookie belongs to, and take the cookie away. Without one there is nothing to do."""

    def work(store: PostgresStore) -> None:
        with store.transaction():
            taken = store.take_refresh(engine.digest(_cookie(call.request)))
            if taken is not None and store.end_family(taken.family_id):
                store.audit(event(call.request, "user", taken.user.id, "auth.logout", "session", taken.family_id))

    if _cookie(call.request):
        call.database.run(work)
    return Answer("", 204, cookies=(_set_cookie(call.request, "", 0),))


def slots_of(call: Call, email: str) -> tuple[Slot, Slot]:
    """Where failures of this account and of the caller's address are counted."""
    return _slot(call, f"account {email}"), _slot(call, f"address {source_of(call.request, call.trusted_proxies)}")


def source_of(request: Request, trusted_proxies: int) -> str:
    """The caller's network address: what the last gateway saw, or so many hops before it; what callers say themselves never counts.

    Of an IPv6 address the first 64 bits, which one customer has at least.
    """
    text = request.source_ip
    if trusted_proxies:
        hops = [hop.strip() for hop in request.headers.get("x-forwarded-for", "").split(",") if hop.strip()]
        if hops and hops[-1] != text:
            hops.append(text)
        text = hops[-1 - trusted_proxies] if len(hops) > trusted_proxies else text
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "unknown"
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else str(address)


def _slot(call: Call, what: str) -> Slot:
    assert call.sessions is not None
    keys = call.sessions.read()
    if not keys:
        raise Internal("no key signs sessions: add one to tidemill.signing_keys")
    key = hmac.new(keys[-1].secret, what.encode("utf-8", "replace"), hashlib.sha256).digest()
    return Slot(int.from_bytes(key[:4], "big") % SLOTS, key)


def _granted(call: Call, user: Any, family_id: str, now: int, token: str) -> Answer:
    assert call.sessions is not None
    access = tokens.issue(call.sessions, Claims(user.id, family_id), stage=call.stage, now=now)
    shown = {"id": user.id, "email": user.email, "full_name": user.full_name}
    answer = {"access_token": access, "token_type": "Bearer", "expires_in": ACCESS_SECS, "user": shown}
    return Answer(answer, cookies=(_set_cookie(call.request, token, IDLE_SECS),))


def _is_plain_http(request: Request) -> bool:
    """Only where the gateway itself says so; browsers keep a Secure cookie to https."""
    return request.headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower() == "http"


def _cookie(request: Request) -> str:
    return request.cookies.get(COOKIE if _is_plain_http(request) else f"__Host-{COOKIE}", "")


def _set_cookie(request: Request, value: str, max_age: int) -> str:
    plain = _is_plain_http(request)
    name = COOKIE if plain else f"__Host-{COOKIE}"
    return f"{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict" + ("" if plain else "; Secure")
