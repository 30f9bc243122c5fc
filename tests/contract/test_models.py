"""The models: every field's bound, in words that name field, value and bound; and how fast 1,000 jobs are checked."""

import json
import time
from typing import Any

import pytest

from harness.clock import allowed
from tidemill.domain import limits
from tidemill.domain.errors import Invalid
from tidemill.domain.text import cleaned
from tidemill.http import body, jobs
from tidemill.http.fields import instant_of, text_of
from tidemill.http.models.job_filter import JobFilter
from tidemill.http.models.jobs import JobIn
from tidemill.http.models.workers import ClaimIn, HeartbeatIn
from tidemill.http.validation import checked

ID = "01a228eb-d498-746a-aaf2-0395defd9e29"
LOW, HIGH = limits.PRIORITY


def faults(model: Any, value: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        checked(model, value, storable=False)
    return {".".join(map(str, fault.loc)): fault.msg for fault in caught.value.faults}


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("priority", HIGH + 1), ("priority", LOW - 1), ("priority", 1.0), ("priority", "1"), ("priority", True), ("priority", 2**70),
        ("schema_version", 2**31), ("delay_ms", -1), ("delay_ms", 10**30), ("hold", "yes"), ("hold", 1), ("queue", ""), ("queue", "a b"),
        ("queue", "a" * 201), ("queue", "-a"), ("queue", "a\n"), ("idempotency_key", ""), ("idempotency_key", "k" * 256),
        ("max_attempts", 0),
        ("max_attempts", 100_000), ("timeout_ms", 0), ("timeout_ms", 43_200_001), ("partition_key", "p" * 256), ("weight", 0),
        ("rate_class", "ü"), ("sticky_worker", ""), ("tags", ["t"] * 21), ("tags", ["t" * 65]), ("tags", [""]), ("tags", "t"),
        ("tags", [1]),
        ("headers", {"a": 1}), ("headers", {f"h{i}": "" for i in range(33)}), ("headers", {"a": "x" * 8_192}), ("headers", {"": "x"}),
        ("retention_ms", -1), ("run_at", "2027-01-01T00:00:00"), ("run_at", "2027-13-01T00:00:00Z"), ("run_at", 5), ("run_at", "tomorrow"),
        ("run_at", "0001-01-01T00:00:00+05:00"), ("run_at", "9999-12-31T23:59:59-05:00"), ("run_at", "2027-01-01"), ("traceparent", ""),
        ("unique", {"window": "always"}), ("unique", {"by": []}), ("unique", {"by": [1]}), ("unique", True), ("concurrency", {}),
        ("concurrency", {"limit": 0}), ("concurrency", {"limit": 1, "keys": "a"}), ("retry_policy", {"strategy": "often"}),
        ("retry_policy", {"multiplier": 0.5}), ("retry_policy", {"max_attempts": 0}), ("retry_policy", 3), ("depends_on", [1]),
    ],
)  # fmt: skip
def test_a_value_outside_its_bound_is_named(field: str, bad: Any) -> None:
    found = faults(JobIn, {"job_type": "t", field: bad})
    assert any(loc.startswith(field) for loc in found), found
    assert all(len(msg) < 200 for msg in found.values())


@pytest.mark.parametrize("job", [None, [], "job", 1, {}, {"job_type": None}, {"job_type": ""}])
def test_what_is_no_job_is_refused(job: Any) -> None:
    assert faults(JobIn, job)


@pytest.mark.parametrize(
    "job",
    [
        {"run_at": "2027-01-01T00:00:00Z", "delay_ms": 1},
        {"unique": {"window": "ttl"}},
        {"unique": {"ttl_ms": 5}},
        {"concurrency": {"limit": 1, "key": "a", "by": "b"}},
    ],
)
def test_fields_that_contradict_each_other_are_refused(job: dict[str, Any]) -> None:
    assert faults(JobIn, {"job_type": "t", **job})


def test_faults_tell_numbers_and_bounds_and_no_text() -> None:
    found = faults(JobIn, {"job_type": "t", "priority": 99_999, "queue": "mark er", "tags": ["mark er" * 30]})
    assert "32767, not 99999" in found["priority"]
    assert "mark er" not in json.dumps(found)


