"""A log to be compacted, made on disk without a broker: closed segments and an active one, with their indexes."""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path

from barnabas.protocol.batch import Codec
from barnabas.protocol.records import Record, build_batch
from barnabas.runtime.disk import SystemDisk
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.scan import scan_segment

BASE_TIME = 1_600_000_000_000
_KEY = "key-{:012d}"
_VALUES = 64
INDEX_INTERVAL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class LogShape:
    """What the log is made of. Values are random bytes where they are not to be compressed, else half text."""

    total_bytes: int
    keys: int
    record_bytes: int
    batch_bytes: int
    segment_bytes: int
    codec: str


def add_shape_options(parser: argparse.ArgumentParser) -> None:
    """The options that say what the log is made of; `shape_of` reads them."""
    parser.add_argument("--mb", type=int, default=2000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--record-bytes", type=int, default=1000)
    parser.add_argument("--batch-bytes", type=int, default=16 * 1024)
    parser.add_argument("--segment-mb", type=int, default=256)
    parser.add_argument("--codec", default="none")


def shape_of(options: argparse.Namespace) -> LogShape:
    return LogShape(
        options.mb * 1_000_000,
        options.keys,
        options.record_bytes,
        options.batch_bytes,
        options.segment_mb * 1024 * 1024,
        options.codec,
    )


def make_log(directory: Path, shape: LogShape, seed: int) -> int:
    """Write the log into an empty directory; the offset at which its active segment begins."""
    rng = random.Random(seed)
    codec = Codec[shape.codec.upper()]
    directory.mkdir(parents=True)
    values = [_value(rng, shape.record_bytes, codec) for _ in range(_VALUES)]
    records_a_batch = max(1, shape.batch_bytes // (shape.record_bytes + 30))
    offset = written = 0
    disk = SystemDisk()
    while written < shape.total_bytes:
        base = offset
        size = 0
        with (directory / f"{base:020d}.log").open("wb") as file:
            while size < shape.segment_bytes and written < shape.total_bytes:
                records = [
                    Record(
                        0, BASE_TIME + offset + n, _KEY.format(rng.randrange(shape.keys)).encode(), rng.choice(values)
                    )
                    for n in range(records_a_batch)
                ]
                data = build_batch(records, base_offset=offset, codec=codec, leader_epoch=0)
                if size and size + len(data) > shape.segment_bytes:
                    break
                file.write(data)
                size += len(data)
                written += len(data)
                offset += records_a_batch
        _write_indexes(disk, directory, base)
    (directory / f"{offset:020d}.log").touch()
    _write_indexes(disk, directory, offset)
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return offset


def _value(rng: random.Random, size: int, codec: Codec) -> bytes:
    if codec is Codec.NONE:
        return rng.randbytes(size)
    return rng.randbytes(size // 2) + b"text of a value " * (size // 32)


def _write_indexes(disk: SystemDisk, directory: Path, base: int) -> None:
    scan = scan_segment(
        disk,
        f"{directory}/{base:020d}.log",
        base_offset=base,
        next_base_offset=None,
        index_interval_bytes=INDEX_INTERVAL_BYTES,
        producers=ProducerState(),
    )
    assert scan.problem is None, scan.problem
    scan.time_index.maybe_append(scan.max_timestamp, scan.offset_of_max_timestamp - base)
    (directory / f"{base:020d}.index").write_bytes(scan.offset_index.encode())
    (directory / f"{base:020d}.timeindex").write_bytes(scan.time_index.encode())
