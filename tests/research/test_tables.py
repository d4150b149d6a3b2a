"""Tables come from the results alone."""

from fractions import Fraction
from pathlib import Path

from refusals import refused

from svdkl_research.datasets import SOURCES
from svdkl_research.pages.paper import TABLES
from svdkl_research.pages.tables import suite_tables
from svdkl_research.rivals import TITLES, make_baseline, make_image_baseline
from svdkl_research.rivals.networks import training_numbers
from svdkl_research.suites.all_suites import get_suite
from svdkl_research.suites.results import Result, write_results
from svdkl_research.suites.suite import Task

PROVENANCE = {
    "commit": "0123456789abcdef",
    "dirty": True,
    "versions": {"torch": "9.9"},
    "machine": {"processor": "Abacus", "threads": 3},
}


def put(
    root: Path,
    suite: str,
    dataset: str,
    model: str,
    run: tuple[int, int],
    share: str = "1",
    findings: dict | None = None,
    settings: dict | None = None,
    **metrics: float | None,
) -> None:
    task = Task(suite, dataset, model, *run, Fraction(share))
    config = {
        "trained_as": model,
        "fold": run[0],
        "seed": run[1],
        "findings": findings or {},
        "settings": settings or {},
    }
    if share != "1":  # results of earlier versions do not say it
        config["share"] = share
    times = {"train_seconds": 90.0, "predict_seconds": 0.25}
    write_results(root, suite, [Result(dataset, model, task.run, {**times, **metrics}, config, PROVENANCE)])


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
    assert lines[2].startswith("Test rows of fold(s) 0, seed(s) 0, 1, 2: mean")
    assert "Not shown" not in text
    assert "## adult" in lines
    assert "## covertype" not in lines
    both, single = "**0.0100** ± 0.0000 | **0.2000** ± 0.0000", "0.0100 | 0.2000 | 0.9000"
    # Means that agree in all printed digits are both the best; a lone value is not compared with anything.
    start = "| SV-DKL | **0.9200** ± 0.0200 | **0.3000** ± 0.0000"
    assert f"{start} | {both} | 0.9000 ± 0.0000 | 2 min | 0.2 s | 3 | - | - |" in lines
    assert f"| LightGBM | 0.8000 ± 0.0000 | **0.3000** ± 0.0000 | {both} | - | 2 min | 0.2 s | 3 | - | - |" in lines
    # The paper's figures have columns, and rows also where there is no run of ours.
    assert "| network | - | - | - | - | - | - | - | 0 | 0.852 ± 0.001 | 0.316 ± 0.003 |" in lines
    assert f"| network | 0.7000 | 0.5000 | {single} | 2 min | 0.2 s | 1 | 0.805 ± 0.005 | 0.495 ± 0.003 |" in lines
    short = "`dnn` (0 of 3), `dnn_temperature` (0 of 3), `dnn_gp` (0 of 3), `svdkl_paper` (0 of 3)"
    assert f"Runs are missing: {short}." in lines
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
    assert "Runs are missing: `dnn_temperature` (0 of 10), `svgp` (0 of 10)." in text
    assert "paper:" not in text


def test_the_papers_figures_stand_beside_ours(tmp_path, edit_runs):
    for model in ("klsp_gp", "dnn", "svdkl_paper", "svdkl"):
        seconds = {"klsp_gp": 600.0, "dnn": 200.0, "svdkl_paper": 300.0, "svdkl": 250.0}[model]
        # By the clock the last one took its time beside other work.
        clock = {"train_seconds": 3 * seconds if model == "svdkl" else seconds}
        cores = {} if model == "svdkl_paper" else {"train_core_seconds": seconds}
        put(tmp_path, "airline", "flights", model, (0, 0), **scores(0.7, 0.5, **clock), **cores)
    text = suite_tables(get_suite("airline"), tmp_path)
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("|")}
    assert rows["model"].endswith("| paper: accuracy | paper: NLP | paper: training, h |")
    assert rows[TITLES["klsp_gp"]].endswith("| ~0.675 | ~0.61 | ~11 |")
    assert rows["network"].endswith("| 0.773 ± 0.001 | 0.474 ± 0.001 | 0.53 |")
    assert rows["SV-DKL as in the paper"].endswith("| 0.781 ± 0.001 | 0.461 ± 0.001 | 3.98 |")
    assert rows["SV-DKL"].endswith("| - | - | - |")
    assert "other rows, other accuracies" in text
    # Of the run that has no core seconds nothing is said.
    assert "Core seconds of training, as a multiple of the network's: SV-DKL 1.25." in text
    for model, seconds in (("dnn", 200.0), ("svdkl_paper", 340.0)):
        numbers = scores(0.7, 0.5, train_core_seconds=seconds)
        put(tmp_path, "airline", "flights", model, (0, 1), **numbers)
    ratios = "SV-DKL as in the paper 1.70 over 1 of 2 runs (in the paper 7.5), SV-DKL 1.25."
    assert ratios in suite_tables(get_suite("airline"), tmp_path)
    path = tmp_path / "airline" / "runs.jsonl"
    edit_runs(path, lambda entry: None if entry["run"] == "fold0-seed1" else entry)
    for other in ({"commit": "another"}, {"machine": {**PROVENANCE["machine"], "processor": "Slide rule"}}):
        origin = {**PROVENANCE, **other}
        edit_runs(path, lambda entry, to=origin: {**entry, "provenance": to} if entry["model"] == "svdkl" else entry)
        assert "Core seconds" not in suite_tables(get_suite("airline"), tmp_path)


