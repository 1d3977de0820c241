"""What a slice of a log becomes for consumers of older message formats, and who may work on it when."""

import asyncio
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.batch import Codec, CorruptBatch, TruncatedBatch
from barnabas.protocol.entries import iterate_entries, iterate_entry_records
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.format_conversion import ConversionRefused
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, Record, build_batch, build_end_txn_marker
from barnabas.protocol.steps import Steps, complete
from barnabas.storage.log_config import LogConfig
from broker.down_conversion import Conversions, ConvertedSet, convert_set, needs_conversion

CONFIG = LogConfig()
PLAIN = (Codec.NONE,)
OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def batch(base_offset: int, *values: bytes, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(0, 1000 + place, b"k%d" % place, value) for place, value in enumerate(values)]
    return build_batch(records, base_offset=base_offset, codec=codec)


def converted(records: bytes, *, to_magic: int = 1, first_offset: int = 0) -> ConvertedSet:
    return complete(convert_set(records, to_magic=to_magic, first_offset=first_offset, config=CONFIG))


def records_of(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """The records of the whole entries at the start; a cut or filled tail ends them."""
    found: list[tuple[int, int, bytes | None, bytes | None]] = []
    try:
        for at, header in iterate_entries(data):
            found += [
                (record.offset, record.timestamp, record.key, record.value)
                for record in iterate_entry_records(data, at, header, 1 << 20)
            ]
    except TruncatedBatch:
        pass
    return found


@pytest.mark.parametrize("to_magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_records_keep_offsets_keys_values_and_the_times_that_the_format_has(to_magic: int, codec: Codec) -> None:
    data = converted(batch(5, b"a", b"b", codec=codec), to_magic=to_magic).data
    times = (1000, 1001) if to_magic else (-1, -1)
    assert records_of(data) == [(5, times[0], b"k0", b"a"), (6, times[1], b"k1", b"b")]


@given(
    batches=st.lists(
        st.tuples(st.lists(st.binary(max_size=200), min_size=1, max_size=20), st.sampled_from(OLD_CODECS)),
        min_size=1,
        max_size=6,
    ),
    cut=st.integers(0, 400),
    to_magic=st.integers(0, 1),
)
def test_the_size_is_what_was_read_or_the_first_entry_and_whole_entries_are_the_first_records(
    batches: list[tuple[list[bytes], Codec]], cut: int, to_magic: int
) -> None:
    parts, offset = [], 0
    for values, codec in batches:
        parts.append(batch(offset, *values, codec=codec))
        offset += len(values)
    records = b"".join(parts)
    records = records[: max(len(parts[0]), len(records) - cut)]
    made = converted(records, to_magic=to_magic)
    first = converted(parts[0], to_magic=to_magic)
    if len(first.data) > len(parts[0]):
        assert len(made.data) == max(len(records), len(first.data))
    else:
        assert len(made.data) == len(records)
    values = [value for some, _ in batches for value in some]
    came = [value for _, _, _, value in records_of(made.data)]
    assert came == values[: len(came)]
    assert len(came) >= len(batches[0][0])


def test_what_falls_short_is_filled_with_the_head_of_an_entry_that_does_not_end() -> None:
    records = batch(0, b"v" * 300)
    data = converted(records).data
    entry_bytes = len(data) - data[::-1].index(b"v" * 300)
    filler = data[entry_bytes:]
    assert len(data) == len(records)
    assert filler[:8] == b"\xff" * 8
    assert int.from_bytes(filler[8:12], "big") > len(filler) - 12


def test_control_batches_are_left_out_and_alone_leave_a_head_only() -> None:
    marker = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.COMMIT, 0), producer_id=1, producer_epoch=0, timestamp=5, base_offset=1
    )
    data = converted(batch(0, b"a") + marker + batch(2, b"b")).data
    assert [offset for offset, *_ in records_of(data)] == [0, 2]
    assert [offset for offset, *_ in records_of(converted(marker + batch(2, b"b")).data)] == [2]
    assert converted(marker).data == b"\xff" * 8 + (61).to_bytes(4, "big")


