"""Data sets: found, checked, split. Small files with the published columns stand in for the real ones."""

import bz2
import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused

from svdkl_research.datasets import SOURCES, Dataset, flights, hold_out, load_dataset, missing_data, published, split
from svdkl_research.datasets import regression as regression_sets
from svdkl_research.datasets.adult import ADULT
from svdkl_research.datasets.connect4 import CONNECT4
from svdkl_research.datasets.covertype import COVERTYPE
from svdkl_research.datasets.diabetes import DIABETES
from svdkl_research.datasets.flights import FEATURES, load_airline
from svdkl_research.datasets.published import Published

REAL = os.environ.get("SVDKL_DATA") or None


def small_adult(folder: Path) -> Published:
    """Four rows, and what is known of them."""
    table = pa.table(
        {
            "age": [39, 50, 38, 28],
            "workclass": ["State-gov", "?", "Private", " ?"],
            "income": ["<=50K", ">50K", "<=50K", "<=50K."],
            "split": ["train", "train", "test", "test"],
        }
    )
    pq.write_table(table, folder / "adult.parquet")
    return dataclasses.replace(ADULT, rows=4, features=2, counts={"<=50K": 3, ">50K": 1})


def test_question_marks_are_missing_and_the_split_is_no_feature(tmp_path):
    dataset = small_adult(tmp_path).load(tmp_path)
    assert dataset.table.column_names == ["age", "workclass"]
    assert dataset.table.column("workclass").to_pylist() == ["State-gov", None, "Private", None]
    assert dataset.target.tolist() == [0, 1, 0, 0]
    assert dataset.classes == ("<=50K", ">50K")


def test_the_folder_comes_from_the_environment_too_and_csv_will_do(tmp_path, monkeypatch):
    source = small_adult(tmp_path)
    monkeypatch.setenv("SVDKL_DATA", str(tmp_path))
    whole = source.load()
    pq.read_table(tmp_path / "adult.parquet").to_pandas().to_csv(tmp_path / "adult.csv", index=False)
    (tmp_path / "adult.parquet").unlink()
    assert source.load().table.column("age").equals(whole.table.column("age"))


def test_other_tables_are_refused(tmp_path):
    source = small_adult(tmp_path)
    refused(lambda: dataclasses.replace(source, rows=5).load(tmp_path), "5 rows", "got 4 and 2")
    counts = {"<=50K": 2, ">50K": 2}
    refused(lambda: dataclasses.replace(source, counts=counts).load(tmp_path), ">50K (2)", "got <=50K (3), >50K (1)")
    refused(lambda: dataclasses.replace(source, target="pay").load(tmp_path), "'pay'", "age, workclass")
    (tmp_path / "adult.parquet").write_bytes(b"PAR1 and no more")
    refused(lambda: source.load(tmp_path), "adult.parquet", "cannot be read")
    pq.write_table(pa.table({"Elevation": ["high"], "Cover_Type": [1]}), tmp_path / "covertype.parquet")
    refused(lambda: load_dataset("covertype", tmp_path), str(tmp_path / "covertype.parquet"), "covertype", "'high'")


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in ("tumours", "progression")])
def test_a_missing_file_is_named_with_its_origin(name, tmp_path):
    refused(lambda: load_dataset(name, tmp_path), str(tmp_path), "SVDKL_DATA", "http", error=FileNotFoundError)
    with pytest.raises(FileNotFoundError) as error:
        load_dataset(name, tmp_path)
    assert missing_data(name, tmp_path) == str(error.value)  # without reading anything


def test_data_that_is_there_or_needs_no_file_is_not_missing(tmp_path, monkeypatch):
    assert missing_data("tumours", tmp_path) == ""
    for name in ("mnist.npz", "adult.csv", "cifar-10-binary.tar.gz"):
        (tmp_path / name).write_bytes(b"")  # what it holds is seen when it is read
    for name in ("mnist", "mnist_binary", "adult", "cifar10", "cifar10_resnet"):
        assert missing_data(name, tmp_path) == ""
    fetched = []
    monkeypatch.setattr(published, "download_from_openml", lambda *given: fetched.append(given[0]))
    assert missing_data("connect4", tmp_path, download=True) == ""
    assert fetched == ["connect4"]
    assert {name for name, source in SOURCES.items() if source.locate is None} == {"tumours", "progression"}


def test_unknown_sets_are_refused():
    refused(lambda: load_dataset("iris"), "adult", "'iris'")


