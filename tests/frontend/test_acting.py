"""What people do to jobs, batches, schedules, workers and operations with the page, and what they are told where it cannot be done."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from frontend.conftest import calls, go
from frontend.test_managing import fault_at, open_dialog, press
from frontend.test_screens import RULES, faults
from harness.dev import until
from harness.showcase import HOSTILE, Showcase


def leased(shown: Showcase, job: str, queue: str) -> dict[str, str]:
    """The lease of a job that a worker has claimed from a queue where it is the only one."""
    claim = {"worker_id": shown.worker, "queues": [queue], "limit": 1}
    [claimed] = shown.ask("POST", "/v1/claims", claim)["jobs"]
    assert claimed["id"] == job
    return {"job_id": job, "lease_token": claimed["lease_token"]}


def blown_up(shown: Showcase, queue: str, payload: object) -> str:
    """A job that took its worker with it three times."""
    policy = {"strategy": "fixed", "base_delay_ms": 0, "jitter": False}
    job = shown.enqueue(job_type=queue, queue=queue, payload=payload, retry_policy=policy)
    for _ in range(3):
        ack = {**leased(shown, job, queue), "outcome": "crash", "error": {"class": "Killed", "message": HOSTILE}, "exit_code": -9}
        shown.ask("POST", "/v1/acks", {"acks": [ack]})
    return job


@calls("POST /v1/jobs")
def test_job_is_enqueued_by_hand_after_its_faults_are_told_at_their_fields(page: Page, shown: Showcase) -> None:
    go(page, shown, "jobs")
    press(page, "Enqueue…")
    form = page.get_by_role("region", name="The job")
    expect(form.get_by_label("Type", exact=True)).to_be_focused()
    page.keyboard.type("by hand!")
    form.get_by_label("Payload (JSON)").fill('{"to": ')
    press(form, "Enqueue")
    expect(fault_at(form, "Payload (JSON)")).to_contain_text("is no JSON")
    form.get_by_label("Payload (JSON)").fill('{"id": 9007199254740993}')
    press(form, "Enqueue")
    expect(fault_at(form, "Payload (JSON)")).to_contain_text("cannot keep exactly")
    form.get_by_label("Payload (JSON)").fill('{"to": "ada"}')
    form.get_by_text("More fields").click()
    form.get_by_label("Tags, one per line").fill(f"two words\n{HOSTILE[:40]}")
    form.get_by_label("and of this key").fill("k")
    press(form, "Enqueue")
    expect(fault_at(form, "Type")).to_contain_text("must be 1 to 200 characters")
    form.get_by_label("Type", exact=True).fill("by.hand")
    press(form, "Enqueue")
    expect(fault_at(form, "Of its type at once")).to_contain_text("is required")
    form.get_by_label("Of its type at once").fill("2")
    form.get_by_label("In", exact=True).fill("1 h")
    press(form, "Enqueue")
    expect(page.get_by_role("heading", name="by.hand")).to_be_visible()
    [job] = shown.ask("GET", "/v1/jobs?job_type=by.hand")["items"]
    assert (job["state"], job["tags"], job["concurrency"]) == ("scheduled", ["two words", HOSTILE[:40]], {"limit": 2, "key": "k"})
    page.get_by_role("link", name="Enqueue one like it").click()
    expect(form.get_by_label("Type", exact=True)).to_have_value("by.hand")
    press(form, "Enqueue")
    expect(page).to_have_url(re.compile(f"/jobs/(?!{job['id']})[0-9a-f-]{{36}}"))


@calls("PATCH /v1/jobs/{id}", "POST /v1/jobs/{id}/reschedule")
def test_job_that_waits_is_edited_and_moved_and_one_that_ended_meanwhile_is_left(page: Page, shown: Showcase) -> None:
    job = shown.enqueue(job_type="edited", queue="reports", payload={"a": 1}, tags=["kept as it is"], delay_ms=60_000)
    go(page, shown, f"jobs/{job}")
    dialog = open_dialog(page, "edit")
    dialog.get_by_label("Priority").fill("99999")
    press(dialog, "Save")
    expect(fault_at(dialog, "Priority")).to_contain_text("32767, not 99999")
    dialog.get_by_label("Priority").fill("5")
    dialog.get_by_label("Payload (JSON)").fill('{"a": 2}')
    press(dialog, "Save")
    expect(page.get_by_role("region", name="payload", exact=True)).to_contain_text('"a": 2')
    after = shown.ask("GET", f"/v1/jobs/{job}")
    assert (after["priority"], after["payload"], after["tags"]) == (5, {"a": 2}, ["kept as it is"])
    open_dialog(page, "reschedule")
    dialog.get_by_label("On your own clock").fill("2031-05-01T10:00:00")
    press(dialog, "Reschedule")
    expect(dialog).to_have_count(0)
    assert shown.ask("GET", f"/v1/jobs/{job}")["run_at"].startswith("2031-0")
    open_dialog(page, "edit")
    dialog.get_by_label("Priority").fill("6")
    shown.ask("POST", f"/v1/jobs/{job}/cancel")
    expect(page.locator("main > header")).to_contain_text("cancelled")  # the page has heard of it, and what was begun is still there
    expect(dialog.get_by_label("Priority")).to_have_value("6")
    press(dialog, "Save")
    expect(dialog.get_by_role("alert")).to_contain_text("cancelled")


@calls("POST /v1/jobs/{id}/promote", "POST /v1/jobs/{id}/rerun", "DELETE /v1/jobs/{id}", "POST /v1/jobs/{id}/retry")
def test_job_that_waits_for_a_decision_gets_one_whichever_it_is(page: Page, shown: Showcase) -> None:
    shown.ask("POST", "/v1/queues", {"name": "decided"})
    job = shown.enqueue(job_type="decided", queue="decided", hold=True, max_attempts=1)
    go(page, shown, f"jobs/{job}")
    header = page.locator("main > header")
    press(page, "promote")
    expect(header).to_contain_text("queued")
    ack = {**leased(shown, job, "decided"), "outcome": "fail", "error": {"class": "Refused", "message": HOSTILE}}
    shown.ask("POST", "/v1/acks", {"acks": [ack]})
    expect(header).to_contain_text("dead letter")
    press(page, "retry")
    expect(header).to_contain_text("queued")
    press(page, "rerun")
    expect(page).to_have_url(re.compile(f"/jobs/(?!{job})[0-9a-f-]{{36}}$"))
    dialog = open_dialog(page, "delete")
    expect(dialog).to_contain_text("This cannot be undone")
    press(dialog, "delete")
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    assert [one["id"] for one in shown.ask("GET", "/v1/jobs?queue=decided")["items"]] == [job]


@calls("POST /v1/jobs/{id}/cancel")
def test_running_job_is_asked_to_stop_and_then_cancelled_by_force(page: Page, shown: Showcase) -> None:
    shown.ask("POST", "/v1/queues", {"name": "stuck"})
    job = shown.enqueue(job_type="stuck", queue="stuck")
    leased(shown, job, "stuck")
    go(page, shown, f"jobs/{job}")
    dialog = open_dialog(page, "cancel")
    expect(dialog).to_contain_text("it is asked to stop")
    press(dialog, "cancel")
    press(page, "cancel by force")
    expect(dialog).to_contain_text("Its lease ends at once")
    press(dialog, "Cancel by force")
    expect(page.locator("main > header")).to_contain_text("cancelled")


@calls("POST /v1/batches/{id}/seal", "POST /v1/batches/{id}/cancel")
def test_batch_is_sealed_and_cancelled_with_what_it_touches_said_before(page: Page, shown: Showcase) -> None:
    jobs = [{"job_type": "part", "queue": "reports"} for _ in range(3)]
    callbacks = {"on_complete": {"job_type": "after.all"}}
    batch = shown.ask("POST", "/v1/batches", {"name": HOSTILE, "jobs": jobs, "callbacks": callbacks})["batch"]["id"]
    go(page, shown, f"batches/{batch}")
    press(page, "Seal")
    expect(page.get_by_role("button", name="Seal")).to_have_count(0)
    expect(page.get_by_role("region", name="Callbacks", exact=True)).to_contain_text("when all have ended: after.all not yet")
    dialog = open_dialog(page, "Cancel")
    expect(dialog).to_contain_text("3 jobs of it have not ended")
    press(dialog, "Cancel the batch")
    shown.tick()
    expect(page.locator("main > header")).to_contain_text("cancelled")
    assert page.title().endswith(" · tidemill")
    assert page.locator("main img, main script").count() == 0


@calls("POST /v1/quarantine/{fingerprint}/release", "POST /v1/quarantine/{fingerprint}/discard")
def test_quarantine_is_released_or_discarded_after_saying_how_many(page: Page, shown: Showcase) -> None:
    for name in ("bomb", "mine"):
        shown.ask("POST", "/v1/queues", {"name": name})
    released, discarded = blown_up(shown, "bomb", {"text": HOSTILE}), blown_up(shown, "mine", None)
    go(page, shown, "quarantine")
    bomb, mine = (page.get_by_role("region", name=name) for name in ("bomb", "mine"))
    expect(bomb).to_contain_text("1 set aside after 3 losses: its process died (exit code -9)")
    assert faults(page, RULES) == []
    press(bomb, "release")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 job is set aside")
    press(dialog, "Keep as it is")
    press(bomb, "release")
    press(dialog, "release")
    expect(bomb).to_have_count(0)
    press(mine, "discard")
    expect(dialog).to_contain_text("later jobs with it are set aside too")
    press(dialog, "discard")
    expect(mine).to_contain_text("0 set aside")
    expect(mine.get_by_role("button", name="discard")).to_have_count(0)
    assert [shown.ask("GET", f"/v1/jobs/{job}")["state"] for job in (released, discarded)] == ["queued", "cancelled"]
    assert page.locator("main img, main script").count() == 0


@calls("POST /v1/operations", "POST /v1/operations/{id}/apply", "POST /v1/operations/{id}/undo")
def test_operation_is_applied_undone_and_another_plan_dropped(page: Page, shown: Showcase) -> None:
    job = shown.enqueue(job_type="bulk.one", queue="reports")
    go(page, shown, "jobs?job_type=bulk.one")
    page.get_by_role("toolbar", name="Bulk actions").get_by_role("button", name="cancel…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="cancel 1 job").click()
    expect(dialog.get_by_role("status")).to_contain_text("applying")
    shown.tick()
    expect(dialog.get_by_role("status")).to_contain_text("completed")
    dialog.get_by_role("link", name="This operation").click()
    press(page, "undo")
    expect(page.get_by_role("region", name="Progress")).to_contain_text("undoing")
    shown.tick()
    expect(page.get_by_role("region", name="Progress")).to_contain_text("1 restored")
    assert shown.ask("GET", f"/v1/jobs/{job}")["state"] == "queued"
    plan = shown.ask("POST", "/v1/operations", {"action": "delete", "filter": {"job_type": "bulk.one"}, "dry_run": True})["id"]
    go(page, shown, f"operations/{plan}")
    expect(page.get_by_role("region", name="Progress")).to_contain_text("This will delete 1 job. It cannot be undone.")
    press(page, "drop the plan")
    expect(page.get_by_role("region", name="Progress")).to_contain_text("aborted")


@calls("POST /v1/operations/{id}/abort")
def test_running_operation_is_stopped_and_one_that_drifted_says_so_before_it_goes_on(page: Page, shown: Showcase) -> None:
    for _ in range(2):
        shown.enqueue(job_type="bulk.two", queue="reports")
    body = {"action": "cancel", "filter": {"job_type": "bulk.two"}, "dry_run": True}
    plan = shown.ask("POST", "/v1/operations", body)["id"]
    shown.enqueue(job_type="bulk.two", queue="reports")
    go(page, shown, f"operations/{plan}")
    press(page, "apply")
    expect(page.get_by_role("alert")).to_contain_text("3")
    press(page, "apply all the same")
    expect(page.get_by_role("region", name="Progress")).to_contain_text("applying")
    press(page, "stop here")
    expect(page.get_by_role("region", name="Progress")).to_contain_text("aborted")


@calls("PUT /v1/schedules/{name}")
def test_schedule_is_edited_without_losing_what_the_form_folds_away(page: Page, shown: Showcase) -> None:
    rules = {"on_missed": "backfill", "backfill_limit": 7, "overlap": "skip", "on_fold": "both", "jitter_ms": 1_500}
    span = {"starts_at": "2027-01-01T00:00:00Z", "ends_at": "2028-01-01T00:00:00Z"}
    shown.ask("PUT", "/v1/schedules/whole", {"cron": "5 4 * * *", "timezone": "Europe/Berlin", "job": {"job_type": "x"}, **rules, **span})
    go(page, shown, "schedules/whole")
    press(page, "Edit")
    page.get_by_label("Cron expression").fill("6 4 * * *")
    page.get_by_text("More fields").click()
    page.get_by_label("Jitter").fill("soon")
    press(page, "Save")
    expect(fault_at(page.locator("main"), "Jitter")).to_contain_text("with its unit")
    page.get_by_label("Jitter").fill("1500 ms")
    page.get_by_label("Job (JSON)").fill('{"job_type": "x", "priority": "high"}')
    press(page, "Save")
    expect(fault_at(page.locator("main"), "Job (JSON)")).to_contain_text("priority")
    page.get_by_label("Job (JSON)").fill('{"job_type": "x", "priority": 3}')
    press(page, "Save")
    expect(page.get_by_role("heading", name="whole", exact=True)).to_be_visible()
    now = shown.ask("GET", "/v1/schedules/whole")
    assert {name: now[name] for name in (*rules, *span)} == {**rules, **span}
    assert (now["cron"], now["job"]["priority"]) == ("6 4 * * *", 3)


@calls(
    "POST /v1/schedules/{name}/pause",
    "POST /v1/schedules/{name}/resume",
    "POST /v1/schedules/{name}/trigger",
    "DELETE /v1/schedules/{name}",
)
def test_schedule_is_paused_resumed_triggered_and_deleted(page: Page, shown: Showcase) -> None:
    shown.ask("PUT", "/v1/schedules/short", {"every_ms": 3_600_000, "job": {"job_type": "short.job", "queue": "reports"}})
    go(page, shown, "schedules/short")
    press(page, "Pause")
    expect(page.locator("main > header")).to_contain_text("paused")
    press(page, "Resume")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    press(page, "Run one now")
    expect(page.get_by_text("One job is made, beside the schedule.")).to_be_visible()
    assert len(shown.ask("GET", "/v1/jobs?job_type=short.job")["items"]) >= 1
    dialog = open_dialog(page, "Delete")
    expect(dialog).to_contain_text("No more jobs are made by it")
    press(dialog, "Delete")
    expect(page.get_by_role("heading", name="Schedules")).to_be_visible()
    expect(page.get_by_role("table", name="schedules")).not_to_contain_text("short")


def test_simulation_compares_waits_and_says_what_is_wrong_with_its_rules(page: Page, shown: Showcase) -> None:
    go(page, shown, "queues/billing")
    what_if = page.get_by_role("region", name="What if?")
    what_if.get_by_label("Jobs that all workers run at once").fill("0")
    press(what_if, "Simulate the last hour")
    expect(fault_at(what_if, "Jobs that all workers run at once")).to_contain_text("greater than or equal to 1")
    what_if.get_by_label("Jobs that all workers run at once").fill("2")
    what_if.get_by_label("Weights of partitions").fill("tenant-1")
    press(what_if, "Simulate the last hour")
    fault_at(what_if, "Weights of partitions").wait_for()
    what_if.get_by_label("Weights of partitions").fill("tenant-1=3 tenant-2=1")
    press(what_if, "Simulate the last hour")
    expect(page.get_by_role("region", name="Simulated waits")).to_contain_text("tenant-1")


@calls("POST /v1/workers/{id}/command")
def test_worker_is_asked_by_commands_that_wait_for_its_heartbeat(page: Page, shown: Showcase) -> None:
    shown.ask("POST", f"/v1/workers/{shown.worker}/heartbeat", {"leases": []})
    go(page, shown, f"workers/{shown.worker}")
    header, commands = page.locator("main > header"), page.get_by_role("group", name="Commands")
    for command in ("quiet", "resume"):
        press(commands, command)
        expect(header).to_contain_text(f"asked to {command}")
    press(commands, "terminate")
    expect(page.get_by_role("dialog")).to_contain_text("finishes what it can")
    press(page.get_by_role("dialog"), "terminate")
    expect(header).to_contain_text("asked to terminate")


@calls("DELETE /v1/workers/{id}")
def test_worker_that_has_gone_silent_is_removed_and_gives_back_what_it_held(page: Page, shown: Showcase) -> None:
    shown.ask("POST", "/v1/queues", {"name": "lost"})
    worker = {"name": "silent", "queues": ["lost"], "max_concurrency": 1, "version": "1", "hostname": HOSTILE, "lease_ms": 1_000}
    silent = shown.ask("POST", "/v1/workers", worker)["worker_id"]
    job = shown.enqueue(job_type="lost", queue="lost")
    shown.ask("POST", "/v1/claims", {"worker_id": silent, "queues": ["lost"], "limit": 1, "lease_ms": 600_000})
    until(lambda: not shown.ask("GET", f"/v1/workers/{silent}")["is_live"], what="a worker without a heartbeat is stale")
    go(page, shown, f"workers/{silent}")
    dialog = open_dialog(page, "Remove")
    press(dialog, "Remove it")
    expect(page.get_by_text("silent is removed, 1 job given back.")).to_be_visible()
    expect(page.get_by_role("table", name="workers")).not_to_contain_text("silent")
    assert shown.ask("GET", f"/v1/jobs/{job}")["state"] == "queued"
    assert page.locator("main img, main script").count() == 0
