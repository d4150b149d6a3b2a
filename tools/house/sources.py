"""What the text of the package shows: its size, and habits that make a module know too much of another."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "svdkl"
# An option that the recipe of training uses, and that the estimators and the command line pass on.
OPTION, ROOM_OF_THE_OPTION = "joint_batch_size", "training"
KINDS_OF_MODELS = {"SVDKL", "PlainNet", "LinearHead", "GPHead", "FrozenHead"}
# Public methods of named tuples, which have an underscore so that no field can have their name.
OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
# Commands have the name of what they call; __init__.py is every package's.
MAY_STAND_TWICE = {"__init__.py", "demo.py", "doctor.py"}


@cache
def modules() -> dict[Path, ast.Module]:
    """Every module of the package, parsed."""
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def place(path: Path, node: ast.AST) -> str:
    """Where a node stands, and what it says, in one line."""
    line = getattr(node, "lineno", 1)
    return f"{path.relative_to(PACKAGE)}:{line} {ast.unparse(node).splitlines()[0][:80]}"


def lines() -> int:
    """Lines of all files of the package."""
    return sum(len(path.read_text().splitlines()) for path in modules())


def names_that_stand_twice() -> list[str]:
    """Base names that two files of the package have, except the allowed ones."""
    counts = Counter(path.name for path in modules())
    return [name for name, count in counts.items() if count > 1 and name not in MAY_STAND_TWICE]


def files_that_pass_an_option_on() -> list[str]:
    """Files that name an option, except in the room that uses it and where its value is only used.

    A file uses the value where it reads the option as an attribute, and where it gives a keyword of that name a value
    which it computes from such a read. It passes the option on where it names it in any other way.
    """
    found = []
    for path, tree in modules().items():
        mentions = len(re.findall(rf"\b{OPTION}\b", path.read_text()))
        uses = _reads_of_the_option(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == OPTION and not isinstance(node.value, ast.Attribute):
                uses += _reads_of_the_option(node.value) > 0
        if mentions > uses and path.relative_to(PACKAGE).parts[0] != ROOM_OF_THE_OPTION:
            found.append(str(path.relative_to(PACKAGE)))
    return found


def _reads_of_the_option(tree: ast.AST) -> int:
    return sum(
        isinstance(node, ast.Attribute) and node.attr == OPTION and isinstance(node.ctx, ast.Load)
        for node in ast.walk(tree)
    )


def parameters(room: str) -> Iterator[tuple[Path, ast.arg]]:
    """The parameters of all functions and methods of a room, constructors included, without self and cls.

    Scikit-learn asks of a constructor that it stores what it is given, not that it says nothing of what it expects.
    """
    for path, tree in modules().items():
        if path.relative_to(PACKAGE).parts[0] != room:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                starred = [argument for argument in (node.args.vararg, node.args.kwarg) if argument is not None]
                for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *starred):
                    if argument.arg not in ("self", "cls"):
                        yield path, argument


def share_of_any(room: str) -> tuple[float, list[str]]:
    """How many per cent of a room's parameters are annotated as ``Any`` or as another name of it, and which."""
    everything = list(parameters(room))
    other_names = {
        target.id
        for tree in modules().values()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "Any"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = [
        place(path, argument)
        for path, argument in everything
        if isinstance(argument.annotation, ast.Name) and argument.annotation.id in {"Any", *other_names}
    ]
    return 100 * len(found) / max(1, len(everything)), found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES


def _private_names_of(tree: ast.Module) -> set[str]:
    """The private names that a module gives: to functions and classes, variables, attributes and fields."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return {name for name in names if _is_private(name)}


def foreign_private_reads() -> list[str]:
    """Reads of a private name that another module of the package has given, except by ``self`` and ``cls``."""
    given = {path: _private_names_of(tree) for path, tree in modules().items()}
    all_names = set().union(*given.values())
    found = []
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in all_names - given[path]:
                if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                    found.append(place(path, node))
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "svdkl":
                found += [place(path, node) for alias in node.names if _is_private(alias.name)]
    return found


def forks_on_the_model() -> list[str]:
    """Calls of ``isinstance`` that ask which kind of model or head it is."""
    return [
        place(path, node)
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("isinstance", "issubclass")
        and KINDS_OF_MODELS & set(re.findall(r"\w+", ast.unparse(node.args[1])))
    ]


def imports_inside_functions() -> list[str]:
    """Imports of the package's own modules that stand inside of functions."""
    return [
        place(path, node)
        for path, tree in modules().items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in function.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "svdkl"
    ]


def _name(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement, maxsplit=1)[0].lower()


def core_dependencies() -> list[str]:
    """The dependencies of the product without extras, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [_name(requirement) for requirement in project["dependencies"]]


def brought_by(names: list[str]) -> list[str]:
    """These distributions and all that they need in turn, as far as they are installed here."""
    found: list[str] = []
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.append(name)
            with suppress(PackageNotFoundError):
                left += [_name(other) for other in requires(name) or () if "extra ==" not in other]
    return found
