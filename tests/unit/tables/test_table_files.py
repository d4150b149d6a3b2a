"""Tables in files: what is read, in which parts and types, and how every broken file is refused."""

import datetime
import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from refusals import refused

from svdkl.tables import csv_file
from svdkl.tables.table_files import CsvFile, Group, ParquetFiles, open_table_file


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict | pa.Table):
            table = content if isinstance(content, pa.Table) else pa.table(content)
            pq.write_table(table, path, row_group_size=3)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


# ------------------------------------------------------------------------------------------------------------ parquet


def test_a_parquet_file_in_groups_and_batches(write):
    path = write("a.parquet", {"x": list(range(8)), "y": list("abcdefgh")})
    file = open_table_file(str(path))
    assert isinstance(file, ParquetFiles)
    assert (file.path, file.names, file.num_rows) == (path, ("x", "y"), 8)
    assert file.groups == (Group(path, 0, 3), Group(path, 1, 3), Group(path, 2, 2))
    assert file.read().column("x").to_pylist() == list(range(8))
    assert file.read_group(file.groups[1], ["y"]).to_pydict() == {"y": ["d", "e", "f"]}
    assert file.read(["y", "x"]).column_names == ["y", "x"]
    parts = list(file.batches(["y", "x"], rows=5))
    assert [part.num_rows for part in parts] == [5, 3]
    assert pa.concat_tables(parts) == file.read(["y", "x"])


def test_a_folder_is_one_table_in_the_order_of_names(write, tmp_path):
    write("d/b.parquet", {"x": [3, 4]})
    write("d/a/z.parquet", {"x": [1, 2]})
    write("d/_old.parquet", {"x": [9]})
    write("d/.hidden/a.parquet", {"x": [9]})
    write("d/notes.txt", "nothing")
    file = open_table_file(tmp_path / "d")
    assert file.read().column("x").to_pylist() == [1, 2, 3, 4]
    assert [part.column("x").to_pylist() for part in file.batches(rows=3)] == [[1, 2, 3], [4]]
    assert [group.file.name for group in file.groups] == ["z.parquet", "b.parquet"]


def test_pandas_metadata_does_not_make_files_differ(write, tmp_path):
    write("d/a.parquet", pa.table({"x": [1]}).replace_schema_metadata({"pandas": "1"}))
    write("d/b.parquet", pa.table({"x": [2]}))
    file = open_table_file(tmp_path / "d")
    assert file.schema.metadata is None
    assert file.read().schema == file.schema == next(file.batches()).schema


def test_broken_parquet(write, tmp_path):
    refused(lambda: open_table_file(write("empty.parquet", b"")), "empty.parquet", "empty")
    whole = write("whole.parquet", {"x": list(range(1000))}).read_bytes()
    refused(lambda: open_table_file(write("cut.parquet", whole[:-20])), "cut.parquet", "cut off")
    refused(lambda: open_table_file(write("other.parquet", b"a,b\n1,2\n")), "other.parquet")
    damaged = open_table_file(write("damaged.parquet", whole[:4] + b"\xff" * 200 + whole[204:]))
    refused(damaged.read, "damaged.parquet")
    refused(lambda: list(damaged.batches()), "damaged.parquet")
    refused(lambda: open_table_file(write("none.parquet", {"x": pa.array([], pa.int64())})), "at least one row")
    twice = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    refused(lambda: open_table_file(write("twice.parquet", twice)), "'x' more than once")
    write("folder/readme.txt", "nothing")
    refused(lambda: open_table_file(tmp_path / "folder"), "holds none")


@pytest.mark.parametrize(
    ("other", "said"), [({"x": [1.0]}, "double"), ({"x": [1], "y": [2]}, "'y'"), ({"y": [1]}, "'x'")]
)
def test_files_of_a_folder_with_different_columns(write, tmp_path, other, said):
    write("d/a.parquet", {"x": [1]})
    write("d/b.parquet", other)
    refused(lambda: open_table_file(tmp_path / "d"), "same columns", "b.parquet", said)


