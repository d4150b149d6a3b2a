"""What the numbers say in words: each statement depends on this model and these rows."""

from collections import Counter

import numpy as np

from svdkl.report.facts.doubt import doubts, errors
from svdkl.report.facts.model_facts import ColumnFacts
from svdkl.report.facts.predictions import INTERVAL, ClassPredictions, Predictions, RealPredictions
from svdkl.report.facts.scores import Score, calibration_error_by_chance
from svdkl.report.words import count, label, listed, number, share

FEW_ROWS = 30  # rows of a class: of fewer, its recall may have a 95 % interval wider than a third
SMALL_TEST = 200  # rows: of fewer, an accuracy has a 95 % interval of several points
USUAL = 0.99  # share of training rows whose out-of-distribution scores count as usual
SET_ASIDE = 0.1  # share of the rows that a person could look at


def class_findings(predictions: ClassPredictions, scores: dict[str, Score]) -> list[str]:
    """Say what the metrics of a classifier mean."""
    accuracy, nlp = scores["accuracy"], scores["negative_log_probability"]
    ece = scores["expected_calibration_error"].value
    rows = len(predictions.labels)
    found = [
        f"Of {count(rows, 'test row')}, {share(accuracy.value)} get the right class. Always naming the most frequent "
        f"class would be right in {share(accuracy.baseline)}.",
        _against_baseline(nlp, "The probabilities", "the classes' shares"),
    ]
    confidence = float(predictions.probabilities.max(1).mean())
    by_chance = calibration_error_by_chance(predictions)
    if ece <= by_chance:
        found.append(
            f"No sign of miscalibration: the calibration error is {number(ece)}, and on these rows even true "
            f"probabilities would show up to {number(by_chance)} by chance."
        )
    else:
        way = "overconfident" if confidence > accuracy.value else "underconfident"
        found.append(
            f"The probabilities are somewhat {way}: the calibration error is {number(ece)}, while true probabilities "
            f"would show at most {number(by_chance)} on these rows; the mean confidence is {share(confidence)}, the "
            f"accuracy {share(accuracy.value)}."
        )
    return found + _value_of_doubt(predictions)


def real_findings(predictions: RealPredictions, scores: list[dict[str, Score]]) -> list[str]:
    """Say what the metrics of a regressor mean, target by target."""
    found = []
    for place, (name, by_name) in enumerate(zip(predictions.targets, scores, strict=True)):
        rmse, covered = by_name["rmse"], by_name["interval_coverage"]
        of = f"{label(name)}: " if len(scores) > 1 else ""
        told = []
        if rmse.baseline > 0:
            explained = 1 - (rmse.value / rmse.baseline) ** 2
            gain = f"explains {share(explained)} of the variance" if explained > 0 else "is no better than the mean"
            told.append(
                f"Errors are typically {number(rmse.value)}, against {number(rmse.baseline)} for always predicting "
                f"the mean: the model {gain}."
            )
        verdict = "as many as they should"
        if covered.high < INTERVAL:
            verdict = "too few: predicted deviations are too small"
        elif covered.low > INTERVAL:
            verdict = "more than they should: predicted deviations are too large"
        told.append(f"95 % intervals hold {share(covered.value)} of the test rows, {verdict}.")
        found += [of + sentence for sentence in told + _value_of_doubt(predictions, place)]
    return found


def limits(predictions: Predictions, columns: list[ColumnFacts]) -> list[str]:
    """Say what not to rely on."""
    rows = len(predictions.doubt.rows)
    total = len(predictions.labels if isinstance(predictions, ClassPredictions) else predictions.values)
    found = []
    if total < SMALL_TEST:
        found.append(f"There are only {count(total, 'test row')}: read the intervals, not the values.")
    if rows < total:
        found.append(f"Figures and tables of rows show {count(rows)} of the {count(total)} test rows, drawn at random.")
    if isinstance(predictions, ClassPredictions):
        found += _class_limits(predictions)
    return found + _column_limits(columns) + _distance_limits(predictions)


