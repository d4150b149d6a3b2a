"""Every refusal of the command line: one sentence on standard error, exit code 2, nothing written, no traceback."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import svdkl.cli.train
from svdkl.cli.app import main

SMALL = "--hidden 8 --num-features 4 --grid-size 8 --max-iter 1 --no-evidence --quiet"
TRAIN = f"train homes.csv --target dear --out out {SMALL}"
ROWS = 120


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"area": rng.gamma(9, 12, ROWS), "floors": rng.integers(1, 5, ROWS)})
    frame["dear"] = np.where(frame["area"] > 100, "yes", "no")
    frame.to_csv(folder / "homes.csv", index=False)
    assert main(shlex.split(f"train {folder}/homes.csv --target dear --out {folder}/model {SMALL}")) == 0
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    place = shutil.copytree(prepared, tmp_path / "here")
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def refuse(folder, capfd):
    """Run a command that has to be refused with these words."""

    def refuse(command, *parts):
        before = contents(folder)
        capfd.readouterr()
        code = main(shlex.split(command))
        output, errors = capfd.readouterr()
        assert code == 2, errors
        assert output == ""
        lines = errors.splitlines()
        assert len(lines) == 1, errors
        assert lines[0].startswith("Expected ")
        assert lines[0].endswith(".")
        for part in parts:
            assert part in lines[0]
        assert contents(folder) == before

    return refuse


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def rewrite(change, name="homes.csv"):
    frame = pd.read_csv("homes.csv")
    frame = change(frame)
    frame.to_csv(name, index=False) if name.endswith("csv") else frame.to_parquet(name)


# ------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    "command", [TRAIN, "predict model homes.csv", "evaluate model homes.csv", "report model homes.csv"]
)
def test_tables_that_cannot_be_read(command, refuse):
    table = Path("homes.csv")
    text = table.read_bytes()
    for content, part in (
        (b"", "empty"),
        (b"area,floors,dear\n", "rows below"),
        (text + b"1,2,yes,4\n", f"got 4 in line {ROWS + 2}"),
        (text + b"1,2,caf\xe9\n", f"0xE9 in line {ROWS + 2}"),
        (text.replace(b"floors", b"area", 1), "'area' more than once"),
    ):
        table.write_bytes(content)
        refuse(command, "homes.csv", part)
    table.unlink()
    refuse(command, "homes.csv", "no such file")
    Path("homes.parquet").write_bytes(b"")
    refuse(command.replace("homes.csv", "homes.parquet"), "homes.parquet", "empty")


def test_a_missing_file_in_a_process_of_its_own(folder):
    done = subprocess.run(
        [sys.executable, "-m", "svdkl", *shlex.split("train no.parquet --target dear --out out")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Expected a table in no.parquet, found no such file: check the path.\n"
    assert not Path("out").exists()


def test_targets(refuse):
    refuse(TRAIN.replace("dear", "Deer"), "'Deer'", "nearest name is 'dear'")
    refuse(TRAIN.replace("--target dear", ""), "--target")
    refuse(TRAIN + " --drop dear", "'dear'")
    refuse(TRAIN + " --drop area --drop floors", "'dear'")
    refuse(TRAIN + " --drop flors", "'flors'", "'floors'")
    refuse(TRAIN + " --task regression", "numbers", "'dear'")
    refuse(TRAIN.replace("dear", "area") + " --task classification", "classes", "'area'", "--task regression")
    rewrite(lambda frame: frame.assign(dear="no"))
    refuse(TRAIN, "at least 2 classes", "'no'")
    refuse(TRAIN + " --dry-run", "at least 2 classes")
    rewrite(lambda frame: frame.assign(dear=["yes", None] * (ROWS // 2)))
    refuse(TRAIN, "missing values of 'dear'")
    refuse(TRAIN + " --dry-run", "missing values of 'dear'")


def test_infinite_and_missing_numbers_in_the_target(refuse, folder, capfd):
    rewrite(lambda frame: frame.assign(dear=[1.5, np.inf] * (ROWS // 2)))
    refuse(TRAIN, "finite numbers", "'dear'")
    assert main(shlex.split(f"train homes.csv --target area --out sizes --task regression --drop dear {SMALL}")) == 0
    rewrite(lambda frame: frame.assign(area=frame["area"].where(frame.index > 4)), "some.parquet")
    capfd.readouterr()
    assert main(shlex.split("evaluate sizes some.parquet")) == 0
    assert "Left out 5 row(s) without a value of 'area'" in capfd.readouterr().err


def test_more_memory_than_there_is(refuse):
    """The model's own sentence says what would fit."""
    refuse(TRAIN + " --grid-size 200000 --posterior cholesky", "use grid_size=")


