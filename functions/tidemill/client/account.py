"""A user's own doings over the API: log in, see and change organizations, members and projects, log out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from tidemill.client.calls import Thing
from tidemill.client.retry import RetryRule
from tidemill.client.transport import Call, Transport

if TYPE_CHECKING:
    import httpx

NOBODY = "nobody"


class Account:
    """A login, for as long as the `with` block lasts (and no longer than the 15 minutes of its token)."""

    def __init__(self, url: str, email: str, password: str, *, transport: httpx.BaseTransport | None = None) -> None:
        self._transport = Transport(url, NOBODY, rule=RetryRule(retries=1), carrier=transport)
        self._email, self._password = email, password

    def __enter__(self) -> Self:
        """Logs in. Unauthenticated for a wrong email or password, Throttled after too many."""
        try:
            answer = self._send("POST", "/v1/auth/login", {"email": self._email, "password": self._password})
        except BaseException:
            self._transport.close()
            raise
        self._transport.become(answer["access_token"])
        return self

    def __exit__(self, *_: object) -> None:
        """Logs out: a token that was read meanwhile opens nothing any more."""
        try:
            self._send("POST", "/v1/auth/logout", {})
        finally:
            self._transport.close()

    def me(self) -> Thing:
        """The user with organizations and projects."""
        found: Thing = self._send("GET", "/v1/me")
        return found

    def members(self, org_id: str) -> list[Thing]:
        """Who is in an organization, with roles."""
        return list(self._pages(f"/v1/organizations/{org_id}/users"))

    def add(self, org_id: str, email: str, role: str, full_name: str = "") -> Thing:
        """Lets somebody in; `initial_password` is in the answer if the account is new."""
        body = {"email": email, "role": role, "full_name": full_name}
        made: Thing = self._send("POST", f"/v1/organizations/{org_id}/users", body)
        return made

    def set_role(self, org_id: str, user_id: str, role: str) -> Thing:
        """Another role for a member."""
        found: Thing = self._send("PUT", f"/v1/organizations/{org_id}/members/{user_id}", {"role": role})
        return found

    def remove(self, org_id: str, user_id: str) -> None:
        """Takes a member out."""
        self._send("DELETE", f"/v1/organizations/{org_id}/members/{user_id}")

    def projects(self) -> list[Thing]:
        """The projects of all of the user's organizations."""
        return list(self._pages("/v1/projects"))

    def create_project(self, org_id: str, name: str) -> Thing:
        """A new project with a queue called default."""
        made: Thing = self._send("POST", "/v1/projects", {"org_id": org_id, "name": name})
        return made

    def rename_project(self, project_id: str, name: str) -> Thing:
        """The project under its new name."""
        found: Thing = self._send("PATCH", f"/v1/projects/{project_id}", {"name": name})
        return found

    def delete_project(self, project_id: str) -> None:
        """Removes an empty project."""
        self._send("DELETE", f"/v1/projects/{project_id}")

    def change_password(self, new_password: str) -> None:
        """Ends all other logins."""
        self._send("POST", "/v1/me/password", {"current_password": self._password, "new_password": new_password})

    def _pages(self, path: str) -> Iterator[Thing]:
        cursor = None
        while True:
            page = self._send("GET", path, params={"limit": "200", **({"cursor": cursor} if cursor else {})})
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _send(self, method: str, path: str, body: Any = None, params: dict[str, str] | None = None) -> Any:
        return self._transport.send(Call(method, path, body, params or {}, repeatable=method == "GET", is_tried_once=method != "GET"))