def _against_baseline(score: Score, what: str, baseline: str) -> str:
    if score.high < score.baseline:
        gain = (score.baseline - score.value) / score.baseline
        return f"{what} carry information: {number(score.value)} nats a row, {share(gain)} below {baseline}."
    return (
        f"{what} are not clearly better than {baseline} ({number(score.value)} against {number(score.baseline)} nats a "
        f"row): do not use them."
    )


def _value_of_doubt(predictions: Predictions, target: int = 0) -> list[str]:
    error, doubt = errors(predictions, target), doubts(predictions, target)["total"]
    aside = int(SET_ASIDE * len(error))
    if aside == 0 or error.sum() == 0:
        return []
    kept = error[np.argsort(doubt, kind="stable")[: len(error) - aside]]
    if isinstance(predictions, ClassPredictions):
        before, after = share(1 - error.mean()), share(1 - kept.mean())
    else:
        before, after = number(np.sqrt(error.mean())), number(np.sqrt(kept.mean()))
    what = "accuracy" if isinstance(predictions, ClassPredictions) else "the error"
    return [f"Setting the {share(SET_ASIDE)} most uncertain rows aside takes {what} from {before} to {after}."]


def _class_limits(predictions: ClassPredictions) -> list[str]:
    classes, counts = list(map(label, predictions.classes)), Counter(predictions.labels.tolist())
    absent = [name for place, name in enumerate(classes) if counts[place] == 0]
    few = [f"{name} ({counts[place]})" for place, name in enumerate(classes) if 0 < counts[place] < FEW_ROWS]
    chosen = set(predictions.chosen.tolist())
    never = [name for place, name in enumerate(classes) if counts[place] and place not in chosen]
    found = []
    if absent:
        found.append(f"No test row has the class {listed(absent)}: nothing is known of how well it is recognised.")
    if few:
        found.append(f"Few test rows have the class {listed(few)}: what is said of it rests on chance.")
    if bool(predictions.correct.all()):
        most = min(1.0, 3 / len(predictions.labels))
        found.append(f"No test row is wrong, but with so few rows the error rate may still be {share(most)}.")
    if never:
        found.append(f"The class {listed(never)} is never predicted, though test rows have it.")
    return found


def _column_limits(columns: list[ColumnFacts]) -> list[str]:
    found = []
    ignored = [label(column.name) for column in columns if column.kind == "ignored"]
    if ignored:
        found.append(f"{count(len(ignored), 'column is', 'columns are')} not used: {listed(ignored)}.")
    new = [column for column in columns if column.missing > 0 and not column.missing_known]
    if new:
        names = [f"{label(column.name)} ({share(column.missing)})" for column in new]
        found.append(
            f"Values are missing in test rows of columns that were complete in training: {listed(names)}. The model "
            f"takes them for usual values."
        )
    strange = [f"{label(column.name)} ({share(column.unknown)})" for column in columns if column.unknown > 0]
    if strange:
        found.append(f"Test rows have categories that were rare or absent in training: {listed(strange)}.")
    return found


def _distance_limits(predictions: Predictions) -> list[str]:
    doubt = predictions.doubt
    if doubt.ood_score is None or doubt.usual_scores is None:
        return [
            "The model has no Gaussian processes: it cannot tell rows that are unlike the training rows, and its "
            "uncertainty is that of the data alone."
        ]
    if len(doubt.usual_scores) == 0:
        return ["The model remembers no training rows, and cannot say how many test rows are unlike them."]
    limit = float(np.quantile(doubt.usual_scores, USUAL))
    far = float((doubt.ood_score > limit).mean())
    return [
        f"{share(far)} of the test rows have an out-of-distribution score above {number(limit)}; "
        f"of rows like those of training about {share(1 - USUAL)} have. Predictions of such rows are extrapolations."
    ]
