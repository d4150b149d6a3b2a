"""Flights in the United States, does one arrive late? The eight features of Hensman et al. (2013).

``flights`` is a file of 3,072,570 flights of many years. ``airline`` is the paper's own set, the year 2008, made from
the bureau's on-time records, as the 2009 Data Expo has them or as the bureau itself gives them, and the Data Expo's
table of planes.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from svdkl.errors import first_line
from svdkl_research.datasets.dataset import Dataset
from svdkl_research.datasets.files import (
    VARIABLE,
    check_columns,
    check_size,
    data_folder,
    find_file,
    missing_file,
    read_table,
)

FEATURES = ("Month", "DayofMonth", "DayOfWeek", "DepTime", "ArrTime", "AirTime", "Distance", "PlaneAge")
CLASSES = ("on time", "late")
HELD_OUT = 100_000
ROWS, LATE = 3_072_570, 1_165_661
PAPERS_YEAR = 2008
FEWEST_OF_2008 = 5_800_000  # the year has about 5.9 million complete flights; fewer are only a part
STEM = "flights_us_complete8"
RECORDED = (*FEATURES[:7], "ArrDelay", "TailNum", "Year")
TAIL_NUMBERS = ("tailnum", "tailnumber")  # names of the column in lower case, without underscores
DATA_EXPO = "https://doi.org/10.7910/DVN/HG7NV7"


def locate_flights(data_dir: Path | None = None, download: bool = False) -> Path:
    """Find the file with flights of many years."""
    folder = data_folder(data_dir)
    path = find_file(STEM, folder)
    if path is None:
        raise missing_file(
            STEM,
            folder,
            f"on-time records from https://www.transtats.bts.gov joined with the planes' build years; the set airline "
            f"is read from published files, {DATA_EXPO}",
        )
    return path


def load_flights(data_dir: Path | None = None, download: bool = False) -> Dataset:
    """Load the flights of many years."""
    path = locate_flights(data_dir, download)
    table = read_table(path)
    check_columns("flights", table, (*FEATURES, "ArrDelay"))
    check_size("flights", table.select([*FEATURES, "ArrDelay"]), ROWS, len(FEATURES) + 1)
    late = table.column("ArrDelay").to_numpy() > 0
    if late.sum() != LATE:
        raise ValueError(f"Expected {LATE} late flights in {path}, got {late.sum()}: this is another file.")
    return _dataset("flights", table, late)


def locate_airline(data_dir: Path | None = None, download: bool = False) -> tuple[list[Path], Path]:
    """Find the files of on-time records and the file of the planes."""
    folder = data_folder(data_dir) / "airline"
    planes = folder / "plane-data.csv"
    records = sorted(path for path in folder.glob("*.csv*") if path.name != planes.name)
    if not (records and planes.is_file()):
        raise FileNotFoundError(
            f"Expected 2008.csv.bz2 and plane-data.csv in {folder}, found not both: get them from {DATA_EXPO}, into "
            f"the folder airline of --data-dir or {VARIABLE}."
        )
    return records, planes


def load_airline(data_dir: Path | None = None, download: bool = False) -> Dataset:
    """Load the flights of 2008 in ``airline/*.csv``, plain or bz2, with build years from ``airline/plane-data.csv``.

    The records are one file of the year or one for each month, with the column names of the Data Expo or of the bureau
    (``Tail_Number``, ``DAY_OF_MONTH``). Flights that lack a feature or the delay are left out, and so are flights
    before their plane was built.
    """
    records, planes = locate_airline(data_dir, download)
    built = _build_years(planes)
    table = pa.concat_tables(part for path in records for part in _complete_flights(path, built))
    if table.num_rows < FEWEST_OF_2008:
        raise ValueError(
            f"Expected {FEWEST_OF_2008:,} complete flights or more in {planes.parent}, got {table.num_rows:,}: get all "
            f"of 2008.csv.bz2 from {DATA_EXPO}."
        )
    return _dataset("airline", table, table.column("ArrDelay").to_numpy() > 0)


def _dataset(name: str, table: pa.Table, late: np.ndarray) -> Dataset:
    target = late.astype(np.int64)
    return Dataset(name, table.select(FEATURES), target, "classification", CLASSES, held_out_rows=HELD_OUT)


def _build_years(path: Path) -> dict[str, int]:
    """Read the build year of each tail number; the file has ``None``, nothing or 0000 for unknown years."""
    as_text = pyarrow.csv.ConvertOptions(column_types={"tailnum": pa.string(), "year": pa.string()})
    # The row of a plane with nothing known but its tail number has no further cells.
    parse = pyarrow.csv.ParseOptions(invalid_row_handler=lambda row: "skip")
    try:
        table = pyarrow.csv.read_csv(path, parse_options=parse, convert_options=as_text)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(
            f"Expected the planes of the Data Expo in {path}, but it has none ({first_line(error)})."
        ) from error
    check_columns(str(path), table, ("tailnum", "year"))
    years = zip(table.column("tailnum").to_pylist(), table.column("year").to_pylist())
    return {plane: int(year) for plane, year in years if plane and year and year.isdigit() and int(year) > 1900}


def _complete_flights(path: Path, built: dict[str, int]) -> Iterator[pa.Table]:
    """Yield the complete flights of 2008 in a file, part by part, since a year has seven million rows."""
    planes = pa.array(built.keys(), pa.string())
    years = pa.array(built.values(), pa.float64())
    try:
        names = _names_in(path)
        types = {name: pa.string() if known == "TailNum" else pa.float64() for known, name in names.items()}
        convert = pyarrow.csv.ConvertOptions(
            column_types=types, include_columns=list(names.values()), null_values=["NA", ""]
        )
        with pa.input_stream(path, compression="detect") as stream:
            for batch in pyarrow.csv.open_csv(stream, convert_options=convert):
                table = pa.table(batch).rename_columns(list(names))
                table = table.filter(pc.equal(table.column("Year"), PAPERS_YEAR))
                year = pc.take(years, pc.index_in(table.column("TailNum"), value_set=planes))
                age = pc.subtract(table.column("Year"), year)
                whole = table.append_column("PlaneAge", age).select([*FEATURES, "ArrDelay"]).drop_null()
                yield whole.filter(pc.greater_equal(whole.column("PlaneAge"), 0))
    except (pa.ArrowInvalid, KeyError, OSError) as error:
        raise ValueError(
            f"Expected on-time records of the Data Expo in {path}, but it has not ({first_line(error)})."
        ) from error


def _names_in(path: Path) -> dict[str, str]:
    """Return the name of each needed column in a file; case and underscores differ between publishers."""
    with pa.input_stream(path, compression="detect") as stream:
        found = {name.replace("_", "").lower(): name for name in pyarrow.csv.open_csv(stream).schema.names}
    names = {}
    for known in RECORDED:
        spellings = TAIL_NUMBERS if known == "TailNum" else (known.lower(),)
        name = next((found[spelling] for spelling in spellings if spelling in found), None)
        if name is None:
            raise KeyError(f"no column {known}")
        names[known] = name
    return names
