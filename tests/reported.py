"""Tables with odd names, made-up predictions and dense algebra that tests of the report share."""

import numpy as np
import pandas as pd
import torch
from dense import interpolation_matrix, line_correlation
from scipy import stats

from svdkl.report.facts.predictions import ClassPredictions, Doubt

TINY = {"hidden": (16,), "num_features": 4, "grid_size": 8, "max_iter": 2, "evidence": False, "random_state": 0}
LABELS = ["<script>alert('x')</script>", '$\\frac{a}{b}$ & "co"', "長" * 200]
CITY = "city <b>&amp;</b> \x00"


def mixed_table(num_rows, seed):
    random = np.random.default_rng(seed)
    age = random.normal(50, 15, num_rows)
    age[random.random(num_rows) < 0.1] = np.nan
    city = random.choice(["Zürich", "<i>", "a$b$", '"'], num_rows).astype(object)
    city[random.random(num_rows) < 0.1] = None
    table = pd.DataFrame({"age": age, CITY: city, "one": 1, "when": pd.Timestamp("2024-01-01"), "_" * 300: age > 50})
    table["when"] += pd.to_timedelta(random.integers(0, 400, num_rows), unit="D")
    y = np.array(LABELS, dtype=object)[
        np.digitize(np.nan_to_num(age, nan=50) + random.normal(0, 5, num_rows), (40, 60))
    ]
    return table, pd.Series(y, name="group & <kind>")


def made_up(probabilities, labels, epistemic=None):
    p = np.asarray(probabilities, dtype=float)
    entropy = stats.entropy(p, axis=1)
    names = tuple(f"c{place}" for place in range(p.shape[1]))
    return ClassPredictions("y", names, np.asarray(labels), p, Doubt(np.arange(len(p)), entropy, epistemic, None))


def random_predictions(num_rows, num_classes=3, seed=0, sharpness=1.0):
    """Probabilities, and labels that are drawn from them before they are made sharper."""
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.ones(num_classes), num_rows)
    labels = np.array([random.choice(num_classes, p=row) for row in p])
    sharper = p**sharpness
    return made_up(sharper / sharper.sum(1, keepdims=True), labels, random.random(num_rows))


def dense_likeness(head, h):
    """Correlations of the outputs, from M K Mᵀ of each GP, with nothing of the package but its parameters."""
    gps, weight = head.gps.members()[0].gps, head.mixing.weight.detach().double()
    total = torch.zeros(len(h), len(h), dtype=torch.float64)
    with torch.no_grad():
        z = head.gps.bounding(h).double()
    for gp in range(weight.shape[1]):
        M = interpolation_matrix((z[:, [gp]] + 1) / 2 * (8 - 3) + 1, [8])  # one spacing free at either end
        variance = gps.kernel.log_variance[gp].detach().double().exp()
        K = variance * line_correlation("rbf", gps.kernel.axes[0].lengthscale[gp].detach().double(), 8)
        total += weight[:, gp].square().mean() * M @ K @ M.T
    deviation = total.diagonal().sqrt()
    return (total / deviation / deviation[:, None]).numpy()
