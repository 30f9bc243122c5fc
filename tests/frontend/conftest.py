"""The built page in a real browser against a real instance.

Needs Chromium (Debian's `chromium`) and the group `page` of requirements; a machine without them skips these tests and says why.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.dev import Dev
from harness.showcase import Showcase, arrange

pytest.importorskip("playwright.sync_api", reason="no playwright here: scripts/setup page")
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / ".tidemill" / "screenshots"
CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
WIDE, NARROW = {"width": 1280, "height": 850}, {"width": 360, "height": 740}
EXPECTED = re.compile(r"status of (401|422) ")
"""A browser logs answers that are no faults: there is no session yet; what is being typed is not right yet."""


@pytest.fixture(scope="session")
def built() -> Path:
    """The page as scripts/build makes it; once, whichever process comes first."""
    lock = ROOT / ".tidemill" / "build.lock"
    lock.parent.mkdir(exist_ok=True)
    dist = ROOT / "frontend" / "dist" / "index.html"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sources = [path.stat().st_mtime for path in (ROOT / "frontend" / "src").rglob("*")]
        if not dist.exists() or dist.stat().st_mtime < max(sources):
            done = subprocess.run([ROOT / "scripts" / "build"], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return dist


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of a module, not of the session: while it is there an event loop counts as running, and other tests run their own."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        # Everything in it is our own and local; a container gives it no room for a sandbox.
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def shown(built: Path) -> Iterator[Showcase]:
    """An instance with something of everything in it."""
    with Dev("--ephemeral", "--port", "0", "--no-worker", "--no-ticks") as dev:
        with arrange(dev.ready()) as showcase:
            yield showcase


class Watch:
    """What the browser complained about."""

    def __init__(self, page: Page) -> None:
        self.said: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", self._on_request)
        self.requests: list[str] = []

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not EXPECTED.search(message.text):
            self.said.append(f"{message.type}: {message.text}")

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith("data:"):
            self.requests.append(request.url)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport=WIDE, permissions=["clipboard-read", "clipboard-write"], reduced_motion="reduce")  # type: ignore[arg-type]
    made.set_default_timeout(20_000)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, shown: Showcase) -> Iterator[Page]:
    """A fresh page, signed in as the owner. Whatever the browser complains about, and any request to elsewhere, fails the test."""
    opened = context.new_page()
    watch = Watch(opened)
    sign_in(opened, shown)
    yield opened
    assert watch.said == []
    assert [url for url in watch.requests if not url.startswith(shown.url + "/")] == []


def sign_in(page: Page, shown: Showcase, email: str = "", password: str = "") -> None:
    """Through the form, as a person does."""
    page.goto(shown.url)
    page.get_by_label("E-mail").fill(email or shown.email)
    page.get_by_label("Password").fill(password or shown.password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("navigation", name="Screens").wait_for()


def go(page: Page, shown: Showcase, place: str) -> None:
    """To a screen, until it shows what it has."""
    page.goto(f"{shown.url}/#/p/{shown.project}/{place}")
    page.locator("main h1, main h2, main .empty").first.wait_for()
    expect(page.locator(".loading")).to_have_count(0)
