"""The top of the page: what the model is for, and its most important numbers."""

from svdkl.report.facts.all_facts import Facts
from svdkl.report.facts.predictions import ClassPredictions
from svdkl.report.html import TITLES, Section, bullets, interval, shown, text
from svdkl.report.sections.quality import drawn_targets
from svdkl.report.words import count, label, listed

CLASS_CARDS = ("accuracy", "negative_log_probability", "expected_calibration_error", "auroc")
REAL_CARDS = ("rmse", "mae", "interval_coverage", "crps_gaussian")
SEVERAL_CARDS = ("rmse", "interval_coverage")  # of each target


def title(facts: Facts) -> str:
    """Return the title of the page."""
    predictions = facts.predictions
    names = [predictions.target] if isinstance(predictions, ClassPredictions) else list(predictions.targets)
    return f"Model report: {listed([label(name, 40) for name in names], 3)}"


def subtitle(facts: Facts) -> str:
    """Return one line on the model and the rows."""
    kind = "classifier" if isinstance(facts.predictions, ClassPredictions) else "regressor"
    rows = count(facts.rows.num_rows, "test row")
    source = f" · {label(facts.run['data'], 80)}" if "data" in facts.run else ""
    return f"{facts.fitted.targets.estimator}, a {kind} · {rows}{source}"


def cards(facts: Facts) -> str:
    """Show the most important numbers, large; of several targets the first three."""
    wanted: tuple[str, ...] = CLASS_CARDS if isinstance(facts.predictions, ClassPredictions) else REAL_CARDS
    wanted = SEVERAL_CARDS if len(facts.scores) > 1 else wanted
    parts = []
    for (_, owner), by_name in list(zip(drawn_targets(facts.predictions), facts.scores))[:3]:
        for score in map(by_name.__getitem__, wanted):
            name = TITLES[score.metric.name]
            parts.append(
                f'<div class="card"><span class="name">{text(f"{owner}: {name}" if owner else name)}</span>'
                f'<span class="value">{text(shown(score, score.value))}</span>'
                f'<span class="note">{text(interval(score))}</span>'
                f'<span class="note">baseline {text(shown(score, score.baseline))}</span></div>'
            )
    return f'<div class="cards">{"".join(parts)}</div>'


def intended_use(facts: Facts) -> Section:
    """Say what may be asked of the model."""
    predictions = facts.predictions
    source = f"rows of {facts.fitted.columns.count} columns" if facts.columns else "rows as its own network takes"
    statements = []
    if isinstance(predictions, ClassPredictions):
        names = listed([label(name) for name in predictions.classes], 10)
        statements.append(
            f"It gives the probabilities of {count(len(predictions.classes), 'class', 'classes')} of "
            f"{label(predictions.target, 60)} ({names}) for {source}. Rows of other classes are put into one of these."
        )
        better = facts.scores[0]["negative_log_probability"]
    else:
        names = listed([label(name, 60) for name in predictions.targets])
        statements.append(f"It gives a distribution of {names} for {source}: mean, deviation, quantiles and samples.")
        better = facts.scores[0]["rmse"]
    if better.high < better.baseline:
        statements.append(
            "On the test rows it is better than a constant prediction beyond chance: it may be used for rows that come "
            "from where the test rows come from."
        )
    else:
        statements.append(
            "On the test rows it is not better than a constant prediction beyond chance: it should not be used for "
            "decisions as it is."
        )
    if facts.fitted.options.has_gps:
        statements.append(
            "Its uncertainty is split into the data's and the model's, so that doubtful rows can be handed to a "
            "person, and more rows collected where they would help."
        )
    else:
        statements.append(
            "It is a plain network: its uncertainty is the data's alone, and sections on Gaussian processes are left "
            "out of this page."
        )
    return Section("use", "Intended use", bullets(statements))
