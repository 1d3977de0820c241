"""The three brokers that the corpus of clusters is asked of: of Kafka 2.7.2, and of ours.

Broker *n* stands in rack-*n*. Kafka's brokers start in the order that is asked for, and the first of them becomes the
controller; ours start at once.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.differential.cluster_conversation import BROKERS, Cluster
from tests.differential.conversation import Server
from tests.support.broker_process import BrokerProcess
from tests.support.kafka import Kafka, running_zookeeper
from tests.support.zookeeper import new_zookeeper

_SETTINGS = {
    # The records of the corpus are stamped in 2020, so that a time near now can only be the server's.
    "log.retention.ms": "-1",
    # What a topic gets that asks for the default.
    "num.partitions": "2",
    "default.replication.factor": "3",
    # Leaders stay until a request moves them.
    "auto.leader.rebalance.enable": "false",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # A replica that is held back by a throttle stays behind for as long as the corpus takes.
    "replication.quota.window.size.seconds": "120",
    # Followers hear of high watermarks, and of new partitions, soon.
    "replica.fetch.wait.max.ms": "50",
    "replica.fetch.backoff.ms": "50",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    # All end together: nobody is there to hand over to.
    "controlled.shutdown.enable": "false",
}
_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


@contextlib.contextmanager
def three_of_kafka(directory: Path, order: Sequence[int] = BROKERS) -> Iterator[Cluster]:
    """Apache Kafka 2.7.2."""
    with contextlib.ExitStack() as resources:
        zookeeper = resources.enter_context(running_zookeeper(directory / "zookeeper"))
        servers = {}
        for broker in order:
            kafka = Kafka(directory / f"broker-{broker}", _settings(broker), zookeeper=zookeeper, jvm=_JVM_OPTIONS)
            resources.enter_context(kafka)
            servers[broker] = Server(kafka.host, kafka.port)
        yield Cluster(dict(sorted(servers.items())))


@contextlib.contextmanager
def three_of_barnabas(directory: Path) -> Iterator[Cluster]:
    """Barnabas."""
    with contextlib.ExitStack() as resources:
        zookeeper = resources.enter_context(new_zookeeper(directory / "zookeeper"))
        started = {}
        for broker in BROKERS:
            started[broker] = process = BrokerProcess(
                directory / f"broker-{broker}", zookeeper.connect_string, _settings(broker), broker_id=broker
            )
            resources.callback(process.stop)
            process.launch()
        for process in started.values():
            process.wait_for(process.started_line)
        yield Cluster({broker: Server(process.host, process.port) for broker, process in started.items()})


def _settings(broker: int) -> dict[str, str]:
    return {**_SETTINGS, "broker.id": str(broker), "broker.rack": f"rack-{broker}"}
