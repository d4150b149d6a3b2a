"""Open a table in a file, by the ending of its name: Parquet, a folder of Parquet files, or CSV."""

from pathlib import Path

from svdkl.tables.csv_file import CSV_SUFFIXES, CsvFile
from svdkl.tables.parquet_files import PARQUET_SUFFIXES, Group, ParquetFiles

__all__ = ["CsvFile", "Group", "ParquetFiles", "TableFile", "open_table_file"]

TableFile = ParquetFiles | CsvFile


def open_table_file(path: str | Path) -> TableFile:
    """Open the table in a file or in a folder of Parquet files; no row is read yet."""
    path = Path(path)
    if path.is_dir():
        return ParquetFiles(path)
    if not path.exists():
        raise FileNotFoundError(f"Expected a table in {path}, found no such file: check the path.")
    name = path.name.lower()
    if name.endswith(PARQUET_SUFFIXES):
        return ParquetFiles(path)
    if name.endswith(CSV_SUFFIXES):
        return CsvFile(path)
    raise ValueError(
        f"Expected a file that ends in {', '.join(PARQUET_SUFFIXES + CSV_SUFFIXES)}, got {path}: convert or rename it."
    )
