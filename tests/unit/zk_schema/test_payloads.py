import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from zk_schema.json_text import InvalidPayload
from zk_schema.payloads import (
    BrokerRegistration,
    ClusterId,
    ConfigChange,
    ConsumerOffset,
    ConsumerRegistration,
    ControllerEpochText,
    ControllerRegistration,
    Endpoint,
    EntityConfig,
    FeatureStatus,
    FeatureZnode,
    IsrChangeNotification,
    LogDirEvent,
    PartitionState,
    PreferredReplicaElection,
    ProducerIdBlock,
    ReassignPartitions,
    SubscriptionPattern,
    TopicAssignment,
    VersionRange,
)


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


PLAIN = Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

# Value, and the text that Kafka 2.7 has for it.
WRITTEN: list[tuple[Any, str]] = [
    (
        BrokerRegistration((PLAIN,), 1610264776275),
        (
            '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h:9092"],'
            '"jmx_port":-1,"port":9092,"host":"h","version":5,"timestamp":"1610264776275"}'
        ),
    ),
    (
        BrokerRegistration(
            (Endpoint("OUT", "ext", 1, "SASL_SSL"), Endpoint("IN", "::1", 2, "PLAINTEXT")),
            5,
            rack="r1",
            jmx_port=9999,
            features={"f": VersionRange(1, 3)},
            control_endpoint="127.0.0.1:7",
        ),
        (
            '{"features":{"f":{"min_version":1,"max_version":3}},'
            '"listener_security_protocol_map":{"OUT":"SASL_SSL","IN":"PLAINTEXT"},'
            '"endpoints":["OUT://ext:1","IN://[::1]:2"],"rack":"r1","jmx_port":9999,"port":2,"host":"::1","version":5,'
            '"timestamp":"5","barnabas_control":"127.0.0.1:7"}'
        ),
    ),
    (
        BrokerRegistration((Endpoint("SSL", "h", 9093, "SSL"),), 5),
        (
            '{"features":{},"listener_security_protocol_map":{"SSL":"SSL"},"endpoints":["SSL://h:9093"],'
            '"jmx_port":-1,"port":-1,"host":null,"version":5,"timestamp":"5"}'
        ),
    ),
    (ControllerRegistration(BrokerId(2), 1673382716473), '{"version":1,"brokerid":2,"timestamp":"1673382716473"}'),
    (ControllerEpochText(ControllerEpoch(7)), "7"),
    (
        TopicAssignment({1: ids(2, 3), 0: ids(1, 2)}),
        '{"removing_replicas":{},"partitions":{"0":[1,2],"1":[2,3]},"adding_replicas":{},"version":2}',
    ),
    (
        TopicAssignment({0: ids(1, 2)}, {0: ids(2)}, {0: ids(1)}),
        '{"removing_replicas":{"0":[1]},"partitions":{"0":[1,2]},"adding_replicas":{"0":[2]},"version":2}',
    ),
    (
        TopicAssignment({0: ids(1)}, topic_id="abc"),
        '{"removing_replicas":{},"partitions":{"0":[1]},"topic_id":"abc","adding_replicas":{},"version":3}',
    ),
    (
        PartitionState(BrokerId(-1), LeaderEpoch(4), ids(3), ControllerEpoch(2)),
        '{"controller_epoch":2,"leader":-1,"version":1,"leader_epoch":4,"isr":[3]}',
    ),
    (
        PartitionState(BrokerId(3), LeaderEpoch(4), ids(3, 1), ControllerEpoch(2), {BrokerId(3): BrokerEpoch(1 << 40)}),
        (
            '{"controller_epoch":2,"leader":3,"version":1,"leader_epoch":4,"isr":[3,1],'
            '"barnabas_broker_epochs":{"3":1099511627776}}'
        ),
    ),
    (EntityConfig({}), '{"version":1,"config":{}}'),
    (EntityConfig({"retention.ms": "5", "x": "ü"}), '{"version":1,"config":{"retention.ms":"5","x":"ü"}}'),
    (ConfigChange("topics/foo"), '{"version":2,"entity_path":"topics/foo"}'),
    (ClusterId("YTAd13fGSziks7O0NRs2QA"), '{"version":"1","id":"YTAd13fGSziks7O0NRs2QA"}'),
    (
        ProducerIdBlock(BrokerId(1), 1000, 1999),
        '{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}',
    ),
    (FeatureZnode(FeatureStatus.ENABLED), '{"features":{},"version":1,"status":1}'),
    (
        FeatureZnode(FeatureStatus.DISABLED, {"f": VersionRange(2, 4)}),
        '{"features":{"f":{"min_version_level":2,"max_version_level":4}},"version":1,"status":0}',
    ),
    (
        ReassignPartitions({T0: ids(1, 2), T1: ()}),
        (
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]},'
            '{"topic":"t","partition":1,"replicas":[]}]}'
        ),
    ),
    (PreferredReplicaElection((T1,)), '{"version":1,"partitions":[{"topic":"t","partition":1}]}'),
    (IsrChangeNotification((T0,)), '{"version":1,"partitions":[{"topic":"t","partition":0}]}'),
    (LogDirEvent(BrokerId(3)), '{"version":1,"broker":3,"event":1}'),
    (ConsumerOffset(1 << 40), "1099511627776"),
    (
        ConsumerRegistration({"t": 2}, timestamp_ms=5),
        '{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"5"}',
    ),
    (
        ConsumerRegistration({"t.*": 1}, SubscriptionPattern.WHITE_LIST, 5),
        '{"version":1,"subscription":{"t.*":1},"pattern":"white_list","timestamp":"5"}',
    ),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN, ids=lambda each: type(each).__name__)
