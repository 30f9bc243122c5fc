"""What the page does by itself: it follows, keeps still under a finger and in the dark, tells times, and gives the focus back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from playwright.sync_api import BrowserContext, Page, expect

from frontend.conftest import NARROW, Tab, go, sign_in
from harness.showcase import HOSTILE, Showcase

LISTS = {
    "queues": "queues/", "schedules": "schedules/", "batches": "batches/", "workers": "workers/", "operations": "operations/",
    "dead-letters?view=jobs": "jobs/", "jobs": "jobs/",
}  # fmt: skip


class Polls:
    """The long polls of a page that began since this was made: is one under way?"""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.under_way: set[Any] = set()
        page.on("request", lambda request: self.under_way.add(request) if "/v1/changes" in request.url else None)
        page.on("requestfinished", lambda request: self.under_way.discard(request))
        page.on("requestfailed", lambda request: self.under_way.discard(request))

    def wait_for_one(self) -> None:
        """The page waits for news."""
        while not self.under_way:
            self.page.wait_for_timeout(10)

    def wait_for_its_end(self) -> None:
        """It has brought what changed."""
        while self.under_way:
            self.page.wait_for_timeout(10)


@contextmanager
def hidden(page: Page) -> Iterator[None]:
    """The tab is behind another one."""
    turn = """(is) => {
        Object.defineProperty(document, 'hidden', { get: () => is, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    page.evaluate(turn, True)
    yield
    page.evaluate(turn, False)


def followed(page: Page, shown: Showcase, job_type: str) -> Polls:
    """The list of one job of this type, while the page waits for news."""
    polls = Polls(page)
    shown.enqueue(job_type=job_type, queue="billing")
    go(page, shown, f"jobs?job_type={job_type}")
    expect(page.get_by_role("table", name="Jobs").locator("tbody tr")).to_have_count(1)
    polls.wait_for_one()
    return polls


def test_what_changed_while_rows_were_chosen_shows_when_they_are_let_go(page: Page, shown: Showcase) -> None:
    polls = followed(page, shown, "held.one")
    rows = page.get_by_role("table", name="Jobs").locator("tbody tr")
    rows.first.get_by_role("checkbox").check()
    shown.enqueue(job_type="held.one", queue="billing")
    polls.wait_for_its_end()
    expect(rows).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_text("1 job chosen")).to_have_count(0)
    expect(rows).to_have_count(2)


def test_a_hidden_tab_asks_nothing_and_reads_anew_when_it_is_seen_again(page: Page, tab: Tab, shown: Showcase) -> None:
    polls = followed(page, shown, "dark.one")
    rows = page.get_by_role("table", name="Jobs").locator("tbody tr")
    assert tab.watch is not None
    with hidden(page):
        tab.watch.forget()
        shown.enqueue(job_type="dark.one", queue="billing")
        polls.wait_for_its_end()
        # Two of its steps: it looks every 300 ms whether it is seen.
        page.evaluate("() => new Promise((done) => setTimeout(done, 700))")
        assert tab.watch.requests == []
        expect(rows).to_have_count(1)
    expect(rows).to_have_count(2)


def test_times_are_relative_with_the_instant_in_utc_and_here_to_point_at(page: Page, shown: Showcase) -> None:
    go(page, shown, f"jobs/{shown.jobs['dead']}")
    created = page.locator("main .facts time").first
    expect(created).to_have_text(re.compile(r"^(\d+ (s|min|h) ago|now)$"))
    at = str(shown.ask("GET", f"/v1/jobs/{shown.jobs['dead']}")["created_at"])
    zone = page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
    title = created.get_attribute("title") or ""
    assert title.splitlines()[0] == f"{at[:10]} {at[11:19]} UTC"
    assert title.splitlines()[1].endswith(f"({zone})")


def test_times_are_the_servers_where_this_machines_clock_is_wrong(context: BrowserContext, shown: Showcase) -> None:
    page = context.new_page()
    page.clock.install(time=datetime.now(UTC) + timedelta(hours=2))
    sign_in(page, shown)
    go(page, shown, f"jobs/{shown.jobs['running']}")
    expect(page.locator("main .facts")).to_contain_text(re.compile(r"Lease ends\s*in \d+ min"))
    expect(page.locator("main .facts time").first).to_have_text(re.compile(r"^(\d+ (s|min) ago|now)$"))
    expect(page.get_by_text("This machine's clock is 2 h ahead of the server's.")).to_be_visible()


SCROLLED = """[...document.querySelectorAll(".table-box")].filter(box => box.scrollWidth > box.clientWidth).map(box => box.ariaLabel)"""


def test_names_as_long_as_they_may_be_and_in_either_direction_fit_a_phone(page: Page, shown: Showcase) -> None:
    long, turned = "w" * 200, ("\u05e9\u05dc\u05d5\u05dd_" * 12 + "\u202eevil " + HOSTILE)[:200]
    shown.ask("POST", "/v1/queues", {"name": long})
    worker = shown.ask("POST", "/v1/workers", {"name": long, "queues": [long], "max_concurrency": 1, "version": "1", "hostname": turned})[
        "worker_id"
    ]
    job = shown.enqueue(job_type=long, queue=long, payload={turned: turned}, tags=[turned[:64]], partition_key=turned, max_attempts=1)
    child = shown.enqueue(job_type=long, queue=long, depends_on=[job], on_parent_failure="run")
    [held] = shown.ask("POST", "/v1/claims", {"worker_id": worker, "queues": [long], "limit": 1})["jobs"]
    ack = {
        "job_id": job,
        "lease_token": held["lease_token"],
        "outcome": "fail",
        "error": {"class": "E" * 150, "message": turned, "stack": long},
    }
    shown.ask("POST", "/v1/acks", {"acks": [ack]})
    shown.ask(
        "PUT", f"/v1/schedules/{long}", {"cron": "30 2 * * *", "timezone": "America/Argentina/ComodRivadavia", "job": {"job_type": long}}
    )
    shown.ask("PUT", f"/v1/rate-classes/{long}", {"limit": 1, "window_ms": 1_000})
    shown.ask("PUT", f"/v1/concurrency-limits/{long}", {"job_type": long, "max_concurrent": 1})
    shown.ask("POST", "/v1/retry-policies", {"name": long, "strategy": "fixed", "base_delay_ms": 1_000, "max_attempts": 2})
    shown.ask("PATCH", f"/v1/queues/{long}", {"default_retry_policy": long})
    shown.ask("POST", "/v1/batches", {"name": long, "seal": True, "jobs": [{"job_type": long, "queue": long}]})
    page.set_viewport_size(NARROW)
    for place in (
        "", "jobs", f"jobs/{job}", f"jobs/{child}", "dead-letters", "dead-letters?view=jobs", "queues", f"queues/{long}",
        f"queues/{long}?open=edit", "limits", f"limits?open=class&on={long}", "retry-policies", "batches", "workers", "keys", "projects",
        "schedules", f"schedules/{long}", f"workers/{worker}",
    ):  # fmt: skip
        go(page, shown, place)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], place
        assert page.evaluate(SCROLLED) == [], f"tables that are scrolled sideways: {place}"
        if "open=" in place:
            assert page.get_by_role("dialog").evaluate("box => box.scrollWidth - box.clientWidth") <= 0, place
            page.keyboard.press("Escape")
    assert page.locator("main img, main script").count() == 0


def test_every_list_is_walked_and_opened_by_keys_alone(page: Page, shown: Showcase) -> None:
    for place, leads_to in LISTS.items():
        go(page, shown, place)
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_contain_text("next row")
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        expect(page.locator("main tr.at")).to_have_count(1)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(f"/{leads_to}[^/]+$"))