# ---------------------------------------------------------------------------------------------------------------- csv


def test_csv_types_are_those_of_all_values_wherever_they_stand(write, monkeypatch):
    monkeypatch.setattr(csv_file, "BLOCK", 200)
    rows = [f"{i},{i},{i},,2024-01-0{i % 9 + 1},2024-01-01 00:00:0{i % 9},true,x{i},{i}" for i in range(100)]
    rows.append("7,7.5,late,,2024-01-01,2024-01-01T00:00:00.5,False,NA, 3")
    file = open_table_file(write("a.csv", "\n".join(["i,f,t,none,date,time,flag,text,blank", *rows]) + "\n"))
    assert isinstance(file, CsvFile)
    assert file.num_rows == 101
    assert [str(kind) for kind in file.schema.types] == [
        "int64", "double", "string", "null", "date32[day]", "timestamp[us]", "bool", "string", "int64",
    ]  # fmt: skip
    table = file.read()
    assert table.schema == file.schema
    last = {name: values[-1] for name, values in table.to_pydict().items()}
    assert last == {
        "i": 7, "f": 7.5, "t": "late", "none": None, "date": datetime.date(2024, 1, 1),
        "time": datetime.datetime(2024, 1, 1, 0, 0, 0, 500_000), "flag": False, "text": None, "blank": 3,
    }  # fmt: skip
    assert table.column("t").to_pylist()[0] == "0"
    parts = list(file.batches(["text", "f"], rows=30))
    assert [part.num_rows for part in parts] == [30, 30, 30, 11]
    assert pa.concat_tables(parts) == file.read(["text", "f"])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["true", " true"], "string"),
        (["tRuE", "false"], "string"),
        (["TRUE", "False"], "bool"),
        (["1", "true"], "bool"),
        (["2020-01-01 10:00", " 2020-01-01 10:00"], "string"),
        ([" 2020-01-01T10:00:00Z"], "string"),
        (["2020-01-01", " 2020-01-02 "], "date32[day]"),
        ([" 5 ", "6"], "int64"),
        (["5\u00a0", "6"], "string"),
        (['"5\n"', "6"], "string"),
        (["2020-01-01\u2003"], "string"),
        (["0x1F", "3"], "int64"),
    ],
)
def test_csv_types_are_those_that_the_reader_takes(write, cells, kind):
    file = open_table_file(write("a.csv", "\n".join(["cell,other", *(f"{cell},1" for cell in cells)]) + "\n"))
    assert str(file.schema.field("cell").type) == kind
    assert file.read().num_rows == len(cells)


@pytest.mark.parametrize(
    ("first", "later", "kind"),
    [
        ("1", "true", "bool"),
        ("true", "1", "bool"),
        (" 2020-01-01", "2020-01-01 10:00", "string"),
        ("2020-01-01", "2020-01-01 10:00", "timestamp[us]"),
        ("0x1F", "1.5", "string"),
        ("2", "true", "string"),
    ],
)
def test_csv_types_do_not_depend_on_the_order(write, monkeypatch, first, later, kind):
    monkeypatch.setattr(csv_file, "BLOCK", 200)
    for values in ([first] * 60 + [later] * 60, [later] * 60 + [first] * 60):
        file = open_table_file(write("a.csv", "\n".join(["cell,other", *(f"{cell},1" for cell in values)]) + "\n"))
        assert str(file.schema.field("cell").type) == kind
        assert file.read().num_rows == 120


def test_csv_missing_values(write):
    file = open_table_file(write("a.csv", 'n,t\n1,a\n,\nNA,NA\nNaN,null\n2.5,"N/A"\n'))
    assert file.read().to_pydict() == {"n": [1.0, None, None, None, 2.5], "t": ["a", None, None, None, None]}


