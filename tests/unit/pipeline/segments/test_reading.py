"""Logs read from their files: what is replicated, decided and whole is given, and nothing is lost in silence."""

import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.fetched_records import decode_records
from barnabas.pipeline.columns.decoder import CorruptRecords
from barnabas.pipeline.segments.batch_table import BATCH_COLUMN_TYPES, read_batches
from barnabas.pipeline.segments.log_copies import LogEndsEarly, UnreadableLogs, find_logs
from barnabas.pipeline.segments.options import SegmentOptions
from barnabas.pipeline.segments.reading import read_split
from barnabas.pipeline.segments.splits import SegmentSplit, plan_splits
from barnabas.pipeline.source.filters import Pushed
from barnabas.protocol.batch import Codec
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, Record, build_end_txn_marker
from barnabas.runtime.disk import SystemDisk
from barnabas.storage.file_names import LOG_START_OFFSET_CHECKPOINT
from barnabas.storage.producer_snapshot import encode_snapshot
from barnabas.storage.producer_state import ProducerEntry, ProducerState
from tests.unit.pipeline.columns.logs import DrawnLog, batch_of, logs
from tests.unit.pipeline.segments.log_files import PAGES, write_high_watermarks, write_log

DISK = SystemDisk()


def plan(
    root: Path | str, *, pushed: Pushed | None = None, topics: tuple[str, ...] = (), **options: Any
) -> list[SegmentSplit]:
    chosen = SegmentOptions(paths=(str(root),), topics=topics, **options)
    return plan_splits(DISK, find_logs(DISK, chosen.paths, chosen.topics), chosen, pushed or Pushed())


def read(splits: Iterable[SegmentSplit], *, window_bytes: int = 300) -> list[tuple[int, bytes | None]]:
    rows: list[tuple[int, bytes | None]] = []
    for split in splits:
        for batch in read_split(DISK, split, ("offset", "value"), window_bytes=window_bytes):
            rows += zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return rows


def offsets(root: Path | str, **options: Any) -> list[int]:
    return [offset for offset, _ in read(plan(root, **options))]


def numbered(first: int, count: int, *, per_batch: int = 5, time: int = 1000) -> bytes:
    """Batches of records at consecutive offsets."""
    return b"".join(
        batch_of([Record(at + i, time + at + i, None, b"value %d" % (at + i)) for i in range(per_batch)])
        for at in range(first, first + count, per_batch)
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """60 records in three segments, of which 50 were replicated."""
    write_log(tmp_path, [(0, numbered(0, 20)), (20, numbered(20, 20)), (40, numbered(40, 20))])
    write_high_watermarks(tmp_path, {PAGES: 50})
    return tmp_path


def cut(log: DrawnLog, lengths: list[int]) -> list[tuple[int, bytes]]:
    """The log's entries in segments of so many; a segment is named by the offset at which it was begun."""
    segments, entries = [], iter(log.entries)
    base = log.first_offset
    for length in itertools.cycle(lengths):
        taken = list(itertools.islice(entries, length))
        if not taken:
            break
        segments.append((base, b"".join(taken)))
        base = log.ends[sum(len(each) for _, each in segments)]
    return segments or [(base, b"")]


@settings(max_examples=60)
@given(logs(), st.lists(st.integers(1, 3), min_size=1, max_size=3), st.booleans(), st.data())
def test_a_reader_of_committed_records_gets_what_was_decided_below_the_high_watermark(
    log: DrawnLog, lengths: list[int], snapshots: bool, data: st.DataObject
) -> None:
    high_watermark = data.draw(st.sampled_from([log.first_offset, *log.ends.values()]))
    undecided = [first for first, end in log.transactions if end is None or end >= high_watermark]
    end = min([high_watermark, *undecided])
    expected = decode_records(log.data, start=0, end=end, aborted=log.aborted, max_decompressed_bytes=1 << 28)
    with tempfile.TemporaryDirectory() as name:
        write_log(Path(name), cut(log, lengths), snapshots=snapshots)
        write_high_watermarks(Path(name), {PAGES: high_watermark})
        committed = read(plan(name, read_committed=True, split_bytes=data.draw(st.integers(1, 2000))))
        uncommitted = read(plan(name))
    assert committed == [(record.offset, record.value) for record in expected]
    everything = decode_records(log.data, start=0, end=high_watermark, max_decompressed_bytes=1 << 28)
    assert uncommitted == [(record.offset, record.value) for record in everything]


@pytest.mark.parametrize("snapshot", ["of each segment", "within a segment", "none"])
def test_transactions_that_closed_segments_tell_of_are_left_out(tmp_path: Path, snapshot: str) -> None:
    def transactional(offset: int, producer_id: int) -> bytes:
        return batch_of([Record(offset, 5, None, b"v")], producer_id=producer_id, transactional=True)

    def marker(offset: int, producer_id: int, kind: ControlRecordType) -> bytes:
        end = EndTxnMarker(kind, 0)
        return build_end_txn_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=5, base_offset=offset)

    abort, commit = ControlRecordType.ABORT, ControlRecordType.COMMIT
    before_5 = transactional(2, 1) + marker(3, 1, abort) + transactional(4, 1)
    segments = [
        (0, transactional(0, 1) + transactional(1, 2)),
        (2, before_5 + numbered(5, 1, per_batch=1)),
        (6, marker(6, 2, commit) + marker(7, 1, commit) + transactional(8, 2)),
        (9, transactional(9, 1) + marker(10, 2, abort) + numbered(11, 5)),
    ]
    directory = write_log(tmp_path, segments, snapshots=snapshot == "of each segment")
    if snapshot == "within a segment":
        producers = ProducerState([ProducerEntry(1, 0, 0, 5, 4), ProducerEntry(2, 0, -1, 5, 1)])
        (directory / f"{5:020d}.snapshot").write_bytes(encode_snapshot(producers))
        (directory / f"{6:020d}.snapshot").write_bytes(b"damaged")
    write_high_watermarks(tmp_path, {PAGES: 16})
    # 0, 2 and 8 were aborted, and from 9 on nothing is decided.
    assert offsets(tmp_path, read_committed=True) == [1, 4, 5]
    assert offsets(tmp_path) == [0, 1, 2, 4, 5, 8, 9, 11, 12, 13, 14, 15]


