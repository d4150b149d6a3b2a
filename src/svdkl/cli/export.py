"""``svdkl export``: a model as a file that other programs run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from svdkl.cli.arguments import JSON, MODEL, NET, load_model, read_facts
from svdkl.cli.data import MatchedFile, known_columns
from svdkl.cli.image_folders import ImageFile, holds_images
from svdkl.cli.output import print_json

CHECKED_ROWS = 10_000  # of --data, at most


def export(
    model: MODEL,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the file and what stands beside it.")],
    format: Annotated[str, typer.Option(metavar="NAME", help="onnx, or torch for torch.export.")] = "onnx",
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table, or images, to check the file on; random rows without it."),
    ] = None,
    net: NET = None,
    json: JSON = False,
) -> None:
    """Write a model as an ONNX or torch.export file, and check that it predicts as the model does.

    The file takes rows as encoder.json says and gives probabilities, or mean and standard deviation; export.json names
    its inputs and outputs.
    """
    from dataclasses import asdict

    from svdkl.export.write import export_model

    estimator = load_model(model, net)
    known = known_columns(read_facts(model))
    export = export_model(estimator, out, format, None if data is None else _rows(estimator, data, known))
    if json:
        print_json(asdict(export))
        return
    print(f"Wrote {export.file}, with export.json, which says how to use it.")
    print(
        f"Checked with {export.checked_with} on {export.checked_on}, in batches of several sizes: it differs from the "
        f"model by at most {export.largest_difference:.1e}."
    )


def _rows(estimator: Any, data: Path, known: list[str]) -> Any:
    """The first rows of a file."""
    if holds_images(estimator, data):
        return ImageFile(estimator, data).images[:CHECKED_ROWS]
    X, _ = next(MatchedFile(estimator, data, known, ignore_extra=True).batches())
    return X.slice(0, CHECKED_ROWS)
