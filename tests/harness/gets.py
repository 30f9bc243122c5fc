"""Every GET of the API that a key may send, with every filter: what the tests and the benchmark of a full database ask."""

from __future__ import annotations

from typing import Any

from tidemill.http import routes
from tidemill.http.routes import Scope

KEY = (Scope.READ, Scope.OPERATE, Scope.ADMIN, Scope.ENQUEUE, Scope.WORK)
ASKED_OTHERWISE = ("/v1/jobs", "/v1/dead-letters", "/v1/changes", "/v1/webhook")
"""With filters of their own; and a project without a webhook answers 404 to the last."""


def everything(gateway: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """A request per filter and per route."""
    job_id = gateway.sql("select id::text from tidemill.jobs where phase = 'dead_letter' order by id limit 1")[0][0]
    done_id = gateway.sql("select job_id::text from tidemill.job_executions order by job_id limit 1")[0][0]
    group = gateway.get("/v1/dead-letters").json["items"][0]["error_group"]
    nothing = "01900000-0000-7000-8000-0000000000ff"
    filters: dict[str, dict[str, Any]] = {
        "plain": {}, "200": {"limit": 200}, "queue": {"queue": "queue-3"}, "no queue": {"queue": "nothing"},
        "type": {"job_type": "type-3"}, "no type": {"job_type": "nothing"}, "prefix": {"job_type_prefix": "type-1"},
        "no prefix": {"job_type_prefix": "x"}, "queued": {"state": "queued"}, "scheduled": {"state": "scheduled"},
        "retrying": {"state": "retrying"}, "running": {"state": "running"}, "completed": {"state": "completed"},
        "dead": {"state": "dead_letter"}, "pending": {"state": "pending"}, "cancelled": {"state": "cancelled"},
        "two states": {"state": ["completed", "queued"]}, "tag": {"tag": "tagged"}, "no tag": {"tag": "x"},
        "any tag": {"any_tag": ["x", "y"]}, "partition": {"partition_key": "x"}, "rate class": {"rate_class": "x"},
        "priority": {"priority": 3}, "fingerprint": {"fingerprint": "00" * 32}, "batch": {"batch_id": nothing},
        "schedule": {"scheduled_job_id": nothing}, "worker": {"worker_id": nothing}, "principal": {"principal_id": "user-7"},
        "correlation": {"correlation_id": "x"}, "error class": {"error_class": "Boom7"},
        "no error class": {"error_class": "x", "state": "dead_letter"}, "error group": {"error_group": group},
        "after": {"created_after": "2100-01-01T00:00:00Z"}, "before": {"created_before": "2000-01-01T00:00:00Z"},
        "q": {"q": job_id}, "no q": {"q": "x"}, "oldest": {"sort": "created_at"}, "due": {"sort": "run_at"},
        "due last": {"sort": "-run_at"}, "ended": {"sort": "finalized_at"}, "ended last": {"sort": "-finalized_at"},
        "ended of no type": {"sort": "-finalized_at", "job_type": "x"}, "payload": {"include": "payload"},
        "oldest of nothing": {"sort": "created_at", "job_type": "nothing", "state": "queued"},
    }  # fmt: skip
    found = {f"jobs: {name}": ("/v1/jobs", query) for name, query in filters.items()}
    letters = {name: query for name, query in filters.items() if "sort" not in query}
    found |= {f"dead letters: {name}": ("/v1/dead-letters", query) for name, query in letters.items()}
    found |= {
        f"groups: {name}": ("/v1/dead-letters", {"group_by": "error", **filters[name]}) for name in ("plain", "queue", "type", "no type")
    }
    found |= {"dead letters: oldest": ("/v1/dead-letters", {"sort": "moved_at"}), "snapshot": ("/v1/snapshot", {}),
              "snapshot: far": ("/v1/snapshot", {"enqueued_page": 25, "completed_page": 25, "failed_page": 25, "per_page": 100}),
              "changes": ("/v1/changes", {"since": gateway.get("/v1/changes").json["cursor"]})}  # fmt: skip
    named = {"{name}": "queue-3"}
    for route in routes.TABLE:
        if route.method != "GET" or route.scopes is None or route.path in ASKED_OTHERWISE:
            continue
        if not set(route.scopes) & set(KEY):
            continue  # for people who are logged in
        path = route.path
        if path.startswith("/v1/jobs/{id}"):
            for about, one in (("dead", job_id), ("done", done_id)):
                found[f"{path} {about}"] = (path.replace("{id}", one), {})
        elif path.startswith("/v1/projects/{id}"):
            found[path] = (path.replace("{id}", gateway.project_id), {})
        elif path.startswith("/v1/queues/{name}"):
            found[path] = (path.replace("{name}", named["{name}"]), {})
        elif "{" not in path:
            found[path] = (path, {})
    return found
