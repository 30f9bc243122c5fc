"""What people do with the page: filter, search, act, undo, keep a view, use the keyboard, go on while the API is away."""

from __future__ import annotations

import re

import psycopg
from playwright.sync_api import BrowserContext, Page, expect

from frontend.conftest import NARROW, Watch, calls, go, sign_in
from frontend.test_managing import fault_at, open_dialog, press
from harness.receiver import Receiver, status
from harness.showcase import Showcase
from tidemill.courier.rounds import Courier
from tidemill.courier.send import send
from tidemill.http.couriers import served
from tidemill.store.database import Database


def state_of(shown: Showcase, job: str) -> str:
    return str(shown.ask("GET", f"/v1/jobs/{job}")["state"])


def test_filters_are_in_the_address_and_a_link_shows_the_same(page: Page, shown: Showcase) -> None:
    go(page, shown, "jobs")
    page.get_by_role("group", name="States").get_by_role("button", name="dead letter").click()
    expect(page).to_have_url(re.compile("state=dead_letter"))
    expect(page.get_by_role("table", name="Jobs").locator("tbody tr")).to_have_count(6)
    page.goto("about:blank")
    go(page, shown, "jobs?state=dead_letter&error_class=Timeout")
    expect(page.get_by_role("table", name="Jobs").locator("tbody tr")).to_have_count(2)


