"""Networks from inputs x, rows of a table or images, to features h."""

from svdkl.nets.convnet import AlexNet, CifarQuick, LeNet, ResNet
from svdkl.nets.images import CropAndFlip, Standardise
from svdkl.nets.mlp import MLP
from svdkl.nets.tabular import TabularNet

__all__ = ["MLP", "AlexNet", "CifarQuick", "CropAndFlip", "LeNet", "ResNet", "Standardise", "TabularNet"]
