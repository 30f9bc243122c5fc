"""Alarms that can fire and can be quiet: on metrics that exist, with a word for missing data, and paid for in the price."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.stages import ROOT, STAGES, Templates, of_type, text_of
from infra import cost, settings
from tidemill.observe import emf

ALL = list(STAGES)
VENDORS = {
    "AWS/ApiGateway": ({"5xx"}, {"ApiId"}),
    "AWS/Lambda": ({"Throttles", "Errors"}, {"FunctionName"}),
    "AWS/RDS": (
        {"DatabaseConnections", "FreeStorageSpace", "ACUUtilization", "MaximumUsedTransactionIDs"},
        {"DBInstanceIdentifier", "DBClusterIdentifier"},
    ),
}
"""Of each vendor's namespace the metrics we look at, and by which dimension it publishes them."""


def metrics_of(alarm: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "MetricName" in alarm:
        yield alarm
    yield from (each["MetricStat"]["Metric"] for each in alarm.get("Metrics", []) if "MetricStat" in each)


def ours(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Alarms by their short name; those of autoscaling have none."""
    found = of_type(template, "AWS::CloudWatch::Alarm").values()
    return {each["AlarmName"].rpartition("-")[2]: each for each in found if "AlarmName" in each}


@pytest.mark.parametrize("name", ALL)
def test_every_alarm_looks_at_a_metric_that_somebody_publishes(templates: Templates, name: str) -> None:
    for alarm in ours(templates(name)["Service"]).values():
        for metric in metrics_of(alarm):
            dimensions = {each["Name"] for each in metric["Dimensions"]}
            if metric["Namespace"] == emf.NAMESPACE:
                assert metric["MetricName"] in emf.UNITS
                assert dimensions == {"Stage"}
            else:
                names, by = VENDORS[metric["Namespace"]]
                assert metric["MetricName"] in names
                assert len(dimensions) == 1
                assert dimensions <= by


@pytest.mark.parametrize("name", ALL)
def test_what_is_missing_is_an_alarm_of_the_tick_alone(templates: Templates, name: str) -> None:
    """Everything else is quiet without data: no requests, no deaths, no courier without webhooks."""
    alarms = ours(templates(name)["Service"])
    loud = {short for short, alarm in alarms.items() if alarm["TreatMissingData"] == "breaching"}
    assert loud == ({"TickMissing"} if STAGES[name].get("tick") != "false" else set())
    for short in loud:
        assert alarms[short]["EvaluationPeriods"] * alarms[short]["Period"] == 300
        assert (alarms[short]["ComparisonOperator"], alarms[short]["Threshold"]) == ("LessThanThreshold", 0)  # never: only if missing


@pytest.mark.parametrize("name", ALL)
def test_alarms_are_made_when_there_is_something_to_see(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    for each in service["Resources"].values():
        if each["Type"] == "AWS::CloudWatch::Alarm" and "AlarmName" in each["Properties"]:
            assert any(other.startswith("EdgeDistribution") for other in each["DependsOn"])


@pytest.mark.parametrize("name", ALL)
def test_courier_has_alarms_for_its_failures_and_for_calls_that_nobody_took(templates: Templates, name: str) -> None:
    alarms = ours(templates(name)["Service"])
    (failing,) = metrics_of(alarms["CourierErrors"])
    assert (failing["Namespace"], failing["MetricName"]) == ("AWS/Lambda", "Errors")
    assert "FunctionsCourier" in text_of(failing["Dimensions"])
    (dead,) = metrics_of(alarms["UndeliveredWebhooks"])
    assert (dead["Namespace"], dead["MetricName"]) == ("tidemill", "WebhookCallsFailed")
    assert any("FunctionsCourier" in text_of(each) for each in metrics_of(alarms["Throttles"]))


def test_price_counts_every_metric_and_every_metric_that_an_alarm_looks_at(templates: Templates) -> None:
    assert len(emf.UNITS) == cost.METRICS
    for name in ("dev", "prod"):
        alarms = of_type(templates(name)["Service"], "AWS::CloudWatch::Alarm").values()
        assert sum(len(list(metrics_of(alarm))) for alarm in alarms) == cost.ALARMS


def test_readme_tells_the_price_that_is_computed() -> None:
    stages = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]["stages"]
    made = settings.read(stages, {"stage": "dev"})
    fixed, ways = sum(cost.fixed(made).values()), [cost.per_million(made, way) for way in cost.WAYS]
    told = f"about ${fixed:.0f} a month and ${min(ways):.1f} to ${max(ways):.0f} per million jobs"
    assert told in (ROOT / "README.md").read_text(encoding="utf-8")
