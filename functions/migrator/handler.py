"""Lambda that brings the stage's database to the version of this code, and makes its first owner.

Called by `deploy` with the master login, by CloudFormation itself where no such thing is needed, or by hand with `{}`. Delete leaves
the data alone: who deletes a stack has not said that the jobs may go (the database's own deletion policy says that).

`{"bootstrap": {"email": "…"}}` makes the first owner too and answers the password, once: it is in no log and no output of the stack.
`"reset_password": true` gives an owner who has lost it another one.

`{"rotate_signing_key": {"purpose": "session", "leaked": true}}` makes the next key that signs and answers its id.
"""

from typing import Any

import psycopg
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from psycopg.conninfo import make_conninfo

from tidemill.config import Settings
from tidemill.store.login import login
from tidemill.store.migrate import current_version, migrate

ANSWER_TIME_S = 10.0
"""Kept back from the function's time, so that the reason of a failure still reaches CloudFormation."""

logger = Logger(service="migrator")


@logger.inject_lambda_context(log_event=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """What a CDK provider's onEvent handler answers: `PhysicalResourceId`, and in `Data` the versions applied and reached."""
    settings = Settings.read()
    resource_id = f"tidemill-schema-{settings.stage}"
    if event.get("RequestType") == "Delete":
        return {"PhysicalResourceId": event.get("PhysicalResourceId", resource_id)}
    wait_s = max(1.0, context.get_remaining_time_in_millis() / 1000 - ANSWER_TIME_S)
    with psycopg.connect(_dsn(settings, event.get("Login")), prepare_threshold=None, autocommit=True, connect_timeout=5) as conn:
        applied = migrate(conn, wait_s=wait_s)
        version = current_version(conn)
        owner = _bootstrapped(conn, event.get("bootstrap"), settings.stage) | _rotated(conn, event.get("rotate_signing_key"))
        if first := event.get("Founding"):
            _found(conn, first)
    logger.info("migrated", extra={"applied": [migration.name for migration in applied], "version": version})
    return {
        "PhysicalResourceId": resource_id,
        "Data": {"Applied": [migration.version for migration in applied], "Version": version, **owner},
    }


def _bootstrapped(conn: psycopg.Connection[Any], wanted: Any, stage: str) -> dict[str, Any]:
    if not isinstance(wanted, dict):
        return {}
    from dataclasses import asdict

    from tidemill.store.first_owner import make_owner

    owner = make_owner(conn, str(wanted.get("email", "")), stage=stage, reset=wanted.get("reset_password") is True)
    return {"Owner": asdict(owner)}


def _rotated(conn: psycopg.Connection[Any], wanted: Any) -> dict[str, Any]:
    if not isinstance(wanted, dict):
        return {}
    from tidemill.store.signing import rotate_signing_key

    made = rotate_signing_key(conn, str(wanted.get("purpose", "session")), has_leaked=wanted.get("leaked") is True)
    return {"SigningKey": made._asdict()}


def _dsn(settings: Settings, master: dict[str, str] | None) -> str:
    found = login(settings)
    if callable(found):
        found = found()
    return make_conninfo(found, user=master["username"], password=master["password"]) if master else found


def _found(conn: psycopg.Connection[Any], first: dict[str, str]) -> None:
    """The first organization, owner, project and key; what exists stays as it is."""
    from tidemill.domain import api_keys
    from tidemill.passwords import hash_password
    from tidemill.store.bootstrap import Founding, bootstrap

    key = api_keys.parse(first["api_key"])
    bootstrap(conn, Founding(email=first["email"], password_hash=hash_password(first["password"]), api_key=key))
