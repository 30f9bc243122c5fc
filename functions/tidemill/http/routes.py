"""The one table of routes: method, path, the Lambda that serves it, the scope it asks for, and the endpoint behind it.

Infrastructure, local server, authorisation, OpenAPI document and tests all read it. Loads nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final


class Scope(StrEnum):
    """What a caller may do. An API key has some of the first five; who is logged in has those of the role, see ROLES."""

    ENQUEUE = "enqueue"
    WORK = "work"
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"
    MEMBER = "member"
    """Is logged in: sees and changes what is the user's own."""
    OWNER = "owner"
    """Owns the organization."""


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

    def is_audited(self, scopes: Collection[str]) -> bool:
        """Is a call by who has these scopes noted in the audit log? All that may change something is, but what producers and workers do."""
        if self.method == "GET" or self.scopes is None or self.endpoint in READS:
            return False
        return not any(scope in scopes and scope in self.scopes for scope in (Scope.ENQUEUE, Scope.WORK))

    @cached_property
    def rule(self) -> str:
        """The path as Powertools writes it."""
        return re.sub(r"\{(\w+)\}", r"<\1>", self.path)


E, W, R, O, A = Scope.ENQUEUE, Scope.WORK, Scope.READ, Scope.OPERATE, Scope.ADMIN  # noqa: E741 - an O that no digit stands beside
MEMBER, OWNER = Scope.MEMBER, Scope.OWNER

KEY_SCOPES: Final = (E, W, R, O, A)
"""Of a project; what an API key can have."""

ROLES: Final[Mapping[str, frozenset[Scope]]] = {
    "viewer": frozenset({MEMBER, R}),
    "operator": frozenset({MEMBER, R, O, E}),
    "admin": frozenset({MEMBER, *KEY_SCOPES}),
    "owner": frozenset({MEMBER, OWNER, *KEY_SCOPES}),
}
"""What a member's role means in every project of the organization."""

