"""What the loop has of a connection: an object of asyncio's class, whose methods are the connection's own.

The connection itself derives from nothing, so that it can be compiled to a class whose attributes have fixed places.
"""

import asyncio

from barnabas.runtime.socket_connection import SocketConnection


class SocketProtocol(asyncio.BufferedProtocol):
    """See the module."""

    def __init__(self, connection: SocketConnection) -> None:
        # Names of the object go before those of the class, and calling them costs no call more.
        own = vars(self)
        own["connection_made"] = connection.connection_made
        own["get_buffer"] = connection.get_buffer
        own["buffer_updated"] = connection.buffer_updated
        own["eof_received"] = connection.eof_received
        own["connection_lost"] = connection.connection_lost
