"""What may stand in the folder of a run when another starts."""

import pytest
from refusals import refused

from svdkl.estimators.run_folder import (
    CHECKPOINT,
    FACTS,
    MODEL,
    check_out,
    forget_run,
    is_finished,
    read_facts,
    sweep,
    write_facts,
)


@pytest.fixture
def finished(tmp_path):
    out = tmp_path / "run"
    (out / MODEL).mkdir(parents=True)
    (out / FACTS).write_text("{}")
    return out


def test_a_finished_run(finished):
    assert is_finished(finished)
    refused(lambda: check_out(finished, False, False), "finished", "--overwrite")
    check_out(finished, True, False)
    check_out(finished, False, True)
    refused(lambda: check_out(finished, True, True), "both")


def test_an_unfinished_run(finished):
    (finished / CHECKPOINT).touch()
    assert not is_finished(finished)
    refused(lambda: check_out(finished, False, False), "unfinished", "--resume", "--overwrite")
    check_out(finished, True, False)
    forget_run(finished)
    assert sorted(file.name for file in finished.iterdir()) == [MODEL]


def test_every_flipped_bit_of_the_facts_is_noticed(finished):
    facts = {"target": "dear", "task": "classification", "rows": 20, "seconds": 1e-05, "path": finished}
    write_facts(finished, facts)
    assert read_facts(finished) == {**facts, "path": str(finished)}
    whole = (finished / FACTS).read_bytes()
    for place in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        (finished / FACTS).write_bytes(damaged)
        refused(lambda: read_facts(finished), "damaged", "delete it to go without")
    for text in ("[" * 100_000, "[]", '{"target": "dear"}'):
        (finished / FACTS).write_text(text)
        refused(lambda: read_facts(finished), "damaged")


def test_started_once_more_by_torchrun(finished, monkeypatch):
    """With the options of the first start: the run goes on all the same."""
    (finished / CHECKPOINT).touch()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    check_out(finished, False, False)


def test_what_a_killed_save_leaves_is_no_obstacle(finished):
    (finished / CHECKPOINT).touch()
    (finished / ".model.abc" / "new").mkdir(parents=True)
    (finished / f"{CHECKPOINT}.part").touch()
    check_out(finished, True, False)
    sweep(finished)
    assert not (finished / ".model.abc").exists()
    assert (finished / MODEL).exists()


def test_other_peoples_folders(tmp_path):
    (tmp_path / "thesis.tex").touch()
    refused(lambda: check_out(tmp_path, True, False), "thesis.tex")
    refused(lambda: check_out(tmp_path / "thesis.tex", False, False), "can be written", error=OSError)
    check_out(tmp_path / "new" / "er", False, False)
