"""MC-GP: "MCMC for variationally sparse Gaussian processes" (Hensman et al., 2015), by pyro's Hamiltonian Monte Carlo.

The chain samples the whitened inducing values v of each latent, u = R v with K_mm = R Rᵀ, and the logarithms of the
amplitude and the lengthscales of the RBF kernel that the latents share. The inducing inputs stay at centres of k-means.
The log joint is

    log p(v) + log p(θ) + Σ_i E log p(y_i | f_i),   f_i | u Gaussian

with the expectation by quadrature under the probit for two classes, and by a few fixed points under the softmax for
more. Every step needs all rows, so a large set is cut down to random rows; the findings say how many. Adam on
minibatches finds a mode first, since a chain from anywhere else would spend its time on the way there.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from pyro.infer import HMC
from pyro.ops.integrator import potential_grad

from svdkl.gp.quadrature import normal_points, standard_deviation
from svdkl.shapes import Float, Int, Tensor
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import ClassBaseline, Floats, Labels
from svdkl_research.rivals.klsp_gp import expected_log_likelihood
from svdkl_research.rivals.matrix import COMPONENTS, input_matrix
from svdkl_research.rivals.savi_gp import rbf_factors
from svdkl_research.rivals.sparse_classifier import PREDICTED_AT_ONCE, predictive
from svdkl_research.rivals.sparse_gp import cluster_centres
from svdkl_research.rivals.svm import some_of_each_class

State = dict[str, Tensor]  # v (L, m), log_lengthscale (d), log_amplitude ()

LEAPS = 15  # leapfrog steps of one move
FIRST_STEP = 1e-2
POINTS = 8  # fixed points of the expectation under the softmax
BATCH, RATE = 500, 0.03  # minibatch size and first learning rate of Adam
START = 0.25  # largest share of the seconds for Adam
WARM = 0.5  # share of the seconds after which the chain's step size is fixed
KEPT = 50  # most states of the chain over which predictions average, to bound their time


class Leapfrog(HMC):
    """HMC with a fixed number of steps a move: pyro's moves have a fixed length, which small steps never reach."""

    @property
    def num_steps(self) -> int:
        """Number of leapfrog steps of a move."""
        return LEAPS


