"""``svdkl train --dry-run``: what a run would do and cost."""

from typing import Any

from svdkl.cli.output import amount_of_bytes, amount_of_time, print_table

SHOWN_CLASSES = 20  # as many as a screen has room for


def print_plan(document: dict[str, Any]) -> None:
    """Print columns, targets, memory and time, as :func:`~svdkl.estimators.dry_run.plan_run` tells them."""
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
