"""The gateway's own part: limits, time-outs, what a failing function looks like from outside, the page."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidemill.domain.errors import Unavailable
from tidemill.local import page
from tidemill.local.gateway import BODY_BYTES, Gateway
from tidemill.local.runtime.process import FunctionCrashed, FunctionFailed, FunctionTimedOut

ALLOWED = {"isAuthorized": True, "context": {"fault": "", "scopes": "enqueue"}}


class Functions:
    """Stands for the runtime: notes what is invoked and answers as it is told."""

    def __init__(self, answer: Any = None) -> None:
        self.calls: list[tuple[str, dict[str, Any], bool]] = []
        self.answer: Any = {"statusCode": 200, "body": "{}"} if answer is None else answer
        self.authorizer: Any = ALLOWED

    async def invoke(self, function: str, event: bytes, *, waits: bool = False) -> bytes:
        self.calls.append((function, json.loads(event), waits))
        given = self.authorizer if function == "authorizer" else self.answer
        if isinstance(given, Exception):
            raise given
        if callable(given):
            given = await given()
        return json.dumps(given).encode()


def through(functions: Functions, work: Callable[[httpx.AsyncClient], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        transport = httpx.ASGITransport(Gateway(functions, **options))
        async with httpx.AsyncClient(transport=transport, base_url="http://local", headers={"authorization": "Bearer x"}) as client:
            return await work(client)

    return asyncio.run(run())


def get(functions: Functions, path: str = "/v1/jobs", **options: Any) -> httpx.Response:
    answer: httpx.Response = through(functions, lambda client: client.get(path), **options)
    return answer


def assert_problem(answer: httpx.Response, status: int, code: str) -> None:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["request_id"]


@pytest.mark.parametrize(
    ("method", "path", "function"),
    [
        ("POST", "/v1/jobs", "enqueue"), ("POST", "/v1/claims", "claims"), ("POST", "/v1/tick", "scheduler"),
        ("GET", "/v1/nothing", "enqueue"), ("HEAD", "/v1/version", "enqueue"),
    ],
)  # fmt: skip
def test_each_route_goes_to_the_function_that_the_table_names(method: str, path: str, function: str) -> None:
    functions = Functions()
    through(functions, lambda client: client.request(method, path))
    assert [call[0] for call in functions.calls] == ["authorizer", function]


def test_calls_that_may_wait_are_marked() -> None:
    functions = Functions()
    for path in ("/v1/claims", "/v1/exchange", "/v1/acks"):
        through(functions, lambda client, path=path: client.post(path, json={}))
    assert [waits for function, _, waits in functions.calls if function == "claims"] == [True, True, False]


def test_the_callers_context_reaches_the_function() -> None:
    functions = Functions()
    get(functions)
    assert functions.calls[-1][1]["requestContext"]["authorizer"] == {"lambda": ALLOWED["context"]}


def test_open_routes_ask_nobody() -> None:
    functions = Functions()
    get(functions, "/healthz")
    assert [call[0] for call in functions.calls] == ["enqueue"]


def test_a_body_of_ten_megabytes_passes_and_a_byte_more_is_refused() -> None:
    functions = Functions()
    assert through(functions, lambda client: client.post("/v1/jobs", content=b"x" * BODY_BYTES)).status_code == 200
    assert_problem(through(functions, lambda client: client.post("/v1/jobs", content=b"x" * (BODY_BYTES + 1))), 413, "payload_too_large")


def test_a_body_that_does_not_say_its_size_is_measured() -> None:
    async def chunks() -> Any:
        for _ in range(11):
            yield b"x" * 1024 * 1024

    assert_problem(through(Functions(), lambda client: client.post("/v1/jobs", content=chunks())), 413, "payload_too_large")


@pytest.mark.parametrize(
    "failure", [FunctionFailed("enqueue: raised ValueError"), FunctionCrashed("enqueue: ended with code minus nine", has_begun=True)]
)
def test_a_failing_function_is_a_500_that_tells_nothing(failure: Exception) -> None:
    answer = get(Functions(failure))
    assert_problem(answer, 500, "internal")
    assert "ValueError" not in answer.text
    assert "minus nine" not in answer.text


def test_an_answer_that_is_none_is_a_500() -> None:
    assert_problem(get(Functions({"statusCode": "many"})), 500, "internal")


def test_a_function_over_its_time_is_a_503_with_retry_after() -> None:
    answer = get(Functions(FunctionTimedOut("enqueue: ran longer than 29 s")))
    assert_problem(answer, 503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1


def test_the_gateways_own_time_out_answers_while_the_function_runs_on() -> None:
    answered, done = asyncio.Event(), asyncio.Event()

    async def slow() -> dict[str, Any]:
        await answered.wait()
        done.set()
        return {"statusCode": 200}

    async def work(client: httpx.AsyncClient) -> httpx.Response:
        answer = await client.get("/v1/jobs")
        answered.set()
        async with asyncio.timeout(10):
            await done.wait()
        return answer

    answer = through(Functions(slow), work, timeout_s=0.05)
    assert_problem(answer, 503, "unavailable")


def test_too_many_calls_at_once_are_a_503_with_retry_after() -> None:
    answer = get(Functions(Unavailable("too many calls", retry_after_secs=1)))
    assert_problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("failure", [FunctionFailed("authorizer: raised"), FunctionTimedOut("authorizer"), Unavailable("none free")])
def test_a_failing_authorizer_is_a_503_and_the_function_is_not_invoked(failure: Exception) -> None:
    functions = Functions()
    functions.authorizer = failure
    assert_problem(get(functions), 503, "unavailable")
    assert [call[0] for call in functions.calls] == ["authorizer"]


def test_a_fault_of_the_gateway_itself_is_a_500_that_tells_nothing() -> None:
    answer = get(Functions(ZeroDivisionError("its text")))
    assert_problem(answer, 500, "internal")
    assert "its text" not in answer.text


def test_outside_its_stage_nothing_is_there() -> None:
    functions = Functions()
    assert_problem(get(functions, "/v1/jobs", stage="prod"), 404, "not_found")
    assert functions.calls == []


def test_the_stage_stays_in_the_path_that_the_function_sees() -> None:
    functions = Functions()
    get(functions, "/prod/v1/jobs", stage="prod")
    seen = functions.calls[-1][1]
    assert (seen["rawPath"], seen["requestContext"]["stage"]) == ("/prod/v1/jobs", "prod")


def test_the_path_arrives_decoded_and_the_query_does_not() -> None:
    functions = Functions()
    get(functions, "/v1/queues/a%2Fb%20c?q=a%2Fb")
    seen = functions.calls[-1][1]
    assert (seen["rawPath"], seen["rawQueryString"]) == ("/v1/queues/a/b c", "q=a%2Fb")


def test_the_page_that_is_not_built_says_so_without_a_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer = page.response(tmp_path / "index.html")
    assert b"not built" in answer.body
    assert b"<script" not in answer.body
    policy = dict(answer.headers)["content-security-policy"]
    assert "script-src 'none'" in policy
    assert "default-src 'none'" in policy


def test_the_built_page_may_run_its_own_script_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<html><style>p{}</style><script>alert(1)</script></html>")
    answer = page.response(tmp_path / "index.html")
    assert answer.body.startswith(b"<html>")
    policy = dict(answer.headers)["content-security-policy"]
    assert "script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='" in policy
    assert "'unsafe-inline'" not in policy


def test_the_page_is_sent_zipped_and_once(tmp_path: Path) -> None:
    built = tmp_path / "index.html"
    built.write_text("<html>one</html>")
    first = page.response(built, takes="gzip, br")
    assert gzip.decompress(first.body) == b"<html>one</html>"
    again = page.response(built, takes="gzip, br", knows=dict(first.headers)["etag"])
    assert (again.status, again.body) == (304, b"")
    built.write_text("<html>another</html>")
    assert page.response(built, knows=dict(first.headers)["etag"]).body == b"<html>another</html>"


def test_the_root_is_the_page() -> None:
    functions = Functions()
    assert get(functions, "/").headers["content-type"].startswith("text/html")
    assert functions.calls == []
