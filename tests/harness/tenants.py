"""Projects of their own on an instance that is shared: what one module of tests leaves behind is not there for another."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass

import psycopg

from tidemill.domain import api_keys
from tidemill.store.bootstrap import Founding, bootstrap


@dataclass(frozen=True, slots=True)
class Tenant:
    """A project with a queue `default`, alone in its organization, and a key with every scope."""

    project_id: str
    api_key: str


def tenant(dsn: str) -> Tenant:
    """A new one in this database."""
    name = uuid.uuid4().hex
    key = api_keys.compose("local", uuid.uuid4(), secrets.token_urlsafe(api_keys.SECRET_BYTES))
    founding = Founding(email=f"{name}@example.test", password_hash="-", api_key=key, slug=name)
    with psycopg.connect(dsn, autocommit=True) as conn:
        return Tenant(bootstrap(conn, founding).project_id, key.text)
