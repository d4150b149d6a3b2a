"""The recipe: learns, restores its best state, survives bad steps, repeats itself."""

import itertools
import math

import pytest
import torch
from refusals import refused
from tolerances import close
from torch import nn

from svdkl import MLP, GPHead
from svdkl.training import loop
from svdkl.training.averaging import Average
from svdkl.training.batches import InMemory, Rows
from svdkl.training.best_epochs import AS_IS, held_out_score
from svdkl.training.checkpoint import Checkpoint
from svdkl.training.config import RECIPES, WITH_HEAD, EvidenceConfig, TrainingConfig, WarmStartConfig
from svdkl.training.distributed import ALONE, WorkerGroup
from svdkl.training.evidence import ExpectedNoise, fit_held_out_evidence
from svdkl.training.history import History
from svdkl.training.linear_head import LinearHead
from svdkl.training.loop import Stage, run_stage
from svdkl.training.optimisers import MAX_ROLLBACKS, Guard, choose_groups, make_optimiser, rate_factor, set_rates
from svdkl.training.recipe import shared_moments, train, train_more
from svdkl.training.warm_start import start_from_linear


def blobs(num_rows: int, seed: int) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (num_rows,), generator=generator)
    centres = torch.tensor([[2.0, 0.0], [-2.0, 1.0], [0.0, -2.0]])
    return Rows(centres[y] + torch.randn(num_rows, 2, generator=generator), y)


def run(recipe: str, rows: Rows, held_out: Rows, **options):
    torch.manual_seed(0)
    net = nn.Sequential(MLP(2, (32,), 8), nn.ReLU())
    history = History()
    config = TrainingConfig(
        recipe=recipe,
        batch_size=64,
        pretrain_epochs=4,
        joint_epochs=3,
        evidence_config=EvidenceConfig(steps=30),
        **options,
    )
    head = GPHead(8, 3, grid_size=16) if recipe in WITH_HEAD else LinearHead(8, 3)
    return train(net, head, rows, held_out, config, history=history), history


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_learns_and_repeats_itself(recipe):
    rows, held_out, test = blobs(600, 1), blobs(200, 2), blobs(500, 3)
    model, history = run(recipe, rows, held_out, net_rate=1e-2, patience=100)
    nlp = -model.log_predictive(test.x, test.y).mean().item()
    assert nlp < 0.5  # 1.1 is chance
    again, _ = run(recipe, rows, held_out, net_rate=1e-2, patience=100)
    assert torch.equal(again.log_predictive(test.x, test.y), model.log_predictive(test.x, test.y))
    # Equal budgets: with patience to spare, every recipe's network has seen the data as often.
    stages = [epoch.stage for epoch in history.epochs]
    joint = {"svdkl": 3, "dnn_gp": 3}.get(recipe, 0)
    assert stages == ["network"] * (4 if recipe == "svdkl" else 7) + ["joint"] * joint


@pytest.mark.parametrize("recipe", RECIPES)
def test_steps_with_processes_may_have_other_rows(recipe, monkeypatch):
    taken: list[int] = []
    step = Guard.step

    def spy(self: Guard, loss, clip, rows):
        taken.append(rows)
        return step(self, loss, clip, rows)

    monkeypatch.setattr(Guard, "step", spy)
    rows, held_out = blobs(600, 1), blobs(200, 2)
    _, usual = run(recipe, rows, held_out, patience=100, evidence=False)
    taken.clear()
    _, history = run(recipe, rows, held_out, patience=100, evidence=False, joint_batch_size=256)
    network, joint = len(history.of("network")), len(history.of("joint"))
    assert taken == (9 * [64] + [24]) * network + [256, 256, 88] * joint
    assert [e.held_out_nlp for e in usual.of("network")] == [e.held_out_nlp for e in history.of("network")]


def test_rates_go_on_falling_whatever_rows_a_step_has(monkeypatch):
    rates: list[float] = []

    def spy(optimiser, in_run, in_stage):
        rates.append(in_run)
        set_rates(optimiser, in_run, in_stage)

    monkeypatch.setattr(loop, "set_rates", spy)
    run("svdkl", blobs(6000, 1), blobs(50, 2), patience=100, evidence=False, joint_batch_size=3000)
    network, joint = rates[:-6], rates[-6:]  # 94 steps an epoch, and two
    top = rates.index(max(rates))
    assert len(network) == 4 * 94
    assert top == 50
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert joint[0] == pytest.approx(network[-1], rel=0.02)
    assert joint[-1] > 0.02  # half an epoch of the schedule is left at its last step


