"""What runs by itself in the templates: workers and their number, the tick, alarms, metrics."""

import pytest

from harness.stages import ROOT, STAGES, Templates, of_type, text_of

ALL = list(STAGES)


@pytest.mark.parametrize("name", ALL)
def test_worker_is_confined_and_has_time_to_drain(templates: Templates, name: str) -> None:
    (task,) = of_type(templates(name)["Service"], "AWS::ECS::TaskDefinition").values()
    (container,) = task["ContainerDefinitions"]
    assert task["RuntimePlatform"]["CpuArchitecture"] == "ARM64"
    assert container["ReadonlyRootFilesystem"] is True
    assert container["User"] == "10001:10001"
    assert container["StopTimeout"] == 120
    assert container["LinuxParameters"]["InitProcessEnabled"] is True
    assert container["LinuxParameters"]["Capabilities"]["Drop"] == ["ALL"]
    assert container["Command"][container["Command"].index("--stop-window-secs") + 1] == "110"
    assert [point["ContainerPath"] for point in container["MountPoints"]] == ["/tmp"]


def test_workers_scale_to_none_and_back_by_exact_numbers(templates: Templates) -> None:
    service = templates("dev")["Service"]
    (target,) = of_type(service, "AWS::ApplicationAutoScaling::ScalableTarget").values()
    assert (target["MinCapacity"], target["MaxCapacity"]) == (0, 2)
    policies = of_type(service, "AWS::ApplicationAutoScaling::ScalingPolicy").values()
    steps = [policy["StepScalingPolicyConfiguration"] for policy in policies]
    assert all(each["AdjustmentType"] == "ExactCapacity" for each in steps)
    changes = {adjustment["ScalingAdjustment"] for each in steps for adjustment in each["StepAdjustments"]}
    assert {0, 1} <= changes


@pytest.mark.parametrize("name", ALL)
def test_every_alarm_is_explained_in_the_handbook(templates: Templates, name: str) -> None:
    handbook = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for each in of_type(templates(name)["Service"], "AWS::CloudWatch::Alarm").values():
        if "AlarmName" in each:  # the others belong to autoscaling
            assert f"`{each['AlarmName'].rpartition('-')[2]}`" in handbook
            assert each["AlarmActions"]


@pytest.mark.parametrize("name", ALL)
def test_alarms_may_reach_their_topic(templates: Templates, name: str) -> None:
    (policy,) = of_type(templates(name)["Service"], "AWS::SNS::TopicPolicy").values()
    allowed = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    assert [(each["Principal"], each["Action"]) for each in allowed] == [({"Service": "cloudwatch.amazonaws.com"}, "sns:Publish")]
    assert allowed[0]["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


@pytest.mark.parametrize("name", ALL)
def test_a_failed_pass_is_not_tried_again_beside_the_next(templates: Templates, name: str) -> None:
    service = templates(name)["Service"]
    tick = next(
        each for each in of_type(service, "AWS::Lambda::EventInvokeConfig").values() if "Scheduler" in text_of(each["FunctionName"])
    )
    assert (tick["MaximumRetryAttempts"], tick["MaximumEventAgeInSeconds"]) == (0, 60)


def test_metrics_are_those_that_the_code_prints(templates: Templates) -> None:
    told = (ROOT / "docs" / "operations-metrics.md").read_text(encoding="utf-8")
    for each in of_type(templates("dev")["Service"], "AWS::CloudWatch::Alarm").values():
        metrics = [each, *(query["MetricStat"]["Metric"] for query in each.get("Metrics", []) if "MetricStat" in query)]
        for metric in metrics:
            if metric.get("Namespace") == "tidemill":
                assert f"`{metric['MetricName']}`" in told
