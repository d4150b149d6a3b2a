"""``svdkl train``: train a model on a table, or say what that would cost."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from svdkl import cli
from svdkl.cli.arguments import DATA, DROP, JSON
from svdkl.cli.output import (
    InterruptedRun,
    amount_of_bytes,
    amount_of_time,
    is_first_process,
    listed,
    print_json,
    print_table,
    say,
)
from svdkl.cli.request import as_options, read_request
from svdkl.cli.workers import launch

SHOWN_CLASSES = 20  # in a dry run: as many as a screen has room for


@as_options
def train(
    command_line: list[str],
    data: DATA,
    target: Annotated[str | None, typer.Option(metavar="COL", help="Column to predict.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the model and facts of the run.")] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="classification or regression. Default: auto, by the target.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Options from a .yaml or .toml file; those given here win.")
    ] = None,
    drop: DROP = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="The same seed gives the same model. Default: 0.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an unfinished run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run left in --out.")] = False,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--in-memory", metavar=" ", help="Read the table part by part, or at once. Default: by its size."
        ),
    ] = None,
    epoch_rows: Annotated[int | None, typer.Option(metavar="N", help="Rows of an epoch of a streamed table.")] = None,
    nproc: Annotated[int, typer.Option(metavar="N", help="Processes of this machine that train together.")] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show columns, classes, memory and time; train and write nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    json: JSON = False,
    **options: Any,
) -> int:
    """Train a model on a table and write it to a folder.

    All columns but the target and those that are dropped are read: numbers, text, booleans, times, missing values.
    """
    given = {"target": target, "task": task, "drop": drop, "seed": seed, "stream": stream, "epoch_rows": epoch_rows}
    if nproc < 1:
        raise ValueError(f"Expected --nproc of at least 1, got {nproc}.")
    if out is None and not dry_run:
        raise ValueError("Expected --out DIR, a folder to write the model to, got none: name one.")
    folder = out or Path()
    request = read_request(
        data, folder, config, {**given, **options}, resume=resume, overwrite=overwrite, verbose=not quiet
    )
    prepared = cli.Prepared(request, writes=not dry_run)
    if dry_run:
        plan = cli.plan_run(prepared)
        print_json(plan) if json else _print_plan(plan)
        return 0
    if nproc > 1:
        return launch(_for_one_worker(command_line), nproc)
    facts = _run(prepared)
    if is_first_process():
        if json:
            print_json(facts)
        else:
            _print_facts(facts, folder)
    return 0


def _run(prepared: Any) -> dict[str, Any]:
    """Train, name the columns that were left out, and return the facts of the run."""
    out = prepared.config.out
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        fitted, facts = prepared.run()
        ignored = [column for column in fitted.encoder.schema.columns if column.kind == "ignored"]
        if ignored and is_first_process():
            names = listed([f"{column.name} ({column.reason})" for column in ignored])
            say(f"Warning: left out columns that tell nothing: {names}.")
        return facts
    except KeyboardInterrupt:
        if prepared.checkpoint.exists():
            kept = f"the state after the last epoch is kept in {out}; go on by the same command with --resume"
        else:
            kept = "no epoch was over, so nothing is kept; the same command starts anew"
        raise InterruptedRun(f"Interrupted: {kept}.") from None
    finally:
        for folder in made:
            with suppress(OSError):  # it is not empty, since the run has left something
                folder.rmdir()


def _for_one_worker(arguments: Sequence[str]) -> list[str]:
    """Return a command line without --nproc."""
    kept, rest = [], iter(arguments)
    for argument in rest:
        if argument == "--nproc":
            next(rest)
        elif not argument.startswith("--nproc="):
            kept.append(argument)
    return kept


def _print_facts(facts: dict[str, Any], out: Path) -> None:
    print(
        f"Trained a model of {facts['target']!r} ({facts['task']}) on {facts['rows']:,} rows and "
        f"{len(facts['columns']):,} columns: {facts['epochs']} epochs in {amount_of_time(facts['seconds'])}, best "
        f"held-out negative log probability {facts['best_held_out_nlp']:.4f}.\n"
        f"It is in {out}. Score it by: svdkl evaluate {out} DATA. Use it by: svdkl predict {out} DATA."
    )


def _print_plan(document: dict[str, Any]) -> None:
    """Print columns, targets, memory and time."""
    print(f"{document['data']}: {document['rows']:,} rows. Columns as in the first {document['rows_looked_at']:,}:\n")
    columns = document["columns"]
    print_table(list(columns[0]), [list(column.values()) for column in columns])
    print(f"\nTarget {document['target']!r}: {document['task']}.")
    if document["classes"] is not None:
        classes = list(document["classes"].items())
        print_table(("class", "rows"), [(str(label), count) for label, count in classes[:SHOWN_CLASSES]])
        if len(classes) > SHOWN_CLASSES:
            print(f"and {len(classes) - SHOWN_CLASSES:,} more")
    print(
        f"\nRows to fit: {document['rows_to_fit']:,}; held out: {document['held_out']:,}.\n"
        f"At most {document['epochs']} epochs in batches of {document['batch_size']:,} rows; "
        f"{document['inputs']:,} inputs, {document['parameters']:,} parameters.\n"
        f"About {amount_of_bytes(document['memory'])} of memory, and {amount_of_time(document['seconds'])} for all "
        f"epochs; it may stop early. Nothing was written."
    )
