"""What ZooKeeper may set for brokers (KIP-226), and what that makes of a broker's configuration.  [P]

/config/brokers/ID stands over /config/brokers/<default>, and that over the broker's file. Only a key that acts when it
is changed may be set there; of a client the others are refused by name. What stands there already was written by
somebody else and must not harm: `lay` leaves out what cannot be, and says why.

A key that Kafka 2.7 takes for one broker only (listeners, TLS, SASL) does not change in a running broker of this
version, so no rule tells the two places apart.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from broker.config import BrokerConfig, resolve_broker_config
from broker.config_keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS
from broker.config_keys.key import ConfigError, ConfigKey

_LISTENER_KEY: Final = re.compile(r"listener\.name\.[^.]*\..*")
_THREAD_COUNTS: Final = ("num.replica.fetchers", "log.cleaner.threads")
"""As Kafka has it, these change by at most half or double at a time."""


class DynamicConfigRefused(Exception):
    """ZooKeeper may not say this of a broker; the text names the key."""


def check_change(
    config: BrokerConfig, wanted: Mapping[str, str], *, changed: Collection[str], of_this_broker: bool
) -> BrokerConfig:
    """What becomes of the configuration if a layer does, in which the keys of `changed` are new, others, or gone.

    The others were there before: those that are left out are left out still, and do not count.

    Raises:
        DynamicConfigRefused: it may not.
    """
    for name in changed:
        if name in wanted:
            _check(name, wanted[name])
    layers = config.layers
    present = layers.of_this_broker if of_this_broker else layers.of_all_brokers
    layer = {name: text for name, text in wanted.items() if name in changed or name in present}
    try:
        then = _resolve(
            config,
            of_all_brokers=layers.of_all_brokers if of_this_broker else layer,
            of_this_broker=layer if of_this_broker else layers.of_this_broker,
        )
    except ConfigError as error:
        raise DynamicConfigRefused(f"{error}.") from error
    _check_thread_counts(config, then)
    return then


def lay(
    config: BrokerConfig, *, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]
) -> tuple[BrokerConfig, list[str]]:
    """What becomes of a configuration under these layers, and why some of what they say was left out."""
    left_out: list[str] = []
    layers: dict[str, dict[str, str]] = {"of_all_brokers": {}, "of_this_broker": {}}
    for place, given in (("of_all_brokers", of_all_brokers), ("of_this_broker", of_this_broker)):
        for name, text in given.items():
            try:
                _check(name, text)
            except DynamicConfigRefused as error:
                left_out.append(str(error))
            else:
                layers[place][name] = text
    try:
        return _resolve(config, **layers), left_out
    except ConfigError:
        return _lay_one_by_one(config, layers, left_out)


def _lay_one_by_one(
    config: BrokerConfig, layers: Mapping[str, Mapping[str, str]], left_out: list[str]
) -> tuple[BrokerConfig, list[str]]:
    """Each key is good, and they contradict each other, or the file: those that do are left out."""
    laid = _resolve(config, of_all_brokers={}, of_this_broker={})
    taken: dict[str, dict[str, str]] = {place: {} for place in layers}
    for place, given in layers.items():
        for name in sorted(given):
            tried = taken | {place: taken[place] | {name: given[name]}}
            try:
                laid = _resolve(config, **tried)
            except ConfigError as error:
                left_out.append(str(error))
            else:
                taken = tried
    return laid, left_out


def _check(name: str, text: str) -> None:
    key = _changeable(name)
    try:
        key.require_served(key.parse(text), text)
    except ConfigError as error:
        raise DynamicConfigRefused(f"{error}.") from error


def _changeable(name: str) -> ConfigKey:
    key = DYNAMIC_ONLY_KEYS.get(name) or BROKER_KEYS.get(name)
    if key is None and _LISTENER_KEY.fullmatch(name):
        raise DynamicConfigRefused(f"{name} does not act in this version of Barnabas.")
    if key is None:
        raise DynamicConfigRefused(f"{name} is not a key that a broker knows.")
    if not key.dynamic:
        raise DynamicConfigRefused(f"{name} cannot be changed while a broker runs: set it in the broker's file.")
    if not key.acts:
        raise DynamicConfigRefused(f"{name} does not act in this version of Barnabas.")
    if key.restart:
        raise DynamicConfigRefused(f"{name} takes a restart in this version of Barnabas: set it in the broker's file.")
    return key


def _resolve(
    config: BrokerConfig, *, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]
) -> BrokerConfig:
    return resolve_broker_config(
        config.layers.static,
        host_name=config.host_name,
        of_all_brokers=of_all_brokers,
        of_this_broker=of_this_broker,
    )


def _check_thread_counts(present: BrokerConfig, then: BrokerConfig) -> None:
    for name in _THREAD_COUNTS:
        old, new = present.values[name], then.values[name]
        assert isinstance(old, int)
        assert isinstance(new, int)
        least, most = max(1, old // 2), old * 2
        if new != old and not least <= new <= most:
            raise DynamicConfigRefused(f"{name} is {old}: it may become {least} to {most}, not {new}.")
