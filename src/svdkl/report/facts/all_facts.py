"""All facts that several parts of a page need, gathered once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from svdkl.estimators.examples import take_rows
from svdkl.estimators.options import has_head
from svdkl.report.facts.gp_facts import Processes, describe_processes, features_of
from svdkl.report.facts.model_facts import ColumnFacts, describe_columns
from svdkl.report.facts.predictions import ClassPredictions, Predictions, predict
from svdkl.report.facts.scores import Score, class_scores, real_scores
from svdkl.report.words import listed
from svdkl.shapes import Tensor


@dataclass(frozen=True)
class Facts:
    """A fitted estimator, the test rows, and what follows from them."""

    estimator: Any
    X: Any  # all rows
    predictions: Predictions
    scores: list[dict[str, Score]]  # by name; one for each target, or one for the classes
    run: dict[str, Any]
    chosen: tuple[int, ...] = ()  # outputs whose covariance matrices are shown; else those that are moved most

    @cached_property
    def figure_rows(self) -> Any:
        """The rows of the table that figures show."""
        return take_rows(self.X, self.predictions.doubt.rows)

    @cached_property
    def pixel_range(self) -> tuple[float, float]:
        """The smallest and the largest number in those rows, of images."""
        return float(np.min(self.figure_rows)), float(np.max(self.figure_rows))

    @cached_property
    def columns(self) -> list[ColumnFacts]:
        """The columns of the table; none where a network of the user's own reads something else."""
        encoder = self.estimator.encoder_
        return [] if encoder is None else describe_columns(encoder, self.figure_rows)

    @cached_property
    def features(self) -> Tensor:
        """What the network makes of those rows."""
        return features_of(self.estimator, self.figure_rows)

    @cached_property
    def processes(self) -> Processes | None:
        """The Gaussian processes, if there are any."""
        model = self.estimator.model_
        return describe_processes(model, self.features) if has_head(self.estimator) else None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Classes or targets."""
        predictions = self.predictions
        return predictions.classes if isinstance(predictions, ClassPredictions) else predictions.targets


def gather(estimator: Any, X: Any, y: Any, run: dict[str, Any], classes: Sequence[Any] = ()) -> Facts:
    """Ask the model about the rows, and score its answers; ``classes`` are those whose covariances are to be shown."""
    if isinstance(X, list | tuple):
        X = np.array(X, dtype=object)  # so that rows can be taken, and numbers stay numbers beside text
    predictions = predict(estimator, X, y, run)
    if isinstance(predictions, ClassPredictions):
        tables = [class_scores(predictions)]
    else:
        tables = [real_scores(predictions, target) for target in range(len(predictions.targets))]
    by_name = [{score.metric.name: score for score in scores} for scores in tables]
    facts = Facts(estimator, X, predictions, by_name, run)
    return replace(facts, chosen=tuple(_place(name, facts.outputs) for name in classes))


def _place(name: Any, outputs: tuple[str, ...]) -> int:
    if str(name) not in outputs:
        raise ValueError(
            f"Expected classes to be names out of {listed([repr(output) for output in outputs])}, got {name!r}."
        )
    return outputs.index(str(name))
