"""Checkpoint files, meta.properties and the names of files."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.storage.checkpoints import CorruptCheckpoint, decode_offsets, encode_offsets
from barnabas.storage.file_names import (
    deleted_directory,
    is_deleted_directory,
    is_future_directory,
    offset_of,
    parse_partition_directory,
    partition_directory,
    segment_file,
)
from barnabas.storage.meta_properties import InvalidMetaProperties, MetaProperties

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249)


def test_offsets_are_kafkas_text():
    offsets = {TopicPartition("b", 0): 5, TopicPartition("a", 10): 2**40}
    assert encode_offsets(offsets) == b"0\n2\na 10 1099511627776\nb 0 5\n"
    assert decode_offsets(encode_offsets(offsets)) == offsets
    assert decode_offsets(b"0\n0") == {}


@pytest.mark.parametrize(
    "data",
    [b"", b"1\n0\n", b"0\n1\n", b"0\n1\na 0\n", b"0\n1\na 0 5\nb 0 5\n", b"0\n1\na x 5\n", b"0\n1\na 0 -5\n", b"\xff"],
)
def test_a_damaged_checkpoint_is_refused(data):
    with pytest.raises(CorruptCheckpoint):
        decode_offsets(data)


@given(st.binary())
def test_garbage_is_refused_or_read_but_nothing_else(data):
    with contextlib.suppress(CorruptCheckpoint):
        decode_offsets(data)


def test_meta_properties_are_read_as_java_writes_them():
    text = b"#\n#Sat Nov 21 12:00:00 UTC 2020\ncluster.id=abc-DEF_123\nversion=0\nbroker.id=3\n"
    assert MetaProperties.decode(text) == MetaProperties(BrokerId(3), "abc-DEF_123")
    assert MetaProperties.decode(b"version=0\nbroker.id=3\n").cluster_id is None
    meta = MetaProperties(BrokerId(12), "xY z=")
    assert MetaProperties.decode(meta.encode()) == meta


@pytest.mark.parametrize(
    "data", [b"", b"version=1\nbroker.id=1\n", b"version=0\n", b"version=0\nbroker.id=x\n", b"a=\\u00\n"]
)
def test_other_meta_properties_are_refused(data):
    with pytest.raises(InvalidMetaProperties):
        MetaProperties.decode(data)


@given(TOPICS, st.integers(0, 10**6))
def test_directories_tell_their_partition(topic, partition):
    topic_partition = TopicPartition(topic, partition)
    assert parse_partition_directory(partition_directory(topic_partition)) == topic_partition
    deleted = deleted_directory(topic_partition, "0123456789abcdef" * 2)
    assert len(deleted) <= 255
    assert is_deleted_directory(deleted)
    assert not is_future_directory(deleted)
    parsed = parse_partition_directory(deleted)
    assert parsed is not None
    assert parsed.partition == partition


@pytest.mark.parametrize("name", ["", "topic", "-1", "topic-", "topic-x", "lost+found", "topic-1.deadbeef-delete"])
def test_other_names_are_no_partitions(name):
    assert parse_partition_directory(name) is None


def test_segment_files_have_twenty_digits():
    assert segment_file(42, ".log") == "00000000000000000042.log"
    assert offset_of("00000000000000000042.log.swap") == 42
    assert offset_of("leader-epoch-checkpoint") is None
