"""The check that an exported file predicts as the model does: we read it back and run it, in batches of many sizes."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from svdkl.estimators.examples import NumberRows
from svdkl.estimators.fitted import Fitted
from svdkl.shapes import Tensor
from svdkl.tables.layout import Codes, Feature, Number

Array = npt.NDArray[Any]
Run = Callable[[Tensor], Sequence[Array]]

BATCH_SIZES = (1, 2, 7, 1000)  # one row, which a trace may take for a constant, a few rows, and many
INPUT = "rows"


def open_export(file: Path, format: str) -> tuple[str, Run]:
    """Return the name of a program that runs the file, and a function that calls it."""
    if format == "torch":
        module = torch.export.load(file).module()
        return f"torch {torch.__version__}", lambda rows: [output.numpy() for output in module(rows)]
    if find_spec("onnxruntime") is not None:
        import onnxruntime

        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        return f"onnxruntime {onnxruntime.__version__}", lambda rows: session.run(None, {INPUT: rows.numpy()})
    from onnx.reference import ReferenceEvaluator

    evaluator: Any = ReferenceEvaluator(str(file))
    return "onnx.reference, since onnxruntime is not installed", lambda rows: evaluator.run(None, {INPUT: rows.numpy()})


def largest_difference(fitted: Fitted, run: Run, rows: Tensor) -> float:
    """Compare what the file and the model itself give for encoded rows, in batches of several sizes."""
    rows = repeated(rows, max(BATCH_SIZES)).cpu()
    encoded = NumberRows(rows.numpy())
    # Probabilities are compared as they are, real targets in units of their spread, or, where they lie farther from the
    # mean, of that distance.
    if fitted.classes is not None:
        expected, centres, spread = [fitted.probabilities(encoded)], [np.zeros(1)], np.ones(1)
    else:
        expected, centres, spread = [*fitted.moments(encoded)], [fitted.reals.mean, np.zeros(1)], fitted.reals.scale
    *small, large = BATCH_SIZES
    starts = [(0, size) for size in small] + [(start, start + large) for start in range(0, len(rows), large)]
    differences = [0.0]
    for start, stop in starts:
        for got, all_of_it, centre in zip(run(rows[start:stop].contiguous()), expected, centres, strict=True):
            wanted = all_of_it[start:stop]
            if got.shape != wanted.shape:
                raise ValueError(
                    f"Expected an exported file that gives {wanted.shape}, got one that gives {got.shape}."
                )
            size = np.maximum(np.abs(wanted - centre), spread)
            differences.append(float((np.abs(got - wanted) / size).max()))
    return float(np.max(differences))


def synthetic_rows(fitted: Fitted) -> Tensor:
    """Draw rows such as the encoder makes them; for a network of the user's own, normal numbers."""
    random, count = np.random.default_rng(0), max(BATCH_SIZES)
    if fitted.encoder is None:
        shape = (count, *(fitted.columns.shape or ()))
        return torch.from_numpy(random.standard_normal(shape).astype(np.float32))
    columns = [_synthetic_column(feature, count, random) for feature in fitted.encoder.layout.features]
    return torch.from_numpy(np.stack(columns, 1).astype(np.float32))


def _synthetic_column(feature: Feature, count: int, random: np.random.Generator) -> Array:
    if isinstance(feature, Codes):
        return random.integers(feature.cardinality, size=count)
    if not isinstance(feature, Number):
        return random.integers(2, size=count)
    values = 2 * random.standard_normal(count)
    if feature.levels:  # which the network tells apart from all other numbers
        values[::2] = random.choice(feature.levels, len(values[::2]))
    return values


def repeated(rows: Tensor, least: int) -> Tensor:
    """Repeat the rows until there are at least so many."""
    return rows.repeat(-(-least // len(rows)), *[1] * (rows.dim() - 1)) if len(rows) < least else rows