def test_empty_columns(refuse, folder, capfd):
    rewrite(lambda frame: frame.assign(area=None), "one.csv")
    rewrite(lambda frame: frame.assign(area=None, floors=None), "all.csv")
    refuse(TRAIN.replace("homes.csv", "all.csv"), "constant or empty")
    assert main(shlex.split(TRAIN.replace("homes.csv", "one.csv"))) == 0
    assert capfd.readouterr().err == "Warning: left out columns that tell nothing: 'area (empty)'.\n"


# ---------------------------------------------------------------------------------------------------------- predictions


@pytest.mark.parametrize(
    "command", ["predict model new.csv --out p.csv", "evaluate model new.csv", "report model new.csv"]
)
def test_other_columns_than_the_models(command, refuse):
    rewrite(lambda frame: frame.assign(colour="red"), "new.csv")
    refuse(command, "'colour'", "--drop", "--ignore-extra")
    rewrite(lambda frame: frame.drop(columns="floors"), "new.csv")
    refuse(command, "without 'floors'")
    rewrite(lambda frame: frame.assign(area=["12", *["large"] * (ROWS - 1)]), "new.csv")
    refuse(command, "numbers in column 'area'", "text")
    rewrite(lambda frame: frame.assign(area=np.inf), "new.parquet")
    refuse(command.replace("csv", "parquet", 1), "finite numbers in column 'area'")


def test_what_predict_is_asked_for(refuse):
    refuse("predict model homes.csv --out p.xlsx", ".csv or .parquet")
    refuse("predict model homes.csv --out no/p.csv", "no/p.csv")
    refuse("predict model homes.csv --out homes.csv", "another file")
    refuse("predict model homes.csv --columns aera", "'aera'", "'area'")
    refuse("predict model homes.csv --quantiles 0.1", "regression")
    refuse("predict model homes.csv --quantiles 2", "between 0 and 1")
    refuse("predict model homes.csv --json", "--out")
    rewrite(lambda frame: frame.assign(label=1), "new.csv")
    refuse("predict model new.csv --columns label --out p.csv", "'label'")


def test_what_evaluate_is_asked_for(refuse):
    refuse("evaluate model homes.csv --by color", "'color'")
    refuse("evaluate model homes.csv --by area", "100 values")
    refuse("evaluate model homes.csv --target floors", "classes no, yes", "leave those rows out")
    rewrite(lambda frame: frame.assign(dear=None), "new.csv")
    refuse("evaluate model new.csv", "rows with a value of 'dear'")
    rewrite(lambda frame: frame.drop(columns="dear"), "new.csv")
    refuse("evaluate model new.csv", "'dear'")
    Path("model/run.json").write_text("{")
    refuse("evaluate model homes.csv", "run.json", "damaged")
    Path("model/run.json").unlink()
    refuse("evaluate model homes.csv", "--target")


# --------------------------------------------------------------------------------------------------------------- models


@pytest.mark.parametrize("command", ["predict {} homes.csv", "evaluate {} homes.csv", "report {} homes.csv"])
def test_models_that_cannot_be_loaded(command, refuse):
    refuse(command.format("nowhere"), "nowhere")
    Path("other").mkdir()
    refuse(command.format("other"), "other")
    description, tensors = Path("model/model/model.json"), Path("model/model/model.safetensors")
    content = json.loads(description.read_text())
    for change, part in (
        ({"version": 99}, "version 99: update svdkl"),
        ({"format": "something"}, "another program"),
        ({"content": {**content["content"], "num_features": 5}}, "damaged or changed"),
    ):
        description.write_text(json.dumps({**content, **change}))
        refuse(command.format("model"), part)
    description.write_text(json.dumps(content))
    data = tensors.read_bytes()
    tensors.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refuse(command.format("model/model"), "model.safetensors", "damaged or changed")
    tensors.unlink()
    refuse(command.format("model"), "cannot be read")


def test_a_model_with_the_tensors_of_another(refuse, capfd):
    assert main(shlex.split(TRAIN.replace("--out out", "--out second --seed 5"))) == 0
    shutil.copy("second/model/model.safetensors", "model/model/model.safetensors")
    refuse("predict model homes.csv", "model.safetensors", "damaged or changed")


def test_an_unfinished_run_is_no_model(refuse):
    Path("half").mkdir()
    Path("half/checkpoint.safetensors").write_bytes(b"x")
    refuse("predict half homes.csv", "unfinished", "--resume")


# ------------------------------------------------------------------------------------------------------ where to write


