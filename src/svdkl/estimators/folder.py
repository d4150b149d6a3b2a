"""A folder of two files: tensors in safetensors, everything else in JSON.

The folder is written beside its place and then renamed into it, so that nothing half-written ever stands there. Both
files are checked against their hashes on the way back: a damaged or changed folder is refused, not half understood.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save_file

from svdkl.shapes import Tensor
from svdkl.writing import folder_put_in_place

FORMAT, VERSION = "svdkl estimator", 2  # 2: what training had left of the variance
TENSORS, DESCRIPTION = "model.safetensors", "model.json"


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
