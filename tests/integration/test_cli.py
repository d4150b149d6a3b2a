"""The command line as its users call it: from a file to a model, predictions, scores and a report."""

import importlib.metadata
import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import svdkl.estimators.run
from svdkl import SVDKLClassifier, SVDKLRegressor, __version__
from svdkl.cli.app import main
from svdkl.cli.request import OPTIONS, flag
from svdkl.cli.saved_model import open_model
from svdkl.metrics import METRICS, accuracy, rmse

ROOT = Path(__file__).parent.parent.parent
PARSES_NOTED = runpy.run_path(str(ROOT / "tools" / "house" / "walks.py"))["parses_noted"]
SMALL = "--hidden 16 --num-features 4 --grid-size 8 --max-iter 2 --no-evidence --quiet"


def load_model(path):
    """The estimator in a folder."""
    fitted = open_model(Path(path)).fitted
    return (SVDKLRegressor if fitted.classes is None else SVDKLClassifier).of(fitted)


def homes(num_rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"area": rng.gamma(9, 12, num_rows), "district": rng.choice(["north", "south"], num_rows)})
    frame.loc[::9, "area"] = np.nan
    frame["rent"] = 3 * frame["area"].fillna(100) * np.where(frame["district"] == "south", 2, 1)
    frame["dear"] = np.where(frame["rent"] > 400, "dear", "cheap")
    return frame


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with tables and one model of each kind."""
    folder = tmp_path_factory.mktemp("cli")
    homes(300, 0).to_csv(folder / "homes.csv", index=False)
    homes(150, 1).to_parquet(folder / "new.parquet")
    for target, other, out in (("dear", "rent", "classes"), ("rent", "dear", "rents")):
        arguments = f"train {folder}/homes.csv --target {target} --drop {other} --out {folder}/{out} {SMALL}"
        assert main(shlex.split(arguments)) == 0
    return folder


@pytest.fixture
def call(place, monkeypatch, capfd):
    """Run a command in that folder; gives what it printed."""
    monkeypatch.chdir(place)
    capfd.readouterr()

    def call(arguments, code=0):
        got = main(shlex.split(arguments))
        output, errors = capfd.readouterr()
        assert got == code, errors
        return output if code == 0 else errors

    return call


# ----------------------------------------------------------------------------------------------------------- the frame


def test_help_names_every_option(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = call("train --help")
    for name, option in OPTIONS.items():
        default = {"true": "yes", "false": "no"}.get(str(option.default).lower(), str(option.default).lower())
        assert flag(name) in text
        # A line of help is as wide as the terminal, and a table's border ends it.
        words = re.sub(r"[│\s]+", " ", text)
        assert f"{option.metadata['help']} Default: {default}." in words
    assert "The Gaussian processes" in text
    commands = re.findall(r"^\S (\w+) ", call("--help"), re.MULTILINE)
    assert commands == ["demo", "train", "predict", "evaluate", "report", "export", "doctor", "reproduce", "bench"]
    assert call("") == call("--help")


def test_the_module_is_the_installed_command_and_help_waits_for_nothing():
    (installed,) = importlib.metadata.entry_points(group="console_scripts", name="svdkl")
    assert installed.load() is main
    command = [sys.executable, "-X", "importtime", "-m", "svdkl", "train", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Usage: svdkl train" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert not {"torch", "sklearn", "pyarrow", "matplotlib"} & imported


@pytest.mark.parametrize("command", ["", "train", "predict", "evaluate", "report", "export", "demo", "doctor"])
def test_no_help_waits_for_torch(command):
    code = (
        "import sys; from svdkl.cli.app import main; code = main(sys.argv[1:]); "
        "assert not {'torch', 'sklearn', 'pyarrow', 'numpy'} & set(sys.modules); sys.exit(code)"
    )
    command_line = [sys.executable, "-c", code, *command.split(), "--help"]
    done = subprocess.run(command_line, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Usage: svdkl {command}".rstrip() in done.stdout


def test_version(call):
    assert call("--version") == f"svdkl {__version__}\n"


def test_completion(capfd, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    with pytest.raises(SystemExit) as ended:
        main(["--show-completion", "bash"])
    assert ended.value.code == 0
    assert "_SVDKL_COMPLETE=complete_bash" in capfd.readouterr().out


# ------------------------------------------------------------------------------------------------------------ training


def test_a_trained_folder(place):
    facts = json.loads((place / "classes" / "run.json").read_text())
    assert (facts["target"], facts["task"], facts["dropped"]) == ("dear", "classification", ["rent"])
    assert facts["options"] == {"hidden": [16], "num_features": 4, "grid_size": 8, "max_iter": 2, "evidence": False}
    assert facts["columns"] == ["area", "district"]
    model = load_model(place / "classes")
    assert isinstance(model, SVDKLClassifier)
    assert isinstance(load_model(str(place / "rents" / "model")), SVDKLRegressor)
    assert (model.hidden, model.num_features, model.max_iter) == ((16,), 4, 2)


def test_what_train_prints(call, place):
    text = call(f"train homes.csv --target dear --drop rent --out printed {SMALL}")
    assert "270 rows and 2 columns" in text
    assert "svdkl evaluate printed DATA" in text
    facts = json.loads(call(f"train homes.csv --target dear --drop rent --out printed --overwrite --json {SMALL}"))
    written = json.loads((place / "printed" / "run.json").read_text())
    assert {**facts, "sha256": written["sha256"]} == written


def test_options_win_over_a_configuration_file(call, place):
    (place / "run.yaml").write_text(
        "target: dear\ndrop: [rent]\nhidden: [8, 8]\nmax-iter: 2\ngrid_size: 8\nseed: '3'\nclass_weight: {dear: 2}\n"
        "early_stopping: false\nevidence: false\nnum_features: '4'\nnormalise: false\n"
    )
    (place / "run.toml").write_text('target = "dear"\ndrop = ["rent"]\nhidden = "8,8"\nmax_iter = 2\nseed = 3\n')
    call("train homes.csv --config run.yaml --out yaml --max-iter 1 --quiet --normalise")
    model = load_model(place / "yaml")
    assert (model.hidden, model.max_iter, model.grid_size, model.random_state) == ((8, 8), 1, 8, 3)
    assert model.num_features == 4  # text numbers are numbers
    assert (model.class_weight, model.early_stopping, model.normalise) == ({"dear": 2.0}, False, True)
    call("train homes.csv --config run.toml --out toml --seed 4 --quiet --grid-size 8 --no-evidence")
    model = load_model(place / "toml")
    assert (model.hidden, model.max_iter, model.random_state) == ((8, 8), 2, 4)


def test_every_kind_of_option_reaches_the_estimator(call, monkeypatch):
    seen = []

    def run(prepared):
        seen.append(prepared.config)
        raise ValueError("Expected no more, got enough.")

    monkeypatch.setattr(svdkl.estimators.run.Prepared, "run", run)
    call(
        "train homes.csv --target dear --out never --recipe dnn_gp --hidden 4,5 --dropout 0.5 --no-early-stopping "
        "--normalise --class-weight dear=2,cheap=0.5 --alpha auto --batch-size 64 --kernel matern32 --in-memory "
        "--epoch-rows 7 --seed 9",
        code=2,
    )
    (config,) = seen
    assert config.options == {
        "recipe": "dnn_gp", "hidden": [4, 5], "dropout": 0.5, "early_stopping": False, "normalise": True,
        "class_weight": {"dear": 2.0, "cheap": 0.5}, "alpha": "auto", "batch_size": 64, "kernel": "matern32",
    }  # fmt: skip
    assert (config.task, config.stream, config.epoch_rows, config.seed) == ("classification", False, 7, 9)
    assert not Path("never").exists()


def test_several_processes_get_the_same_command_line(call, monkeypatch):
    launched = []
    monkeypatch.setattr("svdkl.cli.train.launch", lambda arguments, count: launched.append((arguments, count)) or 0)
    call("train homes.csv --nproc 2 --target dear --out many --quiet")
    call("--debug train homes.csv --target dear --nproc=3 --out many")
    assert launched == [
        (["train", "homes.csv", "--target", "dear", "--out", "many", "--quiet"], 2),
        (["--debug", "train", "homes.csv", "--target", "dear", "--out", "many"], 3),
    ]


def test_a_dry_run_tells_what_would_be_done_and_writes_nothing(call, place):
    before = sorted(place.rglob("*"))
    text = call(f"train homes.csv --target dear --drop rent --dry-run {SMALL}")
    assert re.search(r"area +number +34 +266 +scaled by quantiles; \d+ bins; a flag for missing values\n", text)
    assert re.search(r"district +category +0 +2 +2 categories; rare and new ones share a code; one-hot\n", text)
    counts = homes(300, 0)["dear"].value_counts()
    assert all(re.search(rf"{label} +{count}\n", text) for label, count in counts.items())
    assert "Rows to fit: 270; held out: 30." in text
    plan = json.loads(
        call(f"train homes.csv --target rent --drop dear --dry-run --json {SMALL} --likelihood student_t")
    )
    assert (plan["task"], plan["rows"], plan["rows_to_fit"], plan["epochs"]) == ("regression", 300, 270, 2)
    parameters = sum(p.numel() for p in load_model("rents").model_.parameters())
    assert plan["parameters"] == pytest.approx(parameters, rel=0.2)  # bins depend on which rows are held out
    assert 0 < plan["seconds"] < 60
    assert plan["memory"] > 300 * 24
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("more", ["", "--task classification", "--dry-run", "--dry-run --task classification"])
@pytest.mark.parametrize("target", ["dear", "floors"])
def test_a_csv_file_is_parsed_twice(call, place, tmp_path, more, target):
    """Once for the types of its columns, which depend on all rows, and once for its rows."""
    homes(300, 0).assign(floors=np.arange(300) % 4).to_csv(place / "floors.csv", index=False)
    with PARSES_NOTED() as parses:
        call(f"train floors.csv --target {target} --drop rent --out {tmp_path}/run {SMALL} {more}")
    assert len(parses) == 2


def test_resume_and_overwrite(call, place, tmp_path):
    out = tmp_path / "run"
    command = f"train homes.csv --target dear --drop rent --out {out} {SMALL}"

    def interrupt(self, epoch):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("svdkl.training.history.Display.show", interrupt)
        errors = call(command.replace("--quiet", ""), code=130)
        assert errors == "Interrupted: no epoch was over, so nothing is kept; the same command starts anew.\n"
        assert not (out / "checkpoint.safetensors").exists()
        patch.setattr(
            "svdkl.training.history.Display.show",
            lambda self, epoch: interrupt(self, epoch) if epoch.epoch == 2 else None,
        )
        longer = command.replace("--quiet", "").replace("--max-iter 2", "--max-iter 4")
        errors = call(longer, code=130)
    assert errors == (
        f"Interrupted: the state after the last epoch is kept in {out}; go on by the same command with --resume.\n"
    )
    assert sorted(file.name for file in out.iterdir()) == ["checkpoint.safetensors", "history.jsonl"]
    assert "--resume" in call(longer, code=2)
    call(f"{longer} --resume")
    assert sorted(file.name for file in out.iterdir()) == ["history.jsonl", "model", "run.json"]
    # The same command without an interruption gives the same model.
    call(longer.replace(str(out), f"{out}-whole"))
    frame = homes(20, 5)
    one, other = (load_model(path).predict_proba(frame[["area", "district"]]) for path in (out, f"{out}-whole"))
    assert np.array_equal(one, other)


# ---------------------------------------------------------------------------------------------------------- prediction


def test_class_predictions(call):
    new = homes(150, 1)
    model = load_model("classes")
    p = model.predict_proba(new[["area", "district"]])
    call("predict classes new.parquet --out p.csv --columns rent,district --uncertainty")
    table = pd.read_csv("p.csv")
    assert table.columns.tolist() == [
        "rent", "district", "label", "p_cheap", "p_dear", "total", "aleatoric", "epistemic", "ood_score",
    ]  # fmt: skip
    assert np.array_equal(table[["p_cheap", "p_dear"]].to_numpy(), p)
    assert table["label"].tolist() == model.predict(new[["area", "district"]]).tolist()
    assert np.allclose(table["rent"], new["rent"])
    assert np.allclose(table["total"], model.predict_uncertainty(new[["area", "district"]]).total)
    assert json.loads(call("predict classes new.parquet --out p.parquet --json"))["rows"] == 150
    assert pq.read_table("p.parquet").column_names == ["label", "p_cheap", "p_dear"]
    lines = call("predict classes new.parquet").splitlines()
    assert len(lines) == 151
    assert lines[0] == '"label","p_cheap","p_dear"'


def test_predictions_of_numbers(call):
    new = homes(150, 1)
    call("predict rents new.parquet --out q.csv --quantiles 0.05,0.95")
    table = pd.read_csv("q.csv")
    mean, std = load_model("rents").predict(new[["area", "district"]], return_std=True)
    assert table.columns.tolist() == ["mean", "std", "q0.05", "q0.95"]
    assert np.array_equal(table["mean"], mean)
    assert np.array_equal(table["std"], std)
    assert (table["q0.05"] < table["mean"]).all()


def test_predictions_do_not_depend_on_the_parts_in_which_a_file_is_read(call, monkeypatch):
    whole = call("predict classes new.parquet --uncertainty")
    batches = svdkl.tables.table_files.ParquetFiles.batches
    monkeypatch.setattr(
        svdkl.tables.table_files.ParquetFiles, "batches", lambda self, columns: batches(self, columns, rows=37)
    )
    assert call("predict classes new.parquet --uncertainty") == whole


def test_columns_that_the_model_does_not_know(call, capfd):
    homes(10, 2).assign(extra=1, more="x").to_csv("extra.csv", index=False)
    assert "'extra', 'more' in extra.csv" in call("predict classes extra.csv", code=2)
    assert len(call("predict classes extra.csv --drop extra --drop more").splitlines()) == 11
    assert len(call("predict classes extra.csv --drop extra --columns more").splitlines()) == 11
    assert main(["predict", "classes", "extra.csv", "--ignore-extra"]) == 0
    assert capfd.readouterr().err == "Ignored columns that the model does not know: 'extra', 'more'.\n"


# ---------------------------------------------------------------------------------------------------------- evaluation


def test_scores_of_classes(call):
    new = homes(150, 1)
    model = load_model("classes")
    p, y = model.predict_proba(new[["area", "district"]]), (new["dear"] == "dear").to_numpy().astype(int)
    document = json.loads(call("evaluate classes new.parquet --by district --json"))
    assert set(document["metrics"]) == {name for name, metric in METRICS.items() if metric.kind == "classification"}
    assert document["metrics"]["accuracy"] == {
        "value": accuracy(p, y),
        "unit": "share",
        "direction": "higher is better",
    }
    south = (new["district"] == "south").to_numpy()
    assert document["slices"]["south"]["accuracy"] == accuracy(p[south], y[south])
    assert document["slices"]["south"]["rows"] == south.sum()
    text = call("evaluate classes new.parquet --by district")
    assert re.search(rf"accuracy +{accuracy(p, y):.4f}  share +higher is better", text)
    assert re.search(rf"south +{south.sum()} +{accuracy(p[south], y[south]):.4f}", text)


def test_scores_of_numbers(call):
    new = homes(150, 1)
    mean = load_model("rents").predict(new[["area", "district"]])
    document = json.loads(call("evaluate rents/model new.parquet --json"))
    assert document["metrics"]["rmse"]["value"] == pytest.approx(rmse(mean, new["rent"]))
    assert document["metrics"]["interval_coverage"]["direction"] == "best at 0.95"


def test_rows_without_a_target_are_left_out_of_the_scores(call, capfd):
    new = homes(60, 3)
    new.to_csv("whole.csv", index=False)
    new.loc[5:8, "dear"] = None
    new.to_csv("gaps.csv", index=False)
    new.drop(index=range(5, 9)).to_csv("less.csv", index=False)
    less = call("evaluate classes less.csv")
    assert main(["evaluate", "classes", "gaps.csv"]) == 0
    output, errors = capfd.readouterr()
    assert (output, errors) == (less, "Warning: Left out 4 row(s) without a value of 'dear'.\n")


# ------------------------------------------------------------------------------------------------------------- signals


def test_control_c_from_a_terminal(place, tmp_path):
    command = (
        f"{sys.executable} -m svdkl train homes.csv --target dear --drop rent --out {tmp_path}/run --max-iter 9999"
    )
    process = subprocess.Popen(
        [*shlex.split(command), "--hidden", "8", "--n-iter-no-change", "9999"],
        cwd=place,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    lines = [process.stderr.readline() for _ in range(3)]
    assert lines[-1].startswith("network 3"), lines
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert rest.splitlines()[-1].endswith("go on by the same command with --resume.")
    assert "Traceback" not in rest


def test_a_report_shows_the_classes_that_are_asked_for(call, place):
    call("report classes new.parquet --drop rent --class dear --class cheap --out both.html")
    call("report classes new.parquet --drop rent --class cheap --out one.html")
    both, one = ((place / name).read_text() for name in ("both.html", "one.html"))
    assert "which moves dear most" in both
    assert "which moves cheap most" in both
    assert "which moves cheap most" in one
    assert "which moves dear most" not in one
    refusal = call("report classes new.parquet --drop rent --class never --out none.html", code=2)
    assert "'never'" in refusal
    assert "Traceback" not in refusal
    assert not (place / "none.html").exists()


def test_shell_blocks_of_the_document(tmp_path, monkeypatch):
    """Every command of docs/command-line.md runs as it stands there, one after the other in one folder."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "command-line.md").read_text()
    for language, block in re.findall(r"```(py|sh|yaml)\n(.*?)```", text, re.DOTALL):
        if language == "py":
            exec(compile(block, "command-line.md", "exec"), {})
        elif language == "yaml":
            name, _, content = block.partition("\n")
            Path(name.removeprefix("# ")).write_text(content)
        else:
            for line in block.replace("\\\n", " ").splitlines():
                program, *arguments = shlex.split(line, comments=True)
                assert program == "svdkl"
                assert main(arguments) == 0, line
    assert len(pd.read_csv("predictions.csv")) == 200
    assert "dear" in Path("report.html").read_text()
