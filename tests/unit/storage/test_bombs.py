"""Small batches that inflate to very much cost an append and a lookup little, whatever the codec."""

import tracemalloc
from pathlib import Path

import pytest

from barnabas.protocol.batch import Codec, read_header
from barnabas.protocol.compression import DecompressionBomb, compress
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.format_conversion import convert_down
from barnabas.protocol.message_set import encode_message
from barnabas.protocol.steps import complete
from barnabas.storage.append import AppendRejected
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from tests.support.bombs import MEBIBYTE, bomb_of_one_record, bombs
from tests.unit.storage.logs import NOW, append, batch, make_log, offset_for_timestamp

LITTLE_BYTES = MEBIBYTE


def outcome(log: Log, data: bytes) -> ErrorCode:
    try:
        append(log, memoryview(bytearray(data)))
    except AppendRejected as rejected:
        return rejected.error
    return ErrorCode.NONE


def test_no_bomb_makes_an_append_hold_much(tmp_path: Path) -> None:
    log = make_log(str(tmp_path))
    for bomb in bombs():
        tracemalloc.start()
        assert outcome(log, bomb) in (ErrorCode.NONE, ErrorCode.INVALID_RECORD)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < LITTLE_BYTES, f"{read_header(bomb).codec.name} of {len(bomb)} bytes took {peak_bytes}"


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_small_batch_of_much_is_judged_by_its_beginning(tmp_path: Path, codec: Codec) -> None:
    log = make_log(str(tmp_path))
    bomb = bytearray(bomb_of_one_record(codec, 3 * MEBIBYTE))
    assert append(log, memoryview(bomb)).first_offset == 0
    assert append(log, batch(b"what follows")).first_offset == 1


def test_a_compacted_topic_still_looks_at_every_record(tmp_path: Path) -> None:
    log = make_log(str(tmp_path), LogConfig(compact=True))
    with pytest.raises(AppendRejected) as rejected:
        append(log, memoryview(bytearray(bomb_of_one_record(Codec.GZIP, 3 * MEBIBYTE))))
    assert [error.batch_index for error in rejected.value.record_errors] == [0]


def test_a_lookup_by_time_looks_through_a_bomb_and_holds_little_of_it(tmp_path: Path) -> None:
    log = make_log(str(tmp_path))
    append(log, batch(b"one", b"two", timestamp=NOW - 10))
    append(log, memoryview(bytearray(bomb_of_one_record(Codec.ZSTD, 64 * MEBIBYTE))))
    append(log, batch(b"late", timestamp=NOW + 10))
    tracemalloc.start()
    found = [offset_for_timestamp(log, NOW), offset_for_timestamp(log, NOW + 1)]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(place.offset, place.timestamp) for place in found if place] == [(2, NOW), (3, NOW + 10)]
    assert peak_bytes < LITTLE_BYTES


def wrapped(codec: Codec, content: bytes) -> bytes:
    return encode_message(0, 0, None, compress(codec, content), magic=1, attributes=codec)


@pytest.mark.parametrize(
    "config",
    [LogConfig(compression=Codec.ZSTD), LogConfig(message_format=1), LogConfig(compression=Codec.NONE)],
    ids=["another codec", "another format", "uncompressed"],
)
def test_no_bomb_makes_a_conversion_hold_much(tmp_path: Path, config: LogConfig) -> None:
    log = make_log(str(tmp_path), config)
    large = bomb_of_one_record(Codec.GZIP, 40 * MEBIBYTE)
    many = b"".join(encode_message(at, 0, None, b"", magic=1) for at in range(1000))
    # What is converted is held a record at a time, of which none may be greater than 32 MB.
    for bomb in (large, *bombs(), wrapped(Codec.GZIP, bytes(15 * MEBIBYTE)), wrapped(Codec.GZIP, many)):
        tracemalloc.start()
        outcome(log, bomb)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 6 * 15 * MEBIBYTE, f"{len(bomb)} bytes took {peak_bytes}"
    assert outcome(log, large) is ErrorCode.INVALID_RECORD


def test_a_conversion_down_refuses_what_it_would_have_to_hold() -> None:
    bomb = bomb_of_one_record(Codec.GZIP, 33 * MEBIBYTE)
    tracemalloc.start()
    steps = convert_down(bomb, 0, read_header(bomb), to_magic=1, first_offset=0, max_inflated_bytes=512 * MEBIBYTE)
    with pytest.raises(DecompressionBomb):
        complete(steps)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < LITTLE_BYTES
