"""What a webhook is told: each kind of thing at once when it is new, then once a minute; each death in exactly one call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from harness.dead import dead
from harness.mill import T0, M, Mill, S, found_project
from tidemill.domain import webhooks as domain
from tidemill.domain.transitions import Event
from tidemill.domain.webhooks import Call, Report
from tidemill.engine.dead_letters import fold
from tidemill.engine.webhooks import report, take, tell

URL = "https://hooks.example.com/team"
SECRET = bytes(range(32))
COURIER = "00000000-0000-4000-8000-00000000000c"


def hook(mill: Mill, *, project_id: str | None = None, events: tuple[str, ...] = domain.EVENTS, queues: list[str] | None = None) -> str:
    """The project has a webhook; the project's id."""
    project = project_id or mill.project_id
    mill.store.put_webhook(project, URL, events, queues, is_paused=None)
    mill.store.begin_webhook(project)
    mill.store.add_webhook_secret(found_id(mill), project, SECRET)
    mill.conn.execute("update tidemill.webhooks set quiet_until = %s", [T0])
    return project


def found_id(mill: Mill) -> str:
    return str(mill.conn.execute("select gen_random_uuid()").fetchone()[0])


def die(mill: Mill, message: str = "it broke", *, queue: str = "default", job_type: str = "t", **payload: Any) -> str:
    job_id = mill.new(queue=queue, job_type=job_type, payload={"password": "whisper", **payload})
    mill.fail(mill.claim_job(job_id, queues=[queue]), message, retryable=False)
    return job_id


def passed(mill: Mill, now: datetime) -> int:
    """The phases of one pass that webhooks take part in; how many calls it made."""
    while fold(mill.store, limit=500, now=now)["folded"]:
        pass
    calls = 0
    while True:
        counts = tell(mill.store, limit=500, now=now)
        calls += counts["calls"]
        if not counts["more"]:
            return calls


def taken(mill: Mill, now: datetime) -> list[Call]:
    return take(mill.store, COURIER, limit=16, now=now)


def went(mill: Mill, call: Call, status: int | None = 200, error: str | None = None, now: datetime = T0, **more: Any) -> None:
    report(mill.store, [Report(call.job_id, call.lease_token, status, error, **more)], roll=mill.roll, now=now)


def told(mill: Mill, now: datetime) -> list[dict[str, Any]]:
    """What the calls that are due say; all of them arrive."""
    bodies = []
    while calls := taken(mill, now):
        for call in calls:
            went(mill, call, now=now)
            bodies.append(json.loads(call.body))
    return bodies


@pytest.fixture
def hooked(mill: Mill) -> Iterator[Mill]:
    hook(mill)
    yield mill
    assert mill.misplaced() == []


def test_a_death_is_told_at_once_without_its_payload(hooked: Mill) -> None:
    job_id = die(hooked, "order 17 of ann@example.com is 'gone'", job_type="mail.send")
    assert passed(hooked, T0) == 1
    (body,) = told(hooked, T0)
    (item,) = body["data"]["items"]
    assert (body["type"], body["timestamp"], body["project_id"]) == ("job.dead_letter", "2030-01-01T00:00:00.000Z", hooked.project_id)
    group = item["error_group"]
    about = {name: item[name] for name in ("error_class", "message", "queue", "job_type", "count", "is_new", "job", "links")}
    assert about == {
        "error_class": "Boom", "message": "order <n> of ann@example.com is <text>", "queue": "default", "job_type": "mail.send", "count": 1,
        "is_new": True, "job": {"id": job_id, "attempt": 1},
        "links": {"dead_letters": f"/v1/dead-letters?error_group={group}", "job": f"/v1/jobs/{job_id}"},
    }  # fmt: skip
    assert body["data"]["more"] == {"items": 0, "count": 0}
    assert "whisper" not in json.dumps(body)


def test_the_next_of_the_kind_waits_a_minute_and_comes_as_a_number(hooked: Mill) -> None:
    die(hooked, "no 1")
    assert passed(hooked, T0) == 1
    for n in range(5):
        die(hooked, f"no {n}")
        assert passed(hooked, T0 + n * 10 * S) == 0
    assert passed(hooked, T0 + M) == 1
    first, second = told(hooked, T0 + M)
    assert [(body["data"]["items"][0]["count"], body["data"]["items"][0]["is_new"]) for body in (first, second)] == [(1, True), (5, False)]
    assert passed(hooked, T0 + 10 * M) == 0


