"""A saved model: loaded, with a network of the user's own if need be, and given files of rows."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from svdkl.cli.image_rows import SUFFIX, ImageRows
from svdkl.cli.table_rows import TableRows
from svdkl.errors import first_line
from svdkl.estimators import run_folder
from svdkl.estimators.fitted import Fitted


class SavedModel(NamedTuple):
    """A model and the facts of the run that trained it; a model that a program has saved has none."""

    fitted: Fitted
    facts: dict[str, Any]

    @property
    def reads_images(self) -> bool:
        """Whether a row has several axes."""
        return len(self.fitted.columns.shape or ()) > 1

    def open(
        self, path: Path, ignore_extra: bool = False, with_targets: bool = False, **columns: str | Sequence[str] | None
    ) -> TableRows | ImageRows:
        """Open a file of rows for the model; images do not have the ``columns`` that options of the command name."""
        if self.reads_images:
            for option, given in {**columns, "ignore_extra": ignore_extra}.items():
                if given:
                    name = f"--{option.replace('_', '-')}"
                    raise ValueError(f"Expected {name} for tables only, got it for the images in {path}: leave it out.")
            return ImageRows(self.fitted, path)
        if path.name.lower().endswith(SUFFIX):
            raise ValueError(f"Expected a table for a model of tables, got images in {path}: give it rows of a table.")
        target = columns.get("target") or self.facts.get("target")
        if with_targets and not target:
            raise ValueError("Expected --target COL, since the model does not tell what it was trained on, got none.")
        known: set[str] = set()
        for names in (self.facts.get("target"), self.facts.get("dropped"), *columns.values()):
            known.update([names] if isinstance(names, str) else names or ())
        return TableRows(self.fitted, path, str(target or ""), known, ignore_extra)


def open_model(path: Path, net: str | None = None) -> SavedModel:
    """Load the model in a folder; ``net`` is the MODULE:NAME of a maker of the user's own network."""
    fitted = run_folder.load_model(path, None if net is None else network_maker(net))
    return SavedModel(fitted, run_folder.read_facts(path))


def network_maker(name: str) -> Callable[[], nn.Module]:
    """Return a function that imports MODULE and makes the network by calling NAME."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"Expected --net MODULE:NAME, such as svdkl.nets.convnet:LeNet, got {name!r}.")
    return partial(_make, name, module, attribute)


def _make(name: str, module: str, attribute: str) -> nn.Module:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, since no file of the user's may hide a library
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
