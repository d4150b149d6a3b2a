"""Run one task: load, split, fit, predict, score, write."""

import resource
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from svdkl.metrics import auroc_ood, evaluate_classification, evaluate_regression, fpr95
from svdkl.training.checkpoint import Checkpoint
from svdkl_research.datasets import ELSEWHERE, ImageSet, hold_out, load_dataset, split
from svdkl_research.datasets.dataset import Array, Inputs, Rows
from svdkl_research.rivals import (
    FORKS,
    PLAIN_NETWORKS,
    REFINEMENTS,
    Baseline,
    ClassBaseline,
    RealBaseline,
    make_baseline,
    make_image_baseline,
)
from svdkl_research.rivals.interface import DOUBT, Floats, Gaussian, Labels
from svdkl_research.suites.provenance import provenance
from svdkl_research.suites.results import Result, is_finished, write_results
from svdkl_research.suites.scratch import checkpoint_of, fork_of, open_scratch, scratch_of
from svdkl_research.suites.suite import WHOLE, Suite, Task

SHORT = {
    "negative_log_probability": "nlp",
    "brier_score": "brier",
    "expected_calibration_error": "ece",
    "adaptive_calibration_error": "ace",
    "gaussian_nlpd": "nlpd",
    "crps_gaussian": "crps",
    "interval_coverage": "coverage95",
}
# Classes of Tiny-ImageNet that are not strange to models of CIFAR-10, which has cats, frogs and dogs.
NOT_STRANGE = ("Egyptian cat", "bullfrog", "German shepherd")
Images = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class TrainingTime:
    """Seconds of training on the clock, and of all cores together; None where the latter are unknown."""

    train_seconds: float
    train_core_seconds: float | None

    def and_then(self, seconds: float, core_seconds: float) -> "TrainingTime":
        """Return the time with further seconds added."""
        cores = None if self.train_core_seconds is None else self.train_core_seconds + core_seconds
        return TrainingTime(self.train_seconds + seconds, cores)


@dataclass(frozen=True)
class Outcome:
    """The metrics of one result, times included, and its predictions."""

    metrics: dict[str, Any]
    predictions: dict[str, Floats]


@dataclass(frozen=True)
class Subset:
    """Inputs and targets of some rows of a data set."""

    X: Inputs
    y: Array


def run_task(
    suite: Suite, task: Task, results: Path, scratch: Path, data_dir: Path | None = None, download: bool = False
) -> None:
    """Run a task and write its results; predictions and the history of training go to the scratch folder.

    A model that keeps a checkpoint goes on from where an earlier worker was cut off.
    """
    # We record the sources before the fit, since they may change on disk during it.
    where = provenance(task.seed, f"python -m svdkl_research {' '.join(task.arguments)}")
    dataset = load_dataset(task.dataset, data_dir, download)
    if dataset.task != suite.kind:
        raise ValueError(f"Expected a set for {suite.kind} in the suite {suite.name}, got {dataset.name}.")
    rows = split(dataset, task.fold)
    train_rows = sample(rows.train, suite, task)
    fit_rows, validation_rows = hold_out(dataset, train_rows, task.seed)

    def part(index: Rows) -> Subset:
        return Subset(dataset.take(index), dataset.target[index])

    fit, validation, test = part(fit_rows), part(validation_rows), part(rows.test)
    open_scratch(scratch)
    strange: Images | None = None
    if isinstance(dataset, ImageSet):
        model = make_image_baseline(task.model, dataset.name, suite.max_epochs)
        strange = strange_images(dataset, data_dir)
    else:
        model = make_baseline(task.model, dataset.task, suite.paper_set(dataset.name))
    checkpoint = model.checkpoint = checkpoint_of(scratch, task)
    if task.model in PLAIN_NETWORKS and dataset.task == "classification":
        model.forks = forks_of(suite, task, results, scratch)
    shared = take_up_fork(scratch, task)
    before = epochs_before(checkpoint.parent)
    start, core_start = time.perf_counter(), time.process_time()
    model.fit(fit.X, fit.y, validation.X, validation.y, task.seed)
    train_seconds = time.perf_counter() - start + sum(epoch["seconds"] for epoch in before)
    cores: list[float] = [epoch["core_seconds"] for epoch in before if epoch.get("core_seconds") is not None]
    known = len(cores) == len(before)
    cost = TrainingTime(train_seconds, time.process_time() - core_start + sum(cores) if known else None)
    models, outcomes = {task.model: model}, {task.model: score(model, test, cost, strange)}
    for name in suite.results_of(task.model, task.share)[1:]:
        start, core_start = time.perf_counter(), time.process_time()
        models[name] = refined = REFINEMENTS[name](model)
        refined.refine(fit.X, fit.y, validation.X, validation.y)
        both = cost.and_then(time.perf_counter() - start, time.process_time() - core_start)
        outcomes[name] = score(refined, test, both, strange)
        outcomes[name].metrics.update(refined.numbers())

    begun = {"resumed_after_epochs": 0 if shared else len(before), "shared_epochs": len(before) if shared else 0}
    sizes: dict[str, Any] = {
        "n_train": len(train_rows),
        "n_fit": len(fit.y),
        "n_validation": len(validation.y),
        "n_test": len(test.y),
    }
    sizes |= {"n_columns": int(np.prod(fit.X.shape[1:])), "peak_memory": peak_memory()}
    if strange is not None:
        sizes["n_elsewhere"] = len(strange)
    found: list[Result] = []
    for name, outcome in outcomes.items():
        keep_scratch(scratch_of(scratch, task, name), models[name], outcome, rows.test)
        config = {**asdict(task), "share": str(task.share), "model": name, "trained_as": task.model}
        if strange is not None:
            config["elsewhere"] = ELSEWHERE[task.dataset]
        config |= {"settings": models[name].settings(), "findings": models[name].findings(), **begun}
        found.append(Result(task.dataset, name, task.run, {**outcome.metrics, **sizes}, config, where))
    write_results(results, task.suite, found)
    shutil.rmtree(checkpoint.parent, ignore_errors=True)


