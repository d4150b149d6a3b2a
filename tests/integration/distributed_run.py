"""Small runs in several workers: torchrun ... distributed_run.py FOLDER KIND ..., each kind one thing to compare."""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from svdkl import MLP, SVDKL, GPHead
from svdkl.training.batches import InMemory, Rows
from svdkl.training.config import EvidenceConfig, TrainingConfig
from svdkl.training.distributed import WorkerGroup, group
from svdkl.training.optimisers import Guard, make_optimiser, parameter_groups
from svdkl.training.recipe import train


def data(dtype: torch.dtype) -> Rows:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(331, 4, generator=generator, dtype=dtype)
    return Rows(x, (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 1).long(), x[:, 3].abs() + 0.5)


def save(tensors: dict, path: Path) -> None:
    save_file({name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}, path)


def gradients(folder: Path, workers) -> None:
    """The first step's gradients on a batch that cannot be cut into equal parts; row weights, noise shared."""
    torch.manual_seed(0)
    model = SVDKL(MLP(4, (16,), 6), 6, 3, grid_size=16)
    rows = data(torch.float32).take(torch.arange(65))
    model.set_ranges(rows.x)
    optimiser = make_optimiser(parameter_groups(model, TrainingConfig()))
    guard = Guard(model, optimiser, workers)
    generator = torch.Generator().manual_seed(1)
    (batch,) = InMemory(rows).batches(0, 100, generator, workers)
    loss = guard.step(
        lambda: -model.elbo(batch.x, batch.y, 1000, batch.weight, generator, batch.part).value, 1e9, len(batch)
    )
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    save({**found, "loss": torch.tensor(loss)}, folder / f"gradients-{workers.size}-{workers.rank}.safetensors")


def model(folder: Path, workers) -> None:
    """A whole recipe in float64: 80 rows a batch, the last of which has two rows, so that a process has none."""
    torch.manual_seed(0 if workers.first else 7)  # the first one's start is everybody's
    torch.set_default_dtype(torch.float64)
    rows = data(torch.float64)
    net = nn.Sequential(MLP(4, (16, 16), 6), nn.ReLU())
    evidence = EvidenceConfig(steps=10)
    config = TrainingConfig(batch_size=80, pretrain_epochs=3, joint_epochs=3, evidence_config=evidence, patience=100)
    fit, held_out = rows.take(torch.arange(242)), rows.take(torch.arange(242, 331))
    trained = train(net, GPHead(6, 3, grid_size=16), fit, held_out, config)
    save(trained.state_dict(), folder / f"model-{workers.size}-{workers.rank}.safetensors")


def long(folder: Path, workers) -> None:
    """Two hundred steps in float32, with dropout of each process's own; what is equal at the start stays so."""
    torch.manual_seed(workers.rank)
    equalise, calls = WorkerGroup.equalise, []
    WorkerGroup.equalise = lambda self, tensors: (
        calls.append(1) or (equalise(self, tensors) if len(calls) == 1 else None)
    )
    torch.set_default_dtype(torch.float32)
    rows = data(torch.float32)
    net = nn.Sequential(MLP(4, (16, 16), 6, dropout=0.2), nn.ReLU())
    config = TrainingConfig(batch_size=65, pretrain_epochs=20, joint_epochs=20, evidence=False, patience=100)
    trained = train(net, GPHead(6, 3, grid_size=16), rows, rows.take(torch.arange(90)), config)
    WorkerGroup.equalise = equalise
    save(trained.state_dict(), folder / f"long-{workers.size}-{workers.rank}.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with group() as workers:
        for kind in sys.argv[2:]:
            {"gradients": gradients, "model": model, "long": long}[kind](Path(sys.argv[1]), workers)
