"""Tables and images as plain matrices, for rivals that take numbers only."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.decomposition import PCA

from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import Floats

MOST_LABELS = 50  # of one column that are told apart by their own inputs
COMPONENTS = 50  # of images
CODED_AT_ONCE = 50_000  # images


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)


class CodedMatrix:
    """Numbers as they are and text as codes, in the order of the labels; NaN where missing or never seen in fitting."""

    def __init__(self, table: pa.Table) -> None:
        self.names = table.column_names
        self.labels: dict[str, pa.Array] = {}
        for name in self.names:
            if _is_text(table.column(name).type):
                texts = table.column(name).cast(pa.string())
                self.labels[name] = pa.array(sorted(texts.drop_null().unique().to_pylist()), pa.string())

    @property
    def text_columns(self) -> list[int]:
        """Places of the coded columns."""
        return [place for place, name in enumerate(self.names) if name in self.labels]

    def transform(self, table: pa.Table) -> Floats:
        """The matrix (rows, columns) of a table with the same columns."""
        columns = []
        for name in self.names:
            column = table.column(name)
            if name in self.labels:
                column = pc.index_in(column.cast(pa.string()), value_set=self.labels[name], skip_nulls=True)
            columns.append(column.cast(pa.float64()).to_numpy())  # nulls become NaN
        return np.stack(columns, axis=1)


class OneHotMatrix:
    """For models that measure distances: standardised numbers, and a column of zeros and ones for each label.

    Where fitting met gaps in a column, one more column marks them, and the number there is the mean. Only the most
    frequent labels of a column have one of their own; the others, missing and new ones count as gaps. Large tables are
    kept as codes and expanded some rows at a time.
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
        """Nothing that is worth a word."""
        return {}

    def code(self, table: pa.Table) -> Floats:
        """One number a cell (rows, columns): standardised, or a label's code; NaN for gaps."""
        return self._codes(self.coded.transform(table))

    def expand(self, codes: Floats) -> Floats:
        """The matrix (rows, inputs) of coded rows."""
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
    """Images as their first principal components on the rows to fit, with one scale for all, of mean variance 1.

    A scale for each would blow up the last components, which hold noise.
    """

    def __init__(self, images: Inputs, components: int, seed: int) -> None:
        flat = self._flat(images)
        self.components = min(components, *flat.shape)
        self.pca = PCA(self.components, svd_solver="randomized", random_state=seed).fit(flat)
        self.scale = max(float(np.sqrt(self.pca.explained_variance_.mean())), 1e-6)

    @property
    def findings(self) -> dict[str, Any]:
        """How much of the images the components hold."""
        return {"components": self.components, "variance_kept": float(self.pca.explained_variance_ratio_.sum())}

    def code(self, images: Inputs) -> Floats:
        """The components (rows, inputs)."""
        blocks = [images[i : i + CODED_AT_ONCE] for i in range(0, len(images), CODED_AT_ONCE)]
        return np.concatenate(
            [self.pca.transform(self._flat(block)) / self.scale for block in blocks], dtype=np.float32
        )

    def expand(self, codes: Floats) -> Floats:
        """The same: they are the inputs already."""
        return codes

    @staticmethod
    def _flat(images: Inputs) -> Floats:
        return np.asarray(images.reshape(len(images), -1), np.float32) / 255


def input_matrix(X: Inputs, components: int, seed: int) -> OneHotMatrix | PixelMatrix:
    """What turns rows into inputs of a kernel, from the rows to fit."""
    return OneHotMatrix(X) if isinstance(X, pa.Table) else PixelMatrix(X, components, seed)
