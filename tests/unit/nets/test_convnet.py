"""Networks for images: sizes, what they can learn, and what happens to pixels before them."""

import numpy as np
import pytest
import torch
from refusals import refused
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from svdkl.nets.convnet import AlexNet, CifarQuick, LeNet, ResNet
from svdkl.nets.images import CropAndFlip, Standardise, reads_bytes

# Parameters with a last layer of ten classes, as published: Caffe's two, and 0.27 million of ResNet-20.
NETS = {
    "lenet": (LeNet, (1, 28, 28), 500, 431_080),
    "cifar quick": (CifarQuick, (3, 32, 32), 64, 145_578),
    "resnet": (ResNet, (3, 32, 32), 64, 269_722),
    "alexnet": (AlexNet, (3, 64, 64), 256, 2_115_018),
}
each_net = pytest.mark.parametrize(("make", "shape", "features", "parameters"), NETS.values(), ids=NETS)


@each_net
def test_sizes(make, shape, features, parameters):
    net = make()
    assert net.out_features == features
    h = net.eval()(torch.randn(3, *shape))
    assert h.shape == (3, features)
    assert sum(p.numel() for p in [*net.parameters(), *nn.Linear(features, 10).parameters()]) == parameters
    # Signals keep their size from the input to the features.
    h = net.train()(torch.randn(8, *shape))
    assert 0.1 < h.square().mean().sqrt() < 10


@each_net
def test_rows_do_not_depend_on_each_other(make, shape, features, parameters):
    net, x = make().eval(), torch.randn(4, *shape)
    torch.testing.assert_close(net(x)[1:2], net(x[1:2]), rtol=1e-4, atol=1e-5)


@each_net
def test_order_in_memory_changes_nothing(make, shape, features, parameters):
    net, x = make().eval().double(), torch.randn(4, *shape, dtype=torch.float64)
    h = net(x)
    # Channel by channel: neither the images nor the weights as the network wants them.
    plain = make().eval().double().to(memory_format=torch.contiguous_format)
    plain.load_state_dict(net.state_dict())
    weights = [p for p in plain.parameters() if p.dim() == 4]
    assert weights
    assert all(weight.is_contiguous() for weight in weights)
    torch.testing.assert_close(plain(x), h)
    torch.testing.assert_close(net(x.contiguous(memory_format=torch.channels_last)), h)


def test_other_images():
    assert LeNet(3, 32, 10)(torch.randn(2, 3, 32, 32)).shape == (2, 10)
    assert CifarQuick(1, 28, 10)(torch.randn(2, 1, 28, 28)).shape == (2, 10)
    assert AlexNet(3, 49, 10)(torch.randn(2, 3, 49, 49)).shape == (2, 10)
    assert ResNet(8, 1, 4)(torch.randn(2, 1, 15, 15)).shape == (2, 16)
    refused(lambda: LeNet(image_size=12), "16", "12")
    refused(lambda: ResNet(depth=18), "6 n + 2", "18")


def stripes(shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """64 images of noise with bright stripes that lie or stand."""
    x, y = torch.randn(64, *shape), torch.arange(64) % 2
    bright = 2.0 * (torch.arange(shape[1]) % 4 < 2)
    x[y == 0] += bright[:, None]
    x[y == 1] += bright
    return x, y


@each_net
def test_learns_a_toy_set(make, shape, features, parameters):
    size = {LeNet: 28, ResNet: 16}.get(make, 32)
    x, y = stripes((shape[0], size, size))
    net = make() if make is ResNet else make(image_size=size)
    model = nn.Sequential(net, nn.Linear(features, 2))
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    while len(losses) < 40 and (not losses or losses[-1] > 0.1):
        optimiser.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] <= 0.1


def test_pooling_is_that_of_caffe():
    """Windows over the edge divide by the pixels that are there."""
    pool = CifarQuick().layers[5]
    x = torch.arange(16.0).view(1, 1, 4, 4)
    expected = [[x[0, 0, :3, :3].mean(), x[0, 0, :3, 2:].mean()], [x[0, 0, 2:, :3].mean(), x[0, 0, 2:, 2:].mean()]]
    torch.testing.assert_close(pool(x)[0, 0], torch.tensor(expected))


def test_residual_blocks_start_from_the_shortcut():
    net = ResNet(8, 1, 4).eval()
    block, x = net.blocks[1], torch.rand(2, 4, 6, 6)
    nn.init.zeros_(block.branch[-1].weight)
    y = block(x)
    torch.testing.assert_close(y[:, :4], x[:, :, ::2, ::2])
    assert not y[:, 4:].any()


# ------------------------------------------------------------------------------------------------------------ pixels


def test_bytes_become_numbers_of_unit_size():
    random = np.random.default_rng(0)
    images = random.integers(0, 200, (1500, 3, 4, 5), dtype=np.uint8)
    images[:, 1] //= 10
    images[:, 2] = 7
    module = Standardise.of(images)
    x = module(torch.from_numpy(images))
    assert x.dtype == torch.float32
    np.testing.assert_allclose(x.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(x.std((0, 2, 3), correction=0), [1, 1, 0], atol=1e-5)
    torch.testing.assert_close(x, module(torch.from_numpy(images).float()))
    assert reads_bytes(nn.Sequential(module, LeNet()))
    assert not reads_bytes(LeNet())
    refused(lambda: Standardise.of(images[0]), "(N, K, H, W)", "(3, 4, 5)")
    refused(lambda: Standardise([0.0], [0.0]), "deviation above 0")


def all_shifts(image: Tensor, margin: int) -> list[Tensor]:
    """Every crop of an image with a margin of zeros."""
    _, height, width = image.shape
    padded = pad(image, [margin] * 4)
    places = range(2 * margin + 1)
    return [padded[:, top : top + height, left : left + width] for top in places for left in places]


@pytest.mark.parametrize("flip", [False, True])
def test_augmented_images_are_shifts_and_mirror_images(flip):
    image = torch.arange(1.0, 61.0).view(3, 4, 5)
    allowed = all_shifts(image, 1)
    if flip:
        allowed += [shifted.flip(2) for shifted in allowed]
    count = 1800
    found = CropAndFlip(1, flip)(image.expand(count, 3, 4, 5))
    counts = [int((found == one).all((1, 2, 3)).sum()) for one in allowed]
    assert sum(counts) == count
    # All alike: each is binomial about its share, within five standard deviations.
    share = 1 / len(allowed)
    assert max(abs(n - count * share) for n in counts) < 5 * (count * share * (1 - share)) ** 0.5


def test_augmentation_follows_the_seed_and_rests_in_evaluation():
    x = torch.randn(50, 3, 8, 8)
    module = CropAndFlip(2)
    torch.manual_seed(3)
    first, other = module(x), module(x)
    torch.manual_seed(3)
    assert torch.equal(module(x), first)
    assert not torch.equal(first, other)
    assert module.eval()(x) is x
    refused(lambda: CropAndFlip(-1), "at least 0", "-1")
