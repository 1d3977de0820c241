"""ListOffsets: first and next offsets, times, isolation, epochs, and the old list of segments."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.protocol.messages.list_offsets import (
    ListOffsetPartition,
    ListOffsetPartitionResponse,
    ListOffsetRequest,
    ListOffsetTopic,
)
from barnabas.storage.log_config import LogConfig
from broker.handlers.list_offsets import EARLIEST, LATEST, below_high_watermark, handle
from tests.unit.broker.small_broker import SmallBroker
from tests.unit.storage.logs import NOW, append, batch

# Its broker has a stand-in for the replicas.
pytestmark = pytest.mark.interpreted

CLIENT, DEBUGGER, FOLLOWER = -1, -2, 5


def ask(
    broker: SmallBroker,
    timestamp: int,
    version: int = 5,
    *,
    replica_id: int = CLIENT,
    isolation_level: int = 0,
    topic: str = "t",
    times: int = 1,
    **wanted: int,
) -> list[ListOffsetPartitionResponse]:
    partition = ListOffsetPartition(0, timestamp=timestamp, **wanted)
    request = ListOffsetRequest(replica_id, isolation_level, [ListOffsetTopic(topic, [partition] * times)])
    response = handle(request, broker.context(version))
    return response.topics[0].partitions


def one(broker: SmallBroker, timestamp: int, version: int = 5, **how: Any) -> ListOffsetPartitionResponse:
    (partition,) = ask(broker, timestamp, version, **how)
    return partition


def found(response: ListOffsetPartitionResponse) -> tuple[int, int, int]:
    assert response.error_code == ErrorCode.NONE
    return response.offset, response.timestamp, response.leader_epoch


@pytest.fixture
async def leader(broker: SmallBroker, tmp_path: Path) -> SmallBroker:
    """Leader of t-0 in epoch 3 with offsets 0 to 3 at times NOW, NOW+10, NOW+20, NOW+30; the last is uncommitted."""
    log = await broker.lead(str(tmp_path), epoch=3)
    for number in range(4):
        append(log, batch(b"v", timestamp=NOW + 10 * number), leader_epoch=3)
    log.set_high_watermark(3)
    return broker


async def test_the_ends_of_a_log(leader: SmallBroker) -> None:
    assert found(one(leader, EARLIEST)) == (0, -1, 3)
    assert found(one(leader, LATEST)) == (3, -1, 3)
    assert found(one(leader, LATEST, replica_id=FOLLOWER)) == (4, -1, 3)


async def test_the_leader_epoch_is_told_from_version_4(leader: SmallBroker) -> None:
    assert found(one(leader, LATEST, 4))[2] == 3
    assert found(one(leader, LATEST, 3))[2] == -1


async def test_the_first_record_that_is_not_older(leader: SmallBroker) -> None:
    assert found(one(leader, NOW + 1)) == (1, NOW + 10, 3)
    assert found(one(leader, NOW + 20)) == (2, NOW + 20, 3)
    assert found(one(leader, 0)) == (0, NOW, 3)


async def test_a_topic_of_the_first_message_format_has_no_times_to_look_for(leader: SmallBroker) -> None:
    partition = leader.partitions[TopicPartition("t", 0)]
    partition.log.config = replace(partition.log.config, message_format=0)
    assert one(leader, NOW).error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert found(one(leader, LATEST))[0] == 3
    assert found(one(leader, EARLIEST))[0] == 0
    partition.log.config = replace(partition.log.config, message_format=1)
    assert found(one(leader, NOW + 20)) == (2, NOW + 20, 3)


async def test_a_record_that_the_asker_may_not_read_is_none(leader: SmallBroker) -> None:
    assert found(one(leader, NOW + 30)) == (-1, -1, -1)
    assert found(one(leader, NOW + 30, replica_id=FOLLOWER)) == (3, NOW + 30, 3)
    assert found(one(leader, NOW + 31)) == (-1, -1, -1)


async def test_read_committed_ends_at_the_last_stable_offset(broker: SmallBroker, tmp_path: Path) -> None:
    log = await broker.lead(str(tmp_path))
    append(log, batch(b"v"))
    append(log, batch(b"v", producer=(9, 0, 0), transactional=True))
    append(log, batch(b"v"))
    log.set_high_watermark(3)
    assert found(one(broker, LATEST, 2))[0] == 3
    assert found(one(broker, LATEST, 2, isolation_level=1))[0] == 1
    assert one(broker, LATEST, 2, isolation_level=7).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.NONE),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ErrorCode.NONE),
    ],
)
async def test_the_askers_leader_epoch_is_held_against_the_leaders(
    leader: SmallBroker, epoch: int, error: ErrorCode
) -> None:
    assert one(leader, LATEST, current_leader_epoch=epoch).error_code == error
    assert one(leader, LATEST, replica_id=DEBUGGER, current_leader_epoch=epoch).error_code == error


async def test_a_partition_that_is_not_here(broker: SmallBroker) -> None:
    assert one(broker, LATEST, topic="unknown").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.announce("elsewhere", leader=2)
    assert one(broker, LATEST, topic="elsewhere").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", [0, 5])
async def test_a_follower_answers_only_a_debugger(leader: SmallBroker, version: int) -> None:
    partition = leader.partitions[TopicPartition("t", 0)]
    await partition.resign(leader_id=BrokerId(2), leader_epoch=LeaderEpoch(4))
    assert one(leader, LATEST, version).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert one(leader, LATEST, version, replica_id=DEBUGGER).error_code == ErrorCode.NONE


async def test_an_offline_partition_is_a_storage_error(leader: SmallBroker) -> None:
    leader.partitions[TopicPartition("t", 0)].go_offline()
    assert one(leader, LATEST).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert one(leader, LATEST, replica_id=DEBUGGER).error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("version", "error"), [(5, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)]
)
async def test_the_end_is_not_told_while_the_high_watermark_is_below_the_epochs_start(
    leader: SmallBroker, version: int, error: ErrorCode
) -> None:
    log = leader.partitions[TopicPartition("t", 0)].log
    log.assign_leader_epoch(4, start_offset=4)
    leader.partitions[TopicPartition("t", 0)].leader_epoch = LeaderEpoch(4)
    assert one(leader, LATEST, version).error_code == error
    assert one(leader, NOW + 30, version).error_code == error
    assert one(leader, NOW, version).error_code == ErrorCode.NONE
    assert one(leader, EARLIEST, version).error_code == ErrorCode.NONE
    assert one(leader, LATEST, version, replica_id=FOLLOWER).error_code == ErrorCode.NONE
    log.set_high_watermark(4)
    assert found(one(leader, LATEST, version))[0] == 4


async def test_a_partition_named_twice_is_an_invalid_request_but_not_in_version_0(leader: SmallBroker) -> None:
    assert [each.error_code for each in ask(leader, LATEST, 1, times=2)] == [ErrorCode.INVALID_REQUEST] * 2
    assert [each.error_code for each in ask(leader, LATEST, 0, times=2)] == [ErrorCode.NONE] * 2


async def test_a_disk_that_fails_is_told_to_the_directories(leader: SmallBroker) -> None:
    log = leader.partitions[TopicPartition("t", 0)].log
    log.segments.active.log_file.close()
    response = one(leader, NOW)
    assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(leader.failed_directories) == 1


async def test_version_0_lists_the_starts_of_segments_newest_first(broker: SmallBroker, tmp_path: Path) -> None:
    log = await broker.lead(str(tmp_path), config=LogConfig(segment_bytes=100))
    for _ in range(3):
        append(log, batch(b"v" * 20))
    log.set_high_watermark(3)

    def offsets(timestamp: int, count: int) -> list[int]:
        return one(broker, timestamp, 0, max_num_offsets=count).old_style_offsets

    assert offsets(LATEST, 1) == [3]
    assert offsets(LATEST, 10) == [3, 2, 1, 0]
    assert offsets(EARLIEST, 10) == [0]
    assert offsets(LATEST, 0) == []
    assert offsets(1, 10) == []
    assert one(broker, LATEST, 0, max_num_offsets=-1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    log.set_high_watermark(1)
    assert offsets(LATEST, 10) == [1, 1, 0]
    assert one(broker, LATEST, 0, max_num_offsets=10, replica_id=DEBUGGER).old_style_offsets == [3, 2, 1, 0]


def test_offsets_above_the_high_watermark_become_it() -> None:
    assert below_high_watermark([9, 5, 0], 9) == [9, 5, 0]
    assert below_high_watermark([9, 5, 0], 6) == [6, 5, 0]
    assert below_high_watermark([9, 5], 0) == [0]
    assert below_high_watermark([], 0) == []
