"""Settings of a training run from a file: YAML or TOML, one key an option."""

import tomllib
from pathlib import Path
from typing import Any

from svdkl.cli.parameters import PARAMETERS
from svdkl.cli.values import FLAG, NAMES, SEED, WORD, Kind, choice, whole

# What a run may be told beside the estimator's parameters.
GENERAL: dict[str, Kind] = {
    "target": WORD,
    "task": choice("auto", "classification", "regression"),
    "drop": NAMES,
    "seed": SEED,
    "stream": FLAG,
    "epoch_rows": whole(),
}


def read_config(path: Path) -> dict[str, Any]:
    """The checked settings in a file, by the names of parameters; unknown or wrong ones are refused."""
    from svdkl.tabular.chunks import suggestion

    kinds = {**GENERAL, **{name: parameter.kind for name, parameter in PARAMETERS.items()}}
    settings = {}
    for key, value in _parsed(path).items():
        name = str(key).replace("-", "_")
        if name not in kinds:
            raise ValueError(f"Expected settings of a run in {path}, got {key!r}: {suggestion(name, list(kinds))}.")
        settings[name] = kinds[name].read(f"{key} in {path}", value)
    return settings


def _parsed(path: Path) -> dict[Any, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected UTF-8 text in {path}, got something else: save it as UTF-8.") from error
    except OSError as error:
        raise OSError(f"Expected settings in {path}, but it cannot be read ({error.strerror}).") from error
    if path.suffix == ".toml":
        content = _parsed_toml(path, text)
    elif path.suffix in (".yaml", ".yml"):
        content = _parsed_yaml(path, text)
    else:
        raise ValueError(f"Expected settings in a file that ends in .yaml, .yml or .toml, got {path}: rename it.")
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError(f"Expected lines such as 'max_iter: 10' in {path}, got {type(content).__name__}.")
    return content


def _parsed_toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"Expected TOML in {path}, but it is broken ({error}).") from error


def _parsed_yaml(path: Path, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise ValueError(f"Expected YAML in {path}, but it is broken{where} ({problem}).") from error
