"""The way out of each reason why a job does not run: what to wait for, and the command that ends it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tidemill.client.models import Job

PARENTS: Final = 3
_ENDS: Final = "it goes when one of those ends"


def remedies(job: Job, reason: Mapping[str, Any]) -> list[str]:
    """Lines for whoever is on call, each with a command that can be typed as it stands, or with what there is to wait for."""
    found = _WAYS.get(reason["reason"])
    return [] if found is None else list(found(job, reason["detail"]))


def _final(job: Job, _: str) -> Iterator[str]:
    yield f"run it again: tidemill jobs {'retry' if 'retry' in job.actions else 'rerun'} {job.id}"


def _leased(job: Job, _: str) -> Iterator[str]:
    yield f"what it does: tidemill jobs logs {job.id}"
    yield f"stop it: tidemill jobs cancel {job.id}"


def _dependencies(job: Job, _: str) -> Iterator[str]:
    waits = [one for one in job.raw.get("parents") or () if one["state"] not in ("completed", "cancelled", "dead_letter")]
    for one in waits[:PARENTS]:
        yield f"why that one waits ({one['job_type']}, {one['state']}): tidemill explain {one['id']}"
    if len(waits) > PARENTS:
        yield f"and {len(waits) - PARENTS:,} more: tidemill jobs show {job.id}"
    yield f"let it go without them: tidemill jobs promote {job.id}"


def _held(job: Job, _: str) -> Iterator[str]:
    yield f"let it go: tidemill jobs promote {job.id}"


def _schedule(job: Job, _: str) -> Iterator[str]:
    yield f"have it now: tidemill jobs promote {job.id}"


def _queue_paused(job: Job, _: str) -> Iterator[str]:
    yield f"end the pause: tidemill queues resume {shlex.quote(job.queue)}"


def _queue_concurrency(job: Job, detail: str) -> Iterator[str]:
    yield _ends(detail)
    yield f"more at once: tidemill queues set {shlex.quote(job.queue)} --max-concurrency N"
    yield "unless a standing limit is the smaller one: tidemill limits list"


def _quarantine(job: Job, _: str) -> Iterator[str]:
    fingerprint = str(job.raw.get("fingerprint") or "")[:12]
    if not fingerprint:
        yield "what happened: tidemill quarantine list"
        return
    for label, verb in (("what happened", "show"), ("try it again", "release"), ("cancel what is set aside", "discard")):
        yield f"{label}: tidemill quarantine {verb} {fingerprint}"


def _concurrency_key(job: Job, detail: str) -> Iterator[str]:
    yield _ends(detail)
    if standing := re.search(r"places of the standing limit (.+) on ", detail):
        named = f"{shlex.quote(standing[1])} --type {shlex.quote(job.job_type)}"
        yield f"more at once: tidemill limits put {named} --max-concurrent N"
    else:
        yield "how many is said by each job when it is enqueued (concurrency)"


def _rate_class(job: Job, detail: str) -> Iterator[str]:
    name = shlex.quote(str(job.raw.get("rate_class") or ""))
    if detail.endswith("is paused"):
        yield f"end the pause: tidemill rate-classes resume {name}"
    elif "Retry-After" in detail:
        yield "it opens by itself: whoever was called asked for that time"
    else:
        yield "it refills by itself"
        yield f"a higher rate: tidemill rate-classes put {name} --limit N --window TIME"


def _sticky_worker(job: Job, _: str) -> Iterator[str]:
    yield f"that worker does not take this type from {job.queue}: have it do so, or stop it and any other may"


def _no_live_worker(job: Job, _: str) -> Iterator[str]:
    yield f"start one: tidemill worker MODULE:APP --queues {shlex.quote(job.queue)}"
    yield "who is there: tidemill workers list"


def _ends(detail: str) -> str:
    return "a limit of 0 lets nothing run" if detail.startswith("0 of 0 ") else _ENDS


_WAYS: Final[Mapping[str, Callable[[Job, str], Iterator[str]]]] = {
    "final": _final,
    "leased": _leased,
    "dependencies": _dependencies,
    "held": _held,
    "schedule": _schedule,
    "queue_paused": _queue_paused,
    "queue_concurrency": _queue_concurrency,
    "quarantine": _quarantine,
    "concurrency_key": _concurrency_key,
    "rate_class": _rate_class,
    "sticky_worker": _sticky_worker,
    "no_live_worker": _no_live_worker,
}
