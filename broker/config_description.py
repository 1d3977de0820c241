"""What DescribeConfigs and CreateTopics tell of configuration: value, source, synonyms, type and documentation.  [P]

The rules are those of Kafka 2.7 (KIP-226, KIP-569). A key's synonyms are where its value could come from, strongest
first; the first one is where it does come from. Synonyms before the key's own name are left out, so that
`log.retention.hours` does not show what `log.retention.ms` says. A key without a known type is treated as a secret.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import dropwhile
from typing import Final

from broker.config import BrokerConfig
from broker.config_keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS, OTHER_SPELLINGS, TOPIC_KEYS
from broker.config_keys.key import REQUIRED, ConfigKey, ConfigType, render_value
from broker.topic_configs import topic_values

_LISTENER_KEY: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_MECHANISM_KEYS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


class ConfigSource(IntEnum):
    """Where a value comes from. The number is that of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    LOGGER = 6


@dataclass(slots=True)
class Synonym:
    """One place where a key's value could come from; the value of a secret is None."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(slots=True)
class Description:
    """One key of a broker or a topic."""

    name: str
    value: str | None
    type: ConfigType
    is_sensitive: bool
    read_only: bool
    documentation: str | None
    synonyms: list[Synonym] = field(default_factory=list)

    @property
    def source(self) -> ConfigSource:
        """Where the value comes from."""
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[Description]:
    """All keys of a broker, or those of `names` that there are; an empty `names` asks for all."""
    known = {name: render_value(value) for name, value in config.values.items()}
    others = {name: text for name, text in config.given.items() if name not in known}
    return [_broker_key(config, name, value) for name, value in _selected(known | others, names)]


def describe_all_brokers(config: BrokerConfig, names: Collection[str] | None = None) -> list[Description]:
    """What ZooKeeper sets for all brokers, or those of `names` that are set there; an empty `names` asks for all."""
    described = [_broker_key(config, name, text) for name, text in _selected(config.layers.of_all_brokers, names)]
    for each in described:
        each.synonyms = [synonym for synonym in each.synonyms if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER]
    return described


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Description]:
    """All keys of a topic with these overrides, or those of `names` that there are; an empty `names` asks for all."""
    values, _ = topic_values(config, overrides)
    known = {name: render_value(value) for name, value in values.items()}
    others = {name: text for name, text in overrides.items() if name not in known}
    return [_topic_key(config, overrides, name, value) for name, value in _selected(known | others, names)]


def _selected(values: Mapping[str, str | None], names: Collection[str] | None) -> Iterator[tuple[str, str | None]]:
    wanted = frozenset(names or ())
    return ((name, value) for name, value in values.items() if not wanted or name in wanted)


def _broker_key(config: BrokerConfig, name: str, value: str | None) -> Description:
    key = BROKER_KEYS.get(name) or DYNAMIC_ONLY_KEYS.get(name)
    typed = key or next((BROKER_KEYS[other] for other in _spellings(name) if other in BROKER_KEYS), None)
    is_sensitive = typed is None or typed.is_sensitive
    return Description(
        name=name,
        value=None if is_sensitive else value,
        type=ConfigType.UNKNOWN if typed is None else typed.type,
        is_sensitive=is_sensitive,
        read_only=key is None or not key.is_changeable,
        documentation=None if key is None else key.documentation,
        synonyms=_broker_synonyms(config, name, is_sensitive=is_sensitive),
    )


def _topic_key(config: BrokerConfig, overrides: Mapping[str, str], name: str, value: str | None) -> Description:
    key = TOPIC_KEYS.get(name)
    is_sensitive = key is None or key.is_sensitive
    shown = None if is_sensitive else value
    synonyms = [Synonym(name, shown, ConfigSource.TOPIC)] if name in overrides else []
    if key is not None and key.broker_key is not None:
        synonyms += _broker_synonyms(config, key.broker_key, is_sensitive=is_sensitive)
    return Description(
        name=name,
        value=shown,
        type=ConfigType.UNKNOWN if key is None else key.type,
        is_sensitive=is_sensitive,
        read_only=False,
        documentation=None if key is None else key.documentation,
        synonyms=synonyms,
    )


def _broker_synonyms(config: BrokerConfig, name: str, *, is_sensitive: bool) -> list[Synonym]:
    found = []
    layers = config.layers
    for layer, source in (
        (layers.of_this_broker, ConfigSource.DYNAMIC_BROKER),
        (layers.of_all_brokers, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (layers.static, ConfigSource.STATIC_BROKER),
    ):
        found += [
            Synonym(spelling, None if is_sensitive else layer[spelling], source)
            for spelling in _spellings(name)
            if spelling in layer
        ]
    for spelling in _spellings(name):
        default = _default_text(BROKER_KEYS.get(spelling))
        if default is not None:
            found.append(Synonym(spelling, None if is_sensitive else default, ConfigSource.DEFAULT))
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def _default_text(key: ConfigKey | None) -> str | None:
    return None if key is None or key.default is REQUIRED else render_value(key.default)


def _spellings(name: str) -> tuple[str, ...]:
    """The keys that say the same, strongest first: other units, or the key without its listener's name."""
    match = _LISTENER_KEY.fullmatch(name)
    if match is None:
        return OTHER_SPELLINGS.get(name, (name,))
    base = match[1]
    return (name, next((key for key in _MECHANISM_KEYS if base.endswith(key)), base))