def test_what_was_not_replicated_is_given_only_when_asked_for(root: Path) -> None:
    assert offsets(root) == list(range(50))
    assert offsets(root, beyond_high_watermark=True) == list(range(60))


# The first two segments have four batches of some 135 bytes each and an index, the last one has none.
@pytest.mark.parametrize(("split_bytes", "parts"), [(1, 9), (200, 5), (700, 3), (1 << 20, 3)])
def test_parts_of_segments_hold_every_record_once(root: Path, split_bytes: int, parts: int) -> None:
    splits = plan(root, split_bytes=split_bytes)
    assert [offset for offset, _ in read(splits)] == list(range(50))
    assert len(splits) == parts
    for path, of_file in itertools.groupby(splits, key=lambda split: split.path):
        bounds = [(part.position, part.end_position) for part in of_file]
        assert [end for _, end in bounds] == [*(begin for begin, _ in bounds[1:]), Path(path).stat().st_size]


def test_without_a_checkpoint_somebody_has_to_say_that_all_may_be_read(tmp_path: Path) -> None:
    write_log(tmp_path, [(0, numbered(0, 10))])
    with pytest.raises(UnreadableLogs, match=r"no replication-offset-checkpoint .* beyondHighWatermark"):
        plan(tmp_path)
    assert offsets(tmp_path, beyond_high_watermark=True) == list(range(10))
    assert offsets(tmp_path / "pages-0", beyond_high_watermark=True) == list(range(10))


@pytest.mark.parametrize("tail", [b"\0" * 5000, numbered(60, 5)[:-3], numbered(60, 5)[:9]], ids=["zeros", "cut", "few"])
def test_a_torn_tail_ends_a_log_and_is_no_damage(root: Path, tail: bytes) -> None:
    with (root / "pages-0" / f"{40:020d}.log").open("ab") as file:
        file.write(tail)
    assert offsets(root, beyond_high_watermark=True) == list(range(60))
    assert offsets(root, beyond_high_watermark=True, read_committed=True) == list(range(60))


