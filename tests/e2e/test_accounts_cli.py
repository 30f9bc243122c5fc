"""Accounts and keys from the command line and through the gateway, as people and browsers use them."""

import json
import subprocess

import httpx
import pytest

from harness import dev as harness
from harness.dev import Dev


@pytest.fixture
def tidemill(dev: Dev):
    def run(*arguments: str, text: str | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        about = dev.about
        known = {
            "TIDEMILL_URL": dev.url, "TIDEMILL_API_KEY": about["api_key"], "TIDEMILL_DATABASE_URL": about["dsn"],
            "TIDEMILL_EMAIL": about["admin_email"], "TIDEMILL_PASSWORD": about["admin_password"],
        }  # fmt: skip
        return harness.cli(*arguments, text=text, **{**known, **settings})

    return run


def test_the_printed_login_works_in_a_browser_and_ends_there(dev: Dev) -> None:
    body = {"email": dev.about["admin_email"], "password": dev.about["admin_password"]}
    with httpx.Client(base_url=dev.url, timeout=60, verify=False) as browser:
        first = browser.post("/v1/auth/login", json=body)
        assert first.status_code == 200
        assert "Secure" not in first.headers["set-cookie"], "plain http, where a browser would not send it back"
        renewed = browser.post("/v1/auth/refresh")
        assert renewed.status_code == 200
        headers = {"authorization": f"Bearer {renewed.json()['access_token']}", "x-tidemill-project": dev.about["project_id"]}
        assert [queue["name"] for queue in browser.get("/v1/queues", headers=headers).json()["items"]] == ["default"]
        other = browser.get("/v1/queues", headers=headers | {"x-tidemill-project": dev.about["api_key"][9:41]})
        assert other.status_code == 404, "what a gateway remembers of a caller is not bound to a project"
        assert browser.post("/v1/auth/logout").status_code == 204
        assert browser.get("/v1/queues", headers=headers).status_code == 401
        assert browser.post("/v1/auth/refresh").status_code == 401


def test_members_come_change_and_go(tidemill) -> None:
    made = json.loads(tidemill("accounts", "members", "add", "ada@example.com", "--role", "operator", "--json").stdout)
    ada = {"TIDEMILL_EMAIL": "ada@example.com", "TIDEMILL_PASSWORD": made["initial_password"]}
    assert "operator" in tidemill("accounts", "me", **ada).stdout
    refused = tidemill("accounts", "projects", "create", "mine", **ada)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert tidemill("accounts", "members", "role", "ada@example.com", "--role", "viewer").stdout.split()[2] == "viewer"
    last = tidemill("accounts", "members", "remove", "owner@tidemill.local")
    assert (last.returncode, "last owner" in last.stderr) == (1, True)
    assert tidemill("accounts", "members", "remove", "ada@example.com").returncode == 0
    assert "ada@" not in tidemill("accounts", "members", "list").stdout


def test_projects_come_and_go(tidemill) -> None:
    project = tidemill("accounts", "projects", "create", "second").stdout.split()[0]
    assert tidemill("accounts", "projects", "rename", project, "third").stdout.split() == [project, "third"]
    assert f"{project}  third" in tidemill("accounts", "projects", "list").stdout
    assert tidemill("accounts", "projects", "delete", project).returncode == 0


def test_keys_are_made_rotated_and_revoked(tidemill, dev: Dev) -> None:
    made = tidemill("keys", "create", "ci", "--scope", "read", "--expires", "90d").stdout.splitlines()
    listed = map(json.loads, tidemill("keys", "list", "--json").stdout.splitlines())
    key = next(one for one in listed if one["name"] == "ci")
    assert key["scopes"] == ["read"]
    text = json.loads(tidemill("keys", "rotate", key["id"], "--overlap", "10m", "--json").stdout)["api_key"]
    for one in (made[0], text):
        assert httpx.get(f"{dev.url}/v1/queues", headers={"authorization": f"Bearer {one}"}, timeout=60, verify=False).status_code == 200
    assert tidemill("keys", "revoke", key["id"]).stdout.endswith("revoked\n")
    assert key["id"] not in tidemill("keys", "list").stdout
    assert key["id"] in tidemill("keys", "list", "--all").stdout
    assert tidemill("keys", "create", "x", "--scope", "root").returncode == 1


def test_bootstrap_on_the_database_is_repeatable(tidemill) -> None:
    first = json.loads(tidemill("accounts", "bootstrap", "--email", "root@example.com", "--slug", "two", "--key", "--json").stdout)
    again = json.loads(tidemill("accounts", "bootstrap", "--email", "root@example.com", "--slug", "two", "--json").stdout)
    assert {**first, "is_new": False, "password": None, "api_key": None} == again
    root = {"TIDEMILL_EMAIL": "root@example.com", "TIDEMILL_PASSWORD": first["password"]}
    assert first["organization_id"] in tidemill("accounts", "me", **root).stdout
    assert tidemill("keys", "list", TIDEMILL_API_KEY=first["api_key"]).returncode == 0
    assert tidemill("accounts", "password", "--password-stdin", text="short\n", **root).returncode == 1
    assert tidemill("accounts", "password", "--password-stdin", text="twelve or more\n", **root).returncode == 0
    wrong = tidemill("accounts", "me", **root)
    assert (wrong.returncode, wrong.stderr) == (1, "tidemill: the email or the password is wrong\n")


def test_the_key_that_signs_is_changed_without_anybody_being_logged_out(dev: Dev, tidemill) -> None:
    body = {"email": dev.about["admin_email"], "password": dev.about["admin_password"]}
    with httpx.Client(base_url=dev.url, timeout=60, verify=False) as browser:
        old = {"authorization": f"Bearer {browser.post('/v1/auth/login', json=body).json()['access_token']}"}
        made = json.loads(tidemill("accounts", "rotate-signing-key", "--json").stdout)
        assert browser.get("/v1/me", headers=old).status_code == 200
        assert browser.post("/v1/auth/refresh").status_code == 200
    assert (made["purpose"], made["taken_back_secs"]) == ("session", 3600)
    refused = tidemill("accounts", "rotate-signing-key", "--purpose", "jokes")
    assert (refused.returncode, "none of session, cursor" in refused.stderr) == (1, True)
