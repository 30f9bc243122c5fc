"""`python -m tidemill.cli` is the command `tidemill`."""

import sys

from tidemill.cli import main

sys.exit(main())
