"""How a process with these settings logs in to its database: a password or a signed token, with or without a checked certificate."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tidemill.domain.errors import Fault
from tidemill.store import iam_token

if TYPE_CHECKING:
    from tidemill.config import Settings


def login(settings: Settings, url: str | None = None) -> str | Callable[[], str]:
    """What `Database` and the runner connect with; with IAM a function that signs a fresh token each time.

    url: instead of the settings' own. SettingsInvalid if there is none, or no user or region to sign for.
    """
    base = url or settings.needs_database()
    if settings.database_ca_file is not None:
        base = make_conninfo(base, sslmode="verify-full", sslrootcert=str(settings.database_ca_file))
    if settings.database_auth != "iam":
        return base
    fields = conninfo_to_dict(base)
    host, port, user = str(fields.get("host") or ""), int(fields.get("port") or 5432), str(fields.get("user") or "")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    if not host or not user or not region:
        from tidemill.config import SettingsInvalid

        faults = [] if region else [Fault(("AWS_REGION",), "is not set; database_auth=iam signs for a region")]
        if not host or not user:
            faults.append(Fault(("TIDEMILL_DATABASE_URL",), "names no host or no user; database_auth=iam signs for both"))
        raise SettingsInvalid(faults)
    if "sslmode" not in fields:
        base = make_conninfo(base, sslmode="require")  # RDS takes a token over TLS only

    def fresh() -> str:
        return make_conninfo(base, password=iam_token.token(host, port, user, region, iam_token.credentials(), datetime.now(UTC)))

    return fresh
