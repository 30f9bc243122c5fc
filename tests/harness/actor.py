"""A process of its own that works on a mill: `python -m harness.actor DSN PROJECT VERB [COUNT]`, one JSON line per step on stdout.

claim    claims and completes until three claims in a row come back empty; a line of [job_id, fence] pairs per claim
hoard    like claim, but keeps what it claims
reap     reaps until a pass finds nothing; a line with the count per pass
stuck    begins a pass of the reaper, says "holding" with everything written and nothing committed, and waits to be killed
churn    says its worker id, waits for a word, then claims and completes until nothing is left; a line of job ids per claim
claims   claims once in an open transaction, says "holding", and waits to be killed
"""

import json
import sys
from typing import Any

from harness.mill import Mill
from tidemill.engine.reap import reap
from tidemill.store.database import connect
from tidemill.store.settles import Settles


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def work(mill: Mill, count: int, *, completes: bool) -> None:
    empty = 0
    while empty < 3:
        jobs = mill.claim(count, lease_ms=600_000)
        empty = 0 if jobs else empty + 1
        if jobs:
            say([[job.job_id, job.fence] for job in jobs])
        if completes:
            for job in jobs:
                if mill.complete(job).status != "ok":
                    say("an ack was refused")


def churn(mill: Mill, count: int) -> None:
    say(mill.worker_id)
    sys.stdin.readline()
    left = "select 1 from tidemill.job_queue_entries union all select 1 from tidemill.job_leases limit 1"
    while mill.conn.execute(left.encode()).fetchone() is not None:
        if jobs := mill.claim(count, lease_ms=600_000):
            say([job.job_id for job in jobs])
        for job in jobs:
            mill.complete(job)


def hold() -> None:
    say("holding")
    sys.stdin.read()


def main(dsn: str, project_id: str, verb: str, count: int) -> None:
    mill = Mill(dsn, connect(dsn), project_id)
    if verb in ("claim", "hoard"):
        work(mill, count, completes=verb == "claim")
    elif verb == "churn":
        churn(mill, count)
    elif verb == "reap":
        while expired := mill.reap(limit=count).expired:
            say(expired)
    elif verb == "stuck":
        settle = Settles.settle

        def settled_and_held(self: Settles, moves: Any, **how: Any) -> Any:
            found = settle(self, moves, **how)
            hold()
            return found

        Settles.settle = settled_and_held
        reap(mill.store, limit=count, roll=mill.roll)
    elif verb == "claims":
        with mill.conn.transaction():
            say([[job.job_id, job.fence] for job in mill.claim(count)])
            hold()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 10)
