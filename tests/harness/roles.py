"""Database roles for tests, as a function on AWS has one: no owner of anything, and fenced to a project or not."""

from __future__ import annotations

import contextlib

import psycopg
from psycopg import errors

from harness.databases import as_url

FENCED, OPEN = "tidemill_probe_fenced", "tidemill_probe_open"


def make_roles(dsn: str) -> None:
    """Both roles, with every right on this database's tables that a grant can give. Roles are the server's: other tests have them too."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for role, more in ((FENCED, "in role tidemill_fenced"), (OPEN, "")):
            with contextlib.suppress(errors.DuplicateObject, errors.UniqueViolation):
                conn.execute(f"create role {role} nologin nosuperuser nobypassrls {more}")
            conn.execute(f"grant usage on schema tidemill to {role}")
            conn.execute(f"grant all on all tables in schema tidemill to {role}")
            conn.execute(f"grant all on all sequences in schema tidemill to {role}")


def as_role(dsn: str, role: str) -> str:
    """The address for connections that begin as this role."""
    return as_url(dsn, options=f"-crole={role}")
