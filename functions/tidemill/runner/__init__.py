"""Runs jobs: `App` registers handlers, `Worker` claims, executes and acks. Loads neither psycopg nor httpx by itself."""

from tidemill.observe.correlation import JobFields
from tidemill.runner.app import App, JobType
from tidemill.runner.context import AsyncContext, Context
from tidemill.runner.outcomes import Cancelled, NotRetryable, RetryLater, Snooze, Throttled

__all__ = ["App", "AsyncContext", "Cancelled", "Context", "JobFields", "JobType", "NotRetryable", "RetryLater", "Snooze", "Throttled"]
