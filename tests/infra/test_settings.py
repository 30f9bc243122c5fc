"""Stages, and what stops them: one line that says what to change."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.stages import CERTIFICATE, ROOT
from infra import budget, cost, settings

STAGES = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]["stages"]


def stage(**given: str) -> settings.Stage:
    made = settings.read(STAGES, {"stage": "dev", **given})
    budget.check(made)
    return made


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"stage": ""}, "no stage given: add -c stage=NAME; there are dev, prod"),
        ({"stage": "prd"}, "stage 'prd' is none: there are dev, prod"),
        ({"databse": "aurora"}, "databse is no setting; did you mean database?"),
        ({"xyzzy": "1"}, "xyzzy is no setting; there are database"),
        ({"database": "mysql"}, "database=mysql must be one of instance, aurora"),
        ({"worker_max": "many"}, "worker_max=many must be a number from 1 to 100"),
        ({"worker_max": "0"}, "worker_max=0 is outside 1 to 100"),
        ({"proxy": "yes"}, "proxy=yes must be true or false"),
        ({"app": "jobs"}, "app=jobs must be module:attribute"),
        ({"log_days": "31"}, "log_days=31 is not kept by CloudWatch: take one of 1, 3"),
        ({"database": "aurora", "aurora_min_acu": "0"}, "aurora_min_acu=0 never pauses while the tick runs each minute: set it to 0.5"),
        (
            {"database": "aurora", "aurora_min_acu": "0", "tick": "false", "worker_min": "1"},
            "aurora_min_acu=0 never pauses while a worker is connected: set it to 0.5, or worker_min=0",
        ),
        (
            {"tick": "false", "worker_min": "0"},
            "tick=false with worker_min=0: no pass tells how many jobs wait, so no worker would ever start: set worker_min=1, or tick=true;"
            " or say ticks_posted=true and post to /v1/tick",
        ),
        ({"ticks_posted": "true"}, "ticks_posted=true is for a stage without a clock: set tick=false"),
        ({"worker_spot_percent": "50", "protection_hours": "49"}, "keep to 48, or set worker_spot_percent=0"),
        ({"protection_hours": "49"}, "is more than the 48 that ECS takes"),
        ({"worker_min": "3"}, "worker_min=3 is above worker_max=2"),
        ({"domain": "jobs.example.com"}, "domain and certificate_arn come together"),
        ({"enqueue_concurrency": "200"}, "are more than the 190 of the database: lower *_concurrency or worker_max"),
        ({"instance_class": "x1.huge"}, "instance_class=x1.huge is not in infra/budget.py"),
    ],
)  # fmt: skip
def test_bad_input_is_told_in_one_line(given: dict[str, str], told: str) -> None:
    with pytest.raises(settings.SettingsInvalid) as caught:
        stage(**given)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stage_without_a_clock_has_a_worker_or_says_who_ticks() -> None:
    assert stage(tick="false", worker_min="1").worker_min == 1
    assert stage(tick="false", ticks_posted="true").worker_min == 0


def test_an_aurora_that_may_pause_can_be_had() -> None:
    """Each refusal's way out leads on to a stage that is made."""
    made = stage(database="aurora", aurora_min_acu="0", tick="false", worker_min="0", ticks_posted="true")
    assert made.aurora_min_acu == 0


def test_a_cdk_json_without_stages_is_told() -> None:
    with pytest.raises(settings.SettingsInvalid, match=r"cdk\.json has no context value `stages`"):
        settings.read(None, {"stage": "dev"})


def test_synth_stops_with_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "infra", str(tmp_path), "stage=dev", "proxxy=true"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tidemill: proxxy is no setting; did you mean proxy?\n"


@pytest.mark.parametrize("name", list(STAGES))
def test_connections_of_each_stage_fit_its_database(name: str) -> None:
    made = settings.read(STAGES, {"stage": name})
    assert budget.used(made) <= budget.available(made)


def test_a_proxy_takes_the_functions_out_of_the_budget() -> None:
    assert budget.used(stage(proxy="true", enqueue_concurrency="500")) <= 190


def test_everything_that_costs_is_in_the_price() -> None:
    plain = sum(cost.fixed(stage()).values())
    for more in (
        {"multi_az": "true"}, {"proxy": "true"}, {"network": "nat"}, {"network": "endpoints"}, {"worker_min": "1"}, {"waf": "true"},
        {"instance_class": "t4g.medium"}, {"storage_gb": "200"}, {"database": "aurora"},
    ):  # fmt: skip
        assert sum(cost.fixed(stage(**more)).values()) > plain + 1, more


def test_a_small_stage_costs_less_than_fifty_dollars_a_month() -> None:
    assert 20 < sum(cost.fixed(stage()).values()) < 50


def test_fewer_calls_cost_less() -> None:
    made = stage()
    dollars = [cost.per_million(made, way) for way in cost.WAYS]
    assert dollars[0] < dollars[2] < dollars[1] < dollars[3]


def test_spot_workers_cost_less() -> None:
    assert cost.worker_hour(stage(worker_spot_percent="100")) < cost.worker_hour(stage())


def test_domain_with_its_certificate_is_taken() -> None:
    assert stage(domain="jobs.example.com", certificate_arn=CERTIFICATE).domain == "jobs.example.com"
