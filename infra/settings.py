"""The settings of a stage: defaults here, a stage's own in cdk.json under `stages`, and what `-c name=value` says last.

A value that is none, a name that is none, or a combination that cannot work stops the synthesis with one line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

Database = Literal["instance", "aurora"]
Network = Literal["public", "endpoints", "nat"]


class SettingsInvalid(Exception):
    """The stage cannot be made; the text is one line and says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage. What each setting costs is told by scripts/cost."""

    name: str

    database: Database = "instance"
    instance_class: str = "t4g.small"
    multi_az: bool = False
    storage_gb: int = 20
    aurora_min_acu: float = 0.5
    aurora_max_acu: float = 4
    proxy: bool = False
    """RDS Proxy between the Lambdas and the database. Workers go past it."""
    backup_days: int = 7
    protected: bool = False
    """Neither stack nor database can be deleted before this is taken back."""

    network: Network = "public"
    """How workers reach AWS: a public address without a way in, interface endpoints, or a NAT gateway. Lambdas need none of them."""
    flow_logs: bool = False

    enqueue_concurrency: int = 20
    claims_concurrency: int = 20
    admin_concurrency: int = 5
    authorizer_concurrency: int = 10
    scheduler_concurrency: int = 2
    reserve_concurrency: bool = False
    """Holds Lambda to the numbers above. New accounts have a limit of 10 for all functions together, which refuses it."""
    memory_mb: int = 512
    log_days: int = 30

    tick: bool = True
    """False: no clock of ours. Schedules, lost leases, webhooks and the metrics then wait for whoever posts to /v1/tick."""
    ticks_posted: bool = False
    """With tick=false: somebody posts to /v1/tick, each minute while there is work. What those passes publish starts and stops workers."""
    tick_budget_ms: int = 0
    """0 = one pass a minute; up to 50,000 = passes while there is a backlog."""

    worker_min: int = 0
    worker_max: int = 2
    worker_cpu: int = 256
    worker_memory_mb: int = 512
    worker_jobs: int = 16
    worker_queues: str = "default"
    worker_spot_percent: int = 0
    protection_hours: float = 2
    """For how long a task that holds leases is kept from scale-in without a word from it; renewed while it lives."""

    handlers: str = "docs/examples/handlers"
    """The team's folder: its modules, and its requirements.txt if it has one."""
    app: str = "jobs:app"
    """Where the App is in it, as `module:attribute`."""

    front_door: int = 1
    """Raise it by one to give CloudFront and the authorizer a new secret; the one before stays good until the next time."""
    throttle_rate: int = 200
    throttle_burst: int = 400
    authorizer_ttl_secs: int = 60
    """For how long a revoked key may still be let in."""
    waf: bool = False
    domain: str = ""
    certificate_arn: str = ""
    alarm_email: str = ""
    owner_email: str = "owner@example.com"

    @property
    def is_aurora(self) -> bool:
        """Whether the database is a cluster."""
        return self.database == "aurora"


