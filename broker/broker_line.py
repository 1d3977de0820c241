"""One connection to another broker, kept for questions that come again: made when asked for, anew where need be."""

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas.client.connection import Address, Connection
from barnabas.client.errors import ClientError, ConnectionFailed
from barnabas.protocol.ids import BrokerId
from broker.fetching import BrokerReach


class BrokerLine:
    """The line to one broker; `client_id` is how this one is called there."""

    __slots__ = ("_client_id", "_connecting", "_connection", "_reach", "_spawn", "broker_id")

    def __init__(
        self, broker_id: BrokerId, reach: BrokerReach, *, client_id: str, spawn: Callable[..., "asyncio.Task[Any]"]
    ) -> None:
        self.broker_id = broker_id
        self._reach = reach
        self._client_id = client_id
        self._spawn = spawn
        self._connection: Connection | None = None
        self._connecting: asyncio.Future[Connection] | None = None

    async def connected(self) -> Connection:
        """The connection; who asks while it is made waits for the same one. Raises ClientError."""
        address = self._reach.endpoint_of(self.broker_id)
        connection = self._connection
        if connection is not None:
            if connection.is_open and connection.address == address:
                return connection
            connection.close("the broker is elsewhere")
            self._connection = None
        if address is None:
            raise ConnectionFailed(f"broker {self.broker_id} is not known to live")
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_future()
            self._spawn(self._connect(address, self._connecting), name=f"{self._client_id} to broker {self.broker_id}")
        return await asyncio.shield(self._connecting)

    async def _connect(self, address: Address, connected: "asyncio.Future[Connection]") -> None:
        try:
            self._connection = await self._reach.connect(address, self._client_id)
            connected.set_result(self._connection)
        except ClientError as error:
            connected.set_exception(error)
        finally:
            self._connecting = None
