"""Create jobs: one, or many at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tidemill.domain import keys, limits
from tidemill.domain.errors import Fault, Invalid, PayloadTooLarge
from tidemill.domain.jobs import Enqueued
from tidemill.domain.text import unstorable_paths
from tidemill.engine.enqueue import enqueue
from tidemill.http.body import Body
from tidemill.http.job_view import job_json
from tidemill.http.models.jobs import BulkIn, BulkOut, Created, JobIn
from tidemill.http.operation import Answer, Call, operation
from tidemill.http.tracing import trace_of, traced
from tidemill.http.validation import UNSTORABLE, adapter, checked, faults_of
from tidemill.store.postgres import PostgresStore

TOO_LARGE = f"is over {limits.PAYLOAD_BYTES:,} bytes: store large data elsewhere and send where it is"


@operation(body=JobIn, answers={201: Created, 200: Created})
def create(call: Call) -> Answer:
    """Create a job. 201 with the new one; 200 with the one that answers for its unique or idempotency key."""
    job = traced(call.body, trace_of(call.request.headers))
    if over_limit(job, call.raw):
        raise PayloadTooLarge(f"payload: {TOO_LARGE}")

    def work(store: PostgresStore) -> tuple[Enqueued, str]:
        made = enqueue(store, call.project_id, [job])[0]
        assert made.job_id is not None
        return made, job_json(store.jobs_by_id(call.project_id, [made.job_id])[0])

    made, text = call.database.run(work)
    deduplicated = "true" if made.deduplicated else "false"
    return Answer(f'{{"job":{text},"deduplicated":{deduplicated}}}', 200 if made.deduplicated else 201)


@operation(body=BulkIn, checks_body=False, answers={200: BulkOut})
def create_bulk(call: Call) -> Answer:
    """Create up to 1,000 jobs. `atomic` (the default): a single faulty job refuses all, 422 listing every fault."""
    assert call.raw is not None
    given = call.raw.value
    shell = checked(BulkIn, {**given, "jobs": []} if _is_bulk(given) else given)
    atomic = shell.get("atomic", True)
    jobs, errors = _sorted_out(given["jobs"], call.raw, trace_of(call.request.headers))
    if atomic and errors:
        raise _all_of(errors)
    made = call.database.run(lambda store: enqueue(store, call.project_id, [job for _, job in jobs], atomic=atomic))
    return bulk_answer([(index, one) for (index, _), one in zip(jobs, made, strict=True)], errors)


def well_formed(given: list[Any], raw: Body, trace: Mapping[str, str]) -> list[Any]:
    """The jobs of a body, all of them checked, in the request's trace; Invalid lists every fault of every one."""
    if len(given) > limits.BULK_JOBS:
        raise _too_many(given)
    jobs, errors = _sorted_out(given, raw, trace)
    if errors:
        raise _all_of(errors)
    return [job for _, job in jobs]


def bulk_answer(made: list[tuple[int, Enqueued]], errors: dict[int, list[dict[str, Any]]]) -> Answer:
    """One result per position: what became of the job, or its first error."""
    results: list[dict[str, Any]] = [{"index": index, "error": found[0]} for index, found in errors.items()]
    results += [_result(index, one) for index, one in made]
    results.sort(key=lambda result: result["index"])
    failed = sum("error" in result for result in results)
    deduplicated = sum(result.get("deduplicated", False) for result in results)
    return Answer({"results": results, "created": len(results) - failed - deduplicated, "deduplicated": deduplicated, "failed": failed})


def _is_bulk(given: Any) -> bool:
    if not isinstance(given, dict) or not isinstance(given.get("jobs"), list):
        return False
    if len(given["jobs"]) > limits.BULK_JOBS:
        raise _too_many(given["jobs"])
    return True


def _too_many(jobs: list[Any]) -> Invalid:
    text = f"holds {len(jobs):,} jobs; at most {limits.BULK_JOBS:,} in one call: send several calls"
    return Invalid([Fault(("jobs",), text)])


def _all_of(errors: dict[int, list[dict[str, Any]]]) -> Invalid:
    return Invalid([Fault(tuple(error["loc"]), error["msg"]) for index in sorted(errors) for error in errors[index]])


def _sorted_out(given: list[Any], raw: Body, trace: Mapping[str, str]) -> tuple[list[tuple[int, Any]], dict[int, list[dict[str, Any]]]]:
    """(position, job) of the jobs that are well-formed, in the request's trace, and what is wrong with the others, by position."""
    errors: dict[int, list[dict[str, Any]]] = {}
    jobs = []
    for index, job in _validated(given, raw, errors):
        if over_limit(job, raw):
            errors[index] = [_error(("jobs", index, "payload"), TOO_LARGE, PayloadTooLarge.code)]
        else:
            jobs.append((index, traced(job, trace)))
    return jobs, errors


def _validated(given: list[Any], raw: Body, errors: dict[int, list[dict[str, Any]]]) -> list[tuple[int, Any]]:
    """The jobs that fit the model. All at once where all do, which is a third faster; else one by one."""
    if not raw.may_be_unstorable:
        try:
            return list(enumerate(adapter(list[JobIn]).validator.validate_python(given)))
        except ValidationError:
            pass
    validate = adapter(JobIn).validator.validate_python
    jobs = []
    for index, item in enumerate(given):
        if raw.may_be_unstorable and (path := next(unstorable_paths(item), None)) is not None:
            errors[index] = [_error(("jobs", index, *path), UNSTORABLE)]
            continue
        try:
            jobs.append((index, validate(item)))
        except ValidationError as error:
            errors[index] = [_error(fault.loc, fault.msg) for fault in faults_of(error, item, ("jobs", index))]
    return jobs


def over_limit(job: dict[str, Any], raw: Body | None) -> bool:
    """True if the job's payload is larger than a payload may be."""
    if raw is not None and not raw.may_be_large:
        return False
    return len(keys.compact_json(job.get("payload")).encode("utf-8", "surrogatepass")) > limits.PAYLOAD_BYTES


def _result(index: int, made: Enqueued) -> dict[str, Any]:
    if made.code is not None:
        return {"index": index, "error": _error(("jobs", index, *([made.field] if made.field else [])), made.message or "", made.code)}
    return {"index": index, "job_id": made.job_id, "state": made.state, "deduplicated": made.deduplicated}


def _error(loc: tuple[str | int, ...], msg: str, code: str = Invalid.code) -> dict[str, Any]:
    return {"code": code, "loc": list(loc), "msg": msg}
