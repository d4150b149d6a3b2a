"""Imports go one way: a module may import only from its own room and those below (ARCHITECTURE.md)."""

import ast
import re
from pathlib import Path

import svdkl

PACKAGE = Path(svdkl.__file__).parent
ROOT = PACKAGE.parent.parent
# From the bottom to the top. A file of the package's own folder is a room of its own.
LAYERS = [
    ["doors", "errors", "flights", "shapes", "writing", "__version__"],
    ["gp.fast.compiling", "gp.fast.dropout_loops"],
    ["tables"],
    ["nets"],
    ["gp.linalg", "gp.fast.toeplitz_loops"],
    ["gp.grid", "gp.kernels", "gp.interpolation", "gp.quadrature"],
    ["gp.prior", "gp.posterior", "gp.divergence", "gp.marginals", "gp.lattice_gps", "gp.memory", "gp.fast"],
    ["gp.bounding", "gp.groups", "gp.mixing", "likelihoods"],
    ["gp.additive"],
    ["gp.elbo", "gp.prediction"],
    ["gp.familiarity", "gp.head_protocol"],
    ["gp.head", "gp.__init__"],
    ["model"],
    ["training"],
    ["replace"],
    ["estimators"],
    ["export", "demo", "doctor"],
    ["report"],
    ["cli"],
    ["__main__"],
]
APART = ["metrics"]  # importing none of the above, and imported where models are judged:
JUDGING = ["demo", "report", "cli"]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
# Doors that lead up: the package's own, and the name under which launchers know a run.
DOORS = {"__init__.py": None, "training/__init__.py": {"svdkl.estimators.run", "svdkl.estimators.run_config"}}
ROOMS = "|".join(sorted({path.name.removesuffix(".py") for path in PACKAGE.iterdir()}))
MODULE = rf"svdkl_research(\.\w+)*|svdkl\.({ROOMS})(\.\w+)*"  # the name of a module, as import_module takes it
MODULES = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]


def room_of(module: str) -> str:
    """The room of a module by its dotted name without the package's: the longest name that is a layer's."""
    parts = module.split(".")
    known = {*HEIGHT, *APART}
    return next(name for end in range(len(parts), 0, -1) if (name := ".".join(parts[:end])) in known)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def imports(path: Path) -> list[str]:
    """The modules that a file imports, also inside of functions, and those that it names in a text."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "svdkl" else [node.module]
            )
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # What import_module is given, or a command of another process.
            names += [node.value] if re.fullmatch(MODULE, node.value) else []
    return names


def test_every_module_has_a_room():
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    assert parts == {name.split(".")[0] for name in (*HEIGHT, *APART)} - {"__version__"}
    for path in MODULES:
        room_of(name_of(path))


def test_texts_that_name_modules_are_seen(tmp_path):
    file = tmp_path / "hidden.py"
    file.write_text('import importlib\nimportlib.import_module("svdkl.cli.app")\nfrom svdkl import model\n')
    assert imports(file) == ["importlib", "svdkl.model", "svdkl.cli.app"]


def test_arrows_go_one_way():
    for path in MODULES:
        own = room_of(name_of(path))
        allowed = DOORS.get(str(path.relative_to(PACKAGE)), set())
        for name in imports(path):
            assert name.split(".")[0] != "svdkl_research", f"{path} names {name}, which the product must not know"
            if not name.startswith("svdkl.") or name in allowed:
                continue
            room = room_of(name.removeprefix("svdkl."))
            if own in APART:
                assert room == own, f"{path} imports {name}"
            elif room in APART:
                assert own in JUDGING, f"{path} imports {name}"
            else:
                assert HEIGHT[room] <= HEIGHT[own], f"{path} imports {name}, which lies above it"


def test_libraries_are_imported_where_they_belong():
    """Rivals nowhere, scikit-learn where tables and targets are, matplotlib where figures are drawn."""
    for path in MODULES:
        own = path.relative_to(PACKAGE).parts[0]
        allowed = {"sklearn"} if own in ("tables", "estimators", "export", "doctor.py") else set()
        if path.parent == PACKAGE / "report" / "figures":
            allowed = {"matplotlib"}
        found = {name.split(".")[0] for name in imports(path)}
        assert not (found & {"gpytorch", "sklearn", "matplotlib"}) - allowed, path


def test_files_named_in_the_architecture_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    table = text[text.index("## Equation") : text.index("## Decisions")]
    for cells in (
        re.split(r"(?<!\\)\|", line) for line in table.splitlines() if line.startswith("|") and ".py" in line
    ):
        folder = ""
        for name in re.findall(r"[\w/]+\.py", cells[3]):
            folder = name.rsplit("/", 1)[0] if "/" in name else folder
            assert (ROOT / "tests" / folder / name.rsplit("/", 1)[-1]).exists(), name
        for name in re.findall(r"[\w/]+\.py", cells[2]):
            assert (PACKAGE / name).exists(), name
