"""``python -m svdkl_research``."""

import signal
import sys

from svdkl_research.task_commands import INTERRUPTED, main

# A process that is told to end stops its task first, and removes what it has written so far.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))
raise SystemExit(main())
