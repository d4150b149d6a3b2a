"""A saved model, by the folder that a run wrote or the model's own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from svdkl.estimators.classifier import SVDKLClassifier
from svdkl.estimators.folder import read_folder
from svdkl.estimators.regressor import SVDKLRegressor
from svdkl.estimators.run_folder import FACTS, MODEL, is_unfinished
from svdkl.estimators.storage import NetworkNeededError


def load_model(path: str | Path, make_net: Callable[[], Any] | None = None) -> Any:
    """The fitted classifier or regressor that a folder holds; one with the user's own network is given that."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"Expected the folder of a model, found no {path}: check the path.")
    if not (path / MODEL).exists() and is_unfinished(path):
        raise ValueError(
            f"Expected a finished model, got {path}, which holds an unfinished run: go on with svdkl train --resume."
        )
    folder = path / MODEL if (path / MODEL).is_dir() else path
    content, _ = read_folder(folder)
    kinds = {kind.__name__: kind for kind in (SVDKLClassifier, SVDKLRegressor)}
    kind = kinds.get(str(content.get("class")))
    if kind is None:
        raise ValueError(f"Expected a model of {' or '.join(kinds)} in {folder}, got {content.get('class')!r}.")
    try:
        estimator = kind.load(folder)
    except NetworkNeededError as error:
        if make_net is None:
            raise ValueError(
                f"Expected --net MODULE:NAME, which makes the network of {path}, since its code is not stored beside "
                f"the model, got none: name the class or function that made it."
            ) from error
        return kind.load(folder, net=make_net())
    if make_net is not None:
        raise ValueError(f"Expected no --net for {path}, whose network is this package's own, got one: leave it out.")
    return estimator


def read_facts(path: str | Path) -> dict[str, Any]:
    """What the run that trained a model wrote down; nothing for a model that was saved by a program."""
    path = Path(path)
    file = path / FACTS
    if path.name == MODEL and not (path / MODEL).is_dir():  # a run's folder may have that name, too
        file = path.parent / FACTS
    if not file.is_file():
        return {}
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise _damaged(file) from error
    if not isinstance(facts, dict):
        raise _damaged(file)
    return facts


def _damaged(file: Path) -> ValueError:
    return ValueError(f"Expected the facts of a run in {file}, but it is damaged: delete it to go without.")
