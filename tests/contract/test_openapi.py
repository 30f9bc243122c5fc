"""The OpenAPI document is what the code says, and what is checked in."""

import json

import jsonschema_rs

from tidemill.http import document, routes, system
from tidemill.http.dispatch import endpoint_of


def test_the_checked_in_document_is_up_to_date() -> None:
    assert system.DOCUMENT.read_text(encoding="utf-8") == document.text(), "run scripts/openapi and commit the result"


def test_document_and_router_list_the_same_routes() -> None:
    made = document.build()
    listed = {(method.upper(), path) for path, methods in made["paths"].items() for method in methods}
    assert listed == {(route.method, route.path) for route in routes.TABLE}
    assert made["openapi"] == "3.1.0"


def test_every_reference_leads_somewhere_and_every_operation_is_told() -> None:
    made = document.build()
    text = json.dumps(made)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in made["components"]["schemas"], name
    operations = [operation for methods in made["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all(operation["summary"] and "default" in operation["responses"] for operation in operations)


def test_schemas_are_json_schema() -> None:
    made = document.build()
    for name, schema in made["components"]["schemas"].items():
        jsonschema_rs.meta.validate({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"})
        assert schema.get("title"), name


def test_every_list_can_be_asked_whether_it_has_changed() -> None:
    paths = document.build()["paths"]
    for route in routes.TABLE:
        marks = endpoint_of(route).operation
        is_list = route.method == "GET" and "next_cursor" in getattr(marks.answers.get(200), "__annotations__", {})
        if is_list:
            assert marks.etag, f"{route.method} {route.path}"
        assert ("304" in paths[route.path][route.method.lower()]["responses"]) is marks.etag
