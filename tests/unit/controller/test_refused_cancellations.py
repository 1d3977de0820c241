"""Cancellations of moves that would lose copies of what was acknowledged."""

import pytest

from barnabas.protocol.error_code import ErrorCode
from controller.office import Settings
from controller.questions import Outcome
from tests.unit.controller.cluster import Cluster, until
from tests.unit.controller.replication import assignment, reassign, replicate
from tests.unit.controller.test_replica_moves import AT, created, run
from zk_schema import paths
from zk_schema.ops import Set
from zk_schema.payloads import EntityConfig, TopicAssignment


def test_a_cancellation_that_would_lose_records_is_refused() -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 2, 3)
        cluster.brokers[5].is_deaf = True
        await reassign(cluster, "t", {0: [4, 5]})
        await until(lambda: AT in cluster.brokers[4].logs)
        await replicate(cluster)
        cluster.kill(2)
        cluster.kill(3)
        await until(lambda: cluster.leader("t") == 4)
        outcome = (await reassign(cluster, "t", {0: None}))[AT]
        assert outcome.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert cluster.leader("t") == 4

    run(scenario)


@pytest.mark.parametrize(
    ("config", "default", "is_refused"),
    [
        ({"min.insync.replicas": "2"}, 1, True),
        ({}, 2, True),
        ({"min.insync.replicas": "1"}, 2, False),
        ({"min.insync.replicas": "3"}, 1, True),
        ({"min.insync.replicas": "two"}, 1, False),
    ],
)
def test_a_cancellation_leaves_as_many_copies_as_records_were_acknowledged_with(
    config: dict[str, str], default: int, *, is_refused: bool
) -> None:
    async def scenario(cluster: Cluster) -> None:
        await created(cluster, 2, 3)
        cluster.controllers[1].change_settings(Settings(min_insync_replicas=default))
        await cluster.tool.write(Set(paths.topic_config("t"), EntityConfig(config).encode()))
        cluster.brokers[5].is_deaf = True
        await reassign(cluster, "t", {0: [4, 5]})
        await until(lambda: AT in cluster.brokers[4].logs)
        await replicate(cluster)
        cluster.kill(3)
        await until(lambda: set(cluster.in_sync("t")) == {2, 4})
        outcome = (await reassign(cluster, "t", {0: None}))[AT]
        if is_refused:
            assert outcome.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert "min.insync.replicas" in (outcome.message or "")
            assert set(cluster.in_sync("t")) == {2, 4}
            await cluster.start_broker(3)
            await until(lambda: AT in cluster.brokers[3].roles)
            await replicate(cluster)
            assert 3 in cluster.in_sync("t")
            assert (await reassign(cluster, "t", {0: None}))[AT] == Outcome()
        else:
            assert outcome == Outcome()
            assert cluster.in_sync("t") == [2]
        assert assignment(cluster, "t") == TopicAssignment({0: (2, 3)})

    run(scenario)
