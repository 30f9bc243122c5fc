"""What a handler may raise to end its attempt otherwise than by returning (completed) or by any other exception (failed, retryable)."""

from __future__ import annotations


class Outcome(Exception):
    """Base of the exceptions below; they are no faults."""


class Snooze(Outcome):
    """Run me again in `delay_ms`; this attempt does not count."""

    def __init__(self, delay_ms: int) -> None:
        super().__init__(f"snoozed for {delay_ms} ms")
        self.delay_ms = delay_ms


class Cancelled(Outcome):
    """I have stopped because I was asked to, or I decide that the job is void: it ends as cancelled."""

    def __init__(self, reason: str = "cancelled") -> None:
        super().__init__(reason)


class NotRetryable(Outcome):
    """This job can never succeed: it goes to the dead letters at once, with this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Throttled(Outcome):
    """What I call has asked to wait (429 with Retry-After): my job's rate class stays closed for `delay_ms`; this attempt does not count.

    A job without a rate class fails, and its next attempt starts after `delay_ms`.
    """

    def __init__(self, delay_ms: int, reason: str = "asked to wait") -> None:
        super().__init__(reason)
        self.delay_ms = delay_ms


class RetryLater(Outcome):
    """This attempt failed; the next one, if any is left, starts in `delay_ms` instead of after the policy's wait."""

    def __init__(self, delay_ms: int, reason: str = "asked to be retried later") -> None:
        super().__init__(reason)
        self.delay_ms = delay_ms