def test_a_flood_of_deaths_of_a_few_errors_is_two_calls_a_minute(hooked: Mill) -> None:
    """Counted, not timed: the flood comes in statements of many, with a pass after each. More of them would be no more calls."""
    calls = 0
    for second in range(0, 60, 6):
        dead(hooked, 250)
        calls += passed(hooked, T0 + second * S)
    calls += passed(hooked, T0 + M)
    assert calls == 2, "four kinds of errors in each statement, all named by the same calls"
    items = [item for body in told(hooked, T0 + M) for item in body["data"]["items"]]
    assert sum(item["count"] for item in items) == 10 * 250
    assert len(items) == 8


def test_a_flood_of_kinds_is_told_in_few_calls_that_name_fifty_and_count_the_rest(hooked: Mill) -> None:
    rows = (
        "insert into tidemill.dead_letter_queue (id, job_id, project_id, queue_id, job_type, payload_snapshot, failure_reason,"
        " attempt_count, error_class, last_error, moved_at)"
        " select gen_random_uuid(), gen_random_uuid(), q.project_id, q.id, 't', '{}', 'attempts_exhausted', 1, 'E' || i, 'm', now()"
        " from generate_series(1, 2500) i, tidemill.queues q where q.project_id = %s"
    )
    hooked.conn.execute(rows, [hooked.project_id])
    calls = sum(passed(hooked, T0 + second * S) for second in range(0, 10, 2))
    assert calls == 3, "a thousand kinds each, three seconds apart at least"
    bodies = told(hooked, T0 + 30 * S)
    assert [len(body["data"]["items"]) for body in bodies] == [50, 50, 50]
    assert sum(len(body["data"]["items"]) + body["data"]["more"]["items"] for body in bodies) == 2_500
    assert all(len(json.dumps(body)) < 40_000 for body in bodies)


def test_a_pass_that_is_undone_tells_nothing_and_the_next_tells_it_once(hooked: Mill) -> None:
    die(hooked)
    with pytest.raises(ZeroDivisionError), hooked.conn.transaction():
        passed(hooked, T0)
        raise ZeroDivisionError
    assert taken(hooked, T0) == []
    other = hooked.another()
    with hooked.conn.transaction():
        assert passed(hooked, T0) == 1
        assert passed(other, T0) == 0, "a pass at the same time leaves it to the first"
    assert passed(other, T0) == 0
    assert len(told(hooked, T0)) == 1


def test_only_what_was_asked_for_is_noted(mill: Mill) -> None:
    hook(mill, events=(domain.DEAD_LETTER,), queues=["mail"])
    mill.queue("mail")
    die(mill, "elsewhere")
    die(mill, "here", queue="mail")
    quarantine(mill)
    assert passed(mill, T0) == 1
    (body,) = told(mill, T0)
    assert [(item["message"], item["queue"]) for item in body["data"]["items"]] == [("here", "mail")]


def test_two_projects_never_hear_of_each_other(mill: Mill) -> None:
    other = Mill(mill.dsn, mill.another().conn, found_project(mill.conn, "theirs"))
    hook(mill), hook(mill, project_id=other.project_id)
    third = Mill(mill.dsn, mill.another().conn, found_project(mill.conn, "third"))
    ours, theirs = die(mill, "ours"), die(other, "theirs")
    die(third, "nobody's")
    assert passed(mill, T0) == 2
    found = {body["project_id"]: [item["job"]["id"] for item in body["data"]["items"]] for body in told(mill, T0)}
    assert found == {mill.project_id: [ours], other.project_id: [theirs]}


def quarantine(mill: Mill) -> None:
    mill.queue("poison", quarantine_after=1)
    job = mill.claim_job(mill.new(queue="poison"), queues=["poison"])
    mill.ack(job, Event.CRASH, exit_code=137)


