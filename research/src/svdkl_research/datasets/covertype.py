"""UCI Covertype: which of seven kinds of forest grows there? 581,012 rows of 54 numbers."""

import pyarrow as pa

from svdkl_research.datasets.published import Published


def _tidy(table: pa.Table) -> pa.Table:
    """Make all columns whole numbers, which OpenML's copy holds partly as text, and name the target."""
    names = ["Cover_Type" if name == "class" else name for name in table.column_names]
    return pa.table({name: column.cast(pa.int32()) for name, column in zip(names, table.columns)})


COVERTYPE = Published(
    name="covertype",
    stem="covertype",
    target="Cover_Type",
    rows=581_012,
    features=54,
    counts={"1": 211_840, "2": 283_301, "3": 35_754, "4": 2_747, "5": 9_493, "6": 17_367, "7": 20_510},
    address="https://archive.ics.uci.edu/dataset/31/covertype",
    openml_id=1596,
    tidy=_tidy,
)
