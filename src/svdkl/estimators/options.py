"""Every option of the estimators: its type, its default, which values it takes, and what help says of it.

The command line makes its options from the fields below. Only the standard library is imported here, so that
``svdkl train --help`` need not wait for torch.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from textwrap import shorten
from typing import Any, Literal, TypeGuard

NETWORK, GPS, TRAINING = "The network", "The Gaussian processes", "Training"
LONGEST = 100  # characters of a value in a message, since a network prints pages
RECIPES = ("svdkl", "dnn_gp", "dnn", "dnn_plus")
WITH_GPS = ("svdkl", "dnn_gp")
Auto = Literal["auto"]


@dataclass(frozen=True)
class Kind:
    """The values that an option takes.

    Attributes
    ----------
    shown
        How help shows a value; blank for what is switched on or off.
    expected
        The values in words, for the sentence that refuses others.
    accepts
        Whether a value without numpy's types is one of them.
    parse
        Turns the text of a command line into a value, or leaves it a text that is then refused.
    """

    shown: str
    expected: str
    accepts: Callable[[Any], bool]
    parse: Callable[[str], object] = str

    def check(self, name: str, value: object) -> Any:
        """Return a value without numpy's types, or refuse it in one sentence."""
        value = plain(value)
        if not self.accepts(value):
            raise ValueError(f"Expected {name} to be {self.expected}, got {value!r}.")
        return value

    def read(self, name: str, value: object) -> Any:
        """Check what stands on a command line or in a configuration file, where a number may be a text."""
        return self.check(name, self.parse(value) if isinstance(value, str) else value)


def plain(value: object) -> Any:
    """Return a value without numpy's types, with tuples and arrays as lists; other objects stay as they are."""
    numpy = sys.modules.get("numpy")  # a value of numpy's can only come from a program that has loaded numpy
    if numpy is not None and isinstance(value, numpy.generic | numpy.ndarray):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, tuple | list) else value


def is_whole(value: object, least: int) -> TypeGuard[int]:
    """Tell whether a value is a whole number of at least ``least``."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def choice(*allowed: str) -> Kind:
    """One of some words."""
    return Kind("NAME", f"one of {', '.join(allowed)}", lambda value: value in allowed)


def whole(*words: str) -> Kind:
    """A whole number of at least 1, or one of some words."""
    expected = _either(words, "a whole number of at least 1")
    return Kind("N", expected, lambda value: value in words or is_whole(value, 1), _whole_number)


def number(least: int | float, below: int | float = math.inf, *words: str) -> Kind:
    """A number from ``least`` to below another, or one of some words."""

    def accepts(value: object) -> bool:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        return value in words or (is_number and least <= float(value) < below)  # type: ignore[arg-type]

    expected = _either(words, f"a number from {least:g} to below {below:g}")
    return Kind("N", expected, accepts, _real_number)


def _either(words: Sequence[str], rest: str) -> str:
    return "".join(f"{word!r} or " for word in words) + rest


def _whole_number(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        return text


def _real_number(text: str) -> object:
    try:
        amount = float(text)
    except ValueError:
        return text
    return amount if math.isfinite(amount) else text


def _sizes(text: str) -> object:
    parts = [_whole_number(part) for part in text.split(",")]
    return text if text == "auto" or not all(is_whole(part, 1) for part in parts) else parts


def _class_weights(text: str) -> object:
    if text == "none":
        return None
    pairs = [part.rpartition("=")[::2] for part in text.split(",")]
    return {_label(label): _real_number(weight) for label, weight in pairs} if "=" in text else text


def _label(text: str) -> object:
    """Return a label as it stands in a table, where numbers and booleans are not text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _are_weights(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(weight, Real) and not isinstance(weight, bool) for weight in value.values())
    return value is None or value == "balanced"


def _are_whole(value: object) -> bool:
    return isinstance(value, list) and all(is_whole(part, 1) for part in value)


def _is_module(value: object) -> bool:
    torch = sys.modules.get("torch")  # a module can only come from a program that has loaded torch
    return torch is not None and isinstance(value, torch.nn.Module)


