"""All facts that several parts of a page need, gathered once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from svdkl.estimators.examples import Inputs, TableLike
from svdkl.estimators.fitted import Fitted
from svdkl.report.facts.gp_facts import GPFacts, describe_gps, features_of
from svdkl.report.facts.model_facts import ColumnFacts, describe_columns
from svdkl.report.facts.predictions import ClassPredictions, Predictions, predict
from svdkl.report.facts.scores import Score, class_scores, real_scores
from svdkl.report.words import listed
from svdkl.shapes import Tensor
from svdkl.tables.table import Table, open_table


@dataclass(frozen=True)
class Facts:
    """A fitted model, the test rows, and what follows from them.

    Attributes
    ----------
    rows
        All rows, as the model reads them.
    shown
        All rows, as a page shows them: a table, or images and the like as they were given.
    scores
        The metrics by name, for each target; classes are one target.
    chosen
        The outputs whose covariance matrices are shown; without any, those that the most influential GPs move most.
    """

    fitted: Fitted
    rows: Inputs
    shown: Table | npt.NDArray[np.generic]
    predictions: Predictions
    scores: list[dict[str, Score]]
    run: Mapping[str, object]
    chosen: tuple[int, ...] = ()

    @cached_property
    def figure_rows(self) -> Inputs:
        """The rows that figures show, as the model reads them."""
        return self.rows.take(self.predictions.doubt.rows)

    @cached_property
    def pixel_range(self) -> tuple[float, float]:
        """The smallest and the largest number in the images that figures show."""
        assert not isinstance(self.shown, Table)
        images = self.shown[self.predictions.doubt.rows]
        return float(np.min(images)), float(np.max(images))

    @cached_property
    def columns(self) -> list[ColumnFacts]:
        """The columns of the table; none where a network of the user's own reads the rows."""
        encoder, rows = self.fitted.encoder, self.figure_rows
        return describe_columns(encoder, rows) if encoder is not None and isinstance(rows, Table) else []

    @cached_property
    def features(self) -> Tensor:
        """The network's features of the rows that figures show."""
        return features_of(self.fitted, self.figure_rows)

    @cached_property
    def gps(self) -> GPFacts | None:
        """The Gaussian processes, if there are any."""
        return describe_gps(self.fitted.model.gp_head, self.features) if self.fitted.options.has_gps else None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the classes or targets."""
        predictions = self.predictions
        return predictions.classes if isinstance(predictions, ClassPredictions) else predictions.targets


def gather(fitted: Fitted, X: TableLike, y: object, run: Mapping[str, object], classes: Sequence[object] = ()) -> Facts:
    """Ask the model about the rows, and score its answers; ``classes`` are those whose covariances are to be shown."""
    rows = fitted.read(X)
    shown = rows if isinstance(rows, Table) else np.asarray(X)
    if not isinstance(shown, Table) and shown.ndim == 2:
        shown = open_table(X)
    predictions = predict(fitted, rows, y, run)
    if isinstance(predictions, ClassPredictions):
        tables = [class_scores(predictions)]
    else:
        tables = [real_scores(predictions, target) for target in range(len(predictions.targets))]
    by_name = [{score.metric.name: score for score in scores} for scores in tables]
    facts = Facts(fitted, rows, shown, predictions, by_name, run)
    return replace(facts, chosen=tuple(_place(name, facts.outputs) for name in classes))


def _place(name: object, outputs: tuple[str, ...]) -> int:
    if str(name) not in outputs:
        raise ValueError(
            f"Expected classes to be names out of {listed([repr(output) for output in outputs])}, got {name!r}."
        )
    return outputs.index(str(name))
