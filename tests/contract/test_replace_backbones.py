"""replace_classifier on image backbones with the attributes of torchvision's and timm's, small and untrained but for
their batch statistics.
"""

from collections.abc import Callable

import pytest
import torch
from tolerances import close
from torch import Tensor, nn

from svdkl import replace_classifier
from svdkl.nets.convnet import ResNet

CLASSES = 5


class TorchvisionResNet(nn.Module):
    """conv1, bn1, relu, maxpool, layer1, ..., avgpool, fc."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(2)
        self.layer1 = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class TorchvisionVGG(nn.Module):
    """features, avgpool, classifier of several layers with dropout, as AlexNet has it too."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.avgpool = nn.AdaptiveAvgPool2d(2)
        self.classifier = nn.Sequential(
            nn.Linear(32, 16), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(16, 12), nn.ReLU(inplace=True)
        )
        self.classifier.extend([nn.Dropout(), nn.Linear(12, CLASSES)])

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class TorchvisionDenseNet(nn.Module):
    """features that end in a norm, an activation that is a function, a linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, 8, 3))
        self.features.add_module("norm5", nn.BatchNorm2d(8))
        self.classifier = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.relu(self.features(x), inplace=True)
        return self.classifier(torch.flatten(nn.functional.adaptive_avg_pool2d(h, 1), 1))


class TorchvisionViT(nn.Module):
    """A class token before the patches, and heads, a Sequential with a layer called head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, 16, 4, stride=4)
        self.class_token = nn.Parameter(torch.randn(1, 1, 16))
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(16, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), patches], 1)
        return self.heads(self.encoder(tokens)[:, 0])


class Timm(nn.Module):
    """forward_features and forward_head, and a head that get_classifier gives."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 4, stride=4), nn.GroupNorm(1, 8)
        self.global_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head_drop, self.head = nn.Dropout(0.2), head

    def get_classifier(self) -> nn.Module:
        return self.head

    def forward_features(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(self.norm(self.stem(x)))

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        x = self.head_drop(self.global_pool(x))
        return x if pre_logits else self.head(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))


class NormedHead(nn.Module):
    """A head with a norm of its own before the layer, as of timm's ConvNeXt."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.fc = nn.LayerNorm(8), nn.Dropout(0.1), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.drop(self.norm(x)))


BACKBONES: dict[str, Callable[[], nn.Module]] = {
    "torchvision resnet": TorchvisionResNet,
    "torchvision vgg": TorchvisionVGG,
    "torchvision densenet": TorchvisionDenseNet,
    "torchvision vit": TorchvisionViT,
    "timm": lambda: Timm(nn.Linear(8, CLASSES)),
    "timm convnext": lambda: Timm(NormedHead()),
    "our resnet": lambda: nn.Sequential(ResNet(8, 3, 4), nn.Linear(16, CLASSES)),
}


@pytest.mark.parametrize("name", BACKBONES)
def test_starts_equal_and_trains_on(name: str) -> None:
    torch.manual_seed(0)
    net, x, y = BACKBONES[name](), torch.randn(300, 3, 16, 16), torch.arange(300) % CLASSES
    with torch.no_grad():
        for _ in range(5):
            net(x)  # running statistics of batches
    net.eval()
    expected = net(x).softmax(1).detach()
    model = replace_classifier(net, x[:200], grid_size=32)
    close(model.predict_proba(x), expected, "start")
    torch.testing.assert_close(net(x).softmax(1), expected)

    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    bounds = []
    for _ in range(5):
        optimiser.zero_grad()
        torch.manual_seed(1)  # the same dropout in every step
        elbo = model.elbo(x, y, 300.0, generator=torch.Generator().manual_seed(0))
        (-elbo.value).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.net.parameters())
        optimiser.step()
        bounds.append(elbo.value.item())
    assert bounds[-1] > bounds[0]


def test_what_timm_calls_the_classifier_is_gone() -> None:
    net = Timm(nn.Linear(8, CLASSES)).eval()
    model = replace_classifier(net, torch.randn(100, 3, 16, 16))
    assert isinstance(model.net.get_classifier(), nn.Identity)
    assert isinstance(net.get_classifier(), nn.Linear)
    x = torch.randn(4, 3, 16, 16)
    features = model.net.forward_head(model.net.forward_features(x), pre_logits=True)
    torch.testing.assert_close(model.net(x), features)
