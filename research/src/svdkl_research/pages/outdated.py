"""Results that were trained with other defaults than today's."""

from typing import Any

from svdkl_research.rivals import make_baseline, make_image_baseline
from svdkl_research.rivals.networks import NetworkModel, training_numbers
from svdkl_research.suites.results import Result
from svdkl_research.suites.suite import Suite


def outdated(suite: Suite, result: Result) -> list[str] | None:
    """Name the training settings of a result that differ from today's; None if the result does not record them.

    Only networks and SV-DKL have such settings, in ``findings.training`` of their config.
    """
    findings = result.config.get("findings", {})
    if result.config.get("trained_as") != result.model or "stages" not in findings:
        return []  # refinements are as old as their network's result, and other models have no stages
    told: dict[str, Any] = findings.get("training", {})
    if not told:
        return None
    if "budget" in result.config["settings"]:
        model = make_image_baseline(result.model, result.dataset, suite.max_epochs)
    else:
        model = make_baseline(result.model, suite.kind, suite.paper_set(result.dataset))
    assert isinstance(model, NetworkModel)
    now = training_numbers(model.options, suite.kind, result.metrics["n_fit"], told["seed"])
    return [name for name in sorted(told.keys() & now.keys()) if told[name] != now[name]]
