"""All settings of a training run, as one value."""

import math
from dataclasses import dataclass, fields

NETWORK, JOINT = "network", "joint"  # names of the stages
RECIPES = ("dnn", "dnn_plus", "dnn_gp", "svdkl")
WITH_HEAD = ("dnn_gp", "svdkl")


def _check_numbers(config: "TrainingConfig | WarmStartConfig | EvidenceConfig", *above_zero: str) -> None:
    """Raise a ValueError for the first number that is negative or not finite, or zero where that cannot be."""
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, (int, float)) and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"Expected {field.name} to be finite and at least 0, got {value}.")
    for name in above_zero:
        value = getattr(config, name)
        if value is not None and value <= 0:
            raise ValueError(f"Expected {name} to be above 0, got {value}.")


@dataclass(frozen=True)
class WarmStartConfig:
    """How a head starts that is to equal a linear layer; see :func:`svdkl.training.warm_start.start_from_linear`.

    Attributes
    ----------
    rows_seen
        q(u) starts as the posterior after so many rows, with noise as large as the features' spread. So q is narrow
        where the sample has rows and the prior elsewhere, and ``ood_score`` means something from the first step.
    narrow
        Deviation of f at the start, in units of the features' spread, for families that cannot hold that posterior.
        Small beside the spread, so that these start near the layer too.
    longest, longest_on_ring
        Longest lengthscale to start from, as a share of the axis. A function on a ring has to come back to where it
        starts across the ring's gap, so its lengthscale is shorter.
    long_period
        Period that a periodic kernel starts from, as a share of the axis. Above 1 no function is forced to repeat.
    """

    rows_seen: int = 30_000
    narrow: float = 0.03
    longest: float = 0.5
    longest_on_ring: float = 0.03
    long_period: float = 2.5

    def __post_init__(self) -> None:
        _check_numbers(self, "narrow", "longest", "longest_on_ring", "long_period")


@dataclass(frozen=True)
class EvidenceConfig:
    """How the posterior is fitted once more to held-out rows; see :mod:`svdkl.training.evidence`.

    Attributes
    ----------
    steps, rate
        Steps, and the size of the first one. A step takes milliseconds, since the features are computed once.
    amplitude
        How far a function is expected to be off its centre at the start, at most, as a share of its own spread. The
        network has learned the function, so it is less than all of the spread.
    factor_spread
        Prior deviation of the logarithm of the factor on all outputs. A few held-out rows that are all predicted well
        are no proof of certainty, so the factor stays near 1 until many rows tell otherwise.
    expected_rows
        Rows that the noise at the end of training counts for. That held-out rows are few and all hit closely is no
        proof that none is far off; where they are many, three more are nothing.
    max_rows, max_values
        Rows of a step at most, and rows times GPs. More than that add little to the gradient of so few parameters.
    """

    steps: int = 200
    rate: float = 2e-2
    amplitude: float = 0.3
    factor_spread: float = 0.3
    expected_rows: int = 3
    max_rows: int = 16_384
    max_values: int = 819_200

    def __post_init__(self) -> None:
        _check_numbers(self, "amplitude", "factor_spread", "max_rows", "max_values")


@dataclass(frozen=True)
class TrainingConfig:
    """The recipe and its numbers. The network sees the same number of epochs in all recipes.

    Attributes
    ----------
    recipe
        "dnn": the network with a linear head. "dnn_plus": the same, for a network that has one more layer. "dnn_gp": as
        "dnn", then GPs on the frozen features. "svdkl": the network first, then network and GPs jointly.
    pretrain_epochs, joint_epochs
        Epochs of the two stages of "svdkl" at most; early stopping may end each sooner. Plain networks have as many
        epochs as both together. GPs on frozen features have ``joint_epochs`` more, with a schedule of their own.
    evidence
        Whether the posterior is fitted once more to the held-out rows, in recipes with GPs. For classes, epochs are
        then chosen by their held-out score after a temperature.
    batch_size, joint_batch_size
        Rows of a step, and of a step in which GPs take part; None for as many.
    net_rate, variational_rate, kernel_rate
        Step sizes at the top of the schedule, which warms up and then falls to the end of the run. Rates of the network
        and the mixing go on falling through the joint stage. Posterior and kernels are new there and have a schedule of
        their own. A step of k times as many rows has rates larger by the root of k.
    patience
        A stage ends after so many epochs without a better held-out score.
    averaging
        Decay of the running average of all weights, in a step of ``batch_size`` rows; 0 for none. The average is
        scored and kept. 0.998 reaches back over 500 steps: single states lie around a better one, and their average
        is near it long before small steps would get there.
    averaging_start
        After n steps the decay is n / (n + averaging_start) at most, so that the first, poor weights are soon
        forgotten.
    kernel_every
        Kernels take part in one step of so many: they change slowly, and their gradient is a notable part of the cost
        of a head.
    clip
        Largest norm of the gradient.
    temperature_spread
        Prior deviation of the logarithm of the temperature in held-out scores. Without a prior, rows that are all
        predicted right have no best temperature above zero.
    warm_start_config, evidence_config
        The numbers of the second and the fourth stage.
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
    averaging_start: int = 9
    kernel_every: int = 4
    warmup_steps: int = 50
    clip: float = 5.0
    patience: int = 5
    evidence: bool = True
    temperature_spread: float = 0.5
    warm_start_config: WarmStartConfig = WarmStartConfig()
    evidence_config: EvidenceConfig = EvidenceConfig()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise ValueError(f"Expected recipe to be one of {', '.join(RECIPES)}, got {self.recipe!r}.")
        _check_numbers(self, "batch_size", "joint_batch_size", "kernel_every", "clip", "patience", "temperature_spread")
        if self.averaging >= 1:
            raise ValueError(f"Expected averaging, what a step leaves of the average, below 1, got {self.averaging}.")

    @property
    def epochs(self) -> int:
        """Epochs of the network at most, and so of the schedule of its rates."""
        return self.pretrain_epochs + self.joint_epochs

    @property
    def network_epochs(self) -> int:
        """Epochs of the first stage: before GPs join the network, or all."""
        return self.pretrain_epochs if self.recipe == "svdkl" else self.epochs

    @property
    def epochs_in_all(self) -> int:
        """Epochs of all stages together."""
        return self.network_epochs + (self.joint_epochs if self.recipe in WITH_HEAD else 0)
