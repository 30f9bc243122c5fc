"""Organizations, members and projects. Rows are dictionaries by column name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidemill.domain.keys import compact_json
from tidemill.store.reads import Reads, Row


class Standing(NamedTuple):
    """What a live session's user is in an organization; `role` None: nothing."""

    role: str | None
    org_id: str | None
    hides_payloads: bool


class Accounts(Reads):
    """Few rows that change rarely; every list is a page by id."""

    def standing(self, user_id: str, family_id: str, *, project_id: str | None, org_id: str | None) -> Standing | None:
        """None when the session has ended."""
        params = {"user_id": user_id, "family_id": family_id, "project_id": project_id, "org_id": org_id}
        row = self._row("accounts/standing", params)
        return Standing._make(row) if row else None

    def organizations(self, user_id: str, *, org_id: str | None = None, after: str | None = None, limit: int = 1) -> list[Row]:
        """The user's organizations, or the one of this id."""
        return self._dicts("accounts/organizations", {"user_id": user_id, "id": org_id, "after": after, "limit": limit})

    def create_organization(self, org_id: str, user_id: str, name: str, slug: str) -> bool:
        """False if the slug is taken."""
        params = {"id": org_id, "user_id": user_id, "name": name, "slug": slug}
        return self._row("accounts/create_organization", params) is not None

    def edit_organization(self, org_id: str, *, name: str | None, payloads_hidden_from: Sequence[str] | None) -> bool:
        """None leaves a field as it is."""
        hidden = None if payloads_hidden_from is None else compact_json(list(payloads_hidden_from))
        return self._row("accounts/edit_organization", {"id": org_id, "name": name, "payloads_hidden_from": hidden}) is not None

    def users(self, org_id: str, *, user_id: str | None = None, after: str | None = None, limit: int = 1) -> list[Row]:
        """The organization's members, or the one of this id."""
        return self._dicts("accounts/users", {"org_id": org_id, "id": user_id, "after": after, "limit": limit})

    def create_user(self, user_id: str, email: str, full_name: str, password_hash: str) -> tuple[str, bool]:
        """The id of the user with this email, and whether it is this new one."""
        params = {"id": user_id, "email": email, "full_name": full_name, "password_hash": password_hash}
        row = self._row("accounts/create_user", params)
        assert row is not None
        return row[0], row[1]

    def add_member(self, org_id: str, user_id: str, role: str) -> bool:
        """False if the user is a member already."""
        return self._row("accounts/add_member", {"org_id": org_id, "user_id": user_id, "role": role}) is not None

    def lock_organization(self, org_id: str) -> None:
        """Until the transaction's end nobody else changes who is in it."""
        self._row("accounts/lock_organization", {"id": org_id})

    def has_other_owner(self, org_id: str, user_id: str) -> bool:
        """Is there an active owner beside this user?"""
        return self._row("accounts/other_owner", {"org_id": org_id, "user_id": user_id}) is not None

    def set_role(self, org_id: str, user_id: str, role: str) -> bool:
        """False if the user is no member."""
        return self._row("accounts/set_role", {"org_id": org_id, "user_id": user_id, "role": role}) is not None

    def remove_member(self, org_id: str, user_id: str) -> bool:
        """False if the user is no member."""
        return self._row("accounts/remove_member", {"org_id": org_id, "user_id": user_id}) is not None

    def projects_of(
        self, user_id: str | None, *, project_id: str | None = None, org_id: str | None = None, after: str | None = None, limit: int = 1
    ) -> list[Row]:
        """The projects of the user's organizations, or the one of this id (`user_id` None: whoever's)."""
        params = {"user_id": user_id, "id": project_id, "org_id": org_id, "after": after, "limit": limit}
        return self._dicts("accounts/projects", params)

    def create_project(self, project_id: str, queue_id: str, org_id: str, name: str, *, created_by: str) -> bool:
        """With its queue `default`. False if the name is taken."""
        params = {"id": project_id, "queue_id": queue_id, "org_id": org_id, "name": name, "created_by": created_by}
        return self._row("accounts/create_project", params) is not None

    def rename_project(self, project_id: str, name: str) -> bool:
        """False if the name is taken."""
        return self._row("accounts/edit_project", {"id": project_id, "name": name}) is not None

    def holds_jobs(self, project_id: str) -> bool:
        """Is there any job, in whatever state?"""
        return self._row("accounts/holds_jobs", {"id": project_id}) is not None

    def delete_project(self, project_id: str) -> None:
        """With all that it has set up."""
        self._row("accounts/delete_project", {"id": project_id})
