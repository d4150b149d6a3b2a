"""``svdkl bench``: how long a step takes beside the network alone and beside rivals."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from svdkl.cli.arguments import JSON
from svdkl.cli.output import FAULT, print_json, print_table, say
from svdkl.cli.workers import ended_by_signals

ALL = "all"


def bench(
    study: Annotated[str, typer.Option(metavar="NAME", help="step, scaling, head, import, profile or all.")] = ALL,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look: 1,000 rows, three rounds, small lattices; no limits.")
    ] = False,
    rows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Rows of a minibatch. Default: those of each study.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Rounds. Default: those of each study.")
    ] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads. Default: all cores.")] = None,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Of one measurement.")] = 600,
    memory_limit: Annotated[
        float | None, typer.Option(metavar="GB", min=0.1, help="Of one measurement. Default: 80 % of the machine's.")
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="LIST", help="A part of the systems, such as system=svdkl,system=klsp_gp.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of bench.json and bench.svg. Default: results/bench."),
    ] = None,
    json: JSON = False,
) -> int:
    """Time a training step of the network alone, of SV-DKL, and of its rivals, in turns in one run.

    What is measured is written at once: a run that was cut off goes on, and a finished one is shown again. To measure
    anew, delete bench.json. The exit code is 1 if a limit is missed or a measurement failed.
    """
    from svdkl_research.bench.runner import FAILED, Conditions, run_tasks
    from svdkl_research.bench.studies import STUDIES, choose
    from svdkl_research.bench.summaries import document, missed_limits

    if study not in (*STUDIES, ALL):
        raise ValueError(f"Expected --study to be one of {', '.join(STUDIES)} or {ALL}, got {study!r}.")
    tasks = choose(list(STUDIES) if study == ALL else [study], quick, rows, repeats, only)
    folder = out or (Path("results/quick/bench") if quick else Path("results/bench"))
    _make(folder)
    path = folder / "bench.json"
    command = " ".join(["svdkl", *sys.argv[1:]])
    with ended_by_signals(f"Interrupted: what was measured is in {path}, the same command goes on from there."):
        records = run_tasks(tasks, path, Conditions.here(threads, time_limit, memory_limit), command, say)
    figure = _write_figure(records, folder)
    if json:
        print_json(document(records))
    else:
        _print(records)
        print("\nWritten:", ", ".join(str(file) for file in (path, *figure)))
    return FAULT if missed_limits(records) or any(record.status == FAILED for record in records) else 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise OSError(f"Expected --out to be a folder that can be made, got {folder}: choose another path.") from None


def _write_figure(records: Any, folder: Path) -> list[Path]:
    """Draw time against m, if that was measured, and return the files."""
    from svdkl.report.html import standalone
    from svdkl_research.bench.summaries import curves
    from svdkl_research.pages.runtime_figure import runtime

    found = curves(records)
    if not any(curve.m for curve in found):
        return []
    rows = max(record.task.setting.rows for record in records if record.task.study == "scaling")
    path = folder / "bench.svg"
    path.write_text(standalone(runtime(found, f"One step, {rows:,} rows")), encoding="utf-8")
    return [path]


def _print(records: Any) -> None:
    from svdkl_research.bench.summaries import Row, curves, rows

    if timings := rows(records):
        print_table(Row._fields, timings)
    slopes = [(curve.title, curve.slope) for curve in curves(records) if curve.slope is not None]
    if slopes:
        print("\nTime against m: exponent of a power law over all m that were measured.\n")
        print_table(("system", "exponent"), slopes)
    for record in records:
        if "operations" in record.outcome:
            print(f"\n{record.task}\n")
            operations = [
                (o["operation"], f"{100 * o['share']:.1f} %", f"{o['milliseconds']:.2f} ms", f"{o['calls']:g}")
                for o in record.outcome["operations"]
            ]
            print_table(("operation", "share", "own time", "calls"), operations)