def test_a_dialog_gives_the_focus_back_to_what_opened_it(page: Page, shown: Showcase) -> None:
    go(page, shown, "jobs")
    columns = page.get_by_role("button", name="Columns")
    columns.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Columns")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(columns).to_be_focused()


def test_family_is_a_graph_whose_members_are_reached_by_keys(page: Page, shown: Showcase) -> None:
    go(page, shown, f"jobs/{shown.jobs['child']}")
    family = page.get_by_role("group", name="Family: 3 parents, 8 children")
    links = family.get_by_role("link")
    expect(links).to_have_count(11)
    expect(links.first).to_have_accessible_name(re.compile(r"^parent family.parent …[0-9a-f-]+, pending$"))
    links.first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="family.parent")).to_be_visible()


def test_diagram_tells_the_way_that_this_job_took(page: Page, shown: Showcase) -> None:
    go(page, shown, f"jobs/{shown.jobs['retried']}")
    way = "queued, claimed, running, scheduled, queued, claimed, running, scheduled"
    expect(page.get_by_role("img", name=f"The way so far: {way}")).to_be_visible()
    expect(page.locator("svg.states .times").first).to_have_text("2×")
    go(page, shown, f"jobs/{shown.jobs['queued']}")
    expect(page.get_by_role("img", name="The way so far: queued", exact=True)).to_be_visible()
    expect(page.locator("svg.states .times")).to_have_count(0)


