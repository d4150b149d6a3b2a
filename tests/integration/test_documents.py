"""The code in the documents runs as it stands there, block after block, and prints what they say it prints."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from svdkl.cli.app import main

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
DOCUMENTS = [path for path in PAGES if "```python" in path.read_text()]
BLOCK = re.compile(r"(<!-- not run: [^\n]*-->\n)?```(\w*)\n(.*?)```", re.DOTALL)


def run_python(path: Path) -> dict[str, object]:
    names: dict[str, object] = {}
    for _, language, block in BLOCK.findall(path.read_text()):
        if language == "python":
            exec(compile(block, str(path), "exec"), names)
    return names


def without_numbers(line: str) -> str:
    """The shape of a line: what stands between its numbers, with single spaces."""
    return " ".join(re.sub(r"\d[\d.,]*", "0", line).split())


def assert_prints(printed: str, document: str) -> None:
    """Assert that lines of a document were printed in this order. "..." stands for what is left out."""
    lines = iter(map(without_numbers, printed.splitlines()))
    for line in (without_numbers(line) for line in document.splitlines() if line != "..."):
        start = line.removesuffix("...")
        assert any(found == line or (start != line and found.startswith(start)) for found in lines), line


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_code_blocks(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_python(path)
    if path.name == "README.md":
        probabilities, net, x = names["probabilities"], names["net"], names["x"]
        assert isinstance(net, torch.nn.Module)
        torch.testing.assert_close(probabilities, net(x.float()).softmax(1), rtol=0, atol=1e-3)


def test_shell_session_of_the_readme(tmp_path, monkeypatch, capsys):
    """The commands run as written, on the files that README's Python writes, and print what README says."""
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    tables = next(block for _, _, block in blocks if "load_breast_cancer" in block)
    written = next(block for _, _, block in blocks if "to_csv" in block)
    without_fit = [line for line in tables.splitlines() if line.startswith("from sklearn") or "load_" in line]
    exec("\n".join([*without_fit, written]), {})
    capsys.readouterr()
    commands = [block for unless, language, block in blocks if language == "sh" and not unless]
    for line in "".join(commands).splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "svdkl"
        assert main(arguments) == 0, line
    outputs = [block for _, language, block in blocks if not language]
    printed = capsys.readouterr()
    assert_prints(printed.out, outputs[0])
    assert len(commands) == len(outputs) == 1


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_read_well(path):
    """Prose has lines that fit an editor, and links to files of the repository lead to one."""
    text = path.read_text()
    prose = BLOCK.sub("", text).splitlines()
    assert [line for line in prose if len(line) > 120 and not line.startswith("|")] == []
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_the_readme_shows_code_early():
    assert (ROOT / "README.md").read_text().partition("```python")[0].count("\n") < 30


def test_what_is_printed_is_compared_by_its_shape():
    assert_prints("a 1.5\nb  22 s\nc: 3, and more\n", "...\nb 7 s\nc: 5, ...\n")
    with pytest.raises(AssertionError, match=r"^c"):
        assert_prints("a 1\nb 2\n", "a 1\nc 2\n")
