"""Weights of rows and classes: a row of weight k counts as k rows."""

from numbers import Real

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_array

from svdkl.estimators.targets import Array

Index = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]

# Up to so many rows, repeats included, whole weights are repeats of their rows, and rows are put into an order of their
# own. That costs a sort and a copy, which larger tables, whose models hang on no single row, are spared.
COUNTED_ROWS = 10_000


def read_weights(sample_weight: object, num_rows: int) -> Weights:
    """Read one finite weight of at least 0 for each row, not all of them 0."""
    if isinstance(sample_weight, Real):
        sample_weight = np.full(num_rows, sample_weight)
    weight = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weight.shape != (num_rows,):
        raise ValueError(
            f"Expected one sample weight for each of {num_rows} rows, got shape {weight.shape}: leave out what does "
            f"not belong to them."
        )
    if (weight < 0).any():
        raise ValueError(
            f"Expected sample weights of at least 0, got {weight.min()}: a row cannot count less than none."
        )
    if not weight.any():
        raise ValueError("Expected a sample weight above 0, got zero weight for all rows: give at least one row some.")
    return weight


def counted_rows(weight: Weights) -> tuple[Index, Weights | None]:
    """Return which rows to take, and the weights that they keep, if they are not all 1.

    Rows of weight 0 are left out. In small tables rows of whole weights are repeated, so that everything that follows
    (bins, held-out rows, minibatches) is, to the last bit, what it would be had the table held the repeats.
    """
    whole = bool((weight == np.floor(weight)).all()) and weight.sum() <= max(COUNTED_ROWS, len(weight))
    if whole:
        return np.repeat(np.arange(len(weight)), weight.astype(np.int64)), None
    return np.flatnonzero(weight), weight[weight > 0]


def class_factors(class_weight: object, classes: Array, amounts: Weights) -> Weights:
    """Return the factor on the rows of each class, which shifts weight between classes and adds none in all.

    Parameters
    ----------
    amounts
        How many rows each class has, or what they weigh.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        of_class = np.divide(amounts.sum(), len(classes) * amounts, out=np.zeros_like(amounts), where=amounts > 0)
    elif isinstance(class_weight, dict):
        unknown = [label for label in class_weight if label not in classes.tolist()]
        if unknown:
            raise ValueError(
                f"Expected class_weight for the classes {', '.join(map(repr, classes.tolist()))}, got one for "
                f"{unknown[0]!r}: remove it."
            )
        of_class = np.array([class_weight.get(label, 1.0) for label in classes.tolist()], np.float64)
        if not (np.isfinite(of_class).all() and (of_class >= 0).all()):
            raise ValueError(f"Expected finite class weights of at least 0, got {class_weight!r}.")
    else:
        raise ValueError(f"Expected class_weight to be None, 'balanced' or a dict, got {class_weight!r}.")
    weighted = float(of_class @ amounts)
    if not weighted:
        raise ValueError(f"Expected a class weight above 0, got zero weight for all rows from {class_weight!r}.")
    # Preferring a class is no evidence: the posterior must not grow surer of it, nor the losses larger.
    return of_class * (amounts.sum() / weighted)
