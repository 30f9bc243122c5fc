"""The container's entry: `python main.py myapp.jobs:app --queues default`, the options of `tidemill worker`.

The very first thing is to hear the signals: process 1 has no default action for them, and loading an app may take long.
"""

import os
import signal
import sys


def _end(*_: object) -> None:
    os._exit(0)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)

    from tidemill.cli import main

    sys.exit(main(["worker", *sys.argv[1:]]))
