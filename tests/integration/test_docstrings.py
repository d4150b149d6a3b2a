"""The examples in docstrings run, and print what they say.

They may use what a reader of such an example has imported, and ``X`` and ``y``, as examples of scikit-learn do.
"""

import ast
import doctest
import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import svdkl
import svdkl_research
from svdkl.nets.convnet import CifarQuick
from svdkl.tables.encoder import TabularEncoder
from svdkl.training.batches import Rows
from svdkl.training.recipe import train

IMPORTED = {"np": np, "torch": torch, "nn": nn, "Rows": Rows, "train": train}
IMPORTED |= {"CifarQuick": CifarQuick, "TabularEncoder": TabularEncoder}
IMPORTED |= {name: getattr(svdkl, name) for name in svdkl.__all__}


def examples() -> dict[str, tuple[str, str]]:
    """The docstrings with examples by the names of what they describe, each with its module."""
    found = {}
    for package in (svdkl, svdkl_research):
        folder = Path(package.__file__).parent
        for path in sorted(folder.rglob("*.py")):
            module = ".".join([folder.name, *path.relative_to(folder).with_suffix("").parts])
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    text = ast.get_docstring(node) or ""
                    if ">>>" in text:
                        found[f"{module}:{getattr(node, 'name', '')}"] = (module, text)
    return found


EXAMPLES = examples()


@pytest.fixture
def names() -> dict[str, object]:
    """A table of text and numbers with two classes, and what is imported."""
    random = np.random.default_rng(0)
    X = pd.DataFrame({"text": random.choice(["a", "b", "c"], 60), "number": random.normal(size=60)})
    return {**IMPORTED, "X": X, "y": (X["number"] > 0).to_numpy().astype(int)}


def test_there_are_examples():
    assert {"svdkl.model:SVDKL", "svdkl.estimators.classifier:SVDKLClassifier"} <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module, text = EXAMPLES[name]
    known = {**vars(importlib.import_module(module)), **names}
    example = doctest.DocTestParser().get_doctest(text, known, name, None, None)
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=told.append)
    assert not told, "".join(told)
