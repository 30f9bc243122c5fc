"""What CloudFront lets through to us: the vendor's common rules, and a limit of requests per address. Only in us-east-1."""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_wafv2 as waf
from constructs import Construct

from infra.settings import Stage

REGION = "us-east-1"
"""Where CloudFront's web ACLs and certificates are."""


class WebAcl(Construct):
    """`arn`, for CloudFront."""

    def __init__(self, scope: Construct, name: str, stage: Stage) -> None:
        super().__init__(scope, name)

        def seen(name: str) -> waf.CfnWebACL.VisibilityConfigProperty:
            return waf.CfnWebACL.VisibilityConfigProperty(
                cloud_watch_metrics_enabled=True, metric_name=f"tidemill-{stage.name}-{name}", sampled_requests_enabled=True
            )

        managed = waf.CfnWebACL.ManagedRuleGroupStatementProperty(
            vendor_name="AWS",
            name="AWSManagedRulesCommonRuleSet",
            # A job's payload may be larger than 8 kB and may look like anything.
            rule_action_overrides=[
                waf.CfnWebACL.RuleActionOverrideProperty(name=name, action_to_use=waf.CfnWebACL.RuleActionProperty(count={}))
                for name in (
                    "SizeRestrictions_BODY",
                    "CrossSiteScripting_BODY",
                    "GenericLFI_BODY",
                    "GenericRFI_BODY",
                    "EC2MetaDataSSRF_BODY",
                )
            ],
        )
        flood = waf.CfnWebACL.RateBasedStatementProperty(limit=stage.throttle_rate * 300, aggregate_key_type="IP")
        made = waf.CfnWebACL(
            self,
            "Acl",
            scope="CLOUDFRONT",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            visibility_config=seen("all"),
            rules=[
                waf.CfnWebACL.RuleProperty(
                    name="common",
                    priority=1,
                    statement=waf.CfnWebACL.StatementProperty(managed_rule_group_statement=managed),
                    override_action=waf.CfnWebACL.OverrideActionProperty(none={}),
                    visibility_config=seen("common"),
                ),
                waf.CfnWebACL.RuleProperty(
                    name="flood",
                    priority=2,
                    statement=waf.CfnWebACL.StatementProperty(rate_based_statement=flood),
                    action=waf.CfnWebACL.RuleActionProperty(block={}),
                    visibility_config=seen("flood"),
                ),
            ],
        )
        self.arn: str = made.attr_arn


class Firewall(Stack):
    """Only the web ACL, in the one region where CloudFront takes it from, for a stage that is elsewhere."""

    def __init__(self, scope: Construct, stage: Stage, **about: Any) -> None:
        super().__init__(
            scope,
            f"Tidemill-{stage.name}-Firewall",
            description=f"tidemill {stage.name}: the web ACL of the front door",
            cross_region_references=True,
            **about,
        )
        self.web_acl = WebAcl(self, "WebAcl", stage)
