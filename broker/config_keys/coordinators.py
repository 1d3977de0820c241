"""Keys of consumer groups, their offsets, topics' deletion and compression, and transactions."""

from typing import Final

from broker.config_keys.key import (
    BOOLEAN,
    HIGH,
    INT,
    INT_MAX,
    LONG,
    LOW,
    MEDIUM,
    SHORT,
    STRING,
    ConfigKey,
    at_least,
    one_of_ignoring_case,
)

GROUP_KEYS: Final = (
    ConfigKey("group.min.session.timeout.ms", INT, 6000, MEDIUM, "Shortest session timeout that a member may ask for."),
    ConfigKey(
        "group.max.session.timeout.ms", INT, 1800000, MEDIUM, "Longest session timeout that a member may ask for."
    ),
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        MEDIUM,
        "How long a new group waits for members before it starts.",
    ),
    ConfigKey("group.max.size", INT, INT_MAX, MEDIUM, "Members that a group may have.", at_least(1)),
)

OFFSET_KEYS: Final = (
    ConfigKey("offset.metadata.max.bytes", INT, 4096, HIGH, "Longest text that may be committed with an offset."),
    ConfigKey(
        "offsets.load.buffer.size", INT, 5242880, HIGH, "Bytes read at a time when groups are loaded.", at_least(1)
    ),
    ConfigKey(
        "offsets.topic.replication.factor", SHORT, 3, HIGH, "Replicas of the topic of committed offsets.", at_least(1)
    ),
    ConfigKey(
        "offsets.topic.num.partitions", INT, 50, HIGH, "Partitions of the topic of committed offsets.", at_least(1)
    ),
    ConfigKey(
        "offsets.topic.segment.bytes",
        INT,
        104857600,
        HIGH,
        "Segment size of the topic of committed offsets.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.topic.compression.codec", INT, 0, HIGH, "Number of the codec of the topic of committed offsets."
    ),
    ConfigKey(
        "offsets.retention.minutes",
        INT,
        10080,
        HIGH,
        "How long offsets outlive the last member of a group.",
        at_least(1),
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        LONG,
        600000,
        HIGH,
        "How often offsets are searched for old ones.",
        at_least(1),
    ),
    ConfigKey("offsets.commit.timeout.ms", INT, 5000, HIGH, "How long a commit waits for its replicas.", at_least(1)),
    ConfigKey("offsets.commit.required.acks", SHORT, -1, HIGH, "Acknowledgements that a commit waits for."),
    ConfigKey("delete.topic.enable", BOOLEAN, True, HIGH, "Whether topics can be deleted.", acts=True),
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        HIGH,
        "Codec of the log: one by name, uncompressed, or producer for what the producer chose.",
        one_of_ignoring_case("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        acts=True,
        dynamic=True,
    ),
)

TRANSACTION_KEYS: Final = (
    ConfigKey(
        "transactional.id.expiration.ms",
        INT,
        604800000,
        HIGH,
        "How long the state of an idle producer is kept.",
        at_least(1),
        acts=True,
    ),
    ConfigKey(
        "transaction.max.timeout.ms",
        INT,
        900000,
        HIGH,
        "Longest transaction that may be asked for.",
        at_least(1),
        acts=True,
    ),
    ConfigKey(
        "transaction.state.log.min.isr",
        INT,
        2,
        HIGH,
        "Replicas that must be in sync in the topic of transactions.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.load.buffer.size",
        INT,
        5242880,
        HIGH,
        "Bytes read at a time when transactions are loaded.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        HIGH,
        "Replicas of the topic of transactions.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.state.log.num.partitions", INT, 50, HIGH, "Partitions of the topic of transactions.", at_least(1)
    ),
    ConfigKey(
        "transaction.state.log.segment.bytes",
        INT,
        104857600,
        HIGH,
        "Segment size of the topic of transactions.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10000,
        LOW,
        "How often transactions are searched for those whose time is up.",
        at_least(1),
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3600000,
        LOW,
        "How often transactional ids are searched for old ones.",
        at_least(1),
    ),
)
