"""UCI Adult: does a person earn more than 50,000 dollars a year? 48,842 rows of 14 columns, text and numbers."""

import pyarrow as pa

from svdkl_research.datasets.files import question_marks_as_missing
from svdkl_research.datasets.published import Published


def _tidy(table: pa.Table) -> pa.Table:
    """Turn question marks into missing values, and give OpenML's target column its original name."""
    if "income" not in table.column_names and "class" in table.column_names:
        table = table.rename_columns(["income" if name == "class" else name for name in table.column_names])
    return question_marks_as_missing(table)


ADULT = Published(
    name="adult",
    stem="adult",
    target="income",
    rows=48_842,
    features=14,
    counts={"<=50K": 37_155, ">50K": 11_687},
    address="https://archive.ics.uci.edu/dataset/2/adult",
    openml_id=1590,
    unused=("split",),
    tidy=_tidy,
)
