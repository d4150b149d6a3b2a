"""Numbers, shares, lists and names in words."""

import math

from svdkl.report.words import label, listed, number, share


def test_words():
    assert [number(value) for value in (0, 0.012345, 12.345, 1234.5, -1.5, 1e-7, 2e9, math.nan)] == [
        "0", "0.0123", "12.3", "1,234", "−1.50", "1.00e−07", "2.00e+09", "–",
    ]  # fmt: skip
    assert number(0.123456, like=0.01) == "0.1235"
    wide = [share(value).replace("\N{NO-BREAK SPACE}", " ") for value in (0.0, 1e-5, 0.123, 0.99999, 1.0)]
    assert wide == ["0 %", "< 0.1 %", "12.3 %", "> 99.9 %", "100 %"]
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefgh"), 3) == "a, b, c and 5 more"
    assert label("a\n b\x00" + "c" * 50, 10) == "a b ccccc…"
    assert label("") == "(empty)"
