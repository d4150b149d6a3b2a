"""``svdkl train --dry-run``: what a run would do and cost."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from svdkl.cli.output import amount_of_bytes, amount_of_time, print_json, print_table

SAMPLE_ROWS = 100_000  # from the beginning of the table
SHOWN_CLASSES = 20


def show_plan(request: Any, json: bool) -> None:
    """Print columns, targets, memory and time of a :class:`~svdkl.estimators.run.RunConfig`; nothing is written."""
    from svdkl.estimators.dry_run import plan_fit
    from svdkl.estimators.run import check_columns, is_streamed, make_estimator
    from svdkl.estimators.streaming import target_of
    from svdkl.tables.table_files import open_table_file
    from svdkl.training.parquet_batches import EPOCH_ROWS

    file, target = open_table_file(request.data), request.target
    check_columns(request, file)
    features = [name for name in file.names if name not in (target, *request.drop)]
    estimator = make_estimator(request, file)
    by_class = estimator._task == "classification"
    rows, classes = _count_targets(file, target, by_class)
    sample = next(file.batches([*features, target], SAMPLE_ROWS))
    streamed = is_streamed(request, file)
    epoch_rows = (request.epoch_rows or EPOCH_ROWS) if streamed else None
    labels = list(classes) if by_class else None
    plan = plan_fit(estimator, sample.select(features), target_of(sample, target), rows, epoch_rows, labels)
    table_bytes = 0 if streamed else round(sample.nbytes / sample.num_rows * rows)
    document = {
        "data": str(request.data),
        "rows": rows,
        "rows_looked_at": sample.num_rows,
        "streamed": streamed,
        "target": target,
        "task": estimator._task,
        "classes": dict(classes.most_common()) if by_class else None,
        **asdict(plan),
        "memory": plan.memory + table_bytes,
    }
    if json:
        print_json(document)
    else:
        _print(document)


def _count_targets(file: Any, target: str, by_class: bool) -> tuple[int, Counter[Any]]:
    """Rows of the table, and how often each class occurs."""
    from svdkl.tables.parquet_files import plain_column
    from svdkl.training.parquet_survey import refuse_missing

    rows, counts = 0, Counter[Any]()
    for part in file.batches([target]):
        column = part.column(target)
        refuse_missing(column, target, rows)
        rows += part.num_rows
        if by_class:
            entries = plain_column(column).value_counts().to_pylist()
            counts.update({entry["values"]: entry["counts"] for entry in entries})
    return rows, counts


def _print(document: dict[str, Any]) -> None:
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