def sample(train: Rows, suite: Suite, task: Task) -> Rows:
    """Draw the training rows of a task: its share of the suite's. A larger share has all rows of a smaller."""
    most = len(train) if suite.max_rows is None else min(len(train), suite.max_rows)
    if most == len(train) and task.share == WHOLE:
        return train
    order = np.random.default_rng([task.fold, task.seed]).permutation(train)
    return np.sort(order[: round(task.share * most)])


def forks_of(suite: Suite, task: Task, results: Path, scratch: Path) -> dict[Path, dict[str, object]]:
    """Return the suite's unfinished fits that begin with this fit's epochs: their fork files and options."""
    others = [other for other in suite.tasks() if replace(other, model=task.model) == task and other.model in FORKS]
    return {
        fork_of(scratch, other): FORKS[other.model](suite.paper_set(other.dataset))
        for other in others
        if not is_finished(results, other, (other.model,))
    }


def take_up_fork(scratch: Path, task: Task) -> bool:
    """Take the epochs that another fit has left as the checkpoint of a new fit; tell whether there were any."""
    fork, checkpoint = fork_of(scratch, task), checkpoint_of(scratch, task)
    if not fork.exists() or checkpoint.exists():
        return False
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    fork.replace(checkpoint)
    return True


def strange_images(dataset: ImageSet, data_dir: Path | None) -> Images | None:
    """Load the images that models of a set should find strange, in its size; None where the set has none."""
    if dataset.name not in ELSEWHERE:
        return None
    try:
        other = load_dataset(ELSEWHERE[dataset.name], data_dir)
    except FileNotFoundError as error:
        print(f"Nothing is measured on images from elsewhere. {error}")
        return None
    assert isinstance(other, ImageSet)
    known = np.isin(np.array(other.classes)[other.target.astype(np.int64)], NOT_STRANGE)
    images = other.images[~known]
    side = dataset.images.shape[-1]
    blocks = images.reshape(*images.shape[:2], side, images.shape[-2] // side, side, images.shape[-1] // side)
    return np.asarray(blocks.mean((3, 5), dtype=np.float32).round(), np.uint8)


def epochs_before(training: Path) -> list[dict[str, Any]]:
    """Return the epochs in the checkpoints of a folder."""
    snapshots = [Checkpoint(path).load() for path in sorted(training.rglob("*.safetensors"))]
    return [epoch for snapshot in snapshots if snapshot is not None for epoch in snapshot.numbers["history"]]


def peak_memory() -> int:
    """Return the most bytes that this worker has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def score(model: Baseline, test: Subset, cost: TrainingTime, strange: Images | None = None) -> Outcome:
    """Predict the test rows and score the predictions; the metrics include the times."""
    start = time.perf_counter()
    if isinstance(model, RealBaseline):
        predicted = model.predict_distribution(test.X)
        seconds = {**asdict(cost), "predict_seconds": time.perf_counter() - start}
        return _real_outcome(predicted, test.y, seconds)
    assert isinstance(model, ClassBaseline)
    p = model.predict_proba(test.X)
    seconds = {**asdict(cost), "predict_seconds": time.perf_counter() - start}
    outcome = _class_outcome(p, test.y, seconds)
    if strange is not None:
        outcome.metrics.update(tell_apart(model.ood_scores(test.X), model.ood_scores(strange)))
    return outcome


def tell_apart(inside: Mapping[str, Floats], outside: Mapping[str, Floats]) -> dict[str, float]:
    """Measure how well each score separates strange rows; metrics of the main score have its bare name."""
    metrics: dict[str, float] = {}
    for name, scores in inside.items():
        ending = "" if name == DOUBT else f"_{name}"
        metrics[f"ood_auroc{ending}"] = auroc_ood(scores, outside[name])
        metrics[f"ood_fpr95{ending}"] = fpr95(scores, outside[name])
    return metrics


def _real_outcome(predicted: Gaussian, y: Labels, beside: dict[str, Any]) -> Outcome:
    metrics = _shortened(evaluate_regression(predicted.mean, predicted.std, y))
    return Outcome({**metrics, **beside}, {"mean": predicted.mean, "std": predicted.std})


def _class_outcome(probabilities: Floats, labels: Labels, beside: dict[str, Any]) -> Outcome:
    # Sums of float32 probabilities differ from one by more than metrics accept.
    p = probabilities.astype(np.float64)
    metrics = _shortened(evaluate_classification(p / p.sum(1, keepdims=True), labels))
    return Outcome({**metrics, **beside}, {"probabilities": probabilities})


def _shortened(metrics: dict[str, float]) -> dict[str, float]:
    return {SHORT.get(name, name): float(value) for name, value in metrics.items()}


def keep_scratch(folder: Path, model: Baseline, outcome: Outcome, test_rows: Rows) -> None:
    """Write predictions with their row indices, and the history, which are too large for the results."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: values.astype(np.float32) for name, values in outcome.predictions.items()}
    np.savez_compressed(folder / "predictions.npz", allow_pickle=False, rows=test_rows, **arrays)
    model.save_history(folder / "history.jsonl")
