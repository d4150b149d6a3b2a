"""``svdkl predict``: what a model says of the rows of a table, or of images."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from svdkl.cli.arguments import DROP, IGNORE_EXTRA, JSON, MODEL, NET, TABLE_OR_IMAGES, load_model, read_facts
from svdkl.cli.data import MatchedFile, known_columns
from svdkl.cli.image_folders import ImageFile, holds_images
from svdkl.cli.output import check_out_file, print_json, write_tables

UNCERTAINTY = ("total", "aleatoric", "epistemic", "ood_score")


def predict(
    model: MODEL,
    data: TABLE_OR_IMAGES,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .csv or .parquet file; else CSV to standard output.")
    ] = None,
    columns: Annotated[str, typer.Option(metavar="NAME,...", help="Columns of the table to copy to the front.")] = "",
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Add total, aleatoric and epistemic uncertainty, and ood_score.")
    ] = False,
    quantiles: Annotated[
        str, typer.Option(metavar="LEVEL,...", help="Regression: quantiles to add, such as 0.05,0.95.")
    ] = "",
    net: NET = None,
    drop: DROP = None,
    ignore_extra: IGNORE_EXTRA = False,
    json: JSON = False,
) -> None:
    """Predict the rows of a table, or images: labels and class probabilities, or mean and standard deviation.

    A table is read and the predictions are written part by part, so both may be larger than the memory.
    """
    levels = _levels(quantiles)
    if json and out is None:
        raise ValueError("Expected --out FILE beside --json, got none: predictions are a table, not a JSON document.")
    if out is not None:
        check_out_file(out)
        if out.exists() and data.exists() and out.samefile(data):
            raise ValueError(f"Expected --out to be another file than the table, got {out} twice: rename it.")
    estimator = load_model(model, net)
    if levels and hasattr(estimator, "classes_"):
        raise ValueError("Expected --quantiles for a regression model only, got a classification model: leave it out.")
    copied = [name for name in columns.split(",") if name]
    file: MatchedFile | ImageFile
    if holds_images(estimator, data):
        file = ImageFile(estimator, data, columns=copied, drop=drop, ignore_extra=ignore_extra)
    else:
        known = known_columns(read_facts(model), *copied, *(drop or ()))
        file = MatchedFile(estimator, data, known, ignore_extra)
    rows = write_tables(_predictions(estimator, file, copied, uncertainty, levels), out)
    if json:
        print_json({"out": out, "rows": rows, "model": model})


def _levels(text: str) -> list[float]:
    try:
        levels = [float(part) for part in text.split(",") if part]
    except ValueError:
        levels = [0.0]
    if not all(0 < level < 1 for level in levels):
        raise ValueError(f"Expected --quantiles between 0 and 1, such as 0.05,0.95, got {text!r}.")
    return levels


def _predictions(
    estimator: Any, file: MatchedFile | ImageFile, copied: list[str], uncertainty: bool, levels: list[float]
) -> Iterator[Any]:
    import pyarrow as pa

    for X, beside in file.batches(copied):
        predicted = _predicted(estimator, X, levels)
        if uncertainty:
            doubt = estimator.predict_uncertainty(X)
            predicted |= {name: getattr(doubt, name) for name in UNCERTAINTY}
        twice = [name for name in copied if name in predicted]
        if twice:
            raise ValueError(f"Expected copied columns with other names than the predictions, got {twice[0]!r}.")
        yield pa.table({**{name: beside.column(name) for name in copied}, **predicted})


def _predicted(estimator: Any, X: Any, levels: list[float]) -> dict[str, Any]:
    if hasattr(estimator, "classes_"):
        p = estimator.predict_proba(X)
        labels = estimator.classes_
        return {"label": labels[p.argmax(1)], **{f"p_{label}": p[:, i] for i, label in enumerate(labels.tolist())}}
    if not estimator.single_target_:
        raise ValueError(f"Expected a model of one target, got one of {estimator.n_outputs_}: use it from Python.")
    mean, std = estimator.predict(X, return_std=True)
    predicted = {"mean": mean, "std": std}
    if levels:
        values = estimator.predict_quantiles(X, levels)
        predicted |= {f"q{level:g}": values[:, i] for i, level in enumerate(levels)}
    return predicted
