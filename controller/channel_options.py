"""How every gRPC channel and server of the control plane is set up."""

from typing import Final

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
OPTIONS: Final = (
    # Else two brokers could share a port without either noticing.
    ("grpc.so_reuseport", 0),
    # A proxy of the environment has no business between brokers.
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A connection that failed must not delay the next attempt.
    ("grpc.use_local_subchannel_pool", 1),
)
