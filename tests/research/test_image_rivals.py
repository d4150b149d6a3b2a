"""Rivals on images: GPs on components of pixels, Laplace and ensembles of networks, and images from elsewhere."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from digits import digits
from refusals import refused
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from svdkl.metrics import accuracy, negative_log_probability
from svdkl_research.datasets import ImageSet, mnist
from svdkl_research.pages.tables import suite_tables
from svdkl_research.rivals import make_image_baseline
from svdkl_research.rivals.d_gplvm import LatentVariableClassifier, LatentVariableModel, divergence
from svdkl_research.rivals.ensemble import EnsembleClassifier
from svdkl_research.rivals.image_networks import BUDGETS, ImageClassifier
from svdkl_research.rivals.interface import ClassBaseline, doubt
from svdkl_research.rivals.klsp_gp import SparseGPClassifier, expected_log_likelihood
from svdkl_research.rivals.laplace import LaplaceClassifier
from svdkl_research.rivals.matrix import PixelMatrix
from svdkl_research.rivals.mc_gp import SampledGPClassifier, expected
from svdkl_research.rivals.savi_gp import MixtureGPClassifier, MixtureGPs, sampled_log_likelihood
from svdkl_research.suites import task as tasks
from svdkl_research.suites.all_suites import get_suite
from svdkl_research.suites.results import read_results
from svdkl_research.suites.suite import Task
from svdkl_research.suites.task import run_task, strange_images, tell_apart

SMALL = {"components": 20, "seconds": 1e6}
GPS = {
    "klsp_gp": partial(SparseGPClassifier, inducing=25, steps=30, batch_size=200, rate=0.2, **SMALL),
    "savi_gp": partial(MixtureGPClassifier, inducing=25, steps=30, batch_size=200, rate=0.2, **SMALL),
    "mc_gp": partial(SampledGPClassifier, inducing=25, rows=250, start_steps=40, warm_up=6, moves=4, **SMALL),
    "d_gplvm": partial(LatentVariableClassifier, latents=3, inducing=8, rows=250, steps=20, row_steps=5, **SMALL),
}


# -------------------------------------------------------------------------------------------------------- GPs on pixels


@pytest.mark.parametrize("name", GPS)
def test_gps_learn_digits(name):
    X, y = digits()
    X, y = X[y < 5], y[y < 5]
    model = GPS[name]()
    assert isinstance(model, ClassBaseline)
    model.fit(X[:300], y[:300], X[300:400], y[300:400], seed=0)
    p = model.predict_proba(X[400:600])
    assert p.shape == (200, 5)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-9)
    assert accuracy(p, y[400:600]) > 0.85
    assert negative_log_probability(p, y[400:600]) < 0.6
    np.testing.assert_allclose(model.predict_proba(X[400:403]), p[:3], atol=1e-4)
    found = model.findings()
    assert found["components"] == 20
    assert 0.7 < found["variance_kept"] < 1
    if name in ("mc_gp", "d_gplvm"):
        assert (found["rows"], found["of_rows"]) == (250, 300)
    assert isinstance(make_image_baseline(name, "mnist"), type(model))
    assert set(make_image_baseline(name, "mnist").settings()) == set(model.settings())


@pytest.mark.parametrize("name", GPS)
def test_two_classes_and_seeds(name):
    X, y = digits()
    y = y % 2
    answers = []
    for _ in range(2):
        model = GPS[name]()
        model.fit(X[:200], y[:200], X[200:300], y[200:300], seed=3)
        answers.append(model.predict_proba(X[300:400]))
    assert answers[0].shape == (100, 2)
    assert accuracy(answers[0], y[300:400]) > 0.75
    np.testing.assert_array_equal(*answers)
    refused(lambda: model.fit(X[:50], 0 * y[:50], X[:50], 0 * y[:50], 0), "two classes", name)


def test_components_are_those_of_the_rows_to_fit():
    X, _ = digits()
    matrix = PixelMatrix(X[:500], 10, seed=0)
    codes = matrix.code(X[:500])
    assert codes.shape == (500, 10)
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes.mean(0), 0, atol=1e-4)
    assert codes.var(0, ddof=1).mean() == pytest.approx(1, rel=1e-4)
    # Directions at right angles: distances are those of the images, as far as the components hold them.
    flat = X[:500].reshape(500, -1) / 255 / matrix.scale
    whole = np.square(flat - flat.mean(0)).sum()
    assert np.square(codes).sum() / whole == pytest.approx(matrix.findings["variance_kept"], rel=1e-3)
    np.testing.assert_allclose(matrix.code(X[500:501]), matrix.code(X[500:600])[:1], atol=1e-5)
    assert PixelMatrix(X[:5], 50, seed=0).components == 5


def test_budgets_of_seconds_end_the_fits():
    X, y = digits()
    for name in ("mc_gp", "d_gplvm"):
        model = GPS[name]()
        model.seconds = 0.3
        model.steps = model.start_steps = model.moves = 10**9
        model.fit(X[:150], y[:150] % 2, X[150:200], y[150:200] % 2, 0)
        assert model.findings()["ended_by_time"], name


# ------------------------------------------------------------------------------------------------------------ SAVI-GP


def mixture(count: int) -> MixtureGPs:
    gps = MixtureGPs(torch.randn(5, 2), 3, count, 1.5, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in (gps.v, gps.log_variance, gps.log_amplitude):
            parameter.add_(0.3 * torch.randn_like(parameter))
    return gps


def test_the_bound_of_one_gaussian_is_its_divergence():
    gps = mixture(1)
    R, _ = gps.factors(torch.randn(1, 2))
    S = torch.diag_embed(gps.log_variance[0].double().exp())
    m = torch.einsum("lpq,lq->lp", R, gps.v[0].double())
    kl = kl_divergence(MultivariateNormal(m, S), MultivariateNormal(torch.zeros_like(m), scale_tril=R)).sum()
    # The bound on a single Gaussian's entropy is too low by (1 - log 2) / 2 for each number.
    torch.testing.assert_close(gps.prior_terms(R), -kl - 0.5 * 15 * (1 - np.log(2)), atol=1e-5, rtol=1e-6)


def test_gaussians_far_apart_have_the_entropy_of_the_choice():
    gps = mixture(2)
    with torch.no_grad():
        gps.v[1] += 100
        gps.log_weight.copy_(torch.tensor([0.0, 1.0]))
    weight = gps.log_weight.detach().double().softmax(0)
    R, _ = gps.factors(torch.randn(1, 2))
    single = []
    for k in range(2):
        alone = mixture(1)
        alone.load_state_dict({**gps.state_dict(), **one_of(gps, k)})
        single.append(alone.prior_terms(R).detach())
    expected_value = weight @ torch.stack(single) - (weight * weight.log()).sum()
    torch.testing.assert_close(gps.prior_terms(R).detach(), expected_value, rtol=1e-6, atol=1e-4)


def one_of(gps: MixtureGPs, k: int) -> dict[str, torch.Tensor]:
    part = {"v": gps.v[k : k + 1], "log_variance": gps.log_variance[k : k + 1]}
    return {**part, "log_weight": gps.log_weight[:1]}


def test_marginals_are_those_of_the_mixtures_gaussians():
    gps = mixture(2)
    x = torch.randn(4, 2)
    R, W = gps.factors(x)
    mean, variance = gps.marginals(R, W)
    amplitude = gps.log_amplitude.exp().double()
    scale = gps.log_lengthscale.exp().double()
    for lat in range(3):
        z, rows = gps.inducing[lat].double() / scale[lat], x.double() / scale[lat]
        K_nm = amplitude[lat] ** 2 * (-0.5 * torch.cdist(rows, z).square()).exp()
        A = K_nm @ (R[lat] @ R[lat].T).inverse()
        for k in range(2):
            s = gps.log_variance[k, lat].double().exp()
            own = amplitude[lat] ** 2 - (A * K_nm).sum(1) + (A.square() * s).sum(1)
            torch.testing.assert_close(variance[k, :, lat].double(), own, rtol=1e-3, atol=1e-4)
            m = A @ R[lat] @ gps.v[k, lat].double()
            torch.testing.assert_close(mean[k, :, lat].double(), m, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("latents", [1, 3])
def test_expectations_are_alike_in_all_rivals(latents):
    many = 40_000
    mean, variance = torch.tensor([[0.7, -0.3, 1.0]])[:, :latents], torch.tensor([[0.5, 2.0, 1.0]])[:, :latents]
    mean, variance = mean.expand(many, -1), variance.expand(many, -1)
    for label in range(2):
        labels = torch.full((many,), label)
        values = [
            function(mean, variance, labels, torch.Generator().manual_seed(0)).mean()
            for function in (expected_log_likelihood, sampled_log_likelihood)
        ]
        torch.testing.assert_close(values[0], values[1], atol=1e-2, rtol=0)
        fixed = expected(mean[:1], variance[:1], labels[:1])[0]
        torch.testing.assert_close(fixed, values[0], atol=8e-2, rtol=0)  # eight points for three numbers
        assert torch.equal(fixed, expected(mean[:1], variance[:1], labels[:1])[0])


# -------------------------------------------------------------------------------------------------------------- MC-GP


def test_the_chain_has_the_posterior_of_a_model_that_is_known(monkeypatch):
    """With a Gaussian likelihood in place of the classes the inducing values' posterior has a closed form."""
    monkeypatch.setattr(
        "svdkl_research.rivals.mc_gp.expected",
        lambda mean, variance, labels: -0.5 * ((labels - mean[:, 0]).square() + variance[:, 0]) / 0.1,
    )
    monkeypatch.setattr("svdkl_research.rivals.mc_gp.KEPT", 10**6)
    monkeypatch.setattr("svdkl_research.rivals.mc_gp.LEAPS", 4)
    model = SampledGPClassifier(inducing=3, warm_up=60, moves=250, seconds=1e6)
    model.classes, model.log_unit = 2, torch.zeros((), dtype=torch.float64)
    model.centres = torch.tensor([[-1.0], [0.0], [1.0]]).double()
    x, y = torch.linspace(-1, 1, 6).double()[:, None], torch.tensor([1, 1, 0, 0, 1, 1])
    fixed = {"log_lengthscale": torch.zeros(1).double(), "log_amplitude": torch.zeros(()).double()}
    whole = model.potential
    # θ is held: its prior is as narrow as a point.
    monkeypatch.setattr(model, "potential", lambda state, *rest: whole({**fixed, "v": state["v"]}, *rest))
    found = model._sample({"v": torch.zeros(1, 3).double()}, x, y, lambda: 0.0)
    v = torch.stack([state["v"][0] for state in model.states])
    assert len(v) == found["moves"] == 250
    assert found["accepted"] > 0.5
    eye = torch.eye(3).double()
    W = torch.stack([model._latents({**fixed, "v": row[None]}, x)[0][:, 0] for row in eye])  # f = Wᵀ v
    covariance = (eye + W @ W.T / 0.1).inverse()
    mean = covariance @ W @ y.double() / 0.1
    deviation = covariance.diagonal().sqrt()
    assert ((v.mean(0) - mean).abs() < 0.4 * deviation).all()
    np.testing.assert_allclose(v.std(0) / deviation, 1, atol=0.3)


