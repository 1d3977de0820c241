"""Settings changed by others' tools and clients: Kafka 2.7.2's kafka-configs, confluent-kafka, kafka-python.

What they change acts on all brokers without a restart, and what we write reads back as Kafka reads its own.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType, KafkaAdminClient

from barnabas.launcher.cluster import LocalCluster
from tests.support.cluster import new_cluster
from tests.support.java import JavaFailed, run_java
from tests.support.kafka_jars import BROKER_JARS, JarsNotAvailable, class_path

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

CONFIG = "kafka.admin.ConfigCommand"
WAIT_SECONDS = 30.0

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers, and the topic `t`."""
    made = new_cluster(tmp_path_factory.mktemp("cluster"), brokers=2)
    made.start()
    admin = AdminClient({"bootstrap.servers": made.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, 2)])["t"].result(20)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def tool(cluster: LocalCluster) -> Tool:
    """kafka-configs over the brokers, or with `over_zookeeper` past them."""
    try:
        jars = class_path(BROKER_JARS)
    except JarsNotAvailable as error:
        pytest.skip(str(error))

    def run(*arguments: str, over_zookeeper: bool = False) -> str:
        brokers = ("--bootstrap-server", cluster.bootstrap_servers)
        where = ("--zookeeper", cluster.connect_string) if over_zookeeper else brokers
        return run_java(jars, CONFIG, [*where, *arguments])

    return run


@pytest.fixture
def confluent(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def told(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, Any]:
    resource = ConfigResource(kind, name)
    found: dict[str, Any] = admin.describe_configs([resource])[resource].result(20)
    return found


def until_told(admin: AdminClient, broker: str, key: str, value: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while told(admin, ResourceType.BROKER, broker)[key].value != value:
        assert time.monotonic() < deadline, f"{key}={value} at broker {broker}"
        time.sleep(0.05)


@pytest.mark.java
def test_kafka_configs_changes_topics_over_the_brokers_and_over_zookeeper(tool: Tool, confluent: AdminClient) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", "t")
    changed = "retention.ms=123456,cleanup.policy=[compact,delete]"
    assert "Completed updating config for topic t." in tool(*of_topic, "--alter", "--add-config", changed)
    described = tool(*of_topic, "--describe")
    assert "retention.ms=123456 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=123456" in described
    assert "cleanup.policy=compact,delete" in described
    assert "retention.ms=123456" in tool(*of_topic, "--describe", over_zookeeper=True)
    tool(*of_topic, "--alter", "--add-config", "max.message.bytes=654321", over_zookeeper=True)
    configs = told(confluent, ResourceType.TOPIC, "t")
    assert (configs["max.message.bytes"].value, configs["retention.ms"].value) == ("654321", "123456")
    tool(*of_topic, "--alter", "--delete-config", "retention.ms,cleanup.policy,max.message.bytes")
    assert told(confluent, ResourceType.TOPIC, "t")["retention.ms"].is_default


@pytest.mark.java
def test_kafka_configs_changes_brokers_without_a_restart(tool: Tool, confluent: AdminClient) -> None:
    of_all, of_one = (
        ("--entity-type", "brokers", "--entity-default"),
        ("--entity-type", "brokers", "--entity-name", "1"),
    )
    tool(*of_all, "--alter", "--add-config", "log.segment.bytes=2000000,message.max.bytes=765432")
    for broker in ("1", "2"):
        until_told(confluent, broker, "log.segment.bytes", "2000000")
    tool(*of_one, "--alter", "--add-config", "log.segment.bytes=3000000")
    until_told(confluent, "1", "log.segment.bytes", "3000000")
    described = tool(*of_one, "--describe")
    synonyms = (
        "DYNAMIC_BROKER_CONFIG:log.segment.bytes=3000000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=2000000"
    )
    assert synonyms in described
    tool(*of_one, "--alter", "--add-config", "leader.replication.throttled.rate=1000000", over_zookeeper=True)
    until_told(confluent, "1", "leader.replication.throttled.rate", "1000000")
    assert told(confluent, ResourceType.BROKER, "1")["log.segment.bytes"].value == "3000000"
    both = "log.segment.bytes,leader.replication.throttled.rate"
    tool(*of_one, "--alter", "--delete-config", both)
    until_told(confluent, "1", "log.segment.bytes", "2000000")
    with pytest.raises(JavaFailed, match=r"broker\.id"):
        tool(*of_one, "--alter", "--add-config", "broker.id=7")
    tool(*of_all, "--alter", "--delete-config", "log.segment.bytes,message.max.bytes")


@pytest.mark.java
def test_kafka_configs_changes_levels_of_loggers(tool: Tool) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "2")
    tool(*loggers, "--alter", "--add-config", "broker.config_changes=DEBUG")
    assert "broker.config_changes=DEBUG sensitive=false synonyms={}" in tool(*loggers, "--describe")


def test_confluent_changes_single_settings_and_all_of_them(confluent: AdminClient) -> None:
    def change(kind: ResourceType, name: str, operation: AlterConfigOpType, key: str, value: str | None) -> None:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        confluent.incremental_alter_configs([resource])[resource].result(20)

    throttled = "leader.replication.throttled.replicas"
    change(ResourceType.TOPIC, "t", AlterConfigOpType.SET, throttled, "0:1")
    change(ResourceType.TOPIC, "t", AlterConfigOpType.APPEND, throttled, "0:2")
    assert told(confluent, ResourceType.TOPIC, "t")[throttled].value == "0:1,0:2"
    change(ResourceType.TOPIC, "t", AlterConfigOpType.SUBTRACT, throttled, "0:1")
    change(ResourceType.TOPIC, "t", AlterConfigOpType.SET, "flush.ms", "99")
    assert told(confluent, ResourceType.TOPIC, "t")[throttled].value == "0:2"
    change(ResourceType.TOPIC, "t", AlterConfigOpType.DELETE, throttled, None)
    change(ResourceType.BROKER, "2", AlterConfigOpType.SET, "log.retention.ms", "98")
    entry = told(confluent, ResourceType.BROKER, "2")["log.retention.ms"]
    assert (entry.value, entry.source, entry.is_read_only) == ("98", 2, False)
    change(ResourceType.BROKER, "2", AlterConfigOpType.DELETE, "log.retention.ms", None)
    replacing = ConfigResource(ResourceType.TOPIC, "t", set_config={"retention.ms": "97"})
    confluent.alter_configs([replacing])[replacing].result(20)
    configs = told(confluent, ResourceType.TOPIC, "t")
    assert (configs["retention.ms"].value, configs["flush.ms"].is_default) == ("97", True)
    with pytest.raises(KafkaException, match=r"no\.such\.key"):
        change(ResourceType.TOPIC, "t", AlterConfigOpType.SET, "no.such.key", "1")
    emptied = ConfigResource(ResourceType.TOPIC, "t")
    confluent.alter_configs([emptied])[emptied].result(20)


def test_kafka_python_changes_topics_and_brokers(cluster: LocalCluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    for kind, name, key in (
        (ConfigResourceType.TOPIC, "t", "retention.ms"),
        (ConfigResourceType.BROKER, "2", "log.retention.ms"),
    ):
        admin.alter_configs([PythonResource(kind, name, {key: "96"})])
        assert "'96'" in repr(admin.describe_configs([PythonResource(kind, name)]))
        admin.reset_configs([PythonResource(kind, name, [key])])
        assert "'96'" not in repr(admin.describe_configs([PythonResource(kind, name)]))
    admin.close()
