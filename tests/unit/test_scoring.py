"""Held-out scores, against a plain search for the best temperature; and which epochs they choose."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from tolerances import close
from torch import nn

from svdkl.training.config import TrainingConfig
from svdkl.training.history import History
from svdkl.training.loop import Stage, run_stage
from svdkl.training.rows import InMemory, Rows
from svdkl.training.scoring import AS_IS, SCALED, held_out_score


def rows_of(classes: int, weighted: bool) -> tuple[Rows, torch.Tensor]:
    generator = torch.Generator().manual_seed(classes)
    logits = 1.7 * torch.randn(400, classes, generator=generator, dtype=torch.float64)
    y = torch.distributions.Categorical(logits=logits / 2.3).sample()
    weight = torch.rand(400, generator=generator, dtype=torch.float64) if weighted else None
    return Rows(logits, y, weight), logits


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_scaled_score(classes: int, weighted: bool) -> None:
    rows, logits = rows_of(classes, weighted)
    weight = np.ones(400) if rows.weight is None else rows.weight.numpy()

    def loss(log_temperature: float) -> float:
        log_p = torch.log_softmax(logits / math.exp(log_temperature), 1)[torch.arange(400), rows.y].numpy()
        return -float((weight * log_p).sum() / weight.sum())

    score = held_out_score(
        lambda batch: torch.log_softmax(batch.x, 1)[torch.arange(len(batch)), batch.y],
        lambda batch: batch.x.softmax(1),
        rows,
    )
    best = minimize_scalar(loss, bounds=(-1, 1.5), method="bounded").fun
    close(torch.tensor(score.as_is), torch.tensor(loss(0.0)))
    close(torch.tensor(score.scaled), torch.tensor(best), "quadrature")
    assert score.scaled < score.as_is - 0.01
    assert score.by(AS_IS) == score.as_is
    assert score.by(SCALED) == score.scaled


def test_probabilities_of_zero_are_no_accident() -> None:
    p = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    rows = Rows(p, torch.tensor([1, 1]))
    score = held_out_score(lambda batch: batch.x.clamp_min(1e-30).log()[:, 1], lambda batch: batch.x, rows)
    assert math.isfinite(score.scaled)


class Growing(nn.Module):
    """Logits of two classes: a direction that training turns the right way, and a size that it lets grow too large."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.size = nn.Parameter(torch.zeros(())), nn.Parameter(torch.ones(()))

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        signal = self.turn * x[:, 0] + (1 - self.turn) * x[:, 1]
        return torch.stack([-signal, signal], 1).mul(self.size / 2).softmax(1)


@pytest.mark.parametrize("criterion", [AS_IS, SCALED])
def test_each_criterion_has_its_epoch(criterion: str) -> None:
    """A direction that gets better to the end, with a size that is too large soon: the criteria want other epochs."""
    x = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] + 1.6 * torch.randn(4000, generator=torch.Generator().manual_seed(1)) > 0).long()
    module, rows, history = Growing(), Rows(x, y), History()
    stage = Stage(
        "toy",
        module,
        [{"params": [module.turn], "rate": 0.05}, {"params": [module.size], "rate": 0.3}],
        lambda batch: -module.turn - module.size,
        lambda batch: module.probabilities(batch.x).gather(1, batch.y[:, None]).log().squeeze(1),
        range(15),
        lambda batch: module.probabilities(batch.x),
        criterion,
    )
    config = TrainingConfig(
        batch_size=4000, patience=3, warmup_steps=0, averaging=0.0, pretrain_epochs=15, joint_epochs=0
    )
    standings = run_stage(stage, InMemory(rows), rows, config, torch.Generator(), history)
    as_is, scaled = ([getattr(e, name) for e in history.epochs] for name in ("held_out_nlp", "scaled_nlp"))
    assert np.argmin(as_is) < np.argmin(scaled)
    assert len(history.epochs) > np.argmin(as_is) + 1 + 3  # the scaled score goes on getting better
    assert standings[AS_IS].module["turn"] < standings[SCALED].module["turn"]
    assert module.turn.item() == standings[criterion].module["turn"].item()