# ------------------------------------------------------------------------------------------------------------ D-GPLVM


def latent_model() -> LatentVariableModel:
    model = LatentVariableModel(torch.randn(8, 5).double(), latents=2, inducing=8, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def test_statistics_of_the_kernel_are_those_of_samples():
    model = latent_model()
    mean, variance = model.mean[:1].detach(), model.log_variance[:1].detach().exp()
    psi1, psi2 = model._statistics(mean, variance)
    x = Normal(mean, variance.sqrt()).sample((200_000,))[:, 0]
    scale = model.log_lengthscale.exp()
    k = (2 * model.log_amplitude).exp() * (-0.5 * torch.cdist(x / scale, model.inducing / scale).square()).exp()
    i, j = model.pairs
    torch.testing.assert_close(psi1[0], k.mean(0), rtol=2e-2, atol=1e-3)
    torch.testing.assert_close(psi2[0], (k[:, i] * k[:, j]).mean(0), rtol=2e-2, atol=1e-3)


def test_the_bound_is_the_evidence_where_nothing_is_left_out():
    """Latents without spread at the inducing points: the model is a GP, and a row's bound adds up to its density."""
    model = latent_model()
    with torch.no_grad():
        model.log_variance.fill_(-25)
        model.inducing.copy_(model.mean)
    x = model.mean / model.log_lengthscale.exp()
    noise = model.log_noise.exp() * torch.eye(8).double()
    K = (2 * model.log_amplitude).exp() * (-0.5 * torch.cdist(x, x).square()).exp() + noise
    exact = MultivariateNormal(torch.zeros(8).double(), K).log_prob(model.Y.T).sum()
    kl = divergence(model.mean, model.log_variance).sum()
    torch.testing.assert_close(model.bound() + kl, exact, rtol=1e-4, atol=1e-3)
    # And a new row at a latent of the old: N(y; E f, noise) less the uncertainty of f.
    with torch.no_grad():
        prediction = (K - noise) @ K.inverse() @ model.Y
        left = (K - noise - (K - noise) @ K.inverse() @ (K - noise)).diagonal()
    model.finish()
    own = Normal(prediction, model.log_noise.exp().sqrt()).log_prob(model.Y + 1).sum(1)
    own = own - 0.5 * 5 * left / model.log_noise.exp() - divergence(model.mean, model.log_variance)
    found = model._row_bounds(model.Y + 1, model.mean, model.log_variance)
    torch.testing.assert_close(found, own, rtol=1e-3, atol=1e-2)
    assert (model.log_densities(model.Y + 1, steps=30) > found - 1e-6).all()


# ---------------------------------------------------------------------------------------------- networks, and elsewhere


@pytest.fixture
def few_digits(few_digits, monkeypatch):
    """The digits in the place of MNIST, and noise in that of notMNIST."""
    monkeypatch.setattr(mnist, "LETTER_COUNTS", (5,) * 10)
    noise = np.random.default_rng(0).integers(0, 255, (50, 28, 28), dtype=np.uint8)
    np.savez(few_digits / "notmnist_test.npz", x_test=noise, y_test=np.arange(50) % 10)
    return few_digits


def test_laplace_on_images(few_digits, monkeypatch):
    monkeypatch.setitem(BUDGETS, "mnist", replace(BUDGETS["mnist"], padding=0))  # few digits are learned as they are
    X, y = digits(28)
    model = LaplaceClassifier(ImageClassifier("mnist", 12, recipe="dnn", learning_rate_init=5e-3))
    model.fit(X[:600], y[:600], X[600:700], y[600:700], seed=0)
    p, plain = model.predict_proba(X[1000:1100]), model.network.predict_proba(X[1000:1100])
    assert accuracy(p, y[1000:1100]) > 0.8
    assert np.mean(p.argmax(1) == plain.argmax(1)) > 0.97
    assert p.max(1).mean() < plain.max(1).mean() - 1e-4
    assert model.settings()["budget"]["network"] == "lenet"
    np.testing.assert_allclose(model.predict_proba(X[1000:1001]), p[:1], atol=1e-6)


def test_a_task_looks_at_images_from_elsewhere(few_digits):
    suite = replace(get_suite("images"), max_epochs=3)
    results, scratch = few_digits / "results", few_digits / "scratch"
    run_task(suite, Task(suite.name, "mnist", "cnn", 0, 0), results, scratch, few_digits)
    found = {result.model: result for result in read_results(results, suite)}
    for name in ("cnn", "dnn_temperature", "laplace"):
        metrics = found[name].metrics
        assert metrics["ood_auroc"] > 0.5
        assert 0 <= metrics["ood_fpr95"] < 1
        assert metrics["n_elsewhere"] == 50
        assert found[name].config["elsewhere"] == "notmnist"
    page = suite_tables(suite, results)
    assert "## mnist, against images of notmnist" in page
    assert "| network, temperature | 1 - largest probability |" in page


def test_scores_of_gps_and_of_members():
    X, y = digits(28)
    model = ImageClassifier("mnist", 1, recipe="svdkl", evidence=False, grid_size=8, max_iter=1)
    model.fit(X[:60], y[:60], X[60:90], y[60:90], seed=0)
    scores, told = model.ood_scores(X[90:100]), model.estimator.predict_uncertainty(X[90:100])
    assert list(scores) == ["doubt", "total", "epistemic", "ood_score"]
    np.testing.assert_allclose(scores["doubt"], 1 - model.predict_proba(X[90:100]).max(1), atol=1e-6)
    np.testing.assert_array_equal(scores["ood_score"], told.ood_score)
    members = iter([_Fixed([0.9, 0.1]), _Fixed([0.1, 0.9])])
    scores = EnsembleClassifier(lambda: next(members), 2).ood_scores(X[:1])
    entropy = -0.9 * np.log(0.9) - 0.1 * np.log(0.1)
    expected_scores = {"doubt": 0.5, "total": np.log(2), "epistemic": np.log(2) - entropy}
    assert {name: score[0] for name, score in scores.items()} == pytest.approx(expected_scores)


class _Fixed(ClassBaseline):
    def __init__(self, p: list[float]) -> None:
        self.p = p

    def fit(self, *arguments: object, **options: object) -> None:
        pass

    def settings(self) -> dict:
        return {}

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.tile(self.p, (len(X), 1))


def test_where_the_other_set_is_not_there_nothing_is_measured_on_it(few_digits, capsys):
    (few_digits / "notmnist_test.npz").unlink()
    digits_set = mnist.load_mnist(few_digits)
    assert strange_images(digits_set, few_digits) is None
    assert "notMNIST" in capsys.readouterr().out
    assert strange_images(replace(digits_set, name="svhn"), few_digits) is None


def test_strange_images_have_the_size_of_the_set_and_none_of_its_classes(monkeypatch):
    images = np.zeros((3, 3, 64, 64), np.uint8)
    images[0, :, ::2, ::2], images[0, :, 1::2, ::2] = 100, 20  # means of 30 over blocks of four
    other = ImageSet("tiny_imagenet20", images, np.array([0, 1, 2]), ("pizza", "bullfrog", "lemon"), np.zeros(3))
    monkeypatch.setattr(tasks, "load_dataset", lambda name, data_dir: other if name == "tiny_imagenet20" else None)
    own = ImageSet("cifar10", np.zeros((1, 3, 32, 32), np.uint8), np.array([0]), ("cat",), np.zeros(1))
    strange = strange_images(own, None)
    assert strange.shape == (2, 3, 32, 32)
    assert strange.dtype == np.uint8
    assert (strange[0] == 30).all()
    assert not strange[1].any()


def test_doubt_keeps_its_digits_and_scores_their_names():
    p = np.array([[1 - 3e-20, 2e-20, 1e-20], [0.2, 0.5, 0.3]])
    np.testing.assert_allclose(doubt(p), [3e-20, 0.5])
    inside, outside = (
        {"doubt": np.array([0.1, 0.2]), "total": np.array([1.0, 2.0])},
        {
            "doubt": np.array([0.3, 0.4, 0.5]),
            "total": np.array([0.0, 0.1, 3.0]),
        },
    )
    assert tell_apart(inside, outside) == {
        "ood_auroc": 1.0,
        "ood_fpr95": 0.0,
        "ood_auroc_total": pytest.approx(1 / 3),
        "ood_fpr95_total": pytest.approx(2 / 3),
    }
