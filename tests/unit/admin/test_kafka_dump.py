"""What `barnabas dump-log` prints is what kafka-dump-log prints: lines written here as that tool gave them.

Both are held against each other on whole directories in tests/compatibility/test_interchange.py.
"""

import json
import struct
from pathlib import Path

import pytest

from barnabas.admin.coordinator_records import in_hash_order, offset_record, transaction_record
from barnabas.coordinator.record_fields import NotDecodable
from barnabas.protocol.batch import Codec, patch_log_append_time
from barnabas.protocol.compression import compress
from barnabas.protocol.message_set import encode_message
from barnabas.protocol.records import Record, build_batch
from tests.unit.admin.conftest import Run
from tests.unit.admin.test_dump_log import FIRST, MARKER, SEGMENT

START = f"Starting offset: {int(SEGMENT[:20])}"
FIRST_LINE = (
    f"baseOffset: 100 lastOffset: 101 count: 2 baseSequence: 4 lastSequence: 5 producerId: 9 producerEpoch: 1 "
    f"partitionLeaderEpoch: 7 isTransactional: false isControl: false position: 0 CreateTime: 1795219200000 "
    f"size: {len(FIRST)} magic: 2 compresscodec: ZSTD crc: {int.from_bytes(FIRST[17:21])} isvalid: true"
)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / SEGMENT
    path.write_bytes(FIRST + MARKER)
    return path


def test_batches(run: Run, segment: Path) -> None:
    ran = run("dump-log", "--files", str(segment))
    assert ran.lines[:3] == [f"Dumping {segment}", START, FIRST_LINE]
    assert "isTransactional: true isControl: true position: " in ran.lines[3]
    assert (ran.status, len(ran.lines), ran.err) == (0, 4, "")


def test_records(run: Run, segment: Path) -> None:
    first = "| offset: 100 CreateTime: 1795219200000 keysize: 1 valuesize: 2 sequence: 4 headerKeys: [h,n]"
    second = "| offset: 101 CreateTime: 5 keysize: -1 valuesize: 1 sequence: 5 headerKeys: []"
    marker = (
        "| offset: 102 CreateTime: 6 keysize: 4 valuesize: 6 sequence: -1 headerKeys: [] "
        "endTxnMarker: ABORT coordinatorEpoch: 3"
    )
    deep = run("dump-log", "--deep-iteration", str(segment)).lines
    assert [line for line in deep if line.startswith("|")] == [first, second, marker]
    shown = run("dump-log", "--print-data-log", str(segment)).out.decode()
    assert f"{first} key: k payload: v\n\n{second} payload: \ufffd\n" in shown
    assert shown == run("dump-log", "--value-decoder-class", "--files", str(segment)).out.decode()


