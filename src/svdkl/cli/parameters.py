"""The estimators' parameters as options of the command line and as keys of a configuration file.

The table below says of each parameter how its text is read and what it does. A test compares it with the estimators'
signatures; importing them here would make ``--help`` wait for scikit-learn.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from svdkl.cli.values import FLAG, SIZES, WEIGHTS, WORD, Kind, choice, number, whole

NETWORK, PROCESSES, TRAINING = "The network", "The Gaussian processes", "Training"
# Parameters that are none here: code, and what --seed, --quiet and --resume stand for.
LEFT_OUT = ("net", "random_state", "verbose", "warm_start")

CLASSIFIER_ONLY, REGRESSOR_ONLY = "class_weight", "likelihood"


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
