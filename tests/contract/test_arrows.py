"""Imports go one way: a module may import only from its own layer and those below (ARCHITECTURE.md)."""

import ast
import re
from pathlib import Path

import svdkl

PACKAGE = Path(svdkl.__file__).parent
LAYERS = [
    ["compiled", "derivatives", "reasons", "shapes", "versions", "writing"],
    ["linalg"],
    ["grid", "kernels", "interpolation", "quadrature"],
    ["inducing", "memory"],
    ["features", "bank", "mixing", "likelihoods"],
    ["additive"],
    ["expectation", "objective", "prediction"],
    ["uncertainty", "familiarity"],
    ["head"],
    ["model"],
    ["training"],
    ["tabular"],
    ["estimators"],
    ["experiments"],
    ["benchmarks"],
    ["report"],
    ["cli"],
    ["__main__"],
]
APART = ["metrics"]  # importing none of the above, and imported where models are judged:
JUDGING = ["experiments", "report", "cli"]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
MODULES = [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name != "__init__.py"]


def part_of(module: str) -> str:
    return module.split(".")[1]


def imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return names


def test_every_module_has_a_layer():
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    assert parts == {*HEIGHT, *APART}


def test_arrows_go_one_way():
    for path in MODULES:
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for name in imports(path):
            if not name.startswith("svdkl."):
                assert name != "svdkl", f"{path} imports the package itself"
                continue
            if own in APART:
                assert part_of(name) == own, f"{path} imports {name}"
            elif part_of(name) in APART:
                assert own in JUDGING, f"{path} imports {name}"
            else:
                assert HEIGHT[part_of(name)] <= HEIGHT[own], f"{path} imports {name}, which lies above it"


def test_gpytorch_and_scikit_learn_are_not_imported_by_the_core():
    for path in MODULES:
        own = path.relative_to(PACKAGE).parts[0]
        allowed = "sklearn" if own in ("tabular", "estimators", "experiments") else "none"
        if path.parent == PACKAGE / "report" / "figures":
            allowed = "matplotlib"
        found = [name for name in imports(path) if re.match(r"(gpytorch|sklearn|matplotlib)(\.|$)", name)]
        found = [name for name in found if not name.startswith(allowed)]
        # A rival is an import of its own file, which is loaded when the rival is asked for.
        rival = own in ("experiments", "benchmarks") and path.name in (
            "svgp.py",
            "svgp_start.py",
            "sparse_gp.py",
            "gpytorch_svdkl.py",
        )
        assert not found or rival, path


def test_files_named_in_the_architecture_exist():
    text = (PACKAGE.parent.parent / "ARCHITECTURE.md").read_text()
    table = text[text.index("## Equation") : text.index("## Decisions")]
    for cells in (
        re.split(r"(?<!\\)\|", line) for line in table.splitlines() if line.startswith("|") and ".py" in line
    ):
        folder = ""
        for name in re.findall(r"[\w/]+\.py", cells[3]):
            folder = name.rsplit("/", 1)[0] if "/" in name else folder
            assert (PACKAGE.parent.parent / "tests" / folder / name.rsplit("/", 1)[-1]).exists(), name
        folder = ""
        for name in re.findall(r"[\w/]+\.py", cells[2]):
            assert (PACKAGE / name).exists(), name