def test_an_average_reaches_back_over_as_many_rows_whatever_a_step_has(monkeypatch):
    decays: list[float] = []
    start = Average.__init__

    def spy(self: Average, module: nn.Module, decay: float, *others: float) -> None:
        decays.append(decay)
        start(self, module, decay, *others)

    monkeypatch.setattr(Average, "__init__", spy)
    for joint_batch_size in (128, 50_000):  # a step never has more rows than there are
        run("svdkl", blobs(100, 1), blobs(50, 2), averaging=0.9, joint_batch_size=joint_batch_size)
    assert decays == pytest.approx(2 * [0.9, 0.81])


def test_rates_grow_with_the_root_of_the_rows_that_a_step_has(monkeypatch):
    made: list[torch.optim.Optimizer] = []

    def spy(groups, as_large):
        made.append(make_optimiser(groups, as_large))
        return made[-1]

    monkeypatch.setattr(loop, "make_optimiser", spy)
    rates = {"net_rate": 0.003, "variational_rate": 0.002, "kernel_rate": 0.005}
    run("svdkl", blobs(1280, 1), blobs(50, 2), evidence=False, joint_batch_size=192, **rates)
    network, joint = ([group["rate"] for group in optimiser.param_groups] for optimiser in made)
    assert set(network) == {0.003}
    steps = 20 / 7  # of the network, to one of 192 rows
    assert joint == pytest.approx([rate * steps**0.5 for rate in (0.003, 0.003, 0.002, 0.005)])


def test_a_small_table_is_learned_by_heart_when_asked():
    generator = torch.Generator().manual_seed(0)
    rows = Rows(torch.randn(32, 5, generator=generator), torch.randint(4, (32,), generator=generator))
    torch.manual_seed(0)
    net = nn.Sequential(MLP(5, (128, 128), 32), nn.ReLU())
    config = TrainingConfig(
        batch_size=32, pretrain_epochs=150, joint_epochs=50, net_rate=3e-3, patience=1000, evidence=False
    )
    model = train(net, GPHead(32, 4), rows, rows, config)
    assert torch.equal(model.predict_proba(rows.x).argmax(1), rows.y)


def test_regression_on_several_targets():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(800, 3, generator=generator)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].sin()], 1) + 0.1 * torch.randn(800, 2, generator=generator)
    torch.manual_seed(0)
    net = nn.Sequential(MLP(3, (64, 64), 16), nn.ReLU())
    config = TrainingConfig(batch_size=64, pretrain_epochs=20, joint_epochs=10, net_rate=5e-3)
    model = train(net, GPHead(16, 2, "gaussian"), Rows(x[:600], y[:600]), Rows(x[600:700], y[600:700]), config)
    prediction = model.predict(x[700:])
    assert (prediction.mean - y[700:]).square().mean().sqrt().item() < 0.3
    assert -model.log_predictive(x[700:], y[700:]).mean().item() < 0.5


def test_weights_count_rows():
    """A class of weight zero is never learned."""
    rows, held_out = blobs(600, 1), blobs(200, 2)
    weighted = Rows(rows.x, rows.y, (rows.y != 2).float())
    kept = Rows(held_out.x, held_out.y, (held_out.y != 2).float())
    model, _ = run("svdkl", weighted, kept, net_rate=1e-2)
    assert model.predict_proba(held_out.x)[:, 2].max().item() < 0.2


def test_the_best_state_comes_back_and_patience_ends_a_stage():
    """A loss that drives the only weight past its best value: the stage stops, and the best value is restored."""
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 0.0)
    history = History()
    stage = Stage(
        "toy",
        module,
        [{"params": list(module.parameters()), "rate": 0.1}],
        lambda batch: -module.weight.sum(),
        lambda batch: -((module.weight - 1.0) ** 2).sum().expand(len(batch.x)),
        epochs=range(100),
        batch_size=10,
    )
    rows = Rows(torch.zeros(10, 1), torch.zeros(10))
    config = TrainingConfig(
        batch_size=10, patience=3, warmup_steps=0, averaging=0.0, pretrain_epochs=100, joint_epochs=0
    )
    run_stage(stage, InMemory(rows), rows, config, torch.Generator(), history)
    assert abs(module.weight.item() - 1.0) < 0.11
    best = min(range(len(history.epochs)), key=lambda i: history.epochs[i].held_out_nlp)
    assert history.epochs[best].epoch == best + 1
    assert len(history.epochs) == best + 1 + 3
    score = held_out_score(stage.log_predictive, None, rows)
    assert score.scaled is None
    close(torch.tensor(score.as_is), torch.tensor(history.epochs[best].held_out_nlp), "float32")


