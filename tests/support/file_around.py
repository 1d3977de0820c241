"""A file around another one, for tests that look at or change a part of what it does."""

from barnabas.runtime.files import Buffer, File


class FileAround:
    """Does what the file within does."""

    __slots__ = ("_within",)

    def __init__(self, within: File) -> None:
        self._within = within

    @property
    def path(self) -> str:
        return self._within.path

    def pread(self, size: int, position: int) -> bytes:
        return self._within.pread(size, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        self._within.pwrite(data, position)

    def size(self) -> int:
        return self._within.size()

    def truncate(self, size: int) -> None:
        self._within.truncate(size)

    def fsync(self) -> None:
        self._within.fsync()

    def fileno(self) -> int:
        return self._within.fileno()

    def is_cached(self, position: int, size: int) -> bool:
        return self._within.is_cached(position, size)

    def read_ahead(self, position: int, size: int) -> None:
        self._within.read_ahead(position, size)

    def let_go(self, position: int, size: int) -> None:
        self._within.let_go(position, size)

    def close(self) -> None:
        self._within.close()
