"""DescribeLogDirs: each directory, what lies in it, and what is missing of it."""

from barnabas.protocol.compiler import decode, encode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.storage.damage import DamagedRange
from broker.handlers import alter_replica_log_dirs, describe_log_dirs
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import DataBroker, answer_of
from tests.unit.replication.replica_world import ME, OTHER, append_now
from tests.unit.storage.logs import batch

ONE = len(batch(b"v"))


async def two_directories() -> DataBroker:
    """Partitions 0 and 2 of a topic in the first directory, 1 in the second; partition 0 has a record."""
    broker = await DataBroker(directories=2).open()
    partitions = await broker.lead(count=3)
    append_now(partitions[0])
    return broker


async def described(broker: DataBroker, wanted: dict[str, list[int]] | None) -> DescribeLogDirsResponse:
    topics = None if wanted is None else [DescribableLogDirTopic(name, numbers) for name, numbers in wanted.items()]
    response = await answer_of(describe_log_dirs.handle(DescribeLogDirsRequest(topics), broker.context(2)))
    assert isinstance(response, DescribeLogDirsResponse)
    return response


def replicas(response: DescribeLogDirsResponse) -> dict[str, dict[int, tuple[int, int]]]:
    """Size and lag by directory and partition."""
    return {
        result.log_dir: {
            each.partition_index: (each.partition_size, each.offset_lag)
            for topic in result.topics
            for each in topic.partitions
        }
        for result in response.results
    }


@virtual_time
async def test_each_replica_is_listed_where_it_lies() -> None:
    broker = await two_directories()
    everything = {"/logs0": {0: (ONE, 0), 2: (0, 0)}, "/logs1": {1: (0, 0)}}
    assert replicas(await described(broker, None)) == everything
    assert replicas(await described(broker, {"t": [2, 1, 7], "u": [0]})) == {
        "/logs0": {2: (0, 0)},
        "/logs1": {1: (0, 0)},
    }


@virtual_time
async def test_an_offline_directory_is_listed_with_its_error_and_nothing_in_it() -> None:
    broker = await two_directories()
    broker.world.directory.fail(OSError(5, "gone"))
    lost, kept = (await described(broker, None)).results
    assert (lost.error_code, lost.log_dir, lost.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, "/logs0", [])
    assert (kept.error_code, kept.log_dir) == (ErrorCode.NONE, "/logs1")
    assert len(kept.topics) == 1


@virtual_time
async def test_a_replica_that_is_not_served_has_no_known_lag() -> None:
    broker = await two_directories()
    await broker.world.stop(1, at=TopicPartition("t", 0), delete=False)
    assert replicas(await described(broker, {"t": [0]}))["/logs0"] == {0: (ONE, -1)}


@virtual_time
async def test_a_follower_is_listed_too() -> None:
    broker = await two_directories()
    await broker.world.assign(1, leader=OTHER, at=TopicPartition("t", 0), replicas=(OTHER, ME))
    assert replicas(await described(broker, {"t": [0]}))["/logs0"] == {0: (ONE, 0)}


@virtual_time
async def test_a_replica_on_its_way_is_listed_where_it_goes_with_what_it_lacks() -> None:
    broker = await two_directories()
    broker.world.offload.hold("move")
    at = TopicPartition("t", 0)
    wanted = AlterReplicaLogDir("/logs1", [AlterReplicaLogDirTopic("t", [0])])
    answer = await answer_of(alter_replica_log_dirs.handle(AlterReplicaLogDirsRequest([wanted]), broker.context(1)))
    assert [(each.partition_index, each.error_code) for each in answer.results[0].partitions] == [(0, ErrorCode.NONE)]
    await turns()
    _, there = (await described(broker, {"t": [0]})).results
    ((future,),) = [topic.partitions for topic in there.topics]
    assert (future.partition_index, future.partition_size, future.offset_lag, future.is_future_key) == (0, 0, 1, True)
    broker.world.offload.release("move")
    await turns(50)
    assert replicas(await described(broker, {"t": [0]})) == {"/logs0": {}, "/logs1": {0: (ONE, 0)}}
    assert broker.world.partition(at).directory.path == "/logs1"


async def test_damage_is_told_in_a_tagged_field_of_our_own() -> None:
    broker = await two_directories()
    partition = broker.services.replicas.partition(("t", 0))
    assert partition is not None
    partition.log.damage.add(DamagedRange(0, 0, ONE, 0, 1, "bits"))
    response = await described(broker, None)
    for version, told in ((2, 1), (1, 0)):
        decoded, _ = decode(DescribeLogDirsResponse, version, encode(response, version))
        counts = {
            replica.partition_index: replica.damaged_ranges
            for directory in decoded.results
            for topic in directory.topics
            for replica in topic.partitions
        }
        assert counts == {0: told, 1: 0, 2: 0}


@virtual_time
async def test_a_log_that_the_cleaner_has_seen_is_told_to_have_gaps_under_any_policy() -> None:
    broker = await two_directories()
    broker.world.log_directories.directories[0].first_dirty[TopicPartition("t", 2)] = 0
    for version, told in ((2, True), (1, False)):
        decoded, _ = decode(DescribeLogDirsResponse, version, encode(await described(broker, None), version))
        gaps = {
            replica.partition_index: replica.may_have_gaps
            for directory in decoded.results
            for topic in directory.topics
            for replica in topic.partitions
        }
        assert gaps == {0: False, 1: False, 2: told}
