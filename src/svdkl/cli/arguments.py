"""Arguments that several commands have.

``--net MODULE:NAME``: the network of a model whose code is the user's own.

A saved model and its facts, without making ``--help`` wait for what reads them.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import nn

from svdkl.errors import first_line

MODEL = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a run, or of a saved model.")]
DATA = Annotated[
    Path, typer.Argument(metavar="DATA", help="A table: .parquet, a folder of such files, .csv, .csv.gz or .tsv.")
]
TABLE_OR_IMAGES = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="A table: .parquet, a folder of such files, .csv, .csv.gz or .tsv; images: .npz."
    ),
]
NET = Annotated[
    str | None,
    typer.Option(
        "--net",
        metavar="MODULE:NAME",
        help="What makes the network when it is called without arguments, for a model with one of your own.",
    ),
]
DROP = Annotated[
    list[str] | None, typer.Option("--drop", metavar="NAME", help="A column to leave out; may be given many times.")
]
IGNORE_EXTRA = Annotated[
    bool, typer.Option("--ignore-extra", help="Leave out all columns that the model does not know.")
]
JSON = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def network_maker(name: str) -> Callable[[], nn.Module]:
    """What makes the network, once it is called; nothing is imported before."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"Expected --net MODULE:NAME, such as svdkl.nets.convnet:LeNet, got {name!r}.")
    return partial(_make, name, module, attribute)


def _make(name: str, module: str, attribute: str) -> nn.Module:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a file of the user's must not stand in for a library's
    try:
        found = import_module(module)
    except (Exception, SystemExit) as error:  # the user's own code may fail in any way
        raise ValueError(
            f"Expected --net {name} to name a module that can be imported here, but that failed ({_reason(error)}): "
            f"check the name, and call svdkl in the folder of the module."
        ) from error
    try:
        make = getattr(found, attribute)
    except AttributeError as error:
        place = getattr(found, "__file__", None) or module
        raise ValueError(
            f"Expected --net {name} to name a class or function in {place}, found no {attribute!r}: check the name."
        ) from error
    if not callable(make) or isinstance(make, nn.Module):
        raise ValueError(
            f"Expected --net {name} to be a class, or a function without arguments that makes the network, got "
            f"{type(make).__name__}: write such a function."
        )
    try:
        net = make()
    except Exception as error:
        raise ValueError(
            f"Expected --net {name} to make the network when it is called without arguments, but that failed "
            f"({_reason(error)}): write a function that needs none."
        ) from error
    if not isinstance(net, nn.Module):
        raise ValueError(
            f"Expected --net {name} to make a torch module, got {type(net).__name__}: give back the network."
        )
    return net


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def load_model(path: str | Path, net: str | None = None) -> Any:
    """The fitted model in a folder; ``net`` is MODULE:NAME of what makes the user's own network."""
    from svdkl.estimators.run_folder import load_model as load

    return load(path, None if net is None else network_maker(net))


def read_facts(path: str | Path) -> dict[str, Any]:
    """What the run that trained a model wrote down."""
    from svdkl.estimators.run_folder import read_facts as read

    return read(path)
