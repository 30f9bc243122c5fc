"""What a stage costs: a month of it standing there, and a million jobs by each way of using it. `scripts/cost` prints it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from infra import prices as p
from infra.settings import SettingsInvalid, Stage, read

METRICS = 17
ALARMS = 20
"""Metrics that alarms look at: that is what is paid for. Autoscaling has two."""
SECRETS = 3
ENDPOINTS = 3
ZONES = 2
TICK_SECS, CALL_SECS = 0.4, 0.02
"""How long a pass with nothing to do, and a call of the API, run (measured locally, doubled)."""
COURIER_SECS, COURIER_MB = 0.1, 256
"""A round with nothing to carry (guessed; not measured on AWS)."""
LOG_BYTES = 700
"""A call's lines: access log and handler."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way of using it. Calls of the API per million jobs; `through_edge`: by CloudFront and not the API's own address."""

    name: str
    calls: int


WAYS = (
    Way("enqueued 100 at a time, worked by our workers", 10_000),
    Way("enqueued one by one, worked by our workers", 1_000_000),
    Way("enqueued 100 at a time, worked over HTTPS 50 at a time (POST /v1/exchange)", 30_000),
    Way("every step a call of its own: enqueue, claim, ack", 3_000_000),
)


def fixed(stage: Stage) -> dict[str, float]:
    """Dollars a month by part, with `worker_min` workers and not a job."""
    found: dict[str, float] = {}
    if stage.is_aurora:
        least = stage.aurora_min_acu * p.AURORA_ACU_HOUR * p.HOURS * (2 if stage.multi_az else 1)
        found["database (Aurora, at its least)"] = least + stage.storage_gb * p.AURORA_STORAGE_GB
    else:
        times = 2 if stage.multi_az else 1
        found["database"] = times * (p.RDS_HOUR[stage.instance_class] * p.HOURS + stage.storage_gb * p.RDS_STORAGE_GB)
    if stage.proxy:
        hourly = p.PROXY_LEAST_ACUS * p.PROXY_ACU_HOUR if stage.is_aurora else p.PROXY_LEAST_VCPUS * p.PROXY_VCPU_HOUR
        found["proxy"] = hourly * p.HOURS
    if stage.network == "nat":
        found["NAT gateway"] = p.NAT_HOUR * p.HOURS
    if stage.network == "endpoints":
        found["endpoints"] = ENDPOINTS * ZONES * p.ENDPOINT_HOUR * p.HOURS
    if stage.worker_min:
        found["workers, the least"] = stage.worker_min * worker_hour(stage) * p.HOURS
    if stage.tick:
        minutes = p.HOURS * 60
        found["scheduler"] = minutes * (
            TICK_SECS * stage.memory_mb / 1024 * p.LAMBDA_GB_SECOND + (p.LAMBDA_MILLION + p.SCHEDULER_MILLION) / 1e6
        )
        found["courier"] = minutes * (  # itself, and the scheduler's function that it asks
            COURIER_SECS * (COURIER_MB + stage.memory_mb) / 1024 * p.LAMBDA_GB_SECOND + (2 * p.LAMBDA_MILLION + p.SCHEDULER_MILLION) / 1e6
        )
    found["secrets"] = SECRETS * p.SECRET
    found["alarms, metrics, dashboard"] = ALARMS * p.ALARM + METRICS * p.METRIC + p.DASHBOARD
    if stage.waf:
        found["WAF"] = p.WAF + 2 * p.WAF_RULE
    return found


def worker_hour(stage: Stage) -> float:
    """Dollars of one worker in an hour."""
    full = stage.worker_cpu / 1024 * p.FARGATE_VCPU_HOUR + stage.worker_memory_mb / 1024 * p.FARGATE_GB_HOUR
    spot = stage.worker_spot_percent / 100
    return full * (1 - spot + spot * p.FARGATE_SPOT_SHARE) + (p.PUBLIC_IP_HOUR if stage.network == "public" else 0)


def per_million(stage: Stage, way: Way) -> float:
    """Dollars for a million jobs beyond the fixed ones, without the workers' own time (yours differs)."""
    call = (
        (p.LAMBDA_MILLION + p.HTTP_API_MILLION + p.CLOUDFRONT_MILLION) / 1e6
        + CALL_SECS * stage.memory_mb / 1024 * p.LAMBDA_GB_SECOND
        + LOG_BYTES / 1e9 * p.LOGS_GB
    )
    stored = 1e6 * 3_000 / 1e9 * (p.AURORA_STORAGE_GB if stage.is_aurora else p.RDS_STORAGE_GB)
    return way.calls * call + stored + (0.4 * p.AURORA_MILLION_IO if stage.is_aurora else 0)


def table(stage: Stage) -> str:
    """The report."""
    parts = fixed(stage)
    lines = [f"stage {stage.name}: US dollars, us-east-1, prices of {p.AS_OF}", "", "a month without a job"]
    lines += [f"  {dollars:9.2f}  {part}" for part, dollars in parts.items()]
    lines += [f"  {sum(parts.values()):9.2f}  together", "", "a million jobs"]
    lines += [f"  {per_million(stage, way):9.2f}  {way.name}" for way in WAYS]
    lines += ["", f"  {worker_hour(stage):9.4f}  an hour of one worker ({stage.worker_cpu / 1024:g} vCPU, {stage.worker_memory_mb} MB)"]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """`python -m infra.cost [stage …] [name=value …]`: the exit code."""
    stages = json.loads((Path(__file__).parents[1] / "cdk.json").read_text(encoding="utf-8"))["context"]["stages"]
    names = [word for word in arguments if "=" not in word] or list(stages)
    given = dict(word.split("=", 1) for word in arguments if "=" in word)
    try:
        print("\n\n".join(table(read(stages, {**given, "stage": name})) for name in names))
    except SettingsInvalid as error:
        print(f"tidemill: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