def test_csv_kinds_of_files(write):
    text = 'a,b\n1,"x, y\nz"\n'
    for path in (
        write("a.csv", text),
        write("a.csv.gz", gzip.compress(text.encode())),
        write("bom.csv", b"\xef\xbb\xbf" + text.encode()),
        write("crlf.CSV", text.replace("\n", "\r\n")),
        write("a.tsv", 'a\tb\n1\t"x, y\nz"\n'),
        write("B.TSV", 'a\tb\n1\t"x, y\nz"\n'),
        write("B.CSV.GZ", gzip.compress(text.encode())),
        write("was.tsv.csv", text),
    ):
        values = open_table_file(path).read().to_pydict()
        assert {name: str(value[0]).replace("\r", "") for name, value in values.items()} == {"a": "1", "b": "x, y\nz"}


def test_large_numbers_stay_exact(write):
    file = open_table_file(write("a.csv", "id\n9007199254740993\n"))
    assert file.read().column("id").to_pylist() == [9007199254740993]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (b"", ("empty",)),
        (b"\n\n", ("cannot be read",)),
        (b"a,b\n", ("rows below the names",)),
        (b"1,2\n3,4\n", ("names", "1, 2")),
        (b"a,a\n1,2\n", ("'a' more than once",)),
        (b",a\n0,1\n", ("none for column 1", "index")),
        (b"a;b\n1;2\n", ("commas", "'a;b'")),
        (b"a,b\n1,2\n3,4,5\n", ("2 values", "got 3 in line 3", "'3,4,5'")),
        (b'a,b\n1,"2\n2"\n3\n', ("2 values", "got 1 in line 4")),
        (b"a,b\n1,2\ncaf\xe9,4\n", ("UTF-8", "0xE9 in line 3", "'é'")),
        (b"a,caf\xe9\n1,2\n", ("UTF-8", "0xE9 in line 1")),
        ("a,b\n1,2\n".encode("utf-16"), ("UTF-16",)),
    ],
)
def test_broken_csv(write, text, parts):
    path = write("broken.csv", text)
    refused(lambda: open_table_file(path).read(), "broken.csv", *parts)
    if text:
        packed = write("broken.csv.gz", gzip.compress(text))
        refused(lambda: list(open_table_file(packed).batches()), "broken.csv.gz", *parts)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_types_are_found_in_one_pass(write, monkeypatch, name):
    text = b'\xef\xbb\xbf"a, or ""b""",c\n1,x\n2.5,y\n'
    path = write(name, gzip.compress(text) if name.endswith("gz") else text)
    passes = []
    real = pyarrow.csv.open_csv
    monkeypatch.setattr(pyarrow.csv, "open_csv", lambda *given, **more: passes.append(0) or real(*given, **more))
    file = open_table_file(path)
    assert file.names == ('a, or "b"', "c")
    assert not passes
    assert (file.num_rows, file.schema.names, file.num_rows) == (2, list(file.names), 2)
    assert len(passes) == 1
    assert file.read().num_rows == sum(part.num_rows for part in file.batches(["c"])) == 2
    assert len(passes) == 3


def test_a_gzip_file_that_is_cut_off(write):
    packed = gzip.compress(np.random.default_rng(0).bytes(3000).hex().encode())
    refused(lambda: open_table_file(write("a.csv.gz", packed[:1000])).read(), "cut off")


# --------------------------------------------------------------------------------------------------------------- both


def test_other_files_are_refused(write, tmp_path):
    refused(lambda: open_table_file(tmp_path / "no.csv"), "no.csv", error=FileNotFoundError)
    refused(lambda: open_table_file(write("a.xlsx", b"x")), ".parquet", "a.xlsx")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_unknown_columns_are_refused_with_the_nearest_name(write, name):
    path = write(name, "Weight,b\n1,2\n" if name == "a.csv" else {"Weight": [1], "b": [2]})
    file = open_table_file(path)
    for call in (lambda: file.read(["weihgt"]), lambda: list(file.batches(["weihgt"]))):
        refused(call, "'weihgt'", "nearest name is 'Weight'")
    refused(lambda: file.read(["zzz"]), "there are 'Weight', 'b'")
