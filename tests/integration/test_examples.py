"""The examples run as they are."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_moons(tmp_path):
    picture = tmp_path / "moons.png"
    runpy.run_path(str(EXAMPLES / "moons.py"))["main"](picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_digits(capsys):
    runpy.run_path(str(EXAMPLES / "digits.py"))["main"]()
    *_, network, model, _ = capsys.readouterr().out.splitlines()
    accuracy, nlp = map(float, model.split()[-5:-3])
    assert model.startswith("network with a GP head")
    assert accuracy > 0.95
    assert nlp < float(network.split()[-4])
