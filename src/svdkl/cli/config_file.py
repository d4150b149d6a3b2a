"""Settings of a training run from a file: YAML or TOML, one key an option.

What a training run is asked for: options of the command line over those of a file, checked before any work.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svdkl.cli.option_flags import (
    CLASSIFIER_ONLY,
    FLAG,
    NAMES,
    PARAMETERS,
    REGRESSOR_ONLY,
    SEED,
    WORD,
    Kind,
    choice,
    whole,
)
from svdkl.errors import missing_package

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
    from svdkl.tables.parquet_files import suggestion

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
    try:
        import yaml
    except ImportError:
        raise missing_package("pyyaml", f"settings in the YAML file {path}", "yaml") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise ValueError(f"Expected YAML in {path}, but it is broken{where} ({problem}).") from error


def read_request(data: Path, out: Path, config: Path | None, given: Mapping[str, Any], **more: Any) -> Any:
    """The :class:`~svdkl.estimators.run.RunConfig` of a command line, where None is what was not given.

    Parameters
    ----------
    config
        A configuration file; what is given wins over it.
    more
        Further fields of the result.
    """
    from svdkl.estimators.run import RunConfig

    kinds = {**GENERAL, **{name: parameter.kind for name, parameter in PARAMETERS.items()}}
    settings = {} if config is None else read_config(config)
    for name, value in given.items():
        if value is not None:
            settings[name] = kinds[name].read("--" + name.replace("_", "-"), value)
    general = {name: settings.pop(name) for name in GENERAL if name in settings}
    if "target" not in general:
        raise ValueError("Expected --target COL, the column to predict, got none: name it.")
    general["task"] = _task(general.get("task", "auto"), settings)
    general["drop"] = tuple(general.get("drop", ()))
    request = RunConfig(data=data, out=out, options=settings, **general, **more)
    _check_options(request)
    _check_target(request)
    return request


def check_request(request: Any) -> None:
    """Refuse a run that cannot start, or that would lose a model or an unfinished run."""
    from svdkl.estimators.run import check_columns
    from svdkl.estimators.run_folder import check_out
    from svdkl.tables.table_files import open_table_file

    check_out(request.out, request.resume, request.overwrite)
    check_columns(request, open_table_file(request.data))


def _task(task: str, options: dict[str, Any]) -> str:
    """The task, which an option that only one of the two has may tell, too."""
    for name, of_task in ((CLASSIFIER_ONLY, "classification"), (REGRESSOR_ONLY, "regression")):
        if options.get(name) is None:
            options.pop(name, None)  # weights of none are what both have
        elif task in ("auto", of_task):
            task = of_task
        else:
            raise ValueError(f"Expected {name} for {of_task} only, got it for {task}: leave it out.")
    return task


def _check_options(request: Any) -> None:
    """Refuse parameters that no estimator takes; they would be once the table is read, which may take long."""
    from svdkl.estimators import SVDKLClassifier, SVDKLRegressor
    from svdkl.estimators.options import build_head, check_parameters, choose_device

    estimator = (SVDKLClassifier if request.task == "classification" else SVDKLRegressor)(**request.options)
    check_parameters(estimator)
    choose_device(estimator.device)
    dims = int(estimator.dims_per_gp)
    build_head(estimator, dims if estimator.gps == "outputs" else int(estimator.num_features), dims, "gaussian")


def _check_target(request: Any) -> None:
    """Refuse a target that does not suit the task."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from svdkl.tables.parquet_files import chosen_names
    from svdkl.tables.table_files import open_table_file

    file, target = open_table_file(request.data), request.target
    chosen_names(file.path, file.names, [target])
    if request.task == "auto":
        return
    kind = file.schema.field(target).type
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if request.task == "regression" and not numbers and not pa.types.is_boolean(kind):
        raise ValueError(
            f"Expected numbers in the target {target!r} for regression, got {kind}: name another --target."
        )
    if request.task == "classification" and pa.types.is_floating(kind):
        for part in file.batches([target]):
            column = part.column(target)
            broken = column.filter(pc.and_(pc.is_finite(column), pc.not_equal(column, pc.floor(column))))
            if len(broken):
                raise ValueError(
                    f"Expected classes in the target {target!r}, got numbers such as {broken[0]}: use --task "
                    f"regression."
                )
