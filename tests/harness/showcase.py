"""An instance with something of everything: what the page's tests look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

from harness.dev import Dev

HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


@dataclass
class Showcase:
    """Where it is, how to come in, and the things to look at by name."""

    dev: Dev
    api: httpx.Client
    url: str
    project: str
    email: str
    password: str
    jobs: dict[str, str] = field(default_factory=dict)
    worker: str = ""
    batch: str = ""
    operation: str = ""

    def __enter__(self) -> Showcase:
        return self

    def __exit__(self, *_: object) -> None:
        self.api.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of an answer that must be a good one."""
        answer = self.api.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content else None

    def enqueue(self, **job: Any) -> str:
        """The id of a new job."""
        return str(self.ask("POST", "/v1/jobs", job)["job"]["id"])

    def member(self, role: str) -> tuple[str, str]:
        """E-mail and password of somebody new with this role in the organization."""
        email = f"{role}.{uuid4().hex[:8]}@example.com"
        with _owner(self.dev) as owner:
            organization = _of(owner.get("/v1/me"))["organizations"][0]["id"]
            made = _of(owner.post(f"/v1/organizations/{organization}/users", json={"email": email, "role": role}))
        return email, str(made["initial_password"])

    def tick(self) -> None:
        """One scheduler pass."""
        self.ask("POST", "/v1/tick")


def arrange(dev: Dev) -> Showcase:
    """Fills a new project of an instance; no worker and no ticks run in it, so that it stays as it is."""
    about = dev.about
    project, api = _project(dev)
    shown = Showcase(dev, api, dev.url, project, about["admin_email"], about["admin_password"])
    for name in ("billing", "reports", "hostile"):
        shown.ask("POST", "/v1/queues", {"name": name})
    shown.ask("POST", "/v1/queues/reports/pause")
    shown.ask("PUT", "/v1/webhook", {"url": "https://hooks.example.com/services/T0/B0", "queues": ["billing", "default"]})
    worker = {"name": "worker-a", "queues": ["default"], "job_types": None, "max_concurrency": 8, "version": "1.2.3", "hostname": "host-a"}
    shown.worker = shown.ask("POST", "/v1/workers", worker)["worker_id"]
    _ended(shown)
    mail = {"job_type": "mail.send", "queue": "billing"}
    shown.jobs["queued"] = shown.enqueue(**mail, payload={"to": "ada@example.com"}, tags=["eu"], partition_key="tenant-1")
    for number in range(3):
        shown.enqueue(**mail, payload={"number": number}, partition_key=f"tenant-{number}")
    shown.jobs["scheduled"] = shown.enqueue(job_type="report.make", queue="reports", delay_ms=3_600_000)
    shown.jobs["hostile"] = shown.enqueue(
        job_type="hostile", queue="hostile", payload={"text": HOSTILE, HOSTILE: 1}, tags=["<b>bold</b>"], partition_key=HOSTILE,
        headers={"x": "<i>"},
    )  # fmt: skip
    parents = [shown.enqueue(job_type="family.parent", queue="billing", hold=True) for _ in range(2)] + [shown.jobs["completed"]]
    shown.jobs["child"] = shown.enqueue(job_type="family.child", queue="billing", depends_on=parents)
    grown = [{"job_type": "family.grandchild", "queue": "billing", "depends_on": [shown.jobs["child"]]} for _ in range(8)]
    shown.ask("POST", "/v1/jobs/bulk", {"jobs": grown})
    nightly = {
        "cron": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "job": {"job_type": "report.nightly", "payload": {"at": "{{scheduled_at}}"}},
    }
    shown.ask("PUT", "/v1/schedules/nightly-report", nightly)
    jobs = [{"job_type": "import.part", "queue": "billing"} for _ in range(4)]
    shown.batch = shown.ask("POST", "/v1/batches", {"name": "import", "seal": True, "jobs": jobs})["batch"]["id"]
    shown.ask("PUT", "/v1/rate-classes/mail", {"limit": 10, "window_ms": 1_000, "burst": 20})
    shown.ask("POST", "/v1/retry-policies", {"name": "gently", "strategy": "linear", "base_delay_ms": 90_000, "max_attempts": 4})
    shown.ask("PATCH", "/v1/queues/reports", {"default_retry_policy": "gently"})
    shown.ask("PUT", "/v1/concurrency-limits/few", {"queue": "billing", "max_concurrent": 2})
    shown.operation = shown.ask("POST", "/v1/operations", {"action": "cancel", "filter": {"queue": "billing"}, "dry_run": True})["id"]
    shown.tick()
    return shown