def test_a_quarantined_fingerprint_and_a_schedule_that_breaks_are_told_once(hooked: Mill) -> None:
    quarantine(hooked)
    hooked.conn.execute(
        "insert into tidemill.scheduled_jobs (id, project_id, queue_id, name, cron_expression, job_type)"
        " select gen_random_uuid(), project_id, id, 'nightly/1', '* * * * *', 't' from tidemill.queues"
        " where project_id = %s and name = 'default'",
        [hooked.project_id],
    )
    for _ in range(2):
        hooked.conn.execute("update tidemill.scheduled_jobs set error = 'job.queue: there is no such queue', last_run_at = now()")
    now = datetime.now(T0.tzinfo) + M
    hooked.conn.execute("update tidemill.webhooks set quiet_until = now()")
    assert passed(hooked, now) == 1
    assert passed(hooked, now + 3 * S) == 1, "one call is of one kind of event"
    bodies = told(hooked, now + 3 * S)
    items = {body["type"]: body["data"]["items"][0] for body in bodies}
    assert items.keys() == {"fingerprint.quarantined", "schedule.broken"}
    poison, broken = items["fingerprint.quarantined"], items["schedule.broken"]
    assert (poison["job_type"], poison["reason"], poison["losses"], poison["exit_code"]) == ("t", "crash", 1, 137)
    assert poison["links"] == {"quarantine": f"/v1/quarantine/{poison['fingerprint']}"}
    assert (broken["schedule"], broken["message"]) == ("nightly/1", "job.queue: there is no such queue")
    assert broken["links"] == {"schedule": "/v1/schedules/nightly%2F1"}


def test_a_call_is_tried_again_with_the_same_id_and_then_the_webhook_fails_and_recovers(hooked: Mill) -> None:
    die(hooked)
    passed(hooked, T0)
    now, ids, waits = T0, set(), []
    for attempt in range(1, 9):
        (call,) = taken(hooked, now)
        assert call.headers["tidemill-attempt"] == str(attempt)
        assert call.headers["webhook-timestamp"] == str(int(now.timestamp()))
        ids.add(call.headers["webhook-id"])
        went(hooked, call, 500, "it answered 500", now)
        state = hooked.store.webhook(hooked.project_id)
        assert state is not None
        assert (state["failed_attempts"], state["failing_since"] is None) == (attempt, attempt < 8)
        if attempt < 8:
            (due,) = hooked.conn.execute("select min(run_at) from tidemill.job_queue_entries").fetchone() or (now,)
            waits.append((due - now).total_seconds())
            now = due
    assert len(ids) == 1
    assert waits[:5] == sorted(waits[:5])
    assert 900 < sum(waits) < 2_400
    (delivery,) = hooked.store.webhook_deliveries(hooked.project_id, before=None, limit=10)
    assert (delivery["status"], delivery["attempts"], delivery["last_status"], delivery["last_error"]) == (
        "failed",
        8,
        500,
        "it answered 500",
    )

    die(hooked, "another")
    die(hooked, "and another")
    now += M
    assert passed(hooked, now) == 1, "a failing webhook is still tried"
    die(hooked, "a third")
    assert passed(hooked, now + 4 * M) == 0, "though seldom"
    assert passed(hooked, now + 5 * M) == 1
    assert len(told(hooked, now + 5 * M)) == 2
    state = hooked.store.webhook(hooked.project_id)
    assert state is not None
    assert (state["failing_since"], state["failed_attempts"], state["waiting"]) == (None, 0, 0)


def test_a_courier_that_dies_in_the_middle_leaves_the_call_to_the_next_one(hooked: Mill) -> None:
    die(hooked)
    passed(hooked, T0)
    (lost,) = taken(hooked, T0)
    assert taken(hooked, T0 + 30 * S) == []
    hooked.reap(now=T0 + 61 * S)
    (again,) = taken(hooked, T0 + 5 * M)
    assert again.headers["webhook-id"] == lost.headers["webhook-id"]
    went(hooked, lost, 500, "it answered 500", T0 + 5 * M)
    went(hooked, again, 200, None, T0 + 5 * M)
    (delivery,) = hooked.store.webhook_deliveries(hooked.project_id, before=None, limit=10)
    assert (delivery["status"], delivery["last_error"]) == ("delivered", None), "the dead one's late word counts for nothing"


