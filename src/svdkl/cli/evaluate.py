"""``svdkl evaluate``: how good a model's predictions are on rows with known targets."""

from typing import Annotated

import typer

from svdkl import cli
from svdkl.cli.arguments import DROP, IGNORE_EXTRA, JSON, MODEL, NET, TABLE_OR_IMAGES
from svdkl.cli.output import print_json, print_table


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
    rows = cli.open_model(model, net).open(data, ignore_extra, with_targets=True, target=target, by=by, drop=drop)
    overall, of_slices = cli.score(rows, by)
    if json:
        metrics = overall.described
        slices = {value: {"rows": part.rows, **part.metrics} for value, part in of_slices.items()}
        print_json({"target": rows.target, "rows": overall.rows, "metrics": metrics, "by": by, "slices": slices})
        return
    print(f"{overall.rows:,} rows of {rows.target!r}")
    print_table(
        ("metric", "value", "unit", ""),
        [(name, one["value"], one["unit"], one["direction"]) for name, one in overall.described.items()],
    )
    if by is not None:
        print()
        print_table(
            (by, "rows", *overall.metrics),
            [(value, part.rows, *part.metrics.values()) for value, part in of_slices.items()],
        )
