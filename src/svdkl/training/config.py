"""What a training run may be told, as one value."""

import math
from dataclasses import dataclass, fields

NETWORK, JOINT = "network", "joint"  # names of the stages
RECIPES = ("dnn", "dnn_plus", "dnn_gp", "svdkl")
WITH_HEAD = ("dnn_gp", "svdkl")


@dataclass(frozen=True)
class TrainingConfig:
    """The recipe and its numbers. With every recipe the network may see the same number of epochs in all.

    Attributes
    ----------
    recipe
        "dnn": the network with its own last layer, for the whole budget. "dnn_plus": the same with one more layer.
        "dnn_gp": the first, then the head on its frozen features. "svdkl": network first, then all jointly.
    pretrain_epochs, joint_epochs
        Budget of the two stages of "svdkl"; early stopping may end each sooner. Plain networks have as many epochs as
        both; a head on frozen features has ``joint_epochs`` more, with a schedule of its own.
    evidence
        Whether the head's posterior is fitted once more to the held-out rows (recipes with a head). For classes, epochs
        are then chosen by their held-out score after a temperature.
    batch_size, joint_batch_size
        Rows of a step, and of one in which processes take part; as many, if it is None.
    net_rate, variational_rate, kernel_rate
        Step sizes of the parameter groups at the top of the schedule, which warms up and then falls to the end of the
        run, whatever its stages. The network's and the mixing's go on falling through the joint stage; posterior and
        kernels, which are new there, have a schedule of their own. In steps of ``joint_batch_size`` rows all are larger
        by the root of what these are to ``batch_size``.
    patience
        Epochs without a better held-out score after which a stage ends.
    averaging
        Decay of the running average of all weights, which is what is scored and kept, in a step of ``batch_size`` rows;
        0 for none.
    clip
        Largest norm of the gradient.
    """

    recipe: str = "svdkl"
    pretrain_epochs: int = 20
    joint_epochs: int = 10
    batch_size: int = 1024
    joint_batch_size: int | None = None
    net_rate: float = 1e-3
    variational_rate: float = 1e-3
    kernel_rate: float = 1e-3
    weight_decay: float = 0.1
    averaging: float = 0.998
    warmup_steps: int = 50
    clip: float = 5.0
    patience: int = 5
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
        for name in ("batch_size", "joint_batch_size", "clip", "patience"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"Expected {name} to be above 0, got {value}.")
        if self.averaging >= 1:
            raise ValueError(f"Expected averaging, what a step leaves of the average, below 1, got {self.averaging}.")

    @property
    def epochs(self) -> int:
        """Of the network, and so of the schedule of its rates."""
        return self.pretrain_epochs + self.joint_epochs

    @property
    def network_epochs(self) -> int:
        """Of the first stage: those before a head joins, else all."""
        return self.pretrain_epochs if self.recipe == "svdkl" else self.epochs

    @property
    def epochs_in_all(self) -> int:
        """Of all stages, one after the other."""
        return self.network_epochs + (self.joint_epochs if self.recipe in WITH_HEAD else 0)