def test_a_bad_step_never_reaches_the_parameters():
    module = nn.Linear(2, 1)
    optimiser = make_optimiser([{"params": list(module.parameters()), "rate": 0.1}])
    guard = Guard(module, optimiser)
    x = torch.randn(4, 2)
    before = [parameter.clone() for parameter in module.parameters()]
    with pytest.warns(UserWarning, match="not finite"):
        guard.step(lambda: module(x).sum() * math.nan, 1.0)
    with pytest.warns(UserWarning, match="not finite"):  # a finite loss with an infinite gradient
        guard.step(lambda: (module(x).sum() * 0).abs().sqrt(), 1.0)
    for parameter, old in zip(module.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
    assert guard.slowdown < 0.1
    guard.step(lambda: module(x).square().mean(), 1.0)
    assert not torch.equal(module.weight, before[0])
    for _ in range(MAX_ROLLBACKS - 2):
        with pytest.warns(UserWarning, match="not finite"):
            guard.step(lambda: module(x).sum() * math.inf, 1.0)
    with pytest.raises(ArithmeticError, match="finite losses"):
        guard.step(lambda: module(x).sum() * math.inf, 1.0)


def test_the_held_out_evidence_leaves_the_network_alone_and_raises_the_bound():
    rows, held_out = blobs(100, 1), blobs(400, 2)
    model, _ = run("svdkl", rows, held_out, net_rate=1e-2, evidence=False)
    before = {name: value.clone() for name, value in model.net.state_dict().items()}
    score = model.log_predictive(held_out.x, held_out.y).mean().item()
    config = TrainingConfig(evidence_config=EvidenceConfig(steps=100))
    fit_held_out_evidence(model, held_out, config, torch.Generator().manual_seed(0))
    assert all(torch.equal(value, before[name]) for name, value in model.net.state_dict().items())
    assert model.log_predictive(held_out.x, held_out.y).mean().item() > score
    assert {parameter.requires_grad for parameter in model.parameters()} == {True}


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_the_held_out_evidence_finds_a_noise_that_training_has_not_come_down_to(likelihood):
    generator = torch.Generator().manual_seed(0)

    def plane(num_rows: int) -> Rows:
        x = torch.randn(num_rows, 2, generator=generator)
        return Rows(x, x @ torch.tensor([0.8, -0.6]) + 0.01 * torch.randn(num_rows, generator=generator))

    rows, held_out, test = plane(600), plane(1500), plane(300)
    torch.manual_seed(0)
    evidence = EvidenceConfig(steps=30)
    config = TrainingConfig(batch_size=64, pretrain_epochs=15, joint_epochs=3, net_rate=3e-3, evidence_config=evidence)
    net = MLP(2, (32,), 8)
    model = train(net, GPHead(8, 1, likelihood, grid_size=16), rows, held_out, config)
    predicted = model.predict(test.x)
    error = (predicted.mean[:, 0] - test.y).square()
    assert error.mean().sqrt() < 0.1
    assert 0.4 < (error / predicted.variance[:, 0]).mean() < 2


@pytest.mark.parametrize("weight", [None, torch.tensor([0.5, 2.0, 1.5, 0.0, 3.0])])
@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_three_rows_stand_for_the_noise_that_training_ended_with(likelihood, weight):
    torch.manual_seed(0)
    head = GPHead(2, 1, likelihood, grid_size=8).double()
    rows = Rows(torch.randn(5, 2).double(), torch.randn(5).double(), weight)
    counted = torch.ones(5) if weight is None else weight
    with torch.no_grad():
        before = head.predict(rows.x).noise_variance[0, 0]
        squares = (counted * (rows.y - head.predict(rows.x).mean[:, 0]).square()).sum()
        expected = ExpectedNoise(head, 3)
        penalty = -3 * head.likelihood.log_prob(torch.zeros(1, 1).double(), before.sqrt().view(1, 1)).sum()
        close(expected.penalty(), penalty)
        share = expected.start(head, rows, torch.tensor([0.7, 1.3], dtype=torch.float64))
        noise = head.predict(rows.x).noise_variance[0, 0]
    close(noise, (squares + 3 * before) / (counted.sum() + 3))
    outputs = (head.mixing.weight[0].detach() * torch.tensor([0.7, 1.3])).square().sum()
    assert share == pytest.approx(float((noise / outputs).sqrt()))
    classes = ExpectedNoise(GPHead(2, 3, grid_size=8), 3)
    assert classes.penalty() == 0


def test_batches_hold_every_row_once():
    rows = Rows(torch.arange(10.0)[:, None], torch.arange(10), torch.arange(10) / 10)
    source = InMemory(rows)
    batches = list(source.batches(0, 4, torch.Generator().manual_seed(0), ALONE))
    assert len(batches) == source.steps(4)
    assert [len(batch.x) for batch in batches] == [4, 4, 2]
    assert sorted(torch.cat([batch.y for batch in batches]).tolist()) == list(range(10))
    for batch in batches:
        assert torch.equal(batch.x[:, 0].long(), batch.y)
        close(batch.weight, batch.y / 10)
    shares = [
        list(source.batches(0, 4, torch.Generator().manual_seed(0), WorkerGroup(rank, 3))) for rank in range(3)
    ]  # of three processes, whose parts are the same batches
    for whole, *parts in zip(batches, *shares, strict=True):
        assert torch.equal(torch.cat([part.y for part in parts]), whole.y)
        assert [part.part.start for part in parts] == [
            0,
            *torch.tensor([len(p) for p in parts]).cumsum(0).tolist()[:-1],
        ]
        assert {part.part.total for part in parts} == {len(whole)}


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [2, 3, 4, 100])
def test_no_process_ever_has_a_single_row(batch_size, num_workers):
    """A network that normalises over a batch could not take it."""
    for count in range(2, 14):
        source = InMemory(Rows(torch.zeros(count, 1), torch.arange(count)))
        shares = [
            list(source.batches(0, batch_size, torch.Generator().manual_seed(0), WorkerGroup(rank, num_workers)))
            for rank in range(num_workers)
        ]
        assert {len(share) for share in shares} == {source.steps(batch_size)}
        assert sorted(int(y) for share in shares for batch in share for y in batch.y) == list(range(count))
        assert 1 not in {len(batch) for share in shares for batch in share}
        whole = [sum(map(len, parts)) for parts in zip(*shares, strict=True)]
        assert set(whole[:-1]) <= {batch_size}
        assert whole[-1] <= batch_size + 1


