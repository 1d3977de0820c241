"""Batches between us and the builders and readers of kafka-python and aiokafka, in every codec."""

from collections.abc import Callable

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaReader
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonReader
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from barnabas.protocol.batch import HEADER_BYTES, Codec, read_header, verify_crc
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.record_stream import stream_records
from barnabas.protocol.records import Record, build_batch, iterate_records, walk_records

AMPLE = 1 << 30

RECORDS = [
    Record(0, 1_600_000_000_000, b"key", b"value", (("name", b"content"), ("empty", b""), ("null", None))),
    Record(1, 1_600_000_000_500, None, b"", ()),
    Record(2, 1_599_999_999_000, b"", None, ()),
    Record(3, 1_600_000_000_000, b"k" * 300, b"v" * 150_000, (("umlaut ü", b"\xff\x00"),)),
    *(Record(4 + i, 1_600_000_000_000 + i, None, b"a line of text, number %d" % i) for i in range(3000)),
]


def built_by_kafka_python(codec: Codec) -> bytes:
    builder = KafkaPythonBuilder(2, int(codec), False, -1, -1, -1, 10_000_000)
    for r in RECORDS:
        assert builder.append(r.offset, r.timestamp, r.key, r.value, list(r.headers))
    return bytes(builder.build())


def built_by_aiokafka(codec: Codec) -> bytes:
    builder = AiokafkaBuilder(2, int(codec), 0, -1, -1, -1, 10_000_000)
    for r in RECORDS:
        assert builder.append(r.offset, r.timestamp, r.key, r.value, list(r.headers))
    return bytes(builder.build())


def read_by_kafka_python(batch: bytes) -> list[Record]:
    reader = KafkaPythonReader(batch)
    assert reader.validate_crc()
    return [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in reader]


def read_by_aiokafka(batch: bytes) -> list[Record]:
    reader = AiokafkaReader(batch)
    assert reader.validate_crc()
    return [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in reader]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("build", [built_by_kafka_python, built_by_aiokafka])
def test_what_another_client_builds_is_read(build: Callable[[Codec], bytes], codec: Codec) -> None:
    batch = build(codec)
    ((pos, header),) = iterate_entries(batch)
    verify_crc(batch, pos, header)
    assert header.codec is codec
    assert list(iterate_records(batch, pos, header, AMPLE)) == RECORDS
    assert [record for some in stream_records(batch, pos, header, AMPLE) for record in some] == RECORDS
    assert walk_records(memoryview(batch)[HEADER_BYTES:], header, AMPLE, None)[2] == 2999 + 4


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("read", [read_by_kafka_python, read_by_aiokafka])
def test_what_we_build_another_client_reads(read: Callable[[bytes], list[Record]], codec: Codec) -> None:
    assert read(build_batch(RECORDS, codec=codec)) == RECORDS


@pytest.mark.parametrize("build", [built_by_kafka_python, built_by_aiokafka])
def test_uncompressed_batches_are_the_same_bytes(build: Callable[[Codec], bytes]) -> None:
    theirs = bytearray(build(Codec.NONE))
    ours = bytearray(build_batch(RECORDS))
    # What a producer says of the leader epoch means nothing, and each says something else.
    ours[12:16] = theirs[12:16]
    assert ours == theirs
    assert read_header(theirs).record_count == len(RECORDS)
