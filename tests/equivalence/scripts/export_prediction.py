"""Export the prediction of models with a batch of any size; fail unless it gives what the model gives.

usage: python export_prediction.py '{"name": {"num_outputs": 3, ...}, ...}'
"""

import json
import sys

import torch
from tolerances import close

from svdkl import MLP, SVDKL


def check(name: str, options: dict) -> None:
    """Compare a model's predictions for three sizes of the batch, none of them the one that it was traced with."""
    torch.manual_seed(0)
    model = SVDKL(MLP(5, (8,), 6), num_features=6, **options).eval()
    with torch.no_grad():
        for bank in model.head.gps.banks:
            bank.gps.posterior.mean.normal_()
    program = torch.export.export(model, (torch.randn(7, 5),), dynamic_shapes=({0: torch.export.Dim("B")},))
    exported = program.module()
    for rows in (1, 3, 50):
        x = torch.randn(rows, 5)
        classes = model.head.likelihood.is_classifier
        actual, expected = exported(x), model.predict_proba(x) if classes else model.predict(x).mean
        try:
            close(actual.exp() if classes else actual, expected, "float32")
        except AssertionError as error:
            raise AssertionError(f"{name}: {rows} rows: {error}") from None


for each, its_options in json.loads(sys.argv[1]).items():
    check(each, its_options)
