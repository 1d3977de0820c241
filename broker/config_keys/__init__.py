"""All configuration keys that a broker knows: those of Kafka 2.7 and our own, one table for brokers and one for topics.

The tables are by name, in the order in which Kafka documents the keys.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.config_keys.coordinators import GROUP_KEYS, OFFSET_KEYS, TRANSACTION_KEYS
from broker.config_keys.key import ConfigKey
from broker.config_keys.log import CLEANER_KEYS, LOG_KEYS
from broker.config_keys.network import GENERAL_KEYS, SOCKET_KEYS, ZOOKEEPER_KEYS
from broker.config_keys.own import OWN_KEYS
from broker.config_keys.replication import CONTROLLED_SHUTDOWN_KEYS, REPLICATION_KEYS, THROTTLE_KEYS
from broker.config_keys.security import PASSWORD_ENCODER_KEYS, SASL_KEYS, TLS_KEYS, TOKEN_KEYS
from broker.config_keys.service import FETCH_KEYS, METRICS_KEYS, QUOTA_KEYS
from broker.config_keys.topic import TOPIC_CONFIG_KEYS, TopicKey

_BROKER_GROUPS: Final[tuple[tuple[ConfigKey, ...], ...]] = (
    ZOOKEEPER_KEYS,
    GENERAL_KEYS,
    SOCKET_KEYS,
    LOG_KEYS,
    CLEANER_KEYS,
    REPLICATION_KEYS,
    CONTROLLED_SHUTDOWN_KEYS,
    GROUP_KEYS,
    OFFSET_KEYS,
    TRANSACTION_KEYS,
    FETCH_KEYS,
    METRICS_KEYS,
    QUOTA_KEYS,
    TLS_KEYS,
    SASL_KEYS,
    TOKEN_KEYS,
    PASSWORD_ENCODER_KEYS,
    OWN_KEYS,
)

BROKER_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {key.name: key for group in _BROKER_GROUPS for key in group}
)
DYNAMIC_ONLY_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType({key.name: key for key in THROTTLE_KEYS})
TOPIC_KEYS: Final[Mapping[str, TopicKey]] = MappingProxyType({key.name: key for key in TOPIC_CONFIG_KEYS})

OTHER_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        name: names
        for names in (
            ("log.roll.ms", "log.roll.hours"),
            ("log.roll.jitter.ms", "log.roll.jitter.hours"),
            ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        )
        for name in names
    }
    | {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}
)
"""Keys that say one thing in several units, the strongest first, by each of their names."""
