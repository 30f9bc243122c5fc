"""The way out that `tidemill explain` tells of each reason."""

import shlex
from dataclasses import replace
from importlib import import_module
from typing import Any, get_args

import pytest
import typer

from tidemill.cli.app import COMMANDS
from tidemill.cli.explain import lines
from tidemill.cli.remedies import remedies
from tidemill.client.models import Job
from tidemill.http.explain import Reason

JOB = Job(
    id="01a2", job_type="video.render", queue="slow lane", state="queued", raw={"rate_class": "mail", "fingerprint": "53483cb46c6e77"}
)


KIN = [{"id": f"p{n}", "job_type": "extract", "state": state} for n, state in enumerate(["completed", *["queued"] * 5])]


def ways_out(reason: str, detail: str = "", job: Job = JOB) -> list[str]:
    return remedies(job, {"reason": reason, "detail": detail, "since": None, "clears_at": None})


@pytest.mark.parametrize("reason", get_args(Reason))
def test_every_reason_has_a_way_out(reason: str) -> None:
    assert ways_out(reason)


@pytest.mark.parametrize(
    ("reason", "detail", "told"),
    [
        ("queue_paused", "queue slow lane is paused", "tidemill queues resume 'slow lane'"),
        ("held", "held until somebody promotes it", "tidemill jobs promote 01a2"),
        ("quarantine", "its fingerprint is quarantined", "tidemill quarantine show 53483cb46c6e"),
        ("rate_class", "rate class mail is paused", "tidemill rate-classes resume mail"),
        ("rate_class", "rate class mail has 0.5 tokens, the job costs 1", "it refills by itself"),
        (
            "concurrency_key",
            "2 of 2 places of the standing limit few on video.render are taken",
            "tidemill limits put few --type video.render",
        ),
        ("concurrency_key", "2 of 2 places of key 'x' are taken by 01a3", "is said by each job when it is enqueued"),
        ("concurrency_key", "0 of 0 places of the standing limit few on video.render are taken", "a limit of 0 lets nothing run"),
        ("no_live_worker", "no worker listens to its queue and type", "--queues 'slow lane'"),
    ],
)
def test_way_out_names_the_thing_and_the_command(reason: str, detail: str, told: str) -> None:
    assert told in "\n".join(ways_out(reason, detail))


@pytest.mark.parametrize("reason", get_args(Reason))
@pytest.mark.parametrize("detail", ["", "2 of 2 places of the standing limit few on video.render are taken", "rate class mail is paused"])
def test_each_command_that_is_told_is_one_with_these_options(reason: str, detail: str) -> None:
    for way in ways_out(reason, detail, replace(JOB, raw={**JOB.raw, "parents": KIN})):
        _, said, words = way.partition("tidemill ")
        name, *rest = shlex.split(words) if said else ("", "")
        command = typer.main.get_command(import_module(COMMANDS[name][0]).app) if said else None
        while (verbs := getattr(command, "commands", None)) is not None:
            command = verbs[rest.pop(0)]
        options = {word for one in command.params for word in one.opts} if command else set()
        assert {word for word in rest if word.startswith("--")} <= options


def test_parents_that_are_waited_for_are_named_and_not_those_that_ended() -> None:
    told = ways_out("dependencies", job=Job(id="01a2", job_type="load", queue="q", state="pending", raw={"parents": KIN}))
    assert told == [
        *(f"why that one waits (extract, queued): tidemill explain p{n}" for n in (1, 2, 3)),
        "and 2 more: tidemill jobs show 01a2",
        "let it go without them: tidemill jobs promote 01a2",
    ]


def test_a_job_without_a_reason_but_with_others_in_front_waits_for_its_turn() -> None:
    found: dict[str, Any] = {"state": "queued", "admissible": True, "blocked_by": [], "position": 29, "estimated_start_at": None}
    job = Job(id="01a2", job_type="t", queue="q", state="queued", raw={"partition_key": "tenant-3", "sticky_worker": "gpu"})
    assert list(lines(job, found)) == [
        "No limit holds it back: it waits for its turn.",
        "While a worker named gpu is live, only that one may take it; else any may.",
        "In front of it: 29 jobs of partition tenant-3 under the same limits; other partitions of the queue have their turns, too.",
    ]
