"""The data in the templates: private, encrypted, kept, and reached by signed logins from our own groups only."""

import json
from pathlib import Path

import pytest

from harness.stages import STAGES, Templates, of_type

ALL = list(STAGES)


@pytest.mark.parametrize("name", ALL)
def test_database_is_private_encrypted_and_takes_signed_logins(templates: Templates, name: str) -> None:
    stateful = templates(name)["Stateful"]
    instances, clusters = of_type(stateful, "AWS::RDS::DBInstance"), of_type(stateful, "AWS::RDS::DBCluster")
    assert all(each["PubliclyAccessible"] is False for each in instances.values())
    holders = clusters or instances
    assert holders
    for each in holders.values():
        assert each["StorageEncrypted"] is True
        assert each["EnableIAMDatabaseAuthentication"] is True
        assert each["ManageMasterUserPassword"] is True
        assert "MasterUserPassword" not in each
    assert all(each["Parameters"]["rds.force_ssl"] == "1" for each in of_type(stateful, "AWS::RDS::DBParameterGroup").values())
    for logical, each in stateful["Resources"].items():
        if each["Type"] in ("AWS::RDS::DBInstance", "AWS::RDS::DBCluster") and logical in holders:
            assert each["DeletionPolicy"] == "Snapshot"


@pytest.mark.parametrize("name", ALL)
def test_only_our_own_groups_reach_the_database(templates: Templates, name: str) -> None:
    stateful = templates(name)["Stateful"]
    for each in of_type(stateful, "AWS::EC2::SecurityGroupIngress").values():
        assert "SourceSecurityGroupId" in each
        assert "CidrIp" not in each
    for logical, each in of_type(stateful, "AWS::EC2::SecurityGroup").items():
        if "Endpoint" not in logical and "SecurityGroupIngress" in each:
            assert "Images" in logical or "Layers" in logical or "Logs" in logical


def test_prod_cannot_be_deleted_by_accident(templates: Templates, assemblies: Path) -> None:
    (instance,) = of_type(templates("prod")["Stateful"], "AWS::RDS::DBInstance").values()
    assert instance["DeletionProtection"] is True
    manifest = json.loads((assemblies / "prod" / "manifest.json").read_text())
    assert manifest["artifacts"]["Tidemill-prod-Stateful"]["properties"]["terminationProtection"] is True


@pytest.mark.parametrize("name", ALL)
def test_the_databases_own_log_is_not_kept_for_ever(templates: Templates, name: str) -> None:
    stateful = templates(name)["Stateful"]
    groups = {each.get("LogGroupName"): each["RetentionInDays"] for each in of_type(stateful, "AWS::Logs::LogGroup").values()}
    for kind, key in (("DBInstance", "DBInstanceIdentifier"), ("DBCluster", "DBClusterIdentifier")):
        for database in of_type(stateful, f"AWS::RDS::{kind}").values():
            for log in database.get("EnableCloudwatchLogsExports", []):
                assert groups[f"/aws/rds/{kind[2:].lower()}/{database[key]}/{log}"] in (30, 90)
