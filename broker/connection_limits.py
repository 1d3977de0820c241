"""How many connections a broker takes, as its configuration says."""

import socket
from typing import Final

from barnabas.runtime.network import ConnectionLimits
from broker.config import BrokerConfig
from broker.config_keys.key import ConfigError

HOST_LIMITS: Final = "max.connections.per.ip.overrides"


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """How many connections are taken. Asks for the addresses of names, which may take a while.

    Raises:
        ConfigError: a name is not known.
    """
    return ConnectionLimits(config.max_connections, config.max_connections_per_ip, _by_address(config))


def _by_address(config: BrokerConfig) -> dict[str, int]:
    """`max.connections.per.ip.overrides` with names looked up once, as in Kafka.

    Raises:
        ConfigError: a name is not known.
    """
    by_address: dict[str, int] = {}
    for host, limit in config.max_connections_per_ip_overrides.items():
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ConfigError(HOST_LIMITS, host, f"a host that can be found ({error})") from error
        by_address |= {str(entry[4][0]): limit for entry in found}
    return by_address
