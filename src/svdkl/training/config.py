"""What a training run may be told, as one value."""

import math
from dataclasses import dataclass, fields

RECIPES = ("dnn", "dnn_plus", "dnn_gp", "svdkl")


@dataclass(frozen=True)
class TrainingConfig:
    """The recipe and its numbers. Every recipe sees the same number of epochs in all, in the same order of rows.

    Attributes
    ----------
    recipe
        "dnn": the network with its own last layer, for the whole budget. "dnn_plus": the same with one more layer.
        "dnn_gp": network first, then the head on frozen features. "svdkl": network first, then all jointly.
    pretrain_epochs, joint_epochs
        Budget of the two stages; early stopping may end each sooner.
    evidence
        Whether the head's posterior is fitted once more to the held-out rows (recipes with a head).
    net_rate, variational_rate, kernel_rate, mixing_rate
        Step sizes of the parameter groups. The network's is divided by ``joint_slowdown`` in the joint stage.
    patience
        Epochs without a better held-out score after which a stage ends.
    clip
        Largest norm of the gradient.
    kl_warmup
        Share of the joint stage over which the KL is faded in.
    """

    recipe: str = "svdkl"
    pretrain_epochs: int = 20
    joint_epochs: int = 10
    batch_size: int = 1024
    net_rate: float = 1e-3
    joint_slowdown: float = 3.0
    variational_rate: float = 5e-3
    kernel_rate: float = 5e-3
    mixing_rate: float = 1e-3
    weight_decay: float = 0.0
    warmup_steps: int = 50
    clip: float = 5.0
    patience: int = 5
    kl_warmup: float = 0.0
    evidence: bool = True
    evidence_steps: int = 200
    evidence_rate: float = 2e-2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise ValueError(f"Expected recipe to be one of {', '.join(RECIPES)}, got {self.recipe!r}.")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"Expected {field.name} to be finite and at least 0, got {value}.")
        for name in ("batch_size", "joint_slowdown", "clip", "patience"):
            if getattr(self, name) <= 0:
                raise ValueError(f"Expected {name} to be above 0, got {getattr(self, name)}.")
