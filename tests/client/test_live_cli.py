"""What operators do by `tidemill queues create|delete`, `retry-policies`, `jobs`, `batches`, `schedules delete` and `audit`."""

import json
import re
from collections.abc import Callable

import httpx
import pytest

from harness.instance import Instance
from tidemill.cli.operations import ENDED
from tidemill.cli.watching import watch
from tidemill.client import Client
from tidemill.domain.errors import NotFound

Say = Callable[..., str]


def test_a_queue_is_made_with_what_it_is_told_and_deleted_when_asked_twice(client: Client, say: Say) -> None:
    shown = say("queues", "create", "mail", "--priority", "5", "--keep", "completed=36h", "--quarantine-after", "5", "--paused")
    assert "completed 1d 12h, cancelled 7d, dead letter 30d" in shown
    made = client.get_queue("mail")
    assert (made["priority"], made["quarantine_after"], made["is_paused"], made["retention"]["completed_ms"]) == (5, 5, True, 129_600_000)
    assert "a queue called 'mail' exists already" in say("queues", "create", "mail", code=1)
    assert "--keep takes completed, cancelled, dead_letter" in " ".join(say("queues", "create", "x", "--keep", "done=1d", code=2).split())
    assert json.loads(say("queues", "set", "mail", "--keep", "cancelled=2d", "--json"))["retention"]["cancelled_ms"] == 172_800_000

    told = say("queues", "delete", "mail", code=2)
    assert told == "Deletes queue mail, if it holds no job, for good.\ntidemill: nobody is there to be asked: give --yes\n"
    job = client.enqueue("t", queue="mail").id
    assert "holds 1 job, ended ones included: delete them first, or remove it with --force" in say(
        "queues", "delete", "mail", "--yes", code=1
    )
    assert client.get_job(job).queue == "mail"
    begun = json.loads(say("queues", "delete", "mail", "--force", "--yes", "--no-wait", "--json"))
    assert (begun["deleted"], begun["operation"]["action"]) == (False, "remove_queue")
    ended = watch(client, begun["operation"], until=ENDED, quiet=True)
    assert (ended["status"], ended["affected"]) == ("completed", 1)
    assert "no queue 'mail'" in say("queues", "delete", "mail", "--yes", code=1)
    client.create_queue("empty")
    assert say("queues", "delete", "empty", "--yes") == "empty: deleted\n"


def test_retry_policies_are_created_set_listed_and_deleted(client: Client, say: Say) -> None:
    assert "built-in one" in say("retry-policies", "list")
    say("retry-policies", "create", "gentle", "--strategy", "exponential", "--base-delay", "30s", "--max-attempts", "8")
    assert "say what to change" in say("retry-policies", "set", "gentle", code=2)
    changed = json.loads(say("retry-policies", "set", "gentle", "--no-jitter", "--multiplier", "3", "--json"))
    assert (changed["strategy"], changed["base_delay_ms"], changed["multiplier"], changed["jitter"]) == ("exponential", 30_000, 3, False)
    assert re.search(r"gentle +exponential +8 +30s +1h +3 +no", say("retry-policies", "list"))
    assert client.get_retry_policy("gentle")["max_attempts"] == 8
    assert say("audit", "--action", "retry-policies.edit").splitlines()[2:] == ["    jitter: yes → no", "    multiplier: 2.0 → 3.0"]
    assert say("retry-policies", "delete", "gentle") == "gentle: deleted\n"
    assert "no retry policy 'gentle'" in say("retry-policies", "delete", "gentle", code=1)


