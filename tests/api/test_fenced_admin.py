"""The admin function as its own database role, which sees one project at a time and has no right too many: everything it serves works."""

from collections.abc import Iterator

import pytest

from api.gateway import Gateway
from api.people import person
from api.test_audit import RECIPES
from harness import lent
from harness.roles import as_role
from tidemill.http import routes
from tidemill.http.app import App
from tidemill.http.dispatch import Dispatcher

SERVED = {f"{route.method} {route.path}" for route in routes.of("admin")}
LISTS = [route.path for route in routes.of("admin") if route.method == "GET" and "{" not in route.path]


class Fenced(Gateway):
    """Its admin function connects as tidemill_admin, as on AWS."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        database = lent.Warm(as_role(dsn, "tidemill_admin"))
        self.databases.append(database)
        self._apps["admin"] = App("admin", Dispatcher(settings=self.settings, database=database))


@pytest.fixture
def fenced(database: str) -> Iterator[Fenced]:
    made = Fenced(database)
    yield made
    made.close()


def test_every_change_works_behind_the_fence(fenced: Fenced) -> None:
    for name in sorted(SERVED & RECIPES.keys()):
        gateway = Fenced(fenced.dsn)
        path, body = RECIPES[name](gateway)
        reply = gateway.request(name.partition(" ")[0], path, body)
        gateway.close()
        assert reply.status < 300, (name, reply.text)


def test_every_list_answers_behind_the_fence_and_shows_the_project(fenced: Fenced) -> None:
    fenced.enqueue()
    assert fenced.request("PUT", "/v1/webhook", {"url": "https://example.com/"}).status == 201
    owner = person(fenced, "owner")
    for path in LISTS:
        reply = owner.get(path)
        assert reply.status in (200, 422), (path, reply.text)  # 422: asks for a parameter
    assert [queue["name"] for queue in owner.get("/v1/queues").json["items"]] == ["default"]
    assert fenced.post("/v1/queues", {"name": "q"}).status == 201
    assert len(owner.get("/v1/audit").json["items"]) == 2
    made = owner.post("/v1/projects", {"org_id": owner.org_id, "name": "p2"})
    assert made.status == 201, made.text
    assert [queue["name"] for queue in owner.get("/v1/queues", project=made.json["id"]).json["items"]] == ["default"]
    assert owner.request("DELETE", f"/v1/projects/{made.json['id']}").status == 204
    notes = owner.get(f"/v1/organizations/{owner.org_id}/audit").json["items"]
    assert [note["action"] for note in notes] == ["projects.delete", "projects.create"]
