"""Paths: the same request in all its spellings; routes and who serves them."""

import pytest

from tidemill.http import paths, routes


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("/v1/jobs", None), ("/v1/jobs", "$default"), ("/v1/jobs", ""), ("/prod/v1/jobs", "prod"), ("/v1/jobs", "prod"),
        ("/v1/jobs/", None),
        ("//v1//jobs//", None), ("/prod/v1/jobs/", "prod"), ("/v1/v1/jobs", "prod"), ("/v1/v1/jobs", None), ("/v1/jobs", "v1"),
        ("/v1/v1/jobs", "v1"), ("v1/jobs", None), ("/v1/jobs?limit=1", None), ("/%76%31/jobs", None),
    ],
)  # fmt: skip
def test_b071_spellings_of_one_path_are_one(path: str, stage: str | None) -> None:
    assert paths.normalised(path, stage) == "/v1/jobs"


def test_b071_only_the_leading_stage_goes_and_only_once() -> None:
    assert paths.normalised("/prod/v1/queues/prod", "prod") == "/v1/queues/prod"
    assert paths.normalised("/v1/queues/prod", "prod") == "/v1/queues/prod"
    assert paths.normalised("/prod/prod/v1/jobs", "prod") == "/prod/prod/v1/jobs"
    assert paths.normalised("/prod/nothing", "prod") == "/prod/nothing"
    assert paths.normalised("/prod/healthz", "prod") == "/healthz"


@pytest.mark.parametrize(
    ("method", "given", "normal"),
    [
        ("GET", "/v1/queues/a%2Fb", "/v1/queues/a%2Fb"), ("GET", "/v1/queues/a/b", "/v1/queues/a%2Fb"),
        ("POST", "/v1/queues/a/b/pause", "/v1/queues/a%2Fb/pause"), ("POST", "/v1/queues/a%2Fpause/resume", "/v1/queues/a%2Fpause/resume"),
        ("GET", "/v1/queues/a/pause", "/v1/queues/a%2Fpause"), ("PATCH", "/v1/queues/pause/pause", "/v1/queues/pause%2Fpause"),
        ("POST", "/v1/queues/a/pause", "/v1/queues/a/pause"), ("DELETE", "/v1/retry-policies/x/y/z", "/v1/retry-policies/x%2Fy%2Fz"),
        ("PATCH", "/v1/queues/a/partitions/b", "/v1/queues/a/partitions/b"),
        ("PATCH", "/v1/queues/a/b/partitions/c/d", "/v1/queues/a%2Fb/partitions/c%2Fd"),
        ("PATCH", "/v1/queues/a%2Fb/partitions/c%2Fd", "/v1/queues/a%2Fb/partitions/c%2Fd"),
        ("PATCH", "/v1/queues/a/partitions", "/v1/queues/a%2Fpartitions"),
    ],
)  # fmt: skip
def test_names_with_slashes_reach_their_queue_whether_the_gateway_decodes_or_not(method: str, given: str, normal: str) -> None:
    assert paths.normalised(given, None, method) == normal
    assert method in routes.at(normal)


def test_each_route_is_there_once_and_its_endpoint_exists() -> None:
    assert len({(route.method, route.path) for route in routes.TABLE}) == len(routes.TABLE)
    for route in routes.TABLE:
        from tidemill.http.dispatch import endpoint_of

        assert callable(endpoint_of(route))
        assert endpoint_of(route).__doc__
        assert route.function in {"enqueue", "claims", "admin", "scheduler"}


def test_only_the_probes_and_the_ways_into_a_session_and_out_are_open() -> None:
    session = {"/v1/auth/login", "/v1/auth/refresh", "/v1/auth/logout"}
    assert {route.path for route in routes.TABLE if route.scopes is None} == {"/healthz", "/readyz"} | session
    assert all(route.scopes for route in routes.TABLE if route.scopes is not None)


def test_a_request_goes_to_the_function_that_serves_its_method() -> None:
    job = "/v1/jobs/01a228eb-d498-746a-aaf2-0395defd9e29"
    assert [routes.function_of(m, job) for m in ("GET", "HEAD", "PATCH", "DELETE")] == ["enqueue", "enqueue", "admin", "admin"]
    assert routes.function_of("POST", job + "/logs") == "claims"
    assert routes.function_of("GET", "/nothing") == "enqueue"
