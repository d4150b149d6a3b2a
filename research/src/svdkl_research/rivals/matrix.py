"""Tables and images as plain matrices, for rivals that take numbers only."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.decomposition import PCA

from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import Floats

MOST_LABELS = 50  # most labels of a column that have an input of their own, to bound the number of inputs
COMPONENTS = 50  # most principal components of images, to keep kernels on them cheap
CODED_AT_ONCE = 50_000  # images that are floats at one time


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)


class CodedMatrix:
    """A table as numbers: text becomes the place of its label in alphabetical order, missing and new values NaN."""

    def __init__(self, table: pa.Table) -> None:
        self.names = table.column_names
        self.labels: dict[str, pa.Array] = {}
        for name in self.names:
            if _is_text(table.column(name).type):
                texts = table.column(name).cast(pa.string())
                self.labels[name] = pa.array(sorted(texts.drop_null().unique().to_pylist()), pa.string())

    @property
    def text_columns(self) -> list[int]:
        """Indices of the columns that are text."""
        return [place for place, name in enumerate(self.names) if name in self.labels]

    def transform(self, table: pa.Table) -> Floats:
        """Return the matrix (rows, columns) of a table with the same columns."""
        columns = []
        for name in self.names:
            column = table.column(name)
            if name in self.labels:
                column = pc.index_in(column.cast(pa.string()), value_set=self.labels[name], skip_nulls=True)
            columns.append(column.cast(pa.float64()).to_numpy())  # nulls become NaN
        return np.stack(columns, axis=1)


class OneHotMatrix:
    """A table for models that measure distances: standardised numbers, and zeros and ones for each label.

    A column with gaps in the rows to fit has one more input that marks them, and the mean in their place. Only the most
    frequent labels of a column have an input of their own; other, missing and new labels count as gaps. Large tables
    are kept as codes and expanded some rows at a time.
    """

    def __init__(self, table: pa.Table) -> None:
        self.coded = CodedMatrix(table)
        raw = self.coded.transform(table)
        self.centre, self.scale = np.zeros(raw.shape[1]), np.ones(raw.shape[1])
        self.labels: dict[int, Floats] = {}
        for place in range(raw.shape[1]):
            known = raw[np.isfinite(raw[:, place]), place]
            if place in self.coded.text_columns:
                labels, counts = np.unique(known, return_counts=True)
                self.labels[place] = labels[np.argsort(-counts, kind="stable")[:MOST_LABELS]].astype(np.float32)
            elif len(known):
                self.centre[place] = known.mean()
                self.scale[place] = known.std() or 1.0
        codes = self._codes(raw)
        self.gaps = [bool(np.isnan(codes[:, place]).any()) for place in range(codes.shape[1])]

    @property
    def findings(self) -> dict[str, Any]:
        """Empty: a table has no findings."""
        return {}

    def code(self, table: pa.Table) -> Floats:
        """Return one number for each cell: standardised, or a label's code, or NaN for gaps."""
        return self._codes(self.coded.transform(table))

    def expand(self, codes: Floats) -> Floats:
        """Return the matrix (rows, inputs) of coded rows."""
        parts: list[Floats] = []
        for place in range(codes.shape[1]):
            column = codes[:, [place]]
            parts.append(np.equal(column, self.labels[place]) if place in self.labels else np.nan_to_num(column))
            if self.gaps[place]:
                parts.append(np.isnan(column))
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _codes(self, raw: Floats) -> Floats:
        codes = ((raw - self.centre) / self.scale).astype(np.float32)
        for place, labels in self.labels.items():
            codes[~np.isin(codes[:, place], labels), place] = np.nan
        codes[~np.isfinite(codes)] = np.nan
        return codes


class PixelMatrix:
    """Images as their first principal components, with one scale that makes their mean variance 1.

    A scale for each component would blow up the last ones, which hold noise.
    """

    def __init__(self, images: Inputs, components: int, seed: int) -> None:
        flat = self._flat(images)
        self.components = min(components, *flat.shape)
        self.pca = PCA(self.components, svd_solver="randomized", random_state=seed).fit(flat)
        self.scale = max(float(np.sqrt(self.pca.explained_variance_.mean())), 1e-6)

    @property
    def findings(self) -> dict[str, Any]:
        """The number of components, and the share of the variance that they hold."""
        return {"components": self.components, "variance_kept": float(self.pca.explained_variance_ratio_.sum())}

    def code(self, images: Inputs) -> Floats:
        """Return the components of images, shape (rows, inputs)."""
        blocks = [images[i : i + CODED_AT_ONCE] for i in range(0, len(images), CODED_AT_ONCE)]
        return np.concatenate(
            [self.pca.transform(self._flat(block)) / self.scale for block in blocks], dtype=np.float32
        )

    def expand(self, codes: Floats) -> Floats:
        """Return the components unchanged: they are the inputs."""
        return codes

    @staticmethod
    def _flat(images: Inputs) -> Floats:
        return np.asarray(images.reshape(len(images), -1), np.float32) / 255


def input_matrix(X: Inputs, components: int, seed: int) -> OneHotMatrix | PixelMatrix:
    """Make the matrix that turns rows into inputs of a kernel, from the rows to fit."""
    return OneHotMatrix(X) if isinstance(X, pa.Table) else PixelMatrix(X, components, seed)
