"""People for tests: users with a role, logged in without the time that a password takes, and what they send."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from argon2 import PasswordHasher

from api.gateway import STAGE, Gateway, Reply
from tidemill import passwords
from tidemill.engine.sessions import digest
from tidemill.http import tokens
from tidemill.http.ids import new_id
from tidemill.http.key_ring import KeyRing
from tidemill.http.tokens import Claims
from tidemill.store.database import Database

PASSWORD = "correct horse battery"
CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
"""Hashing for tests that ask many times; what it costs for real is a test of its own."""

PASSWORD_HASH = CHEAP.hash(PASSWORD)

_numbers: Iterator[int] = count(1)


@dataclass
class Person:
    """A user with a session."""

    gateway: Gateway
    id: str
    email: str
    token: str
    org_id: str
    family_id: str

    def request(self, method: str, path: str, body: Any = None, *, project: str | None = "", **more: Any) -> Reply:
        """One request; `project`: of the header, None for none."""
        named = self.gateway.project_id if project == "" else project
        headers = {**(more.pop("headers", None) or {}), **({"x-tidemill-project": named} if named is not None else {})}
        return self.gateway.request(method, path, body, key=self.token, headers=headers, **more)

    def get(self, path: str, **more: Any) -> Reply:
        return self.request("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Reply:
        return self.request("POST", path, body, **more)


def org_of(gateway: Gateway) -> str:
    """The organization of the gateway's project."""
    found: str = gateway.sql("select org_id::text from tidemill.projects where id = %s", [gateway.project_id])[0][0]
    return found


def person(gateway: Gateway, role: str | None, *, password_hash: str | None = PASSWORD_HASH) -> Person:
    """A new user with this role in the organization of the gateway's project (None: a stranger to it), logged in."""
    user_id, family_id, email = str(new_id()), str(new_id()), f"{role or 'stranger'}-{next(_numbers)}@example.test"
    org_id = org_of(gateway)
    gateway.sql("insert into tidemill.users (id, email, password_hash) values (%s, %s, %s)", [user_id, email, password_hash])
    if role is not None:
        gateway.sql("insert into tidemill.organization_members (org_id, user_id, role) values (%s, %s, %s)", [org_id, user_id, role])
    database = Database(gateway.dsn)
    now = database.run(lambda store: store.begin_session(str(new_id()), user_id, family_id, digest(secrets.token_urlsafe(8))))
    token = tokens.issue(KeyRing(database, "session"), Claims(user_id, family_id), stage=STAGE, now=now)
    database.close()
    return Person(gateway, user_id, email, token, org_id, family_id)


def quick_decoy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing with nobody's password is as quick as comparing with a test user's."""
    decoy = CHEAP.hash("nobody's")
    monkeypatch.setattr(passwords, "_decoy", lambda: decoy)