TABLE: Final[tuple[Route, ...]] = (
    Route("GET", "/healthz", "enqueue", None, "system:healthz"),
    Route("GET", "/readyz", "enqueue", None, "system:readyz"),
    Route("GET", "/v1/version", "enqueue", tuple(Scope), "system:version_of"),
    Route("GET", "/v1/openapi.json", "enqueue", tuple(Scope), "system:openapi"),
    Route("POST", "/v1/jobs", "enqueue", (E,), "jobs:create"),
    Route("GET", "/v1/jobs", "enqueue", (R, E), "job_lists:list_jobs"),
    Route("POST", "/v1/jobs/bulk", "enqueue", (E,), "jobs:create_bulk"),
    Route("GET", "/v1/jobs/{id}", "enqueue", (R, E), "job_detail:show"),
    Route("GET", "/v1/jobs/{id}/executions", "enqueue", (R, E), "job_detail:executions"),
    Route("GET", "/v1/jobs/{id}/logs", "enqueue", (R, E), "job_detail:logs"),
    Route("GET", "/v1/jobs/{id}/events", "admin", (R, E), "job_detail:events"),
    Route("GET", "/v1/jobs/{id}/explain", "enqueue", (R, E), "explain:explain"),
    Route("GET", "/v1/batches", "enqueue", (R, E), "batches:list_batches"),
    Route("POST", "/v1/batches", "enqueue", (E,), "batches:create"),
    Route("GET", "/v1/batches/{id}", "enqueue", (R, E), "batches:show"),
    Route("POST", "/v1/batches/{id}/jobs", "enqueue", (E,), "batches:add"),
    Route("POST", "/v1/batches/{id}/seal", "enqueue", (E,), "batches:seal"),
    Route("POST", "/v1/batches/{id}/cancel", "enqueue", (O,), "batches:cancel"),
    Route("POST", "/v1/workers", "claims", (W,), "workers:register"),
    Route("POST", "/v1/workers/{id}/heartbeat", "claims", (W,), "workers:heartbeat"),
    Route("DELETE", "/v1/workers/{id}", "claims", (W, O), "workers:deregister"),
    Route("POST", "/v1/claims", "claims", (W,), "leases:claim"),
    Route("POST", "/v1/acks", "claims", (W,), "leases:ack"),
    Route("POST", "/v1/exchange", "claims", (W,), "leases:exchange"),
    Route("POST", "/v1/jobs/{id}/start", "claims", (W,), "lease_reports:start"),
    Route("POST", "/v1/jobs/{id}/progress", "claims", (W,), "lease_reports:progress"),
    Route("POST", "/v1/jobs/{id}/checkpoint", "claims", (W,), "lease_reports:checkpoint"),
    Route("POST", "/v1/jobs/{id}/output", "claims", (W,), "lease_reports:output"),
    Route("POST", "/v1/jobs/{id}/logs", "claims", (W,), "lease_reports:logs"),
    Route("POST", "/v1/jobs/{id}/children", "claims", (W,), "lease_reports:children"),
    Route("POST", "/v1/jobs/{id}/parents", "claims", (W,), "lease_reports:parents"),
    Route("POST", "/v1/jobs/{id}/cancel", "admin", (O,), "operator_verbs:cancel"),
    Route("POST", "/v1/jobs/{id}/retry", "admin", (O,), "operator_verbs:retry"),
    Route("POST", "/v1/jobs/{id}/promote", "admin", (O,), "operator_verbs:promote"),
    Route("POST", "/v1/jobs/{id}/reschedule", "admin", (O,), "operator_verbs:reschedule"),
    Route("POST", "/v1/jobs/{id}/rerun", "admin", (O,), "operator_verbs:rerun"),
    Route("PATCH", "/v1/jobs/{id}", "admin", (O,), "operator_verbs:edit"),
    Route("DELETE", "/v1/jobs/{id}", "admin", (O,), "operator_verbs:delete"),
    Route("GET", "/v1/snapshot", "admin", (R, O), "snapshot:snapshot"),
    Route("GET", "/v1/changes", "admin", (R, O), "changes:changes"),
    Route("GET", "/v1/dead-letters", "admin", (R, O), "dead_letters:list_dead_letters"),
    Route("POST", "/v1/dead-letters/{id}/resolve", "admin", (O,), "dead_letters:resolve"),
    Route("GET", "/v1/workers", "admin", (R, O), "worker_views:list_workers"),
    Route("GET", "/v1/workers/{id}", "admin", (R, O), "worker_views:show"),
    Route("POST", "/v1/workers/{id}/command", "admin", (O,), "worker_views:command"),
    Route("POST", "/v1/auth/login", "admin", None, "auth:login"),
    Route("POST", "/v1/auth/refresh", "admin", None, "auth:refresh"),
    Route("POST", "/v1/auth/logout", "admin", None, "auth:logout"),
    Route("GET", "/v1/me", "admin", tuple(Scope), "me:show"),
    Route("POST", "/v1/me/password", "admin", (MEMBER,), "me:password"),
    Route("GET", "/v1/organizations", "admin", (MEMBER,), "organizations:list_organizations"),
    Route("POST", "/v1/organizations", "admin", (MEMBER,), "organizations:create"),
    Route("GET", "/v1/organizations/{id}", "admin", (MEMBER,), "organizations:show"),
    Route("PATCH", "/v1/organizations/{id}", "admin", (OWNER,), "organizations:edit"),
    Route("GET", "/v1/organizations/{id}/audit", "admin", (OWNER,), "audit_log:list_notes_of"),
    Route("GET", "/v1/organizations/{id}/users", "admin", (MEMBER,), "members:list_users"),
    Route("POST", "/v1/organizations/{id}/users", "admin", (OWNER,), "members:add"),
    Route("GET", "/v1/organizations/{id}/members/{user_id}", "admin", (MEMBER,), "members:show"),
    Route("PUT", "/v1/organizations/{id}/members/{user_id}", "admin", (OWNER,), "members:put"),
    Route("DELETE", "/v1/organizations/{id}/members/{user_id}", "admin", (MEMBER,), "members:remove"),
    Route("GET", "/v1/projects", "admin", (MEMBER, R), "projects:list_projects"),
    Route("POST", "/v1/projects", "admin", (MEMBER,), "projects:create"),
    Route("GET", "/v1/projects/{id}", "admin", (R,), "projects:show"),
    Route("PATCH", "/v1/projects/{id}", "admin", (A,), "projects:edit"),
    Route("DELETE", "/v1/projects/{id}", "admin", (OWNER,), "projects:delete"),
    Route("POST", "/v1/api-keys/{id}/rotate", "admin", (A,), "api_keys:rotate"),
    Route("GET", "/v1/projects/{id}/api-keys", "admin", (R, A), "api_keys:list_keys"),
    Route("POST", "/v1/projects/{id}/api-keys", "admin", (A,), "api_keys:create"),
    Route("DELETE", "/v1/api-keys/{id}", "admin", (A,), "api_keys:revoke"),
    Route("GET", "/v1/audit", "admin", (R, A), "audit_log:list_notes"),
    Route("GET", "/v1/queues", "admin", (R, O, A), "queues:list_queues"),
    Route("POST", "/v1/queues", "admin", (A,), "queues:create"),
    Route("GET", "/v1/queues/{name}", "admin", (R, O, A), "queues:show"),
    Route("PATCH", "/v1/queues/{name}", "admin", (A,), "queues:edit"),
    Route("POST", "/v1/queues/{name}/pause", "admin", (O, A), "queues:pause"),
    Route("POST", "/v1/queues/{name}/resume", "admin", (O, A), "queues:resume"),
    Route("DELETE", "/v1/queues/{name}", "admin", (A,), "queue_removal:remove"),
    Route("GET", "/v1/operations", "admin", (R, O), "operations:list_operations"),
    Route("POST", "/v1/operations", "admin", (O,), "operations:create"),
    Route("GET", "/v1/operations/{id}", "admin", (R, O), "operations:show"),
    Route("POST", "/v1/operations/{id}/apply", "admin", (O,), "operations:apply"),
    Route("POST", "/v1/operations/{id}/abort", "admin", (O,), "operations:abort"),
    Route("POST", "/v1/operations/{id}/undo", "admin", (O,), "operations:undo"),
    Route("GET", "/v1/queues/{name}/stats", "admin", (R, O, A), "queue_stats:stats"),
    Route("GET", "/v1/queues/{name}/partitions", "admin", (R, O, A), "queue_stats:partitions"),
    Route("PATCH", "/v1/queues/{name}/partitions/{key}", "admin", (O, A), "queue_stats:weigh"),
    Route("POST", "/v1/queues/{name}/simulate", "admin", (R, O, A), "simulate:simulate"),
    Route("GET", "/v1/stats/overview", "admin", (R, O, A), "stats:overview"),
    Route("GET", "/v1/stats/history", "admin", (R, O, A), "stats:history"),
    Route("GET", "/v1/stats/latency", "admin", (R, O, A), "stats:latency"),
    Route("GET", "/v1/metrics", "admin", (R, O, A), "metrics:metrics"),
    Route("GET", "/v1/job-types", "admin", (R, O, A), "stats:job_types"),
    Route("GET", "/v1/quarantine", "admin", (R, O), "quarantine:list_quarantines"),
    Route("GET", "/v1/quarantine/{fingerprint}", "admin", (R, O), "quarantine:show"),
    Route("POST", "/v1/quarantine/{fingerprint}/release", "admin", (O,), "quarantine:release"),
    Route("POST", "/v1/quarantine/{fingerprint}/discard", "admin", (O,), "quarantine:discard"),
    Route("GET", "/v1/retry-policies", "admin", (R, A), "retry_policies:list_policies"),
    Route("POST", "/v1/retry-policies", "admin", (A,), "retry_policies:create"),
    Route("GET", "/v1/retry-policies/{name}", "admin", (R, A), "retry_policies:show"),
    Route("PATCH", "/v1/retry-policies/{name}", "admin", (A,), "retry_policies:edit"),
    Route("DELETE", "/v1/retry-policies/{name}", "admin", (A,), "retry_policies:delete"),
    Route("GET", "/v1/rate-classes", "admin", (R, O, A), "rate_classes:list_classes"),
    Route("GET", "/v1/rate-classes/{name}", "admin", (R, O, A), "rate_classes:show"),
    Route("PUT", "/v1/rate-classes/{name}", "admin", (A,), "rate_classes:put"),
    Route("DELETE", "/v1/rate-classes/{name}", "admin", (A,), "rate_classes:delete"),
    Route("GET", "/v1/concurrency-limits", "admin", (R, O, A), "concurrency_limits:list_limits"),
    Route("GET", "/v1/concurrency-limits/{name}", "admin", (R, O, A), "concurrency_limits:show"),
    Route("PUT", "/v1/concurrency-limits/{name}", "admin", (A,), "concurrency_limits:put"),
    Route("DELETE", "/v1/concurrency-limits/{name}", "admin", (A,), "concurrency_limits:delete"),
    Route("GET", "/v1/schedules", "admin", (R, O, A), "schedules:list_schedules"),
    Route("POST", "/v1/schedules/preview", "admin", (R, O, A), "schedules:preview_timing"),
    Route("POST", "/v1/schedules/sync", "admin", (A,), "schedules:sync"),
    Route("PUT", "/v1/schedules/{name}", "admin", (A,), "schedules:put"),
    Route("GET", "/v1/schedules/{name}", "admin", (R, O, A), "schedules:show"),
    Route("PATCH", "/v1/schedules/{name}", "admin", (A,), "schedules:edit"),
    Route("DELETE", "/v1/schedules/{name}", "admin", (A,), "schedules:delete"),
    Route("POST", "/v1/schedules/{name}/pause", "admin", (O, A), "schedules:pause"),
    Route("POST", "/v1/schedules/{name}/resume", "admin", (O, A), "schedules:resume"),
    Route("POST", "/v1/schedules/{name}/trigger", "admin", (O, A), "schedules:trigger"),
    Route("GET", "/v1/schedules/{name}/events", "admin", (R, O, A), "schedules:events"),
    Route("GET", "/v1/schedules/{name}/preview", "admin", (R, O, A), "schedules:preview"),
    Route("GET", "/v1/webhook", "admin", (R, O, A), "webhooks:show"),
    Route("PUT", "/v1/webhook", "admin", (A,), "webhooks:put"),
    Route("DELETE", "/v1/webhook", "admin", (A,), "webhooks:delete"),
    Route("POST", "/v1/webhook/rotate", "admin", (A,), "webhooks:rotate"),
    Route("POST", "/v1/webhook/test", "admin", (O, A), "webhooks:test"),
    Route("GET", "/v1/webhook/deliveries", "admin", (R, O, A), "webhooks:list_deliveries"),
    Route("POST", "/v1/tick", "scheduler", (A,), "ticks:tick"),
)

READS: Final = frozenset({"schedules:preview_timing", "simulate:simulate"})
"""Endpoints that change nothing although their method could."""

VERBS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "queues": {"POST": ("pause", "resume", "simulate"), "GET": ("stats", "partitions")},
    "retry-policies": {},
    "rate-classes": {},
    "concurrency-limits": {},
    "schedules": {"POST": ("pause", "resume", "trigger"), "GET": ("events", "preview")},
}
"""Collections whose members are found by a name that may hold slashes: what may follow the name, by method."""


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