def test_old_formats(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    plain = encode_message(0, -1, b"k", None, magic=0)
    inner = encode_message(0, 7, None, b"abc", magic=1) + encode_message(1, 9, None, b"", magic=1)
    checksums = [int.from_bytes(inner[12:16]), int.from_bytes(inner[37 + 12 :][:4])]
    wrapper = encode_message(2, 9, None, compress(Codec.GZIP, inner), magic=1, attributes=Codec.GZIP)
    path.write_bytes(plain + wrapper)
    assert run("dump-log", "--print-data-log", str(path)).lines[2:] == [
        (
            f"offset: 0 position: 0 NoTimestampType: -1 size: {len(plain)} magic: 0 compresscodec: NONE "
            f"crc: {int.from_bytes(plain[12:16])} isvalid: true"
        ),
        (
            f"| offset: 0 NoTimestampType: -1 keysize: 1 valuesize: -1 crc: {int.from_bytes(plain[12:16])} "
            "isvalid: true key: k"
        ),
        (
            f"offset: 2 position: {len(plain)} CreateTime: 9 size: {len(wrapper)} magic: 1 compresscodec: GZIP "
            f"crc: {int.from_bytes(wrapper[12:16])} isvalid: true"
        ),
        f"| offset: 1 CreateTime: 7 keysize: -1 valuesize: 3 crc: {checksums[0]} isvalid: true payload: abc",
        f"| offset: 2 CreateTime: 9 keysize: -1 valuesize: 0 crc: {checksums[1]} isvalid: true payload: ",
    ]
    rows = json.loads(run("dump-log", "-r", "-o", "json", str(path)).out)[0]["entries"]
    assert [(row["magic"], row["base_offset"], row["last_offset"], row["record_count"]) for row in rows] == [
        (0, 0, 0, 1),
        (1, None, 2, None),
    ]
    assert [(record["offset"], record["value"]) for row in rows for record in row["records"]] == [
        (0, None),
        (1, "abc"),
        (2, ""),
    ]


def test_the_brokers_time_and_a_gap(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    batch = bytearray(build_batch([Record(0, 5, None, b"v")]))
    patch_log_append_time(batch, 0, 77)
    path.write_bytes(batch + build_batch([Record(4, 5, None, b"v")], base_offset=4))
    ran = run("dump-log", "--deep-iteration", str(path))
    assert "| offset: 0 LogAppendTime: 77 " in ran.out.decode()
    assert (ran.status, ran.err) == (0, f"Non-consecutive offsets in {path}\n  0 is followed by 4\n")


def test_a_torn_end_and_a_flipped_bit(run: Run, segment: Path) -> None:
    segment.write_bytes(FIRST + MARKER[:-1])
    ran = run("dump-log", str(segment))
    assert ran.lines[3] == f"Found {len(MARKER) - 1} invalid bytes at the end of {SEGMENT}"
    segment.write_bytes(FIRST[:-1] + bytes([FIRST[-1] ^ 1]))
    flipped = run("dump-log", str(segment))
    assert flipped.lines[2] == FIRST_LINE.replace("isvalid: true", "isvalid: false")
    segment.write_bytes(FIRST + bytes(100))
    assert (ran.status, flipped.status, run("dump-log", str(segment)).status) == (1, 1, 1)


def test_an_offset_index_is_held_against_its_log(run: Run, segment: Path) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(struct.pack(">iiii", 1, 0, 2, len(FIRST)) + bytes(80))
    ran = run("dump-log", str(index))
    assert (ran.lines[1:], ran.err) == (["offset: 101 position: 0", f"offset: 102 position: {len(FIRST)}"], "")
    index.write_bytes(struct.pack(">iiii", 2, 0, 3, len(FIRST)))
    ran = run("dump-log", "--verify-index-only", str(index))
    assert ran.lines[1:] == []
    assert ran.err == (
        f"Mismatches in :{index}\n  Index offset: 103, log offset: 102\n  Index offset: 102, log offset: 101\n"
    )
    assert run("dump-log", "--index-sanity-check", str(index)).lines[1:] == [f"{index} passed sanity check."]
    assert run("dump-log", "--max-message-size", str(len(FIRST) - 1), str(index)).status == 1
    index.write_bytes(struct.pack(">ii", -5, 0))
    assert run("dump-log", "--index-sanity-check", str(index)).status == 1
    index.write_bytes(struct.pack(">ii", 1, 5000))
    assert run("dump-log", str(index)).status == 1


def test_a_time_index_is_held_against_its_log(run: Run, segment: Path) -> None:
    index, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    index.write_bytes(struct.pack(">iiii", 1, 0, 2, len(FIRST)))
    times.write_bytes(struct.pack(">qi", 1_795_219_200_000, 1))
    ran = run("dump-log", str(times))
    assert (ran.lines[1:], ran.err) == (["timestamp: 1795219200000 offset: 101"], "")
    times.write_bytes(struct.pack(">qiqiqi", 8, 1, 8, 2, 9, 0))
    ran = run("dump-log", str(times))
    assert ran.err == (
        f"Found timestamp mismatch in :{times}\n"
        "  Index timestamp: 8, log timestamp: 1795219200000\n  Index timestamp: 8, log timestamp: 6\n"
        f"Found out of order timestamp in :{times}\n  Index timestamp: 8, Previously indexed timestamp: 8\n"
    )
    times.write_bytes(struct.pack(">qiqi", 5, 0, 8, 9))
    assert run("dump-log", str(times)).err == (
        "The following indexed offsets are not found in the log.\n"
        "Indexed offset: 100, found log offset: 101\nIndexed offset: 109, found log offset: -1\n"
    )
    assert run("dump-log", "--index-sanity-check", str(times)).status == 0
    times.write_bytes(struct.pack(">qiqi", 9, 1, 8, 2))
    assert run("dump-log", "--index-sanity-check", str(times)).status == 1


def test_a_committed_offset_and_a_group() -> None:
    name = struct.pack(">h1s", 1, b"g")
    key = struct.pack(">h", 1) + name + struct.pack(">h1si", 1, b"t", 3)
    value = struct.pack(">hqih2sq", 3, 42, 7, 2, b"me", 1000)
    assert offset_record(key, value) == ("offset_commit::group=g,partition=t-3", "offset=42,metadata=me")
    older = struct.pack(">hqhq", 0, 42, 0, 1000)
    assert offset_record(key, older)[1] == "offset=42"
    assert offset_record(key, None)[1] == "<DELETE>"
    assignment = struct.pack(">hih1siiii2s", 0, 1, 1, b"t", 2, 0, 1, 2, b"\x0a\xbc")
    member = struct.pack(">h1shh1sh1siii", 1, b"m", -1, 1, b"c", 1, b"h", 1, 2, 0) + struct.pack(">i", len(assignment))
    group = struct.pack(">hh8sih1sh1sqi", 3, 8, b"consumer", 5, 1, b"r", 1, b"m", 1000, 1) + member + assignment
    assert offset_record(struct.pack(">h", 2) + name, group) == (
        "group_metadata::group=g",
        '{"protocolType":"consumer","protocol":"r","generationId":5,"assignment":"{m=[t-0, t-1]:ABC}"}',
    )


def test_a_transaction() -> None:
    key = struct.pack(">hh2s", 0, 2, b"tx")
    value = struct.pack(">hqhibih1siiiqq", 0, 9, 1, 60_000, 1, 1, 1, b"t", 2, 0, 1, 111, 100)
    assert transaction_record(key, value) == (
        "transaction_metadata::transactionalId=tx",
        "producerId:9,producerEpoch:1,state=Ongoing,partitions=[t-1,t-0],txnLastUpdateTimestamp=111,txnTimeoutMs=60000",
    )
    assert transaction_record(key, None)[1] == "<DELETE>"


@pytest.mark.parametrize("key", [None, b"", b"\0\7", b"\0\0\0\5ab", b"\0\1\0\1g\0\1t"])
def test_what_is_no_record_of_an_internal_topic_is_refused(key: bytes | None) -> None:
    for decode in (offset_record, transaction_record):
        with pytest.raises(NotDecodable):
            decode(key, b"")


def test_a_segment_that_is_not_of_an_internal_topic_is_refused(run: Run, segment: Path) -> None:
    assert run("dump-log", "--offsets-decoder", str(segment)).status == 1
    assert run("dump-log", "--transaction-log-decoder", "-o", "json", str(segment)).status == 1


def test_the_order_of_a_hash_table_of_scala() -> None:
    assert in_hash_order([20, 3, 17, 1], lambda item: item) == [1, 17, 3, 20]
    assert in_hash_order(range(12, 0, -1), lambda item: item * 16)[:4] == [2, 4, 6, 8]