def test_search_finds_a_job_by_its_id_and_says_when_nothing_matches(page: Page, shown: Showcase) -> None:
    go(page, shown, "jobs")
    search = page.get_by_role("searchbox")
    search.fill(shown.jobs["completed"])
    search.press("Enter")
    expect(page.get_by_role("table", name="Jobs").locator("tbody tr")).to_have_count(1)
    search.fill("no-such-key")
    search.press("Enter")
    expect(page.get_by_text("No jobs match these filters")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    expect(page.get_by_role("table", name="Jobs")).to_contain_text("video.encode")


def test_nothing_yet_is_told_from_nothing_matches(page: Page, shown: Showcase) -> None:
    go(page, shown, "quarantine")
    expect(page.get_by_text("No quarantined jobs yet")).to_be_visible()
    go(page, shown, "audit?action=never.done")
    expect(page.get_by_text("No notes match these filters")).to_be_visible()


def test_keyboard_alone_goes_everywhere_opens_selects_and_lists_its_keys(page: Page, shown: Showcase) -> None:
    go(page, shown, "")
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    expect(page.get_by_role("table", name="Jobs")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("1 job chosen")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("search jobs")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("jx")  # letters are letters while one types
    expect(page.get_by_text("1 job chosen")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    expect(page.get_by_role("group", name="Actions")).to_be_visible()
    page.keyboard.press("a")
    expect(page.locator("main > header button").first).to_be_focused()
    page.keyboard.press("u")
    expect(page.get_by_role("table", name="Jobs")).to_be_visible()


def test_cancel_asks_first_says_what_it_touches_and_shows_the_new_state(page: Page, shown: Showcase) -> None:
    job = shown.enqueue(job_type="mail.send", queue="billing")
    go(page, shown, f"jobs/{job}")
    page.get_by_role("button", name="cancel").click()
    dialog = page.get_by_role("dialog", name="cancel this job")
    expect(dialog).to_contain_text("It will not run")
    dialog.get_by_role("button", name="Keep as it is").click()
    assert state_of(shown, job) == "queued"
    page.get_by_role("button", name="cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="cancel").click()
    expect(page.locator("main > header")).to_contain_text("cancelled")
    assert state_of(shown, job) == "cancelled"


def test_chosen_jobs_are_deleted_only_after_it_was_said_which(page: Page, shown: Showcase) -> None:
    jobs = [shown.enqueue(job_type=kind, queue="billing", tags=["chosen"]) for kind in ("chosen.a", "chosen.b", "chosen.b")]
    go(page, shown, "jobs?tag=chosen")
    page.get_by_label("Select all that are loaded").check()
    page.get_by_role("button", name="delete 3").click()
    dialog = page.get_by_role("dialog", name="delete 3 jobs")
    expect(dialog).to_contain_text(
        "This will delete 3 jobs: 2 chosen.b, 1 chosen.a. They go with their attempts and logs. This cannot be undone."
    )
    press(dialog, "Keep as it is")
    assert [state_of(shown, job) for job in jobs] == ["queued"] * 3
    page.get_by_role("button", name="cancel 3").click()
    press(page.get_by_role("dialog"), "cancel")
    expect(page.get_by_text("cancel: 3 jobs.")).to_be_visible()
    assert [state_of(shown, job) for job in jobs] == ["cancelled"] * 3


@calls("POST /v1/queues/{name}/pause", "POST /v1/queues/{name}/resume")
def test_pause_can_be_undone_from_the_word_that_tells_of_it(page: Page, shown: Showcase) -> None:
    go(page, shown, "queues")
    page.get_by_role("button", name="Pause billing").click()
    expect(page.get_by_role("button", name="Resume billing")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Pause billing")).to_be_visible()
    assert shown.ask("GET", "/v1/queues/billing")["is_paused"] is False


@calls("POST /v1/dead-letters/{id}/resolve")
def test_dead_letters_are_retried_as_a_canary_and_then_all(page: Page, shown: Showcase) -> None:
    go(page, shown, "dead-letters")
    group = page.get_by_role("region", name="SmtpError")
    expect(group).to_contain_text("4 open")
    group.get_by_role("button", name="Retry a canary of 3").click()
    expect(group).to_contain_text("1 open")
    group.get_by_role("button", name="Retry all…").click()
    plan = page.get_by_role("dialog")
    expect(plan).to_contain_text("This will retry 1 job")
    plan.get_by_role("button", name="retry 1 job").click()
    expect(plan).to_contain_text("applying")
    shown.tick()
    expect(plan).to_contain_text("completed")
    plan.get_by_role("button", name="Close").click()
    expect(page.get_by_role("region", name="SmtpError")).to_have_count(0)


def test_editor_of_a_schedule_shows_occurrences_and_the_reason_for_a_refusal(page: Page, shown: Showcase) -> None:
    go(page, shown, "new-schedule")
    page.get_by_label("Name").fill("weekly")
    page.get_by_label("Cron expression").fill("61 * * * *")
    expect(page.get_by_role("alert").first).to_contain_text("between 0 and 59")
    page.get_by_label("Cron expression").fill("30 2 * * 0")
    page.get_by_label("Zone").fill("Europe/Berlin")
    expect(page.get_by_role("region", name="Next occurrences")).to_contain_text("02:30")
    expect(page.locator("main")).to_contain_text("clocks go forward, 02:00 (+01:00) becomes 03:00 (+02:00)")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="weekly")).to_be_visible()
    assert shown.ask("GET", "/v1/schedules/weekly")["cron"] == "30 2 * * 0"


def test_what_others_do_shows_by_itself(page: Page, shown: Showcase) -> None:
    go(page, shown, "jobs?job_type=live.one")
    expect(page.get_by_text("No jobs match")).to_be_visible()
    shown.enqueue(job_type="live.one", queue="billing")
    expect(page.get_by_role("table", name="Jobs").locator("tbody tr")).to_have_count(1)


def test_hostile_text_is_text_everywhere(page: Page, shown: Showcase) -> None:
    for place in (f"jobs/{shown.jobs['hostile']}", f"jobs/{shown.jobs['running']}", f"jobs/{shown.jobs['dead']}", "jobs?queue=hostile"):
        go(page, shown, place)
    go(page, shown, f"jobs/{shown.jobs['hostile']}")
    expect(page.get_by_role("region", name="payload", exact=True)).to_contain_text("<script>document.title='broken'</script>")
    assert page.title() == f"{shown.jobs['hostile']} · Jobs · tidemill"
    assert page.locator("main img, main script, main b").count() == 0


@calls("POST /v1/auth/login", "POST /v1/auth/refresh")
def test_wrong_password_says_no_more_than_that(context: BrowserContext, shown: Showcase) -> None:
    page = context.new_page()
    page.goto(shown.url)
    page.get_by_label("E-mail").fill(shown.email)
    page.get_by_label("Password").fill("not the password")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("the email or the password is wrong")


def test_menu_of_a_phone_opens_and_leads_on(page: Page, shown: Showcase) -> None:
    page.set_viewport_size(NARROW)
    go(page, shown, "")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Workers", exact=True).click()
    expect(page.get_by_role("heading", name="Workers")).to_be_visible()


def test_what_was_read_stays_while_the_api_is_away_and_its_age_is_told(context: BrowserContext, shown: Showcase) -> None:
    page = context.new_page()
    watch = Watch(page)
    sign_in(page, shown)
    go(page, shown, "queues")
    expect(page.get_by_role("table", name="queues")).to_contain_text("billing")
    context.set_offline(True)
    page.keyboard.press("R")
    expect(page.get_by_role("alert").filter(has_text="has not answered for")).to_be_visible()
    expect(page.get_by_role("table", name="queues")).to_contain_text("billing")
    expect(page.get_by_text(re.compile(r"^As of \d+(\.\d)? m?s ago: the API does not answer"))).to_be_visible()
    context.set_offline(False)
    expect(page.get_by_role("alert").filter(has_text="has not answered for")).to_have_count(0, timeout=60_000)
    assert [said for said in watch.said if "error:" in said and "ERR_INTERNET_DISCONNECTED" not in said] == []


def carry(shown: Showcase) -> None:
    """What tells the project's webhook: a tick that notes what is to be told, and a round of a courier on this machine."""
    database = Database(shown.dev.dsn)
    with psycopg.connect(shown.dev.dsn, autocommit=True) as conn:
        conn.execute("update tidemill.webhooks set quiet_until = now() where project_id = %s", [shown.project])
    shown.tick()
    Courier(lambda asked: served(database, asked["courier"]), lambda call: send(call, is_local=True)).run(5)
    database.close()


@calls("PUT /v1/webhook", "DELETE /v1/webhook", "POST /v1/webhook/rotate", "POST /v1/webhook/test")
def test_webhook_is_removed_set_tested_paused_and_gets_a_new_secret(page: Page, shown: Showcase) -> None:
    go(page, shown, "projects")
    webhook = page.get_by_role("region", name="Error webhook")
    expect(webhook).to_contain_text("https://hooks.example.com/services/T0/B0")
    dialog = open_dialog(page, "Remove")
    expect(dialog).to_contain_text("Its secret and the list of its calls go with it")
    press(dialog, "Remove it")
    expect(webhook).to_contain_text("No webhook yet")
    press(webhook, "Set a webhook")
    expect(dialog.get_by_label("Address")).to_be_focused()
    page.keyboard.type("http://10.0.0.1/")
    page.keyboard.press("Enter")
    expect(fault_at(dialog, "Address")).to_contain_text("must begin with https://")
    with Receiver([status(200), status(500)]) as receiver:
        dialog.get_by_label("Address").fill(receiver.url)
        dialog.get_by_label("Tell when a schedule breaks").check()
        press(dialog, "Set it")
        secrets = [(dialog.locator(".mono").text_content() or "").strip()]
        press(dialog, "I have it")
        expect(webhook).to_contain_text("jobs die, a schedule breaks")
        press(webhook, "Send a test")
        carry(shown)
        told = page.get_by_role("table", name="calls").locator("tbody tr")
        expect(told.first).to_contain_text("delivered")
        expect(webhook.get_by_role("button", name="Send a test")).to_be_enabled()
        dialog = open_dialog(page, "New secret")
        press(dialog, "Make it")
        secrets.append((dialog.locator(".mono").text_content() or "").strip())
        press(dialog, "I have it")
        expect(page.locator("body")).not_to_contain_text(secrets[1])
        expect(webhook).to_contain_text("Old secret signs until")
        press(webhook, "Send a test")
        carry(shown)
        expect(told.first).to_contain_text("waiting")
        expect(told.first).to_contain_text("it answered 500")
        first, second = receiver.got()
    assert first.is_signed_by(secrets[0])
    assert all(second.is_signed_by(secret) for secret in secrets), "both, for a day"
    press(webhook, "Pause")
    expect(webhook.locator("header")).to_contain_text("paused")
    page.get_by_role("button", name="Undo").last.click()
    expect(webhook.locator("header")).to_contain_text("active")
    dialog = open_dialog(page, "Change it")
    dialog.get_by_label("Deaths in these queues only").fill("billing no!name")
    press(dialog, "Save")
    expect(fault_at(dialog, "Deaths in these queues only")).to_contain_text("must be 1 to 200 characters")
    dialog.get_by_label("Deaths in these queues only").fill("billing")
    press(dialog, "Save")
    expect(dialog).to_have_count(0)
    now = shown.ask("GET", "/v1/webhook")
    assert (now["events"], now["queues"], now["is_paused"]) == (["job.dead_letter", "schedule.broken"], ["billing"], False)
