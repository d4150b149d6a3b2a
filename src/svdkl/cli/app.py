"""The ``svdkl`` program: its commands, and the sentence that each error becomes."""

import functools
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from itertools import takewhile
from typing import Annotated, Any

import typer

from svdkl.cli.demo import demo
from svdkl.cli.doctor import doctor
from svdkl.cli.evaluate import evaluate
from svdkl.cli.export import export
from svdkl.cli.output import REFUSED, InterruptedRun, explain, plain_warnings, say
from svdkl.cli.predict import predict
from svdkl.cli.report import report
from svdkl.cli.train import train
from svdkl.errors import version_of

# All mistakes in the arguments are of this class, which typer has but gives no name.
UsageError: type[Any] = typer.BadParameter.__mro__[1]


app = typer.Typer(
    name="svdkl",
    help="Gaussian processes on the features of a network: predictions of tables with uncertainty that can be trusted.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(f"svdkl {version_of('svdkl') or 'from its sources'}")
        raise typer.Exit
    return wanted


@app.callback()
def _before_the_command(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def _interruptible(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a sentence for interruptions; typer would end it without a word."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt:
            raise InterruptedRun("Interrupted: nothing is left half-written; the same command starts anew.") from None

    return run


def _not_installed(name: str, help: str) -> Callable[..., Any]:
    """Stand in for a command of a distribution that is not installed."""

    def command(context: typer.Context) -> None:
        raise ValueError(
            f"Expected the distribution svdkl-research for svdkl {name}, found it not installed: run pip install "
            f"svdkl-research."
        )

    command.__name__, command.__doc__ = name, help
    return command


# Commands that svdkl-research adds by its entry points, and their help where it is not installed.
RESEARCH = {
    "reproduce": "Run the comparisons of the paper (needs svdkl-research).",
    "bench": "Time a training step beside its rivals (needs svdkl-research).",
}


INSTALLED = {entry.name: entry for entry in entry_points(group="svdkl.commands")}
# All commands by name, in the order of the help.
COMMANDS: dict[str, Callable[..., Any]] = {
    **{function.__name__: function for function in (demo, train, predict, evaluate, report, export, doctor)},
    **{
        name: INSTALLED[name].load() if name in INSTALLED else _not_installed(name, help)
        for name, help in RESEARCH.items()
    },
}
# A command that is not installed says so, whatever is typed behind it.
ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}
for name, function in COMMANDS.items():
    app.command(name, context_settings=ANYTHING if function.__module__ == __name__ else None)(_interruptible(function))


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; errors are told in one sentence."""
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        with plain_warnings():
            command = typer.main.get_command(app)
            code = command.main(arguments, prog_name="svdkl", standalone_mode=False, obj=arguments)
        return code if isinstance(code, int) else 0
    except UsageError as error:
        return _refuse_arguments(error, arguments)
    except Exception as error:
        if "--debug" in takewhile(lambda argument: argument.startswith("-"), arguments):
            raise
        return explain(error)


def _refuse_arguments(error: Any, arguments: list[str]) -> int:
    """Say what is wrong with the arguments."""
    if error.ctx is not None:
        path = error.ctx.command_path
    else:
        path = " ".join(["svdkl", *(argument for argument in arguments if argument in COMMANDS)][:2])
    text = error.format_message().rstrip(".")
    say(f"Expected other arguments, since {text[:1].lower()}{text[1:]}: see {path} --help.")
    return REFUSED