FLAG = Kind(" ", "true or false", lambda value: isinstance(value, bool))
WORD = Kind("NAME", "a name", lambda value: isinstance(value, str) and bool(value))
SIZES = Kind(
    "N,N,...", "'auto' or the sizes of layers, such as (512, 512)", lambda v: v == "auto" or _are_whole(v), _sizes
)
POINTS = Kind(
    "N", "a whole number of at least 1, or one for each axis", lambda v: is_whole(v, 1) or _are_whole(v), _whole_number
)
WEIGHTS = Kind("NAME", "None, 'balanced' or weights such as {'yes': 2, 'no': 1}", _are_weights, _class_weights)
NET = Kind("NAME", "a torch module or None", lambda value: value is None or _is_module(value))
ANYTHING = Kind("NAME", "anything", lambda value: True)  # checked where it is used


def _option(
    default: object, kind: Kind, panel: str = "", help: str = "", *, builds: bool = False, task: str = ""
) -> Any:
    """Describe an option.

    Parameters
    ----------
    panel, help
        Where help lists it and what it says there; without a panel it is an option of Python alone.
    builds
        Whether a fitted model is built by it: under another value, its numbers would describe another model.
    task
        "classification" or "regression", if only one of them has it.
    """
    return field(default=default, metadata={"kind": kind, "panel": panel, "help": help, "builds": builds, "task": task})


