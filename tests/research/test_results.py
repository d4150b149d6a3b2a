"""Results of a suite lie in one file, whole at any moment, whoever writes and whatever ends the writing."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from refusals import refused

from svdkl_research.suites.all_suites import get_suite
from svdkl_research.suites.results import (
    Result,
    copy_results,
    finished_keys,
    is_finished,
    read_fit,
    read_results,
    runs_file,
    write_results,
)
from svdkl_research.suites.suite import Task

SMOKE = get_suite("smoke")
FIT = ("dnn", "dnn_temperature", "dnn_gp")


def result(model: str, fold: int = 0, **metrics: object) -> Result:
    return Result("tumours", model, f"fold{fold}-seed0", metrics, {"trained_as": "dnn"}, {"commit": None})


def fit(origin: str) -> list[Result]:
    return [result(model, origin=origin) for model in FIT]


def origins(root: Path) -> list[str]:
    return [found.metrics["origin"] for found in read_results(root, SMOKE)]


def test_what_is_written_is_what_is_read(tmp_path):
    numbers = {"nlp": 0.1 + 0.2, "tiny": 5e-324, "large": 1.7976931348623157e308, "count": 2**60, "none": None}
    written = result("svdkl", **numbers, text="±", parts=[1, 2.5, {"a": True}])
    write_results(tmp_path, "smoke", [written])
    (read,) = read_results(tmp_path, SMOKE)
    assert read == written
    assert json.dumps(read.metrics) == json.dumps(written.metrics)  # also in order
    assert read.share == 1
    part = Result("tumours", "svdkl", "fold0-seed0-share1of5", {}, {"share": "1/5"}, {})
    write_results(tmp_path, "smoke", [part])
    assert [found.share for found in read_results(tmp_path, SMOKE)] == [1, Fraction(1, 5)]


def test_values_that_json_does_not_have(tmp_path):
    write_results(
        tmp_path, "smoke", [result("dnn", nan=float("nan"), inf=float("inf"), pair=(1, 2), share=Fraction(1, 3))]
    )
    (read,) = read_results(tmp_path, SMOKE)
    assert read.metrics == {"nan": None, "inf": None, "pair": [1, 2], "share": "Fraction(1, 3)"}


def test_lines_are_in_order_however_they_came(tmp_path):
    new = [result(model, fold) for model in (*FIT, "svdkl") for fold in (1, 0)]
    random.Random(0).shuffle(new)
    for each in new:
        write_results(tmp_path, "smoke", [each])
    lines = runs_file(tmp_path, "smoke").read_text().splitlines()
    assert len(lines) == len(new)
    keys = [tuple(json.loads(line)[name] for name in ("dataset", "model", "run")) for line in lines]
    assert keys == sorted(keys)
    # Tables have the order of the suite instead.
    assert [found.model for found in read_results(tmp_path, SMOKE)] == [m for m in (*FIT, "svdkl") for _ in range(2)]


def test_a_finished_fit_stays_and_an_unfinished_one_is_replaced_as_a_whole(tmp_path):
    task = Task("smoke", "tumours", "dnn", 0, 0)
    write_results(tmp_path, "smoke", fit("old")[:2])
    assert not is_finished(tmp_path, task, FIT)
    write_results(tmp_path, "smoke", fit("new"))
    assert origins(tmp_path) == ["new"] * 3
    assert is_finished(tmp_path, task, FIT)
    write_results(tmp_path, "smoke", fit("newer"))
    assert origins(tmp_path) == ["new"] * 3
    assert [found.model for found in read_fit(tmp_path, task, FIT)] == list(FIT)
    copy_results(tmp_path, task, Task("other", "tumours", "dnn", 0, 0), FIT)
    assert runs_file(tmp_path, "other").read_bytes() == runs_file(tmp_path, "smoke").read_bytes()


def test_the_last_line_of_a_run_counts(tmp_path):
    write_results(tmp_path, "smoke", [result("dnn", origin="old")])
    path = runs_file(tmp_path, "smoke")
    path.write_text(path.read_text() + path.read_text().replace('"old"', '"new"'))
    assert origins(tmp_path) == ["new"]


@pytest.mark.parametrize("failing", ["os.fsync", "pathlib.Path.write_text", "pathlib.Path.replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_ends_early_leaves_what_was_there(tmp_path, monkeypatch, failing, error):
    write_results(tmp_path, "smoke", [result("svdkl", origin="old"), *fit("old")[:2]])

    def ends(*arguments: object, **options: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(failing, ends)
        with pytest.raises(type(error)):
            write_results(tmp_path, "smoke", fit("new"))
    assert origins(tmp_path) == ["old"] * 3
    write_results(tmp_path, "smoke", fit("new"))
    assert origins(tmp_path) == ["new", "new", "new", "old"]
    assert sorted(path.name for path in (tmp_path / "smoke").iterdir()) == [".runs.lock", "runs.jsonl"]


def test_what_a_killed_worker_has_left_does_not_count_and_goes(tmp_path):
    folder = tmp_path / "smoke"
    folder.mkdir()
    remains = folder / ".runs.jsonl.a1b2.jsonl"
    remains.write_text("{")
    assert list(read_results(tmp_path, SMOKE)) == []
    write_results(tmp_path, "smoke", [result("dnn")])
    assert not remains.exists()


def test_a_line_that_was_cut_off_is_said_and_repaired(tmp_path):
    write_results(tmp_path, "smoke", fit("old"))
    path = runs_file(tmp_path, "smoke")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.warns(
        UserWarning, match=r"^The last line of .*runs\.jsonl was cut off: its run counts as not finished\.$"
    ):
        assert len(finished_keys(tmp_path, "smoke")) == 2
    with pytest.warns(UserWarning, match="was cut off"):
        write_results(tmp_path, "smoke", fit("new"))
    assert origins(tmp_path) == ["new"] * 3  # and nothing is said of a cut
    # A last line that is whole counts without its line break.
    path.write_text(path.read_text().rstrip("\n"))
    assert origins(tmp_path) == ["new"] * 3


def test_lines_that_cannot_be_read_are_refused_or_skipped_and_kept(tmp_path):
    write_results(tmp_path, "smoke", [result("dnn", origin="old")])
    path = runs_file(tmp_path, "smoke")
    path.write_text("<<<<<<< ours\n" + path.read_text())
    refused(lambda: list(read_results(tmp_path, SMOKE)), f"line 1 of {path}", "delete that line")
    assert len(list(read_results(tmp_path, SMOKE, damaged="skipped"))) == 1
    write_results(tmp_path, "smoke", [result("svdkl", origin="new")])
    assert "<<<<<<< ours" in path.read_text().splitlines()
    assert len(list(read_results(tmp_path, SMOKE, damaged="skipped"))) == 2


def test_results_of_models_that_the_suite_does_not_have_are_passed_over_and_kept(tmp_path):
    write_results(tmp_path, "smoke", [result("forest")])
    write_results(tmp_path, "smoke", [result("dnn")])
    assert [found.model for found in read_results(tmp_path, SMOKE)] == ["dnn"]
    assert len(runs_file(tmp_path, "smoke").read_text().splitlines()) == 2


def test_several_workers_may_finish_at_once(tmp_path):
    """Locks belong to open files, so threads exclude each other as workers do."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda fold: write_results(tmp_path, "smoke", [result("dnn", fold)]), range(40)))
    assert len(finished_keys(tmp_path, "smoke")) == 40
    assert len(runs_file(tmp_path, "smoke").read_text().splitlines()) == 40
