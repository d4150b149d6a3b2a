"""Timings, and the workers in which they are taken."""

import json
import math
import subprocess
import time
from dataclasses import replace

import pytest
import torch

from svdkl_research.bench import child, runner
from svdkl_research.bench.runner import Conditions, Record, run_in_worker, run_tasks
from svdkl_research.bench.setting import Setting
from svdkl_research.bench.studies import STUDIES, Limit, Task, choose
from svdkl_research.bench.summaries import curves, document, missed_limits, rows
from svdkl_research.bench.systems import SYSTEMS
from svdkl_research.bench.timing import interleaved, ratios, slope

TINY = Setting(rows=40, gps=2, dims=1, axis=8)
CONDITIONS = Conditions(threads=1, seconds=100.0, memory=10**10)


# --------------------------------------------------------------------------------------------------------------- timing


def test_steps_take_turns_and_warm_up_does_not_count():
    calls = []
    seconds = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=3, warm_up=2)
    assert calls == ["a", "b"] * 5
    assert {name: len(values) for name, values in seconds.items()} == {"a": 3, "b": 3}


def test_a_deadline_leaves_one_round_at_least():
    seconds = interleaved({"a": lambda: time.sleep(0.02)}, repeats=1000, deadline=time.monotonic() - 1)
    assert len(seconds["a"]) == 1
    seconds = interleaved({"a": lambda: time.sleep(0.02)}, repeats=1000, deadline=time.monotonic() + 0.3)
    assert 1 < len(seconds["a"]) < 15


def test_ratios_are_those_of_rounds():
    # The machine is ten times slower in the last round, which hits both.
    table = ratios({"net": [1.0, 1.0, 2.0, 10.0], "model": [1.1, 1.1, 2.2, 11.0]}, "net")
    assert table["model"]["ratio"] == pytest.approx(1.1)
    assert table["model"]["ratio_high"] == pytest.approx(1.1)
    assert table["model"]["milliseconds"] == pytest.approx(1650)
    assert table["model"]["more"] == pytest.approx(0.15)
    assert table["net"]["ratio"] == 1
    assert ratios({"net": [2.0], "model": [3.0]}, "net")["model"]["ratio_low"] == 1.5


def test_slope_of_a_power_law():
    m = [10, 100, 1000]
    assert slope(m, [3 * x**1.5 for x in m]) == pytest.approx(1.5)
    assert slope([10], [1.0]) is None


# -------------------------------------------------------------------------------------------------------------- systems


@pytest.mark.parametrize("name", [name for name in SYSTEMS if not name.startswith("import")])
@pytest.mark.filterwarnings("ignore")
def test_every_system_can_take_steps(name):
    if SYSTEMS[name].missing():
        pytest.skip("not installed")
    step = SYSTEMS[name].load()(TINY)
    step()
    step()


def test_features_are_as_many_as_all_gps_see():
    SYSTEMS["svdkl"].load()(Setting(rows=20, gps=2, dims=2, axis=6))()
    assert Setting(rows=20, gps=2, dims=3, axis=5).m == 125


def test_mc_gp_conditional_against_dense_algebra():
    pytest.importorskip("pyro")
    from svdkl_research.bench.systems.mc_gp import JITTER, conditional

    h, Z = torch.randn(1, 5).double(), torch.linspace(-2, 2, 6).double()
    v, lengthscale, amplitude = torch.randn(1, 6).double(), torch.tensor([0.7]).double(), torch.tensor([1.3]).double()
    mean, variance = conditional(h, Z, v, lengthscale, amplitude)

    def k(a, b):
        return 1.69 * torch.exp(-0.5 * (a[:, None] - b) ** 2 / 0.49)

    K = k(Z, Z) + 1.69 * JITTER * torch.eye(6)
    u = torch.linalg.cholesky(K) @ v[0]
    A = k(h[0], Z) @ K.inverse()
    assert torch.allclose(mean[0], A @ u, atol=1e-6)
    assert torch.allclose(variance[0], 1.69 - (A @ k(Z, h[0])).diagonal(), atol=1e-6)


# -------------------------------------------------------------------------------------------------------------- studies


def test_limits():
    own = {"ratio": 1.5, "more": 0.2}
    assert Limit("ratio at most", 1.5).holds(own)
    assert not Limit("ratio at most", 1.4).holds(own)
    assert not Limit("ratio at least", 50.0).holds(own)
    assert Limit("seconds more at most", 0.3).holds(own)
    assert not Limit("seconds more at most", 0.1).holds(own)


def test_choice_of_tasks():
    everything = choose(list(STUDIES))
    assert sum(task.limit is not None for task in everything) == 5 + 4 + 2
    assert [task.limit for task in choose(["step"], rows=50_000)] == [task.limit for task in STUDIES["step"]]
    quick = choose(list(STUDIES), quick=True)
    assert {task.study for task in quick} == set(STUDIES)
    assert all(task.limit is None for task in quick)
    assert all(task.setting.rows == 1000 for task in quick if task.study != "import")
    (network,) = choose(["scaling"], rows=7, repeats=2, only="system=network")
    assert (network.setting.rows, network.repeats, network.systems) == (7, 2, ("network",))
    with pytest.raises(ValueError, match="Expected --only to name a system of these studies"):
        choose(["head"], only="system=mc_gp")


# ------------------------------------------------------------------------------------------------------------- workers