def test_batches_of_one_row_stay_what_the_user_typed():
    assert InMemory(Rows(torch.zeros(5, 1), torch.arange(5))).steps(1) == 5


def test_fingerprints_tell_rows_apart():
    x, y, weight = torch.arange(12.0).view(6, 2), torch.arange(6) % 2, torch.ones(6)
    rows = Rows(x, y, weight)
    same = Rows(x.T.contiguous().T, y.clone(), weight.clone())  # another order in memory
    assert same.fingerprint() == rows.fingerprint()
    others = [Rows(x, 1 - y, weight), Rows(x, y), Rows(x, y, 2 * weight), Rows(x.flip(0), y, weight)]
    assert len({rows.fingerprint(), *(other.fingerprint() for other in others)}) == 5
    assert InMemory(rows).facts != InMemory(others[0]).facts


def test_rates_rise_then_fall():
    factors = [rate_factor(step, 100, 10) for step in range(100)]
    assert factors[0] < factors[5] < factors[9] < factors[10] == 1.0
    assert all(later <= earlier for earlier, later in itertools.pairwise(factors[10:]))
    assert factors[-1] < 0.02


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (TrainingConfig, {"recipe": "svm"}),
        (TrainingConfig, {"clip": 0.0}),
        (TrainingConfig, {"net_rate": -1.0}),
        (TrainingConfig, {"net_rate": math.nan}),
        (EvidenceConfig, {"factor_spread": 0.0}),
        (WarmStartConfig, {"rows_seen": -1}),
    ],
)
def test_bad_configurations(kind, options):
    refused(lambda: kind(**options), *options)


