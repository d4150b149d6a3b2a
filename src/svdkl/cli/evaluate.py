"""``svdkl evaluate``: how good a model's predictions are on rows with known targets."""

from typing import Annotated, Any

import typer

from svdkl.cli.arguments import DROP, IGNORE_EXTRA, JSON, MODEL, NET, TABLE_OR_IMAGES, load_model, read_facts
from svdkl.cli.data import MatchedFile, known_columns, target_name
from svdkl.cli.image_folders import ImageFile, holds_images
from svdkl.cli.output import print_json, print_table
from svdkl.cli.scoring import Scores, predict_beside_targets, scores

DIRECTIONS = {True: "higher is better", False: "lower is better", None: "best at 0.95"}


def evaluate(
    model: MODEL,
    data: TABLE_OR_IMAGES,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of the targets; else what the model was trained on.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COL", help="Also score the rows of each value of this column on their own.")
    ] = None,
    net: NET = None,
    drop: DROP = None,
    ignore_extra: IGNORE_EXTRA = False,
    json: JSON = False,
) -> None:
    """Score a model on rows with targets: every metric, with its unit and direction."""
    estimator, facts = load_model(model, net), read_facts(model)
    if holds_images(estimator, data):
        images = ImageFile(estimator, data, target=target, by=by, drop=drop, ignore_extra=ignore_extra)
        column, predicted = images.target, images.predict_beside_targets()
    else:
        column = target_name(target, facts)
        file = MatchedFile(estimator, data, known_columns(facts, column, by, *(drop or ())), ignore_extra)
        predicted = predict_beside_targets(estimator, file, column, by)
    overall, of_slices = scores(predicted)
    if json:
        slices = {value: {"rows": part.rows, **part.metrics} for value, part in of_slices.items()}
        print_json({"target": column, "rows": overall.rows, "metrics": _described(overall), "by": by, "slices": slices})
        return
    print(f"{overall.rows:,} rows of {column!r}")
    print_table(
        ("metric", "value", "unit", ""),
        [(name, one["value"], one["unit"], one["direction"]) for name, one in _described(overall).items()],
    )
    if by is not None:
        print()
        print_table(
            (by, "rows", *overall.metrics),
            [(value, part.rows, *part.metrics.values()) for value, part in of_slices.items()],
        )


def _described(scores: Scores) -> dict[str, dict[str, Any]]:
    """Each metric with how to read it."""
    from svdkl.metrics import METRICS

    return {
        name: {"value": value, "unit": METRICS[name].unit, "direction": DIRECTIONS[METRICS[name].higher_is_better]}
        for name, value in scores.metrics.items()
    }
