"""Several processes train the model that one would, and lose nothing when one of them is killed."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from refusals import refused
from safetensors.torch import load_file
from tolerances import close

from svdkl.cli import workers as launching
from svdkl.cli.workers import launch
from svdkl.training.distributed import WorkerGroup, group, joined

SCRIPT = Path(__file__).parent / "distributed_run.py"
ENVIRONMENT = {**os.environ, "SVDKL_UNCHECKED_SHAPES": "1", "OMP_NUM_THREADS": "1"}


def run(size: int, folder: Path, *kinds: str) -> None:
    command = [sys.executable, str(SCRIPT), str(folder), *kinds]
    if size > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
        command = [sys.executable, *launcher, *command[1:]]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("distributed")
    run(1, path, "gradients", "model")
    run(2, path, "gradients", "model", "long")
    run(3, path, "gradients")
    return path


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_are_those_of_one_process(size, folder):
    """65 rows in two or three parts, with weights and shared noise: nowhere a factor of the number of processes."""
    alone = load_file(folder / "gradients-1-0.safetensors")
    for rank in range(size):
        found = load_file(folder / f"gradients-{size}-{rank}.safetensors")
        assert list(found) == list(alone)
        for name, tensor in alone.items():
            close(found[name], tensor, "float32")


def test_the_model_is_that_of_one_process(folder):
    alone, *others = (load_file(folder / f"model-{name}.safetensors") for name in ("1-0", "2-0", "2-1"))
    for found in others:
        for name, tensor in alone.items():
            difference = (found[name].double() - tensor.double()).abs().max()
            assert difference < 1e-6, (name, difference)


def test_ranks_stay_equal(folder):
    first, second = (load_file(folder / f"long-2-{rank}.safetensors") for rank in (0, 1))
    for name, tensor in first.items():
        assert torch.equal(second[name], tensor), name


def test_shares_are_all_and_nearly_equal():
    for size in (1, 2, 3, 7):
        for count in (0, 1, 5, 100):
            shares = [list(range(count))[WorkerGroup(rank, size).share(count)] for rank in range(size)]
            assert sum(shares, []) == list(range(count))  # noqa: RUF017
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_one_process_sends_nothing():
    assert joined() == WorkerGroup(0, 1)
    assert joined().sums([1.5, 2.0]) == [1.5, 2.0]
    assert joined().gather("x") == ["x"]


def test_launch_gives_the_exit_code(capfd):
    assert launch(["--version"], 2) == 0
    assert launch(["no-such-command"], 2) == 2
    assert capfd.readouterr().err.strip()


def test_processes_know_how_many_there_are_on_the_machine(monkeypatch):
    """Which decides, alike in all of them, whether each has a GPU of its own."""
    started, process = [], subprocess.Popen

    def pretend(*command, env, **options):
        started.append(env)
        return Mock(spec=process)

    monkeypatch.setattr(launching.subprocess, "Popen", pretend)
    for rank in range(3):
        launching._start(["train"], rank, 3, 29500, sys.stdout)
    assert [env["LOCAL_RANK"] for env in started] == ["0", "1", "2"]
    assert {env["LOCAL_WORLD_SIZE"] for env in started} == {"3"}


def test_gpus_are_shared_by_a_known_number_of_processes(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setenv("WORLD_SIZE", "16")
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    refused(lambda: group().__enter__(), "LOCAL_WORLD_SIZE", "torchrun")
