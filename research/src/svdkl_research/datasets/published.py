"""A published table of classes: where it comes from and what it must hold."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from svdkl_research.datasets.dataset import Dataset
from svdkl_research.datasets.files import (
    check_columns,
    check_size,
    class_numbers,
    data_folder,
    find_file,
    missing_file,
    not_the_table,
    read_table,
)
from svdkl_research.datasets.openml import download as download_from_openml


@dataclass(frozen=True)
class Published:
    """A published table of classes: its file, its columns, and the numbers to check.

    Attributes
    ----------
    stem
        Name of the file without its ending.
    target, unused
        Name of the class column, and of columns that are no features.
    rows, features
        Expected number of rows and of features.
    counts
        Number of rows of each class, in the order of the classes.
    address
        Web address of the data.
    openml_id
        OpenML's number of the table, 0 if OpenML does not have it.
    tidy
        Function applied to the table as read, before the checks.
    """

    name: str
    stem: str
    target: str
    rows: int
    features: int
    counts: dict[str, int]
    address: str
    openml_id: int = 0
    unused: tuple[str, ...] = ()
    tidy: Callable[[pa.Table], pa.Table] = lambda table: table

    def locate(self, data_dir: Path | None = None, download: bool = False) -> Path:
        """Find the table's file; with ``download`` a missing one is fetched from OpenML."""
        folder = data_folder(data_dir)
        path = find_file(self.stem, folder)
        if path is None:
            path = folder / f"{self.stem}.parquet"
            if not (download and self.openml_id):
                fetch = "with --download from OpenML, or from " if self.openml_id else "from "
                raise missing_file(self.stem, folder, fetch + self.address)
            download_from_openml(self.name, self.openml_id, path)
        return path

    def load(self, data_dir: Path | None = None, download: bool = False) -> Dataset:
        """Read and check the table."""
        path = self.locate(data_dir, download)
        table = read_table(path)
        try:
            table = self.tidy(table)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise not_the_table(self.name, path, error) from error
        check_columns(self.name, table, (self.target,))
        labels = table.column(self.target)
        features = [name for name in table.column_names if name not in (self.target, *self.unused)]
        table = table.select(features)
        check_size(self.name, table, self.rows, self.features)
        target = class_numbers(self.name, labels, self.counts)
        return Dataset(self.name, table, target, "classification", tuple(self.counts))
