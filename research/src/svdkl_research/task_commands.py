"""``python -m svdkl_research``: one task of a suite for ``svdkl reproduce``, and the tables of documents."""

import argparse
import sys
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

from svdkl_research.suites.all_suites import get_suite
from svdkl_research.suites.suite import WHOLE, Task

WRONG_ARGUMENTS, INTERRUPTED = 2, 130


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are one sentence."""

    def error(self, message: str) -> NoReturn:
        sentence = f"Expected other arguments, since {message.rstrip('.')}; see {self.prog} --help."
        print(" ".join(sentence.split()), file=sys.stderr)
        raise SystemExit(WRONG_ARGUMENTS)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; what cannot be done is said in a sentence."""
    given = _parser().parse_args(arguments)
    try:
        return int(given.command(given))
    except (ValueError, OSError, ImportError) as error:
        if given.debug:
            raise
        print(str(error) or type(error).__name__, file=sys.stderr)
        return WRONG_ARGUMENTS
    except KeyboardInterrupt:
        print("Interrupted: the checkpoint stays, the same command goes on from there.", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    description = "Parts of svdkl reproduce, and the tables of documents."
    parser = _Parser(prog="python -m svdkl_research", description=description)
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("run-task", help="run one task of a suite")
    for name in ("suite", "dataset", "model"):
        one.add_argument(name, metavar=name.upper())
    one.add_argument("--fold", type=int, default=0)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--share", type=_share, default=WHOLE, help="of the training rows, such as 1/10")
    one.add_argument("--data-dir", type=Path, help="folder of the data files; else SVDKL_DATA")
    one.add_argument("--download", action="store_true", help="fetch what OpenML has and the folder lacks")
    one.add_argument("--results", type=Path, default=Path("results"))
    one.add_argument("--scratch", type=Path, default=Path(".scratch"), help="for predictions, histories and logs")
    one.add_argument("--threads", type=_count, help="threads of a task")
    one.set_defaults(command=_run_task)

    fill = commands.add_parser("fill", help="write the tables of a document anew from the results")
    fill.add_argument("document", type=Path, metavar="DOCUMENT", help="such as docs/results.md")
    fill.add_argument("--results", type=Path, default=Path("results"))
    fill.set_defaults(command=_fill)
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def _share(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text!r} is no share such as 1/10") from None


def _run_task(given: argparse.Namespace) -> int:
    import torch

    from svdkl_research.suites.task import run_task

    suite = get_suite(given.suite)
    task = Task(suite.name, given.dataset, given.model, given.fold, given.seed, given.share)
    if task not in set(suite.tasks()):
        raise ValueError(
            f"Expected a task of the suite {suite.name}, got {task}: see svdkl reproduce {suite.name} --dry-run."
        )
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    run_task(suite, task, given.results, given.scratch, given.data_dir, given.download)
    return 0


def _fill(given: argparse.Namespace) -> int:
    from svdkl_research.pages.overview import fill_in

    given.document.write_text(fill_in(given.document.read_text("utf-8"), given.results), "utf-8")
    return 0
