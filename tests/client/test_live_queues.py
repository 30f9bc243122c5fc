"""`tidemill queues`, `rate-classes`, `limits` and `explain` against a whole local instance, and the calls behind them."""

import json
import re
from collections.abc import Callable

from tidemill.client import Client

Say = Callable[..., str]


def test_queues_are_listed_shown_set_paused_and_resumed(client: Client, say: Say) -> None:
    client.create_queue("mail/bulk", priority=5)
    listed = say("queues", "list")
    assert "mail/bulk" in listed
    assert listed.splitlines()[0].split() == ["name", "state", "priority", "weight", "at", "once", "holds", "at", "most", "lease"]
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
    assert "→ end the pause: tidemill queues resume slow\n" in text
    assert f"→ have it now: tidemill jobs promote {job}\n" in text
    assert "  3. no_live_worker  no worker listens to its queue and type\n" in text
    assert "Note: rate class unknown does not exist: it holds nothing back.\n" in text
    assert "When it may start is not known" in text
    assert "You may: cancel" in text
    assert json.loads(say("explain", job, "--json"))["admissible"] is False
    client.cancel(job)
    assert "1. final" in say("explain", job)
    assert "no job" in say("explain", "00000000-0000-4000-8000-000000000000", code=1)


def test_explain_tells_the_way_out_of_what_the_gates_really_say(client: Client, say: Say) -> None:
    say("limits", "put", "none-at-all", "--type", "video", "--max-concurrent", "0")
    say("rate-classes", "put", "mail", "--limit", "1", "--window", "1h", "--burst", "1")
    say("rate-classes", "pause", "mail")
    text = say("explain", client.enqueue("video").id)
    assert "→ a limit of 0 lets nothing run\n" in text
    assert "→ more at once: tidemill limits put none-at-all --type video --max-concurrent N\n" in text
    mail = client.enqueue("report", rate_class="mail").id
    assert "→ end the pause: tidemill rate-classes resume mail\n" in say("explain", mail)
    say("rate-classes", "resume", "mail")  # begins with no token
    text = say("explain", mail)
    assert "→ it refills by itself\n" in text
    assert "→ a higher rate: tidemill rate-classes put mail --limit N --window TIME\n" in text
    say("limits", "delete", "none-at-all")
    say("rate-classes", "delete", "mail")


def test_rate_classes_are_put_paused_resumed_and_deleted(client: Client, say: Say) -> None:
    assert say("rate-classes", "list") == "there are no rate classes\n"
    shown = say("rate-classes", "put", "api/mail", "--limit", "90", "--window", "1m", "--burst", "20")
    assert re.search(r"rate\s+90 per 1m", shown)
    assert re.search(r"burst\s+20\s", shown)
    assert "paused" in say("rate-classes", "pause", "api/mail")
    changed = json.loads(say("rate-classes", "put", "api/mail", "--limit", "80", "--window", "1m", "--json"))
    assert (changed["limit"], changed["burst"], changed["is_paused"]) == (80, 80, True), "a change leaves the pause"
    resumed = json.loads(say("rate-classes", "resume", "api/mail", "--json"))
    assert (resumed["limit"], resumed["window_ms"], resumed["is_paused"], resumed["tokens"] < 5) == (80, 60_000, False, True)
    assert [json.loads(line)["name"] for line in say("rate-classes", "list", "--json").splitlines()] == ["api/mail"]
    assert re.search(r"api/mail +open +80 per 1m +80 ", say("rate-classes", "list"))
    assert say("rate-classes", "delete", "api/mail") == "api/mail: deleted\n"
    assert "no rate class 'api/mail'" in say("rate-classes", "pause", "api/mail", code=1)
    assert "limit" in say("rate-classes", "put", "x", "--limit", "0", code=1)
    assert client.list_rate_classes() == []


def test_standing_limits_are_put_listed_and_deleted(client: Client, say: Say) -> None:
    assert say("limits", "list") == "there are no standing limits\n"
    shown = say("limits", "put", "video", "--type", "video.encode", "--max-concurrent", "3", "--on-saturated", "cancel_running")
    assert re.search(r"on\s+type video.encode\s", shown)
    assert "asks to stop" in shown
    changed = json.loads(say("limits", "put", "video", "--type", "video.encode", "--max-concurrent", "1200", "--json"))
    assert (changed["max_concurrent"], changed["on_saturated"], changed["running"]) == (1200, "queue", 0)
    say("limits", "put", "all", "--queue", "default", "--max-concurrent", "0")
    assert [json.loads(line)["name"] for line in say("limits", "list", "--json").splitlines()] == ["all", "video"]
    assert re.search(r"video +type video.encode +1,200 +0 +waits", say("limits", "list"))
    assert json.loads(say("limits", "delete", "all", "--json")) == {"name": "all", "deleted": True}
    assert say("limits", "delete", "video") == "video: deleted\n"
    assert client.list_limits() == []
    assert "no concurrency limit 'video'" in say("limits", "delete", "video", code=1)
    assert "give either --queue or --type" in say("limits", "put", "x", "--max-concurrent", "1", code=2)
