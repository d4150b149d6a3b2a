"""UCI Diabetes 130-US hospitals: is a patient readmitted, and how soon? 101,766 rows of 47 columns.

The numbers of the encounter and of the patient are no features.
"""

import pyarrow as pa

from svdkl_research.datasets.files import question_marks_as_missing
from svdkl_research.datasets.published import Published

CODES = ("admission_type_id", "discharge_disposition_id", "admission_source_id")


def _tidy(table: pa.Table) -> pa.Table:
    """Turn question marks into missing values, and codes of admission into text, since their order means nothing."""
    for name in CODES:
        if name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, table.column(name).cast(pa.string()))
    return question_marks_as_missing(table)


DIABETES = Published(
    name="diabetes",
    stem="diabetes130",
    target="readmitted",
    rows=101_766,
    features=47,
    counts={"NO": 54_864, ">30": 35_545, "<30": 11_357},
    address="https://archive.ics.uci.edu/dataset/296/diabetes+130-us+hospitals+for+years+1999-2008",
    openml_id=4541,
    unused=("encounter_id", "patient_nbr"),
    tidy=_tidy,
)
