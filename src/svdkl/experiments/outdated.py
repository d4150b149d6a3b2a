"""Results whose fit would be told other numbers today: a changed default leaves no other trace on a page."""

from dataclasses import asdict
from typing import Any

from svdkl.estimators.settings import training_config
from svdkl.experiments.baselines import make_baseline, make_image_baseline
from svdkl.experiments.baselines.image_networks import ImageClassifier
from svdkl.experiments.baselines.networks import NetworkClassifier, NetworkRegressor
from svdkl.experiments.results import Result
from svdkl.experiments.suite import Suite


def outdated(suite: Suite, result: Result) -> list[str]:
    """Names of the numbers of training that differ from what they would be now, in alphabetical order.

    Those of networks and SV-DKL, by what ``findings.training`` says; what an earlier version did not tell is passed
    over.
    """
    told: dict[str, Any] = result.config.get("findings", {}).get("training", {})
    if result.config.get("trained_as") != result.model or not told:
        return []
    if "budget" in result.config["settings"]:
        model = make_image_baseline(result.model, result.dataset, suite.max_epochs)
    else:
        model = make_baseline(result.model, suite.kind, suite.told(result.dataset))
    assert isinstance(model, NetworkClassifier | NetworkRegressor | ImageClassifier)
    now = asdict(training_config(model.estimator, result.metrics["n_fit"], held_out=True, seed=told["seed"]))
    return [name for name in sorted(told.keys() & now.keys()) if told[name] != now[name]]
