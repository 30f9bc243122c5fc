"""What people set with the page: queues, limits, retry policies, keys, members, projects, their password. And what is refused them."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from frontend.conftest import calls, go, sign_in
from frontend.test_screens import faults
from harness.showcase import HOSTILE, Showcase


def press(page: Page | Locator, name: str) -> None:
    """The button of exactly this name."""
    page.get_by_role("button", name=name, exact=True).click()


def open_dialog(page: Page, button: str) -> Locator:
    press(page, button)
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    return dialog


def fault_at(box: Locator, label: str) -> Locator:
    """What is told at the field with this label: that which it is described by, as a screen reader reads it."""
    field = box.get_by_label(label, exact=True)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    described = field.get_attribute("aria-describedby") or ""
    return box.page.locator(f'[id="{described.split()[-1]}"]')


@calls("POST /v1/queues", "PATCH /v1/queues/{name}")
def test_queue_is_made_by_keyboard_alone_and_its_settings_are_changed(page: Page, shown: Showcase) -> None:
    go(page, shown, "queues")
    page.get_by_role("button", name="New queue").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="New queue")
    expect(dialog.get_by_label("Name")).to_be_focused()
    page.keyboard.type("no good name!")
    page.keyboard.press("Enter")
    expect(fault_at(dialog, "Name")).to_contain_text("must be 1 to 200 characters")
    page.keyboard.press("Control+a")
    page.keyboard.type("imports")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="imports")).to_be_visible()

    dialog = open_dialog(page, "Edit")
    dialog.get_by_label("Jobs at once").fill("3")
    dialog.get_by_label("When that many run").select_option("cancel_running")
    dialog.get_by_label("Unfinished jobs at most").fill("500")
    dialog.get_by_label("Weight").fill("0")
    dialog.get_by_label("Retry policy").select_option("gently")
    dialog.get_by_label("Completed kept for").fill("36 h")
    press(dialog, "Save")
    expect(fault_at(dialog, "Weight")).to_contain_text("greater than or equal to 1, not 0")
    dialog.get_by_label("Weight").fill("7")
    press(dialog, "Save")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("region", name="Settings")).to_contain_text("1 d 12 h")
    queue = shown.ask("GET", "/v1/queues/imports")
    told = {name: queue[name] for name in ("max_concurrency", "on_saturated", "max_unfinished_jobs", "weight", "default_retry_policy")}
    wanted = {"max_concurrency": 3, "on_saturated": "cancel_running", "max_unfinished_jobs": 500, "weight": 7}
    assert told == {**wanted, "default_retry_policy": "gently"}
    assert queue["retention"]["completed_ms"] == 36 * 3_600_000


def test_edit_leaves_what_somebody_else_has_changed_meanwhile(page: Page, shown: Showcase) -> None:
    shown.ask("POST", "/v1/queues", {"name": "shared"})
    go(page, shown, "queues/shared")
    dialog = open_dialog(page, "Edit")
    dialog.get_by_label("Weight").fill("2")
    shown.ask("PATCH", "/v1/queues/shared", {"priority": 9, "max_concurrency": 4})
    press(dialog, "Save")
    expect(dialog).to_have_count(0)
    queue = shown.ask("GET", "/v1/queues/shared")
    assert (queue["weight"], queue["priority"], queue["max_concurrency"]) == (2, 9, 4)


@calls("DELETE /v1/queues/{name}")
def test_empty_queue_goes_at_once_and_a_full_one_only_after_its_name_was_typed(page: Page, shown: Showcase) -> None:
    shown.ask("POST", "/v1/queues", {"name": "doomed"})
    go(page, shown, "queues/doomed")
    dialog = open_dialog(page, "Delete")
    expect(dialog).to_contain_text("Nothing waits or runs in it now")
    press(dialog, "Keep it")
    shown.enqueue(job_type="a", queue="doomed")
    dialog = open_dialog(page, "Delete")
    press(dialog, "Delete it")
    expect(dialog.get_by_role("alert")).to_contain_text("queue 'doomed' holds 1 job, ended ones included")
    with_all = dialog.get_by_role("button", name="Delete it with all its jobs")
    expect(with_all).to_be_disabled()
    dialog.get_by_label("To delete them all, type doomed").fill("doomed")
    with_all.click()
    expect(dialog.get_by_role("status")).to_contain_text("applying")
    shown.tick()
    expect(dialog.get_by_role("status")).to_contain_text("completed")
    press(dialog, "Close")
    expect(page.get_by_role("table", name="queues")).to_contain_text("billing")
    expect(page.get_by_role("table", name="queues")).not_to_contain_text("doomed")
    shown.ask("POST", "/v1/queues", {"name": "empty"})
    go(page, shown, "queues/empty")
    press(open_dialog(page, "Delete"), "Delete it")
    expect(page.get_by_text("empty is deleted.")).to_be_visible()


@calls("PATCH /v1/queues/{name}/partitions/{key}")
def test_partition_gets_another_weight_whatever_it_is_called(page: Page, shown: Showcase) -> None:
    go(page, shown, "queues/hostile")
    dialog = open_dialog(page, f"Weight of {HOSTILE}: 1, change it")
    dialog.get_by_label("Weight").fill("none")
    press(dialog, "Set it")
    expect(fault_at(dialog, "Weight")).to_contain_text("must be a number")
    dialog.get_by_label("Weight").fill("5")
    press(dialog, "Set it")
    expect(page.get_by_role("button", name=f"Weight of {HOSTILE}: 5, change it")).to_be_visible()
    assert page.title().endswith(" · tidemill")
    assert page.locator("main img, main script").count() == 0


@calls("PUT /v1/rate-classes/{name}", "DELETE /v1/rate-classes/{name}")
def test_rate_class_is_made_paused_as_a_kill_switch_resumed_changed_and_deleted(page: Page, shown: Showcase) -> None:
    go(page, shown, "limits")
    dialog = open_dialog(page, "New rate class")
    press(dialog, "Make it")
    expect(fault_at(dialog, "Name")).to_contain_text("is required")
    dialog.get_by_label("Name").fill("sms")
    dialog.get_by_label("Tokens").fill("5")
    dialog.get_by_label("per").fill("60")
    press(dialog, "Make it")
    expect(fault_at(dialog, "per")).to_contain_text("with its unit")
    dialog.get_by_label("per").fill("1 min")
    press(dialog, "Make it")
    press(page, "Pause sms")
    press(page, "Resume sms")
    press(page, "Edit sms")
    dialog.get_by_label("Tokens").fill("6")
    press(dialog, "Save")
    row = page.get_by_role("table", name="rate classes").get_by_role("row").filter(has_text="sms")
    expect(row).to_contain_text("6 per 1 min")
    made = shown.ask("GET", "/v1/rate-classes/sms")
    assert (made["limit"], made["window_ms"], made["burst"], made["is_paused"]) == (6, 60_000, 5, False)
    press(page, "Delete sms")
    press(page.get_by_role("dialog"), "Delete it")
    expect(row).to_have_count(0)
    page.get_by_role("button", name="Undo").last.click()
    expect(row).to_have_count(1)


@calls("PUT /v1/concurrency-limits/{name}", "DELETE /v1/concurrency-limits/{name}")
def test_standing_limit_is_of_a_queue_or_a_type_and_never_of_both(page: Page, shown: Showcase) -> None:
    go(page, shown, "limits")
    dialog = open_dialog(page, "New limit")
    dialog.get_by_label("Name").fill("encoders")
    dialog.get_by_label("Of the queue").fill("billing")
    dialog.get_by_label("or of the job type").fill("video.encode")
    dialog.get_by_label("Jobs at once").fill("2")
    press(dialog, "Make it")
    expect(fault_at(dialog, "Of the queue")).to_contain_text("give either queue or job_type")
    dialog.get_by_label("Of the queue").fill("")
    press(dialog, "Make it")
    row = page.get_by_role("table", name="standing limits").get_by_role("row").filter(has_text="encoders")
    expect(row).to_contain_text("type video.encode")
    expect(row).to_contain_text("1 of 2")
    press(page, "Delete encoders")
    press(page.get_by_role("dialog"), "Delete it")
    expect(row).to_have_count(0)


@calls("POST /v1/retry-policies", "PATCH /v1/retry-policies/{name}", "DELETE /v1/retry-policies/{name}")
def test_retry_policy_shows_its_waits_and_who_uses_it_before_it_is_deleted(page: Page, shown: Showcase) -> None:
    shown.ask("POST", "/v1/retry-policies", {"name": "hourly", "strategy": "fixed", "base_delay_ms": 3_600_000})
    shown.ask("PATCH", "/v1/queues/default", {"default_retry_policy": "hourly"})
    go(page, shown, "retry-policies")
    expect(page.get_by_role("row").filter(has_text="hourly")).to_contain_text("default")
    dialog = open_dialog(page, "New policy")
    dialog.get_by_label("Name").fill("gently")
    dialog.get_by_label("The waits are").select_option("linear")
    dialog.get_by_label("First wait").fill("10 s")
    dialog.get_by_label("Attempts, the first included").fill("4")
    expect(dialog).to_contain_text("It waits: 10 s, 20 s, 30 s")
    press(dialog, "Make it")
    expect(dialog.get_by_role("alert")).to_contain_text("a retry policy called 'gently' exists already")
    dialog.get_by_label("Name").fill("slowly")
    dialog.get_by_label("Attempts, the first included").fill("1001")
    press(dialog, "Make it")
    expect(fault_at(dialog, "Attempts, the first included")).to_contain_text("less than or equal to 1000")
    dialog.get_by_label("Attempts, the first included").fill("4")
    press(dialog, "Make it")
    expect(page.get_by_role("row").filter(has_text="slowly")).to_contain_text("10 s, 20 s, 30 s")
    press(page, "Edit slowly")
    dialog.get_by_label("Longest wait").fill("15 s")
    press(dialog, "Save")
    expect(page.get_by_role("row").filter(has_text="slowly")).to_contain_text("10 s, 15 s, 15 s")
    press(page, "Delete hourly")
    expect(dialog).to_contain_text("1 queue (default) and the jobs that name it fall back")
    press(dialog, "Delete it")
    expect(page.get_by_text("hourly is deleted.")).to_be_visible()
    assert shown.ask("GET", "/v1/queues/default")["default_retry_policy"] is None


@calls("POST /v1/projects/{id}/api-keys", "POST /v1/api-keys/{id}/rotate", "DELETE /v1/api-keys/{id}")
def test_key_is_shown_once_rotated_and_revoked(page: Page, shown: Showcase) -> None:
    go(page, shown, "keys")
    dialog = open_dialog(page, "New key")
    dialog.get_by_label("Name").fill(HOSTILE)
    press(dialog, "Make it")
    expect(dialog.get_by_role("alert")).to_contain_text("at least 1 item")
    dialog.get_by_label("read", exact=True).check()
    dialog.get_by_label("Ends after").fill("30 d")
    press(dialog, "Make it")
    secret = dialog.locator(".mono")
    expect(secret).to_contain_text("tm_")
    first = (secret.text_content() or "").strip()
    press(dialog, "I have it")
    expect(page.locator("body")).not_to_contain_text(first)
    press(page, f"Rotate {HOSTILE}")
    dialog.get_by_label("The old one goes on for").fill("31 d")
    press(dialog, "Make the new one")
    expect(fault_at(dialog, "The old one goes on for")).to_contain_text("less than or equal to")
    dialog.get_by_label("The old one goes on for").fill("0 s")
    press(dialog, "Make the new one")
    expect(secret).to_contain_text("tm_")
    second = (secret.text_content() or "").strip()
    press(dialog, "I have it")
    assert [entering(shown, key) for key in (first, second)] == [401, 200]  # a gateway may remember the second for a minute
    expect(page.get_by_role("button", name=f"Revoke {HOSTILE}")).to_have_count(1)
    press(page, f"Revoke {HOSTILE}")
    press(dialog, "Revoke")
    expect(page.get_by_role("button", name=f"Revoke {HOSTILE}")).to_have_count(0)
    keys = shown.ask("GET", f"/v1/projects/{shown.project}/api-keys")["items"]
    assert [key["revoked_at"] is not None for key in keys if key["name"] == HOSTILE] == [False, True]
    assert page.locator("main img, main script").count() == 0


def entering(shown: Showcase, key: str) -> int:
    """The status of a question with this key."""
    return httpx.get(f"{shown.url}/v1/queues", headers={"authorization": f"Bearer {key}"}, timeout=40, verify=False).status_code


@calls(
    "POST /v1/organizations/{id}/users", "PUT /v1/organizations/{id}/members/{user_id}", "DELETE /v1/organizations/{id}/members/{user_id}"
)
def test_role_is_given_and_taken_back_but_the_last_owner_stays_one_in_the_words_of_the_api(page: Page, shown: Showcase) -> None:
    go(page, shown, "members")
    dialog = open_dialog(page, "Add somebody")
    dialog.get_by_label("E-mail").fill("nobody")
    press(dialog, "Add")
    fault_at(dialog, "E-mail").wait_for()
    dialog.get_by_label("E-mail").fill("ops@example.com")
    dialog.get_by_label("Name").fill(HOSTILE)
    dialog.get_by_label("Role").select_option("viewer")
    press(dialog, "Add")
    expect(dialog).to_contain_text("This password is shown only now")
    press(dialog, "I have it")
    role = page.get_by_label("Role of ops@example.com")
    role.select_option("operator")
    expect(page.get_by_text("ops@example.com is operator now.")).to_be_visible()
    page.get_by_role("button", name="Undo").last.click()
    expect(role).to_have_value("viewer")
    own = page.get_by_label(f"Role of {shown.email}")
    own.select_option("admin")
    expect(page.get_by_text("the last owner of an organization can't leave: make another member an owner first")).to_be_visible()
    expect(own).to_have_value("owner")
    press(page, "Leave My organization")
    press(dialog, "Leave")
    expect(dialog.get_by_role("alert")).to_contain_text("the last owner of an organization can't leave")
    press(dialog, "Keep as it is")
    press(page, "Remove ops@example.com")
    press(dialog, "Remove")
    expect(page.get_by_label("Role of ops@example.com")).to_have_count(0)
    assert page.locator("main img, main script").count() == 0


@calls("PATCH /v1/organizations/{id}", "PATCH /v1/projects/{id}", "DELETE /v1/projects/{id}")
def test_payloads_are_hidden_from_a_role_and_the_project_gets_another_name(context: BrowserContext, page: Page, shown: Showcase) -> None:
    go(page, shown, "members")
    dialog = open_dialog(page, "Settings of My organization")
    dialog.get_by_label("Hide payloads from viewers").check()
    press(dialog, "Save")
    expect(page.get_by_text("My organization is changed.")).to_be_visible()
    open_dialog(page, "Settings of My organization")
    expect(dialog.get_by_label("Hide payloads from viewers")).to_be_checked()
    press(dialog, "Keep as it is")
    theirs = context.new_page()
    sign_in(theirs, shown, *shown.member("viewer"))
    for job in ("completed", "dead", "running"):
        go(theirs, shown, f"jobs/{shown.jobs[job]}")
        expect(theirs.locator("main")).to_contain_text("They are hidden for your role: so the owners of the organization have set it.")
        expect(theirs.locator("main")).not_to_contain_text("null")
    expect(theirs.locator("main")).to_contain_text("What the lines say is hidden for your role.")
    go(theirs, shown, "dead-letters")
    expect(theirs.get_by_role("region", name="SmtpError")).to_contain_text("its text is hidden for your role")
    theirs.close()
    open_dialog(page, "Settings of My organization")
    dialog.get_by_label("Hide payloads from viewers").uncheck()
    press(dialog, "Save")
    expect(dialog).to_have_count(0)
    go(page, shown, "projects")
    press(page, "Rename")
    dialog.get_by_label("Name").fill("lighthouse")
    press(dialog, "Rename it")
    expect(page.get_by_role("heading", name="Open now: lighthouse")).to_be_visible()
    press(page, "Delete")
    press(dialog, "Delete it")
    expect(dialog.get_by_role("alert")).to_contain_text("the project holds jobs")
    press(dialog, "Keep as it is")


@calls("POST /v1/me/password", "POST /v1/auth/logout")
def test_password_is_changed_only_by_who_knows_it_and_ends_the_other_logins(context: BrowserContext, page: Page, shown: Showcase) -> None:
    go(page, shown, "members")
    dialog = open_dialog(page, "Add somebody")
    dialog.get_by_label("E-mail").fill("ada@example.com")
    press(dialog, "Add")
    first = (dialog.locator(".mono").text_content() or "").strip()
    press(dialog, "I have it")
    mine = context.new_page()
    sign_in(mine, shown, "ada@example.com", first)
    mine.keyboard.press("g")
    mine.keyboard.press("y")
    dialog = open_dialog(mine, "Change the password")
    for label, text in (
        ("The password there is", "not it"),
        ("The new one", "a longer password"),
        ("The new one again", "another password"),
    ):
        dialog.get_by_label(label, exact=True).fill(text)
    press(dialog, "Change it")
    expect(fault_at(dialog, "The new one again")).to_contain_text("is not the same")
    dialog.get_by_label("The new one again").fill("a longer password")
    press(dialog, "Change it")
    expect(fault_at(dialog, "The password there is")).to_contain_text("is not the password there is")
    dialog.get_by_label("The password there is").fill(first)
    press(dialog, "Change it")
    expect(mine.get_by_text("The password is changed.")).to_be_visible()
    press(mine, "Sign out here")
    sign_in(mine, shown, "ada@example.com", "a longer password")


@calls("POST /v1/projects", "POST /v1/organizations")
def test_project_is_made_and_wants_a_key_and_a_name_that_is_taken_is_refused(page: Page, shown: Showcase) -> None:
    go(page, shown, "projects")
    dialog = open_dialog(page, "New project")
    dialog.get_by_label("Name").fill("default")
    press(dialog, "Make it")
    expect(dialog.get_by_role("alert")).to_contain_text("the organization has a project called 'default'")
    dialog.get_by_label("Name").fill(f"beside {shown.project[-12:]}")
    press(dialog, "Make it")
    expect(page.get_by_text("No keys yet")).to_be_visible()
    go(page, shown, "members")
    open_dialog(page, "New organization")
    dialog.get_by_label("Name", exact=True).fill("Elsewhere")
    dialog.get_by_label("Short name").fill("No Slug")
    press(dialog, "Make it")
    expect(fault_at(dialog, "Short name")).to_be_visible()
    press(dialog, "Cancel")


def test_screen_of_a_project_without_anything_says_how_the_first_one_comes_to_be(page: Page, shown: Showcase) -> None:
    said = {
        "limits": ("No rate classes yet", "So many jobs per so long"), "retry-policies": ("No retry policies yet", "as its default"),
        "schedules": ("No schedules yet", "make one here"), "batches": ("No batches yet", "client.batch"),
        "operations": ("No operations yet", "act on all that match"), "workers": ("No workers yet", "tidemill worker"),
        "quarantine": ("No quarantined jobs yet", "three times within a day"), "jobs": ("No jobs yet", "tidemill enqueue"),
    }  # fmt: skip
    for screen, (title, what_next) in said.items():
        page.goto(f"{shown.url}/#/p/{shown.dev.about['project_id']}/{screen}")
        expect(page.get_by_text(title)).to_be_visible()
        expect(page.locator("main")).to_contain_text(what_next)
    assert faults(page) == []


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_role_is_offered_nothing_that_the_api_would_refuse(context: BrowserContext, shown: Showcase, role: str) -> None:
    theirs = context.new_page()
    sign_in(theirs, shown, *shown.member(role))
    forbidden = "new .*|edit.*|delete.*|rotate.*|revoke.*|rename|settings.*|add somebody|remove .*|pause mail|resume mail"
    places = ["queues", "queues/billing", "limits", "retry-policies", "projects", "members", "jobs", f"batches/{shown.batch}", "account"]
    if role == "viewer":
        forbidden += (
            "|weight of .*|enqueue.*|seal|pause.*|resume.*|quiet|terminate|restart|run one now|rerun|(cancel|retry|discard|promote)(…| .*)?"
        )
        job = f"jobs/{shown.jobs['queued']}"
        places += ["jobs?state=queued", job, f"{job}?open=edit", "dead-letters", "schedules/nightly-report", f"workers/{shown.worker}"]
        expect(theirs.get_by_role("navigation", name="Screens")).not_to_contain_text("Keys")
    for place in places:
        go(theirs, shown, place)
        offered = theirs.locator("main").get_by_role("button", name=re.compile(f"^({forbidden})$", re.IGNORECASE))
        assert offered.count() == 0, f"{place}: {offered.all_inner_texts()}"
        assert theirs.get_by_role("dialog").count() == 0, "a link opens nothing that is not offered"
    go(theirs, shown, "projects")
    webhook = theirs.get_by_role("region", name="Error webhook")
    expect(webhook).to_contain_text("https://hooks.example.com/…")
    offered = webhook.get_by_role("group", name="Webhook").get_by_role("button")
    assert offered.all_inner_texts() == ([] if role == "viewer" else ["Send a test"])
