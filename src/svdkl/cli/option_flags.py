"""Values of options, from the text of a command line or the value of a configuration file.

The estimators' parameters as options of the command line and as keys of a configuration file.

The table below says of each parameter how its text is read and what it does. A test compares it with the estimators'
signatures; importing them here would make ``--help`` wait for scikit-learn.
"""

import inspect
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

NETWORK, PROCESSES, TRAINING = "The network", "The Gaussian processes", "Training"
# Parameters that are none here: code, and what --seed, --quiet and --resume stand for.
LEFT_OUT = ("net", "random_state", "verbose", "warm_start")

CLASSIFIER_ONLY, REGRESSOR_ONLY = "class_weight", "likelihood"


@dataclass(frozen=True)
class Kind:
    """A kind of values: how help shows it, and its reader, which is told the name for its refusal."""

    shown: str
    read: Callable[[str, Any], Any]


def choice(*allowed: str) -> Kind:
    """One of these words."""

    def read(name: str, value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"Expected {name} to be one of {', '.join(allowed)}, got {value!r}.")
        return str(value)

    return Kind("NAME", read)


def whole(*words: str) -> Kind:
    """A whole number of at least 1, or one of these words."""

    def read(name: str, value: Any) -> Any:
        if value in words:
            return value
        try:
            count = int(value) if isinstance(value, str) else value
        except ValueError:
            count = None
        if type(count) is not int or count < 1:
            either = "".join(f"{word} or " for word in words)
            raise ValueError(f"Expected {name} to be {either}a whole number of at least 1, got {value!r}.")
        return count

    return Kind("N", read)


def number(*words: str) -> Kind:
    """A finite number, or one of these words."""

    def read(name: str, value: Any) -> Any:
        if value in words:
            return value
        try:
            amount = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            amount = math.nan
        if not math.isfinite(amount):
            either = "".join(f"{word} or " for word in words)
            raise ValueError(f"Expected {name} to be {either}a number, got {value!r}.")
        return amount

    return Kind("N", read)


def _flag(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"Expected {name} to be true or false, got {value!r}.")
    return value


def _word(name: str, value: Any) -> str:
    """A word."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"Expected {name} to be a name, got {value!r}.")
    return value


def _names(name: str, value: Any) -> list[str]:
    """One name or a list of them."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise ValueError(f"Expected {name} to be a list of names, got {value!r}.")
    return names