def test_verdict_names_the_queue_that_nobody_takes_from(page: Page, shown: Showcase) -> None:
    go(page, shown, "")
    verdict = page.get_by_role("status", name="Verdict")
    expect(verdict).to_contain_text("Something is wrong")
    expect(verdict).to_contain_text(re.compile("No live worker takes from billing|No worker is alive"))
    verdict.get_by_role("link", name="reports is paused").click()
    expect(page.get_by_role("heading", name="reports", exact=True)).to_be_visible()


def test_verdict_tells_of_a_webhook_that_is_paused_and_leads_to_it(page: Page, shown: Showcase) -> None:
    url = shown.ask("GET", "/v1/webhook")["url"]
    shown.ask("PUT", "/v1/webhook", {"url": url, "is_paused": True})
    go(page, shown, "")
    page.get_by_role("status", name="Verdict").get_by_role("link", name="The error webhook is paused").click()
    expect(page.get_by_role("region", name="Error webhook")).to_contain_text("paused")
    shown.ask("PUT", "/v1/webhook", {"url": url, "is_paused": False})


LINKED = {
    "jobs/{queued}?open=edit": "Edit this job",
    "limits?open=class&on=mail": "Edit mail",
    "limits?open=class&on=never-made": "This cannot be shown",
    "queues/billing?open=weight&on=tenant-1": "Weight of tenant-1",
    "jobs?queue=billing&open=plan&on={operation}": "cancel all that match",
}


def test_a_link_opens_what_was_open_and_closing_it_leaves_the_screen_as_it_was(page: Page, shown: Showcase) -> None:
    for link, title in LINKED.items():
        page.goto("about:blank")
        go(page, shown, link.format(**shown.jobs, operation=shown.operation))
        dialog = page.get_by_role("dialog", name=title)
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        screen = link.split("open=")[0].rstrip("?&").format(**shown.jobs)
        assert page.url.endswith(f"/{screen}")
    expect(page.get_by_role("table", name="Jobs")).to_contain_text("mail.send")