def test_a_worker_measures_network_and_model(tmp_path):
    task = Task("step", "svdkl", "network", TINY, 3, Limit("ratio at most", 1e9))
    said = []
    (record,) = run_tasks([task], tmp_path / "bench.json", CONDITIONS, "svdkl bench", said.append)
    assert record.status == "measured", record.outcome
    assert {name: len(values) for name, values in record.outcome["seconds"].items()} == {"network": 3, "svdkl": 3}
    assert record.outcome["peak_memory"] > 10**7
    (entry,) = json.loads((tmp_path / "bench.json").read_text())["measurements"]
    assert entry["provenance"]["machine"]["threads"] == 1
    (row,) = rows([record])
    assert (row.system, row.verdict) == ("SV-DKL", "holds")
    assert missed_limits([replace(record, task=replace(task, limit=Limit("ratio at most", 0.0)))])


def test_a_worker_without_memory_is_recorded_as_such():
    task = Task("step", "network", "network", Setting(rows=400_000), 1)
    assert run_in_worker(task, replace(CONDITIONS, memory=3 * 10**8)) == {"status": "out of memory"}


def test_a_worker_without_time_is_recorded_as_such():
    task = Task("step", "network", "network", TINY, 1)
    assert run_in_worker(task, replace(CONDITIONS, seconds=0.1)) == {"status": "out of time"}


@pytest.mark.parametrize(
    ("code", "stderr", "outcome"),
    [
        (1, "Traceback\nValueError: Expected more.\n", {"status": "failed", "reason": "ValueError: Expected more."}),
        (-6, "", {"status": "failed", "reason": "it ended with code -6"}),
        (-6, "terminate called: std::bad_alloc\n", {"status": "out of memory"}),
        (-9, "", {"status": "out of memory"}),
    ],
)
def test_a_worker_that_ends_badly(code, stderr, outcome, monkeypatch):
    ended = subprocess.CompletedProcess([], code, "", stderr)
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: ended)
    assert run_in_worker(Task("step", "network", "network", TINY, 1), CONDITIONS) == outcome


def test_what_is_measured_is_kept_and_the_rest_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "bench.json"
    tasks = [Task("scaling", "klsp_gp", "network", Setting(axis=m), 2) for m in (70, 200, 400, 800)]
    ran = []

    def run(task, conditions):
        ran.append(task.setting.m)
        if task.setting.m == 200 and interrupt:
            raise KeyboardInterrupt
        if task.setting.m == 400:
            return {"status": "out of memory"}
        return {"status": "measured", "seconds": {"network": [1.0, 1.0], "klsp_gp": [float(task.setting.m)] * 2}}

    monkeypatch.setattr(runner, "run_in_worker", run)
    interrupt = True
    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks, path, CONDITIONS, "", lambda line: None)
    interrupt = False
    records = run_tasks(tasks, path, CONDITIONS, "", lambda line: None)
    assert ran == [70, 200, 200, 400]
    assert [record.status for record in records] == ["measured", "measured", "out of memory", "skipped"]
    assert "at m = 400" in records[3].outcome["reason"]
    (curve,) = curves(records)
    assert (curve.m, curve.seconds, curve.ended) == ((70, 200), (70, 200), (400, "out of memory"))
    assert curve.slope == pytest.approx(1)

    run_tasks(tasks, path, replace(CONDITIONS, threads=2), "", lambda line: None)
    assert ran == [70, 200, 200, 400, 70, 200, 400]
    monkeypatch.setattr(runner, "_sources", lambda: "changed")
    run_tasks(tasks[:1], path, CONDITIONS, "", lambda line: None)
    assert ran[-1] == 70
    assert len(ran) == 8


def test_what_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("svdkl_research.bench.systems.find_spec", lambda name: None)
    task = Task("scaling", "mc_gp", "network", TINY, 1)
    (record,) = run_tasks([task], tmp_path / "bench.json", CONDITIONS, "", lambda line: None)
    assert rows([record])[0].time == "not installed: pip install 'svdkl-research[rivals]'"


def test_measurements_that_cannot_be_read(tmp_path):
    path = tmp_path / "bench.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=r"Expected measurements in .*: delete it"):
        run_tasks([], path, CONDITIONS, "", print)


def test_words_for_memory():
    assert child.says_out_of_memory("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
    assert child.says_out_of_memory("terminate called after throwing an instance of 'std::bad_alloc'")
    assert not child.says_out_of_memory("Expected another shape")


# ------------------------------------------------------------------------------------------------- profile and figure


def test_profile_names_operations_and_shares():
    outcome = child.measure(Task("profile", "svdkl_head", "svdkl_head", TINY, 1))
    operations = outcome["operations"]
    assert any(entry["operation"].startswith("aten::") for entry in operations)
    shares = [entry["share"] for entry in operations]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1 + 1e-9


def test_figure_marks_where_a_system_ended():
    from svdkl_research.pages.runtime_figure import runtime

    def record(system, m, status="measured"):
        seconds = {"network": [1.0, 1.1, 1.2], system: [m / 50] * 3}
        outcome = {"status": status, **({"seconds": seconds} if status == "measured" else {})}
        return Record(Task("scaling", system, "network", Setting(axis=m), 3), outcome)

    records = [Record(Task("scaling", "network", "network", Setting(), 3), {"status": "failed"})]
    records += [record("svdkl", m) for m in (70, 2000)] + [
        record("gpytorch", 70),
        record("gpytorch", 400, "out of memory"),
    ]
    records += [record("mc_gp", 70, "not installed")]
    svg = runtime(curves(records), "One step")
    assert "gpytorch SV-DKL (out of memory at 400)" in svg
    assert "MC-GP (not installed)" in svg
    assert "SV-DKL, slope 1.00" in svg
    slopes = document(records)["slopes"]
    assert math.isclose(slopes["svdkl"], 1)
    assert slopes["gpytorch"] is None
