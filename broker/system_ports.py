"""The machine's side of the ports that depend on configuration: network, ZooKeeper session, control plane."""

from typing import Final

from barnabas.runtime.network import ConnectionGate, ConnectionOptions
from barnabas.runtime.offload import Offload
from barnabas.runtime.socket_network import SocketNetwork
from barnabas.runtime.tasks import Supervisor
from broker.config import BrokerConfig
from broker.config_keys.key import ConfigError
from broker.connection_limits import connection_limits
from controller.channel import GrpcControlPlane
from zk_schema.session import KazooSession

DEFAULT_RECEIVE_BYTES: Final = 24 * 1024 * 1024
"""What unfinished requests may take in all where `queued.max.request.bytes` sets no bound."""


def open_network(config: BrokerConfig, offload: Offload, supervisor: Supervisor) -> SocketNetwork:
    """Sockets, set up as the configuration says. Buffer sizes are the kernel's unless they are set."""
    budget = config.queued_max_request_bytes
    return SocketNetwork(
        options=ConnectionOptions(
            max_frame_bytes=config.socket_request_max_bytes,
            idle_ms=config.connections_max_idle_ms,
            send_buffer_bytes=_given_size(config, "socket.send.buffer.bytes", config.socket_send_buffer_bytes),
            receive_buffer_bytes=_given_size(config, "socket.receive.buffer.bytes", config.socket_receive_buffer_bytes),
        ),
        gate=ConnectionGate(connection_limits(config)),
        offload=offload,
        supervisor=supervisor,
        receive_budget_bytes=budget if budget > 0 else DEFAULT_RECEIVE_BYTES,
    )


def _given_size(config: BrokerConfig, key: str, value: int) -> int | None:
    """A buffer size only where it was set: the kernel's own tuning serves better than Kafka's 100 KB."""
    return value if key in config.given and value > 0 else None


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


def open_control_plane(config: BrokerConfig, supervisor: Supervisor) -> GrpcControlPlane:
    """The control plane over gRPC."""
    return GrpcControlPlane(supervisor, deadline_ms=config.controller_socket_timeout_ms)
