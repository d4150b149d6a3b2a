"""A small training run with a checkpoint, to be killed from outside: python interrupted_run.py FOLDER RECIPE."""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from svdkl import MLP, GPHead
from svdkl.training.batches import Rows
from svdkl.training.checkpoint import Checkpoint
from svdkl.training.config import EvidenceConfig, TrainingConfig
from svdkl.training.recipe import train


def main(folder: Path, recipe: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randn(2000, 4)
    y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 1).long()
    net = nn.Sequential(MLP(4, (64, 64), 12, dropout=0.2), nn.ReLU(), nn.BatchNorm1d(12))
    config = TrainingConfig(
        recipe=recipe,
        batch_size=100,
        pretrain_epochs=4,
        joint_epochs=4,
        evidence_config=EvidenceConfig(steps=10),
        patience=100,
    )
    model = train(
        net,
        GPHead(12, 3, grid_size=16),
        Rows(x[:1600], y[:1600]),
        Rows(x[1600:], y[1600:]),
        config,
        checkpoint=Checkpoint(folder / "checkpoint.safetensors"),
        on_epoch=lambda epoch: print(epoch.stage, epoch.epoch, flush=True),
    )
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "final.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