def test_pages_say_which_defaults_have_changed_since(tmp_path, edit_runs):
    suite = get_suite("tabular")
    now = training_numbers(make_baseline("svdkl_paper", "classification").options, "classification", 40_000, 0)
    others = {**now, "variational_rate": 0.5, "patience": 99}
    for seed, training in enumerate((now, others, {})):
        findings = {"training": training, "stages": {"network": {"epochs": 3}}}
        put(tmp_path, "tabular", "adult", "svdkl_paper", (0, seed), findings=findings, **scores(0.7, 0.5, n_fit=40_000))
    put(tmp_path, "tabular", "adult", "lightgbm", (0, 0), settings={"rounds": 7}, **scores(0.7, 0.5, n_fit=40_000))
    changed = "`svdkl_paper` (patience, variational_rate; 1 of 3 runs)"
    unknown = "By an earlier version, which does not say with what numbers: `svdkl_paper` (1 of 3 runs)"
    expected = f"Trained with other numbers than the same model would be now: {changed}. {unknown}. To repeat them"
    assert expected in suite_tables(suite, tmp_path)
    path = tmp_path / "tabular" / "runs.jsonl"
    edit_runs(path, lambda entry: entry if entry["run"] == "fold0-seed0" else None)
    assert "numbers" not in suite_tables(suite, tmp_path)
    # What depends on the rows is that of the rows of the run, and on images also of the set's budget.
    edit_runs(path, lambda entry: {**entry, "metrics": {**entry["metrics"], "n_fit": 4_000_000}})
    assert "`svdkl_paper` (batch_size, joint_epochs," in suite_tables(suite, tmp_path)
    cnn = make_image_baseline("cnn", "mnist")
    for seed, epochs in enumerate((8, 9)):  # of the network alone, of 12 in all
        training = training_numbers(cnn.options, "classification", 54_000, 0) | {"pretrain_epochs": epochs}
        told = {"findings": {"training": training, "stages": {}}, "settings": cnn.settings()}
        put(tmp_path, "images", "mnist", "cnn", (0, seed), **told, **scores(0.7, 0.5, n_fit=54_000))
    assert "`cnn` (pretrain_epochs; 1 of 2 runs)." in suite_tables(get_suite("images"), tmp_path)


def test_a_mean_of_fewer_folds_is_not_the_best(tmp_path):
    for fold in range(5):
        put(tmp_path, "uci", "adult", "dnn", (fold, 0), **scores(0.7, 0.5))
        put(tmp_path, "uci", "adult", "svdkl", (fold, 0), **scores(0.8, 0.4))
    put(tmp_path, "uci", "adult", "ensemble", (0, 0), **scores(0.9, 0.3))
    text = suite_tables(get_suite("uci"), tmp_path)
    assert "| SV-DKL | **0.8000** ± 0.0000 | **0.4000** ± 0.0000 |" in text
    assert "| five networks | 0.9000 | 0.3000 |" in text
    assert "SV-DKL against five networks: accuracy no spread known (-0.10000, 1 run)" in text


def test_a_mean_of_other_folds_is_not_the_best(tmp_path):
    for fold in range(5):
        for model, accuracy, folds in (("dnn", 0.7, (0, 1, 2, 3)), ("svdkl", 0.8, (1, 2, 3, 4))):
            if fold in folds:
                put(tmp_path, "uci", "adult", model, (fold, 0), **scores(accuracy, 0.5))
    assert "**" not in suite_tables(get_suite("uci"), tmp_path)


