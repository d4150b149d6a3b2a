"""A sparse GP starts at the best posterior for its kernel, and at a kernel that suits the rows."""

import gpytorch
import torch
from tolerances import close

from svdkl_research.rivals.sparse_gp import matern_gp
from svdkl_research.rivals.svgp_start import start_kernel, start_posterior


def problem(rows: int = 80):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 2, generator=generator, dtype=torch.float64)
    y = torch.sin(2 * x[:, 0]) + 0.3 + 0.1 * torch.randn(rows, generator=generator, dtype=torch.float64)
    process = matern_gp(x[:12].clone()).double()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = 0.07
    process.covar_module.outputscale = 1.7
    with torch.no_grad():
        process.mean_module.constant.fill_(0.4)
    return x, y, process, likelihood


def test_the_bound_has_no_slope_at_the_best_posterior():
    x, y, process, likelihood = problem()
    bound = gpytorch.mlls.VariationalELBO(likelihood, process, num_data=len(x))
    distribution = process.variational_strategy._variational_distribution
    own = (distribution.variational_mean, distribution.chol_variational_covar)

    def slopes():
        return torch.autograd.grad(bound(process(x), y), own)

    start_posterior(process, likelihood, x, y)
    at_best, value = slopes(), float(bound(process(x), y).detach())
    for slope in at_best:
        close(slope, torch.zeros_like(slope), "jittered")
    with torch.no_grad():
        distribution.variational_mean.mul_(1.01)
    assert slopes()[0].abs().max() > 1e-4
    assert float(bound(process(x), y).detach()) < value


def test_the_kernel_of_a_sample_has_the_larger_marginal_likelihood():
    x, y, process, likelihood = problem()
    before = [parameter.clone() for parameter in process.covar_module.parameters()]
    start_posterior(process, likelihood, x, y)
    bound = gpytorch.mlls.VariationalELBO(likelihood, process, num_data=len(x))
    first = float(bound(process(x), y).detach())
    start_kernel(process, likelihood, x, y, seed=0)
    start_posterior(process, likelihood, x, y)
    process.train()  # forgets the factors of the kernel before
    assert float(bound(process(x), y).detach()) > first + 0.1
    assert all((old != new).any() for old, new in zip(before, process.covar_module.parameters(), strict=True))
    lengthscales = process.covar_module.base_kernel.lengthscale[0].detach()
    assert lengthscales[0] < 0.5 * lengthscales[1]  # the second input does nothing
