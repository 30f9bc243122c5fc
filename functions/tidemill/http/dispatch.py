"""From a request to its answer: who may, what was sent, the endpoint, and every failure as a problem. One place for all routes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import unquote

from tidemill.config import Settings
from tidemill.domain.errors import Fault, Internal, Invalid, MethodNotAllowed, NotFound, TidemillError, Unavailable
from tidemill.domain.text import cleaned_json
from tidemill.http import etags, problem, routes
from tidemill.http.admission import admitted
from tidemill.http.audit import Auditing
from tidemill.http.hiding import without_payloads
from tidemill.http.key_ring import KeyRing
from tidemill.http.operation import Answer, Call, Operation
from tidemill.http.origin import came_through
from tidemill.http.request import Principal, Request, unauthenticated
from tidemill.http.routes import Route
from tidemill.ports.signing import SigningKeys
from tidemill.store.database import Database
from tidemill.store.login import login

Response = dict[str, Any]
FENCED = "admin"
"""The function whose database role sees one project at a time. The data plane's do not, for a claim would pay for it."""

TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")
NOBODY = Principal("nobody", "", "", frozenset())


class Dispatcher:
    """Runs endpoints. One per Lambda environment: it owns the settings and the database, both got when first needed."""

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        database: Database | None = None,
        sleep: Callable[[float], None] = time.sleep,
        log: Any = None,
        sessions: SigningKeys | None = None,
    ) -> None:
        """`sessions`: where the keys of access tokens come from; None = the table `signing_keys`."""
        self._settings, self._database, self._sleep, self._log = settings, database, sleep, log
        self._lazy = _Lazy(self)
        self._ring = KeyRing(self._lazy)
        self._sessions = sessions or KeyRing(self._lazy, "session")

    @property
    def settings(self) -> Settings:
        """Read once."""
        if self._settings is None:
            self._settings = Settings.read()
        return self._settings

    @property
    def database(self) -> Database:
        """Connects when first used."""
        if self._database is None:
            self._database = Database(login(self.settings))
        return self._database

    def run(self, request: Request, route: Route | None, parameters: Mapping[str, str]) -> Response:
        """The gateway's response. `route` None: nothing is there for this method and path."""
        began = time.perf_counter()
        try:
            answer = self._answer(request, route, parameters)
            response = _response(answer.status, answer.text(), answer.content_type, answer.headers, request, answer.cookies)
        except TidemillError as error:
            self._note(error, request)
            response = _problem(error, request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets a problem without a word about it
            self._note(error, request)
            response = _problem(Internal("something went wrong on our side; the request id finds it in the log"), request)
        if self._log is not None:
            extra = {"method": request.method, "route": route.path if route else None, "status": response["statusCode"]}
            self._log.info("request", extra={**extra, "ms": round((time.perf_counter() - began) * 1000, 1), **_correlation(request)})
        return response

    def _answer(self, request: Request, route: Route | None, parameters: Mapping[str, str]) -> Answer:
        if route is None:
            raise _nothing_there(request)
        parameters = {name: unquote(value) for name, value in parameters.items()}
        principal = self._admitted(request, route, parameters)
        endpoint = endpoint_of(route)
        marks: Operation = endpoint.operation
        database = Fenced(self._lazy, principal.project_id) if route.function == FENCED else self._lazy
        # Lazy, Fenced and Auditing run transactions as a Database does, which is all that a Call asks of one.
        call = Call(request, principal, database, self._sleep, ring=self._ring, sessions=self._sessions)  # type: ignore[arg-type]  # said above
        if route.is_audited(principal.scopes):
            call.audit = call.database = Auditing(database, principal, request, route, parameters)  # type: ignore[assignment, arg-type]  # said above
        if route.path.startswith("/v1/"):
            settings = self.settings
            call.stage, call.tick_budget_ms, call.trusted_proxies = settings.stage, settings.tick_budget_ms, settings.trusted_proxies
        _take_query(call, marks)
        _take_body(call, marks)
        answer: Answer = endpoint(call, **parameters)
        if principal.hides_payloads:
            answer = without_payloads(answer)
        return etags.conditional(answer, request.headers) if marks.etag else answer

    def _admitted(self, request: Request, route: Route, parameters: Mapping[str, str]) -> Principal:
        """Who is calling, if they may call this route."""
        if route.scopes is None:
            # No authorizer stands before a login; and who comes past the front door chooses the address that failures are counted by.
            if route.path.startswith("/v1/") and not came_through({"headers": request.headers}, self.settings.origin_digest):
                raise unauthenticated()
            return NOBODY
        if request.authorizer.get("fault") == Unavailable.code:
            from tidemill.http.authorize import Authorizer

            # A gateway keeps that answer for a minute, which must not prolong an outage: look again.
            authorizer = Authorizer(settings=self.settings, database=self.database, keys=self._sessions)
            request.authorizer = authorizer.caller({"headers": request.headers})
        return admitted(request, route, parameters, self._lazy)  # type: ignore[arg-type]  # it runs transactions as a Database does

    def _note(self, error: BaseException, request: Request) -> None:
        """Faults of ours go to the log by kind and place; never by text, which may hold what a caller sent."""
        if self._log is None or (isinstance(error, TidemillError) and problem.status_of(error) < 500):
            return
        kinds: list[str] = []
        places: list[str] = []
        seen: BaseException | None = error
        while seen is not None and len(kinds) < 5:
            kinds.append(type(seen).__name__)
            trace = seen.__traceback__
            while trace is not None:
                module = str(trace.tb_frame.f_globals.get("__name__"))
                if module.startswith("tidemill."):
                    places.append(f"{module}:{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}")
                trace = trace.tb_next
            seen = seen.__cause__ or seen.__context__
        self._log.error("request failed", extra={"kinds": kinds, "places": places[-20:], **_correlation(request)})


def _correlation(request: Request) -> dict[str, str]:
    """What finds the caller's and the gateway's side of a request: its id, and the trace that its `traceparent` names."""
    found = {"request_id": request.request_id}
    if trace := TRACEPARENT.fullmatch(request.headers.get("traceparent", "")):
        found["trace_id"] = trace[1]
    return found


class _Lazy:
    """The dispatcher's database, connected when an endpoint asks for something."""

    def __init__(self, owner: Dispatcher) -> None:
        self._owner = owner

    def run(self, work: Callable[[Any], Any]) -> Any:
        return self._owner.database.run(work)


class Fenced:
    """A database whose every `run` is one transaction about one project (none: about no project's rows)."""

    def __init__(self, plain: _Lazy, project_id: str) -> None:
        self._plain, self._project_id = plain, project_id

    def run(self, work: Callable[[Any], Any]) -> Any:
        """What `work` returns."""
        if not self._project_id:
            return self._plain.run(work)

        def fenced(store: Any) -> Any:
            with store.transaction():
                store.fence(self._project_id)
                return work(store)

        return self._plain.run(fenced)


def endpoint_of(route: Route) -> Any:
    """The function behind a route; loads its module."""
    module, _, function = route.endpoint.partition(":")
    return getattr(import_module(f"tidemill.http.{module}"), function)


def _nothing_there(request: Request) -> TidemillError:
    methods = sorted(routes.at(request.path))
    if methods:
        error = MethodNotAllowed(f"{request.method[:20]} is not allowed here: use {', '.join(methods)}")
        error.allow = ", ".join(methods)  # type: ignore[attr-defined]  # `_problem` reads it
        return error
    error_404 = NotFound("route", "")
    error_404.detail = "no such route: GET /v1/openapi.json lists them"
    return error_404


def _take_query(call: Call, marks: Operation) -> None:
    given = call.request.parameters()
    if marks.query is not None:
        from tidemill.http.queries import taken  # brings pydantic

        call.query = taken(marks.query, given)
    elif given:
        raise Invalid([Fault(("query", name[:200]), "no such parameter") for name in given])


def _take_body(call: Call, marks: Operation) -> None:
    if marks.body is None:
        return
    from tidemill.http import body  # the scheduler takes none

    call.raw = body.read(call.request, optional=marks.body_optional)
    if marks.cleans_text and call.raw.may_be_unstorable:
        call.raw = body.Body(cleaned_json(call.raw.value), "")
    call.body = call.raw.value
    if marks.checks_body:
        from tidemill.http.validation import checked

        call.body = checked(marks.body, call.body, storable=not call.raw.may_be_unstorable)


def _problem(error: TidemillError, request: Request) -> Response:
    headers = problem.headers_of(error)
    if allow := getattr(error, "allow", None):
        headers["allow"] = allow
    text = problem.body_of(error, request.request_id)
    return _response(problem.status_of(error), text, problem.CONTENT_TYPE, headers, request, getattr(error, "cookies", ()))


def _response(
    status: int, text: str, content_type: str, headers: Mapping[str, str], request: Request, cookies: tuple[str, ...] = ()
) -> Response:
    every = {"content-type": content_type, "cache-control": "no-store", "x-request-id": request.request_id, **headers}
    made: Response = {"statusCode": status, "headers": every, "body": "" if request.method == "HEAD" else text, "isBase64Encoded": False}
    if cookies and request.answers_cookies:
        made["cookies"] = list(cookies)
    elif cookies:
        every["set-cookie"] = cookies[0]  # no answer sets two
    return made
