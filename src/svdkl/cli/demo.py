"""``svdkl demo``: a network alone and SV-DKL side by side, on flights from New York."""

from pathlib import Path
from typing import Annotated

import typer

from svdkl import cli
from svdkl.cli.arguments import JSON
from svdkl.cli.output import print_json, print_table, say


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for model, test rows and report.")] = Path("demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="30,000 flights, which come with svdkl: less than a minute.")
    ] = False,
    json: JSON = False,
) -> None:
    """Predict which flights from New York arrive late, by a network alone and by SV-DKL: a few minutes on two cores."""
    from svdkl.demo import FULL, QUICK, WritePage, run_demo

    write_page: WritePage | None = None
    try:
        write_page = cli.write_report
    except ImportError as error:
        say(f"There will be no report: {error}")
    result = run_demo(out, QUICK if quick else FULL, write_page, say, verbose=True)
    if json:
        print_json({"test_rows": result.test_rows, "scores": result.scores, "files": result.files})
        return
    print(f"\nDoes a flight arrive late? {result.test_rows:,} test rows; NLP and ECE: lower is better.\n")
    print_table(
        ("", "accuracy", "NLP", "ECE", "seconds"),
        [(name, s["accuracy"], s["nlp"], s["ece"], round(s["seconds"])) for name, s in result.scores.items()],
    )
    print("\nWritten:", ", ".join(f"{path} ({what})" for what, path in result.files.items()))
    if "report" in result.files:
        print(f"Look at {result.files['report']} in a browser.")
    print(
        f"Then try:\n"
        f"  svdkl predict {out} {out}/test.parquet --out predictions.parquet\n"
        f"  svdkl evaluate {out} {out}/test.parquet --by Month\n"
        f"  svdkl report {out} {out}/test.parquet --out report.html\n"
        f"  svdkl export {out} --format onnx --out exported --data {out}/test.parquet"
    )
