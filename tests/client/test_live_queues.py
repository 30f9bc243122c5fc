"""`tidemill queues` and `tidemill explain` against a whole local instance, and the calls behind them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from harness.instance import Instance
from tidemill.client import Client

Say = Callable[..., str]


@pytest.fixture
def client(instance: Instance) -> Iterator[Client]:
    with Client(instance.url, instance.api_key) as made:
        yield made


@pytest.fixture
def say(instance: Instance) -> Say:
    """What a command prints; its exit code is as expected."""
    env = {**os.environ, "TIDEMILL_URL": instance.url, "TIDEMILL_API_KEY": instance.api_key}

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run([sys.executable, "-m", "tidemill.cli", *words], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr
        print(done.stdout + done.stderr)  # to be looked at with -s
        return done.stdout + done.stderr

    return run


def test_queues_are_listed_shown_set_paused_and_resumed(client: Client, say: Say) -> None:
    client.create_queue("mail/bulk", priority=5)
    listed = say("queues", "list")
    assert "mail/bulk" in listed
    assert listed.splitlines()[0].split() == ["name", "state", "priority", "weight", "at", "once", "unfinished", "lease"]
    shown = say(
        "queues", "set", "mail/bulk", "--max-concurrency", "3", "--on-saturated", "cancel_running", "--max-unfinished-jobs", "20000"
    )
    assert "3, then asks to stop" in shown
    assert "20,000" in shown
    assert json.loads(say("queues", "set", "mail/bulk", "--max-concurrency", "none", "--json"))["max_concurrency"] is None
    assert "paused" in say("queues", "pause", "mail/bulk")
    assert "open" in say("queues", "resume", "mail/bulk")
    assert json.loads(say("queues", "list", "--json").splitlines()[0])["name"] == "default"
    assert "say what to change" in say("queues", "set", "mail/bulk", code=2)
    assert "takes a whole number or none, not 'many'" in say("queues", "set", "mail/bulk", "--max-concurrency", "many", code=2)
    assert "no queue 'nowhere'" in say("queues", "show", "nowhere", code=1)


def test_explain_says_in_words_why_a_job_does_not_run(client: Client, say: Say) -> None:
    client.create_queue("slow")
    client.pause_queue("slow")
    job = client.enqueue("report", queue="slow", delay_ms=7_200_000, rate_class="unknown").id
    text = say("explain", job)
    assert text.startswith(f"{job}  report in queue slow: scheduled\nIt does not run because, in the order in which a claim asks (3):\n")
    assert re.search(r"  1. schedule        its time has not come  \(since \d+s, clears in 1h 59m\)\n", text)
    assert "  2. queue_paused    queue slow is paused" in text
    assert "  3. no_live_worker  no worker listens to its queue and type\n" in text
    assert "Note: rate class unknown does not exist: it holds nothing back.\n" in text
    assert "When it may start is not known" in text
    assert "You may: cancel" in text
    assert json.loads(say("explain", job, "--json"))["admissible"] is False
    client.cancel(job)
    assert "1. final" in say("explain", job)
    assert "no job" in say("explain", "00000000-0000-4000-8000-000000000000", code=1)
