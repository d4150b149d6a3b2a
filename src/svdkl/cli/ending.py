"""Commands that have work done by other processes: told to end, they end those first."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from svdkl.cli.messages import INTERRUPTED, InterruptedRun


@contextmanager
def ended_by_signals(sentence: str) -> Iterator[None]:
    """SIGTERM and an interrupt unwind what runs; the latter says in a sentence what is kept."""
    is_main = threading.current_thread() is threading.main_thread()  # which alone may handle signals
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED)) if is_main else None
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRun(sentence) from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)