def test_back_closes_a_form_and_forward_opens_it_again(page: Page, shown: Showcase) -> None:
    go(page, shown, "schedules")
    go(page, shown, "schedules/nightly-report")
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(page.get_by_role("heading", name="Edit nightly-report")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="nightly-report", exact=True)).to_be_visible()
    page.go_forward()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("heading", name="nightly-report", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Schedules", exact=True)).to_be_visible()


def test_what_if_stands_in_the_address_so_that_a_link_asks_it_and_back_asks_what_was_before(page: Page, shown: Showcase) -> None:
    go(page, shown, "queues/billing?what_if=yes&workers=3&weights=tenant-1%3D3")
    what_if, waits = page.get_by_role("region", name="What if?"), page.get_by_role("region", name="Simulated waits")
    workers, weights = what_if.get_by_label("Jobs that all workers run at once"), what_if.get_by_label("Weights of partitions")
    expect(waits).to_contain_text("tenant-1")
    expect(workers).to_have_value("3")
    expect(weights).to_have_value("tenant-1=3")
    workers.fill("5")
    weights.fill("")
    what_if.get_by_role("button").click()
    expect(page).to_have_url(re.compile(r"what_if=yes&workers=5$"))
    expect(workers).to_have_value("5")
    page.go_back()
    expect(workers).to_have_value("3")
    expect(weights).to_have_value("tenant-1=3")
    expect(waits).to_contain_text("tenant-1")
    go(page, shown, "queues/billing?what_if=yes&workers=0")
    expect(what_if.get_by_role("alert").first).to_contain_text("greater than or equal to 1")
    expect(waits).to_have_count(0)


def test_chosen_columns_stand_in_the_address_and_back_brings_those_before(page: Page, shown: Showcase) -> None:
    heads = page.get_by_role("table", name="Jobs").locator("thead th:not(.pick)")
    go(page, shown, "jobs?state=dead_letter")
    expect(heads).to_have_text(["Id", "Type", "State", "Queue", "Attempt", "Created", "Error"])
    page.get_by_role("button", name="Columns").click()
    dialog = page.get_by_role("dialog", name="Columns")
    for name in ("Id", "Queue", "Tags"):
        dialog.get_by_label(name, exact=True).click()
    dialog.get_by_role("button", name="Done").click()
    chosen = ["Type", "State", "Attempt", "Created", "Error", "Tags"]
    expect(heads).to_have_text(chosen)
    expect(page).to_have_url(re.compile(r"state=dead_letter&columns=type\+state\+attempt\+created\+error\+tags$"))
    page.go_back()
    expect(heads).to_have_text(["Id", "Type", "State", "Queue", "Attempt", "Created", "Error"])
    go(page, shown, "jobs")
    expect(heads).to_have_text(chosen)  # what was chosen last is what this reader likes
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("The link is on the clipboard.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").endswith("/jobs?columns=type+state+attempt+created+error+tags")
    go(page, shown, "jobs?columns=state")
    expect(heads).to_have_text(["State"])


def test_why_a_job_waits_names_times_and_jobs_as_such(page: Page, shown: Showcase) -> None:
    shown.ask("POST", "/v1/queues", {"name": "alone"})
    worker = {"name": "was-here", "queues": ["alone"], "max_concurrency": 1, "version": "1", "hostname": "h", "lease_ms": 600_000}
    was_here = shown.ask("POST", "/v1/workers", worker)["worker_id"]
    first, second = (shown.enqueue(job_type="alone", queue="alone", concurrency={"limit": 1}, rate_class="unmade") for _ in range(2))
    [held] = shown.ask("POST", "/v1/claims", {"worker_id": was_here, "queues": ["alone"], "limit": 1})["jobs"]
    assert held["id"] == first
    with psycopg.connect(shown.dev.dsn, autocommit=True) as conn:
        conn.execute("update tidemill.workers set last_seen_at = now() - interval '3 hours' where id = %s", [was_here])
    go(page, shown, f"jobs/{second}")
    why = page.get_by_role("region", name="Why is it not running?")
    expect(why).to_contain_text("no live worker listens, the last one was seen at 3 h ago")
    expect(why.get_by_role("link")).to_have_attribute("href", re.compile(f"/jobs/{first}$"))
    expect(why).to_contain_text("Beside that: rate class unmade does not exist: it holds nothing back")
    assert not re.search(r"\d{4}-\d\d-\d\d|[a-z]_[a-z]", why.inner_text()), "no raw instant, no code"
