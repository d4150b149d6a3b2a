"""Likelihoods p(y | g) of the targets y, given the outputs g = A f + b."""

from collections.abc import Callable

from torch.distributions import Distribution

from svdkl.likelihoods.classes import Bernoulli, Softmax
from svdkl.likelihoods.counts import NegativeBinomial, Poisson
from svdkl.likelihoods.likelihood import FunctionLikelihood, Likelihood
from svdkl.likelihoods.real import Gaussian, StudentT
from svdkl.shapes import Tensor

__all__ = [
    "Bernoulli",
    "FunctionLikelihood",
    "Gaussian",
    "Likelihood",
    "LikelihoodLike",
    "NegativeBinomial",
    "Poisson",
    "Softmax",
    "StudentT",
    "build_likelihood",
]

_BY_NAME: dict[str, Callable[[int], Likelihood]] = {
    "softmax": Softmax,
    "bernoulli": Bernoulli,
    "gaussian": Gaussian,
    "student_t": StudentT,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
}

LikelihoodLike = str | Likelihood | Callable[[Tensor], Distribution]


def build_likelihood(spec: LikelihoodLike, num_outputs: int) -> Likelihood:
    """Build a likelihood from its name, itself, or a function from g to a ``torch.distributions.Distribution``."""
    if isinstance(spec, str) and spec in _BY_NAME:
        return _BY_NAME[spec](num_outputs)
    if isinstance(spec, Likelihood):
        if spec.num_outputs != num_outputs:
            raise ValueError(f"Expected a likelihood of {num_outputs} outputs, got one of {spec.num_outputs}.")
        return spec
    if callable(spec) and not isinstance(spec, type):
        return FunctionLikelihood(num_outputs, spec)
    raise ValueError(
        f"Expected a likelihood name ({', '.join(_BY_NAME)}), a Likelihood, or a function from outputs to a "
        f"torch.distributions.Distribution, got {spec!r}."
    )
