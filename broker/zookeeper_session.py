"""The machine's side of a broker's ZooKeeper port; apart from the others, because a start begins with it."""

from broker.config import BrokerConfig
from broker.config_keys.key import ConfigError
from zk_schema.session import KazooSession


async def open_zookeeper(config: BrokerConfig) -> KazooSession:
    """A session on the ZooKeeper of `zookeeper.connect`.

    Raises:
        ConfigError: the key cannot be that.
        ZooKeeperError: nobody answers there.
    """
    connect = config.zookeeper_connect
    try:
        session = KazooSession(
            connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            max_in_flight=config.zookeeper_max_in_flight_requests,
        )
    except ValueError as error:
        raise ConfigError(
            "zookeeper.connect", connect, f"host:port pairs separated by commas, then a path, if any ({error})"
        ) from error
    await session.open(timeout_ms=config.zookeeper_connection_timeout_ms)
    return session