def test_a_call_that_takes_three_couriers_with_it_is_set_aside_and_shown_as_failed(hooked: Mill) -> None:
    die(hooked)
    passed(hooked, T0)
    now = T0
    for _ in range(3):
        assert taken(hooked, now)
        hooked.reap(now=now + 61 * S)
        now += 10 * M
    assert taken(hooked, now) == []
    assert tell(hooked.store, limit=10, now=now)["stranded"] == 1
    (delivery,) = hooked.store.webhook_deliveries(hooked.project_id, before=None, limit=10)
    state = hooked.store.webhook(hooked.project_id)
    assert state is not None
    assert (delivery["status"], delivery["last_error"], state["failing_since"]) == ("failed", "the last attempt did not report back", now)


def test_one_that_is_gone_is_paused_and_what_waits_for_a_paused_one_is_dropped(hooked: Mill) -> None:
    die(hooked, "a")
    passed(hooked, T0)
    die(hooked, "b")
    passed(hooked, T0 + 3 * S)
    first, second = taken(hooked, T0 + 3 * S)
    went(hooked, first, 410, "it answered 410: it is gone for good", T0 + 3 * S)
    went(hooked, second, 500, "it answered 500", T0 + 3 * S)
    state = hooked.store.webhook(hooked.project_id)
    assert state is not None
    assert state["is_paused"]
    assert taken(hooked, T0 + 10 * M) == []
    shown = [row["status"] for row in hooked.store.webhook_deliveries(hooked.project_id, before=None, limit=10)]
    assert shown == ["dropped", "failed"]
    die(hooked, "c")
    assert passed(hooked, T0 + 10 * M) == 0


def test_retry_after_sets_the_next_attempt(hooked: Mill) -> None:
    die(hooked)
    passed(hooked, T0)
    (call,) = taken(hooked, T0)
    went(hooked, call, 429, "it answered 429", retry_after_secs=600)
    assert taken(hooked, T0 + 599 * S) == []
    assert len(taken(hooked, T0 + 600 * S)) == 1


def test_a_slow_receiver_gets_two_calls_at_a_time_so_that_others_have_their_turn(mill: Mill) -> None:
    other = Mill(mill.dsn, mill.another().conn, found_project(mill.conn, "theirs"))
    hook(mill), hook(mill, project_id=other.project_id)
    for n in range(10):
        die(mill, "x" * (n + 1))
        passed(mill, T0 + 3 * n * S)
    die(other)
    now = T0 + M
    assert passed(other, now) == 1
    owners = [json.loads(call.body)["project_id"] for call in taken(mill, now)]
    assert sorted(owners) == sorted([mill.project_id, mill.project_id, other.project_id])


def test_what_was_told_is_forgotten_in_time_and_then_new_again(hooked: Mill) -> None:
    die(hooked)
    passed(hooked, T0)
    told(hooked, T0)
    assert tell(hooked.store, limit=10, now=T0 + timedelta(hours=2))["pruned"] == 1
    die(hooked)
    later = T0 + timedelta(hours=3)
    passed(hooked, later)
    (body,) = told(hooked, later)
    assert body["data"]["items"][0]["is_new"]
    assert tell(hooked.store, limit=10, now=T0 + timedelta(days=8))["pruned"] >= 2
    assert hooked.store.webhook_deliveries(hooked.project_id, before=None, limit=10) == []


def test_the_systems_own_jobs_are_in_no_figures_and_no_tenants_lists(hooked: Mill) -> None:
    die(hooked)
    passed(hooked, T0)
    assert hooked.conn.execute("select count(*) from tidemill.jobs where project_id = %s", [domain.SYSTEM_PROJECT]).fetchone() == (1,)
    assert [row[0] for row in hooked.conn.execute("select name from tidemill.projects where id <> tidemill.system_project()")] == ["p"]
    from tidemill.store.statements import sql

    rows = hooked.conn.execute(sql("workers/projects"), {"project_id": None}).fetchall()
    assert [row[0] for row in rows] == [hooked.project_id], "a worker still finds the only project"
