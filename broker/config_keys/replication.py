"""Keys of replication, of elections and of a broker's orderly stop."""

from typing import Final

from broker.config_keys.key import (
    BOOLEAN,
    HIGH,
    INT,
    LONG,
    LONG_MAX,
    MEDIUM,
    PROTOCOL_VERSION,
    STRING,
    ConfigKey,
    at_least,
    one_of,
)

REPLICATION_KEYS: Final = (
    ConfigKey(
        "controller.socket.timeout.ms",
        INT,
        30000,
        MEDIUM,
        "How long the controller waits for a broker's answer.",
        acts=True,
    ),
    ConfigKey(
        "default.replication.factor",
        INT,
        1,
        MEDIUM,
        "Replicas of a topic made without a count.",
        acts=True,
    ),
    ConfigKey(
        "replica.lag.time.max.ms",
        LONG,
        30000,
        HIGH,
        "A follower that has not caught up for this long is out of sync.",
        acts=True,
    ),
    ConfigKey(
        "replica.socket.timeout.ms", INT, 30000, HIGH, "How long a follower waits for its leader's answer.", acts=True
    ),
    ConfigKey(
        "replica.socket.receive.buffer.bytes", INT, 65536, HIGH, "SO_RCVBUF of a follower's connection.", acts=True
    ),
    ConfigKey(
        "replica.fetch.max.bytes",
        INT,
        1048576,
        MEDIUM,
        "Bytes a follower asks for of one partition.",
        at_least(0),
        acts=True,
    ),
    ConfigKey(
        "replica.fetch.wait.max.ms", INT, 500, HIGH, "How long a follower's fetch may wait for records.", acts=True
    ),
    ConfigKey(
        "replica.fetch.backoff.ms",
        INT,
        1000,
        MEDIUM,
        "How long a follower waits at most after an error.",
        at_least(0),
        acts=True,
    ),
    ConfigKey("replica.fetch.min.bytes", INT, 1, HIGH, "Bytes for which a follower's fetch waits.", acts=True),
    ConfigKey(
        "replica.fetch.response.max.bytes",
        INT,
        10485760,
        MEDIUM,
        "Bytes a follower asks for in all.",
        at_least(0),
        acts=True,
    ),
    ConfigKey(
        "num.replica.fetchers",
        INT,
        1,
        HIGH,
        "How many fetchers a follower runs for each leading broker.",
        dynamic=True,
        acts=True,
    ),
    ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        HIGH,
        "How often the high watermarks are written down.",
        acts=True,
    ),
    ConfigKey(
        "fetch.purgatory.purge.interval.requests", INT, 1000, MEDIUM, "Waiting fetches between two sweeps of them."
    ),
    ConfigKey(
        "producer.purgatory.purge.interval.requests", INT, 1000, MEDIUM, "Waiting produces between two sweeps of them."
    ),
    ConfigKey(
        "delete.records.purgatory.purge.interval.requests",
        INT,
        1,
        MEDIUM,
        "Waiting deletions of records between two sweeps of them.",
    ),
    ConfigKey(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        HIGH,
        "Whether leaders go back to the preferred replicas.",
        acts=True,
    ),
    ConfigKey(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        HIGH,
        "Share of a broker's preferred partitions led elsewhere from which leaders go back.",
        acts=True,
    ),
    ConfigKey(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        HIGH,
        "How often the balance of leaders is looked at.",
        acts=True,
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        HIGH,
        "Whether a replica that is not in sync may lead when no other can; records may be lost.",
        dynamic=True,
        acts=True,
    ),
    ConfigKey(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        MEDIUM,
        "Names the listener between brokers by its protocol, if inter.broker.listener.name is not set.",
        acts=True,
    ),
    ConfigKey(
        "inter.broker.protocol.version",
        STRING,
        "2.7-IV2",
        MEDIUM,
        "Version of Kafka in which brokers speak with each other.",
        PROTOCOL_VERSION,
    ),
    ConfigKey("inter.broker.listener.name", STRING, None, MEDIUM, "Name of the listener that brokers use.", acts=True),
    ConfigKey(
        "replica.selector.class",
        STRING,
        None,
        MEDIUM,
        "Class that chooses the replica that a consumer reads from.",
        acts=True,
        served=one_of(
            "org.apache.kafka.common.replica.LeaderSelector",
            "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        ),
    ),
)

CONTROLLED_SHUTDOWN_KEYS: Final = (
    ConfigKey(
        "controlled.shutdown.max.retries",
        INT,
        3,
        MEDIUM,
        "How often a stopping broker tries to hand over.",
        acts=True,
    ),
    ConfigKey(
        "controlled.shutdown.retry.backoff.ms",
        LONG,
        5000,
        MEDIUM,
        "How long it waits between two tries.",
        acts=True,
    ),
    ConfigKey(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        MEDIUM,
        "Whether a stopping broker first hands over its leaders.",
        acts=True,
    ),
)

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"

THROTTLE_KEYS: Final = (
    ConfigKey(
        LEADER_RATE,
        LONG,
        LONG_MAX,
        MEDIUM,
        "Bytes a second that this broker sends of throttled replicas to followers that lag.",
        at_least(0),
        acts=True,
        dynamic=True,
    ),
    ConfigKey(
        FOLLOWER_RATE,
        LONG,
        LONG_MAX,
        MEDIUM,
        "Bytes a second that this broker fetches for throttled replicas that lag.",
        at_least(0),
        acts=True,
        dynamic=True,
    ),
    ConfigKey(
        MOVE_RATE,
        LONG,
        LONG_MAX,
        MEDIUM,
        "Bytes a second that moves of replicas between this broker's directories copy.",
        at_least(0),
        acts=True,
        dynamic=True,
    ),
)
"""These are set in ZooKeeper only; in a broker's file they are no keys."""
