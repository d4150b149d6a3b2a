"""A run that is killed goes on from its checkpoint and ends bit for bit where the uninterrupted one does."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from refusals import refused
from safetensors.torch import load_file, save_file
from torch import nn

from svdkl.training.checkpoint import Checkpoint, Snapshot, optimiser_tensors, restore_optimiser

SCRIPT = Path(__file__).parent / "interrupted_run.py"
ENVIRONMENT = {**os.environ, "SVDKL_UNCHECKED_SHAPES": "1"}


def start(folder: Path, recipe: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), recipe], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


@pytest.mark.parametrize(("recipe", "kills"), [("svdkl", (2, 5)), ("dnn_gp", (2, 9))])  # the second with the head
def test_killed_and_resumed(recipe, kills, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
    with start(whole, recipe) as process:
        epochs = process.communicate(timeout=120)[0].splitlines()
    assert process.returncode == 0

    for after in kills:  # after so many more epochs, wherever that is
        with start(broken, recipe) as process:
            for _ in range(after):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
    assert not (broken / "final.safetensors").exists()
    with start(broken, recipe) as process:
        lines = process.communicate(timeout=120)[0].splitlines()
    assert process.returncode == 0
    # It did not start anew, though an epoch that was told need not be saved yet; the last run began with the head.
    assert len(lines) <= len(epochs) - sum(kills) + len(kills)
    assert lines[0].startswith("joint")

    expected, actual = (load_file(folder / "final.safetensors") for folder in (whole, broken))
    assert list(actual) == list(expected)
    for name, tensor in expected.items():
        assert torch.equal(actual[name], tensor), name


def snapshot(value: float) -> Snapshot:
    return Snapshot("network", {"module": {"weight": torch.full((1000,), value)}}, {"epoch": 3})


def test_round_trip(tmp_path):
    checkpoint = Checkpoint(tmp_path / "new" / "state.safetensors")
    assert checkpoint.load() is None
    checkpoint.save(snapshot(1.5))
    checkpoint.save(snapshot(2.5))
    loaded = checkpoint.load()
    assert loaded.stage == "network"
    assert loaded.numbers == {"epoch": 3}
    assert torch.equal(loaded.tensors["module"]["weight"], torch.full((1000,), 2.5))
    assert [path.name for path in checkpoint.path.parent.iterdir()] == ["state.safetensors"]


def test_moments_have_the_order_in_memory_of_their_parameters(tmp_path):
    """A file has tensors in one order, convolutions may have another, and a fused step reads them as they lie."""

    def steps(net, optimiser, count):
        for _ in range(count):
            optimiser.zero_grad()
            net(x).square().sum().backward()
            optimiser.step()

    x = torch.randn(5, 3, 8, 8)
    net = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(net.parameters(), fused=True)
    steps(net, optimiser, 3)
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    parts = {"module": net.state_dict(), "optimiser": optimiser_tensors(optimiser, net)}
    checkpoint.save(Snapshot("network", parts, {}))
    steps(net, optimiser, 2)

    again = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    resumed = torch.optim.AdamW(again.parameters(), fused=True)
    found = checkpoint.load().tensors
    again.load_state_dict(found["module"])
    restore_optimiser(resumed, again, found["optimiser"])
    steps(again, resumed, 2)
    assert torch.equal(again.weight, net.weight)


def test_a_failed_write_keeps_what_was_there(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    checkpoint.save(snapshot(1.5))

    def no_space(*arguments, **options):
        (tmp_path / "state.safetensors.part").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("svdkl.training.checkpoint.save_file", no_space)
    with pytest.raises(OSError, match="what was saved before is still there"):
        checkpoint.save(snapshot(2.5))
    assert checkpoint.load().tensors["module"]["weight"][0].item() == 1.5
    assert [path.name for path in tmp_path.iterdir()] == ["state.safetensors"]


def test_damaged_and_foreign_files_are_refused_in_a_sentence(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    checkpoint.save(snapshot(1.5))
    whole = checkpoint.path.read_bytes()
    for damaged in (b"", whole[:100], whole[:-7], b"not a checkpoint at all"):
        checkpoint.path.write_bytes(damaged)
        with pytest.raises(ValueError, match="truncated or damaged"):
            checkpoint.load()
    for header in (None, {"format": "svdkl-checkpoint-6", "run": "null", "stage": "network", "numbers": "{}"}):
        save_file({"module/weight": torch.zeros(3)}, checkpoint.path, header)
        with pytest.raises(ValueError, match="another program or version"):
            checkpoint.load()


def test_every_flipped_bit_is_noticed(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state.safetensors", {"seed": 3})
    checkpoint.save(Snapshot("network", {"module": {"weight": torch.tensor([1.5, 2.5])}}, {"epoch": 3}))
    whole = checkpoint.path.read_bytes()
    for place in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        checkpoint.path.write_bytes(damaged)
        refused(checkpoint.load, "damaged", "delete it to start anew")
    checkpoint.path.write_bytes(whole)
    assert checkpoint.load().numbers == {"epoch": 3}
