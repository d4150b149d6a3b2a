"""The whole page: one HTML file that needs nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from svdkl.estimators.base import DeepKernelEstimator
from svdkl.estimators.examples import TableLike
from svdkl.estimators.fitted import Fitted
from svdkl.report.facts.all_facts import Facts, gather
from svdkl.report.facts.findings import limits
from svdkl.report.html import Section, bullets, contents, section, text, write_page_figures
from svdkl.report.sections.gps import gaussian_processes
from svdkl.report.sections.overview import cards, intended_use, subtitle, title
from svdkl.report.sections.quality import calibration, meaning, metrics, mistakes
from svdkl.report.sections.row_details import notable_rows
from svdkl.report.sections.training_course import data, provenance, training
from svdkl.report.sections.uncertainty import uncertainty
from svdkl.writing import written_whole


def write_report(
    estimator: object,
    X: TableLike,
    y: object,
    path: str | Path,
    run: Mapping[str, object] | None = None,
    classes: Sequence[object] = (),
    figures: str | Path | None = None,
) -> Path:
    """Write a page on a fitted estimator and how it does on test rows.

    Parameters
    ----------
    estimator
        A fitted :class:`~svdkl.SVDKLClassifier` or :class:`~svdkl.SVDKLRegressor`, or its ``fitted_``.
    X, y
        Rows that it was not trained on, and their targets.
    path
        Where the page is written. It appears there whole or not at all.
    run
        Facts about the training that the page shows as they are: data file, target, seconds, seed, ...; ``target``
        also names the target, ``data`` stands under the title.
    classes
        Classes, or names of targets: for each, the page shows the covariance matrix of the GP that drives it most. By
        default it shows the matrices of the most influential GPs.
    figures
        A folder to which each figure of the page is written as an SVG file, too.

    Returns
    -------
    path
    """
    fitted = _fitted(estimator)
    place = Path(path)
    if place.is_dir():
        raise ValueError(
            f"Expected a file to write the report to, got the folder {place}: add a name such as report.html."
        )
    folder = None if figures is None else Path(figures)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"Expected a folder to write the figures to, got the file {folder}: choose another path.")
    with _plain_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)  # what cannot be written need not be computed
    page = render_report(gather(fitted, X, y, dict(run or {}), classes))
    with _plain_errors(place), written_whole(place) as beside:
        beside.write_text(page, encoding="utf-8")
    if folder is not None:
        with _plain_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_page_figures(page, folder)
    return place


def render_report(facts: Facts) -> str:
    """Return the page as text; equal facts give equal pages."""
    parts = [
        intended_use(facts),
        metrics(facts),
        meaning(facts),
        calibration(facts),
        mistakes(facts),
        uncertainty(facts),
        notable_rows(facts),
        Section("limits", "Limits", bullets(limits(facts.predictions, facts.columns))),
        data(facts),
        training(facts),
        gaussian_processes(facts),
        provenance(facts),
    ]
    style = files("svdkl.report").joinpath("style.css").read_text(encoding="utf-8")
    name = text(title(facts))
    body = "\n".join(section(part) for part in parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{name}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{name}</h1><p>{text(subtitle(facts))}</p>{cards(facts)}</header>\n"
        f"{contents(parts)}\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _fitted(estimator: object) -> Fitted:
    if isinstance(estimator, Fitted):
        return estimator
    if not isinstance(estimator, DeepKernelEstimator) or not hasattr(estimator, "fitted_"):
        raise ValueError(
            f"Expected a fitted SVDKLClassifier or SVDKLRegressor, got {type(estimator).__name__}: fit one first."
        )
    return estimator.fitted_


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(
            f"Expected to write the report to {path}, but that failed ({error}): choose another place."
        ) from error
