"""Runs jobs: `App` registers handlers, `Worker` claims, executes and acks. Loads neither psycopg nor httpx by itself."""

from tidemill.runner.app import App, JobType
from tidemill.runner.context import AsyncContext, Context
from tidemill.runner.outcomes import Cancelled, NotRetryable, RetryLater, Snooze, Throttled

__all__ = ["App", "AsyncContext", "Cancelled", "Context", "JobType", "NotRetryable", "RetryLater", "Snooze", "Throttled"]
