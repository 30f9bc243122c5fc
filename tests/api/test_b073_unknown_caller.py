"""B073: an authorizer that could not look says nothing about the key, so nobody is told that it is wrong."""

import pytest

from tidemill.domain.errors import Unauthenticated, Unavailable
from tidemill.http.request import Request


def request(fault: str | None) -> Request:
    context = {} if fault is None else {"authorizer": {"lambda": {"fault": fault}}}
    return Request.of({"requestContext": {"http": {"method": "GET"}, **context}, "rawPath": "/v1/jobs"}, None)


@pytest.mark.parametrize("fault", ["unavailable", "internal"])
def test_b073_a_caller_nobody_could_look_up_is_asked_to_try_again(fault: str) -> None:
    with pytest.raises(Unavailable) as told:
        request(fault).principal()
    assert told.value.retry_after_secs == 1


@pytest.mark.parametrize("fault", ["unauthenticated", None])
def test_a_caller_who_is_not_known_is_unauthenticated(fault: str | None) -> None:
    with pytest.raises(Unauthenticated):
        request(fault).principal()
