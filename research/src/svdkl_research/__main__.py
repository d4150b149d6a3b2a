"""``python -m svdkl_research``."""

import signal
import sys

from svdkl_research.task_commands import INTERRUPTED, main

# SIGTERM becomes an exception, so that a half-written checkpoint is removed on the way out.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))
raise SystemExit(main())
