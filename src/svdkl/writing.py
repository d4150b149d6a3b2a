"""Writing of files and folders that appear whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a path beside ``path`` to write to; it is renamed to it at the end, and deleted after an error."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.absolute().parent)
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        mask = os.umask(0)
        os.umask(mask)
        beside.chmod(0o666 & ~mask)  # the mode of an ordinary new file
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
        if path.exists():
            path.rename(old)
        new.rename(path)
    finally:
        if os.path.lexists(old) and not os.path.lexists(path):
            old.rename(path)
        shutil.rmtree(beside, ignore_errors=True)