@dataclass(frozen=True)
class Options:
    """The options of an estimator, checked; numbers are Python's own and sequences are lists."""

    recipe: str = _option(
        "svdkl",
        choice(*RECIPES),
        TRAINING,
        "svdkl: network and GPs jointly; dnn_gp: GPs on a finished network; dnn, dnn_plus: no GPs.",
        builds=True,
    )
    max_iter: int | Auto = _option(
        "auto", whole("auto"), TRAINING, "Epochs of the network, or auto: fewer for large tables."
    )
    batch_size: int | Auto = _option(
        "auto", whole("auto"), TRAINING, "Rows of a step, or auto: more for larger tables."
    )
    joint_batch_size: int | Auto = _option(
        "auto", whole("auto"), TRAINING, "Rows of a step that trains GPs, or auto: as many as of other steps."
    )
    learning_rate_init: int | float = _option(1e-3, number(0), TRAINING, "Step size of the network.")
    alpha: int | float | Auto = _option(
        "auto", number(0, math.inf, "auto"), TRAINING, "Weight decay of the network, or auto."
    )
    early_stopping: bool = _option(True, FLAG, TRAINING, "Stop when the held-out rows get no better.")
    n_iter_no_change: int = _option(5, whole(), TRAINING, "Epochs without improvement before training stops.")
    validation_fraction: int | float = _option(0.1, number(0, 1), TRAINING, "Share of the rows that is held out.")
    class_weight: Mapping[Any, int | float] | str | None = _option(
        None, WEIGHTS, TRAINING, "Classification: balanced, weights such as yes=2,no=1, or none.", task="classification"
    )
    likelihood: str = _option(
        "gaussian",
        choice("gaussian", "student_t", "poisson", "negative_binomial"),
        TRAINING,
        "Regression: gaussian; student_t if there are outliers; poisson or negative_binomial for counts.",
        builds=True,
        task="regression",
    )
    device: Any = _option("auto", ANYTHING, TRAINING, "cpu, cuda, cuda:1 and so on, or auto.")
    hidden: Sequence[int] | Auto = _option(
        "auto", SIZES, NETWORK, "Sizes of the hidden layers, such as 256,256, or auto.", builds=True
    )
    num_features: int = _option(50, whole(), NETWORK, "Features of the network that the GPs see.", builds=True)
    dropout: int | float | Auto = _option(
        "auto", number(0, 1, "auto"), NETWORK, "Share of hidden units that a step leaves out, or auto.", builds=True
    )
    encoding: str = _option(
        "auto",
        choice("auto", "piecewise", "periodic", "both", "plain"),
        NETWORK,
        "How the network sees numbers: piecewise, periodic, both, plain or auto.",
        builds=True,
    )
    normalise: bool = _option(False, FLAG, NETWORK, "Normalise the hidden layers.", builds=True)
    residual: bool = _option(False, FLAG, NETWORK, "Add each layer to what it was given.", builds=True)
    net: Any = _option(None, NET, builds=True)
    gps: str = _option(
        "features",
        choice("features", "outputs"),
        GPS,
        "features: a GP for each feature; outputs: the paper's form, a GP for each output.",
        builds=True,
    )
    grid_size: int | Sequence[int] = _option(32, POINTS, GPS, "Inducing points along each axis.", builds=True)
    dims_per_gp: int = _option(1, whole(), GPS, "Features that one GP sees.", builds=True)
    kernel: Any = _option(
        "rbf",
        ANYTHING,
        GPS,
        "rbf, matern12, matern32, matern52, rational_quadratic, periodic or spectral_mixture.",
        builds=True,
    )
    posterior: str = _option(
        "auto",
        choice("auto", "cholesky", "banded", "mean_field"),
        GPS,
        "Covariance of the inducing points: cholesky, banded, mean_field, or auto by the points of each axis.",
        builds=True,
    )
    evidence: bool = _option(True, FLAG, GPS, "Fit the posterior once more to the held-out rows.")
    random_state: Any = _option(None, ANYTHING)
    warm_start: bool = _option(False, FLAG)
    verbose: bool | int = _option(False, ANYTHING)

    @classmethod
    def of(cls, parameters: Mapping[str, object]) -> "Options":
        """Check the parameters of an estimator; those that it lacks have their defaults."""
        known = [one for one in fields(cls) if one.name in parameters]
        return cls(**{one.name: one.metadata["kind"].check(one.name, parameters[one.name]) for one in known})

    @classmethod
    def from_json(cls, data: Mapping[str, Any], net: object) -> "Options":
        """Return the options that :meth:`to_json` wrote, with the network put back."""
        values = {**data, "net": net}
        if isinstance(values["class_weight"], dict):
            values["class_weight"] = dict(values["class_weight"]["pairs"])
        return cls.of(values)

    @property
    def has_gps(self) -> bool:
        """Whether the recipe ends in Gaussian processes."""
        return self.recipe in WITH_GPS

    @property
    def holds_out(self) -> bool:
        """Whether rows are held out of the fit."""
        return self.early_stopping or (self.evidence and self.has_gps)

    def refuse_other_model(self, now: "Options") -> None:
        """Refuse options that a model fitted by these ones cannot have been built by."""
        for one in fields(self):
            if one.metadata["builds"]:
                before, after = (_in_words(getattr(options, one.name)) for options in (self, now))
                if before != after:
                    before, after = (shorten(words, LONGEST, placeholder="...") for words in (before, after))
                    raise ValueError(
                        f"Expected {one.name}={before}, as the model was fitted with, got {after}: set it back, or fit "
                        f"a new model."
                    )

    def to_json(self) -> dict[str, Any]:
        """Return the options as JSON can hold them; objects that only a program can make are refused."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values["net"] = None if self.net is None else "custom"
        values["device"] = str(self.device)
        if not isinstance(self.random_state, Integral):
            values["random_state"] = None  # a generator's state has moved on since
        if isinstance(self.class_weight, Mapping):
            values["class_weight"] = {"pairs": [[plain(label), plain(w)] for label, w in self.class_weight.items()]}
        for name, value in values.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"Expected {name} to be a name or a number to save it, got {type(value).__name__}: objects are not "
                    f"stored."
                ) from error
        return values


def command_line_fields() -> dict[str, Field[Any]]:
    """Return the options that a command line has, by name."""
    return {one.name: one for one in fields(Options) if one.metadata["panel"]}


def _in_words(value: object) -> str:
    """Write a value so that copies of a network, in whatever program, give the same words."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))