def test_a_log_that_ends_before_its_high_watermark_is_refused_unless_loss_is_borne(root: Path) -> None:
    path = root / "pages-0" / f"{40:020d}.log"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(LogEndsEarly, match="pages-0 ends at offset 45, and was replicated up to 50"):
        offsets(root)
    assert offsets(root, fail_on_data_loss=False) == list(range(45))
    path.write_bytes(b"")
    with pytest.raises(LogEndsEarly, match="ends at offset 40"):
        offsets(root)


def test_a_log_without_a_file_is_loss_where_some_was_replicated(tmp_path: Path) -> None:
    (tmp_path / "pages-0").mkdir()
    write_high_watermarks(tmp_path, {PAGES: 0})
    assert plan(tmp_path) == []
    write_high_watermarks(tmp_path, {PAGES: 3})
    with pytest.raises(LogEndsEarly, match="pages-0 ends at offset 0, and was replicated up to 3"):
        plan(tmp_path)


def test_zeros_with_something_behind_them_are_damage(root: Path) -> None:
    with (root / "pages-0" / f"{40:020d}.log").open("ab") as file:
        file.write(b"\0" * 5000 + numbered(60, 5))
    [*_, split] = plan(root, beyond_high_watermark=True)
    with pytest.raises(CorruptRecords, match="the batch at offset 60 cannot be read"):
        read([split])
    with pytest.raises(CorruptRecords, match="the batch at offset 60 cannot be read"):
        list(read_batches(DISK, split, ("baseOffset",), window_bytes=300))


def test_a_segment_that_another_follows_has_no_torn_tail(root: Path) -> None:
    path = root / "pages-0" / f"{20:020d}.log"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptRecords, match="pages-0: the batch at offset 35"):
        offsets(root)


def test_a_damaged_batch_is_named_and_what_stands_before_it_is_given(root: Path) -> None:
    path = root / "pages-0" / f"{20:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[-2] ^= 1
    path.write_bytes(damaged)
    batches = itertools.chain.from_iterable(read_split(DISK, split, ("offset",)) for split in plan(root))
    assert [offset for batch in itertools.islice(batches, 2) for offset in batch["offset"].to_pylist()] == list(
        range(35)
    )
    with pytest.raises(CorruptRecords, match="pages-0: the batch at offset 35 cannot be read: the checksum"):
        next(batches)


def test_deleted_records_are_not_given(root: Path) -> None:
    (root / LOG_START_OFFSET_CHECKPOINT).write_text("0\n1\npages 0 23\n")
    assert offsets(root) == list(range(23, 50))
    assert [split.base_offset for split in plan(root)] == [20, 40]


def test_of_replicas_the_one_that_knows_most_is_read(tmp_path: Path) -> None:
    for broker, count, high_watermark in ((1, 20, 10), (2, 30, 25), (3, 40, 20)):
        write_log(tmp_path / str(broker), [(0, numbered(0, count))])
        write_high_watermarks(tmp_path / str(broker), {PAGES: high_watermark})
    options = SegmentOptions(paths=tuple(str(tmp_path / str(broker)) for broker in (1, 2, 3)))
    splits = plan_splits(DISK, find_logs(DISK, options.paths, ()), options, Pushed())
    assert [split.path.split("/")[-3] for split in splits] == ["2"]
    assert [offset for offset, _ in read(splits)] == list(range(25))


def test_what_is_on_its_way_out_or_in_is_passed_over(root: Path) -> None:
    unique = "0123456789abcdef" * 2
    for suffix in ("delete", "future"):
        (root / "pages-0").parent.joinpath(f"other-0.{unique}-{suffix}").mkdir()
    assert {each.topic_partition for each in find_logs(DISK, [str(root)], ())} == {PAGES}
    with pytest.raises(UnreadableLogs, match="no log of topic other stands in"):
        plan(root, topics=("other",))


