"""Where a broker listens and what it tells others of that: `listeners` and the keys around it, resolved.  [P]

A listener is NAME://host:port; names are made upper case as in Kafka. An empty host binds every interface, and the name
of the machine is what others are told of it. Without `listeners` there is one named PLAINTEXT on `host.name`:`port`;
without `advertised.listeners` the advertised host and port, else the listeners themselves, are what others are told.
Only PLAINTEXT listeners can be served in this version, so one that maps to another protocol is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from broker.config_keys.key import ConfigError, ConfigValue

_ENDPOINT: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)", re.ASCII)
_CONTROL: Final = re.compile(r"\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII)
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SERVED: Final = "PLAINTEXT"
_ALL_INTERFACES: Final = "0.0.0.0"  # noqa: S104 - named to be refused
_EVERY_INTERFACE: Final = frozenset({"", _ALL_INTERFACES, "::"})


@dataclass(frozen=True, slots=True)
class Listener:
    """A named address. An empty host means every interface, port 0 any free port."""

    name: str
    host: str
    port: int
    security_protocol: str = _SERVED

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listeners:
    """All of them: where to bind, what to tell others, and which one the brokers use among themselves."""

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    security_protocols: Mapping[str, str]
    inter_broker_name: str

    @property
    def inter_broker(self) -> Listener:
        """The bound listener for brokers."""
        return next(listener for listener in self.bound if listener.name == self.inter_broker_name)

    def reachable(self, endpoint: str) -> str:
        """A bound "host:port" as other brokers can reach it: every interface is where this broker says that it is."""
        host, _, port = endpoint.rpartition(":")
        if host.strip("[]") not in _EVERY_INTERFACE:
            return endpoint
        advertised = next(each.host for each in self.advertised if each.name == self.inter_broker_name)
        return f"[{advertised}]:{port}" if ":" in advertised else f"{advertised}:{port}"


def resolve_listeners(values: Mapping[str, ConfigValue], given: Mapping[str, str], *, host_name: str) -> Listeners:
    """The listeners of these parsed `values`; `given` are the texts that were set, `host_name` is this machine's.

    Raises:
        ConfigError: they contradict each other or cannot be served.
    """
    protocols = _protocol_map(str(values["listener.security.protocol.map"]))
    bound = _bound(values, protocols)
    advertised = tuple(replace(each, host=each.host or host_name) for each in _advertised(values, protocols, bound))
    bound_names, names = {listener.name for listener in bound}, {listener.name for listener in advertised}
    if not names <= bound_names:
        raise ConfigError(
            "advertised.listeners", ",".join(map(str, advertised)), f"names of `listeners`: {_list(bound_names)}"
        )
    for listener in advertised:
        if listener.host == _ALL_INTERFACES:
            raise ConfigError("advertised.listeners", str(listener), "an address that can be connected to")
    inter_broker_name = _inter_broker_name(values, given, protocols)
    if inter_broker_name not in names:
        raise ConfigError("inter.broker.listener.name", inter_broker_name, f"an advertised listener: {_list(names)}")
    return Listeners(bound, advertised, protocols, inter_broker_name)


def resolve_control_listener(text: str | None, listeners: Listeners) -> tuple[str, int]:
    """Host and port where the controller is heard: as given, else any port beside the listener between brokers."""
    if text is None:
        return listeners.inter_broker.host, 0
    match = _CONTROL.fullmatch(text)
    if match is None or int(match[2]) > 65535:
        raise ConfigError("barnabas.control.listener", text, "host:port")
    return match[1], int(match[2])


def parse_pairs(key: str, text: str) -> dict[str, str]:
    """Pairs name:value separated by commas; the last colon divides."""
    if not text:
        return {}
    pairs = {}
    for item in _COMMA.split(text):
        name, colon, value = item.rpartition(":")
        if not colon:
            raise ConfigError(key, text, "pairs name:value separated by commas")
        pairs[name.strip()] = value.strip()
    return pairs


def _protocol_map(text: str) -> dict[str, str]:
    key = "listener.security.protocol.map"
    protocols = {}
    for name, protocol in parse_pairs(key, text).items():
        if protocol.upper() not in _PROTOCOLS:
            raise ConfigError(key, text, "NAME:PROTOCOL with one of " + ", ".join(_PROTOCOLS))
        protocols[name.upper()] = protocol.upper()
    return protocols


def _bound(values: Mapping[str, ConfigValue], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    text = values["listeners"]
    shown = str(text) if text is not None else f"PLAINTEXT://{values['host.name']}:{values['port']}"
    listeners = _parse("listeners", shown, protocols)
    ports = [listener.port for listener in listeners if listener.port]
    if len(set(ports)) != len(ports):
        raise ConfigError("listeners", shown, "a different port for each listener")
    return listeners


def _advertised(
    values: Mapping[str, ConfigValue], protocols: Mapping[str, str], bound: tuple[Listener, ...]
) -> tuple[Listener, ...]:
    if values["advertised.listeners"] is not None:
        return _parse("advertised.listeners", str(values["advertised.listeners"]), protocols)
    host, port = values["advertised.host.name"], values["advertised.port"]
    if host is None and port is None:
        return bound
    host = values["host.name"] if host is None else host
    port = values["port"] if port is None else port
    return _parse("advertised.host.name", f"PLAINTEXT://{host}:{port}", protocols)


def _parse(key: str, text: str, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    listeners = []
    for item in _COMMA.split(text):
        if not item:
            continue
        match = _ENDPOINT.fullmatch(item)
        if match is None or not 0 <= int(match[3]) <= 65535:
            raise ConfigError(key, text, "NAME://host:port, separated by commas, with ports from 0 to 65535")
        name = match[1].upper()
        if name not in protocols:
            raise ConfigError(key, text, f"listeners that listener.security.protocol.map names: {_list(protocols)}")
        if protocols[name] != _SERVED:
            raise ConfigError(key, text, f"{_SERVED} listeners in this version of Barnabas, not {protocols[name]}")
        listeners.append(Listener(name, match[2], int(match[3])))
    names = [listener.name for listener in listeners]
    if not listeners or len(set(names)) != len(names):
        raise ConfigError(key, text, "one or more listeners, each with a name of its own")
    return tuple(listeners)


def _inter_broker_name(
    values: Mapping[str, ConfigValue], given: Mapping[str, str], protocols: Mapping[str, str]
) -> str:
    protocol_key, name_key = "security.inter.broker.protocol", "inter.broker.listener.name"
    name = values[name_key]
    if name is None:
        protocol = str(values[protocol_key])
        if protocol.upper() not in _PROTOCOLS:
            raise ConfigError(protocol_key, protocol, "one of " + ", ".join(_PROTOCOLS))
        return protocol.upper()
    if protocol_key in given:
        raise ConfigError(name_key, str(name), f"nothing where {protocol_key} is set")
    if str(name).upper() not in protocols:
        raise ConfigError(name_key, str(name), f"a name in listener.security.protocol.map: {_list(protocols)}")
    return str(name).upper()


def _list(names: Any) -> str:
    return ", ".join(sorted(names))
