"""The OpenAPI 3.1 document, made from the route table, the operations' models and their docstrings."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any, Final

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from tidemill.http import problem, routes
from tidemill.http.dispatch import endpoint_of
from tidemill.http.operation import Operation
from tidemill.http.routes import Route
from tidemill.http.validation import adapter
from tidemill.version import __version__

REFS: Final = "#/components/schemas/{model}"
IF_NONE_MATCH: Final = {"name": "If-None-Match", "in": "header", "required": False, "schema": {"type": "string"}}


class ProblemError(TypedDict):
    """One faulty field."""

    loc: list[str | int]
    msg: str


class Problem(TypedDict):
    """Every failure (RFC 9457). `code` is stable; the rest is for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[ProblemError]
    request_id: str


def text() -> str:
    """The document as it is checked in."""
    return json.dumps(build(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def build() -> dict[str, Any]:
    """The document."""
    models: dict[str, tuple[Any, str]] = {"problem": (Problem, "serialization")}
    for route in routes.TABLE:
        marks = _marks(route)
        for place, (model, mode) in _models(marks).items():
            models[f"{route.method} {route.path} {place}"] = (model, mode)
    inputs = [(key, mode, adapter(model)) for key, (model, mode) in models.items()]
    schemas, definitions = TypeAdapter.json_schemas(inputs, ref_template=REFS)  # type: ignore[arg-type]  # the modes are the two words that `_models` writes
    by_key = {key: schema for (key, _), schema in schemas.items()}
    components = definitions.get("$defs", {})
    paths: dict[str, Any] = {}
    for route in routes.TABLE:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, _marks(route), by_key, components)
    queries = {schema["$ref"].rpartition("/")[2] for key, schema in by_key.items() if key.endswith(" query")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "tidemill", "version": __version__, "description": "A durable job queue and scheduler."},
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in queries},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key, or a login's token"}},
        },
    }


def _marks(route: Route) -> Operation:
    marks: Operation = endpoint_of(route).operation
    return marks


def _models(marks: Operation) -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    if marks.body is not None:
        found["body"] = (marks.document or marks.body, "validation")
    if marks.query is not None:
        found["query"] = (marks.query, "validation")
    for status, model in marks.answers.items():
        if model is not None:
            found[str(status)] = (model, "serialization")
    return found


def _operation(route: Route, marks: Operation, schemas: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    key = f"{route.method} {route.path}"
    summary, _, description = (inspect.getdoc(endpoint_of(route)) or "").partition("\n")
    made: dict[str, Any] = {
        "operationId": route.endpoint.replace(":", "_"),
        "summary": summary,
        "tags": [route.path.split("/")[2] if route.path.startswith("/v1/") else "system"],
        "parameters": [
            *_path_parameters(route),
            *_query_parameters(schemas.get(f"{key} query"), components),
            *([IF_NONE_MATCH] if marks.etag else []),
        ],
        "responses": {**_answers(marks, key, schemas), "default": _problem(schemas)},
        "security": [] if route.scopes is None else [{"key": sorted(scope.value for scope in route.scopes)}],
        "x-function": route.function,
    }
    if description.strip():
        made["description"] = " ".join(description.split())
    if marks.body is not None:
        content = {"application/json": {"schema": schemas[f"{key} body"]}}
        made["requestBody"] = {"required": not marks.body_optional, "content": content}
    return made


def _answers(marks: Operation, key: str, schemas: dict[Any, Any]) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    for status, model in (marks.answers or {200: dict[str, Any]}).items():
        found[str(status)] = {"description": _reason(status)}
        if marks.text is not None:
            found[str(status)]["content"] = {marks.text: {"schema": {"type": "string"}}}
        elif model is not None:
            schema = schemas.get(f"{key} {status}", {"type": "object"})
            found[str(status)]["content"] = {"application/json": {"schema": schema}}
    if marks.etag:
        found["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        found["304"] = {"description": "What If-None-Match names still holds"}
    return found


def _reason(status: int) -> str:
    return {200: "Done", 201: "Created", 202: "Begun", 204: "Gone"}[status]


def _problem(schemas: dict[Any, Any]) -> dict[str, Any]:
    codes = ", ".join(sorted(problem.STATUSES))
    return {"description": f"A problem; codes: {codes}", "content": {problem.CONTENT_TYPE: {"schema": schemas["problem"]}}}


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    uuid, name = {"type": "string", "format": "uuid"}, {"type": "string", "maxLength": 200}
    return [
        {"name": given, "in": "path", "required": True, "schema": uuid if given == "id" else name}
        for given in re.findall(r"\{(\w+)\}", route.path)
    ]


def _query_parameters(schema: Any, components: dict[str, Any]) -> list[dict[str, Any]]:
    """A query's model, inlined: OpenAPI describes parameters one by one."""
    if schema is None:
        return []
    model = components[schema["$ref"].rpartition("/")[2]]
    return [{"name": name, "in": "query", "required": False, "schema": shape} for name, shape in model["properties"].items()]
