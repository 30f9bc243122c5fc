"""Every screen: shows what there is, has no accessibility fault, fits a phone, in both themes; a picture of each is kept to look at."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import BrowserContext, Page, expect

from frontend.conftest import NARROW, SHOTS, WIDE, go
from harness.showcase import Showcase

IN_DARK = {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]}
"""Only colours differ between the themes."""
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}, "resultTypes": ["violations"]}
SCREENS = {
    "overview": ("", "Backlog per queue"),
    "jobs": ("jobs", "mail.send"),
    "job-new": ("new-job", "More fields"),
    "job-dead": ("jobs/{dead}", "SmtpError"),
    "job-running": ("jobs/{running}", "3 of 10"),
    "job-queued": ("jobs/{queued}", "Why is it not running?"),
    "job-child": ("jobs/{child}", "Family"),
    "job-retried": ("jobs/{retried}", "mailbox is busy"),
    "dead-letters": ("dead-letters", "SmtpError"),
    "dead-letters-one-by-one": ("dead-letters?view=jobs", "Timeout"),
    "queues": ("queues", "reports"),
    "queue": ("queues/billing", "Partitions"),
    "limits": ("limits", "Standing limits"),
    "retry-policies": ("retry-policies", "gently"),
    "schedules": ("schedules", "nightly-report"),
    "schedule": ("schedules/nightly-report", "Europe/Berlin"),
    "schedule-new": ("new-schedule", "It would fire"),
    "batches": ("batches", "import"),
    "batch": ("batches/{batch}", "Callbacks"),
    "workers": ("workers", "worker-a"),
    "worker": ("workers/{worker}", "host-a"),
    "operations": ("operations", "cancel"),
    "operation": ("operations/{operation}", "This will cancel"),
    "account": ("account", "Change the password"),
    "keys": ("keys", "enqueue"),
    "members": ("members", "owner"),
    "projects": ("projects", "Error webhook"),
    "audit": ("audit", "queues.create"),
}


def place_of(shown: Showcase, name: str) -> str:
    return place_in(shown, SCREENS[name][0])


def place_in(shown: Showcase, pattern: str) -> str:
    return pattern.format(**shown.jobs, batch=shown.batch, worker=shown.worker, operation=shown.operation)


def faults(page: Page, rules: dict[str, Any] = RULES, within: str | None = None) -> list[str]:
    """What axe finds, each with the elements that have it. `within`: in this element alone."""
    if not page.evaluate("'axe' in window"):  # half a megabyte: once for each document
        page.evaluate(AXE_SCRIPT)
    found: list[dict[str, Any]] = page.evaluate("([within, rules]) => axe.run(within ?? document, rules)", [within, rules])["violations"]
    return [f"{fault['id']}: {[node['target'] for node in fault['nodes']][:3]}" for fault in found]


@pytest.mark.parametrize("name", SCREENS)
def test_screen_shows_what_there_is_without_a_fault_in_both_themes(page: Page, shown: Showcase, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        go(page, shown, place_of(shown, name))
        expect(page.locator("main")).to_contain_text(SCREENS[name][1])
        page.screenshot(path=SHOTS / f"{name}-{theme}.png", full_page=True)
        assert faults(page, RULES if theme == "light" else IN_DARK) == []
    page.set_viewport_size(NARROW)
    page.screenshot(path=SHOTS / f"{name}-360.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_who_is_not_signed_in_sees_a_form_without_a_fault_in_both_themes(context: BrowserContext, shown: Showcase) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page = context.new_page()
    page.goto(shown.url)
    page.get_by_label("E-mail").wait_for()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.screenshot(path=SHOTS / f"sign-in-{theme}.png")
        assert faults(page, RULES if theme == "light" else IN_DARK) == []
    page.get_by_role("button", name="With an API key").click()
    page.set_viewport_size(NARROW)
    page.screenshot(path=SHOTS / "sign-in-360.png")
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


DIALOGS = {
    "queue-new": ("queues", "New queue"),
    "queue-edit": ("queues/billing", "Edit"),
    "queue-delete": ("queues/billing", "Delete"),
    "partition-weight": ("queues/billing", "Weight of tenant-1: 1, change it"),
    "rate-class-edit": ("limits", "Edit mail"),
    "limit-new": ("limits", "New limit"),
    "policy-edit": ("retry-policies", "Edit gently"),
    "job-edit": ("jobs/{queued}", "edit"),
    "batch-cancel": ("batches/{batch}", "Cancel"),
    "key-new": ("keys", "New key"),
    "key-rotate": ("keys", "Rotate showcase"),
    "member-add": ("members", "Add somebody"),
    "organization": ("members", "Settings of My organization"),
    "password": ("account", "Change the password"),
    "project-delete": ("projects", "Delete"),
    "webhook": ("projects", "Change it"),
    "audit-change": ("audit", "What changed: queues.create hostile"),
    "plan": ("dead-letters", "Discard all…"),
}


IN_DARK_TOO = frozenset({"queue-delete", "key-new", "audit-change", "plan"})
"""Every colour that a dialog has is in one of these."""


def test_every_dialog_has_no_fault_in_either_theme_and_fits_a_phone(page: Page, shown: Showcase) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    for name, (place, button) in DIALOGS.items():
        go(page, shown, place_in(shown, place))
        page.get_by_role("button", name=button, exact=True).first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button").last.wait_for()
        for theme, rules in (("light", RULES), ("dark", IN_DARK)):
            page.emulate_media(color_scheme=theme)
            page.screenshot(path=SHOTS / f"dialog-{name}-{theme}.png")
            if theme == "light" or name in IN_DARK_TOO:
                assert faults(page, rules, "dialog") == [], name
        page.set_viewport_size(NARROW)
        page.screenshot(path=SHOTS / f"dialog-{name}-360.png")
        wide = dialog.evaluate("box => box.scrollWidth - box.clientWidth")
        assert wide <= 0, f"{name} is {wide} px too wide"
        page.set_viewport_size(WIDE)
        if "open=" in page.url:
            page.go_back()
        else:
            page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        assert page.url.endswith(f"/{place_in(shown, place)}"), "Back leads over the dialog, not off the screen"
