"""The commands against a running instance, as people and as scripts use them."""

import json
import subprocess
import uuid

import httpx
import psycopg
import pytest

from harness import dev as harness
from harness.dev import Dev


@pytest.fixture(scope="module")
def dev(own_project: Dev) -> Dev:
    return own_project


@pytest.fixture
def tidemill(dev: Dev):
    def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        return harness.cli(*arguments, text=text, TIDEMILL_URL=dev.url, TIDEMILL_API_KEY=dev.about["api_key"])

    return run


def made(tidemill, *arguments: str) -> str:
    done = tidemill("enqueue", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[0]


def test_enqueue_prints_id_and_state(tidemill, api: httpx.Client) -> None:
    done = tidemill(
        "enqueue", "cli.all", "--payload", '{"n": 12345678901234567890}', "--priority", "7", "--delay", "2h", "--tag", "a", "--tag", "b"
    )
    assert (done.returncode, done.stderr) == (0, "")
    job_id, state = done.stdout.split()
    assert state == "scheduled"
    job = api.get(f"/v1/jobs/{job_id}").json()
    job = job.get("job", job)
    assert (job["payload"], job["priority"], job["tags"]) == ({"n": 12345678901234567890}, 7, ["a", "b"])


def test_enqueue_reads_a_payload_from_standard_input(tidemill, api: httpx.Client) -> None:
    done = tidemill("enqueue", "cli.stdin", "--payload", "-", "--json", text='["Ünal", null]')
    answer = json.loads(done.stdout)
    assert answer["deduplicated"] is False
    shown = tidemill("jobs", "show", answer["job"]["id"], "--json")
    assert json.loads(shown.stdout)["payload"] == ["Ünal", None]


def test_a_unique_job_is_enqueued_once(tidemill) -> None:
    arguments = ("cli.unique", "--payload", '{"user": 1, "n": 2}', "--unique-by", "user")
    first = made(tidemill, *arguments)
    second = tidemill("enqueue", *arguments)
    assert second.stdout.split()[0] == first
    assert "was there already" in second.stdout


def test_what_the_api_refuses_is_one_line_and_exit_1(tidemill) -> None:
    for arguments in (("x", "--queue", "nowhere"), ("x", "--priority", "99999"), ("!",), ("x", "--run-at", "2030-01-01T00:00:00")):
        done = tidemill("enqueue", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), arguments
        assert done.stderr.startswith("tidemill: ")


def test_a_wrong_key_is_one_line_and_exit_1(dev: Dev) -> None:
    done = harness.cli("jobs", "list", TIDEMILL_URL=dev.url, TIDEMILL_API_KEY="tm_local_" + "0" * 32 + "_" + "A" * 43)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_wrong_use_is_exit_2(tidemill) -> None:
    assert tidemill("enqueue").returncode == 2
    assert tidemill("enqueue", "x", "--payload", "{").returncode == 2
    assert tidemill("jobs", "list", "--limit", "0").returncode == 2


def test_list_filters_and_prints_whole_ids(tidemill) -> None:
    job_id = made(tidemill, "cli.listed", "--tag", "find-me")
    table = tidemill("jobs", "list", "--type", "cli.listed", "--state", "queued", "--state", "running", "--tag", "find-me")
    assert job_id in table.stdout
    assert len(table.stdout.splitlines()) == 2
    assert tidemill("jobs", "list", "--type", "cli.none").stdout == "no such job\n"


def test_list_is_one_json_object_per_line_for_scripts(tidemill) -> None:
    ids = {made(tidemill, "cli.lines") for _ in range(3)}
    done = tidemill("jobs", "list", "--type", "cli.lines", "--json", "--limit", "2")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 2
    assert {line["id"] for line in lines} < ids


def test_cancel_takes_several_ids_and_fails_for_those_that_cannot(tidemill) -> None:
    first, second, unknown = made(tidemill, "cli.a"), made(tidemill, "cli.b"), str(uuid.uuid4())
    done = tidemill("jobs", "cancel", first, unknown, second)
    assert done.returncode == 1
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [[first, "cancelled"], [unknown, "failed:"], [second, "cancelled"]]
    again = tidemill("jobs", "cancel", "--json", first)
    assert json.loads(again.stdout) == {"job_id": first, "error": json.loads(again.stdout)["error"]}
    assert json.loads(again.stdout)["error"]["code"] == "invalid_transition"


def test_retry_brings_dead_jobs_back(tidemill, dev: Dev, api: httpx.Client) -> None:
    job_id = made(tidemill, "cli.dies", "--max-attempts", "1")
    worker = api.post("/v1/workers", json={"name": "w", "queues": ["default"], "max_concurrency": 1}).json()["worker_id"]
    claim = {"worker_id": worker, "queues": ["default"], "limit": 1, "job_types": ["cli.dies"]}
    (job,) = api.post("/v1/claims", json=claim).json()["jobs"]
    fail = {"job_id": job_id, "lease_token": job["lease_token"], "outcome": "fail", "error": {"class": "E", "message": "m"}}
    assert api.post("/v1/acks", json={"acks": [fail]}).json()["results"][0]["state"] == "dead_letter"
    done = tidemill("jobs", "retry", job_id)
    assert (done.returncode, done.stdout) == (0, f"{job_id}  queued\n")
    assert tidemill("jobs", "retry", job_id).returncode == 1


def test_show_says_everything(tidemill) -> None:
    job_id = made(tidemill, "cli.shown", "--payload", '{"deep": [1, 2]}')
    text = tidemill("jobs", "show", job_id).stdout
    assert job_id in text
    assert '{"deep": [1, 2]}' in text
    assert "cli.shown" in text


def test_tick_works_over_the_api_and_on_the_database(tidemill, dev: Dev) -> None:
    over_api = json.loads(tidemill("tick", "--json").stdout)
    directly = json.loads(tidemill("tick", "--json", "--dsn", dev.dsn).stdout)
    names = [[phase["name"] for phase in report["phases"]] for report in (over_api, directly)]
    assert [name for name in names[0] if name != "publish"] == names[1]  # figures go to the log of the function alone
    assert {"promote", "reap", "prune"} <= set(names[0])
    assert "reap" in tidemill("tick").stdout


def test_migrate_finds_nothing_left_to_do(tidemill, dev: Dev) -> None:
    done = tidemill("migrate", "--dsn", dev.dsn, "--json")
    answer = json.loads(done.stdout)
    assert answer["applied"] == []
    with psycopg.connect(dev.dsn) as conn:
        assert conn.execute("select max(version) from tidemill.schema_migrations").fetchone() == (answer["version"],)


def test_migrate_fills_an_empty_database(empty_database: str) -> None:
    done = harness.cli("migrate", "--dsn", empty_database)
    assert done.returncode == 0
    assert "applied 0001_create_accounts" in done.stdout
    assert "nothing was left" in harness.cli("migrate", "--dsn", empty_database).stdout


def test_version_asks_the_api_too(tidemill) -> None:
    answer = json.loads(tidemill("version", "--api", "--json").stdout)
    assert answer["version"] == answer["api"]["version"]


def dead(tidemill, api: httpx.Client, *messages: str) -> list[str]:
    """Jobs in a queue of their own that died with these messages."""
    queue = f"dead-{uuid.uuid4().hex[:8]}"
    assert api.post("/v1/queues", json={"name": queue}).status_code == 201
    jobs = [{"job_type": "cli.dead", "queue": queue} for _ in messages]
    ids = [result["job_id"] for result in api.post("/v1/jobs/bulk", json={"jobs": jobs}).json()["results"]]
    claim = {"worker_id": str(uuid.uuid4()), "queues": [queue], "limit": 100}
    tokens = {job["id"]: job["lease_token"] for job in api.post("/v1/claims", json=claim).json()["jobs"]}
    end = {"outcome": "fail", "retryable": False}
    acks = [
        {"job_id": job_id, "lease_token": tokens[job_id], "error": {"class": "Boom", "message": text}, **end}
        for job_id, text in zip(ids, messages, strict=True)
    ]
    assert api.post("/v1/acks", json={"acks": acks}).status_code == 200
    return [queue, *ids]


def test_dead_letters_are_listed_grouped_retried_and_discarded(tidemill, api: httpx.Client) -> None:
    queue, first, second, third = dead(tidemill, api, "row 1 is bad", "row 22 is bad", "long " * 100)
    listed = tidemill("dead-letters", "list", "--queue", queue)
    assert (listed.returncode, listed.stdout.count("\n")) == (0, 4)
    for word in (first, second, third, "cli.dead", queue, "not_retryable", "Boom: row 22 is bad"):
        assert word in listed.stdout, word  # the long message makes way for the rest
    grouped = tidemill("dead-letters", "groups", "--queue", queue)
    row = next(line for line in grouped.stdout.splitlines() if "row <n> is bad" in line).split()
    assert row[1] == "2"
    kinds = [json.loads(line) for line in tidemill("dead-letters", "groups", "--queue", queue, "--json").stdout.splitlines()]
    assert {kind["count"]["count"] for kind in kinds} == {1, 2}
    retried = tidemill("dead-letters", "retry", first, third, first, "--note", "again")
    assert retried.returncode == 1  # the second time it is not dead any more
    assert [line.split()[1] for line in retried.stdout.splitlines()] == ["queued", "queued", "failed:"]
    discarded = tidemill("dead-letters", "discard", "--group", row[0])
    assert (discarded.returncode, discarded.stdout) == (0, f"{second}  dead_letter (discarded)\n")
    assert tidemill("dead-letters", "list", "--queue", queue).stdout == "no dead letter\n"
    assert tidemill("dead-letters", "discard").returncode == 2


def test_workers_are_listed_shown_and_commanded(tidemill, api: httpx.Client) -> None:
    body = {"name": "cli-worker", "queues": ["default"], "version": "9.9", "max_concurrency": 7}
    worker = api.post("/v1/workers", json=body).json()["worker_id"]
    listed = tidemill("workers", "list", "--version", "9.9")
    assert worker in listed.stdout
    assert "0/7" in listed.stdout
    assert tidemill("workers", "list", "--state", "stale", "--version", "9.9").stdout == "no such worker\n"
    assert json.loads(tidemill("workers", "show", worker, "--json").stdout)["name"] == "cli-worker"
    for command in ("quiet", "resume", "restart", "terminate"):
        assert tidemill("workers", command, worker).returncode == 0
        beat = api.post(f"/v1/workers/{worker}/heartbeat", json={"leases": []}).json()
        assert beat["command"] == command
    assert tidemill("workers", "quiet", str(uuid.uuid4())).returncode == 1


def test_the_doctor_finds_a_running_instance_healthy_and_tells_of_an_empty_database(dev: Dev, empty_database: str) -> None:
    done = harness.cli("doctor", "--dsn", dev.dsn)
    assert done.returncode == 0, done.stdout
    assert "schema drift" in done.stdout
    sick = harness.cli("doctor", "--dsn", empty_database, "--json")
    assert sick.returncode == 1
    findings = {finding["name"]: finding for finding in map(json.loads, sick.stdout.splitlines())}
    assert findings["schema version"]["todo"] == "run tidemill migrate"
    assert harness.cli("doctor", "--dsn", "postgresql://nobody@127.0.0.1:1/x").returncode == 3
