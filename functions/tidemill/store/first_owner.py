"""The first owner of a stage, with a password that is made and told once: for `tidemill accounts bootstrap` and the migrator."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from psycopg import Connection

from tidemill import passwords
from tidemill.domain import api_keys
from tidemill.domain.errors import Fault, Invalid
from tidemill.domain.sessions import PASSWORD_CHARS
from tidemill.store.bootstrap import Founding, bootstrap


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who owns the stage now. `password` and `api_key`: those that were made in this call, told here and nowhere else."""

    email: str
    organization_id: str
    user_id: str
    project_id: str
    is_new: bool
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)


def make_owner(
    conn: Connection[Any],
    email: str,
    *,
    stage: str,
    organization: str = "My organization",
    slug: str = "default",
    project: str = "default",
    password: str | None = None,
    reset: bool = False,
    with_key: bool = False,
) -> Owner:
    """Makes what is missing; an owner who is there keeps the password unless `reset`. Invalid for what is no email or no password."""
    if "@" not in email or not email.isprintable() or " " in email or not 3 <= len(email) <= 320:
        raise Invalid([Fault(("email",), "must be an email address")])
    if password is not None and not PASSWORD_CHARS[0] <= len(password) <= PASSWORD_CHARS[1]:
        raise Invalid([Fault(("password",), f"must have {PASSWORD_CHARS[0]} to {PASSWORD_CHARS[1]} characters")])
    text = password or secrets.token_urlsafe(15)
    key = api_keys.compose(stage, uuid4(), secrets.token_urlsafe(api_keys.SECRET_BYTES)) if with_key else None
    founding = Founding(
        email=email, password_hash=passwords.hash_password(text), sets_password=reset, api_key=key, organization=organization, slug=slug,
        project=project, full_name="",
    )  # fmt: skip
    founded = bootstrap(conn, founding)
    return Owner(
        email=email.lower(), organization_id=founded.organization_id, user_id=founded.user_id, project_id=founded.project_id,
        is_new=founded.has_given_password, password=text if founded.has_given_password and password is None else None,
        api_key=key.text if key else None,
    )  # fmt: skip
