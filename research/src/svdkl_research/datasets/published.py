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
    """What is known of a table of classes before it is read.

    Attributes
    ----------
    stem
        Name of its file without the ending.
    target, unused
        Column of the classes, and columns that are no features.
    rows, features
        Their numbers, to check.
    counts
        Classes in order, with their rows.
    address
        Where people get the data.
    openml_id
        Number of the same table at OpenML, 0 if there is none.
    tidy
        Applied to the table as read, before anything is checked.
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
        """The table's file; fetched from OpenML first if it is not there and ``download`` says so."""
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
