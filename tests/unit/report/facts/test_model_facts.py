"""What a report says of how a model was trained."""

from reported import TINY, mixed_table

from svdkl import SVDKLClassifier
from svdkl.report.facts.model_facts import describe_model


def test_evidence_is_told_of_where_there_was_some():
    options = {**TINY, "evidence": True}
    told = describe_model(SVDKLClassifier(**options).fit(*mixed_table(300, 0)))
    assert told["Held-out evidence"] == "yes"
    assert told["Training rows"].endswith("held out")
    few = describe_model(SVDKLClassifier(**options).fit(*mixed_table(60, 0)))  # too few to hold some out
    assert (few["Held-out evidence"], few["Training rows"]) == ("no", "60")