def test_predicates_spare_partitions_segments_and_records(root: Path) -> None:
    write_log(root, [(0, numbered(0, 10))], TopicPartition("clicks", 3))
    write_high_watermarks(root, {PAGES: 50, TopicPartition("clicks", 3): 10})
    assert len(plan(root)) == 4
    assert {split.topic_partition for split in plan(root, topics=("clicks",))} == {TopicPartition("clicks", 3)}
    between = plan(root, topics=("pages",), pushed=Pushed(least_offset=22, end_offset=27))
    assert [split.base_offset for split in between] == [20]
    assert [offset for offset, _ in read(between)] == list(range(22, 27))
    # Times rise with offsets from 1000 on.
    for since_ms, segments in ((1019, [0, 20, 40]), (1020, [20, 40]), (1999, [40])):
        late = plan(root, topics=("pages",), pushed=Pushed(since_ms=since_ms))
        assert [split.base_offset for split in late] == segments


def test_a_time_index_says_where_a_segment_is_read_from(tmp_path: Path) -> None:
    older, newer = numbered(0, 400), numbered(400, 10, time=1000)
    write_log(tmp_path, [(0, older), (400, newer)], interval_bytes=500)
    write_high_watermarks(tmp_path, {PAGES: 410})
    [whole, last] = plan(tmp_path)
    assert (whole.position, last.position) == (0, 0)
    begins = []
    for since_ms in (1001, 1150, 1300, 1399):
        late = plan(tmp_path, pushed=Pushed(since_ms=since_ms), split_bytes=2000)
        assert [part.position for part in late[1:-1]] == [part.end_position for part in late[:-2]]
        begins.append(late[0].position)
        # Each record from that time on, and hardly any before.
        found = [offset for offset, _ in read(late)]
        assert found == list(range(found[0], 410))
        assert since_ms - 1000 - 60 <= found[0] <= since_ms - 1000
    assert begins == sorted(set(begins))
    (tmp_path / "pages-0" / f"{0:020d}.index").unlink()
    assert [part.position for part in plan(tmp_path, pushed=Pushed(since_ms=1399))] == [0, 0]


def test_batches_are_told_from_their_headers_damaged_ones_too(tmp_path: Path) -> None:
    sound = batch_of([Record(0, 7, b"k", b"v"), Record(3, 9, None, None)], codec=Codec.ZSTD, producer_id=5)
    damaged = bytearray(batch_of([Record(4, 8, None, b"w")], transactional=True))
    damaged[-1] ^= 1
    write_log(tmp_path, [(0, sound + bytes(damaged) + sound[:20])])
    [split] = plan(tmp_path, beyond_high_watermark=True)
    rows = [row for batch in read_batches(DISK, split, tuple(BATCH_COLUMN_TYPES)) for row in batch.to_pylist()]
    assert [(row["position"], row["sizeBytes"]) for row in rows] == [(0, len(sound)), (len(sound), len(damaged))]
    first = {
        name: rows[0][name] for name in ("baseOffset", "lastOffset", "recordCount", "codec", "producerId", "crcGood")
    }
    assert first == {
        "baseOffset": 0,
        "lastOffset": 3,
        "recordCount": 2,
        "codec": "zstd",
        "producerId": 5,
        "crcGood": True,
    }
    assert [(row["crcGood"], row["transactional"], row["leaderEpoch"]) for row in rows] == [
        (True, False, 3),
        (False, True, 3),
    ]
    assert rows[0]["maxTimestamp"].timestamp() == 0.009


def test_a_directory_without_logs_is_refused_unless_it_is_a_broker_s(tmp_path: Path) -> None:
    with pytest.raises(UnreadableLogs, match="is no log directory"):
        plan(tmp_path)
    (tmp_path / "meta.properties").write_text("version=0\n")
    assert plan(tmp_path) == []
    with pytest.raises(UnreadableLogs, match="is no directory on this machine"):
        plan(tmp_path / "elsewhere")


def test_a_compaction_that_was_cut_short_is_not_read_past(root: Path) -> None:
    (root / "pages-0" / f"{0:020d}.log.cleaned").write_bytes(b"")
    assert offsets(root) == list(range(50))
    (root / "pages-0" / f"{0:020d}.log.swap").write_bytes(b"")
    with pytest.raises(UnreadableLogs, match=r"pages-0/0+\.log\.swap is of a compaction that was under way"):
        plan(root)


def test_a_checkpoint_that_cannot_be_read_is_named(root: Path) -> None:
    (root / "replication-offset-checkpoint").write_text("0\n7\n")
    with pytest.raises(UnreadableLogs, match="replication-offset-checkpoint cannot be read: '7' entries are announced"):
        plan(root)
