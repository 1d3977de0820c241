"""What is known of one request beside its body."""

from dataclasses import dataclass

from broker.fetch_sessions import FollowerLine
from broker.services import Services


@dataclass(slots=True, init=False)
class RequestContext:
    """One request: its header, who sent it, and the broker's parts."""

    broker: Services
    version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    listener_name: str
    accepted_us: int
    """When its connection was accepted, by the monotonic clock: of two of one client the later is the one in use."""

    follower_line: FollowerLine
    """Of its connection."""

    # Written out: compiled, what dataclasses would make of the fields is interpreted still.
    def __init__(  # noqa: PLR0917 - as the fields are
        self,
        broker: Services,
        version: int,
        correlation_id: int,
        client_id: str | None,
        client_host: str,
        listener_name: str,
        accepted_us: int = 0,
        follower_line: FollowerLine | None = None,
    ) -> None:
        self.broker = broker
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.client_host = client_host
        self.listener_name = listener_name
        self.accepted_us = accepted_us
        self.follower_line = FollowerLine() if follower_line is None else follower_line
