"""A folder of two files: tensors in safetensors, everything else in JSON.

The folder is written beside its place and then renamed into it, so that nothing half-written ever stands there. Both
files are checked against their hashes on the way back: a damaged or changed folder is refused, not half understood.

A fitted estimator on disk: what it takes to make it again, none of it code.
"""

import hashlib
import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save_file

from svdkl.estimators.options import (
    build_head,
    build_net,
    choose_device,
    is_whole,
    parameters_from_json,
    parameters_to_json,
    structure_of,
)
from svdkl.model import SVDKL
from svdkl.shapes import Tensor
from svdkl.tables.encoder import TabularEncoder
from svdkl.training.history import Epoch
from svdkl.writing import folder_put_in_place

FORMAT, VERSION = "svdkl estimator", 3  # 3: a head has its GPs
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
            for file in (new / TENSORS, new / DESCRIPTION):
                with file.open("rb") as written:
                    os.fsync(written.fileno())
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


def save_estimator(estimator: Any, path: Any) -> None:
    """Write a fitted estimator to a folder, all or nothing."""
    fitted = vars(estimator)
    content = {
        "class": type(estimator).__name__,
        "parameters": parameters_to_json(estimator.get_params(deep=False)),
        "targets": estimator._targets_to_json(),
        "encoder": None if estimator.encoder_ is None else estimator.encoder_.to_json(),
        "num_features": estimator.num_features_,
        "network": estimator.network_options_,
        "num_columns": fitted.get("n_features_in_"),
        "input_shape": fitted.get("input_shape_"),
        "column_names": fitted["feature_names_in_"].tolist() if "feature_names_in_" in fitted else None,
        "history": [_finite(asdict(epoch)) for epoch in estimator.history_],
        "num_rows_seen": estimator.num_rows_seen_,
        "split_seed": fitted.get("split_seed_"),
    }
    write_folder(Path(path), content, estimator.model_.state_dict())


def load_estimator(kind: type[Any], path: Any, net: Any) -> Any:
    """The estimator that such a folder holds."""
    folder = Path(path)
    content, tensors = read_folder(folder)
    try:
        if content["class"] != kind.__name__:
            raise ValueError(f"Expected a model of {kind.__name__} in {folder}, got one of {content['class']}.")
        if (content["parameters"]["net"] is None) != (net is None):
            needed = "without a network" if net is not None else "with the network"
            refused = NetworkNeededError if net is None else ValueError
            raise refused(
                f"Expected load(path, net=...) {needed}, as the model in {folder} was fitted, got "
                f"{type(net).__name__}: code is not stored beside a model."
            )
        return _restored(kind(**parameters_from_json(content["parameters"], net)), content, tensors, folder)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RuntimeError) as error:
        raise damaged(folder, DESCRIPTION) from error


def _restored(estimator: Any, content: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> Any:
    _check_types(content)
    try:
        estimator._targets_from_json(content["targets"])
    except ValueError as error:  # numpy's
        raise damaged(folder, DESCRIPTION) from error
    encoder = content["encoder"]
    estimator.encoder_ = None if encoder is None else TabularEncoder.from_json(encoder)
    estimator.num_features_ = content["num_features"]
    estimator.network_options_ = content["network"]
    if content["num_columns"] is not None:
        estimator.n_features_in_ = content["num_columns"]
    if content["input_shape"] is not None:
        estimator.input_shape_ = tuple(content["input_shape"])
    if content["column_names"] is not None:
        estimator.feature_names_in_ = np.array(content["column_names"], dtype=object)
    estimator.history_ = [Epoch(**_with_infinity(epoch)) for epoch in content["history"]]
    estimator.n_iter_, estimator.loss_ = len(estimator.history_), estimator.history_[-1].train_loss
    estimator.num_rows_seen_ = content["num_rows_seen"]
    if content.get("split_seed") is not None:  # models of streamed tables, and older ones, have none
        estimator.split_seed_ = content["split_seed"]
    layout = None if encoder is None else estimator.encoder_.layout
    with torch.random.fork_rng(devices=[]):  # modules start with random numbers, which are replaced
        outputs = estimator._num_outputs
        net, num_features = build_net(estimator, layout, estimator.num_features_, outputs)
        model = SVDKL(net, build_head(estimator, num_features, outputs, estimator._likelihood())).eval()
    _load_state(folder, model, tensors)
    try:
        device = choose_device(estimator.device)
    except ValueError:  # it was fitted on a machine with other devices
        estimator.device, device = "auto", choose_device("auto")
    estimator.model_ = model.to(device)
    estimator.structure_ = structure_of(estimator)
    return estimator


def _check_types(content: dict[str, Any]) -> None:
    """A TypeError for numbers and names that are none; what has more to it is checked where it is read."""
    names, shape = content["column_names"], content["input_shape"]
    optional = [content["num_columns"], content.get("split_seed")]
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