@pytest.mark.parametrize("bad", ["\x00", "\ud800", "a\udfffb"])
def test_b067_unstorable_text_is_named_where_it_is(bad: str) -> None:
    job = {"job_type": "t", "payload": {"a": [0, bad], f"k{bad}": 1}, "tags": [bad], "queue": bad, "idempotency_key": bad}
    found = faults(JobIn, job)
    assert {"payload.a.1", "tags.0", "queue", "idempotency_key"} <= found.keys()
    assert f"payload.k{cleaned(bad)}" in found
    assert set(found.values()) == {"holds NUL or a lone surrogate, which cannot be stored"}


def test_null_stands_for_a_field_that_is_left_out_but_a_payload_may_be_null() -> None:
    job = dict.fromkeys(("queue", "priority", "run_at", "unique", "tags", "headers", "retry_policy"))
    assert checked(JobIn, {"job_type": "t", "payload": None, **job}) == {"job_type": "t", "payload": None}


@pytest.mark.parametrize(
    ("given", "utc"),
    [
        ("2027-01-31T09:00:00Z", "2027-01-31T09:00:00.000000Z"),
        ("2027-01-31t09:00:00.5z", "2027-01-31T09:00:00.500000Z"),
        ("2027-01-31 09:00:00+05:30", "2027-01-31T03:30:00.000000Z"),
        ("2027-01-31T00:00:00.123456789-12:00", "2027-01-31T12:00:00.123456Z"),
    ],
)
def test_b007_instants_are_read_with_their_offset_and_written_in_utc(given: str, utc: str) -> None:
    assert text_of(instant_of(given)) == utc


def test_b004_no_heartbeat_asks_for_a_length() -> None:
    assert faults(HeartbeatIn, {"leases": [], "lease_ms": 315_360_000_000}) == {"lease_ms": "no such field"}
    for wrong in (0, -1, 999, 43_200_001):
        assert "lease_ms" in faults(ClaimIn, {"worker_id": ID, "queues": ["q"], "lease_ms": wrong})


def test_ids_are_lowered_and_nothing_else_passes_for_one() -> None:
    assert checked(ClaimIn, {"worker_id": ID.upper(), "queues": ["q"]})["worker_id"] == ID
    for wrong in ("abc", str(2**70), ID[1:], ID + "0", f"{{{ID}}}", ID.replace("-", ""), 5, None):
        assert "worker_id" in faults(ClaimIn, {"worker_id": wrong, "queues": ["q"]})


def test_a_thousand_jobs_are_checked_within_25_ms(capsys: pytest.CaptureFixture[str]) -> None:
    def job(number: int) -> dict[str, Any]:
        keys = {"idempotency_key": f"k{number}", "unique": {"by": ["user"]}, "run_at": "2027-01-01T00:00:00Z"}
        payload = {"user": number, "to": f"u{number}@example.test", "values": [1, 2.5, None]}
        return {"job_type": "email.send", "queue": "default", "payload": payload, "priority": 3, "tags": ["a", "b"], **keys}

    text = json.dumps({"jobs": [job(number) for number in range(1_000)]})
    raw = body.Body(body.parsed(text), text)
    took = []
    for _ in range(15):
        began = time.process_time()
        assert len(jobs.well_formed(raw.value["jobs"], raw, {})) == 1_000
        took.append((time.process_time() - began) * 1000)
    with capsys.disabled():
        print(f"\n1,000 jobs checked in {min(took):.1f} ms (median {sorted(took)[7]:.1f})")
    assert min(took) <= allowed(25)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"job_type": "t", "retry_policy": 5}, [(("retry_policy",), "must be a valid string, or must be a valid dictionary")]),
        ({"job_type": "t", "depends_on": ["x"]}, [(("depends_on", 0), 'must be a job id, or {"ref": "…"} for a job of the same call')]),
        ({"job_type": "t", "concurrency": {}}, [(("concurrency", "limit"), "is required")]),
        ({"nope": 1}, [(("job_type",), "is required"), (("nope",), "no such field")]),
    ],
)
def test_a_fault_names_the_place_in_what_was_sent(given: Any, told: Any) -> None:
    """Never the alternative that the validator tried, such as `retry_policy.constrained-str`."""
    with pytest.raises(Invalid) as refused:
        checked(JobIn, given)
    assert [(fault.loc, fault.msg) for fault in refused.value.faults] == told


def test_a_state_that_is_none_is_told_with_all_that_there_are() -> None:
    with pytest.raises(Invalid, match=r"state.1.?: must be 'pending', .* or 'retrying'$"):
        checked(JobFilter, {"state": ["queued", "nope"]})
