"""Which replica a consumer should read from."""

import pytest

from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from barnabas.storage.log_config import LogConfig
from broker.metadata_view import MetadataView
from broker.replica_selector import LEADER_SELECTOR, RACK_AWARE_SELECTOR, choose_replica
from controller.commands import Endpoint, LiveBroker, UpdateMetadata
from replication.partition import Partition
from replication.replicas import ReplicaAssignment
from replication.settings import TopicSettings
from tests.support.virtual_time import virtual_time
from tests.unit.replication.replica_world import ME, ReplicaWorld, append_now

B, C, D = BrokerId(2), BrokerId(3), BrokerId(4)
ALL = (ME, B, C, D)
EPOCH = LeaderEpoch(0)


async def leading(*isr: BrokerId) -> tuple[ReplicaWorld, Partition]:
    """A leader with ten records."""
    world = await ReplicaWorld().open()
    at = TopicPartition("t", 0)
    await world.replicas.assign(ReplicaAssignment(at, ME, EPOCH, isr or ALL, ALL, 0, True, TopicSettings(LogConfig())))
    partition = world.partition()
    append_now(partition, *[b"v"] * 10)
    return world, partition


def fetch(partition: Partition, replica: BrokerId, end: int, *, start: int = 0) -> None:
    partition.on_follower_fetch(replica, leader_epoch=EPOCH, fetch_offset=end, log_start_offset=start)


def view(**racks: str) -> MetadataView:
    """Brokers by name: `b` is 2 and so on; who has no rack is not there, or not on the listener `L`."""
    metadata = MetadataView()
    ids = {"me": ME, "b": B, "c": C, "d": D}
    brokers = [
        LiveBroker(ids[name], (Endpoint("M" if rack.startswith("!") else "L", "h", 1),), rack.removeprefix("!"))
        for name, rack in racks.items()
    ]
    metadata.apply(UpdateMetadata(ME, ControllerEpoch(1), BrokerEpoch(1), [], tuple(brokers)))
    return metadata


def choose(
    partition: Partition, metadata: MetadataView, *, rack: str = "far", offset: int = 5, by: str = RACK_AWARE_SELECTOR
) -> BrokerId | None:
    return choose_replica(by, partition, metadata, client_rack=rack, listener_name="L", fetch_offset=offset)


@virtual_time
async def test_the_most_caught_up_replica_of_the_rack_is_chosen() -> None:
    _, partition = await leading()
    metadata = view(me="near", b="far", c="far", d="near")
    fetch(partition, B, 7)
    fetch(partition, C, 6)
    fetch(partition, D, 10)
    assert choose(partition, metadata) == B
    fetch(partition, C, 9)
    assert choose(partition, metadata) == C
    assert choose(partition, metadata, rack="nowhere") is None


@virtual_time
async def test_of_two_that_have_the_same_the_one_that_had_all_later_is_chosen() -> None:
    world, partition = await leading()
    metadata = view(me="near", b="far", c="far")
    fetch(partition, C, 10)
    world.clock.advance(1)
    fetch(partition, B, 10)
    assert choose(partition, metadata) == B


@virtual_time
async def test_the_leader_serves_its_own_rack_and_with_its_selector_everybody() -> None:
    _, partition = await leading()
    metadata = view(me="near", b="near", c="far")
    for replica in (B, C):
        fetch(partition, replica, 10)
    assert choose(partition, metadata, rack="near") is None
    assert choose(partition, metadata, by=LEADER_SELECTOR) is None
    assert choose(partition, metadata) == C


@pytest.mark.parametrize(("offset", "chosen"), [(2, None), (3, B), (7, B), (8, None)])
def test_only_a_replica_that_has_the_offset_is_chosen(offset: int, chosen: BrokerId | None) -> None:
    @virtual_time
    async def run() -> None:
        _, partition = await leading()
        fetch(partition, B, 7, start=3)
        assert choose(partition, view(me="near", b="far"), offset=offset) == chosen

    run()


@virtual_time
async def test_a_replica_out_of_sync_gone_or_on_another_listener_is_not_chosen() -> None:
    _, partition = await leading(ME, C, D)
    for replica in (B, C, D):
        fetch(partition, replica, 10)
    assert choose(partition, view(me="near", b="far")) is None
    assert choose(partition, view(me="near", c="!far")) is None
    assert choose(partition, view(me="near", b="far", c="!far", d="far")) == D
    assert choose(partition, view(c="far")) is None, "the leader does not know its own rack"
