"""What the jobs of schedules need, and what is wrong with them: looked up once for many schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tidemill.domain.errors import Fault, Invalid
from tidemill.domain.keys import canonical_json
from tidemill.domain.schedule import Schedule
from tidemill.engine.occurrence import job_of
from tidemill.engine.schedule_store import Needs, ScheduleStore


class Known:
    """Queues, policies and shapes of jobs of one project, each asked for once. Within one transaction."""

    def __init__(self, store: ScheduleStore, project_id: str) -> None:
        self._store, self._project_id = store, project_id
        self._needs: dict[tuple[str, str | None], Needs] = {}
        self._faults: dict[str, str | None] = {}

    def check(self, schedules: Sequence[Schedule], at: datetime) -> None:
        """Looks at the shapes of all their jobs in one call."""
        jobs = {canonical_json(dict(job)): job for schedule in schedules for job in (_plain(schedule, at),)}
        self._faults |= dict(zip(jobs, self._store.job_faults(list(jobs.values())), strict=True)) if jobs else {}

    def needed(self, schedule: Schedule, at: datetime) -> Needs:
        """Queue and policy of its jobs; Invalid for what is wrong with the job, as an occurrence would find it."""
        job = schedule.spec.job
        policy = job.get("retry_policy")
        needs = self._found(str(job["queue"]), policy if isinstance(policy, str) else None)
        queue, faults = str(job["queue"])[:200], []
        if needs.queue_id is None:
            faults.append(Fault(("job", "queue"), f"queue {queue!r} does not exist in this project: create it or use an existing one"))
        elif needs.is_closed:
            faults.append(Fault(("job", "queue"), f"queue {queue!r} is closed to new jobs: it is being removed"))
        if isinstance(policy, str) and needs.policy_id is None:
            faults.append(Fault(("job", "retry_policy"), f"retry policy {policy[:200]!r} does not exist in this project"))
        if (fault := self._fault(schedule, at)) is not None:
            field, _, text = fault.partition(": ")
            faults.append(Fault(("job", field), text))
        if faults:
            raise Invalid(faults)
        return needs

    def _found(self, queue: str, policy: str | None) -> Needs:
        if (queue, policy) not in self._needs:
            self._needs[queue, policy] = self._store.needs(self._project_id, queue, policy)
        return self._needs[queue, policy]

    def _fault(self, schedule: Schedule, at: datetime) -> str | None:
        job = _plain(schedule, at)
        key = canonical_json(dict(job))
        if key not in self._faults:
            self._faults[key] = self._store.job_fault(job)
        return self._faults[key]


def _plain(schedule: Schedule, at: datetime) -> dict[str, object]:
    """Its job without what is the schedule's own, which no shape can be wrong about."""
    return {name: value for name, value in job_of(schedule, at).items() if name not in ("scheduled_job_id", "scheduled_for", "run_at")}
