"""Held-out scores, against a plain search for the best temperature; and which epochs they choose."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.datasets import make_classification
from tolerances import close
from torch import nn

from svdkl import SVDKLClassifier
from svdkl.training import recipe
from svdkl.training.batches import InMemory, Rows
from svdkl.training.best_epochs import AS_IS, SCALED, held_out_score
from svdkl.training.config import TrainingConfig
from svdkl.training.history import History
from svdkl.training.loop import Stage, run_stage
from svdkl.training.optimisers import snapshot


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

    def penalised(log_temperature: float) -> float:
        return loss(log_temperature) + 0.5 * (log_temperature / 0.5) ** 2 / weight.sum()

    best = minimize_scalar(penalised, bounds=(-1, 1.5), method="bounded").fun
    close(torch.tensor(score.as_is), torch.tensor(loss(0.0)))
    close(torch.tensor(score.scaled), torch.tensor(best), "quadrature")
    assert score.scaled < score.as_is - 0.01
    assert score.by(AS_IS) == score.as_is
    assert score.by(SCALED) == score.scaled


def test_rows_without_an_error_do_not_ask_for_certainty() -> None:
    """Without a prior the score would go to zero as fast as the temperature may."""
    sure = torch.tensor([[0.9, 0.1]]).expand(30, 2)
    score = held_out_score(lambda _: sure, lambda batch: batch.x, Rows(sure, torch.zeros(30, dtype=torch.long)))
    assert 0.02 < score.scaled < score.as_is


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
        4000,
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
    assert standings[AS_IS].module["turn"] == 0  # as they are, probabilities are best at the start
    kept = {AS_IS: [], SCALED: [1 + np.argmin(scaled)]}
    assert [epoch.epoch for epoch in history.epochs if epoch.kept] == kept[criterion]


def test_a_stage_that_gets_worse_keeps_its_start(tmp_path: Path) -> None:
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    rows, module, history = Rows(x, (x[:, 1] > 0).long()), Growing(), History(tmp_path / "history.jsonl")
    stage = Stage(
        "toy",
        module,
        [{"params": [module.turn], "rate": 0.1}],
        lambda batch: -module.turn,
        lambda batch: module.probabilities(batch.x).gather(1, batch.y[:, None]).log().squeeze(1),
        range(3),
        400,
    )
    config = TrainingConfig(batch_size=400, warmup_steps=0, averaging=0.0, pretrain_epochs=3, joint_epochs=0)
    run_stage(stage, InMemory(rows), rows, config, torch.Generator(), history)
    assert module.turn.item() == 0
    assert [epoch.kept for epoch in history.epochs] == [False] * 3
    assert [json.loads(line) for line in history.path.read_text().splitlines()] == history.to_json()


# --------------------------------------------------------------------------------------------- which recipe has which

WIDE = {"hidden": (64, 64), "dropout": 0.0, "learning_rate_init": 5e-3, "max_iter": 18, "random_state": 0}
WIDE |= {"num_features": 10, "grid_size": 12}


@pytest.fixture(scope="module")
def overfitted() -> dict:
    """Rows on which a network is too sure long before it has learned all."""
    X, y = make_classification(1200, 20, n_informative=5, n_classes=3, flip_y=0.2, random_state=0)
    table = pa.table({f"x{i}": column for i, column in enumerate(X.T)})
    return {"X": table[:700], "y": y[:700], "eval_set": (table[700:], y[700:])}


def kept_epoch(model: SVDKLClassifier, stage: str, score: str) -> int:
    """The epoch of a stage that is best by a score, counted from 0."""
    return int(np.argmin([getattr(epoch, score) for epoch in model.history_ if epoch.stage == stage]))


def marked(model: SVDKLClassifier) -> list[tuple[str, int]]:
    """The epochs that its history says were kept."""
    return [(epoch.stage, epoch.epoch) for epoch in model.history_ if epoch.kept]


def nlp(model: SVDKLClassifier, rows: dict) -> float:
    X, y = rows["eval_set"]
    return -float(np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean())


def test_a_plain_network_is_of_the_epoch_that_is_best_as_it_is(overfitted: dict) -> None:
    plain = SVDKLClassifier(recipe="dnn", **WIDE).fit(**overfitted)
    best = kept_epoch(plain, "network", "held_out_nlp")
    assert best < kept_epoch(plain, "network", "scaled_nlp")
    assert nlp(plain, overfitted) == pytest.approx(plain.history_[best].held_out_nlp, abs=1e-5)
    assert marked(plain) == [("network", 1 + best)]


@pytest.mark.parametrize(("evidence", "score"), [(True, "scaled_nlp"), (False, "held_out_nlp")])
def test_joint_training_goes_on_from_and_ends_with_its_own(
    overfitted: dict, evidence: bool, score: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {}

    def keep(stage: Stage, *arguments: object) -> dict:
        standings = run_stage(stage, *arguments)
        kept[stage.name] = stage.criterion, snapshot(stage.module), standings
        return standings

    monkeypatch.setattr(recipe, "run_stage", keep)
    model = SVDKLClassifier(evidence=evidence, **WIDE).fit(**overfitted)
    assert kept_epoch(model, "network", "held_out_nlp") != kept_epoch(model, "network", "scaled_nlp")
    for criterion, state, standings in kept.values():
        assert criterion == (SCALED if evidence else AS_IS)
        expected = standings[criterion].averaged
        assert all(torch.equal(state[name], tensor) for name, tensor in expected.items())
    network = ("network", 1 + kept_epoch(model, "network", score))
    joint = {stage: number for stage, number in marked(model) if stage == "joint"}
    assert marked(model) == [network, *joint.items()]
    if joint:
        assert joint["joint"] == 1 + kept_epoch(model, "joint", score)
