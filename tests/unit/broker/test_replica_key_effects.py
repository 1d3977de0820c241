"""What the keys of replication do, on whole brokers in this process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.storage.log_config import LogConfig
from broker.config_keys.key import ConfigError
from broker.handlers import fetch
from broker.request_context import RequestContext
from broker.serve import Broker
from controller.commands import Endpoint, LiveBroker, UpdateMetadata
from replication.partition import Partition
from replication.replicas import ReplicaAssignment
from replication.settings import TopicSettings
from tests.unit.broker.whole_broker import BrokerHost, until
from tests.unit.storage.logs import batch

ME, OTHER = BrokerId(1), BrokerId(2)
LISTENER = "PLAINTEXT"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER = "org.apache.kafka.common.replica.LeaderSelector"


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[BrokerHost]:
    host = BrokerHost(tmp_path)
    yield host
    await host.close()


async def lead(broker: Broker, *, min_in_sync_replicas: int = 1) -> Partition:
    """Let the broker lead a partition that broker 2 follows."""
    topic_partition = TopicPartition("t", 0)
    error = await broker.services.replicas.assign(
        ReplicaAssignment(
            topic_partition=topic_partition,
            leader_id=ME,
            leader_epoch=LeaderEpoch(0),
            isr=(ME, OTHER),
            replicas=(ME, OTHER),
            zk_version=0,
            is_new=True,
            settings=TopicSettings(LogConfig(), min_in_sync_replicas),
        )
    )
    assert error is ErrorCode.NONE
    partition = broker.services.replicas.partition(topic_partition)
    assert partition is not None
    return partition


def fetch_as(broker: Broker, replica_id: int, offset: int, *, rack: str = "") -> FetchResponse:
    wanted = FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=replica_id, max_wait_ms=0, min_bytes=0, topics=[FetchTopic("t", [wanted])], rack_id=rack
    )
    context = RequestContext(
        broker.services, version=12, correlation_id=1, client_id="t", client_host="h", listener_name=LISTENER
    )
    response = fetch.handle(request, context)
    assert isinstance(response, FetchResponse)
    (answer,) = response.responses[0].partition_responses
    if answer.record_set:
        answer.record_set.release()
    return response


async def test_a_follower_that_lags_for_so_long_is_left_out(host: BrokerHost) -> None:
    broker = await host.start(replica_lag_time_max_ms="20", replica_fetch_wait_max_ms="10")
    partition = await lead(broker)
    partition.try_append(batch(b"a"), acks=1)
    leadership = partition.leadership
    assert leadership is not None
    await until(lambda: leadership.isr.pending is not None)
    assert leadership.isr.pending is not None
    assert leadership.isr.pending.new_isr == (ME,)
    await broker.stop()


@pytest.mark.parametrize(("defence", "committed"), [("true", 0), ("false", 1)])
async def test_records_are_committed_below_min_isr_only_without_the_defence(
    host: BrokerHost, defence: str, committed: int
) -> None:
    keys = {"barnabas_last_replica_defence": defence}
    broker = await host.start(**keys)
    partition = await lead(broker, min_in_sync_replicas=2)
    assert partition.leadership is not None
    partition.leadership.isr.committed = partition.leadership.isr.maximal = (ME,)
    partition.try_append(batch(b"a"), acks=1)
    partition.on_follower_fetch(OTHER, leader_epoch=0, fetch_offset=1, log_start_offset=0)
    assert partition.log.high_watermark == committed
    await broker.stop()


@pytest.mark.parametrize(
    ("keys", "rack", "preferred"),
    [
        ({}, "far", -1),
        ({"replica_selector_class": LEADER}, "far", -1),
        ({"replica_selector_class": RACK_AWARE}, "far", 2),
        ({"replica_selector_class": RACK_AWARE}, "near", -1),
        ({"replica_selector_class": RACK_AWARE}, "", -1),
        ({"replica_selector_class": RACK_AWARE}, "nowhere", -1),
    ],
)
async def test_a_consumer_is_told_of_a_replica_in_its_rack(
    host: BrokerHost, keys: dict[str, str], rack: str, preferred: int
) -> None:
    broker = await host.start(broker_rack="near", controlled_shutdown_enable="false", **keys)
    partition = await lead(broker)
    brokers = (
        LiveBroker(ME, (Endpoint(LISTENER, "h", 1),), "near"),
        LiveBroker(OTHER, (Endpoint(LISTENER, "h", 2),), "far"),
    )
    command = UpdateMetadata(ME, ControllerEpoch(9), BrokerEpoch(1), [], brokers)
    assert broker.services.metadata.apply(command) is ErrorCode.NONE
    partition.try_append(batch(b"a"), acks=1)
    fetch_as(broker, OTHER, 1)
    (answer,) = fetch_as(broker, -1, 0, rack=rack).responses[0].partition_responses
    assert answer.preferred_read_replica == preferred
    assert bool(answer.record_set) is (preferred == -1)
    assert answer.high_watermark == 1
    await broker.stop()


async def test_a_selector_that_nobody_knows_stops_the_start(host: BrokerHost) -> None:
    with pytest.raises(ConfigError, match=r"replica\.selector\.class is 'org\.example\.Mine'"):
        await host.start(replica_selector_class="org.example.Mine")
