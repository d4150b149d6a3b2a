"""UCI Connect-4: who wins from a position of eight moves? 67,557 rows of 42 fields."""

from collections import Counter

import pyarrow as pa

from svdkl_research.datasets.published import Published

COUNTS = {"win": 44_473, "loss": 16_635, "draw": 6_449}


def _tidy(table: pa.Table) -> pa.Table:
    """Make fields text and name the classes, since OpenML's copy numbers both."""
    if "class" not in table.column_names:
        return table
    columns = {name: table.column(name).cast(pa.string()) for name in table.column_names}
    labels = columns["class"].to_pylist()
    found = Counter(labels)
    if set(found) != set(COUNTS) and sorted(found.values()) == sorted(COUNTS.values()):
        # The numbers of rows differ between the classes, so they tell which is which.
        by_count = {count: name for name, count in COUNTS.items()}
        columns["class"] = pa.chunked_array([[by_count[found[label]] for label in labels]])
    return pa.table(columns)


CONNECT4 = Published(
    name="connect4",
    stem="connect4",
    target="class",
    rows=67_557,
    features=42,
    counts=COUNTS,
    address="https://archive.ics.uci.edu/dataset/26/connect+4",
    openml_id=40_668,
    tidy=_tidy,
)
