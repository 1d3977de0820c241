"""`barnabas dump-log` on files written byte by byte."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from crc32c import crc32c

from barnabas.protocol.batch import Codec, place, read_header
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, Record, build_batch, build_end_txn_marker
from tests.unit.admin.conftest import Run

SEGMENT = "00000000000000000100.log"


def at(offset: int, batch: bytes) -> bytes:
    placed = bytearray(batch)
    header = read_header(placed)
    header.base_offset, header.leader_epoch = offset, 7
    place(placed, 0, header)
    return bytes(placed)


RECORDS = [Record(0, 1_795_219_200_000, b"k", b"v\n", (("h", b"\xff"), ("n", None))), Record(1, 5, None, b"\x80")]
FIRST = at(100, build_batch(RECORDS, codec=Codec.ZSTD, producer_id=9, producer_epoch=1, base_sequence=4))
MARKER = at(
    102, build_end_txn_marker(EndTxnMarker(ControlRecordType.ABORT, 3), producer_id=9, producer_epoch=1, timestamp=6)
)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / SEGMENT
    path.write_bytes(FIRST + MARKER)
    return path


def test_batches_of_a_segment(run: Run, segment: Path) -> None:
    ran = run("dump-log", str(segment), "-o", "table")
    heading, first, marker = ran.lines
    assert heading.split()[:7] == ["POSITION", "SIZE", "FIRST", "LAST", "RECORDS", "MAGIC", "CODEC"]
    assert first.split() == [
        "0", str(len(FIRST)), "100", "101", "2", "2", "zstd", "7", "1795219200000", "9", "1", "4", "no", "no", "yes",
    ]  # fmt: skip
    assert marker.split()[-3:] == ["yes", "yes", "yes"]
    documents = json.loads(run("dump-log", str(segment), "-o", "json").out)
    assert documents[0]["kind"] == "segment"
    assert [each["position"] for each in documents[0]["entries"]] == [0, len(FIRST)]
    assert documents[0]["entries"][0]["last_sequence"] == 5


def test_records_of_a_segment(run: Run, segment: Path) -> None:
    first, marker = map(json.loads, run("dump-log", "-r", str(segment), "-o", "jsonl").lines)
    assert first["records"][0] == {
        "offset": 100,
        "timestamp": 1_795_219_200_000,
        "key": "k",
        "value": "v\n",
        "headers": [{"key": "h", "value_base64": "/w=="}, {"key": "n", "value": None}],
    }
    assert marker["records"] == [{"offset": 102, "timestamp": 6, "control": "abort", "coordinator_epoch": 3}]


@pytest.mark.parametrize(
    ("damaged", "complaint", "shown"),
    [
        pytest.param(FIRST + MARKER[:-1], f"no batch at byte {len(FIRST)}", 1, id="a torn batch"),
        pytest.param(FIRST + MARKER[:30], "30 bytes cannot hold", 1, id="a torn header"),
        pytest.param(FIRST + bytes(4096), f"zeros from byte {len(FIRST)} on, 4096 bytes", 1, id="zeros"),
        pytest.param(
            FIRST[:-1] + bytes([FIRST[-1] ^ 1]) + MARKER, "the batch at byte 0 does not match", 2, id="a flipped bit"
        ),
        pytest.param(FIRST[:16] + b"\3" + FIRST[17:], "message format 3 is not supported", 0, id="an unknown format"),
    ],
)
def test_a_damaged_segment_is_shown_up_to_the_damage(
    run: Run, segment: Path, damaged: bytes, complaint: str, shown: int
) -> None:
    segment.write_bytes(damaged)
    ran = run("dump-log", str(segment), "-o", "jsonl")
    assert (ran.status, len(ran.lines)) == (1, shown)
    assert complaint in ran.err
    assert SEGMENT in ran.err


def test_records_that_cannot_be_read_are_told(run: Run, segment: Path) -> None:
    broken = bytearray(FIRST)
    broken[-4:] = b"\0\0\0\0"
    broken[17:21] = struct.pack(">I", crc32c(bytes(broken[21:])))
    segment.write_bytes(broken)
    ran = run("dump-log", "-r", str(segment))
    assert ran.status == 1
    assert "the batch at byte 0: " in ran.err
    ran = run("dump-log", "-r", str(segment), "-o", "jsonl")
    assert (ran.status, len(ran.lines)) == (1, 1)
    assert "the batch at byte 0: " in ran.err


def test_entries_of_indexes_without_their_padding(run: Run, tmp_path: Path) -> None:
    index, times = tmp_path / "00000000000000000100.index", tmp_path / "00000000000000000100.timeindex"
    index.write_bytes(struct.pack(">iiii", 5, 4000, 9, 9000) + bytes(80))
    times.write_bytes(struct.pack(">qi", 123456, 5) + bytes(120))
    ran = run("dump-log", str(index), str(times), "-o", "table")
    assert ran.lines == [
        f"{index}: offset index",
        "OFFSET  POSITION",
        "   105      4000",
        "   109      9000",
        "",
        f"{times}: time index",
        "TIMESTAMP  OFFSET",
        "   123456     105",
    ]
    index.write_bytes(b"\0\0\0")
    assert run("dump-log", str(index)).status == 1


def test_aborted_transactions_and_producers(run: Run, tmp_path: Path) -> None:
    aborted, snapshot = tmp_path / "00000000000000000000.txnindex", tmp_path / "00000000000000000055.snapshot"
    aborted.write_bytes(struct.pack(">hqqqq", 0, 9, 10, 20, 21))
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 9, 1, 40, 50, 4, 777, 3, -1)
    snapshot.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    first, second = map(json.loads, run("dump-log", str(aborted), str(snapshot), "-o", "jsonl").lines)
    assert first == {
        "file": str(aborted), "producer_id": 9, "first_offset": 10, "last_offset": 20, "last_stable_offset": 21,
    }  # fmt: skip
    assert second == {
        "file": str(snapshot), "producer_id": 9, "epoch": 1, "first_sequence": 36, "last_sequence": 40,
        "last_offset": 50, "last_timestamp": 777, "coordinator_epoch": 3, "txn_first_offset": None,
    }  # fmt: skip
    snapshot.write_bytes(struct.pack(">hI", 1, 0) + body)
    ran = run("dump-log", str(snapshot))
    assert (ran.status, "checksum" in ran.err) == (1, True)


def test_checkpoints(run: Run, tmp_path: Path) -> None:
    epochs, points = tmp_path / "leader-epoch-checkpoint", tmp_path / "recovery-point-offset-checkpoint"
    epochs.write_text("0\n2\n0 0\n3 55\n")
    points.write_text("0\n1\n42 0 17\n")
    documents = json.loads(run("dump-log", str(epochs), str(points), "-o", "json").out)
    assert documents[0]["entries"] == [{"epoch": 0, "start_offset": 0}, {"epoch": 3, "start_offset": 55}]
    assert documents[1]["entries"] == [{"topic": "42", "partition": 0, "offset": 17}]
    for damaged in ("0\n2\n0 0\n", "0\n1\n0 0 0\n", "1\n0\n", ""):
        epochs.write_text(damaged)
        assert run("dump-log", str(epochs)).status == 1


def test_files_that_wait_for_their_removal_are_read(run: Run, segment: Path) -> None:
    renamed = segment.rename(segment.with_suffix(".log.deleted"))
    assert len(run("dump-log", str(renamed)).lines) == 4


def test_a_reader_that_has_enough_is_no_failure(segment: Path) -> None:
    segment.write_bytes(FIRST * 5000)
    command = [sys.executable, "-m", "barnabas.admin.main", "dump-log", str(segment)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_what_is_no_file_of_a_log(run: Run, tmp_path: Path, segment: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert run("dump-log", str(tmp_path / "notes.txt"), "-o", "json").status == 2
    ran = run("dump-log", str(tmp_path / "notes.txt"))
    assert (ran.status, "Ignoring unknown file" in ran.err) == (0, True)
    for missing in (tmp_path, tmp_path / "missing.txt"):
        assert (run("dump-log", str(missing)).status, run("dump-log", str(missing), "-o", "json").status) == (3, 3)
    (tmp_path / "directory.log").mkdir()
    for missing in ("missing.log", "missing.index", "missing.snapshot", "directory.log"):
        for form in ("kafka", "table", "json"):
            ran = run("dump-log", str(tmp_path / missing), "-o", form)
            assert (ran.status, "file" in ran.err, "base offset" in ran.err) == (3, True, False), (missing, form)
    ran = run("dump-log", str(tmp_path / "00000000000000000009.log"), str(segment))
    assert ran.status == 3
    assert len(ran.lines) > 3, "the other file is shown"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--files", ""],
        ["--value-decoder-class=com.example.Decoder", SEGMENT],
        ["-o", "json", "--index-sanity-check", SEGMENT],
        ["-o", "table", "-r", SEGMENT],
    ],
)
def test_what_cannot_be_asked_for_is_refused(run: Run, arguments: list[str]) -> None:
    assert run("dump-log", *arguments).status == 2
