"""Keys of fetching, of metrics and of quotas."""

from typing import Final

from broker.config_keys.key import (
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    STRING,
    ConfigKey,
    at_least,
)

FETCH_KEYS: Final = (
    ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        MEDIUM,
        "Fetch sessions that are kept.",
        at_least(0),
        acts=True,
    ),
    ConfigKey(
        "fetch.max.bytes", INT, 57671680, MEDIUM, "Most bytes that a fetch is answered with.", at_least(1024), acts=True
    ),
)

METRICS_KEYS: Final = (
    ConfigKey("metrics.num.samples", INT, 2, LOW, "Samples that a rate is made of.", at_least(1)),
    ConfigKey("metrics.sample.window.ms", LONG, 30000, LOW, "Time that a sample covers.", at_least(1)),
    ConfigKey("metric.reporters", LIST, [], LOW, "Java classes that metrics are handed to.", dynamic=True),
    ConfigKey("metrics.recording.level", STRING, "INFO", LOW, "How fine metrics are taken."),
    ConfigKey("kafka.metrics.reporters", LIST, [], LOW, "Java classes that the older metrics are handed to."),
    ConfigKey(
        "kafka.metrics.polling.interval.secs", INT, 10, LOW, "How often those classes look at the metrics.", at_least(1)
    ),
)

QUOTA_KEYS: Final = (
    ConfigKey("quota.producer.default", LONG, LONG_MAX, HIGH, "Bytes a second that a client may produce.", at_least(1)),
    ConfigKey("quota.consumer.default", LONG, LONG_MAX, HIGH, "Bytes a second that a client may fetch.", at_least(1)),
    ConfigKey("quota.window.num", INT, 11, LOW, "Samples of a client's quota.", at_least(1)),
    ConfigKey(
        "replication.quota.window.num", INT, 11, LOW, "Samples of the quota of replication.", at_least(1), acts=True
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.num",
        INT,
        11,
        LOW,
        "Samples of the quota of moves between directories.",
        at_least(1),
        acts=True,
    ),
    ConfigKey("controller.quota.window.num", INT, 11, LOW, "Samples of the quota of changes of topics.", at_least(1)),
    ConfigKey("quota.window.size.seconds", INT, 1, LOW, "Time of a sample of a client's quota.", at_least(1)),
    ConfigKey(
        "replication.quota.window.size.seconds",
        INT,
        1,
        LOW,
        "Time of a sample of the quota of replication.",
        at_least(1),
        acts=True,
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.size.seconds",
        INT,
        1,
        LOW,
        "Time of a sample of the quota of moves between directories.",
        at_least(1),
        acts=True,
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        INT,
        1,
        LOW,
        "Time of a sample of the quota of changes of topics.",
        at_least(1),
    ),
    ConfigKey("client.quota.callback.class", CLASS, None, LOW, "Class that decides on quotas."),
)
