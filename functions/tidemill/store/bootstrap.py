"""Bootstrap: the first organization, owner, project, queue and API key of a stage.

`tidemill dev` and the migrator of a stage on AWS both start here; a repeat finds what is there and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import Connection

from tidemill.domain.api_keys import ApiKey
from tidemill.store.statements import sql

SCOPES: Final = ("enqueue", "work", "read", "operate", "admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Founding:
    """What to make. Names find what exists: the organization by its slug, the owner by email, the project by name."""

    email: str
    password_hash: str = field(repr=False)
    sets_password: bool = False
    """True: an owner who exists gets this password too."""
    api_key: ApiKey | None = None
    key_name: str = "first key"
    scopes: tuple[str, ...] = SCOPES
    organization: str = "My organization"
    slug: str = "default"
    project: str = "default"
    full_name: str = "Owner"


@dataclass(frozen=True, slots=True)
class Founded:
    """Ids of what is there now."""

    organization_id: str
    user_id: str
    project_id: str
    has_given_password: bool
    """False: the owner was there before and keeps theirs."""


def bootstrap(conn: Connection[Any], founding: Founding) -> Founded:
    """Makes what is missing, in one statement. psycopg.Error if the schema is not there or the database says no."""
    key = founding.api_key
    row = conn.execute(
        sql("accounts/bootstrap"),
        {
            "organization": founding.organization, "slug": founding.slug, "project": founding.project,
            "email": founding.email.lower(), "full_name": founding.full_name,
            "password_hash": founding.password_hash, "sets_password": founding.sets_password,
            "key_id": key.key_id if key else None, "key_hash": key.digest if key else None,
            "key_name": founding.key_name, "scopes": list(founding.scopes),
        },
    ).fetchone()  # fmt: skip
    assert row is not None
    return Founded(*row)
