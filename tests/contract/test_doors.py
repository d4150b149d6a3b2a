"""The public names: what a package's door says is there can be imported, and nothing else."""

import importlib
import subprocess
import sys

import pytest

PACKAGES = {
    "svdkl": ["MLP", "SVDKL", "GPHead", "SVDKLClassifier", "SVDKLRegressor", "__version__", "replace_classifier"],
    "svdkl.tables": ["TabularEncoder"],
    "svdkl.nets": ["MLP", "AlexNet", "CifarQuick", "CropAndFlip", "LeNet", "ResNet", "Standardise", "TabularNet"],
    "svdkl.training": [
        *("Checkpoint", "Display", "Rows", "RunConfig", "TrainingConfig", "fit_held_out_evidence", "run", "train")
    ],
    "svdkl.export": ["Export", "export_model"],
    "svdkl.report": ["write_report"],
}


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names(package):
    module = importlib.import_module(package)
    assert sorted(module.__all__) == sorted(PACKAGES[package])
    for name in PACKAGES[package]:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match=f"^module '{package}' has no attribute 'nothing'$"):
        module.nothing  # noqa: B018


def test_the_first_door_costs_nothing():
    """A command's --help need not wait for torch and scikit-learn."""
    code = "import sys, svdkl, svdkl.tables; print(sorted({'torch', 'sklearn', 'numpy'} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout == "[]\n"
