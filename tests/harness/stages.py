"""The stages that tests/infra synthesises, and how their templates are looked at."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/0a-1b"
STAGES: dict[str, dict[str, str]] = {
    "dev": {"stage": "dev"},
    "prod": {"stage": "prod"},
    "aurora": {"stage": "dev", "database": "aurora", "multi_az": "true", "worker_spot_percent": "100", "worker_max": "5"},
    "everything": {
        "stage": "prod", "database": "aurora", "proxy": "true", "network": "nat", "domain": "jobs.example.com", "waf": "true",
        "certificate_arn": CERTIFICATE, "alarm_email": "a@example.com", "aurora_max_acu": "8", "front_door": "2", "region": "eu-west-1",
    },
    "proxy": {"stage": "dev", "proxy": "true", "network": "endpoints", "worker_min": "1", "worker_max": "1", "tick": "false"},
}  # fmt: skip
"""Every setting that changes which resources there are, in each of its values, at least once. `region` is no setting: where it goes."""

SERVING = ("enqueue", "claims", "admin", "authorizer", "scheduler")
"""Lambdas that log in to the database as themselves."""

Templates = Callable[[str], dict[str, dict[str, Any]]]


def of_type(template: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Properties of all resources of this type, by logical id."""
    return {name: each.get("Properties", {}) for name, each in template["Resources"].items() if each["Type"] == kind}


def functions(service: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Properties of our Lambdas by short name; those of the CDK have no name."""
    found = of_type(service, "AWS::Lambda::Function").values()
    return {each["FunctionName"].rpartition("-")[2]: each for each in found if "FunctionName" in each}


def text_of(value: Any) -> str:
    """A property with all its references spelled out, to look for words in."""
    return json.dumps(value)
