"""Lambda: who is calling. Answers the gateway in HTTP API's simple form; the handlers turn a fault into a problem."""

from typing import Any

from aws_lambda_powertools import Logger

from tidemill.http.authorize import Authorizer

authorizer = Authorizer(log=Logger(service="authorizer"))


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001 - Lambda hands it over
    """`isAuthorized` is always true: `context.fault` says whether the caller is known, so that a 401 has our body."""
    return authorizer(event)