def test_download_is_kept_as_a_file(tmp_path, monkeypatch):
    asked = []

    def fetch(**options):
        asked.append(options["data_id"])
        text = pd.Categorical(["State-gov", None, "Private", None])
        income = pd.Categorical(["<=50K", ">50K", "<=50K", "<=50K"])
        return SimpleNamespace(frame=pd.DataFrame({"age": [39, 50, 38, 28], "workclass": text, "class": income}))

    source = dataclasses.replace(ADULT, rows=4, features=2, counts={"<=50K": 3, ">50K": 1})
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    folder = tmp_path / "new"
    first, second = (source.load(folder, download=True) for _ in range(2))
    assert asked == [1590]
    assert [path.name for path in folder.iterdir()] == ["adult.parquet"]
    assert first.table.equals(second.table)
    assert first.table.column("workclass").to_pylist() == ["State-gov", None, "Private", None]


def test_without_a_network_there_is_one_sentence(tmp_path, monkeypatch):
    def fetch(**options):
        raise OSError("<urlopen error [Errno -3] Temporary failure in name resolution>")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    refused(lambda: ADULT.load(tmp_path, download=True), "OpenML", "check the network", "adult.parquet", error=OSError)


def test_numbered_copies_of_connect4_and_covertype(tmp_path):
    counts = {"win": 3, "loss": 2, "draw": 1}
    table = pa.table({"a1": [0, 1, 2, 0, 1, 2], "class": [2, 2, 2, 1, 1, 0]})
    tidy = CONNECT4.tidy
    pq.write_table(table, tmp_path / "connect4.parquet")
    source = dataclasses.replace(CONNECT4, rows=6, features=1)
    refused(lambda: source.load(tmp_path), "win (44473)", "got 2 (3)")
    assert tidy(table).column("a1").to_pylist() == ["0", "1", "2", "0", "1", "2"]
    named = pa.table({"a1": ["b"] * 6, "class": ["win"] * 3 + ["loss"] * 2 + ["draw"]})
    pq.write_table(named, tmp_path / "connect4.parquet")
    assert dataclasses.replace(source, counts=counts).load(tmp_path).target.tolist() == [0, 0, 0, 1, 1, 2]

    cover = pa.table({"Elevation": [2596, 2590], "Soil_Type1": ["0", "1"], "class": ["5", "2"]})
    pq.write_table(cover, tmp_path / "covertype.parquet")
    source = dataclasses.replace(COVERTYPE, rows=2, features=2, counts={"2": 1, "5": 1})
    assert source.load(tmp_path).target.tolist() == [1, 0]


def test_diabetes_has_no_numbers_of_patients_and_no_order_of_codes(tmp_path):
    table = pa.table(
        {
            "encounter_id": [1, 2],
            "patient_nbr": [3, 4],
            "admission_type_id": [6, 1],
            "weight": ["?", "[75-100)"],
            "readmitted": ["NO", ">30"],
        }
    )
    pq.write_table(table, tmp_path / "diabetes130.parquet")
    dataset = dataclasses.replace(DIABETES, rows=2, features=2, counts={"NO": 1, ">30": 1}).load(tmp_path)
    assert dataset.table.to_pydict() == {"admission_type_id": ["6", "1"], "weight": [None, "[75-100)"]}


def test_regression_sets_bring_their_folds(tmp_path, monkeypatch):
    monkeypatch.setitem(regression_sets.SIZES, "yacht", (20, 1))
    folder = tmp_path / "uci_regression"
    folder.mkdir()
    table = pa.table({"x0": np.arange(20.0), "y": np.arange(20.0) ** 2, "test_fold": np.arange(20) % 10})
    pq.write_table(table, folder / "yacht.parquet")
    dataset = load_dataset("yacht", tmp_path)
    assert dataset.table.column_names == ["x0"]
    assert split(dataset, 3).test.tolist() == [3, 13]
    assert np.concatenate([split(dataset, fold).test for fold in range(10)]).sum() == 190
    refused(lambda: split(dataset, 10), "yacht", "below 10", "got 10")
    pq.write_table(table.set_column(2, "test_fold", pa.array([0] * 20)), folder / "yacht.parquet")
    refused(lambda: load_dataset("yacht", tmp_path), "folds 0 to 9", "[0]")
    for values, part in (([None] * 2 + [1.0] * 18, "got 2 row(s)"), (["much"] * 20, "'much'")):
        pq.write_table(table.set_column(1, "y", pa.array(values)), folder / "yacht.parquet")
        refused(lambda: load_dataset("yacht", tmp_path), str(folder / "yacht.parquet"), part)


FLIGHTS = """Year,Month,DayofMonth,DayOfWeek,DepTime,ArrTime,TailNum,AirTime,ArrDelay,Distance,Cancelled
2008,1,3,4,2003,2211,N712SW,116,-14,810,0
2008,1,3,4,754,1002,N772SW,113,2,810,0
2008,1,3,4,NA,NA,N772SW,NA,NA,810,1
2008,1,4,5,628,804,N000XX,76,14,515,0
2008,1,4,5,628,804,N999ZZ,76,14,515,0
2008,1,4,5,628,804,N888ZZ,76,14,515,0
"""
PLANES = """tailnum,type,year
N050AA
N712SW,Corporation,1998
N772SW,Corporation,2000
N888ZZ,Corporation,2009
N999ZZ,Corporation,None
"""