def _project(dev: Dev) -> tuple[str, httpx.Client]:
    """A project as the owner makes it, and a client with a key to all of it."""
    with _owner(dev) as owner:
        organization = _of(owner.get("/v1/me"))["organizations"][0]["id"]
        made = owner.post("/v1/projects", json={"name": f"harbour {uuid4().hex[:4]}", "org_id": organization})
        project = str(_of(made)["id"])
        scopes = ["enqueue", "work", "read", "operate", "admin"]
        key = _of(owner.post(f"/v1/projects/{project}/api-keys", json={"name": "showcase", "scopes": scopes}))
    client = dev.client()
    client.headers["authorization"] = f"Bearer {key['api_key']}"
    return project, client


@contextmanager
def _owner(dev: Dev) -> Iterator[httpx.Client]:
    """As the owner of it all, signed in."""
    with httpx.Client(base_url=dev.url, timeout=40, verify=False) as owner:
        who = {"email": dev.about["admin_email"], "password": dev.about["admin_password"]}
        owner.headers["authorization"] = f"Bearer {_of(owner.post('/v1/auth/login', json=who))['access_token']}"
        yield owner


def _of(answer: httpx.Response) -> Any:
    assert answer.is_success, f"{answer.status_code} {answer.text[:500]}"
    return answer.json()


def _ended(shown: Showcase) -> None:
    """One that completed, six that died of two kinds of error, one that runs."""
    shown.jobs["completed"] = shown.enqueue(job_type="mail.send", payload={"to": "grace@example.com"})
    dead = [shown.enqueue(job_type="mail.send", payload={"number": number}, max_attempts=1) for number in range(6)]
    shown.jobs["dead"] = dead[0]
    claim = {"worker_id": shown.worker, "queues": ["default"], "limit": 20}
    acks = []
    for job in shown.ask("POST", "/v1/claims", claim)["jobs"]:
        ack = {"job_id": job["id"], "lease_token": job["lease_token"]}
        if job["id"] == shown.jobs["completed"]:
            acks.append(ack | {"outcome": "complete", "result": {"sent": True}})
            continue
        number = dead.index(job["id"])
        kind, message = ("SmtpError", f"connection {number} refused: {HOSTILE}") if number < 4 else ("Timeout", f"no answer in {number} s")
        acks.append(
            ack | {"outcome": "fail", "error": {"class": kind, "message": message, "stack": f'File "mail.py", line 7\n  {HOSTILE}'}}
        )
    assert len(acks) == 7
    shown.ask("POST", "/v1/acks", {"acks": acks})
    _retried(shown, claim)
    shown.jobs["running"] = shown.enqueue(job_type="video.encode", payload={"file": "a.mov"})
    leased = shown.ask("POST", "/v1/claims", {**claim, "lease_ms": 600_000})["jobs"][0]
    token = {"lease_token": leased["lease_token"]}
    shown.jobs["lease"] = leased["lease_token"]
    shown.ask("POST", f"/v1/jobs/{leased['id']}/progress", {**token, "current": 3, "total": 10, "message": HOSTILE})
    lines = [{"ts": leased["run_at"], "level": "info", "message": f"line with {HOSTILE}"}]
    shown.ask("POST", f"/v1/jobs/{leased['id']}/logs", {**token, "lines": lines})


def _retried(shown: Showcase, claim: dict[str, Any]) -> None:
    """One that failed twice and waits for its third attempt."""
    shown.jobs["retried"] = shown.enqueue(job_type="mail.send", payload={"to": "mary@example.com"})
    for delay_ms in (0, 3_600_000):
        leased = shown.ask("POST", "/v1/claims", {**claim, "wait_ms": 5_000})["jobs"][0]
        assert leased["id"] == shown.jobs["retried"]
        ack = {"job_id": leased["id"], "lease_token": leased["lease_token"], "outcome": "fail", "retry_delay_ms": delay_ms}
        shown.ask("POST", "/v1/acks", {"acks": [ack | {"error": {"class": "SmtpError", "message": "mailbox is busy"}}]})
