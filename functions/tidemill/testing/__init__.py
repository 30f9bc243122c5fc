"""For your own tests: run an app's jobs here and now, without a database, a server or a worker.

[ran] = run_inline(app, [app.job_object("email.send", {"to": "a@example.com"})])
assert ran.result == {"sent": True}
"""

from tidemill.testing.inline import Ran, run_inline

__all__ = ["Ran", "run_inline"]
