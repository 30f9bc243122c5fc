"""The signer of database logins against the SDK's own."""

from datetime import UTC, datetime

import boto3
import pytest

from tidemill.store import iam_token

HOST, USER, REGION = "db.abc.eu-central-1.rds.amazonaws.com", "tidemill_enqueue", "eu-central-1"


@pytest.mark.parametrize("session", [None, "IQoJb3JpZ2luX2VjE/+=="])
def test_token_has_the_signature_of_the_sdk(session: str | None) -> None:
    sdk = boto3.Session("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", session, region_name=REGION)
    theirs = sdk.client("rds").generate_db_auth_token(HOST, 5432, USER)
    moment = theirs.partition("X-Amz-Date=")[2][:16]
    now = datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)

    ours = iam_token.token(HOST, 5432, USER, REGION, iam_token.Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", session), now)

    assert parameters(ours) == parameters(theirs)


def parameters(token: str) -> dict[str, str]:
    host, _, query = token.partition("/?")
    return {"host": host, **dict(pair.split("=", 1) for pair in query.split("&"))}
