"""A table's folder: files that are there as a whole or not at all, also after a power cut.

Errors of the file system become `LakeError`s with the path and what to do.
"""

import contextlib
import errno
import os
import random
import re
from collections.abc import Iterator
from typing import Final

from barnabas.pipeline.lake.orphans import Listed
from barnabas.pipeline.lake.table import BrokenTable, LakeError, NotWritable

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HIDDEN: Final = ("_", ".")


def absolute(path: str) -> str:
    """The folder of a table as an absolute path. Raises LakeError for what is on no file system."""
    found = _URL.match(path)
    if found is not None and found[1].lower() != "file":
        raise LakeError(
            f"{path}: tables are written to file systems, not to {found[1]}://; give the path of a folder that all "
            "workers see, such as a mounted share"
        )
    plain = path[len(found[0]) :] if found is not None else path
    if not plain:
        raise LakeError("the path of a table is empty; name a folder")
    return os.path.abspath(os.path.expanduser(plain))


def new_token(dice: random.Random | None = None) -> str:
    """A name that nobody else has."""
    return f"{(dice or random.Random()).getrandbits(64):016x}"


def require_writable(location: str) -> None:
    """Make the folder, and a file in it for a moment. Raises NotWritable."""
    probe = os.path.join(location, f".barnabas-{new_token()}")
    with not_writable(location):
        os.makedirs(location, exist_ok=True)
        with open(probe, "xb") as file:
            file.write(b"writable")
            file.flush()
        os.unlink(probe)


@contextlib.contextmanager
def not_writable(path: str) -> Iterator[None]:
    """Errors of the file system as NotWritable."""
    try:
        yield
    except OSError as error:
        hint = {
            errno.EACCES: "give this user the right to write there",
            errno.EPERM: "give this user the right to write there",
            errno.EROFS: "the file system is mounted read-only",
            errno.ENOSPC: "the file system is full",
            errno.EDQUOT: "the quota is used up",
            errno.ENOTDIR: "a part of the path is a file",
            errno.EEXIST: "a part of the path is a file",
        }.get(error.errno or 0, "look at the file system")
        raise NotWritable(f"{path} cannot be written: {error.strerror or error}; {hint}") from error


def publish(path: str, content: bytes) -> bool:
    """Put a file in its place unless one is there; whether this one is. Raises NotWritable.

    The link is what makes it one step: a rename would replace what somebody else has published.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{new_token()}")
    with not_writable(path):
        _write_synced(temporary, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        sync_folder(folder)
    return True


def replace(path: str, content: bytes) -> None:
    """Put a file in its place, whatever was there. Raises NotWritable."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{new_token()}")
    with not_writable(path):
        try:
            _write_synced(temporary, content)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(folder)


def _write_synced(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: str) -> None:
    """Let a file that was written reach the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: str) -> None:
    """Make a folder and those above it, so that their names reach the disk. Raises OSError."""
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        make_folder(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    sync_folder(above)


def sync_folder(path: str) -> None:
    """Let the names in a folder reach the disk."""
    sync_file(path)


def read_file(path: str) -> bytes | None:
    """What a file holds, None where there is none. Raises BrokenTable."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BrokenTable(f"{path} cannot be read: {error.strerror or error}") from error


def names_in(path: str) -> list[str]:
    """The names in a folder, in order; none where there is no folder. Raises BrokenTable."""
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BrokenTable(f"{path} cannot be read: {error.strerror or error}") from error


def list_files(location: str, suffix: str) -> list[Listed]:
    """The files of a table with this suffix, not those of folders that begin with `_` or a dot."""
    found = []
    for folder, folders, names in os.walk(location):
        folders[:] = [each for each in folders if not each.startswith(_HIDDEN)]
        for name in names:
            if name.endswith(suffix) and not name.startswith(_HIDDEN):
                path = os.path.join(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    changed_ms = os.stat(path).st_mtime_ns // 1_000_000
                    found.append(Listed(os.path.relpath(path, location), changed_ms))
    return found


def remove_files(location: str, paths: list[str]) -> None:
    """Remove files of a table; one that is gone already is no error. Raises NotWritable."""
    for path in paths:
        whole = os.path.join(location, path)
        with not_writable(whole), contextlib.suppress(FileNotFoundError):
            os.unlink(whole)
