"""A fitted model on disk: a folder with its tensors in safetensors and everything else in JSON, none of it code.

The folder is written beside its place and then renamed into it, so that nothing half-written ever stands there. Both
files are checked against their hashes on the way back: a damaged or changed folder is refused, not half understood.
"""

import hashlib
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save_file
from torch import nn

from svdkl.estimators.building import build_head, build_net, choose_device
from svdkl.estimators.examples import Columns, Learned
from svdkl.estimators.fitted import Fitted
from svdkl.estimators.options import Options, is_whole
from svdkl.estimators.targets import Classes, Reals, Targets
from svdkl.model import SVDKL
from svdkl.shapes import Tensor
from svdkl.tables.encoder import TabularEncoder
from svdkl.training.history import Epoch
from svdkl.writing import folder_put_in_place

FORMAT, VERSION = "svdkl estimator", 3  # the version goes up whenever older folders cannot be read
TENSORS, DESCRIPTION = "model.safetensors", "model.json"

SCORES = ("train_loss", "held_out_nlp")  # of an epoch, which always has them


def write_folder(path: Path, content: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Put a model's folder in place, all or nothing; one that is there already is replaced, other folders are not."""
    if path.exists() and not _is_ours(path):
        raise ValueError(
            f"Expected a new folder or one with a saved model, got {path}, which holds something else: choose another "
            f"path."
        )
    try:
        with folder_put_in_place(path) as new:
            contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
            save_file(contiguous, new / TENSORS)
            description = {
                "format": FORMAT,
                "version": VERSION,
                "sha256_of_tensors": hashlib.sha256((new / TENSORS).read_bytes()).hexdigest(),
                "sha256_of_content": _hash_of(content),
                "content": content,
            }
            (new / DESCRIPTION).write_text(json.dumps(description, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except (OSError, SafetensorError) as error:
        raise _failed(path, error) from error


def read_folder(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Content and tensors of a model's folder; a ValueError in one sentence if they are not what was written."""
    try:
        text, data = (path / DESCRIPTION).read_text(encoding="utf-8"), (path / TENSORS).read_bytes()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Expected a folder with {DESCRIPTION} and {TENSORS}, got {path}, where one cannot be read: check the path."
        ) from error
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, DESCRIPTION) from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ValueError(f"Expected a model of format {FORMAT!r} in {path}, got another: it is of another program.")
    version = description.get("version")
    if type(version) is int and version != VERSION:
        way_out = "update svdkl" if version > VERSION else "fit it again"
        raise ValueError(f"Expected a model of version {VERSION} in {path}, got version {version}: {way_out}.")
    content = description.get("content")
    if (
        type(version) is not int
        or not isinstance(content, dict)
        or description.get("sha256_of_content") != _hash_of(content)
    ):
        raise damaged(path, DESCRIPTION)
    if description.get("sha256_of_tensors") != hashlib.sha256(data).hexdigest():
        raise damaged(path, TENSORS)
    try:
        return content, load_tensors(data)
    except SafetensorError as error:
        raise damaged(path, TENSORS) from error


def _failed(path: Path, error: Exception) -> OSError:
    return OSError(
        f"Expected to write a model to {path}, but that failed ({error}): what was there before is still there."
    )


def _hash_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _is_ours(path: Path) -> bool:
    return path.is_dir() and {file.name for file in path.iterdir()} <= {TENSORS, DESCRIPTION}


def damaged(path: Path, name: str) -> ValueError:
    """The error for a file that is not what was written."""
    return ValueError(
        f"Expected {name} in {path} as it was written, got one that is damaged or changed: get the folder once more."
    )


class NetworkNeededError(ValueError):
    """A model with the user's own network was to be loaded without it."""


def save_fitted(fitted: Fitted, path: Path, options: Options | None = None) -> None:
    """Write a fitted model to a folder, all or nothing.

    Parameters
    ----------
    options
        The estimator's options today, if they may have changed since the fit; those that build the model may not.
    """
    columns, encoder = fitted.columns, fitted.encoder
    content = {
        "class": fitted.targets.estimator,
        "parameters": (options or fitted.options).to_json(),
        "targets": fitted.targets.to_json(),
        "encoder": None if encoder is None else encoder.to_json(),
        "num_features": fitted.num_features,
        "network": fitted.network,
        "num_columns": columns.count,
        "input_shape": columns.shape,
        "column_names": None if columns.names is None else list(columns.names),
        "history": [_finite(asdict(epoch)) for epoch in fitted.history],
        "num_rows_seen": fitted.num_rows_seen,
        "split_seed": fitted.split_seed,
    }
    write_folder(path, content, fitted.model.state_dict())


def load_fitted(folder: Path, net: nn.Module | None, kind: type[Targets] | None = None) -> Fitted:
    """Read the fitted model that a folder holds.

    Parameters
    ----------
    net
        The network, for a model with the user's own.
    kind
        Whether it has to be one of classes or of real numbers, if that matters.
    """
    content, tensors = read_folder(folder)
    try:
        kinds = {one.estimator: one for one in (Classes, Reals)}
        expected = list(kinds) if kind is None else [kind.estimator]
        if content["class"] not in expected:
            raise ValueError(f"Expected a model of {' or '.join(expected)} in {folder}, got one of {content['class']}.")
        if (content["parameters"]["net"] is None) != (net is None):
            needed = "without a network" if net is not None else "with the network"
            refused = NetworkNeededError if net is None else ValueError
            raise refused(
                f"Expected load(path, net=...) {needed}, as the model in {folder} was fitted, got "
                f"{type(net).__name__}: code is not stored beside a model."
            )
        return _restored(
            Options.from_json(content["parameters"], net), kinds[content["class"]], content, tensors, folder
        )
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RuntimeError) as error:
        raise damaged(folder, DESCRIPTION) from error


def _restored(
    options: Options, kind: type[Targets], content: dict[str, Any], tensors: dict[str, Tensor], folder: Path
) -> Fitted:
    _check_types(content)
    try:
        targets = kind.from_json(content["targets"], options)
    except ValueError as error:  # numpy's
        raise damaged(folder, DESCRIPTION) from error
    encoder = None if content["encoder"] is None else TabularEncoder.from_json(content["encoder"])
    names, shape = content["column_names"], content["input_shape"]
    columns = Columns(
        content["num_columns"], None if names is None else tuple(names), None if shape is None else tuple(shape)
    )
    layout = None if encoder is None else encoder.layout
    with torch.random.fork_rng(devices=[]):  # modules start with random numbers, which are replaced
        net, features = build_net(options, layout, content["network"], content["num_features"], targets.num_outputs)
        model = SVDKL(net, build_head(options, features, targets.num_outputs, targets.likelihood)).eval()
    _load_state(folder, model, tensors)
    try:
        device = choose_device(options.device)
    except ValueError:  # it was fitted on a machine with other devices
        options, device = replace(options, device="auto"), choose_device("auto")
    history = [Epoch(**_with_infinity(epoch)) for epoch in content["history"]]
    if not history:
        raise TypeError("not the epochs of a training")
    return Fitted(
        options=options,
        learned=Learned(columns, targets),
        encoder=encoder,
        network=content["network"],
        num_features=content["num_features"],
        model=model.to(device),
        history=history,
        num_rows_seen=content["num_rows_seen"],
        split_seed=content["split_seed"],
    )


def _check_types(content: dict[str, Any]) -> None:
    """Raise a TypeError for numbers and names that are none; what has more to it is checked where it is read."""
    names, shape = content["column_names"], content["input_shape"]
    optional = [content["num_columns"], content["split_seed"]]
    whole = [content["num_features"], content["num_rows_seen"], *(shape if shape is not None else [])]
    whole += [number for number in optional if number is not None]
    if not all(is_whole(number, 0) for number in whole):
        raise TypeError("not a whole number")
    if names is not None and (len(names) != content["num_columns"] or not all(isinstance(name, str) for name in names)):
        raise TypeError("not the names of columns")


def _load_state(path: Path, module: torch.nn.Module, tensors: dict[str, Tensor]) -> None:
    """Give a module its numbers back."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(
            f"Expected the network that the model in {path} was saved with, got one with other parameters: pass that "
            f"one to load, or name it by --net."
        ) from error


def _finite(epoch: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity, which is the score of an epoch that predicted a held-out row as impossible."""
    return {name: None if value == math.inf else value for name, value in epoch.items()}


def _with_infinity(epoch: dict[str, Any]) -> dict[str, Any]:
    return {name: math.inf if value is None and name in SCORES else value for name, value in epoch.items()}
