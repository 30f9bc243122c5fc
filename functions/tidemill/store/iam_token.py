"""A login to RDS signed with the role's own credentials, by the standard library alone (boto3 would take a third of a second).

The token is a presigned request, AWS Signature Version 4 with the query string: what `generate_db_auth_token` of the SDK gives.
It opens one connection within fifteen minutes; a connection that is open stays open.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from tidemill.domain.errors import Unavailable

VALID_SECS: Final = 900
_SERVICE: Final = "rds-db"
_CONTAINER_HOST: Final = "http://169.254.170.2"
_ANSWER_SECS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """Of an IAM role, for some hours."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(repr=False, default=None)


def token(host: str, port: int, user: str, region: str, credentials: Credentials, now: datetime) -> str:
    """The password for this user at this endpoint (its own name: an alias does not do)."""
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region}/{_SERVICE}/aws4_request"
    parameters = {
        "Action": "connect",
        "DBUser": user,
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(VALID_SECS),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token:
        parameters["X-Amz-Security-Token"] = credentials.session_token
    query = "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in sorted(parameters.items()))
    request = f"GET\n/\n{query}\nhost:{host.lower()}:{port}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    return f"{host.lower()}:{port}/?{query}&X-Amz-Signature={signature}"


def credentials(environment: Mapping[str, str] | None = None) -> Credentials:
    """The role's: from the environment, where Lambda puts them, or from the container's agent. Unavailable if there are none."""
    environment = os.environ if environment is None else environment
    if "AWS_ACCESS_KEY_ID" in environment and "AWS_SECRET_ACCESS_KEY" in environment:
        return Credentials(
            environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], environment.get("AWS_SESSION_TOKEN") or None
        )
    if path := environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return _of_container(_CONTAINER_HOST + path)
    raise Unavailable(
        "no AWS credentials to sign a database login with: give the function or the task a role, or use database_auth=password"
    )


def _of_container(url: str) -> Credentials:
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_SECS) as answer:  # noqa: S310 - a fixed host
            found = json.load(answer)
        return Credentials(found["AccessKeyId"], found["SecretAccessKey"], found.get("Token"))
    except (OSError, ValueError, KeyError) as error:
        raise Unavailable("the container's agent gave no AWS credentials to sign a database login with: try again") from error
