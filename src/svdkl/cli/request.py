"""A request to train: options of the command line, over settings of a YAML or TOML file.

The options are the fields of :class:`~svdkl.estimators.options.Options`; nothing here waits for torch.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from svdkl.errors import missing_package, suggestion
from svdkl.estimators.options import FLAG, WORD, Kind, choice, command_line_fields, is_whole, whole
from svdkl.estimators.run_config import RunConfig

NAMES = Kind("NAME ...", "a list of names", lambda value: isinstance(value, list) and all(map(_is_text, value)))
SEED = Kind("N", "a whole number from 0 to 2^32 - 1", lambda value: is_whole(value, 0) and value < 2**32, whole().parse)
# Settings of a run that are no options of an estimator.
GENERAL: dict[str, Kind] = {
    "target": WORD,
    "task": choice("auto", "classification", "regression"),
    "drop": NAMES,
    "seed": SEED,
    "stream": FLAG,
    "epoch_rows": whole(),
}
OPTIONS = command_line_fields()
KINDS: dict[str, Kind] = {**GENERAL, **{name: one.metadata["kind"] for name, one in OPTIONS.items()}}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def flag(name: str) -> str:
    """Return an option as it is typed on the command line."""
    return "--" + name.replace("_", "-")


def as_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command of a function that takes the ``command_line``, options of its own, and ``**options``.

    Options that are not given are None.
    """
    own = signature(function, eval_str=True).parameters.values()
    typed = {"context": typer.Context}
    typed |= {p.name: p.annotation for p in own if p.name != "command_line" and p.kind is not p.VAR_KEYWORD}
    typed |= {p.name: _annotation(p) for p in OPTIONS.values()}
    defaults = {**dict.fromkeys(OPTIONS), **{p.name: p.default for p in own}}

    def command(context: Any, **given: Any) -> Any:
        return function(context.obj, **given)

    command.__name__, command.__doc__, command.__annotations__ = function.__name__, function.__doc__, typed
    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=defaults.get(name, Parameter.empty))
            for name, kind in typed.items()
        ]
    )
    return command


def _annotation(option: Field[Any]) -> Any:
    """Describe an option to typer. Its text names the default, since an option that is not given is None here."""
    kind: Kind = option.metadata["kind"]
    flags, shown = flag(option.name), str(option.default).lower()
    if kind is FLAG:
        flags, shown = f"{flags}/--no-{flags[2:]}", "yes" if option.default else "no"
    described = typer.Option(
        flags,
        help=f"{option.metadata['help']} Default: {shown}.",
        rich_help_panel=option.metadata["panel"],
        metavar=kind.shown,
        show_default=False,
    )
    return Annotated[(bool if kind is FLAG else str) | None, described]


def read_request(data: Path, out: Path, config: Path | None, given: Mapping[str, Any], **more: Any) -> RunConfig:
    """Return the run that a command line asks for, where None stands for an option that was not given.

    The given options win over a configuration file; ``more`` are further fields of the result.
    """
    settings = {} if config is None else read_config(config)
    for name, value in given.items():
        if value is not None:
            settings[name] = KINDS[name].read(flag(name), value)
    general = {name: settings.pop(name) for name in GENERAL if name in settings}
    if "target" not in general:
        raise ValueError("Expected --target COL, the column to predict, got none: name it.")
    general["drop"] = tuple(general.get("drop", ()))
    general["task"] = _task(general.get("task", "auto"), settings)
    return RunConfig(data=data, out=out, options=settings, **general, **more)


def _task(task: str, options: dict[str, Any]) -> str:
    """Return the task; an option that only one of the two tasks has tells it, too."""
    for name, option in OPTIONS.items():
        of_task = option.metadata["task"]
        if of_task and options.get(name) is None:
            options.pop(name, None)  # class weights of none suit both tasks
        elif of_task and task not in ("auto", of_task):
            raise ValueError(f"Expected {name} for {of_task} only, got it for {task}: leave it out.")
        elif of_task:
            task = of_task
    return task


def read_config(path: Path) -> dict[str, Any]:
    """Read the settings in a file by the names of options; unknown names and wrong values are refused."""
    settings = {}
    for key, value in _parsed(path).items():
        name = str(key).replace("-", "_")
        if name not in KINDS:
            raise ValueError(f"Expected settings of a run in {path}, got {key!r}: {suggestion(name, list(KINDS))}.")
        listed = [value] if name == "drop" and isinstance(value, str) else value
        settings[name] = KINDS[name].read(f"{key} in {path}", listed)
    return settings


def _parsed(path: Path) -> dict[Any, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected UTF-8 text in {path}, got something else: save it as UTF-8.") from error
    except OSError as error:
        raise OSError(f"Expected settings in {path}, but it cannot be read ({error.strerror}).") from error
    if path.suffix == ".toml":
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"Expected TOML in {path}, but it is broken ({error}).") from error
    elif path.suffix in (".yaml", ".yml"):
        content = _parsed_yaml(path, text)
    else:
        raise ValueError(f"Expected settings in a file that ends in .yaml, .yml or .toml, got {path}: rename it.")
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError(f"Expected lines such as 'max_iter: 10' in {path}, got {type(content).__name__}.")
    return content


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
