"""Keys go where Kafka's clients send them; records without one stick together."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from barnabas.client.partitioner import DefaultPartitioner, murmur2, partition_of_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    # The values that Kafka's own test of its hash holds.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_known_keys_have_known_hashes(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(st.binary(max_size=50), st.integers(1, 1000))
def test_keys_go_where_another_client_sends_them(key: bytes, partitions: int) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF
    assert partition_of_key(key, partitions) == (murmur2_of_kafka_python(key) & 0x7FFFFFFF) % partitions


def test_the_partitioner_chooses_by_key_however_many_there_are(seed: int) -> None:
    partitioner = DefaultPartitioner(random.Random(seed))
    keys = [b"%d" % number for number in range(5000)] + [b"0", bytes(200)]
    assert [partitioner.choose("t", key, 7) for key in keys] == [partition_of_key(key, 7) for key in keys]
    assert [partitioner.choose("t", key, 9) for key in keys] == [partition_of_key(key, 9) for key in keys]
    assert len(partitioner._hashes) <= 4096


def test_records_without_a_key_stick_until_their_batch_is_closed(seed: int) -> None:
    partitioner = DefaultPartitioner(random.Random(seed))
    first = partitioner.choose("t", None, 5)
    assert {partitioner.choose("t", None, 5) for _ in range(20)} == {first}
    seen = {first}
    for _ in range(100):
        before = partitioner.choose("t", None, 5)
        partitioner.on_batch_closed("t", before, 5)
        assert partitioner.choose("t", None, 5) != before
        seen.add(partitioner.choose("t", None, 5))
    assert seen == set(range(5))


def test_the_batch_of_another_partition_moves_nothing(seed: int) -> None:
    partitioner = DefaultPartitioner(random.Random(seed))
    first = partitioner.choose("t", None, 5)
    partitioner.on_batch_closed("t", (first + 1) % 5, 5)
    assert partitioner.choose("t", None, 5) == first


def test_one_partition_takes_everything(seed: int) -> None:
    partitioner = DefaultPartitioner(random.Random(seed))
    assert partitioner.choose("t", None, 1) == 0
    partitioner.on_batch_closed("t", 0, 1)
    assert partitioner.choose("t", None, 1) == 0
    assert partitioner.choose("t", b"key", 1) == 0
