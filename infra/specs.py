"""Which Lambdas there are, and what sets each apart: facts alone, to be read without the CDK and the Node that comes with it."""

from __future__ import annotations

from dataclasses import dataclass

INTERFACES = (
    "CreateNetworkInterface", "DeleteNetworkInterface", "DescribeNetworkInterfaces", "DescribeSubnets", "DetachNetworkInterface",
    "AssignPrivateIpAddresses", "UnassignPrivateIpAddresses",
)  # fmt: skip
"""What AWSLambdaENIManagementAccess allows, and its siblings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What sets a function apart."""

    timeout_secs: int = 29
    memory_mb: int | None = None
    in_vpc: bool = True


SPECS = {
    "enqueue": Spec(),
    "claims": Spec(),
    "admin": Spec(),
    "authorizer": Spec(timeout_secs=10),
    "scheduler": Spec(timeout_secs=58),
    "migrator": Spec(timeout_secs=840, memory_mb=512),
    "courier": Spec(timeout_secs=58, memory_mb=256, in_vpc=False),
    "deploy": Spec(timeout_secs=900, memory_mb=256, in_vpc=False),
}
