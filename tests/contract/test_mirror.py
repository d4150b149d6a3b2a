"""The tests of single modules lie as the modules do."""

from pathlib import Path

import svdkl

PACKAGE = Path(svdkl.__file__).parent
UNIT = Path(__file__).parents[1] / "unit"


def test_a_unit_test_stands_for_a_module():
    """``tests/unit/ROOM/test_X.py`` stands for ``src/svdkl/ROOM/X.py``; tests of several rooms are integration."""
    for path in UNIT.rglob("*.py"):
        if path.name != "conftest.py":
            module = PACKAGE / path.relative_to(UNIT).with_name(path.name.removeprefix("test_"))
            assert path.name.startswith("test_"), path
            assert module.exists(), f"{path} stands for {module}, which does not exist: rename it, or move it"
