"""Logs as Hypothesis draws them: entries of all formats and codecs, gaps, transactions, control batches."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from barnabas.client.fetched_records import AbortedRange
from barnabas.protocol.batch import NO_SEQUENCE, BatchHeader, Codec, frame, read_header
from barnabas.protocol.compression import compress
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, Record, build_end_txn_marker, encode_record

BYTES = st.none() | st.binary(max_size=40)
TIMES = st.integers(-1, 2**43)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=4)
OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


@dataclass(slots=True)
class DrawnLog:
    """The bytes of a log, what its answers to read_committed would name as aborted, each offset's timestamp type."""

    entries: list[bytes] = field(default_factory=list)
    aborted: list[AbortedRange] = field(default_factory=list)
    types: dict[int, int] = field(default_factory=dict)
    next_offset: int = 0
    first_offset: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """For each number of bytes after which an entry ends: the offset that follows."""
    transactions: list[tuple[int, int | None]] = field(default_factory=list)
    """The first offset of each transaction and that of its marker, None where it has none."""

    def add(self, entry: bytes, next_offset: int) -> None:
        self.entries.append(entry)
        self.next_offset = next_offset
        self.ends[sum(map(len, self.entries))] = next_offset

    @property
    def data(self) -> bytes:
        return b"".join(self.entries)


def encode_varint(number: int) -> bytes:
    """The varint of a number that is zigzag-encoded already."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def batch_of(
    records: list[Record],
    *,
    codec: Codec = Codec.NONE,
    append_time_ms: int | None = None,
    producer_id: int = -1,
    transactional: bool = False,
    spare_offsets: int = 0,
) -> bytes:
    """A batch of records at their own offsets, which may have gaps, as compaction leaves them."""
    base, first_time = records[0].offset, records[0].timestamp
    payload = b"".join(
        encode_record(each, timestamp_delta=each.timestamp - first_time, offset_delta=each.offset - base)
        for each in records
    )
    newest = max(each.timestamp for each in records)
    return frame(
        BatchHeader(
            base_offset=base,
            length=0,
            leader_epoch=3,
            magic=2,
            crc=0,
            attributes=codec | (0 if append_time_ms is None else 8) | (16 if transactional else 0),
            last_offset_delta=records[-1].offset - base + spare_offsets,
            first_timestamp=first_time,
            max_timestamp=newest if append_time_ms is None else append_time_ms,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=NO_SEQUENCE,
            record_count=len(records),
        ),
        compress(codec, payload),
    )


@st.composite
def records_from(draw: st.DrawFn, offset: int, *, headers: bool = True, like_sized: bool = False) -> list[Record]:
    """Some records at rising offsets; sometimes many of one size."""
    if like_sized:
        size, count = draw(st.integers(0, 80)), draw(st.integers(1, 150))
        return [Record(offset + at, 5 + at, None, bytes([at]) * size) for at in range(count)]
    records = []
    for _ in range(draw(st.integers(1, 8))):
        extra = tuple(draw(HEADERS)) if headers and draw(st.booleans()) else ()
        records.append(Record(offset, draw(TIMES), draw(BYTES), draw(BYTES), extra))
        offset += draw(st.sampled_from([1, 1, 1, 2, 70]))
    return records


_KINDS = ("batch", "like-sized", "transactional", "transactional", "marker", "marker", "old", "empty")


@st.composite
def logs(draw: st.DrawFn) -> DrawnLog:
    """A log of up to six entries."""
    first_offset = draw(st.sampled_from([0, 5, 2**40]))
    log = DrawnLog(next_offset=first_offset, first_offset=first_offset)
    open_since: dict[int, int] = {}
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(_KINDS))
        if kind == "marker":
            _end_transaction(draw, log, open_since)
        elif kind == "old":
            _add_old(draw, log)
        else:
            _add_batch(draw, log, kind, open_since)
        log.next_offset += draw(st.sampled_from([0, 0, 3]))
    log.transactions += [(first, None) for first in open_since.values()]
    return log


def _add_batch(draw: st.DrawFn, log: DrawnLog, kind: str, open_since: dict[int, int]) -> None:
    records = draw(records_from(log.next_offset, like_sized=kind == "like-sized"))
    append_time_ms = draw(st.none() | TIMES)
    spare, producer_id = draw(st.sampled_from([0, 0, 2])), -1
    if kind == "transactional":
        producer_id = draw(st.integers(1, 3))
        open_since.setdefault(producer_id, records[0].offset)
    batch = batch_of(
        records,
        codec=draw(st.sampled_from(Codec)),
        append_time_ms=append_time_ms,
        producer_id=producer_id,
        transactional=producer_id > 0,
        spare_offsets=spare,
    )
    if kind == "empty":
        batch = emptied(batch)
    log.add(batch, records[-1].offset + spare + 1)
    log.types |= {each.offset: int(append_time_ms is not None) for each in records}


def emptied(batch: bytes) -> bytes:
    """The batch as compaction leaves it where no record is left."""
    header = read_header(batch)
    header.record_count, header.attributes = 0, header.attributes & ~7
    return frame(header, b"")


def _end_transaction(draw: st.DrawFn, log: DrawnLog, open_since: dict[int, int]) -> None:
    producer_id = draw(st.sampled_from([*open_since, *open_since, 1]))
    kind = draw(st.sampled_from([ControlRecordType.ABORT, ControlRecordType.COMMIT]))
    first = open_since.pop(producer_id, None)
    if first is not None and kind is ControlRecordType.ABORT:
        log.aborted.append(AbortedRange(producer_id, first))
    if first is not None:
        log.transactions.append((first, log.next_offset))
    marker = EndTxnMarker(kind, 0)
    entry = build_end_txn_marker(
        marker, producer_id=producer_id, producer_epoch=0, timestamp=9, base_offset=log.next_offset
    )
    log.add(entry, log.next_offset + 1)


def _add_old(draw: st.DrawFn, log: DrawnLog) -> None:
    magic, records = draw(st.integers(0, 1)), draw(records_from(log.next_offset, headers=False))
    append_time_ms = draw(st.none() | TIMES) if magic else None
    builder = EntryBuilder(magic=magic, codec=draw(st.sampled_from(OLD_CODECS)), log_append_time_ms=append_time_ms)
    builder.add(records)
    log.add(builder.finish(), records[-1].offset + 1)
    log.types |= {each.offset: -1 if not magic else int(append_time_ms is not None) for each in records}
