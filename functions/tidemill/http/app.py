"""The handler of an HTTP Lambda: Powertools routes the request, `dispatch` does the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler.api_gateway import APIGatewayHttpResolver, Response

import tidemill.store.postgres  # noqa: F401 - loaded while the environment starts, not by the first request
from tidemill.http import routes
from tidemill.http.dispatch import Dispatcher, endpoint_of
from tidemill.http.request import Request
from tidemill.http.routes import Route


class App:
    """Serves the routes of one function. Takes whatever a gateway sends: HTTP API 2.0 and 1.0 events, REST events.

    Not for two requests at once: a Lambda environment, like a local process, has one at a time.
    """

    def __init__(self, function: str, dispatcher: Dispatcher | None = None, *, is_eager: bool = True) -> None:
        """`is_eager`: load every endpoint now, while the environment starts; else each with its first request (many routes, few calls)."""
        self._dispatcher = dispatcher or Dispatcher(log=Logger(service=function))
        self._resolver = APIGatewayHttpResolver()
        self._request: Request | None = None
        self._answered: dict[str, Any] = {}
        for route in routes.of(function):
            if is_eager:
                endpoint_of(route)
            self._resolver.route(route.rule, method=route.method)(self._running(route))
        self._resolver.not_found(self._nothing_there)

    def __call__(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """The gateway's response to its event."""
        request = self._request = Request.of(event, context)
        method = "GET" if request.method == "HEAD" else request.method
        # Powertools gets what it routes by and nothing else; the rest of the event is in the request.
        self._resolver.resolve({"rawPath": request.path, "requestContext": {"http": {"method": method}, "stage": "$default"}}, context)
        answered, self._answered, self._request = self._answered, {}, None
        return answered

    def _running(self, route: Route) -> Callable[..., Response[str]]:
        def run(**parameters: str) -> Response[str]:
            return self._run(route, parameters)

        return run

    def _nothing_there(self, _: Exception) -> Response[str]:
        return self._run(None, {})

    def _run(self, route: Route | None, parameters: Mapping[str, str]) -> Response[str]:
        assert self._request is not None
        self._answered = self._dispatcher.run(self._request, route, parameters)
        return Response(status_code=self._answered["statusCode"])
