"""What a leader shows of its in-sync sets and followers."""

from prometheus_client.core import Metric

from barnabas.protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.storage.log_config import LogConfig
from broker.metric_replicas import replica_families
from replication.partition import Partition
from replication.replicas import ReplicaAssignment
from replication.settings import TopicSettings
from tests.support.virtual_time import virtual_time
from tests.unit.broker.data_broker import DataBroker, fetch_now, fetch_request
from tests.unit.replication.replica_world import ME, OTHER, append_now
from tests.unit.storage.logs import batch

TP = TopicPartition("t", 0)


async def lead(broker: DataBroker, *isr: BrokerId, min_isr: int) -> Partition:
    await broker.world.replicas.assign(
        ReplicaAssignment(TP, ME, LeaderEpoch(0), isr, (ME, OTHER), 0, True, TopicSettings(LogConfig(), min_isr))
    )
    return broker.world.partition()


def shown(broker: DataBroker) -> dict[str, float]:
    families: list[Metric] = list(replica_families(broker.services, broker.world.replicas.counts))
    return {sample.name.removesuffix("_total"): sample.value for family in families for sample in family.samples}


@virtual_time
async def test_a_replica_out_of_sync_is_counted_until_it_is_back() -> None:
    broker = await DataBroker().open()
    partition = await lead(broker, ME, min_isr=2)
    append_now(partition, b"a", b"b", acks=1)
    before = shown(broker)
    assert before["kafka_server_replicamanager_underreplicatedpartitions"] == 1
    assert before["kafka_server_replicamanager_underminisrpartitioncount"] == 1
    assert before["kafka_server_replicamanager_atminisrpartitioncount"] == 0
    assert before["kafka_cluster_partition_insyncreplicascount"] == 1
    assert before["kafka_cluster_partition_replicascount"] == 2
    assert before["kafka_cluster_partition_underreplicated"] == 1
    assert before["kafka_cluster_partition_underminisr"] == 1
    assert before["barnabas_replica_lag"] == 2
    partition.on_follower_fetch(OTHER, leader_epoch=0, fetch_offset=1, log_start_offset=0)
    assert shown(broker)["barnabas_replica_lag"] == 1
    partition.on_follower_fetch(OTHER, leader_epoch=0, fetch_offset=2, log_start_offset=0)
    broker.world.channel.obey(TP)
    after = shown(broker)
    assert after["kafka_server_replicamanager_underreplicatedpartitions"] == 0
    assert after["kafka_server_replicamanager_underminisrpartitioncount"] == 0
    assert after["kafka_server_replicamanager_atminisrpartitioncount"] == 1
    assert after["kafka_server_replicamanager_isrexpands"] == 1
    assert after["kafka_server_replicamanager_isrshrinks"] == 0
    assert after["kafka_cluster_partition_underminisr"] == 0
    assert after["barnabas_replica_lag"] == 0


@virtual_time
async def test_a_replica_that_a_reassignment_adds_is_not_missed() -> None:
    broker = await DataBroker().open()
    settings = TopicSettings(LogConfig(), 1)
    for epoch, adding, missed in ((0, (OTHER,), 0), (1, (), 1)):
        await broker.world.replicas.assign(
            ReplicaAssignment(TP, ME, LeaderEpoch(epoch), (ME,), (OTHER, ME), 0, epoch == 0, settings, adding)
        )
        assert shown(broker)["kafka_server_replicamanager_underreplicatedpartitions"] == missed
        assert shown(broker)["kafka_cluster_partition_underreplicated"] == missed


@virtual_time
async def test_what_others_lead_is_not_shown() -> None:
    broker = await DataBroker().open()
    await lead(broker, ME, OTHER, min_isr=1)
    assert shown(broker)["kafka_cluster_partition_replicascount"] == 2
    await broker.world.assign(1, leader=OTHER, replicas=(ME, OTHER))
    assert "kafka_cluster_partition_replicascount" not in shown(broker)


@virtual_time
async def test_what_followers_fetch_is_counted_apart() -> None:
    broker = await DataBroker().open()
    partition = await lead(broker, ME, OTHER, min_isr=1)
    info = append_now(partition, b"a")
    for replica, expected in ((OTHER, info.size_bytes), (-1, info.size_bytes)):
        fetch_now(broker, fetch_request({TP: 0}, replica_id=replica, leader_epoch=0))
        partition.log.set_high_watermark(1)
        assert shown(broker)["kafka_server_brokertopicmetrics_replicationbytesout"] == expected
    assert broker.metrics.topic("t").bytes_out == info.size_bytes
    assert broker.metrics.topic("t").fetch_requests == 2


@virtual_time
async def test_what_is_fetched_from_leaders_is_counted() -> None:
    broker = await DataBroker().open()
    await broker.world.assign(3, leader=OTHER, replicas=(ME, OTHER))
    data = batch(b"a", leader_epoch=3)
    await broker.world.partition().append_as_follower(data, leader_epoch=LeaderEpoch(3))
    assert shown(broker)["kafka_server_brokertopicmetrics_replicationbytesin"] == len(data)
