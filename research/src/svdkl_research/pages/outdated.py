"""Results whose fit would be told other numbers today: a changed default leaves no other trace on a page."""

from typing import Any

from svdkl_research.rivals import make_baseline, make_image_baseline
from svdkl_research.rivals.networks import NetworkModel, training_numbers
from svdkl_research.suites.results import Result
from svdkl_research.suites.suite import Suite


def outdated(suite: Suite, result: Result) -> list[str] | None:
    """Names of the numbers of training that differ from what they would be now; None where they are not known.

    Those of networks and SV-DKL, by what ``findings.training`` says: earlier versions did not say it, or not all.
    """
    findings = result.config.get("findings", {})
    if result.config.get("trained_as") != result.model or "stages" not in findings:
        return []  # what is made of another fit is as old as that, and other models are of no stages
    told: dict[str, Any] = findings.get("training", {})
    if not told:
        return None
    if "budget" in result.config["settings"]:
        model = make_image_baseline(result.model, result.dataset, suite.max_epochs)
    else:
        model = make_baseline(result.model, suite.kind, suite.told(result.dataset))
    assert isinstance(model, NetworkModel)
    now = training_numbers(model.options, suite.kind, result.metrics["n_fit"], told["seed"])
    return [name for name in sorted(told.keys() & now.keys()) if told[name] != now[name]]
