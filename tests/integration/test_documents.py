"""The code in the documents runs as it stands there, block after block."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [path for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) if "```python" in path.read_text()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_code_blocks(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
        exec(compile(block, str(path), "exec"), names)
    if path.name == "README.md":
        probabilities, y = names["probabilities"], names["y"]
        assert isinstance(probabilities, torch.Tensor)
        assert (probabilities.argmax(1) == y).float().mean().item() > 0.9