def test_epochs_stand_below_the_table(tmp_path):
    for fold, (network, joint, kept) in enumerate(((7, 4, 3), (8, 5, 0))):
        stages = {"network": {"epochs": network, "kept": network}}
        put(tmp_path, "uci", "adult", "dnn", (fold, 0), findings={"stages": stages}, **scores(0.7, 0.5))
        stages = {**stages, "joint": {"epochs": joint, "kept": kept}}
        put(tmp_path, "uci", "adult", "svdkl", (fold, 0), findings={"stages": stages}, **scores(0.7, 0.5))
    found = {"stages": {"network": {"epochs": 6}}}  # results of earlier versions do not say which was kept
    put(tmp_path, "uci", "adult", "dnn_plus", (0, 0), findings=found, **scores(0.7, 0.5))
    text = suite_tables(get_suite("uci"), tmp_path)
    assert "of the same budget: network 7.5, network, one more layer 6, SV-DKL 12. No epoch" in text
    assert "than its start, which was kept: SV-DKL (1 of 2 runs)." in text


def test_trees_that_had_not_stopped_growing_better_are_named(tmp_path):
    for fold, rounds in enumerate((2950, 100)):
        found, settings = {"chosen": {"rounds": rounds}}, {"rounds": 3000, "patience": 100}
        put(tmp_path, "uci", "adult", "lightgbm", (fold, 0), findings=found, settings=settings, **scores(0.9, 0.3))
    text = suite_tables(get_suite("uci"), tmp_path)
    assert "`lightgbm` had not stopped growing better at its largest number of rounds in 1 of 2 runs." in text


def test_the_papers_models_and_sets_are_ours():
    for table in TABLES:
        assert set(table.figures) <= set(SOURCES)
        for figures in table.figures.values():
            assert set(figures) <= set(TITLES)


def test_images_have_the_papers_rivals_and_a_table_of_strangers(tmp_path):
    for seed, auroc in enumerate((0.9, 0.92)):
        ood = {"ood_auroc": auroc, "ood_fpr95": 0.3}
        put(tmp_path, "images", "mnist", "cnn", (0, seed), **scores(0.99, 0.03, **ood))
        own = {"ood_auroc_epistemic": auroc + 0.05, "ood_fpr95_epistemic": 0.2}
        put(tmp_path, "images", "mnist", "svdkl", (0, seed), **scores(0.99, 0.02, **ood, **own))
    put(tmp_path, "images", "mnist", "mc_gp", (0, 0), **scores(0.96, 0.1))
    put(tmp_path, "images", "cifar10", "cnn", (0, 0), **scores(0.75, 0.7))
    digits, pictures = suite_tables(get_suite("images"), tmp_path).split("## cifar10")
    lines = digits.splitlines()
    assert "| MC-GP | 0.9600 | 0.1000 | 0.0100 | 0.2000 | 0.9000 | 2 min | 0.2 s | 1 | 0.9804 | 0.064 |" in [
        line.replace("**", "") for line in lines
    ]
    start = next(place for place, line in enumerate(lines) if line.startswith("## mnist, against images of"))
    assert lines[start + 2 :][:5] == [
        "| model | score | AUROC | FPR95 | runs |",
        "| --- | --- | --- | --- | --- |",
        "| network | 1 - largest probability | 0.9100 ± 0.0141 | 0.3000 ± 0.0000 | 2 |",
        "| SV-DKL | 1 - largest probability | 0.9100 ± 0.0141 | 0.3000 ± 0.0000 | 2 |",
        "| SV-DKL | epistemic | **0.9600** ± 0.0141 | **0.2000** ± 0.0000 | 2 |",
    ]
    assert "against images" not in pictures
    assert "Not shown images of notmnist: `mc_gp`; to measure that, delete their lines in runs.jsonl and run" in digits
    assert "Not shown images of tiny_imagenet20: `cnn`;" in pictures
    assert "By the suite, not on this set: `klsp_gp`, `mc_gp`, `savi_gp`, `d_gplvm`." in pictures
    assert "`mc_gp` (0 of" not in pictures
    assert "`klsp_gp` (0 of 1)" in digits
    assert "not on this set" not in digits


