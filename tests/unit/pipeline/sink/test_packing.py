"""Rows go where they belong, in order, in batches of a size."""

import itertools
import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from barnabas.client.partitioner import partition_of_key
from barnabas.pipeline.sink.packing import PackedBatch, Packer
from barnabas.pipeline.sink.rows import RowRefused, read_rows
from barnabas.protocol.batch import Codec, read_header
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record, batch_of_encoded, iterate_records

NOW = 1_000


def packer_of(seed: int, batch_bytes: int = 1000, codec: Codec = Codec.NONE) -> Packer:
    return Packer(batch_bytes=batch_bytes, codec=codec, random=random.Random(seed))


def pack(packer: Packer, counts: Mapping[str, int], where: str | None = "t", /, **columns: Any) -> list[PackedBatch]:
    return list(packer.pack(read_rows(pa.record_batch(columns), topic=where), counts, now_ms=NOW))


def records_of(packed: PackedBatch) -> list[Record]:
    """What a broker reads; the batch is whole and dense."""
    batch = batch_of_encoded(
        packed.payload,
        count=packed.count,
        codec=packed.codec,
        first_timestamp=packed.first_timestamp,
        max_timestamp=packed.max_timestamp,
    )
    records = list(iterate_records(batch, 0, read_header(batch), 1 << 30))
    assert [each.offset for each in records] == list(range(packed.count))
    assert max(each.timestamp for each in records) == packed.max_timestamp
    return records


def by_partition(batches: list[PackedBatch]) -> dict[TopicPartition, list[Record]]:
    found: dict[TopicPartition, list[Record]] = {}
    for each in batches:
        found.setdefault(each.topic_partition, []).extend(records_of(each))
    return found


@pytest.mark.parametrize("codec", Codec)
def test_rows_are_read_back_as_they_were(seed: int, codec: Codec) -> None:
    draw = random.Random(seed)
    count = 400
    keys = [draw.choice([None, draw.randbytes(draw.randrange(20))]) for _ in range(count)]
    values = [draw.choice([None, b"%d" % at + bytes(draw.randrange(300))]) for at in range(count)]
    topics = [draw.choice("ab") for _ in range(count)]
    partitions = [draw.choice([None, 0, 2]) for _ in range(count)]
    times = [draw.choice([None, draw.randrange(2**40)]) for _ in range(count)]
    batches = pack(
        packer_of(seed, codec=codec),
        {"a": 3, "b": 7},
        None,
        key=pa.array(keys, pa.binary()),
        value=pa.array(values, pa.binary()),
        topic=pa.array(topics),
        partition=pa.array(partitions, pa.int32()),
        timestamp=pa.array([None if at is None else at * 1000 for at in times], pa.timestamp("us", tz="UTC")),
    )
    assert {each.codec for each in batches} == {codec}
    found = by_partition(batches)
    assert sum(map(len, found.values())) == count
    for (topic, partition), records in found.items():
        left = iter(records)
        for at in range(count):
            key, given = keys[at], partitions[at]
            size = {"a": 3, "b": 7}[topic]
            goes = given if given is not None else None if key is None else partition_of_key(key, size)
            if topics[at] == topic and goes == partition:
                # In the order of the rows, with those between that chance has sent here.
                time = NOW if times[at] is None else times[at]
                assert any((key, values[at], time) == (each.key, each.value, each.timestamp) for each in left)


def test_rows_with_neither_key_nor_partition_fill_one_batch_after_the_other(seed: int) -> None:
    packer = packer_of(seed, batch_bytes=2000)
    batches = pack(packer, {"t": 4}, value=pa.array([b"x" * 64] * 2000))
    assert sum(each.count for each in batches) == 2000
    # Those of a partition are sorted together, and filled up again.
    assert all(each.count in (20, 19) or len(each.payload) < 2000 for each in batches)
    assert {each.topic_partition.partition for each in batches} == {0, 1, 2, 3}
    chosen = packer._stick("t", 4, pa.array([2000] * 50).to_numpy())
    assert all(one != other for one, other in itertools.pairwise(chosen))
    for _ in range(30):
        last, chosen = chosen[-1], packer._stick("t", 4, pa.array([1]).to_numpy())
        assert chosen[0] != last, "those that come later begin in another one"
    assert packer._stick("one", 1, pa.array([2000] * 5).to_numpy()).tolist() == [0] * 5


def test_batches_are_as_large_as_they_may_be_and_a_large_row_is_one_of_its_own(seed: int) -> None:
    sizes = [100, 100, 5000, 900, 10, 10, 2000, 1]
    batches = pack(packer_of(seed), {"t": 1}, value=pa.array([bytes(size) for size in sizes]))
    assert [[len(record.value or b"") for record in records_of(each)] for each in batches] == [
        [100, 100],
        [5000],
        [900, 10],
        [10],
        [2000],
        [1],
    ]


def test_no_rows_are_no_batches(seed: int) -> None:
    assert pack(packer_of(seed), {"t": 1}, value=pa.array([], pa.binary())) == []


def test_a_partition_that_is_not_there_is_refused(seed: int) -> None:
    columns = {"value": pa.array([b"", b""]), "partition": pa.array([1, 3], pa.int32())}
    with pytest.raises(RowRefused, match="column partition has 3, and topic t has partitions 0 to 2"):
        pack(packer_of(seed), {"t": 3}, **columns)


def test_many_topics_with_many_partitions_are_told_apart(seed: int) -> None:
    names = [f"t{number}" for number in range(300)]
    batches = pack(
        packer_of(seed),
        dict.fromkeys(names, 1000),
        None,
        value=pa.array([name.encode() for name in names]),
        topic=pa.array(names),
        partition=pa.array([999] * 300, pa.int32()),
    )
    found = by_partition(batches)
    assert {name: [each.value for each in records] for (name, _), records in found.items()} == {
        name: [name.encode()] for name in names
    }
    assert {each.partition for each in found} == {999}
