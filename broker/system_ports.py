"""The machine's side of the ports that depend on configuration: network and control plane."""

from typing import Final

from barnabas.runtime.network import ConnectionGate, ConnectionOptions
from barnabas.runtime.offload import Offload
from barnabas.runtime.socket_network import SocketNetwork
from barnabas.runtime.tasks import Supervisor
from broker.config import BrokerConfig
from broker.connection_limits import connection_limits
from controller.channel import GrpcControlPlane

DEFAULT_RECEIVE_BYTES: Final = 24 * 1024 * 1024
"""What unfinished requests may take in all where `queued.max.request.bytes` sets no bound."""


def open_network(config: BrokerConfig, offload: Offload, supervisor: Supervisor) -> SocketNetwork:
    """Sockets, set up as the configuration says. Buffer sizes are the network's unless they are set."""
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
    """A buffer size only where it was set: what the network and the kernel choose serves better than Kafka's 100 KB."""
    return value if key in config.given else None


def open_control_plane(config: BrokerConfig, supervisor: Supervisor) -> GrpcControlPlane:
    """The control plane over gRPC."""
    return GrpcControlPlane(supervisor, deadline_ms=config.controller_socket_timeout_ms)
