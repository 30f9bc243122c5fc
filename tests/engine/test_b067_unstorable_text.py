"""B067: NUL and lone surrogates. SQL refuses them whole; worker reports are cleaned before they get here, and then always stored."""

import json
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from harness.mill import Mill, ack_of, failure, lease_of
from tidemill.domain.errors import Invalid, TidemillError
from tidemill.domain.jobs import LogLine
from tidemill.domain.limits import ERROR_BYTES, ERROR_CLASS_CHARS, clip
from tidemill.domain.text import cleaned, cleaned_json
from tidemill.domain.transitions import Event
from tidemill.engine import report
from tidemill.engine.settle import settle
from tidemill.store.database import Database

BAD = ["\x00", "\ud800", "\udfff", "a\x00b", "\udbff\x00"]
PLACES: dict[str, Any] = {
    "payload": lambda bad: {"payload": {"deep": [bad]}},
    "payload key": lambda bad: {"payload": {bad: 1}},
    "queue": lambda bad: {"queue": bad},
    "job_type": lambda bad: {"job_type": bad},
    "idempotency_key": lambda bad: {"idempotency_key": bad},
    "tag": lambda bad: {"tags": [bad]},
    "header": lambda bad: {"headers": {"h": bad}},
    "unique field": lambda bad: {"unique": {"by": [bad]}},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("bad", BAD, ids=ascii)
def test_b067_sql_takes_no_unstorable_text_in_any_place(mill: Mill, place: str, bad: str) -> None:
    job = {"job_type": "t", **PLACES[place](bad)}
    with pytest.raises(psycopg.Error) as caught:
        mill.conn.execute("select * from tidemill.enqueue(%s, %s::jsonb)", [mill.project_id, json.dumps([job])])
    assert caught.value.sqlstate in ("22P05", "22P02")
    assert mill.count("jobs") == 0


def test_b067_the_engine_answers_unstorable_text_with_a_fault_not_with_a_crash(mill: Mill) -> None:
    database = Database(mill.dsn)
    from tidemill.engine.enqueue import enqueue

    with pytest.raises(Invalid) as caught:
        database.run(lambda store: enqueue(store, mill.project_id, [{"job_type": "t", "payload": "a\x00b"}]))
    assert caught.value.code == "validation_error"
    database.close()


@pytest.mark.parametrize("bad", BAD, ids=ascii)
def test_b067_a_cleaned_report_is_always_stored_and_can_be_read(mill: Mill, bad: str) -> None:
    done, failed = mill.new(), mill.new()
    jobs = {job.job_id: job for job in mill.claim(2)}
    result = json.dumps(cleaned_json({"k" + bad: ["v" + bad]}), ensure_ascii=False)
    error = failure(clip(cleaned("m" + bad), ERROR_BYTES), cleaned("C" + bad)[:ERROR_CLASS_CHARS], clip(cleaned("s" + bad), ERROR_BYTES))
    acks = [ack_of(jobs[done], Event.COMPLETE, result=result), ack_of(jobs[failed], Event.FAIL, failure=error, retryable=False)]
    assert [r.state for r in mill.settle(acks)] == ["completed", "dead_letter"]
    (attempt,) = mill.executions(failed)
    assert (attempt["error_message"], attempt["error_class"], attempt["error_stack"]) == (
        cleaned("m" + bad),
        cleaned("C" + bad),
        cleaned("s" + bad),
    )
    assert "\ufffd" in json.dumps(mill.executions(done)[0]["result"], ensure_ascii=False)


def test_b067_reports_of_a_running_job_are_stored_when_cleaned(mill: Mill) -> None:
    job = mill.claim_job(mill.new())
    lease, bad = lease_of(job), "x\x00\ud800"
    report.progress(mill.store, lease, 1, 2, cleaned(bad))
    report.checkpoint(mill.store, lease, json.dumps(cleaned_json([bad]), ensure_ascii=False), cleaned(bad))
    report.output(mill.store, lease, json.dumps(cleaned_json({bad: bad}), ensure_ascii=False))
    assert report.logs(mill.store, lease, [LogLine(datetime.now(UTC), "info", cleaned(bad))]) == 1
    assert mill.view(job.job_id)["progress_message"] == "x\ufffd\ufffd"


def test_b067_an_uncleaned_report_fails_alone_and_the_job_can_still_be_acked(mill: Mill) -> None:
    """Whoever calls the engine cleans first; should one forget, nothing is half written."""
    job = mill.claim_job(mill.new())
    database = Database(mill.dsn)
    with pytest.raises((TidemillError, UnicodeError)):
        database.run(lambda store: settle(store, [ack_of(job, Event.COMPLETE, result='"\\u0000"')], roll=mill.roll))
    database.close()
    assert mill.complete(job).state == "completed"
