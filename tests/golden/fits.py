"""Small fits of every kind, and a digest of what each one predicts: they must not change by accident.

    python tests/golden/fits.py            print the digests
    python tests/golden/fits.py --freeze   write them to digests.json, for this kind of processor

Training is deterministic, so a change of structure leaves every bit as it was. Other processors round in other ways;
``digests.json`` therefore has one set of digests for each kind of processor, by the instructions that it offers.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from torch import nn

from svdkl import SVDKLClassifier, SVDKLRegressor

DIGESTS = Path(__file__).with_name("digests.json")
SMALL = {
    "hidden": (24, 16),
    "num_features": 6,
    "grid_size": 16,
    "max_iter": 6,
    "learning_rate_init": 1e-2,
    "random_state": 3,
}
NEW_ROWS = 60  # at the end of each table, which are predicted


def table(num_rows: int = 460) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Numbers, text, booleans and times with missing values; a class and a real target."""
    random = np.random.default_rng(11)
    frame = pd.DataFrame(
        {
            "area": random.gamma(9, 12, num_rows).round(3),
            "rooms": random.integers(1, 6, num_rows),
            "district": random.choice(["north", "south", "west"], num_rows),
            "lift": random.random(num_rows) < 0.4,
            "built": np.datetime64("1990-01-01") + random.integers(0, 9000, num_rows).astype("timedelta64[D]"),
        }
    )
    rent = 3 * frame["area"] * np.where(frame["district"] == "south", 1.5, 1) + 40 * frame["rooms"] ** 1.5
    rent = rent.to_numpy() + 20 * random.standard_normal(num_rows)
    frame.loc[::7, "area"] = np.nan
    frame.loc[3::11, "district"] = None
    return frame, np.where(rent > np.median(rent), "dear", "cheap"), rent


def digest(*arrays: object) -> str:
    """A hash of the bits of arrays."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array, np.float64).tobytes())
    return total.hexdigest()[:24]


def of_classifier(model: SVDKLClassifier, X: object, y: object) -> str:
    """Everything that a classifier says of new rows, and how its training went."""
    doubt = model.predict_uncertainty(X) if model.recipe in ("svdkl", "dnn_gp") else ()
    losses = [epoch.train_loss for epoch in model.history_]
    return digest(model.predict_proba(X), model.log_predictive(X, y), *doubt, losses)


def of_regressor(model: SVDKLRegressor, X: object, y: object) -> str:
    """Everything that a regressor says of new rows, and how its training went."""
    doubt = model.predict_uncertainty(X) if model.recipe in ("svdkl", "dnn_gp") else ()
    losses = [epoch.train_loss for epoch in model.history_]
    draws = model.sample_y(X, 2, random_state=5)
    levels = model.predict_quantiles(X, (0.1, 0.9))
    return digest(*model.predict(X, return_std=True), levels, draws, model.log_predictive(X, y), *doubt, losses)


def classes(folder: Path, X: object = None, y: object = None, **options: object) -> str:
    """A classifier of the table of homes, or of another."""
    if X is None:
        X, y, _ = table()
    model = SVDKLClassifier(**{**SMALL, **options}).fit(X[:-NEW_ROWS], y[:-NEW_ROWS])
    return of_classifier(model, X[-NEW_ROWS:], y[-NEW_ROWS:])


def reals(folder: Path, make: Callable[[np.ndarray], np.ndarray], **options: object) -> str:
    """A regressor of targets that are made from the rents of homes."""
    X, _, rent = table()
    y = make(rent)
    model = SVDKLRegressor(**{**SMALL, **options}).fit(X[:-NEW_ROWS], y[:-NEW_ROWS])
    return of_regressor(model, X[-NEW_ROWS:], y[-NEW_ROWS:])


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images of handwritten digits, (rows, 1, 8, 8)."""
    bunch = load_digits()
    return bunch.images[:500, None].astype(np.float32) / 16, bunch.target[:500]


def streamed(folder: Path, **options: object) -> str:
    """A classifier of a Parquet file of several row groups."""
    frame, label, _ = table(2400)
    file = folder / "homes.parquet"
    frame.assign(dear=label).to_parquet(file, row_group_size=300)
    model = SVDKLClassifier(**{**SMALL, "max_iter": 3, **options}).fit_parquet(file, "dear", epoch_rows=900)
    return of_classifier(model, frame[:NEW_ROWS], label[:NEW_ROWS])


class Interruption(nn.Module):
    """Lets rows pass; in training it ends the fit after so many steps, once."""

    steps_left = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and Interruption.steps_left:
            Interruption.steps_left -= 1
            if not Interruption.steps_left:
                raise KeyboardInterrupt
        return x


