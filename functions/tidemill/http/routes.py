"""The one table of routes: method, path, the Lambda that serves it, the scope it asks for, and the endpoint behind it.

Infrastructure, local server, authorisation, OpenAPI document and tests all read it. Loads nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final


class Scope(StrEnum):
    """What an API key may do."""

    ENQUEUE = "enqueue"
    WORK = "work"
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


@dataclass(frozen=True)
class Route:
    """One method of one path. `scopes`: any one of them opens it; None = open to all. `endpoint`: module:function in tidemill.http."""

    method: str
    path: str
    function: str
    scopes: tuple[Scope, ...] | None
    endpoint: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches normalised paths, which have one segment per parameter."""
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path))

    @cached_property
    def rule(self) -> str:
        """The path as Powertools writes it."""
        return re.sub(r"\{(\w+)\}", r"<\1>", self.path)


E, W, R, O, A = Scope.ENQUEUE, Scope.WORK, Scope.READ, Scope.OPERATE, Scope.ADMIN  # noqa: E741

TABLE: Final[tuple[Route, ...]] = (
    Route("GET", "/healthz", "enqueue", None, "system:healthz"),
    Route("GET", "/readyz", "enqueue", None, "system:readyz"),
    Route("GET", "/v1/version", "enqueue", tuple(Scope), "system:version_of"),
    Route("GET", "/v1/openapi.json", "enqueue", tuple(Scope), "system:openapi"),
    Route("POST", "/v1/jobs", "enqueue", (E,), "jobs:create"),
    Route("POST", "/v1/jobs/bulk", "enqueue", (E,), "jobs:create_bulk"),
    Route("POST", "/v1/workers", "claims", (W,), "workers:register"),
    Route("POST", "/v1/workers/{id}/heartbeat", "claims", (W,), "workers:heartbeat"),
    Route("DELETE", "/v1/workers/{id}", "claims", (W, O), "workers:deregister"),
    Route("POST", "/v1/claims", "claims", (W,), "leases:claim"),
    Route("POST", "/v1/acks", "claims", (W,), "leases:ack"),
    Route("POST", "/v1/exchange", "claims", (W,), "leases:exchange"),
    Route("POST", "/v1/tick", "scheduler", (A,), "ticks:tick"),
)

NAMED: Final = ("queues", "retry-policies")
"""Collections whose members are found by a name that may hold slashes; `VERBS` may follow the name."""

VERBS: Final = ("pause", "resume")


def of(function: str) -> Iterator[Route]:
    """The routes that this Lambda serves."""
    return (route for route in TABLE if route.function == function)


def at(path: str) -> dict[str, Route]:
    """The routes of a normalised path, by method; empty if nothing is there."""
    found = {route.method: route for route in TABLE if route.pattern.fullmatch(path)}
    return found | {route.method: route for route in found.values() if route.path == path}


def function_of(method: str, path: str) -> str:
    """Which Lambda a gateway hands this request to. Where no route matches: `enqueue`, which answers 404 or 405."""
    routes = at(path)
    route = routes.get("GET" if method == "HEAD" else method) or next(iter(routes.values()), None)
    return route.function if route else "enqueue"