def _seed(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**32:
        raise ValueError(f"Expected {name} to be a whole number from 0 to 2^32 - 1, got {value!r}.")
    return value


def _sizes(name: str, value: Any) -> Any:
    """Whole numbers with commas between them, or auto."""
    if value == "auto":
        return value
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    try:
        return tuple(whole().read(name, part) for part in parts)
    except ValueError:
        raise ValueError(f"Expected {name} to be auto or sizes of layers such as 256,256, got {value!r}.") from None


def _weights(name: str, value: Any) -> Any:
    """``balanced``, ``none``, or a weight for each label."""
    if value in (None, "none"):
        return None
    if value == "balanced":
        return value
    pairs = value
    if isinstance(value, str):
        pairs = dict(part.rpartition("=")[::2] for part in value.split(",")) if "=" in value else None
    if not isinstance(pairs, dict):
        raise ValueError(f"Expected {name} to be balanced, none or weights such as yes=2,no=1, got {value!r}.")
    return {_label(label): number().read(name, weight) for label, weight in pairs.items()}


def _label(label: Any) -> Any:
    """A label as it stands in a table: numbers and booleans are not text."""
    if not isinstance(label, str):
        return label
    try:
        return json.loads(label)
    except ValueError:
        return label


FLAG = Kind(" ", _flag)
WORD = Kind("NAME", _word)
NAMES = Kind("NAME ...", _names)
SEED = Kind("N", _seed)
SIZES = Kind("N,N,...", _sizes)
WEIGHTS = Kind("NAME", _weights)


@dataclass(frozen=True)
class Parameter:
    """One parameter.

    Attributes
    ----------
    default
        As the estimators have it.
    kind
        How a value is read.
    """

    name: str
    default: Any
    kind: Kind
    panel: str
    help: str

    @property
    def option(self) -> str:
        """As it is typed."""
        return "--" + self.name.replace("_", "-")


PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        Parameter(
            "recipe",
            "svdkl",
            choice("svdkl", "dnn_gp", "dnn", "dnn_plus"),
            TRAINING,
            "svdkl: network and processes jointly; dnn_gp: processes on a finished network; dnn, dnn_plus: none.",
        ),
        Parameter(
            "max_iter", "auto", whole("auto"), TRAINING, "Epochs of the network, or auto: fewer for large tables."
        ),
        Parameter("batch_size", "auto", whole("auto"), TRAINING, "Rows of a step, or auto: more for larger tables."),
        Parameter(
            "joint_batch_size",
            "auto",
            whole("auto"),
            TRAINING,
            "Rows of a step in which processes take part, or auto: as many.",
        ),
        Parameter("learning_rate_init", 1e-3, number(), TRAINING, "Step size of the network."),
        Parameter("alpha", "auto", number("auto"), TRAINING, "Weight decay of the network, or auto."),
        Parameter("early_stopping", True, FLAG, TRAINING, "Stop when held-out rows get no better."),
        Parameter("n_iter_no_change", 5, whole(), TRAINING, "Epochs without improvement that are waited for."),
        Parameter("validation_fraction", 0.1, number(), TRAINING, "Share of the rows that is held out."),
        Parameter(
            "class_weight",
            None,
            WEIGHTS,
            TRAINING,
            "Classification: balanced, weights such as yes=2,no=1, or none.",
        ),
        Parameter(
            "likelihood",
            "gaussian",
            choice("gaussian", "student_t", "poisson", "negative_binomial"),
            TRAINING,
            "Regression: gaussian; student_t if there are outliers; poisson or negative_binomial for counts.",
        ),
        Parameter("device", "auto", WORD, TRAINING, "cpu, cuda, cuda:1 and so on, or auto."),
        Parameter("hidden", "auto", SIZES, NETWORK, "Sizes of the hidden layers, such as 256,256, or auto."),
        Parameter("num_features", 50, whole(), NETWORK, "Features that the processes see."),
        Parameter("dropout", "auto", number("auto"), NETWORK, "Share of hidden units that a step leaves out, or auto."),
        Parameter(
            "encoding",
            "auto",
            choice("auto", "piecewise", "periodic", "both", "plain"),
            NETWORK,
            "Numbers as the network sees them: piecewise, periodic, both, plain or auto.",
        ),
        Parameter("normalise", False, FLAG, NETWORK, "Normalise the hidden layers."),
        Parameter("residual", False, FLAG, NETWORK, "Add each layer to what it was given."),
        Parameter(
            "gps",
            "features",
            choice("features", "outputs"),
            PROCESSES,
            "features: a process for each feature; outputs: the paper's, one for each output.",
        ),
        Parameter("grid_size", 32, whole(), PROCESSES, "Inducing points along each axis."),
        Parameter("dims_per_gp", 1, whole(), PROCESSES, "Features of one process."),
        Parameter(
            "kernel",
            "rbf",
            WORD,
            PROCESSES,
            "rbf, matern12, matern32, matern52, rational_quadratic, periodic or spectral_mixture.",
        ),
        Parameter(
            "posterior",
            "auto",
            choice("auto", "cholesky", "banded", "mean_field"),
            PROCESSES,
            "Covariance of the inducing points: cholesky, banded, mean_field or auto, by the points of each axis.",
        ),
        Parameter("evidence", True, FLAG, PROCESSES, "Fit the posterior once more to the held-out rows."),
    )
}


def as_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command of a function that takes the ``command_line``, options of its own, and all parameters as ``**options``.

    Parameters that are not given are None.
    """
    own = inspect.signature(function, eval_str=True).parameters.values()
    typed = {"context": typer.Context}
    typed |= {p.name: p.annotation for p in own if p.name != "command_line" and p.kind is not p.VAR_KEYWORD}
    typed |= {p.name: _annotation(p) for p in PARAMETERS.values()}
    defaults = {**dict.fromkeys(PARAMETERS), **{p.name: p.default for p in own}}

    def command(context: Any, **given: Any) -> Any:
        return function(context.obj, **given)

    command.__name__, command.__doc__, command.__annotations__ = function.__name__, function.__doc__, typed
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=kind,
                default=defaults.get(name, inspect.Parameter.empty),
            )
            for name, kind in typed.items()
        ]
    )
    return command


def _annotation(parameter: Parameter) -> Any:
    """How typer is told of a parameter. The default stands in the text, since what is not given is None here."""
    flags, shown = parameter.option, str(parameter.default).lower()
    if parameter.kind is FLAG:
        flags, shown = f"{flags}/--no-{flags[2:]}", "yes" if parameter.default else "no"
    option = typer.Option(
        flags,
        help=f"{parameter.help} Default: {shown}.",
        rich_help_panel=parameter.panel,
        metavar=parameter.kind.shown,
        show_default=False,
    )
    return Annotated[(bool if parameter.kind is FLAG else str) | None, option]
