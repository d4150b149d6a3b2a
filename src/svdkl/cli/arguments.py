"""The arguments that several commands have, as typer takes them."""

from pathlib import Path
from typing import Annotated

import typer

MODEL = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a run, or of a saved model.")]
DATA = Annotated[
    Path, typer.Argument(metavar="DATA", help="A table: .parquet, a folder of such files, .csv, .csv.gz or .tsv.")
]
TABLE_OR_IMAGES = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="A table: .parquet, a folder of such files, .csv, .csv.gz or .tsv; images: .npz."
    ),
]
NET = Annotated[
    str | None,
    typer.Option(
        "--net",
        metavar="MODULE:NAME",
        help="What makes the network when it is called without arguments, for a model with one of your own.",
    ),
]
DROP = Annotated[
    list[str] | None, typer.Option("--drop", metavar="NAME", help="A column to leave out; may be given many times.")
]
IGNORE_EXTRA = Annotated[
    bool, typer.Option("--ignore-extra", help="Leave out all columns that the model does not know.")
]
JSON = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
