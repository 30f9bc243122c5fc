"""A stage's templates as an emulator can take them: what is left out, and what stands in for what it has only records of."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from harness.databases import as_url

LEFT_OUT = frozenset(
    {
        "AWS::ApplicationAutoScaling::ScalableTarget",
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::ECS::ClusterCapacityProviderAssociations",
    }
)
"""Types that ministack refuses, and so it does alarms that compute (`Metrics`). None of them is on a request's way."""

PATIENCE_SECS = 120
"""The functions' own time limits are for AWS's machines; a first start on a busy one takes longer."""


def fitted(template: dict[str, Any], dsn: str, master_secret: str) -> dict[str, Any]:
    """The template without LEFT_OUT, its functions pointed to this database, each still as its own database role.

    The database of the templates is a record without a server: its address gives way to `dsn`, its signed login over TLS to that
    of a superuser who takes the function's role at once, its master secret (which RDS would make) to `master_secret`.
    """
    made = copy.deepcopy(template)
    dropped = {name for name, each in made["Resources"].items() if is_left_out(each)}
    for name in dropped:
        del made["Resources"][name]
    for each in made["Resources"].values():
        if isinstance(each.get("DependsOn"), list):
            each["DependsOn"] = [name for name in each["DependsOn"] if name not in dropped]
        if each["Type"] == "AWS::Lambda::Function":
            _point(each["Properties"]["Environment"]["Variables"], dsn)
            each["Properties"]["Timeout"] = PATIENCE_SECS
    return _replaced(made, dropped, master_secret)


def is_left_out(resource: dict[str, Any]) -> bool:
    """Whether an emulated stack goes without this resource."""
    computes = resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"]
    return computes or resource["Type"] in LEFT_OUT


def _point(variables: dict[str, Any], dsn: str) -> None:
    if "TIDEMILL_DATABASE_URL" not in variables:
        return
    role = re.search(r"postgresql://(tidemill_\w+)@", json.dumps(variables.pop("TIDEMILL_DATABASE_URL")))
    variables["TIDEMILL_DATABASE_URL"] = as_url(dsn, options=f"-crole={role[1]}") if role else as_url(dsn, user="", password="")
    for name in ("TIDEMILL_DATABASE_AUTH", "TIDEMILL_DATABASE_CA_FILE"):
        variables.pop(name, None)


def _replaced(value: Any, dropped: set[str], master_secret: str) -> Any:
    if isinstance(value, dict):
        if isinstance(got := value.get("Fn::GetAtt"), list):
            if got[1] == "MasterUserSecret.SecretArn":
                return master_secret
            if got[0] in dropped:
                return "left-out"
        return {key: _replaced(each, dropped, master_secret) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, dropped, master_secret) for each in value]
    return value