def test_records_below_the_offset_asked_for_are_left_out_of_plain_batches_only() -> None:
    assert [offset for offset, *_ in records_of(converted(batch(0, b"a", b"b"), first_offset=1).data)] == [1]
    compressed = converted(batch(0, b"a", b"b", codec=Codec.GZIP), first_offset=1)
    assert [offset for offset, *_ in records_of(compressed.data)] == [0, 1]


def test_zstd_is_refused_where_it_comes_first_and_ends_the_set_behind_others() -> None:
    zstd = batch(1, b"z", codec=Codec.ZSTD)
    with pytest.raises(ConversionRefused) as refused:
        converted(zstd)
    assert refused.value.error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    made = converted(batch(0, b"a") + zstd + batch(2, b"b"))
    assert [offset for offset, *_ in records_of(made.data)] == [0]
    assert len(made.data) == len(batch(0, b"a") + zstd + batch(2, b"b"))


def test_what_is_corrupt_is_refused_where_it_comes_first_and_ends_the_set_behind_others() -> None:
    broken = bytearray(batch(1, b"b", codec=Codec.GZIP))
    broken[-20:] = bytes(20)
    with pytest.raises(CorruptBatch):
        converted(bytes(broken))
    made = converted(batch(0, b"a") + broken)
    assert [offset for offset, *_ in records_of(made.data)] == [0]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_value_that_the_disk_has_ruined_gets_no_new_checksum(codec: Codec) -> None:
    for at in range(4):
        ruined = bytearray(batch(0, b"a value of some length", codec=codec))
        ruined[-5 - at] ^= 0x20
        with pytest.raises(CorruptBatch):
            converted(bytes(ruined))


def test_entries_that_the_consumer_knows_stay_as_they_are_and_are_not_counted() -> None:
    old = converted(batch(0, b"a"), to_magic=0).data[:30]
    old = old[: 12 + int.from_bytes(old[8:12], "big")]
    made = converted(old + batch(1, b"b"), to_magic=0)
    assert made.data.startswith(old)
    assert made.record_count == 1


@pytest.mark.parametrize(("to_magic", "expected"), [(0, True), (1, True), (2, False)])
def test_only_whole_entries_of_a_newer_format_need_conversion(to_magic: int, *, expected: bool) -> None:
    records = batch(0, b"a")
    assert needs_conversion(records, to_magic) is expected
    assert not needs_conversion(records[:-1], to_magic)
    assert not needs_conversion(b"", to_magic)


class TickingClock:
    """Each look at it takes a millisecond."""

    def __init__(self) -> None:
        self._looks = count()

    def monotonic_us(self) -> int:
        return 1000 * next(self._looks)


def test_who_converts_takes_turns_of_the_loop_and_one_turn_is_for_all_of_them() -> None:
    events: list[str] = []

    def steps(name: str) -> Steps[str]:
        for _ in range(6):
            events.append(name)
            yield
        return name

    async def others() -> None:
        while True:
            events.append(".")
            await asyncio.sleep(0)

    async def run() -> list[str]:
        conversions, clock = Conversions(), cast("Any", TickingClock())
        other = asyncio.create_task(others())
        results = await asyncio.gather(*(conversions.finish(steps(name), clock) for name in "abc"))
        other.cancel()
        return results

    assert asyncio.run(run()) == ["a", "b", "c"]
    turns = [turn for turn in "".join(events).split(".") if turn]
    assert max(map(len, turns)) <= 2, turns
    assert all(len(set(turn)) == 1 for turn in turns), turns
    assert [turn[0] for turn in turns[:6]] == ["a", "b", "c", "a", "b", "c"]


def test_who_gives_up_leaves_nothing_half_done() -> None:
    closed = SimpleNamespace(is_so=False)

    def steps() -> Steps[None]:
        try:
            while True:
                yield
        finally:
            closed.is_so = True

    async def run() -> None:
        conversions = Conversions()
        task = asyncio.create_task(conversions.finish(steps(), cast("Any", TickingClock())))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.wait_for(conversions.finish(iter_once(), cast("Any", TickingClock())), 1)

    def iter_once() -> Steps[None]:
        yield

    asyncio.run(run())
    assert closed.is_so