def resumed(folder: Path, after: int) -> str:
    """A classifier of images whose fit is interrupted after some steps and taken up again."""
    X, y = digits()
    net = nn.Sequential(Interruption(), nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 6), nn.ReLU())
    torch.manual_seed(7)
    for layer in (net[2], net[4]):
        nn.init.kaiming_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
    model = SVDKLClassifier(**{**SMALL, "net": net, "batch_size": 64})
    checkpoint = folder / f"{after}.safetensors"
    Interruption.steps_left = after
    try:
        model.fit(X[:-NEW_ROWS], y[:-NEW_ROWS], checkpoint=checkpoint)
    except KeyboardInterrupt:
        assert checkpoint.exists()
    else:
        assert not after, "the fit was not interrupted"
    model.fit(X[:-NEW_ROWS], y[:-NEW_ROWS], checkpoint=checkpoint if after else None)
    return of_classifier(model, X[-NEW_ROWS:], y[-NEW_ROWS:])


def going_on(folder: Path) -> str:
    """A warm start, and chunks one after another."""
    X, y, rent = table()
    warm = SVDKLClassifier(**SMALL, warm_start=True).fit(X[:-NEW_ROWS], y[:-NEW_ROWS])
    warm.set_params(max_iter=2).fit(X[:-NEW_ROWS], y[:-NEW_ROWS])
    chunks = SVDKLRegressor(**SMALL)
    for start in (0, 200):
        chunks.partial_fit(X[start : start + 200], rent[start : start + 200])
    new = X[-NEW_ROWS:]
    return of_classifier(warm, new, y[-NEW_ROWS:]) + of_regressor(chunks, new, rent[-NEW_ROWS:])


def image_net(folder: Path) -> str:
    """A network of the user's own, with batch normalisation, on images."""
    X, y = digits()
    torch.manual_seed(7)
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 8), nn.ReLU())
    return classes(folder, X, y, net=net)


def weighted(folder: Path) -> str:
    """Weights of rows and classes, and rows of one's own to hold out."""
    X, y, _ = table()
    weight = np.random.default_rng(2).random(len(y)) + 0.5
    model = SVDKLClassifier(**SMALL, class_weight={"dear": 2.0})
    model.fit(X[:300], y[:300], weight[:300], eval_set=(X[300:400], y[300:400], weight[300:400]))
    return of_classifier(model, X[-NEW_ROWS:], y[-NEW_ROWS:])


FITS: dict[str, Callable[[Path], str]] = {
    "two classes": classes,
    "many classes": lambda folder: classes(folder, digits()[0].reshape(500, 64), digits()[1]),
    "weights": weighted,
    "counts": lambda folder: reals(folder, lambda rent: (rent // 40).clip(0), likelihood="poisson"),
    "two real targets": lambda folder: reals(folder, lambda rent: np.stack([rent, np.sqrt(abs(rent))], 1)),
    "outliers, groups of two": lambda folder: reals(
        folder, lambda rent: rent, likelihood="student_t", dims_per_gp=2, kernel="matern52", grid_size=8
    ),
    "a network on images": image_net,
    "streamed": streamed,
    "streamed, features": lambda folder: streamed(folder, recipe="dnn_gp", class_weight="balanced"),
    "dnn_gp": lambda folder: classes(folder, recipe="dnn_gp"),
    "dnn": lambda folder: classes(folder, recipe="dnn"),
    "dnn_plus": lambda folder: reals(folder, lambda rent: rent, recipe="dnn_plus"),
    "the paper's form": lambda folder: classes(folder, gps="outputs", evidence=False),
    "banded posterior": lambda folder: classes(folder, grid_size=300, joint_batch_size=200),
    "not interrupted": lambda folder: resumed(folder, 0),
    "resumed in the network's stage": lambda folder: resumed(folder, 17),
    "resumed in the joint stage": lambda folder: resumed(folder, 38),
    "warm start and chunks": going_on,
}


def processor() -> str:
    """The kind of processor, torch's build, and numpy's: whatever may round in another way."""
    return f"{torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}, numpy {np.__version__}, {_model()}"


def _model() -> str:
    """The processor's maker, family and model, where the system says them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    known = dict(line.split(":", 1) for line in lines if ":" in line)
    facts = {name.strip(): value.strip() for name, value in known.items()}
    return " ".join(facts.get(name, "?") for name in ("vendor_id", "cpu family", "model"))


def digest_of(name: str) -> str:
    """The digest of one fit, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return FITS[name](Path(folder))
    finally:
        torch.set_num_threads(threads)


def frozen() -> dict[str, dict[str, str]]:
    """The digests that were kept, by kind of processor and fit."""
    return json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}


def main(arguments: list[str]) -> None:
    """Print the digests of all fits, or those that are named; with ``--freeze`` keep them."""
    names = [name for name in arguments if name != "--freeze"] or list(FITS)
    kept = frozen().get(processor(), {})
    found = {}
    for name in names:
        found[name] = digest_of(name)
        print(f"{found[name]}  {'same' if kept.get(name) == found[name] else 'NEW '}  {name}", flush=True)
    if "--freeze" in arguments:
        DIGESTS.write_text(json.dumps({**frozen(), processor(): {**kept, **found}}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
