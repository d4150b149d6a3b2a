"""Writing of files and folders that appear whole or not at all, with the mode that the system gives new ones."""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

READ_AND_WRITE = 0o666  # of the mode of a folder, what its files have


@contextlib.contextmanager
def written_whole(path: Path, part: str | None = None) -> Iterator[Path]:
    """Give a path beside ``path`` to write to; it is renamed to it at the end, and deleted after an error.

    Parameters
    ----------
    part
        The name to write under, a new one by default. Writes that are killed leave at most one file of one name.
    """
    folder = path.absolute().parent
    beside = folder / (part or f".{path.name}.{secrets.token_hex(8)}{path.suffix}")
    if part:
        beside.unlink(missing_ok=True)
    beside.touch(exist_ok=False)
    mode = beside.stat().st_mode
    try:
        yield beside
        _kept(beside, mode)
        beside.replace(path)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


@contextlib.contextmanager
def folder_put_in_place(path: Path) -> Iterator[Path]:
    """Give an empty folder beside ``path`` to fill; at the end it replaces ``path``.

    Whatever happens on the way, an interrupt included, afterwards the old folder or the new one is there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    new, old = beside / "new", beside / "old"
    try:
        new.mkdir()
        yield new
        mode = new.stat().st_mode
        for file in new.rglob("*"):
            if file.is_file():
                _kept(file, mode)
        if path.exists():
            path.rename(old)
        new.rename(path)
    finally:
        if os.path.lexists(old) and not os.path.lexists(path):
            old.rename(path)
        shutil.rmtree(beside, ignore_errors=True)


def _kept(file: Path, mode: int) -> None:
    """Give a file the mode of a new one, whatever has written it, and wait until it is on disk."""
    file.chmod(mode & READ_AND_WRITE)
    with file.open("rb") as written:
        os.fsync(written.fileno())
