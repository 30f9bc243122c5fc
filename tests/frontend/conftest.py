"""The built page in a real browser against a real instance.

Needs Chromium (Debian's `chromium`) and the group `page` of requirements; a machine without them skips these tests and says why.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest

from harness.dev import Dev
from harness.showcase import Showcase, arrange
from harness.visited import Visited
from tidemill.http import routes

pytest.importorskip("playwright.sync_api", reason="no playwright here: scripts/setup page")
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

F = TypeVar("F", bound=Callable[..., None])
ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / ".tidemill" / "screenshots"
CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
WIDE, NARROW = {"width": 1280, "height": 850}, {"width": 360, "height": 740}
EXPECTED = re.compile(r"status of (401|404|409|422) ")
"""A browser logs answers that are no faults: no session yet, gone meanwhile, not possible now, not right yet."""
expect.set_options(timeout=60_000)


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


@contextlib.contextmanager
def begun() -> Iterator[Dev]:
    """The instance of these tests. No worker and no ticks run in it: what a test sees is what a test made."""
    with Dev("--ephemeral", "--port", "0", "--no-worker", "--no-ticks") as dev:
        yield dev.ready()


SHARED = Visited(Path(__file__).parent, begun)
pytest_runtest_teardown = SHARED.teardown
pytest_sessionfinish = SHARED.finish


@pytest.fixture(scope="module")
def instance(built: Path) -> Dev:
    return SHARED.get()


@pytest.fixture(scope="module")
def shown(instance: Dev) -> Iterator[Showcase]:
    """A project of the file's own with something of everything in it: what is done there stays there."""
    with arrange(instance) as showcase:
        yield showcase


class Watch:
    """What the browser complained about."""

    def __init__(self, page: Page) -> None:
        self.said: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", self._on_request)
        self.requests: list[str] = []

    def forget(self) -> None:
        """What was said so far was another test's."""
        self.said.clear()
        self.requests.clear()

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not EXPECTED.search(message.text):
            self.said.append(f"{message.type}: {message.text}")

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith("data:"):
            self.requests.append(request.url)


CALLED: set[str] = set()
"""The routes that change something which any page of this process has called since the test began."""


def calls(*routes: str) -> Callable[[F], F]:
    """Says of a test that the page itself calls these routes in it ("POST /v1/jobs"). It is held to it; `test_routes.py` reads it."""

    def mark(test: F) -> F:
        test.__dict__["calls"] = frozenset(routes)
        return test

    return mark


@pytest.fixture(autouse=True)
def kept_word(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that passed has had the page call what it says."""
    CALLED.clear()
    before = request.session.testsfailed
    yield
    promised: frozenset[str] = getattr(request.function, "calls", frozenset())
    if request.session.testsfailed == before:
        assert promised - CALLED == frozenset(), "the page did not call these in it"


def _note_call(request: Request) -> None:
    path = urlsplit(request.url).path
    if request.method != "GET" and path.startswith("/v1/"):
        route = routes.at(path).get(request.method)
        CALLED.add(f"{request.method} {route.path if route else path}")


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser of the test's own: nobody is signed in."""
    with _context(browser) as made:
        yield made


@dataclass
class Tab:
    """The tab that the tests of a file share: signing in anew for each would be most of their time."""

    context: BrowserContext
    shown: Showcase
    page: Page | None = None
    watch: Watch | None = None

    def fresh(self) -> tuple[Page, Watch]:
        """Signed in, wide, with nothing remembered, on no screen's leftovers."""
        if self.page is None or self.watch is None:
            self.page = self.context.new_page()
            self.watch = Watch(self.page)
            sign_in(self.page, self.shown)
        self.page.set_viewport_size(WIDE)
        self.page.emulate_media(color_scheme="light", reduced_motion="reduce")
        self.page.evaluate("localStorage.clear()")
        go(self.page, self.shown, "nowhere")
        if self.page.locator(".word").count():  # what the test before did, and its undo
            self.page.reload()
            go(self.page, self.shown, "nowhere")
        self.watch.forget()
        return self.page, self.watch

    def drop(self) -> None:
        """The next test gets another one: nobody knows what a test that failed left open."""
        if self.page is not None:
            self.page.close()
        self.context.clear_cookies()
        self.page = self.watch = None


@pytest.fixture(scope="module")
def tab(browser: Browser, shown: Showcase) -> Iterator[Tab]:
    with _context(browser) as made:
        yield Tab(made, shown)


@pytest.fixture
def page(tab: Tab, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page, signed in as the owner. Whatever the browser complains about, and any request to elsewhere, fails the test."""
    before = request.session.testsfailed
    opened, watch = tab.fresh()
    yield opened
    said, requests = [*watch.said], [*watch.requests]
    if request.session.testsfailed > before or said:
        tab.drop()
    assert said == []
    assert [url for url in requests if not url.startswith(tab.shown.url + "/")] == []


@contextlib.contextmanager
def _context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport=WIDE, permissions=["clipboard-read", "clipboard-write"], reduced_motion="reduce")
    made.set_default_timeout(60_000)
    made.on("request", _note_call)
    yield made
    made.close()


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
    page.locator(f"main[data-place={json.dumps(page.evaluate('location.hash'))}]").wait_for()
    page.locator("main h1, main h2, main .empty").first.wait_for()
    expect(page.locator(".loading")).to_have_count(0)
