"""Whether an exported file predicts as the model does: it is read back and run on rows, in batches of several sizes."""

import copy
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from svdkl.shapes import Tensor
from svdkl.tables.layout import Codes, Feature, Number

Array = npt.NDArray[Any]
Run = Callable[[Tensor], Sequence[Array]]

BATCH_SIZES = (1, 2, 7, 1000)
INPUT = "rows"


def open_export(file: Path, format: str) -> tuple[str, Run]:
    """A program that runs the file, and how it is called."""
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


def largest_difference(estimator: Any, run: Run, rows: Tensor) -> float:
    """Between what the file and the estimator's own methods give for these rows, in batches of several sizes."""
    rows = repeated(rows, max(BATCH_SIZES)).cpu()
    model = _for_encoded_rows(estimator, rows)
    classes = estimator._task == "classification"
    expected = [model.predict_proba(rows.numpy())] if classes else list(model.predict(rows.numpy(), return_std=True))
    # Of real targets, in units of their spread; of those far from the mean, relative to the distance.
    centres = [0.0] if classes else [estimator.target_mean_, 0.0]
    spread = 1.0 if classes else estimator.target_scale_
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


def _for_encoded_rows(estimator: Any, rows: Tensor) -> Any:
    """The same estimator, taking rows that are encoded already."""
    if estimator.encoder_ is None:
        return estimator
    twin = copy.copy(estimator)
    twin.net, twin.encoder_, twin.input_shape_, twin.n_features_in_ = twin.model_, None, rows.shape[1:], rows.shape[1]
    vars(twin).pop("feature_names_in_", None)
    return twin


def synthetic_rows(estimator: Any) -> Tensor:
    """Random rows such as the encoder makes them; for a network of the user's own, normal numbers."""
    random = np.random.default_rng(0)
    count = max(BATCH_SIZES)
    if estimator.encoder_ is None:
        return torch.from_numpy(random.standard_normal((count, *estimator.input_shape_)).astype(np.float32))
    columns = [_synthetic_column(feature, count, random) for feature in estimator.encoder_.layout.features]
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
    """The rows over and over, until there are at least so many."""
    return rows.repeat(-(-least // len(rows)), *[1] * (rows.dim() - 1)) if len(rows) < least else rows
