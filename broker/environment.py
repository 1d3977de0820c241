"""A broker's configuration from environment variables, as containers are configured.  [P]

The rule is that of the image apache/kafka: KAFKA_A_B sets the key a.b; two underscores stand for one, three for a dash.
The prefix KAFKA_CFG_, of another image that many compose files were written for, means the same. Variables that are
meant for a Java process set no key; each that is set is named, so that nobody believes that it acts. Where listeners
are advertised but `listeners` is not set, the broker listens on the advertised ports of every interface.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.config_keys.key import ConfigError

_PREFIXES: Final = ("KAFKA_CFG_", "KAFKA_")
_UNDERSCORES: Final = re.compile(r"_+")
_SEPARATORS: Final = {1: ".", 2: "_", 3: "-"}
_ADVERTISED_HOST: Final = re.compile(r"://[^,]*:")

_FOR_JAVA: Final = frozenset(
    {
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)


@dataclass(frozen=True, slots=True)
class EnvironmentProperties:
    """`given`: texts by key. `origins`: the variable that each came from. `ignored`: variables that set no key."""

    given: Mapping[str, str]
    origins: Mapping[str, str]
    ignored: tuple[str, ...]


def read_environment(environment: Mapping[str, str]) -> EnvironmentProperties:
    """What the variables of `environment` set.

    Raises:
        ConfigError: two variables set one key to different values, or a name cannot be a key.
    """
    given: dict[str, str] = {}
    origins: dict[str, str] = {}
    ignored = []
    for variable in sorted(environment):
        prefix = next((each for each in _PREFIXES if variable.startswith(each)), None)
        if prefix is None or variable == prefix:
            continue
        if variable in _FOR_JAVA:
            ignored.append(variable)
            continue
        key, text = _key(variable, variable.removeprefix(prefix)), environment[variable]
        if given.get(key, text) != text:
            raise ConfigError(key, text, f"one value: {origins[key]} and {variable} differ")
        given[key], origins[key] = text, variable
    if "advertised.listeners" in given and "listeners" not in given:
        given["listeners"] = _ADVERTISED_HOST.sub("://0.0.0.0:", given["advertised.listeners"])
        origins["listeners"] = origins["advertised.listeners"]
    return EnvironmentProperties(given, origins, tuple(ignored))


def _key(variable: str, name: str) -> str:
    def separator(match: re.Match[str]) -> str:
        found = _SEPARATORS.get(len(match[0]))
        if found is None:
            raise ConfigError(variable, name, "one underscore for a dot, two for an underscore, three for a dash")
        return found

    return _UNDERSCORES.sub(separator, name.lower())