def test_jobs_are_moved_copied_deleted_and_their_story_is_told(client: Client, say: Say) -> None:
    job = client.enqueue("cli.moved", delay_ms=3_600_000).id
    assert say("jobs", "reschedule", job, "--delay", "2h") == f"{job}  scheduled\n"
    assert "give either --run-at or --delay" in " ".join(say("jobs", "reschedule", job, code=2).split())
    assert say("jobs", "promote", job) == f"{job}  queued\n"
    copy = say("jobs", "rerun", job).split()[0]
    assert client.get_job(copy).job_type == "cli.moved"
    lines = say("jobs", "events", job).splitlines()
    assert [re.split(r" {2,}", line)[1] for line in lines] == ["created", "rescheduled", "promoted", "rerun"]
    assert say("jobs", "logs", job) == ""
    assert "give --yes" in say("jobs", "delete", job, code=2)
    assert say("jobs", "delete", job, "--yes") == f"{job}  deleted\n"
    with pytest.raises(NotFound):
        client.get_job(job)
    assert "no job" in say("jobs", "delete", job, copy, "--yes", code=1)


def test_a_batch_is_sealed_and_cancelled(client: Client, say: Say) -> None:
    batch = client.create_batch("b", jobs=[{"job_type": "t", "delay_ms": 3_600_000}] * 2)
    assert say("batches", "seal", batch.id) == f"{batch.id}  sealed: 2 pending, 0 cancelled of 2\n"
    asked = say("batches", "cancel", batch.id, code=2)
    assert asked.startswith("Cancels what is left of this batch: 2 jobs; no callback follows.\n")
    assert say("batches", "cancel", batch.id, "--yes") == f"{batch.id}  cancelled: 0 pending, 2 cancelled of 2\n"


def test_a_schedule_has_its_bounds_and_is_deleted(client: Client, say: Say) -> None:
    say(
        "schedules",
        "put",
        "s",
        "--type",
        "x",
        "--cron",
        "0 9 * * *",
        "--on-gap",
        "skip",
        "--on-fold",
        "both",
        "--ends-at",
        "2050-01-01T00:00:00Z",
    )
    found = client.get_schedule("s")
    assert (found["on_gap"], found["on_fold"], found["ends_at"]) == ("skip", "both", "2050-01-01T00:00:00Z")
    assert say("schedules", "delete", "s", code=2).startswith("Deletes schedule s (At 09:00 every day, UTC time.), for good.\n")
    assert say("schedules", "delete", "s", "--yes") == "s: deleted\n"
    assert client.list_schedules() == []


def test_quarantined_jobs_are_listed_shown_released_and_discarded_by_the_first_characters(
    instance: Instance, client: Client, say: Say
) -> None:
    assert say("quarantine", "list") == "nothing is quarantined\n"
    client.create_queue("deadly", quarantine_after=1)
    jobs = [client.enqueue("kills", {"n": n}, queue="deadly").id for n in range(2)]
    with httpx.Client(base_url=instance.url, headers={"authorization": f"Bearer {instance.api_key}"}, timeout=60, verify=False) as worker:
        me = worker.post("/v1/workers", json={"name": "w", "queues": ["deadly"], "max_concurrency": 2}).json()["worker_id"]
        claimed = worker.post("/v1/claims", json={"worker_id": me, "queues": ["deadly"], "limit": 2}).json()["jobs"]
        error = {"class": "OutOfMemory", "message": "killed"}
        acks = [{"job_id": job["id"], "lease_token": job["lease_token"], "outcome": "crash", "error": error} for job in claimed]
        assert [ack["state"] for ack in worker.post("/v1/acks", json={"acks": acks}).json()["results"]] == ["quarantined"] * 2
    listed = say("quarantine", "list").splitlines()
    one, other = (line.split()[0] for line in listed[1:])
    assert re.fullmatch(r"[0-9a-f]{12}", one)
    assert say("quarantine", "show", "", code=1) == "tidemill: 2 fingerprints begin with '': give more of it\n"
    assert "kills" in say("quarantine", "show", one)
    assert say("quarantine", "release", one) == f"{one}: 1 job released\n"
    assert say("quarantine", "discard", other) == f"{other}: 1 job discarded\n"
    assert sorted(client.get_job(job).state for job in jobs) == ["cancelled", "queued"]
    assert "no quarantine" in say("quarantine", "show", "f" * 64, code=1)
