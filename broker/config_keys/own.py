"""Keys that Kafka does not have; their names begin with `barnabas.`."""

from typing import Final

from broker.config_keys.key import (
    BOOLEAN,
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    ConfigKey,
    at_least,
    between,
    one_of,
)

OWN_KEYS: Final = (
    ConfigKey(
        "barnabas.metrics.port",
        INT,
        -1,
        LOW,
        "Port on the loopback address where metrics are shown as Prometheus text; 0 takes any, -1 none.",
        between(-1, 65535),
        acts=True,
    ),
    ConfigKey(
        "barnabas.control.listener",
        STRING,
        None,
        MEDIUM,
        "host:port where this broker hears its controller; by default any port of the listener between brokers.",
        acts=True,
    ),
    ConfigKey(
        "barnabas.record.validation",
        STRING,
        "header",
        MEDIUM,
        "Whether of a client's batch of more than 16 KB only the header is checked, or every record: header, full.",
        one_of("header", "full"),
        acts=True,
    ),
    ConfigKey(
        "barnabas.scrub.bytes.per.second",
        LONG,
        4 * 1024 * 1024,
        MEDIUM,
        "Bytes of the logs whose checksums are checked in a second, in the background, a batch for 1 KB at least; "
        "0: only where a read failed.",
        at_least(0),
        acts=True,
        dynamic=True,
    ),
    ConfigKey(
        "barnabas.scrub.interval.ms",
        LONG,
        24 * 3600 * 1000,
        LOW,
        "Time from the beginning of one check of all logs to that of the next; one that takes longer goes on.",
        at_least(1),
        acts=True,
        dynamic=True,
    ),
    ConfigKey(
        "barnabas.last.replica.defence",
        BOOLEAN,
        True,
        HIGH,
        "Whether records are committed only on min.insync.replicas replicas, and the last replica in sync leads after "
        "its machine failed only if no other has more; false: as Kafka 2.7.",
        acts=True,
    ),
)