def test_places_to_write(refuse, folder):
    refuse(TRAIN.replace("--out out", ""), "--out DIR")
    refuse(TRAIN.replace("--out out", "--out homes.csv"), "homes.csv")
    refuse(TRAIN.replace("--out out", "--out homes.csv/out"), "homes.csv/out")
    refuse(TRAIN.replace("--out out", "--out model"), "finished", "--overwrite")
    refuse(TRAIN + " --resume --overwrite", "both")
    Path("half").mkdir()
    Path("half/checkpoint.safetensors").write_bytes(b"x")
    refuse(TRAIN.replace("--out out", "--out half"), "--resume", "--overwrite")
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("x")
    refuse(TRAIN.replace("--out out", "--out mine"), "thesis.txt")
    refuse("report model homes.csv --out no/page.html", "no/page.html")
    refuse("report model homes.csv --out page.pdf", ".html")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_without_permission(refuse, folder):
    Path("locked").mkdir(mode=0o500)
    refuse(TRAIN.replace("--out out", "--out locked/out"), "locked/out")
    refuse("predict model homes.csv --out locked/p.csv", "locked/p.csv")


def test_a_disk_that_cannot_be_written_to(refuse, folder, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode, **more: not mode & os.W_OK)
    refuse(TRAIN, "can be written to")
    refuse("predict model homes.csv --out p.csv", "can be written to")


def test_an_error_in_the_middle_leaves_no_file(refuse, monkeypatch):
    def fail(*arguments):
        yield from ()
        raise ValueError("Expected more, got less.")

    monkeypatch.setattr("svdkl.cli.scoring.tables_of_predictions", fail)
    refuse("predict model homes.csv --out p.parquet", "more")


# -------------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("--hidden 8,x", ("--hidden", "'8,x'")),
        ("--hidden 0", ("--hidden",)),
        ("--recipe best", ("--recipe", "svdkl")),
        ("--kernel soft", ("kernel", "'soft'")),
        ("--max-iter many", ("--max-iter", "'many'")),
        ("--dropout 2", ("dropout", "2")),
        ("--alpha nan", ("--alpha", "'nan'")),
        ("--grid-size 2", ("grid",)),
        ("--dims-per-gp 3", ("dims_per_gp",)),
        ("--device abacus", ("device", "'abacus'")),
        ("--seed -1", ("--seed",)),
        ("--epoch-rows 0", ("--epoch-rows",)),
        ("--nproc 0", ("--nproc",)),
        ("--task clustering", ("--task",)),
        ("--likelihood poisson --task classification", ("likelihood", "regression")),
        ("--likelihood poisson", ("numbers", "'dear'")),
        ("--class-weight heavy", ("--class-weight", "'heavy'")),
        ("--class-weight maybe=2", ("'maybe'",)),
        ("--class-weight balanced --likelihood gaussian", ("likelihood",)),
        ("--stream", ("Parquet",)),
        ("--no-such-thing", ("no such option", "svdkl train --help")),
        ("--max-iter", ("requires an argument", "svdkl train --help")),
        ("--seed x", ("--seed", "svdkl train --help")),
        ("more", ("more", "svdkl train --help")),
    ],
)
def test_options(options, parts, refuse):
    refuse(f"{TRAIN} {options}", *parts)


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("a.yaml", "max_itre: 3\n", ("'max_itre'", "nearest name is 'max_iter'")),
        ("a.yaml", "max_iter: [1\n", ("broken in line 2",)),
        ("a.yaml", "max_iter: soon\n", ("max_iter in a.yaml", "'soon'")),
        ("a.yaml", "evidence: 'no'\n", ("evidence in a.yaml", "true or false")),
        ("a.yaml", "- max_iter\n", ("list",)),
        ("a.yaml", "drop: 3\n", ("drop in a.yaml",)),
        ("a.toml", "max_iter = \n", ("TOML", "line 1")),
        ("a.toml", "[network]\nhidden = 3\n", ("'network'",)),
        ("a.json", "{}", (".yaml",)),
        ("a.yaml", None, ("a.yaml", "No such file")),
        ("a.yaml", b"\xff", ("UTF-8",)),
    ],
)
def test_configuration_files(name, text, parts, refuse):
    if text is not None:
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    refuse(f"{TRAIN} --config {name}", *parts)


def test_arguments(refuse):
    refuse("trane homes.csv", "no such command 'trane'", "svdkl --help")
    refuse("predict model", "missing argument 'DATA'", "svdkl predict --help")
    refuse("--verbose train", "no such option", "svdkl --help")


# --------------------------------------------------------------------------------------------------------------- faults


def test_a_fault_of_ours_is_one_sentence_too_and_debug_shows_it(folder, monkeypatch, capfd):
    def fail(*arguments):
        raise KeyError("oops")

    monkeypatch.setattr(svdkl.cli.train, "_run", fail)
    assert main(shlex.split(TRAIN)) == 1
    output, errors = capfd.readouterr()
    assert output == ""
    assert len(errors.splitlines()) == 1
    assert "KeyError ('oops')" in errors
    assert "--debug" in errors
    with pytest.raises(KeyError):
        main(["--debug", *shlex.split(TRAIN)])
