"""Tables come from folders of results alone."""

from pathlib import Path

from refusals import refused

from svdkl.experiments.commands import main
from svdkl.experiments.results import folder_of, write_result
from svdkl.experiments.suites import Task, get_suite
from svdkl.experiments.tables import suite_tables

PROVENANCE = {
    "commit": "0123456789abcdef",
    "dirty": True,
    "versions": {"torch": "9.9"},
    "machine": {"processor": "Abacus", "threads": 3},
}


def put(root: Path, suite: str, dataset: str, model: str, run: tuple[int, int], **metrics: float | None) -> None:
    task = Task(suite, dataset, model, *run)
    config = {"trained_as": model, "fold": run[0], "seed": run[1]}
    times = {"train_seconds": 90.0, "predict_seconds": 0.25}
    documents = {"metrics": {**times, **metrics}, "config": config, "provenance": PROVENANCE}
    write_result(folder_of(root, task, model), documents)


def scores(accuracy: float, nlp: float, **others: float | None) -> dict[str, float | None]:
    return {"accuracy": accuracy, "nlp": nlp, "ece": 0.01, "brier": 0.2, "auroc": 0.9, **others}


def test_means_deviations_and_the_best(tmp_path):
    for seed, (first, second) in enumerate([(0.90, 0.80), (0.92, 0.80), (0.94, 0.80)]):
        put(tmp_path, "tabular", "adult", "svdkl", (0, seed), **scores(first, 0.3))
        put(tmp_path, "tabular", "adult", "lightgbm", (0, seed), **scores(second, 0.29999, auroc=None))
    put(tmp_path, "tabular", "connect4", "dnn", (0, 0), **scores(0.7, 0.5))
    text = suite_tables(get_suite("tabular"), tmp_path)
    lines = text.splitlines()
    assert lines[0] == "# Classes from tables"
    assert "## adult" in lines
    assert "## covertype" not in lines
    both, single = "**0.0100** ± 0.0000 | **0.2000** ± 0.0000", "0.0100 | 0.2000 | 0.9000"
    # Means that agree in all printed digits are both the best; a lone value is not compared with anything.
    start = "| SV-DKL | **0.9200** ± 0.0200 | **0.3000** ± 0.0000"
    assert f"{start} | {both} | 0.9000 ± 0.0000 | 2 min | 0.2 s | 3 |" in lines
    assert f"| LightGBM | 0.8000 ± 0.0000 | **0.3000** ± 0.0000 | {both} | - | 2 min | 0.2 s | 3 |" in lines
    assert f"| network | 0.7000 | 0.5000 | {single} | 2 min | 0.2 s | 1 |" in lines
    short = "`dnn`, `dnn_temperature`, `dnn_gp`, `svdkl_paper`, `svdkl`, `lightgbm`"
    assert f"Fewer than the suite's 3 runs: {short}." in lines
    assert lines[-1] == "7 result(s): commit 0123456789 with changes, torch 9.9, Abacus, 3 thread(s)."


def test_coverage_is_best_near_its_probability(tmp_path):
    for model, coverage in (("dnn", 0.99), ("svdkl", 0.94), ("lightgbm", 0.90)):
        for fold in range(10):
            put(
                tmp_path,
                "regression",
                "yacht",
                model,
                (fold, 0),
                rmse=1.0 + fold,
                nlpd=-1.0,
                crps=0.5,
                coverage95=coverage,
            )
    text = suite_tables(get_suite("regression"), tmp_path)
    assert "**0.940** ± 0.000" in text
    assert "**0.990**" not in text
    assert "5.5000** ± 3.0277" in text
    assert "Fewer than the suite's 10 runs: `svgp`." in text


def test_the_command_prints_or_writes(tmp_path, capsys):
    put(tmp_path, "tabular", "adult", "svdkl", (0, 0), **scores(0.9, 0.3))
    assert main(["table", "tabular", "--results", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    target = tmp_path / "new" / "tables.md"
    assert main(["table", "tabular", "--results", str(tmp_path), "--output", str(target)]) == 0
    assert target.read_text() == printed
    refused(lambda: suite_tables(get_suite("regression"), tmp_path), "regression", "run the suite first")