def test_callbacks_hear_of_epochs_stages_and_snapshots(tmp_path):
    rows, held_out = blobs(200, 1), blobs(50, 2)
    for recipe, head in (("svdkl", GPHead(4, 3, grid_size=8)), ("dnn", LinearHead(4, 3))):
        epochs, stages, saved = [], {}, []
        config = TrainingConfig(recipe=recipe, pretrain_epochs=2, joint_epochs=1, evidence=False)
        model = train(
            MLP(2, (8,), 4),
            head,
            rows,
            held_out,
            config,
            checkpoint=Checkpoint(tmp_path / recipe, on_save=saved.append),
            on_epoch=lambda epoch, heard=epochs: heard.append((epoch.stage, epoch.epoch)),
            on_stage_end=stages.__setitem__,
        )
        assert model.head is head
        assert [(snapshot.stage, snapshot.numbers["epoch"]) for snapshot in saved] == epochs
        assert list(stages) == (["network", "joint"] if recipe == "svdkl" else ["network"])
        last = list(stages.values())[-1][AS_IS].averaged
        assert all(torch.equal(last[name], tensor) for name, tensor in model.net.state_dict(prefix="net.").items())


@pytest.mark.parametrize("recipe", RECIPES)
def test_more_training_goes_on_and_hears_of_its_own_epochs(recipe):
    rows, held_out = blobs(200, 1), blobs(50, 2)
    model, history = run(recipe, rows, held_out)
    stages, before = {}, model.head.mixing.weight.clone()
    config = TrainingConfig(recipe=recipe, batch_size=64, pretrain_epochs=2, joint_epochs=1, evidence=False)
    train_more(model, InMemory(rows), held_out, config, 400, history, on_stage_end=stages.__setitem__)
    stage = "joint" if recipe in WITH_HEAD else "network"
    assert [(epoch.stage, epoch.epoch) for epoch in history.epochs[-3:]] == [(stage, 1), (stage, 2), (stage, 3)]
    last = stages[stage][AS_IS].averaged
    assert list(stages) == [stage]
    assert torch.equal(model.head.mixing.weight, last["head.mixing.weight"])
    assert any(epoch.kept for epoch in history.epochs[-3:]) != torch.equal(model.head.mixing.weight, before)


def test_a_recipe_needs_its_kind_of_head():
    rows = blobs(20, 1)
    refused(lambda: train(MLP(2, (8,), 4), LinearHead(4, 3), rows, rows, TrainingConfig()), "GPHead", "'svdkl'")
    plain = TrainingConfig(recipe="dnn")
    refused(lambda: train(MLP(2, (8,), 4), GPHead(4, 3, grid_size=8), rows, rows, plain), "LinearHead", "'dnn'")


def test_the_average_of_weights_against_its_definition():
    """m_t = d m_{t-1} + (1 - d) w_t, d = min(decay, t / (9 + t)); buffers too, whole numbers not."""
    module = nn.BatchNorm1d(3)
    average = Average(module, 0.7)
    slow = {name: t.clone() for name, t in module.state_dict().items() if t.is_floating_point()}
    for t in range(1, 31):
        with torch.no_grad():
            for tensor in module.state_dict().values():
                if tensor.is_floating_point():
                    tensor.add_(torch.randn(3))
        average.update()
        d = min(0.7, t / (9 + t))
        slow = {name: d * mean + (1 - d) * module.state_dict()[name] for name, mean in slow.items()}
    trained = {name: t.clone() for name, t in module.state_dict().items()}
    with average.in_place():
        for name, mean in slow.items():
            close(module.state_dict()[name], mean, "float32")
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, trained[name])


def test_a_weight_of_two_names_has_one_average():
    shared = nn.Linear(2, 2)
    module = nn.ModuleList([shared, shared, nn.Linear(2, 2)])
    average, start = Average(module, 0.5), shared.weight.detach().clone()
    with torch.no_grad():
        shared.weight.add_(1)
    average.update()  # 0.1 of the start, 0.9 of what is there now
    for _ in range(2):
        with average.in_place():
            close(shared.weight.detach(), start + 0.9)
        assert torch.equal(shared.weight.detach(), start + 1)
    state = average.state()
    assert state.keys() == module.state_dict().keys()
    assert torch.equal(state["0.weight"], state["1.weight"])
    average.load({name: torch.zeros_like(t) for name, t in state.items()}, 1)
    assert not any(t.any() for t in average.state().values())


