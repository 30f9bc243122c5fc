"""How many database connections a stage may open at once, against how many its database has."""

from __future__ import annotations

from infra.settings import SettingsInvalid, Stage

PER_WORKER = 4
"""Claims, acks, heartbeats and reports: tidemill.runner.sources.postgres."""
KEPT_FREE = 10
"""For the migrator, the superuser's reserve, and a person who looks."""
PROXY_SHARE = 0.6
"""Of the database's connections, what the proxy may pool."""

MEMORY_GB = {
    "t4g.micro": 1, "t4g.small": 2, "t4g.medium": 4, "t4g.large": 8, "t4g.xlarge": 16,
    "m7g.large": 8, "m7g.xlarge": 16, "m7g.2xlarge": 32, "r7g.large": 16, "r7g.xlarge": 32, "r7g.2xlarge": 64,
}  # fmt: skip
PER_GB = 95
"""`max_connections` per GB: RDS computes it from memory less its own use; a t4g.small has about 190."""


def available(stage: Stage) -> int:
    """Connections that the database has. SettingsInvalid for a class we know nothing of."""
    if stage.is_aurora:
        return min(5_000, int(stage.aurora_max_acu * 2 * PER_GB))
    if stage.instance_class not in MEMORY_GB:
        raise SettingsInvalid(
            f"instance_class={stage.instance_class} is not in infra/budget.py: take one of {', '.join(MEMORY_GB)}, or add it"
        )
    return min(5_000, MEMORY_GB[stage.instance_class] * PER_GB)


def lambdas(stage: Stage) -> int:
    """Connections of all function environments: one each."""
    return (
        stage.enqueue_concurrency + stage.claims_concurrency + stage.admin_concurrency
        + stage.authorizer_concurrency + stage.scheduler_concurrency
    )  # fmt: skip


def used(stage: Stage) -> int:
    """At most, at once; behind a proxy the functions share its pool."""
    through = int(available(stage) * PROXY_SHARE) if stage.proxy else lambdas(stage)
    return through + stage.worker_max * PER_WORKER + KEPT_FREE


def check(stage: Stage) -> None:
    """SettingsInvalid if the stage could open more than there are."""
    if used(stage) > available(stage):
        raise SettingsInvalid(
            f"{used(stage)} connections at most ({lambdas(stage)} of functions, {stage.worker_max} workers x {PER_WORKER},"
            f" {KEPT_FREE} kept free) are more than the {available(stage)} of the database: lower *_concurrency or worker_max,"
            " take a larger one, or proxy=true"
        )
