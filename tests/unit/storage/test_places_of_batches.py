"""Where a reader's batch stands: found with few reads, whatever stands around it."""

from random import Random

import pytest

from barnabas.protocol.batch import read_header
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.files import File
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.scan import LOOKUP_WINDOW_BYTES, CorruptSegment
from tests.support.file_around import FileAround
from tests.unit.storage.logs import append, batch, make_log, make_ports, read_bytes

LARGE = b"v" * (LOOKUP_WINDOW_BYTES + 1000)
MANY = 40
"""More than a segment remembers the places of."""


class CountingFile(FileAround):
    __slots__ = ("reads",)

    def __init__(self, within: File) -> None:
        super().__init__(within)
        self.reads = 0

    def pread(self, size: int, position: int) -> bytes:
        self.reads += 1
        return super().pread(size, position)


class CountingDisk(SystemDisk):
    """Counts what is read of each file."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> CountingFile:
        return CountingFile(super().open(path, create=create, writable=writable))


def base_offset_at(log: Log, offset: int) -> int:
    return read_header(read_bytes(log, offset, max_bytes=100)).base_offset


@pytest.mark.parametrize("records", [1, 3])
def test_the_place_of_a_large_batch_and_its_size_take_one_read(tmp_path, records):
    log = make_log(str(tmp_path), ports=make_ports(CountingDisk()))
    for _ in range(MANY):
        append(log, batch(*[LARGE] * records))
    file = log.segments.active.log_file
    assert isinstance(file, CountingFile)
    file.reads = 0
    most = len(LARGE) * (records + 1)
    # The first has no entry.
    for offset in range(records, 11 * records, records):
        assert len(read_bytes(log, offset, max_bytes=most)) == most
    # What a reader was given is read as well, by the test.
    assert file.reads == 2 * 10


@pytest.mark.parametrize("seed", range(20))
def test_each_offset_is_found_in_batches_of_any_size(tmp_path, seed):
    random = Random(seed)
    log = make_log(str(tmp_path), LogConfig(index_interval_bytes=random.choice([0, 4096, 50_000])))
    begins: list[int] = []
    for _ in range(MANY):
        value = random.choice([b"", b"v" * 1000, LARGE, LARGE * 5])
        count = random.randint(1, 5)
        begins += [len(begins)] * count
        append(log, batch(*[value] * count))
    for _ in range(3 * len(begins)):
        offset = random.randrange(len(begins))
        assert base_offset_at(log, offset) == begins[offset], f"seed {seed}, offset {offset}"


def test_a_batch_is_read_though_the_next_one_with_an_entry_cannot_be(tmp_path):
    log = make_log(str(tmp_path))
    one = len(batch(LARGE))
    for _ in range(MANY):
        append(log, batch(LARGE))
    magic = 16
    for broken in (1, 5):
        log.segments.active.log_file.pwrite(b"\xff", broken * one + magic)
        assert base_offset_at(log, broken - 1) == broken - 1
        with pytest.raises(CorruptSegment):
            read_bytes(log, broken)
