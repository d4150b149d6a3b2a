"""A fitted model as a file that other programs run: torch.export or ONNX, checked against the model on the spot.

What is exported is the map from encoded rows to predictions. How a row of a table becomes an encoded one is written
beside it, since text and missing values have no place in such a graph.
"""

import json
import platform
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from sklearn.utils.validation import check_is_fitted

from svdkl.errors import first_line, version_of
from svdkl.estimators.base import DeepKernelEstimator
from svdkl.estimators.examples import TableLike, encode
from svdkl.estimators.fitted import Fitted
from svdkl.export.graph import FrozenPredictor
from svdkl.export.verify import BATCH_SIZES, INPUT, largest_difference, open_export, repeated, synthetic_rows
from svdkl.shapes import Tensor
from svdkl.writing import folder_put_in_place

FILES = {"torch": "model.pt2", "onnx": "model.onnx"}
ENCODER, DESCRIPTION = "encoder.json", "export.json"
OWN = {*FILES.values(), "model.onnx.data", ENCODER, DESCRIPTION}  # ONNX keeps weights of 2 GB and more apart
OUTPUTS = {"classification": ("probabilities",), "regression": ("mean", "standard_deviation")}
TOLERANCE = 1e-5  # ten times what the roundings of single precision make of the probabilities in our tests
BATCH = ({0: torch.export.Dim("batch", min=1)},)
TRACED = 3  # rows; any number but 0 and 1, which a trace takes for constants


@dataclass(frozen=True)
class Export:
    """An exported model and how it was checked.

    Attributes
    ----------
    checked_with
        The program that ran the file.
    checked_on
        How many rows it was run on, and of what kind.
    largest_difference
        The largest difference between the file's predictions and the model's: of probabilities, or of means and
        deviations in units of the target's spread.
    """

    folder: Path
    file: Path
    checked_with: str
    checked_on: str
    largest_difference: float


def export_model(
    estimator: DeepKernelEstimator | Fitted, path: str | Path, format: str = "onnx", X: TableLike | None = None
) -> Export:
    """Write a fitted estimator's predictions as a graph, with what its user has to know, to a folder.

    The file takes encoded rows, float32, in batches of any size, and gives class probabilities, or mean and standard
    deviation, as :meth:`predict_proba` or ``predict(X, return_std=True)`` do. It is read back and run before the folder
    is put in place. A folder of an earlier export is replaced.

    Parameters
    ----------
    estimator
        A fitted estimator, or its ``fitted_``.
    format
        "torch": ``model.pt2``, for ``torch.export.load``. "onnx": ``model.onnx``.
    X
        Rows to check the file on; random ones by default.

    Raises
    ------
    ValueError
        If the model cannot be expressed, or the file's predictions differ by more than 1e-5. Nothing is left behind.
    """
    if not isinstance(estimator, Fitted):
        check_is_fitted(estimator)
    fitted = estimator if isinstance(estimator, Fitted) else estimator.fitted_
    if format not in FILES:
        raise ValueError(f"Expected format to be one of {', '.join(FILES)}, got {format!r}.")
    folder = Path(path)
    if folder.exists() and not (folder.is_dir() and {file.name for file in folder.iterdir()} <= OWN):
        raise ValueError(
            f"Expected a new folder or one with an earlier export, got {folder}, which holds something else: choose "
            f"another path."
        )
    missing = [name for name in ("onnx", "onnxscript") if format == "onnx" and find_spec(name) is None]
    if missing:
        raise ValueError(
            f"Expected the packages onnx and onnxscript to write ONNX files, got no {' and no '.join(missing)}: "
            f"install them with pip install 'svdkl[export]', or use format='torch'."
        )
    rows = synthetic_rows(fitted) if X is None else encode(fitted.encoder, fitted.read(X))
    rows = rows.float()  # the file's input type, also for networks that take images as bytes
    checked_on = f"{len(rows):,} {'random' if X is None else 'given'} rows"
    with folder_put_in_place(folder) as new:
        program = _trace(FrozenPredictor(fitted), rows)
        versions = _write(program, new / FILES[format], format, fitted.targets.task)
        checked_with, run = open_export(new / FILES[format], format)
        largest = largest_difference(fitted, run, rows)
        if not largest <= TOLERANCE:  # nor where it is NaN
            raise ValueError(
                f"Expected an exported file that predicts as the model does, got one that differs by {largest:.1e} on "
                f"{checked_on}, above {TOLERANCE:g}: export it in the other format."
            )
        export = Export(folder, folder / FILES[format], checked_with, checked_on, largest)
        _describe(fitted, export, versions, new)
    return export


def _trace(module: FrozenPredictor, rows: Tensor) -> torch.export.ExportedProgram:
    example = repeated(rows, TRACED)[:TRACED].cpu()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, of its own parts
            return torch.export.export(module, (example,), dynamic_shapes=BATCH, strict=False)
    except Exception as error:  # a network of the user's own may fail in any way
        raise ValueError(
            f"Expected a network that torch.export can trace for any number of rows, got one that it cannot "
            f"({first_line(error)}): leave out Python code that depends on values or on the number of rows."
        ) from error


def _write(program: torch.export.ExportedProgram, file: Path, format: str, task: str) -> dict[str, object]:
    """Write the file, and return the versions of the packages that wrote it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if format == "torch":
            torch.export.save(program, file)
            return {"torch": torch.__version__}
        try:
            converted = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                input_names=[INPUT],
                output_names=OUTPUTS[task],
                dynamic_shapes=BATCH,
            )
        except Exception as error:
            raise ValueError(
                f"Expected a network of operations that ONNX has, got one with others ({first_line(error)}): export "
                f"it with format='torch'."
            ) from error
        assert converted is not None
        converted.save(file)
    opset = converted.model.opset_imports[""]
    return {"torch": torch.__version__, **{name: version_of(name) for name in ("onnx", "onnxscript")}, "opset": opset}


def _describe(fitted: Fitted, export: Export, versions: dict[str, object], folder: Path) -> None:
    """Write down what a program needs to know to feed the file and to read what it gives."""
    encoder, targets = fitted.encoder, fitted.targets
    shape = list(fitted.columns.shape or ()) if encoder is None else [len(encoder.layout)]
    width, kind = [targets.num_outputs], "float32"
    if fitted.classes is not None:
        outcome = fitted.classes.to_json()
    else:
        outcome, kind = {"targets": targets.num_outputs, "likelihood": targets.likelihood}, "float64"
        width = [] if fitted.reals.single else width
    description = {
        "format": "svdkl export",
        "version": 1,
        "file": export.file.name,
        "task": targets.task,
        "recipe": fitted.options.recipe,
        "input": {"name": INPUT, "type": "float32", "shape": ["batch", *shape]},
        "outputs": [{"name": name, "type": kind, "shape": ["batch", *width]} for name in OUTPUTS[targets.task]],
        **outcome,
        "encoder": None if encoder is None else ENCODER,
        "columns": None if encoder is None else [column.name for column in encoder.schema.columns],
        "encoded_columns": None if encoder is None else [feature.name for feature in encoder.layout.features],
        "checked": {
            "with": export.checked_with,
            "on": export.checked_on,
            "batch_sizes": list(BATCH_SIZES),
            "largest_difference": export.largest_difference,
        },
        "versions": {"python": platform.python_version(), "svdkl": version_of("svdkl"), **versions},
    }
    if encoder is not None:
        _write_json(folder / ENCODER, encoder.to_json())
    _write_json(folder / DESCRIPTION, description)


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