NAMES = tuple(field.name for field in fields(Stage) if field.name != "name")
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "storage_gb": (20, 16_384),
    "aurora_min_acu": (0, 256),
    "aurora_max_acu": (1, 256),
    "backup_days": (1, 35),
    "enqueue_concurrency": (1, 1_000),
    "claims_concurrency": (1, 1_000),
    "admin_concurrency": (1, 1_000),
    "authorizer_concurrency": (1, 1_000),
    "scheduler_concurrency": (1, 10),
    "memory_mb": (256, 3_008),
    "log_days": (1, 3_653),
    "tick_budget_ms": (0, 50_000),
    "worker_min": (0, 100),
    "worker_max": (1, 100),
    "worker_cpu": (256, 16_384),
    "worker_memory_mb": (512, 122_880),
    "worker_jobs": (1, 1_000),
    "worker_spot_percent": (0, 100),
    "protection_hours": (0.1, 168),
    "front_door": (1, 1_000),
    "throttle_rate": (1, 10_000),
    "throttle_burst": (1, 5_000),
    "authorizer_ttl_secs": (0, 3_600),
}
_LOG_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
_PATTERNS: Mapping[str, tuple[str, str]] = {
    "instance_class": (r"[a-z0-9]+\.[a-z0-9]+", "a class such as t4g.small"),
    "handlers": (r"[^/].*", "a folder below this one"),
    "app": (r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", "module:attribute"),
    "worker_queues": (r"[\w./-]+(,[\w./-]+)*", "names of queues, separated by commas"),
    "domain": (r"([a-z0-9-]+\.)+[a-z]{2,}|", "a domain name"),
    "certificate_arn": (r"arn:aws:acm:us-east-1:\d{12}:certificate/[0-9a-f-]+|", "the ARN of an ACM certificate in us-east-1"),
    "alarm_email": (r"[^@\s]+@[^@\s]+|", "an email address"),
    "owner_email": (r"[^@\s]+@[^@\s]+", "an email address"),
}


_OF_CDK = ("@aws-cdk", "aws:cdk", "aws-cdk", "cdk-", "availability-zones", "hosted-zone", "vpc-provider", "ssm:")


def given(context: Mapping[str, Any]) -> dict[str, Any]:
    """What of the context is meant for us: everything that neither is `stages` nor looks like the CDK's own."""
    return {key: value for key, value in context.items() if key != "stages" and not key.startswith(_OF_CDK)}


def read(stages: Any, given: Mapping[str, Any]) -> Stage:
    """The stage that `given` (the context: `stage`, and settings that override) asks for, out of cdk.json's `stages`."""
    if not isinstance(stages, Mapping) or not stages:
        raise SettingsInvalid("cdk.json has no context value `stages`: take it from the repository's")
    name = given.get("stage")
    if not name:
        raise SettingsInvalid(f"no stage given: add -c stage=NAME; there are {', '.join(stages)}")
    if name not in stages:
        raise SettingsInvalid(f"stage {name!r} is none: there are {', '.join(stages)}; cdk.json takes more under `stages`")
    if re.fullmatch(r"[a-z][a-z0-9]{0,15}", name) is None:
        raise SettingsInvalid(f"stage {name!r} must be 1 to 16 of a-z and 0-9, a letter first (it is part of every API key)")
    values = {**stages[name], **{key: value for key, value in given.items() if key != "stage"}}
    hints = get_type_hints(Stage)
    parsed: dict[str, Any] = {}
    for key, value in values.items():
        if key not in NAMES:
            near = difflib.get_close_matches(key, NAMES, n=1, cutoff=0.5)
            raise SettingsInvalid(f"{key} is no setting" + (f"; did you mean {near[0]}?" if near else f"; there are {', '.join(NAMES)}"))
        parsed[key] = _parsed(key, value, hints[key])
    stage = Stage(name=name, **parsed)
    _check_combinations(stage)
    return stage


def _parsed(key: str, value: Any, kind: Any) -> Any:
    if kind is bool:
        text = str(value).lower()
        if text not in ("true", "false"):
            raise SettingsInvalid(f"{key}={value} must be true or false")
        return text == "true"
    if kind in (int, float):
        low, high = _BOUNDS[key]
        try:
            number = kind(value)
        except ValueError:
            raise SettingsInvalid(f"{key}={value} must be a number from {low:,} to {high:,}") from None
        if not low <= number <= high:
            raise SettingsInvalid(f"{key}={value} is outside {low:,} to {high:,}")
        return number
    if choices := get_args(kind):
        if value not in choices:
            raise SettingsInvalid(f"{key}={value} must be one of {', '.join(choices)}")
        return value
    pattern, meaning = _PATTERNS[key]
    if re.fullmatch(pattern, str(value)) is None:
        raise SettingsInvalid(f"{key}={value} must be {meaning}")
    return str(value)


def _check_combinations(s: Stage) -> None:
    faults = [
        (
            s.is_aurora and s.aurora_min_acu == 0 and s.tick,
            "aurora_min_acu=0 never pauses while the tick runs each minute: set it to 0.5, or tick=false",
        ),
        (
            s.is_aurora and s.aurora_min_acu == 0 and s.worker_min > 0,
            f"aurora_min_acu=0 never pauses while a worker is connected: set it to 0.5, or worker_min=0 (it is {s.worker_min})",
        ),
        (
            not (s.tick or s.ticks_posted) and s.worker_min == 0,
            "tick=false with worker_min=0: no pass tells how many jobs wait, so no worker would ever start: set worker_min=1, or tick=true;"
            " or say ticks_posted=true and post to /v1/tick each minute while there is work",
        ),
        (s.tick and s.ticks_posted, "ticks_posted=true is for a stage without a clock: set tick=false, or leave it out"),
        (
            s.is_aurora and s.aurora_min_acu > s.aurora_max_acu,
            f"aurora_min_acu={s.aurora_min_acu} is above aurora_max_acu={s.aurora_max_acu}: raise the latter",
        ),
        (
            s.worker_spot_percent > 0 and s.protection_hours > 48,
            f"protection_hours={s.protection_hours} with Spot: a Spot task ends two minutes after its notice, protected or not;"
            " keep to 48, or set worker_spot_percent=0",
        ),
        (s.protection_hours > 48, f"protection_hours={s.protection_hours} is more than the 48 that ECS takes: lower it"),
        (s.worker_min > s.worker_max, f"worker_min={s.worker_min} is above worker_max={s.worker_max}: raise the latter"),
        (bool(s.domain) != bool(s.certificate_arn), "domain and certificate_arn come together: give both or none"),
        (s.log_days not in _LOG_DAYS, f"log_days={s.log_days} is not kept by CloudWatch: take one of {', '.join(map(str, _LOG_DAYS))}"),
        (
            s.proxy and s.is_aurora and s.aurora_min_acu == 0,
            "proxy=true keeps Aurora from ever pausing: set aurora_min_acu=0.5, or proxy=false",
        ),
    ]
    for broken, text in faults:
        if broken:
            raise SettingsInvalid(text)
