"""Whether the demo's jobs say the same as a direct count, and each ended exactly once by its ack."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tidemill.cli.demo_files import Count
from tidemill.store.demo import Became


@dataclass(slots=True)
class Proof:
    """`faults` is empty when everything is right. Waits are from due to start, of the completing attempts."""

    jobs: int = 0
    completed: int = 0
    unreadable: int = 0
    bytes: int = 0
    lines: int = 0
    run_again: int = 0
    summed_up: int = 0
    fired: int = 0
    secs: float = 0.0
    jobs_per_s: float = 0.0
    wait_p50_ms: float = 0.0
    wait_p95_ms: float = 0.0
    faults: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "proved": not self.faults}


def prove(found: Sequence[Became], direct: Mapping[str, Count | None]) -> Proof:
    """Compares job by job, then the totals."""
    proof = Proof(jobs=len(found), run_again=sum(became.lost > 0 for became in found))
    seen = {became.path for became in found}
    if len(seen) != len(found):
        proof.faults.append(f"{len(found) - len(seen)} files have more than one job")
    proof.faults += [f"no job for {path!r}" for path in direct if path not in seen]
    for became in found:
        _one(proof, became, direct.get(became.path))
    totals = [count for count in direct.values() if count is not None]
    for what in ("bytes", "lines"):
        said, counted = getattr(proof, what), sum(getattr(count, what) for count in totals)
        if said != counted:
            proof.faults.append(f"the jobs count {said:,} {what}, a direct count {counted:,}")
    _times(proof, found)
    return proof


def prove_sum(proof: Proof, sums: Sequence[Became]) -> None:
    """The batch's callback ran once, after all members, and its sums are theirs."""
    said = [became.result for became in sums if became.status == "completed" and became.completions == 1]
    if len(sums) != 1 or len(said) != 1:
        proof.faults.append(f"the batch's callback must run exactly once; {len(sums)} were created and {len(said)} completed")
        return
    proof.summed_up = said[0]["jobs"]
    right = {"jobs": proof.jobs, "bytes": proof.bytes, "lines": proof.lines}
    if said[0] != right:
        proof.faults.append(f"the batch's callback says {said[0]}, the jobs say {right}")


def prove_schedule(proof: Proof, occurrences: Sequence[Became]) -> None:
    """The schedule fired while the rest ran: each second once, and none was completed twice."""
    proof.fired = sum(became.status == "completed" for became in occurrences)
    if proof.fired == 0:
        proof.faults.append("the schedule did not fire")
    if len({became.path for became in occurrences}) != len(occurrences):
        proof.faults.append("an occurrence of the schedule exists more than once")
    proof.faults += [
        f"the occurrence of {became.path} completed {became.completions} times"
        for became in occurrences
        if became.completions != (became.status == "completed")
    ]


def _one(proof: Proof, became: Became, direct: Count | None) -> None:
    if direct is None:
        proof.unreadable += 1
        right = became.status == "dead_letter" and became.failures == 1 and became.completions == 0
        if not right:
            proof.faults.append(f"{became.path!r} cannot be read, but its job is {became.status} after {became.failures} failures")
        return
    proof.completed += 1
    if became.status != "completed" or became.completions != 1 or became.acked != 1 or became.failures:
        proof.faults.append(f"{became.path!r}: {became.status}, completed {became.completions} times, {became.acked} of them by an ack")
    elif Count(**became.result) != direct:
        proof.faults.append(f"{became.path!r}: the job's count differs from a direct one")
    else:
        proof.bytes += direct.bytes
        proof.lines += direct.lines


def _times(proof: Proof, found: Sequence[Became]) -> None:
    waits = [became.wait_s * 1000 for became in found if became.wait_s is not None]
    began = [became.began_at for became in found if became.began_at is not None]
    ended = [became.ended_at for became in found if became.ended_at is not None]
    if len(waits) < 2 or not began or not ended:
        return
    proof.secs = round((max(ended) - min(began)).total_seconds(), 3)
    proof.jobs_per_s = round(len(found) / max(proof.secs, 1e-3), 1)
    cuts = statistics.quantiles(waits, n=20)
    proof.wait_p50_ms, proof.wait_p95_ms = round(statistics.median(waits), 1), round(cuts[18], 1)
