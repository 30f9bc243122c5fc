"""The findings of cdk-nag that we live with, each with its reason. Keys are rules without their prefix."""

from __future__ import annotations

from infra.settings import Stage

PREFIX = "AwsSolutions-"
_INTERFACES = "service-role/AWSLambdaENIManagementAccess"


def accepted_of_stateful(stage: Stage) -> dict[str, str]:
    """Rule (without its prefix) and the reason why its finding stays, for this stage."""
    found = {
        "RDS11": "the port is no secret: security groups let in two groups of ours and nobody else",
        "SMG4": "RDS rotates the master password itself (manage_master_user_password), every seven days",
    }
    if not stage.flow_logs:
        found["VPC7"] = "flow logs are a setting (flow_logs): they cost by traffic, and nothing but our own groups can reach anything here"
    else:
        found["IAM5[Resource::*]"] = "the flow log's role is the CDK's own"
    if not stage.multi_az:
        found["RDS3"] = "a second zone is a setting (multi_az): it doubles the price of the database"
    if not stage.protected:
        found["RDS10"] = "deletion protection is a setting (protected), on in prod; a deleted database leaves a snapshot"
    if stage.network == "endpoints":
        found["EC23"] = "the endpoints let in the VPC's own addresses, which the rule cannot read out of a reference"
    if stage.is_aurora:
        found["RDS14"] = "backtrack is for MySQL"
    return found


def accepted_of_service(stage: Stage) -> dict[str, str]:
    """The same for the other stack."""
    found = {
        f"IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{_INTERFACES}]": "network interfaces of Lambdas in a "
        "VPC take no resource in a policy; this managed policy is the least there is (it lets in no log and no secret)",
        "L1": "the dependency layer is built and tested for Python 3.13, which Lambda supports until 2029",
        "SMG4": "the first login is meant to be changed after the first use, the front door's header by a new deploy (docs/operations.md)",
        "IAM5[Resource::<FunctionsScheduler9A450F4F.Arn>:*]": "the CDK's target for the Scheduler names the function and its versions",
        "IAM5[Resource::<FunctionsCourierAC49B40D.Arn>:*]": "the same for the courier",
        f"IAM5[Resource::arn:aws:ecs:<AWS::Region>:<AWS::AccountId>:task/tidemill-{stage.name}/*]": "a worker protects its own task, whose "
        "id nobody knows beforehand; the cluster is ours alone",
        "IAM5[Resource::*]": "ecr:GetAuthorizationToken takes no resource",
        "S1": "the bucket holds one public page and only CloudFront may read it: its access log would say what CloudFront's metrics say",
        "CFR1": "whom a team lets in from where is the team's to say",
        "CFR3": "the API behind it writes an access log with the caller's address; the page is one static file",
        "ECS2": "what the environment holds is no secret: the database's address and names; the password is a token made on the spot",
        "ECS4": "container insights cost more than a small worker; the workers' figures are tidemill's own metrics",
    }
    if not stage.waf:
        found["CFR2"] = "a WAF is a setting (waf)"
    if not stage.domain:
        found["CFR4"] = "without a domain of one's own CloudFront's certificate is used, whose protocol cannot be chosen (setting: domain)"
    return found
