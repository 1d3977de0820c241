"""The connection of one fetcher to its leader: opened when it is asked for, and anew where it was lost or the leader
is elsewhere. It counts failures in a row, and tells of each reason once.
"""

import logging

from barnabas.client.errors import ClientError, ConnectionFailed
from barnabas.protocol.ids import BrokerId
from replication.fetcher_ports import FetcherPorts, LeaderConnection

log = logging.getLogger(__name__)


class LeaderLine:
    """See the module. `name` is the client that the leader sees."""

    def __init__(self, leader_id: BrokerId, name: str, ports: FetcherPorts) -> None:
        self._leader_id = leader_id
        self._name = name
        self._ports = ports
        self._connection: LeaderConnection | None = None
        self._told_reason = ""
        self.failures = 0
        """Those in a row."""

    def current(self) -> LeaderConnection | None:
        """The connection, if it is open and to where the leader is."""
        connection = self._connection
        if connection is None or not connection.is_open:
            return None
        return connection if connection.address == self._ports.endpoint_of(self._leader_id) else None

    async def open(self) -> LeaderConnection:
        """Connect; what was connected is closed. Raises ClientError."""
        self.close("the leader is elsewhere")
        address = self._ports.endpoint_of(self._leader_id)
        if address is None:
            raise ConnectionFailed(f"broker {self._leader_id} is not known to live")
        self._connection = connection = await self._ports.connect(address, self._name)
        if not self.failures:
            log.info("%s: connected to broker %d at %s", self._name, self._leader_id, address)
        return connection

    def lose(self, error: ClientError) -> None:
        """A request or a connection failed."""
        if str(error) != self._told_reason:
            self._told_reason = str(error)
            log.warning("%s: cannot fetch from broker %d: %s", self._name, self._leader_id, error)
        self.failures += 1
        self.close("a request failed")

    def works(self) -> None:
        """All that was asked was answered."""
        if self.failures:
            log.info("%s: fetches from broker %d again", self._name, self._leader_id)
            self.failures, self._told_reason = 0, ""

    def close(self, reason: str) -> None:
        """Close what is connected."""
        if self._connection is not None:
            self._connection.close(reason)
            self._connection = None
