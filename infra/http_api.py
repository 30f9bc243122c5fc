"""The HTTP API: routes from tidemill.http.routes, an authorizer that also knows our front door, access logs, throttling."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from aws_cdk import Aws
from aws_cdk import aws_apigatewayv2 as api
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.functions import Functions
from infra.log_groups import log_group
from infra.settings import Stage
from tidemill.http import routes
from tidemill.http.origin import HEADER

SERVING = ("enqueue", "claims", "admin", "scheduler")
_LOGGED = {
    "at": "$context.requestTime",
    "request_id": "$context.requestId",
    "route": "$context.routeKey",
    "path": "$context.path",
    "method": "$context.httpMethod",
    "status": "$context.status",
    "ms": "$context.responseLatency",
    "integration_ms": "$context.integration.latency",
    "ip": "$context.identity.sourceIp",
    "bytes": "$context.responseLength",
    "key_id": "$context.authorizer.key_id",
    "error": "$context.error.message",
    "authorizer_error": "$context.authorizer.error",
}


def route_keys() -> Iterator[tuple[str, str, bool]]:
    """(route key, function, open to all) for the gateway: a path with all its methods where one function serves them."""
    paths: dict[str, list[routes.Route]] = {}
    for route in routes.TABLE:
        collection = next((name for name in routes.VERBS if route.path.startswith(f"/v1/{name}/{{")), None)
        # Names may hold slashes, which the gateway takes for more segments.
        paths.setdefault(f"/v1/{collection}/{{proxy+}}" if collection else route.path, []).append(route)
    for path, served in paths.items():
        is_open = any(route.scopes is None for route in served)
        functions = {route.function for route in served}
        if len(functions) == 1:
            yield f"ANY {path}", functions.pop(), is_open
            continue
        for route in {route.method: route for route in served}.values():
            yield f"{route.method} {path}", route.function, is_open
            if route.method == "GET":
                yield f"HEAD {path}", route.function, is_open
    yield "$default", routes.function_of("GET", "/nowhere"), False


class HttpApi(Construct):
    """`host`: its own address, which serves nobody who does not come through the front door."""

    def __init__(self, scope: Construct, name: str, stage: Stage, functions: Functions, origin_digest: str) -> None:
        super().__init__(scope, name)
        for function in ("authorizer", "admin"):  # admin: logging in has no authorizer in front of it
            functions.by_name[function].add_environment("TIDEMILL_ORIGIN_DIGEST", origin_digest)
        self.api = api.CfnApi(self, "Api", name=f"tidemill-{stage.name}", protocol_type="HTTP", description=f"tidemill {stage.name}")
        self.id = self.api.ref
        group = log_group(self, "AccessLog", stage, "access")
        api.CfnStage(
            self,
            "Stage",
            api_id=self.id,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=api.CfnStage.AccessLogSettingsProperty(destination_arn=group.log_group_arn, format=json.dumps(_LOGGED)),
            default_route_settings=api.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=stage.throttle_rate, throttling_burst_limit=stage.throttle_burst, detailed_metrics_enabled=True
            ),
        )
        self._integrations = {each: self._integration(each, functions) for each in SERVING}
        origin, caller = f"$request.header.{HEADER}", "$request.header.Authorization"
        known = self._authorizer("Authorizer", functions, [caller, origin], stage.authorizer_ttl_secs)
        anybody = self._authorizer("Door", functions, [origin], 0)
        for key, function, is_open in route_keys():
            api.CfnRoute(
                self,
                "Route" + re.sub(r"\W+", "", key.title()),
                api_id=self.id,
                route_key=key,
                target=f"integrations/{self._integrations[function].ref}",
                authorization_type="CUSTOM",
                authorizer_id=(anybody if is_open else known).ref,
            )
        self.host = f"{self.id}.execute-api.{Aws.REGION}.{Aws.URL_SUFFIX}"

    def _integration(self, name: str, functions: Functions) -> api.CfnIntegration:
        function = functions.by_name[name]
        self._may_invoke(name, functions, "*/*")
        return api.CfnIntegration(
            self,
            f"{name.title()}Integration",
            api_id=self.id,
            integration_type="AWS_PROXY",
            integration_uri=function.function_arn,
            payload_format_version="2.0",
            timeout_in_millis=29_500,
        )

    def _authorizer(self, name: str, functions: Functions, identity: list[str], ttl_secs: int) -> api.CfnAuthorizer:
        made = api.CfnAuthorizer(
            self,
            name,
            api_id=self.id,
            name=name.lower(),
            authorizer_type="REQUEST",
            authorizer_payload_format_version="2.0",
            enable_simple_responses=True,
            identity_source=identity,
            authorizer_result_ttl_in_seconds=ttl_secs,
            authorizer_uri=f"arn:aws:apigateway:{Aws.REGION}:lambda:path/2015-03-31/functions/{functions.by_name['authorizer'].function_arn}/invocations",
        )
        if name == "Door":
            self._may_invoke("authorizer", functions, "authorizers/*")
        return made

    def _may_invoke(self, name: str, functions: Functions, what: str) -> None:
        functions.by_name[name].add_permission(
            f"Gateway{name.title()}",
            principal=iam.ServicePrincipal("apigateway.amazonaws.com"),
            scope=self,
            source_arn=f"arn:aws:execute-api:{Aws.REGION}:{Aws.ACCOUNT_ID}:{self.id}/{what}",
        )
