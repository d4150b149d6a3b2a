"""A run's state on disk, from which it goes on exactly where it was.

One file of tensors (safetensors, no pickle) whose header holds the numbers as JSON, and the file's hash. It is written
beside the old one and then renamed over it, so a crash or a full disk at any moment leaves the last good state as it
was.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save_file
from torch import nn

from svdkl.shapes import Tensor
from svdkl.writing import NO_SEAL, SEAL, is_sealed, seal, written_whole

FORMAT = "svdkl-checkpoint-7"  # the number goes up whenever older files cannot be read


@dataclass(frozen=True)
class Snapshot:
    """All that a stage needs to go on: named groups of tensors, and plain numbers."""

    stage: str
    tensors: dict[str, dict[str, Tensor]]
    numbers: dict[str, Any]


class Checkpoint:
    """The newest snapshot of a run, in one file.

    Parameters
    ----------
    run
        The settings of the run, in plain values. A snapshot of a run with other settings is refused.
    on_save
        Called with every snapshot that is saved.
    """

    def __init__(
        self,
        path: Path,
        run: Mapping[str, Any] | None = None,
        on_save: Callable[[Snapshot], None] | None = None,
    ) -> None:
        self.path = path
        self.run = run
        self.on_save = on_save

    def save(self, snapshot: Snapshot) -> None:
        """Replace the snapshot on disk, all or nothing."""
        if self.on_save is not None:
            self.on_save(snapshot)
        flat = {
            f"{group}/{name}": tensor.detach().contiguous().clone()
            for group, tensors in snapshot.tensors.items()
            for name, tensor in tensors.items()
        }
        header = {
            "format": FORMAT,
            SEAL: NO_SEAL,
            "stage": snapshot.stage,
            "numbers": json.dumps(snapshot.numbers),
            "run": json.dumps(self.run),
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(self.path, f"{self.path.name}.part") as beside:
                save_file(flat, beside, metadata=header)
                seal(beside)
        except (OSError, SafetensorError) as error:
            raise OSError(
                f"Expected to write a checkpoint to {self.path}, but that failed ({error}): what was saved before is "
                f"still there; free some space or choose another folder, then resume."
            ) from error

    def load(self) -> Snapshot | None:
        """The snapshot on disk; None if there is none yet."""
        if not self.path.exists():
            return None
        header, found = self._read(self.path.read_bytes())
        self._check_run(json.loads(header["run"]))
        tensors: dict[str, dict[str, Tensor]] = {}
        for key, tensor in found.items():
            group, _, name = key.partition("/")
            tensors.setdefault(group, {})[name] = tensor
        return Snapshot(header["stage"], tensors, json.loads(header["numbers"]))

    def _read(self, data: bytes) -> tuple[dict[str, str], dict[str, Tensor]]:
        """Header and tensors of a file's content, which has to be what was written, to the last bit."""
        sealed, header = is_sealed(data), dict[str, str]()
        try:
            tensors = load_tensors(data)
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
        except SafetensorError:
            sealed = False
        if sealed is False or (sealed is None and header.get("format") == FORMAT):
            raise ValueError(
                f"Expected a whole checkpoint in {self.path}, but it is truncated or damaged: delete it to start anew."
            )
        if header.get("format") != FORMAT:
            raise ValueError(
                f"Expected a checkpoint of format {FORMAT!r} in {self.path}, got {header.get('format')!r}: it was "
                f"written by another program or version; delete it to start anew."
            )
        return header, tensors

    def _check_run(self, saved: dict[str, Any] | None) -> None:
        if self.run is None or saved is None:
            return
        ours = json.loads(json.dumps(self.run))
        for key in sorted({*ours, *saved}):
            if ours.get(key) != saved.get(key):
                raise ValueError(
                    f"Expected the checkpoint of the same run in {self.path}, got one with {key} {saved.get(key)!r} "
                    f"instead of {ours.get(key)!r}: go on with what the run was started with, or delete it to start "
                    f"anew."
                )


def optimiser_tensors(optimiser: torch.optim.Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """The moments and step counts of an optimiser, by the parameters' names."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    return {
        f"{names[parameter]}:{key}": value
        for parameter, values in optimiser.state.items()
        for key, value in values.items()
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Give an optimiser the moments of all parameters whose names it has."""
    parameters = dict(module.named_parameters())
    optimiser.state.clear()
    for key, value in tensors.items():
        name, _, part = key.rpartition(":")
        if name in parameters:
            optimiser.state[parameters[name]][part] = _laid_out_as(parameters[name], value)


def _laid_out_as(parameter: Tensor, value: Tensor) -> Tensor:
    """A copy of a moment with the parameter's order in memory, in which the fused optimiser walks over both at once."""
    if value.shape != parameter.shape:
        return value.to(parameter.device, copy=True)
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
