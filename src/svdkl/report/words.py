"""Numbers and names as a reader wants them."""

import math
import unicodedata

ABSENT = "–"


def number(value: int | float, digits: int = 3, like: int | float | None = None) -> str:
    """Write a number with so many significant digits, or with as many decimals as another one has."""
    if not math.isfinite(value):
        return ABSENT
    size = abs(value if like is None else like)
    if size == 0:
        return "0" if like is None else number(value, digits)
    if size >= 10**6 or size < 10**-4:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    return f"{value:,.{decimals}f}".replace("-", "−")


def share(value: int | float) -> str:
    """Write a share as a percentage; only none is 0 %, and only all is 100 %."""
    if not math.isfinite(value):
        return ABSENT
    shown = f"{100 * value:.1f}".removesuffix(".0")
    if shown == "0" and value > 0:
        shown = "< 0.1"
    if shown == "100" and value < 1:
        shown = "> 99.9"
    return f"{shown}\N{NO-BREAK SPACE}%"


def count(value: int, noun: str = "", plural: str = "") -> str:
    """Write a whole number with its noun: 1 row, 20,000 rows."""
    if not noun:
        return f"{value:,}"
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def listed(names: list[str], most: int = 6) -> str:
    """Write names for a sentence: a, b and c; of many names the first few."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def label(value: object, most: int = 24) -> str:
    """Write any value on one line of limited length, for ticks and narrow cells."""
    text = " ".join(visible(str(value)).split()) or "(empty)"
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def visible(text: str) -> str:
    """Return a text without control characters and halves of surrogate pairs, which no page can hold."""
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cs") else letter for letter in text)
