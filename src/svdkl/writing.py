"""Writing of files and folders that appear whole or not at all, with the mode that the system gives new ones.

A sealed file names its own hash, so that a single changed bit of it is noticed. The seal is a value "sha256" somewhere
in its JSON: the hash of the file with :data:`NO_SEAL` in that place.
"""

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE, EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
READ_AND_WRITE = 0o666  # of the mode of a folder, what its files have
SEAL, NO_SEAL = "sha256", "0" * 64
PLACE_OF_SEAL = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')


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

    Whatever happens on the way, an interrupt included, afterwards the old folder or the new one is there. On Linux that
    holds at every moment, so that a process may also be killed.
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
        if not os.path.lexists(path):
            new.rename(path)
        elif not _exchange(new, path):
            path.rename(old)
            new.rename(path)
    finally:
        if os.path.lexists(old) and not os.path.lexists(path):
            old.rename(path)
        shutil.rmtree(beside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange what stands under two names, in one call of the system; False if it has no such call."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # another system
        return False
    if call(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):  # an old system, or a file system without it
        return False
    raise OSError(number, os.strerror(number), str(other))


def seal(file: Path) -> None:
    """Put a file's hash in place of :data:`NO_SEAL` in it."""
    with file.open("r+b") as content:
        data = content.read()
        place = PLACE_OF_SEAL.search(data)
        assert place is not None
        content.seek(place.start(1))
        content.write(hashlib.sha256(data).hexdigest().encode())


def is_sealed(data: bytes) -> bool | None:
    """Tell whether the content of a file is what was sealed; None if it has no seal."""
    place = PLACE_OF_SEAL.search(data)
    if place is None:
        return None
    found = hashlib.sha256(data[: place.start(1)] + NO_SEAL.encode())
    found.update(memoryview(data)[place.end(1) :])
    return found.hexdigest().encode() == place[1]


def _kept(file: Path, mode: int) -> None:
    """Give a file the mode of a new one, whatever has written it, and wait until it is on disk."""
    file.chmod(mode & READ_AND_WRITE)
    with file.open("rb") as written:
        os.fsync(written.fileno())
