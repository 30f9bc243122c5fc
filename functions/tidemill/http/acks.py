"""Reports from JSON to the engine's acks, one by one: a faulty item answers for itself and spoils no other."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

from tidemill.domain import keys, limits
from tidemill.domain.errors import Invalid, PayloadTooLarge, dotted
from tidemill.domain.jobs import Ack, AckResult, Failure
from tidemill.domain.transitions import Event
from tidemill.engine.settle import settle
from tidemill.http.models.workers import AckIn
from tidemill.http.validation import adapter, faults_of
from tidemill.ports import Rolls, SettleStore

Result = dict[str, Any]

_EVENTS: Final = {
    "complete": Event.COMPLETE,
    "fail": Event.FAIL,
    "snooze": Event.SNOOZE,
    "release": Event.RELEASE,
    "cancelled": Event.ACK_CANCELLED,
    "crash": Event.CRASH,
}


class Reports:
    """The reports of one call: those that can be applied (`acks`), and the answers of those that cannot."""

    def __init__(self, items: list[Any]) -> None:
        self.acks: list[Ack] = []
        self._answers: list[Result | None] = []
        self._too_large: set[int] = set()
        for item in items:
            try:
                ack, too_large = _ack(adapter(AckIn).validator.validate_python(item))
            except ValidationError as error:
                fault = faults_of(error, item)[0]
                self._answers.append(_refused(item, f"{dotted(fault.loc)}: {fault.msg}"))
                continue
            except Invalid as error:
                self._answers.append(_refused(item, error.detail))
                continue
            if too_large:
                self._too_large.add(len(self._answers))
            self._answers.append(None)
            self.acks.append(ack)

    def answers(self, results: list[AckResult]) -> list[Result]:
        """One answer per item of the call, in order, given the engine's results for `acks`."""
        left = iter(results)
        found = []
        for position, answer in enumerate(self._answers):
            if answer is None:
                result = next(left)
                code = result.code
                if result.status == "ok" and position in self._too_large:
                    code = PayloadTooLarge.code
                answer = {"job_id": result.job_id, "status": result.status, "state": result.state, "code": code}
            found.append(answer)
        return found


def settle_each(store: SettleStore, acks: list[Ack], roll: Rolls) -> list[AckResult]:
    """All at once; if the database refuses a value, one by one, so that only that report fails."""
    try:
        return settle(store, acks, roll=roll)
    except Invalid:
        if len(acks) == 1:
            return [AckResult(acks[0].job_id, "error", None, Invalid.code)]
        return [result for ack in acks for result in settle_each(store, [ack], roll)]


def _ack(given: dict[str, Any]) -> tuple[Ack, bool]:
    """The ack, and whether its result was over the limit and is left out."""
    event = _EVENTS[given["outcome"]]
    content: dict[str, Any] = {"outcome": given["outcome"]}
    result, too_large, failure, exit_code = None, False, None, None
    if event is Event.COMPLETE and given.get("result") is not None:
        content["result"] = given["result"]
        result, too_large = _result_text(given["result"])
    if event in (Event.FAIL, Event.CRASH):
        failure = _failure(given.get("error") or {})
        exit_code = _int32(given.get("exit_code"))
        content |= {"error": [failure.error_class, failure.message, failure.stack], "exit_code": exit_code}
        content |= {"retryable": given.get("retryable", True), "retry_delay_ms": given.get("retry_delay_ms")}
    if event is Event.FAIL and given.get("throttle_ms") is not None:
        content["throttle_ms"] = given["throttle_ms"]
    if event is Event.SNOOZE:
        if "delay_ms" not in given:
            raise Invalid([], "delay_ms: is required to snooze")
        content["delay_ms"] = given["delay_ms"]
    ack = Ack(
        job_id=given["job_id"],
        lease_token=given["lease_token"],
        event=event,
        digest=keys.digest(content),
        result=result,
        failure=failure,
        retryable=content.get("retryable", True),
        retry_delay_ms=content.get("retry_delay_ms"),
        delay_ms=content.get("delay_ms", 0),
        exit_code=exit_code,
        throttle_ms=content.get("throttle_ms"),
    )
    return ack, too_large


def _result_text(result: Any) -> tuple[str, bool]:
    """The result's JSON. One over the limit is replaced by a note of its size: the work is done and must not be done again."""
    text = keys.compact_json(result)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= limits.RESULT_BYTES:
        return text, False
    return keys.compact_json({"result_left_out": {"bytes": size, "limit": limits.RESULT_BYTES}}), True


def _failure(error: dict[str, Any]) -> Failure:
    stack = error.get("stack")
    return Failure(
        error_class=error.get("class", "Error")[: limits.ERROR_CLASS_CHARS] or "Error",
        message=limits.clip(error.get("message", ""), limits.ERROR_BYTES),
        stack=limits.clip(stack, limits.ERROR_BYTES) if stack is not None else None,
    )


def _int32(exit_code: int | None) -> int | None:
    """Windows reports unsigned 32 bits; the same bits are kept as a signed number."""
    if exit_code is None or exit_code <= limits.INT32[1]:
        return exit_code
    return exit_code - 2**32


def _refused(item: Any, msg: str) -> Result:
    job_id = item.get("job_id") if isinstance(item, dict) else None
    return {"job_id": job_id[:100] if isinstance(job_id, str) else "", "status": "error", "state": None, "code": Invalid.code, "msg": msg}
