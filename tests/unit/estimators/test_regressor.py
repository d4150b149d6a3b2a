"""The regressor: distributions in the targets' own units."""

import numpy as np
import pytest
import torch
from refusals import refused

from svdkl import SVDKLRegressor
from svdkl.estimators.building import training_config
from svdkl.estimators.dry_run import plan_fit
from svdkl.estimators.fitting import trial_epochs
from svdkl.estimators.options import Options
from svdkl.estimators.targets import Reals

SMALL = {
    "hidden": (32,),
    "num_features": 8,
    "grid_size": 8,
    "max_iter": 30,
    "learning_rate_init": 2e-2,
    "batch_size": 64,
    "evidence": False,
    "random_state": 0,
}
LIKELIHOODS = ["gaussian", "student_t", "poisson", "negative_binomial"]


def waves(num_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (num_rows, 2))
    return X, 1.5 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=num_rows)


def counts(num_rows=300, seed=0):
    X, _ = waves(num_rows, seed)
    return X, np.random.default_rng(seed).poisson(np.exp(0.5 * X[:, 0] + 0.7)).astype(float)


@pytest.fixture(scope="module")
def fitted():
    return SVDKLRegressor(**SMALL).fit(*waves())


def test_mean_deviation_and_density(fitted):
    X, y = waves(seed=1)
    mean, deviation = fitted.predict(X, return_std=True)
    assert mean.shape == deviation.shape == (300,)
    assert fitted.score(X, y) > 0.85
    # The density is that of a normal distribution with these moments.
    expected = -0.5 * ((y - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(fitted.log_predictive(X, y), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_units_of_the_targets_do_not_matter(likelihood):
    X, y = waves()
    one = SVDKLRegressor(**SMALL, likelihood=likelihood).fit(X, y)
    other = SVDKLRegressor(**SMALL, likelihood=likelihood).fit(X, 1000 * y + 5e4)
    mean, deviation = one.predict(X, return_std=True)
    other_mean, other_deviation = other.predict(X, return_std=True)
    np.testing.assert_allclose(other_mean, 1000 * mean + 5e4, rtol=1e-3)
    np.testing.assert_allclose(other_deviation, 1000 * deviation, rtol=1e-2)
    np.testing.assert_allclose(
        other.log_predictive(X, 1000 * y + 5e4), one.log_predictive(X, y) - np.log(1000), rtol=1e-2, atol=1e-2
    )
    np.testing.assert_allclose(other.predict_quantiles(X), 1000 * one.predict_quantiles(X) + 5e4, rtol=1e-3)
    parts, other_parts = one.predict_uncertainty(X), other.predict_uncertainty(X)
    np.testing.assert_allclose(other_parts.total, 1e6 * parts.total, rtol=2e-2)
    np.testing.assert_allclose(parts.total, deviation**2, rtol=1e-4)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_densities_sum_to_one(likelihood):
    counted = likelihood in ("poisson", "negative_binomial")
    X, y = counts() if counted else waves()
    model = SVDKLRegressor(**SMALL, likelihood=likelihood).fit(X, y)
    grid = np.arange(200.0) if counted else np.linspace(-60, 60, 6001)
    density = np.exp(model.log_predictive(np.repeat(X[:1], len(grid), 0), grid))
    assert density.sum() * (1 if counted else 0.02) == pytest.approx(1, abs=1e-3)
    # ... and to the quantiles.
    low, middle, high = model.predict_quantiles(X[:1], (0.1, 0.5, 0.8))[0]
    for level, value in ((0.1, low), (0.5, middle), (0.8, high)):
        at_most = density[grid <= value + 1e-9].sum() * (1 if counted else 0.02)
        assert at_most >= level - 0.02
        assert counted or at_most <= level + 0.02


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_quantiles_cover_new_rows(likelihood):
    data = counts if likelihood in ("poisson", "negative_binomial") else waves
    model = SVDKLRegressor(**{**SMALL, "evidence": True}, likelihood=likelihood).fit(*data(600))
    X, y = data(600, seed=1)
    low, high = model.predict_quantiles(X, (0.05, 0.95)).T
    assert 0.84 < ((y >= low) & (y <= high)).mean() < 0.98


def test_draws_are_of_the_predictive_distribution(fitted):
    X, _ = waves(400, seed=2)
    draws = fitted.sample_y(X, 2000, random_state=0)
    mean, deviation = fitted.predict(X, return_std=True)
    assert draws.shape == (400, 2000)
    np.testing.assert_allclose(draws.mean(1), mean, atol=6 * deviation.max() / np.sqrt(2000))
    np.testing.assert_allclose(draws.std(1), deviation, rtol=0.12)
    assert np.array_equal(fitted.sample_y(X, 3, random_state=1), fitted.sample_y(X, 3, random_state=1))
    assert not np.array_equal(fitted.sample_y(X, 3, random_state=1), fitted.sample_y(X, 3, random_state=2))


def test_a_draw_is_one_function_for_all_rows():
    X, y = waves(60)
    model = SVDKLRegressor(**SMALL).fit(X, y)
    model.model_.head.likelihood.log_noise.data.fill_(-30.0)
    draws = model.sample_y(np.repeat(X[:1], 600, 0), 5)  # in three parts
    assert draws[0].std() > 0
    np.testing.assert_allclose(draws, np.repeat(draws[:1], 600, 0), rtol=1e-6)


def test_many_targets_at_once():
    X, y = waves()
    Y = np.stack([y, 100 - 3 * y, X[:, 0]], 1)
    model = SVDKLRegressor(**SMALL).fit(X, Y)
    mean, deviation = model.predict(X, return_std=True)
    assert mean.shape == deviation.shape == (300, 3)
    assert model.score(X, Y) > 0.85
    assert model.n_outputs_ == 3
    assert model.predict_quantiles(X[:7], (0.1, 0.9)).shape == (7, 3, 2)
    assert model.sample_y(X[:7], 4).shape == (7, 3, 4)
    assert model.log_predictive(X, Y).shape == (300,)
    parts = model.predict_uncertainty(X[:7])
    assert parts.total.shape == parts.latent_variance.shape == (7, 3)
    assert parts.ood_score.shape == (7,)
    assert SVDKLRegressor(**SMALL).fit(X, Y[:, :1]).predict(X[:5]).shape == (5, 1)
    refused(lambda: model.log_predictive(X, Y[:, :2]), "3 target(s)")


def test_draws_of_several_targets_have_the_covariance_of_the_mixed_processes():
    """Cov g = A diag(Var f) Aᵀ: targets share their processes."""
    X, y = waves(60)
    model = SVDKLRegressor(**SMALL).fit(X, np.stack([y, 3 - 2 * y], 1))
    head = model.model_.head
    head.likelihood.log_noise.data.fill_(-30.0)
    head.mixing.weight.data[1] = -0.6 * head.mixing.weight.data[0].roll(1) - 0.5 * head.mixing.weight.data[0]
    draws = model.sample_y(X[:1], 20_000)[0]
    with torch.no_grad():
        variance = head.gps.marginals(model.model_.net(model.encoder_.transform(X[:1]))).variance[0]
        weight = torch.tensor(model.target_scale_)[:, None] * head.mixing.weight.double()
        expected = ((weight * variance.double()) @ weight.T).numpy()
    tolerance = 0.05 * np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert (np.abs(np.cov(draws) - expected) < tolerance).all()
    assert np.abs(expected[0, 1]) > 2 * tolerance[0, 1]  # independent targets would not do


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_counts_stay_counts(likelihood):
    X, y = counts()
    model = SVDKLRegressor(**SMALL, likelihood=likelihood).fit(X, y)
    assert model.target_scale_.tolist() == [1.0]
    assert (model.predict(X) > 0).all()
    for values in (model.predict_quantiles(X[:50]), model.sample_y(X[:50], 9)):
        assert (values >= 0).all()
        assert np.array_equal(values, np.floor(values))
    rates = np.exp(0.5 * X[:, 0] + 0.7)
    assert np.corrcoef(model.predict(X), rates)[0, 1] > 0.8
    refused(lambda: model.fit(X, np.where(y == y.max(), 2.5, y)), "2.5", "gaussian")
    refused(lambda: model.fit(X, np.where(y == y.max(), -1, y)), "-1", "counts")


@pytest.mark.parametrize("gps", ["features", "outputs"])
@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_large_counts_are_learned_as_fast_as_small_ones(likelihood, gps):
    """Their rate starts at the mean of the rows, not at 1; for several targets each at its own."""
    X, _ = waves()
    rate = np.exp(np.stack([0.3 * X[:, 0] + 11, 0.3 * X[:, 1]], 1))
    y = np.random.default_rng(0).poisson(rate)
    model = SVDKLRegressor(**{**SMALL, "max_iter": 3}, likelihood=likelihood, gps=gps, encoding="plain").fit(X, y)
    np.testing.assert_allclose(model.predict(X).mean(0), y.mean(0), rtol=0.3)
    weighted = SVDKLRegressor(**{**SMALL, "max_iter": 1, "learning_rate_init": 1e-9}, likelihood=likelihood, gps=gps)
    weighted.fit(X, y[:, 0], sample_weight=np.where(y[:, 0] > np.median(y[:, 0]), 0.5, 1e-6))
    assert weighted.predict(X).mean() > 1.1 * y[:, 0].mean()


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_targets_of_no_earthly_unit_are_refused(size):
    X, y = waves(60)
    refused(lambda: SVDKLRegressor(**SMALL).fit(X, y * size), "size", "another unit")


def test_targets_of_large_units_have_variances_too():
    X, y = waves(60)
    one, other = (SVDKLRegressor(**{**SMALL, "max_iter": 2}).fit(X, y * size) for size in (1.0, 2.0**300))
    assert np.array_equal(other.predict(X), one.predict(X) * 2.0**300)
    assert np.array_equal(other.predict_uncertainty(X).total, one.predict_uncertainty(X).total * 2.0**600)
    refused(lambda: one.partial_fit(X, y * 1e60), "single precision")
    refused(lambda: SVDKLRegressor(**SMALL, likelihood="poisson").fit(X, np.full(60, 1e60)), "single precision")


def test_a_single_level_has_no_axis(fitted):
    X, _ = waves(40)
    assert np.array_equal(fitted.predict_quantiles(X, 0.3), fitted.predict_quantiles(X, [0.3])[:, 0])
    assert fitted.predict_quantiles(X, np.float32(0.3)).shape == (40,)


@pytest.mark.parametrize("constant", [42.0, 0.1])  # of which the mean of 80 is another number
def test_a_constant_target_is_predicted(constant):
    X, _ = waves(80)
    model = SVDKLRegressor(**SMALL).fit(X, np.full(80, constant))
    assert model.target_scale_.tolist() == [1.0]
    np.testing.assert_allclose(model.predict(X), constant, atol=0.2)


def test_bad_input_is_refused(fitted):
    X, y = waves(40)
    refused(lambda: SVDKLRegressor(**SMALL, likelihood="softmax").fit(X, y), "softmax")
    for levels in ((0.0, 0.5), (1.0,), (-1.0,), ((0.5,),), 1.5, (), "half", None, [float("nan")]):
        refused(lambda levels=levels: fitted.predict_quantiles(X, levels), "levels")
    for number in (0, 2.5, "two", None, True):
        refused(lambda number=number: fitted.sample_y(X, number), "n_samples")
    assert fitted.sample_y(X[:3], np.int64(2)).shape == (3, 2)
    refused(lambda: SVDKLRegressor(**SMALL, recipe="dnn").fit(X, y).predict_uncertainty(X), "recipe='dnn'")
    with pytest.raises(ValueError, match="y contains NaN"):
        fitted.fit(X, np.full(40, np.nan))


def test_short_runs_choose_the_encoding_that_the_targets_want():
    """Bins for a target that jumps, plain numbers for one that is smooth in several of them at once."""
    random = np.random.default_rng(3)
    x = random.uniform(-1, 1, size=(900, 8))
    jumps = np.floor(7 * x[:, 0]) % 2 + np.floor(9 * x[:, 1]) % 2
    smooth = np.sin(1.5 * x.sum(1))
    chosen = []
    for y in (jumps, smooth):
        model = SVDKLRegressor(**{**SMALL, "learning_rate_init": 5e-3, "recipe": "dnn"})
        chosen.append(model.fit(x, y + 0.05 * random.normal(size=900)).fitted_.network["encoding"])
    assert chosen == ["piecewise", "plain"]


def test_a_plan_counts_the_short_runs(monkeypatch):
    x, y = np.random.default_rng(0).normal(size=(2, 200, 1))
    seconds = {}
    for epochs in (0, 10**6):
        monkeypatch.setattr("svdkl.estimators.dry_run.trial_epochs", lambda *others, epochs=epochs: epochs)
        options = Options(hidden=[4], num_features=2, grid_size=8, max_iter=10)
        seconds[epochs] = plan_fit(options, Reals, x, y[:, 0], 200).seconds
    assert seconds[10**6] > 1000 * seconds[0]
    config = training_config(Options(max_iter=50), "regression", 200, True, 0)
    assert trial_epochs(Options(), "regression", 200, config) == 10
    assert trial_epochs(Options(encoding="both"), "regression", 200, config) == 0
    assert trial_epochs(Options(), "classification", 200, config) == 0


def test_no_runs_where_the_encoding_is_given_or_no_rows_are_held_out(monkeypatch):
    monkeypatch.setattr("svdkl.estimators.fitting._try_encodings", None)
    x, y = np.random.default_rng(0).normal(size=(2, 200, 1))
    with pytest.raises(TypeError, match="not callable"):  # they would be run
        SVDKLRegressor(hidden=(4,), num_features=2, grid_size=8, max_iter=6).fit(x, y[:, 0])
    for options in ({"encoding": "both"}, {"early_stopping": False, "evidence": False}, {"max_iter": 5}):
        model = SVDKLRegressor(**{"hidden": (4,), "num_features": 2, "grid_size": 8, "max_iter": 6, **options})
        model.fit(x, y[:, 0])
        assert model.fitted_.network["encoding"] == options.get("encoding", "piecewise")
