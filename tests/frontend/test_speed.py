"""How quick the page is: what one waits for when it is opened, and what it is like with more rows than anybody reads.

What does not depend on how busy a machine is, is counted: round trips one after another, elements in the document, the time that
the page's own thread was at work. Where only the clock can tell, its bound grows with the machine's load.
"""

from __future__ import annotations

import fcntl
import os
import statistics
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from frontend.conftest import ROOT, Tab, go
from harness.mill import scaled
from harness.showcase import Showcase

ROWS, LINES = min(10_000, scaled(1_200)), 9_500
"""PROOF_SCALE=9 is all that the page keeps: a hundred pages, one after another."""
ASKS = {"": "/v1/stats/overview", "jobs": "/v1/jobs?limit=100", "queues/billing": "/v1/queues/billing"}
FIRST_MS = 1_000
FIRST = ROOT / ".tidemill" / "first-content.txt"
FRAME_MS = 50
MOST_ELEMENTS = 3_000
SEES = """(() => {
  const shows = 'main tbody tr:not(.gap) td, main .tile-value, main .facts dd';
  const look = () => {
    if (window.seenAt !== undefined || !document.querySelector(shows)) return;
    window.seenAt = null;
    requestAnimationFrame(() => setTimeout(() => { window.seenAt = performance.now(); }));
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
})()"""
SCROLLS = """async () => {
  const frames = [];
  let before = performance.now();
  for (let turn = 0; turn < 60; turn += 1) {
    scrollBy(0, 700);
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - before);
    before = performance.now();
  }
  return frames;
}"""


def busy() -> float:
    """How many times longer everything takes here than on a machine that does nothing else: not less than once."""
    return max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.fixture(scope="module")
def crowd(shown: Showcase) -> Showcase:
    """The showcase with more of everything than a screen has room for."""
    shown.ask("POST", "/v1/queues", {"name": "many"})
    for start in range(0, ROWS, 1_000):
        jobs: list[dict[str, Any]] = [{"job_type": "many.one", "queue": "many"} for _ in range(min(1_000, ROWS - start))]
        if start == 0:
            jobs = [job | {"partition_key": f"tenant-{number:04}"} for number, job in enumerate(jobs)]
        shown.ask("POST", "/v1/jobs/bulk", {"jobs": jobs})
    return shown


def opened(tab: Tab, shown: Showcase, place: str) -> tuple[float, list[dict[str, Any]]]:
    """A screen in a tab of its own: when something useful was painted, in ms after the start, and the requests until then."""
    page = tab.context.new_page()
    page.add_init_script(SEES)
    page.goto(f"{shown.url}/#/p/{shown.project}/{place}")
    expect(page.locator("main tbody td, main .tile-value, main .facts dd").first).to_be_visible()
    seen: float | None = None
    while seen is None:
        seen = page.evaluate("() => new Promise((done) => setTimeout(() => done(window.seenAt), 10))")
    asked = page.evaluate("performance.getEntriesByType('resource').map((e) => ({ name: e.name, from: e.startTime, to: e.responseEnd }))")
    page.close()
    return seen, [one for one in asked if one["from"] < seen]


def write_down(place: str, first_ms: float, tries: list[float]) -> None:
    """One line for each screen in `.tidemill/first-content.txt`, for people: the last run's."""
    FIRST.parent.mkdir(exist_ok=True)
    with FIRST.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        lines = dict(line.split("  ", 1) for line in FIRST.read_text().splitlines()) if FIRST.exists() else {}
        load, at = os.getloadavg()[0], datetime.now(UTC)
        lines[place or "overview"] = (
            f"{first_ms:6.0f} ms  of {', '.join(f'{one:.0f}' for one in tries)}; load {load:.1f}, {at:%Y-%m-%d %H:%M} UTC"
        )
        FIRST.write_text("".join(f"{name}  {line}\n" for name, line in sorted(lines.items())))


@pytest.mark.parametrize("place", ASKS)
def test_something_useful_shows_within_a_second(page: Page, tab: Tab, shown: Showcase, place: str) -> None:
    tries = [opened(tab, shown, place) for _ in range(3)]
    first_ms = statistics.median(seen for seen, _ in tries)
    write_down(place, first_ms, [seen for seen, _ in tries])
    assert first_ms < FIRST_MS * busy()
    for _, asked in tries:
        found = {str(one["name"]).removeprefix(shown.url): one for one in asked}
        assert found[ASKS[place]]["from"] < found["/v1/me"]["to"], "asked beside who asks, not after it"


def test_long_list_is_read_to_its_end_and_stays_smooth(page: Page, crowd: Showcase) -> None:
    go(page, crowd, "jobs?queue=many")
    told = page.get_by_role("status").filter(has_text="loaded")
    # As a person who holds the End key down; each turn asks for a page of a hundred.
    page.evaluate("""() => { window.down = setInterval(() => scrollTo(0, document.documentElement.scrollHeight), 20); }""")
    expect(told).to_contain_text(f"{ROWS:,} jobs loaded", timeout=120_000)
    page.evaluate("clearInterval(window.down)")
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
    page.evaluate("scrollTo(0, 0)")
    frames = page.evaluate(SCROLLS)
    assert sum(frame > FRAME_MS * busy() for frame in frames) <= 3, [round(frame) for frame in frames]
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS


def test_a_thousand_partitions_and_ten_thousand_lines_keep_the_document_small(page: Page, crowd: Showcase) -> None:
    go(page, crowd, "queues/many")
    page.evaluate("""() => { window.down = setInterval(() => scrollTo(0, document.documentElement.scrollHeight), 20); }""")
    expect(page.get_by_role("status").filter(has_text="loaded")).to_contain_text("1,001 partitions loaded", timeout=60_000)
    page.evaluate("clearInterval(window.down)")
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
    _write(crowd, LINES)
    go(page, crowd, f"jobs/{crowd.jobs['running']}")
    log = page.get_by_role("region", name="logs", exact=True)
    expect(log).to_contain_text(f"line {LINES - 1} of many", timeout=60_000)
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
    assert log.evaluate("(it) => it.scrollHeight - it.scrollTop - it.clientHeight < 60"), "the end is in sight"


def _write(shown: Showcase, lines: int) -> None:
    job = shown.jobs["running"]
    at = shown.ask("GET", f"/v1/jobs/{job}")["run_at"]
    for start in range(0, lines, 500):
        some = [{"ts": at, "level": "info", "message": f"line {number} of many"} for number in range(start, start + 500)]
        shown.ask("POST", f"/v1/jobs/{job}/logs", {"lease_token": shown.jobs["lease"], "lines": some})