class SampledGPClassifier(ClassBaseline):
    """MC-GP, on the same inputs as KLSP-GP.

    Parameters
    ----------
    inducing
        Most inducing points.
    rows
        Most training rows that it is fitted to.
    start_steps
        Steps of Adam towards a mode.
    warm_up, moves
        Moves of the chain before its step size is fixed, and after.
    seconds
        Processor seconds of all threads together. Each part ends early when its share of them is used up.
    components
        Most principal components that stand for an image.
    """

    def __init__(
        self,
        inducing: int = 200,
        rows: int = 10_000,
        start_steps: int = 1500,
        warm_up: int = 100,
        moves: int = 300,
        seconds: float = 1200.0,
        components: int = COMPONENTS,
    ) -> None:
        self.inducing, self.rows, self.components, self.seconds = inducing, rows, components, seconds
        self.start_steps, self.warm_up, self.moves = start_steps, warm_up, moves
        self.found: dict[str, Any] = {}

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Find a mode, then run the chain for the rest of the budget."""
        begun = time.process_time()
        self.classes = int(max(y.max(), y_held_out.max())) + 1
        if self.classes < 2:
            raise ValueError("Expected rows of at least two classes for mc_gp, got one.")
        random = np.random.default_rng(seed)
        chosen = some_of_each_class(y, self.rows, random)
        self.matrix = input_matrix(X, self.components, seed)
        x = self._expand(self.matrix.code(X)[chosen])
        labels = torch.tensor(y[chosen].astype(np.int64))
        self.centres = cluster_centres(x.float(), self.inducing, seed).double()
        # Rows lie about √(2 Σ_d var x_d) apart: lengthscales start there, at the centre of their prior.
        self.log_unit = x.var(0, correction=0).sum().clamp(min=1e-6).sqrt().log()

        def used() -> float:
            return (time.process_time() - begun) / self.seconds

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            mode, steps = self._mode(x, labels, used)
            self.states = [mode]
            held_out = self._expand(self.matrix.code(X_held_out)), y_held_out.astype(np.int64)
            at_mode = self._score(*held_out)
            chain = self._sample(mode, x, labels, used)
        scores = {"held_out_nlp": self._score(*held_out), "held_out_nlp_of_the_mode": at_mode}
        counts = {"rows": len(x), "of_rows": len(y), "start_steps": steps}
        self.found = {**counts, **chain, **scores, **self.matrix.findings}

    def predict_proba(self, X: Inputs) -> Floats:
        """Return the class probabilities of each row, shape (rows, C), averaged over the states of the chain."""
        return self._probabilities(self._expand(self.matrix.code(X)))

    def settings(self) -> dict[str, Any]:
        """Return sizes and budget."""
        chain = {"start_steps": self.start_steps, "warm_up": self.warm_up, "moves": self.moves, "leaps": LEAPS}
        sizes = {"inducing": self.inducing, "rows": self.rows, "seconds": self.seconds}
        return {**sizes, **chain, "kernel": "rbf, ARD, one for all classes"}

    def findings(self) -> dict[str, Any]:
        """Return the chain's length and acceptance rate, and the number of rows fitted."""
        return dict(self.found)

    def potential(self, state: State, x: Tensor, labels: Tensor, num_rows: int) -> Tensor:
        """Return −log joint, up to a constant, estimated from some of the rows; θ is log-normal."""
        mean, variance = self._latents(state, x)
        fit = num_rows / len(x) * expected(mean, variance, labels).sum()
        prior = state["v"].square().sum() + (state["log_lengthscale"] - self.log_unit).square().sum()
        return 0.5 * (prior + state["log_amplitude"].square()) - fit

    def _mode(self, x: Tensor, labels: Tensor, used: Callable[[], float]) -> tuple[State, int]:
        state = {
            "v": torch.zeros(1 if self.classes == 2 else self.classes, len(self.centres), dtype=x.dtype),
            "log_lengthscale": self.log_unit.repeat(x.shape[1]),
            "log_amplitude": torch.zeros((), dtype=x.dtype),
        }
        optimiser = torch.optim.Adam([value.requires_grad_() for value in state.values()], lr=RATE)
        steps, spent = 0, 0.0
        while spent < 1:
            batch = torch.randint(len(x), (min(BATCH, len(x)),))
            for group in optimiser.param_groups:
                group["lr"] = RATE * (1 - spent)
            optimiser.zero_grad()
            self.potential(state, x[batch], labels[batch], len(x)).backward()
            optimiser.step()
            steps += 1
            spent = max(steps / self.start_steps, used() / START)
        return {name: value.detach() for name, value in state.items()}, steps

    def _sample(self, mode: State, x: Tensor, labels: Tensor, used: Callable[[], float]) -> dict[str, Any]:
        """Run the chain, keep some of its states, and return counts and acceptance rate."""

        def potential(place: State) -> Tensor:
            return self.potential(place, x, labels, len(x))

        # pyro has to know the number of warm-up moves before they start.
        before = used()
        potential_grad(potential, mode)
        affordable = int((WARM - used()) / (LEAPS * (used() - before) + 1e-9))
        warm_up = max(0, min(self.warm_up, affordable))
        kernel = Leapfrog(potential_fn=potential, step_size=FIRST_STEP)
        kernel.initial_params = mode
        kernel.setup(warm_up)
        state = mode
        states: list[State] = []
        for _ in range(warm_up):
            state = kernel.sample(state)
        while len(states) < self.moves and (used() < 1 or not states):
            state = kernel.sample(state)
            states.append(state)
        self.states = [states[place] for place in np.unique(np.linspace(0, len(states) - 1, KEPT).astype(int))]
        by_time = len(states) < self.moves or warm_up < self.warm_up
        accepted = kernel.diagnostics()["acceptance rate"]
        found = {"warm_up": warm_up, "moves": len(states), "ended_by_time": by_time, "accepted": accepted}
        return {**found, "step_size": float(kernel.step_size)}

    def _latents(self, state: State, x: Float[Tensor, "B d"]) -> tuple[Float[Tensor, "B L"], Float[Tensor, "B L"]]:
        """Return means and variances of each f_i | u."""
        amplitude = state["log_amplitude"].exp()
        _, W = rbf_factors(x, self.centres[None], state["log_lengthscale"].exp()[None], amplitude[None])
        mean = (state["v"] @ W[0]).T
        return mean, (amplitude.square() - W[0].square().sum(0)).clamp(min=0)[:, None].expand_as(mean)

    def _expand(self, codes: Floats) -> Tensor:
        return torch.from_numpy(self.matrix.expand(codes)).double()

    def _score(self, x: Tensor, labels: Labels) -> float:
        p = self._probabilities(x)
        return float(-np.log(p[np.arange(len(p)), labels]).mean())

    @torch.no_grad()
    def _probabilities(self, x: Tensor) -> Floats:
        def mean_of(rows: Tensor) -> Tensor:
            return torch.stack([predictive(*self._latents(state, rows)) for state in self.states]).mean(0)

        return torch.cat([mean_of(rows) for rows in x.split(PREDICTED_AT_ONCE)]).numpy()


def expected(
    mean: Float[Tensor, "B L"], variance: Float[Tensor, "B L"], labels: Int[Tensor, "B"]
) -> Float[Tensor, "B"]:
    """Return E log p(y | f) of each row, always the same number for a state, as a chain needs it."""
    if mean.shape[1] == 1:
        return expected_log_likelihood(mean, variance, labels, torch.default_generator)
    points = normal_points(POINTS, mean.shape[1]).to(mean.dtype)
    log_p = (mean + standard_deviation(variance) * points[:, None]).log_softmax(2).mean(0)
    return log_p.gather(1, labels[:, None])[:, 0]
