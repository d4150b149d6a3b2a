"""``python -m svdkl.experiments``."""

import signal
import sys

from svdkl.experiments.commands import INTERRUPTED, main

# A process that is told to end stops its task first, and removes what it has written so far.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))
raise SystemExit(main())
