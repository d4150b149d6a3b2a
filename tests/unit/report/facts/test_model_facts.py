"""What a report says of how a model was trained."""

from reported import TINY, mixed_table

from svdkl import SVDKLClassifier
from svdkl.report.facts.model_facts import describe_model, options


def test_evidence_is_told_of_where_there_was_some():
    quick = {**TINY, "evidence": True}
    told = describe_model(SVDKLClassifier(**quick).fit(*mixed_table(300, 0)).fitted_)
    assert told["Held-out evidence"] == "yes"
    assert told["Training rows"].endswith("held out")
    few = describe_model(SVDKLClassifier(**quick).fit(*mixed_table(60, 0)).fitted_)  # too few to hold some out
    assert (few["Held-out evidence"], few["Training rows"]) == ("no", "60")


def test_options_are_those_of_the_task_and_tell_their_defaults(mixed, two_targets):
    of_classes, of_targets = options(mixed.fitted_), options(two_targets.fitted_)
    assert set(of_classes) == set(mixed.get_params())
    assert set(of_targets) == set(two_targets.get_params())
    assert of_classes["hidden"] == "16 (default auto)"
    assert of_classes["recipe"] == "svdkl"
