"""scikit-learn's own checks of an estimator, all of them, and the tools that people use estimators with."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_regression
from sklearn.ensemble import VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from svdkl import SVDKLClassifier, SVDKLRegressor

# Small, so that a hundred fits take a minute. The held-out share is such that the check with a thousand epochs, on 50
# rows, has rows to stop early by.
SMALL = {
    "hidden": (32,),
    "num_features": 8,
    "grid_size": 8,
    "max_iter": 12,
    "learning_rate_init": 2e-2,
    "batch_size": 64,
    "validation_fraction": 0.2,
    "evidence": False,
    "random_state": 0,
}


@parametrize_with_checks([SVDKLClassifier(**SMALL), SVDKLRegressor(**SMALL)])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def irises():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


def test_in_a_pipeline(irises):
    X, y = irises
    pipeline = make_pipeline(StandardScaler(), SVDKLClassifier(**SMALL)).fit(X, y)
    assert pipeline.score(X, y) > 0.9
    assert set(pipeline.predict(X)) <= set(y)


def test_in_a_grid_search_of_two_processes(irises):
    X, y = irises
    grid = {"recipe": ["dnn", "svdkl"]}
    search = GridSearchCV(SVDKLClassifier(**SMALL), grid, cv=2, n_jobs=2, scoring="neg_log_loss")
    search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.score(X, y) > 0.9


def test_cross_validated_predictions(irises):
    X, y = irises
    probabilities = cross_val_predict(SVDKLClassifier(**SMALL), X, y, cv=3, method="predict_proba")
    assert (np.unique(y)[probabilities.argmax(1)] == y).mean() > 0.8  # of rows not fitted; a third by chance


def test_calibrated_and_voting_classifiers(irises):
    X, y = irises
    assert CalibratedClassifierCV(SVDKLClassifier(**SMALL), cv=2).fit(X, y).score(X, y) > 0.8  # a third by chance
    members = [("svdkl", SVDKLClassifier(**SMALL)), ("linear", LogisticRegression(max_iter=500))]
    assert VotingClassifier(members, voting="soft").fit(X, y).score(X, y) > 0.9


def test_permutation_importance():
    X, y = make_regression(200, 3, n_informative=1, random_state=0, shuffle=False)
    model = SVDKLRegressor(**SMALL).fit(X, y)
    importance = permutation_importance(model, X, y, n_repeats=3, random_state=0).importances_mean
    assert importance[0] > 10 * max(importance[1:])


def test_clones_are_unfitted_and_equal(irises):
    X, y = irises
    model = SVDKLClassifier(**SMALL).fit(X, y)
    copy = clone(model)
    assert not copy.__sklearn_is_fitted__()
    assert copy.get_params() == model.get_params()
    assert np.array_equal(copy.fit(X, y).predict_proba(X), model.predict_proba(X))