def test_views_of_a_weight_keep_what_was_trained():
    layer = nn.Linear(2, 2)
    layer.register_buffer("turned", layer.weight.data.t())
    average, start = Average(layer, 0.5), layer.weight.detach().clone()
    with torch.no_grad():
        layer.weight.add_(1)
    average.update()
    with average.in_place():
        close(layer.weight.detach(), start + 0.9)
    assert torch.equal(layer.weight.detach(), start + 1)


def test_a_network_with_a_second_name_for_a_layer_learns_the_same():
    rows, held_out = blobs(200, 0), blobs(100, 1)
    scores = []
    for names in (1, 2):
        torch.manual_seed(0)
        net = nn.Sequential(MLP(2, (16,), 4), nn.ReLU())
        if names == 2:
            net[1].again = net[0]
        config = TrainingConfig(recipe="dnn", pretrain_epochs=4, batch_size=32, seed=0)
        history = History()
        train(net, LinearHead(4, 3), rows, held_out, config, history=history)
        scores.append([epoch.held_out_nlp for epoch in history.epochs])
    assert scores[0] == scores[1]


def test_the_joint_stage_goes_on_where_the_network_was():
    """Neither the start of the head nor a fresh optimiser costs anything: the first joint epoch is no worse."""
    rows, held_out = blobs(2000, 1), blobs(1000, 2)
    _, history = run("svdkl", rows, held_out, net_rate=3e-3, evidence=False)
    network, joint = history.of("network"), history.of("joint")
    assert joint[0].held_out_nlp < network[-1].held_out_nlp + 2e-3
    # The KL is part of the second loss.
    assert joint[0].train_loss < network[-1].train_loss + 0.6


def test_the_head_learns_as_the_last_layer_would():
    """The gradients of A and b are those of the layer's weights and bias, so its moments go on in them."""
    torch.manual_seed(0)
    head = GPHead(4, 3, grid_size=64)
    features = torch.randn(500, 4) * torch.tensor([0.05, 1.5, 2.0, 3.0]) + torch.tensor([3.0, 0.0, -1.0, 5.0])
    layer = nn.Linear(4, 3)
    start_from_linear(head, features, layer.weight.detach(), layer.bias.detach())
    y = torch.randint(3, (500,))
    of_layer = torch.autograd.grad(nn.functional.cross_entropy(layer(features), y), list(layer.parameters()))
    g = head.mixing(head.gps.marginals(features).mean)
    of_mixing = torch.autograd.grad(nn.functional.cross_entropy(g, y), [head.mixing.weight, head.mixing.bias])
    for ours, theirs in zip(of_mixing, of_layer, strict=True):
        close(ours, theirs, "start")
    shared = {"net.0.weight:step", "head.likelihood.raw:step"}
    moments = dict.fromkeys([*shared, "head.mixing.weight:step", "head.mixing.bias:exp_avg"], y)
    assert shared_moments(moments, head) == moments
    assert set(shared_moments(moments, GPHead(4, 3, dims_per_gp=2, grid_size=16))) == shared


def test_the_papers_form_starts_at_the_identity():
    rows, held_out = blobs(600, 1), blobs(200, 2)
    torch.manual_seed(0)
    net = nn.Sequential(MLP(2, (32,), 8), nn.ReLU(), nn.Linear(8, 3))
    config = TrainingConfig(batch_size=64, pretrain_epochs=4, joint_epochs=0, evidence=False, net_rate=1e-2)
    model = train(net, GPHead(3, 3, gps="outputs", grid_size=32), rows, held_out, config)
    assert torch.equal(model.head.mixing.weight, torch.eye(3))
    close(model.predict_proba(held_out.x), net(held_out.x).softmax(-1), "start")


def test_kernels_take_their_turn():
    """A group's gradients come and go by the step; outside the loop all are there."""
    weights, kernel = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimiser = make_optimiser([{"params": [weights], "rate": 0.1}, {"params": [kernel], "rate": 0.1, "every": 3}])
    changed = []
    for step in range(7):
        choose_groups(optimiser, step)
        before = kernel.detach().clone()
        optimiser.zero_grad()
        (weights * kernel).sum().backward()
        optimiser.step()
        changed.append(not torch.equal(kernel, before))
    assert changed == [True, False, False, True, False, False, True]
    model, _ = run("svdkl", blobs(300, 1), blobs(100, 2), evidence=False)
    assert all(parameter.requires_grad for parameter in model.parameters())
