"""What every refusal of bad input has to look like."""

from collections.abc import Callable

import pytest


def refused(call: Callable[[], object], *parts: str, error: type[Exception] = ValueError) -> None:
    """Assert that a call raises this error, in one sentence with these parts."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert message.startswith("Expected ")
    assert message.endswith(".")
    assert "\n" not in message
    for part in parts:
        assert part in message
