"""From a job that dies in a running `tidemill dev` to a receiver on the same machine, through the command line."""

import json

import httpx
import pytest

from harness.dev import Dev, cli, until
from harness.receiver import Receiver


@pytest.fixture(scope="module")
def dev(own_project: Dev) -> Dev:
    return own_project


def test_a_dead_job_is_told_to_a_receiver_on_this_machine(dev: Dev, api: httpx.Client) -> None:
    surroundings = {"TIDEMILL_URL": dev.url, "TIDEMILL_API_KEY": dev.about["api_key"]}
    with Receiver() as receiver:
        made = cli("webhook", "set", receiver.url, **surroundings)
        assert made.returncode == 0, made.stderr
        secret = made.stdout.splitlines()[0]
        tested = cli("webhook", "test", "--wait", "50", **surroundings)
        assert tested.returncode == 0, tested.stdout + tested.stderr
        assert "delivered" in tested.stdout
        (test,) = receiver.got()
        assert (test.json["type"], test.is_signed_by(secret)) == ("webhook.test", True)

        worker = api.post("/v1/workers", json={"name": "w", "queues": ["default"]}).json()["worker_id"]
        job_id = api.post("/v1/jobs", json={"job_type": "t"}).json()["job"]["id"]
        (job,) = api.post("/v1/claims", json={"worker_id": worker, "queues": ["default"]}).json()["jobs"]
        ack = {
            "job_id": job_id,
            "lease_token": job["lease_token"],
            "outcome": "fail",
            "retryable": False,
            "error": {"class": "E", "message": "m"},
        }
        api.post("/v1/acks", json={"acks": [ack]})
        got = []
        until(lambda: got.extend(receiver.got()) or got, within_s=50, what="the call arrives")
    assert got[0].json["data"]["items"][0]["job"]["id"] == job_id
    assert got[0].is_signed_by(secret)
    shown = cli("webhook", "show", "--json", **surroundings)
    assert secret.removeprefix("whsec_") not in shown.stdout
    assert {call["status"] for call in json.loads(shown.stdout)["deliveries"]} == {"delivered"}
    rotated = cli("webhook", "rotate", **surroundings).stdout.splitlines()[0]
    assert rotated != secret
    assert cli("webhook", "delete", **surroundings).returncode == 0
    assert cli("webhook", "show", **surroundings).returncode == 1