@pytest.mark.parametrize("ending", ["csv", "csv.bz2"])
def test_airline_from_the_published_files(ending, tmp_path, monkeypatch):
    folder = tmp_path / "airline"
    folder.mkdir()
    records = FLIGHTS.encode()
    (folder / f"2008.{ending}").write_bytes(bz2.compress(records) if ending.endswith("bz2") else records)
    refused(lambda: load_airline(tmp_path), "plane-data.csv", "http", error=FileNotFoundError)
    (folder / "plane-data.csv").write_text("")
    refused(lambda: load_airline(tmp_path), str(folder / "plane-data.csv"), "planes")
    (folder / "plane-data.csv").write_text(PLANES)
    refused(lambda: load_airline(tmp_path), "5,800,000 complete flights", str(folder), "got 2")
    monkeypatch.setattr(flights, "FEWEST_OF_2008", 2)
    (folder / "2007.csv").write_text(FLIGHTS.replace("2008,", "2007,"))  # another year beside it is passed over
    dataset = load_airline(tmp_path)
    assert tuple(dataset.table.column_names) == FEATURES
    assert dataset.target.tolist() == [0, 1]
    assert dataset.table.column("PlaneAge").to_pylist() == [10, 8]
    assert dataset.table.column("DepTime").to_pylist() == [2003, 754]
    refused(lambda: split(dataset, 0), "more than 100000 rows", "got 2")
    # The bureau's own files name their columns otherwise, in one of two ways, and may end lines in a comma.
    for names in (
        {"TailNum": "Tail_Number", "Cancelled": "Cancelled,"},
        {"DayofMonth": "DAY_OF_MONTH", "TailNum": "TAIL_NUM", "ArrDelay": "ARR_DELAY", "DepTime": "DEP_TIME"},
    ):
        theirs, *lines = FLIGHTS.splitlines()
        for name, other in names.items():
            theirs = theirs.replace(name, other)
        comma = "," if theirs.endswith(",") else ""
        again = "\n".join([theirs, *(line.replace("NA", "") + comma for line in lines)]).encode()
        (folder / f"2008.{ending}").write_bytes(bz2.compress(again) if ending.endswith("bz2") else again)
        same = load_airline(tmp_path)
        assert same.table.equals(dataset.table)
        assert same.target.tolist() == [0, 1]
    (folder / f"2008.{ending}").write_bytes(b"a,b\n1,2\n" if ending == "csv" else bz2.compress(b"a,b\n1,2\n"))
    refused(lambda: load_airline(tmp_path), "on-time records")


def made(rows: int, **options: object) -> Dataset:
    table = pa.table({"x": np.arange(rows)})
    target = (np.arange(rows) % 10 == 0).astype(np.int64)
    return Dataset("made", table, target, "classification", ("no", "yes"), **options)


def test_five_folds_partition_the_rows():
    dataset = made(103)
    tests = [split(dataset, fold).test for fold in range(5)]
    assert np.array_equal(np.sort(np.concatenate(tests)), np.arange(103))
    for fold, test in enumerate(tests):
        assert np.array_equal(np.sort(np.concatenate([split(dataset, fold).train, test])), np.arange(103))
    refused(lambda: split(dataset, 5), "below 5")
    refused(lambda: split(dataset, -1), "at least 0")


def test_held_out_rows_are_drawn_anew_for_each_fold():
    dataset = made(1000, held_out_rows=100)
    first, again, other = split(dataset, 0), split(dataset, 0), split(dataset, 1)
    assert np.array_equal(first.test, again.test)
    assert len(first.test) == 100
    assert not np.intersect1d(first.train, first.test).size
    assert not np.array_equal(first.test, other.test)


def test_validation_rows_are_a_tenth_of_each_class():
    dataset = made(1000)
    train = split(dataset, 0).train
    fit, validation = hold_out(dataset, train, 0)
    assert np.array_equal(np.sort(np.concatenate([fit, validation])), train)
    assert len(validation) == 80
    assert dataset.target[validation].mean() == pytest.approx(dataset.target[train].mean(), abs=0.01)
    assert np.array_equal(validation, hold_out(dataset, train, 0)[1])
    assert not np.array_equal(validation, hold_out(dataset, train, 1)[1])


@pytest.mark.skipif(REAL is None, reason="needs the data files")
@pytest.mark.parametrize("name", ["adult", "connect4", "diabetes", "bike", "yacht", "kin40k"])
def test_the_real_files_pass_their_checks(name):
    dataset = load_dataset(name, Path(str(REAL)))
    assert len(dataset.target) == dataset.table.num_rows
