"""The whole bound against dense algebra, with M, K, S and L of every GP written out, for D = 1, 2, 3."""

import dense
import pytest
import torch
from tolerances import close

from svdkl import GPHead

LAYOUTS = {1: (3, (6,)), 2: (4, (5, 4)), 3: (6, (4, 5, 4))}
B, C, N = 7, 3, 50


class Dense:
    """A head's parameters as dense float64 matrices that stay differentiable."""

    def __init__(self, num_dims: int, whitened: bool, estimator: str = "joint", num_samples: int = 4):
        num_features, sizes = LAYOUTS[num_dims]
        self.head = GPHead(
            num_features,
            C,
            dims_per_gp=num_dims,
            grid_size=sizes,
            whitened=whitened,
            estimator=estimator,
            num_samples=num_samples,
            jitter=1e-3,
            posterior_scale=0.5,
        ).double()
        with torch.no_grad():
            for parameter in self.head.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        self.sizes = sizes
        self.gps = self.head.gps.banks[0].gps
        self.h = torch.randn(B, num_features, dtype=torch.float64, requires_grad=True)
        self.y = torch.randint(C, (B,))

    def matrices(self, j: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """M, K, mu and L of GP j, with S = L L^T."""
        kernel = self.gps.kernel
        variance = kernel.log_variance[j].exp()
        factors = []
        for axis, size in zip(kernel.axes, self.sizes, strict=True):
            lengthscale = axis.log_lengthscale[j].exp()
            k_d = dense.kernel_matrix(
                [lambda r, s=lengthscale: torch.exp(-0.5 * (r / s) ** 2)], torch.ones(()), (size,)
            )
            factors.append(k_d + 1e-3 * torch.eye(size, dtype=torch.float64))
        k = variance * dense.kron(*factors)
        raw = [factor.raw[j] for factor in self.gps.posterior.factors]
        lower = [r.tril(-1) + torch.diag(torch.nn.functional.softplus(r.diagonal())) for r in raw]
        big_l, mu = dense.kron(*lower), self.gps.posterior.mean[j].flatten()
        if self.gps.posterior.whitened:
            root = variance.sqrt() * dense.kron(*(torch.linalg.cholesky(factor) for factor in factors))
            big_l, mu = root @ big_l, root @ mu
        z = self.head.gps.bounding(self.h)[:, list(self.head.gps.groups[j])]
        half = torch.tensor([(size - 3) / 2 for size in self.sizes], dtype=torch.float64)
        centre = torch.tensor([(size - 1) / 2 for size in self.sizes], dtype=torch.float64)
        return dense.interpolation_matrix(z * half + centre, self.sizes), k, mu, big_l

    def kl(self) -> torch.Tensor:
        terms = []
        for j in range(self.head.gps.num_gps):
            _, k, mu, big_l = self.matrices(j)
            terms.append(dense.kl_gaussians(mu, big_l @ big_l.T, k))
        return torch.stack(terms).sum()

    def log_softmax(self, f: torch.Tensor) -> torch.Tensor:
        logits = f @ self.head.mixing.weight.T + self.head.mixing.bias
        return logits.log_softmax(-1)[..., torch.arange(B), self.y]

    def parameters(self) -> list[torch.Tensor]:
        return [self.h, *self.head.parameters()]


@pytest.mark.parametrize("num_dims", [1, 2, 3])
@pytest.mark.parametrize("whitened", [True, False])
def test_the_papers_estimate_with_its_own_noise(num_dims, whitened):
    """L = N/(TB) sum_t sum_i log p(y_i | f_i^(t)) - KL, f^(t) = M (mu + L eps^(t)); value and all gradients."""
    model = Dense(num_dims, whitened)
    num_samples, num_gps = 4, model.head.gps.num_gps
    actual = model.head.elbo(model.h, model.y, num_data=N, generator=torch.Generator().manual_seed(3))

    noise = torch.randn(
        num_samples, num_gps, *model.sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
    ).flatten(2)
    f = []
    for j in range(num_gps):
        m, _, mu, big_l = model.matrices(j)
        f.append((mu + noise[:, j] @ big_l.T) @ m.T)
    total = N / (num_samples * B) * model.log_softmax(torch.stack(f, -1)).sum() - model.kl()
    close(actual.value * N, total, "jittered")
    close(actual.value, actual.expected_log_likelihood - actual.kl)
    gradients = torch.autograd.grad(actual.value * N, model.parameters())
    for gradient, wanted in zip(gradients, torch.autograd.grad(total, model.parameters()), strict=True):
        close(gradient, wanted, "jittered")


@pytest.mark.parametrize("num_dims", [1, 2, 3])
def test_the_marginal_estimate_with_its_own_noise(num_dims):
    """f_ij = M_i mu + sqrt(M_i S M_i^T) eps_ij; value and all gradients."""
    model = Dense(num_dims, whitened=True, estimator="marginal", num_samples=2)
    actual = model.head.elbo(model.h, model.y, num_data=N, generator=torch.Generator().manual_seed(4))
    noise = torch.randn(2, B, model.head.gps.num_gps, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    f = []
    for j in range(model.head.gps.num_gps):
        m, _, mu, big_l = model.matrices(j)
        variance = ((m @ big_l) ** 2).sum(-1)
        f.append(m @ mu + variance.sqrt() * noise[:, :, j])
    total = model.log_softmax(torch.stack(f, -1)).mean() - model.kl() / N
    close(actual.value, total, "jittered")
    gradients = torch.autograd.grad(actual.value, model.parameters())
    for gradient, wanted in zip(gradients, torch.autograd.grad(total, model.parameters()), strict=True):
        close(gradient, wanted, "jittered")


@pytest.mark.parametrize("num_dims", [1, 2, 3])
def test_the_appendix_gradient_of_the_likelihood_term(num_dims):
    """For an element lambda of L_d of GP j: E[(sum_c 1(y_ic = 1) A_cj - p_c A_cj) M_i (grad_lambda L) eps].

    The paper's fraction has the label's own probability in place of p_c inside the sum over classes; the derivative of
    log softmax needs sum_c p_c A_cj.
    """
    model = Dense(num_dims, whitened=False, num_samples=1)
    gps, j, d = model.gps, 1, num_dims - 1
    factor = gps.posterior.factors[d]
    elbo = model.head.elbo(model.h, model.y, num_data=1e300, generator=torch.Generator().manual_seed(5))
    (autograd,) = torch.autograd.grad(elbo.value, factor.raw)

    shape = (1, model.head.gps.num_gps, *model.sizes)
    noise = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).flatten(2)[0]
    with torch.no_grad():
        f = []
        for k in range(model.head.gps.num_gps):
            m, _, mu, big_l = model.matrices(k)
            f.append(m @ (mu + big_l @ noise[k]))
        a = model.head.mixing.weight
        p = (torch.stack(f, -1) @ a.T + model.head.mixing.bias).softmax(-1)
        slope = a[model.y, j] - p @ a[:, j]
        m, _, _, _ = model.matrices(j)
        lower = [layer.dense()[j] for layer in gps.posterior.factors]
        for row, column in ((2, 1), (3, 0), (2, 2)):
            unit = torch.zeros_like(lower[d])
            unit[row, column] = 1.0
            derivative = dense.kron(*(unit if k == d else one for k, one in enumerate(lower)))
            expected = (slope * (m @ derivative @ noise[j])).mean()
            if row == column:  # the diagonal is softplus of its parameter
                expected = expected * torch.sigmoid(factor.raw[j, row, column])
            close(autograd[j, row, column], expected)


def test_the_appendix_gradient_for_the_whole_factor_at_one_dimension():
    """D = 1: the gradient of L^(j) is E[slope_i (eps M_i)^T], an outer product for each row."""
    model = Dense(1, whitened=False, num_samples=1)
    factor = model.gps.posterior.factors[0]
    elbo = model.head.elbo(model.h, model.y, num_data=1e300, generator=torch.Generator().manual_seed(6))
    (autograd,) = torch.autograd.grad(elbo.value, factor.raw)
    noise = torch.randn(1, 3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(6))[0]
    with torch.no_grad():
        rows = [model.matrices(j) for j in range(3)]
        f = torch.stack([m @ (mu + big_l @ noise[j]) for j, (m, _, mu, big_l) in enumerate(rows)], -1)
        a = model.head.mixing.weight
        p = (f @ a.T + model.head.mixing.bias).softmax(-1)
        for j in range(3):
            slope = a[model.y, j] - p @ a[:, j]
            expected = torch.einsum("i,ip,q->pq", slope, rows[j][0], noise[j]) / B
            close(autograd[j].tril(-1), expected.tril(-1))
            diagonal = expected.diagonal() * torch.sigmoid(factor.raw[j].diagonal())
            close(autograd[j].diagonal(), diagonal)