def test_fewer_folds_and_rows_are_said(tmp_path):
    part = {"rows": 20_000, "of_rows": 418_328}
    put(tmp_path, "uci", "covertype", "svm", (0, 0), findings=part, **scores(0.8, 0.4))
    put(tmp_path, "uci", "adult", "svm", (0, 0), findings={"rows": 9, "of_rows": 9}, **scores(0.8, 0.4))
    adult, covertype = suite_tables(get_suite("uci"), tmp_path).split("## covertype")
    assert "By the suite, fold(s) 0 only: `svm`, `ensemble`." in covertype
    assert "`svm` was fitted to 20,000 of 418,328 rows." in covertype
    assert "`svm` (1 of" not in covertype
    assert "`ensemble` (0 of 1)" in covertype
    assert "was fitted to" not in adult
    assert "`svm` (1 of" not in adult


def test_fewer_seeds_are_said(tmp_path):
    for seed in (0, 1):
        put(tmp_path, "images", "cifar10", "cnn", (0, seed), **scores(0.8, 0.4))
    put(tmp_path, "images", "cifar10", "ensemble", (0, 0), **scores(0.8, 0.4))
    text = suite_tables(get_suite("images"), tmp_path)
    assert "By the suite, seed(s) 0 only: `svdkl_paper`, `ensemble`." in text
    assert "`cnn` (" not in text
    assert "`cnn_plus` (0 of 2)" in text
    assert "seed(s) 0, 1 on mnist_binary, cifar10, tiny_imagenet20 and 0, 1, 2 on mnist: mean" in text
    assert "`ensemble` (" not in text


def test_models_that_time_has_ended_say_how_far_they_came(tmp_path):
    for seed, steps in enumerate((1200, 900, 3000)):
        found = {"steps": steps, "ended_by_time": steps < 3000}
        settings = {"steps": 3000, "seconds": 300.0}
        put(tmp_path, "images", "mnist", "klsp_gp", (0, seed), findings=found, settings=settings, **scores(0.9, 0.3))
    chain = {"warm_up": 30, "moves": 120, "ended_by_time": True}
    settings = {"warm_up": 100, "moves": 300, "start_steps": 1500}
    put(tmp_path, "images", "mnist", "mc_gp", (0, 0), findings=chain, settings=settings, **scores(0.9, 0.3))
    done = {"steps": 300, "ended_by_time": False}
    put(tmp_path, "images", "mnist", "d_gplvm", (0, 0), findings=done, settings={"steps": 300}, **scores(0.9, 0.3))
    text = suite_tables(get_suite("images"), tmp_path)
    assert "Time ended `klsp_gp` after 900 to 1,200 of 3,000 steps in 2 of 3 runs." in text
    assert "Time ended `mc_gp` after 30 of 100 moves to warm up and 120 of 300 moves." in text
    assert "Time ended `d_gplvm`" not in text


def test_parts_of_the_rows_have_a_table_of_their_own(tmp_path):
    for share, rows, accuracy in (("1/50", 60, 0.6), ("1/3", 1000, 0.65), ("1", 3000, 0.7)):
        found = {"stages": {"network": {"epochs": 4}, "joint": {"epochs": 2}}} if share == "1/3" else {}
        numbers = scores(accuracy, 0.5, n_train=rows, train_core_seconds=None if share == "1" else 150.0)
        put(tmp_path, "airline", "flights", "dnn", (0, 0), share, found, **numbers)
    put(tmp_path, "airline", "flights", "lightgbm", (0, 0), **scores(0.9, 0.4, n_train=3000))
    whole, parts = suite_tables(get_suite("airline"), tmp_path, ["a.svg"]).split("## flights, by training rows")
    assert "| network | 0.7000 | 0.5000 | " in whole
    lines = [line for line in parts.splitlines() if line.startswith("| network")]
    assert lines == [
        "| network | 1/50 | 60 | 0.6000 | 0.5000 | - | 2 min | 1 |",
        "| network | 1/3 | 1,000 | 0.6500 | 0.5000 | 6 | 2 min | 1 |",
        "| network | 1 | 3,000 | 0.7000 | 0.5000 | - | - | 1 |",
    ]
    assert "LightGBM" not in parts
    assert "Runs are missing: `dnn` on 1/10, `svdkl` on 1/50, `svdkl` on 1/10, `svdkl` on 1/3, `svdkl` on 1." in parts
    assert "![a by training rows](a.svg)" in parts


def test_a_suite_without_results_is_refused(tmp_path):
    refused(lambda: suite_tables(get_suite("regression"), tmp_path), "regression", "run the suite first")
