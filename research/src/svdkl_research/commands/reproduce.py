"""``svdkl reproduce``: the comparisons of the paper, run and written as a page."""

from pathlib import Path
from typing import Annotated

import typer

from svdkl.cli.output import FAULT, say
from svdkl.cli.workers import ended_by_signals


def reproduce(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="uci, airline, airline2008, tabular, regression, images, resnet, svhn, smoke or smoke_regression.",
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version: 4,000 training rows, fast models, one run of each.")
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the data files. Default: what SVDKL_DATA names, else ~/.cache/svdkl/data."
        ),
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="LIST", help="A part of the suite, such as dataset=adult,model=svdkl,fold=0.")
    ] = "",
    results: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")] = Path("results"),
    scratch: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for predictions, histories, logs and checkpoints.")
    ] = Path(".scratch"),
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads of a fit. Default: all cores.")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch what OpenML has and the data folder lacks.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the tasks, their time and memory; run none.")
    ] = False,
    page_only: Annotated[
        bool, typer.Option("--page-only", help="Write page and figures from the results that are there; run nothing.")
    ] = False,
) -> int:
    """Run what a suite of experiments lacks, then write its tables, verdicts and figures.

    What is finished is not run again, and a fit that was cut off goes on from its checkpoint. The page is
    RESULTS/SUITE/tables.md, for --quick RESULTS/quick/SUITE/tables.md.
    """
    from svdkl_research.suites.all_suites import QUICK, get_suite
    from svdkl_research.suites.plan import Place, look_for_data, plan_suite
    from svdkl_research.suites.runner import run_suite
    from svdkl_research.suites.suite import parse_only, select

    chosen = get_suite(f"{QUICK}{suite}" if quick else suite)
    tasks = select(chosen, parse_only(only))
    place = Place(results, scratch, data_dir, download, threads)
    if dry_run:
        plan = look_for_data(plan_suite(chosen, tasks, place), place, dry=True)
        lines = [f"{task} ({plan.estimate.time_of(task)})" for task in plan.todo]
        print("\n".join([*plan.sentences(), *lines]))
        return 0
    failed = 0
    if not page_only:
        kept = "Interrupted: finished results and checkpoints stay, the same command goes on from there."
        with ended_by_signals(kept):
            failed = len(run_suite(chosen, tasks, place, lambda line: print(line, flush=True)))
    if failed:
        say(
            f"Expected all tasks to succeed, but {failed} failed or lack their data, see above: the same command tries "
            f"them again."
        )
    if failed < len(tasks):
        for path in write_page(chosen.name, results):
            print(f"Wrote {path}.")
    return FAULT if failed else 0


def write_page(suite: str, results: Path) -> list[Path]:
    """Write a suite's figures and tables, and return the files."""
    from svdkl_research.pages.suite_figures import write_figures
    from svdkl_research.pages.tables import suite_tables
    from svdkl_research.suites.all_suites import get_suite

    chosen = get_suite(suite)
    figures = write_figures(chosen, results)
    page = results / suite / "tables.md"
    page.write_text(suite_tables(chosen, results, [path.name for path in figures]), encoding="utf-8")
    return [page, *figures]