def test_payloads_are_written_as_kafka_writes_them_and_read_back(value: Any, text: str) -> None:
    assert value.encode().decode() == text
    read = type(value).decode(text.encode())
    assert read == value
    assert read.encode() == value.encode(), "with what is not compared"


@pytest.mark.parametrize(
    ("value", "text"), [row for row in WRITTEN if row[1][0] == "{"], ids=lambda each: type(each).__name__
)
def test_readers_ignore_keys_that_they_do_not_know(value: Any, text: str) -> None:
    assert type(value).decode(json.dumps(json.loads(text) | {"later": [{}]}).encode()) == value


@pytest.mark.parametrize("value", [row[0] for row in WRITTEN], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    "data", [b"[1]", b"nil", b'{"version":', b"\xff", b'{"\\ud800":1}', b"[" * 100_000, b"9" * 5000]
)
def test_data_of_another_kind_is_an_invalid_payload(value: Any, data: bytes) -> None:
    if isinstance(value, EntityConfig | TopicAssignment) and data.startswith(b'{"\\'):
        return  # every key of theirs may be missing
    with pytest.raises(InvalidPayload):
        type(value).decode(data)


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ('{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"2"}', (PLAIN,)),
        (
            (
                '{"version":2,"host":"h","port":9092,"jmx_port":9999,"timestamp":"2",'
                '"endpoints":["PLAINTEXT://h:9092","SSL://h:9093"]}'
            ),
            (PLAIN, Endpoint("SSL", "h", 9093, "SSL")),
        ),
        (
            (
                '{"version":4,"host":null,"port":-1,"jmx_port":9999,"timestamp":"2","endpoints":["CLIENT://:9092"],'
                '"rack":null,"listener_security_protocol_map":{"CLIENT":"SASL_SSL"}}'
            ),
            (Endpoint("CLIENT", None, 9092, "SASL_SSL"),),
        ),
    ],
)
def test_registrations_of_older_brokers_are_read(text: str, endpoints: tuple[Endpoint, ...]) -> None:
    registration = BrokerRegistration.decode(text.encode())
    assert (registration.endpoints, registration.timestamp_ms, registration.jmx_port) == (endpoints, 2, 9999)


@pytest.mark.parametrize(
    "text",
    [
        '{"version":0,"jmx_port":1}',
        '{"version":5,"endpoints":["h:9092"]}',
        '{"version":5,"endpoints":["OTHER://h:9092"],"listener_security_protocol_map":{}}',
        '{"version":5,"endpoints":[1]}',
        '{"version":true,"endpoints":[]}',
    ],
)
def test_a_registration_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(InvalidPayload):
        BrokerRegistration.decode(text.encode())


def test_other_versions_are_read_where_they_say_the_same() -> None:
    assert TopicAssignment.decode(b'{"version":1,"partitions":{"0":[1]}}') == TopicAssignment({0: ids(1)})
    later = b'{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}'
    assert ControllerRegistration.decode(later) == ControllerRegistration(BrokerId(1), 5)
    old = b'{"version":1,"entity_type":"topics","entity_name":"foo"}'
    assert ConfigChange.decode(old) == ConfigChange("topics/foo")
    features = b'{"version":2,"status":1,"features":{"f":{"max_version_level":4}}}'
    assert FeatureZnode.decode(features).features == {"f": VersionRange(1, 4)}


def test_a_change_of_a_version_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidPayload, match="version 3"):
        ConfigChange.decode(b'{"version":3,"entity_path":"topics/foo"}')
    with pytest.raises(InvalidPayload, match="status 2"):
        FeatureZnode.decode(b'{"version":1,"status":2,"features":{}}')


def test_a_configuration_without_data_sets_nothing() -> None:
    assert EntityConfig.decode(b"") == EntityConfig({})
    assert EntityConfig.decode(b'{"version":1}') == EntityConfig({})
    assert EntityConfig.decode(b'{"version":1,"config":{"a":true,"b":5}}').config == {"a": "true", "b": "5"}


@given(
    st.dictionaries(st.integers(0, 2**31 - 1), st.lists(st.integers(0, 2**31 - 1), max_size=4).map(lambda x: ids(*x)))
)
def test_any_assignment_survives(partitions: dict[int, tuple[BrokerId, ...]]) -> None:
    assert TopicAssignment.decode(TopicAssignment(partitions).encode()) == TopicAssignment(partitions)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8"))))
def test_any_configuration_survives(config: dict[str, str]) -> None:
    assert EntityConfig.decode(EntityConfig(config).encode()) == EntityConfig(config)
