"""Commands that have work done by other processes: told to end, they end those first."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from svdkl.cli.messages import INTERRUPTED, InterruptedRun


@contextmanager
def ended_by_signals(sentence: str) -> Iterator[None]:
    """SIGTERM and an interrupt unwind what runs; the latter says in a sentence what is kept."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRun(sentence) from None
    finally:
        signal.signal(signal.SIGTERM, before)
