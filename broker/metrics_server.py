"""Shows a broker's metrics over HTTP on the loopback address: `GET /metrics` and nothing else.

A request is bounded in size and time, and every connection is closed after its answer.
"""

import asyncio
import logging
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from broker.metrics import BrokerMetrics

log = logging.getLogger(__name__)

_HOST: Final = "127.0.0.1"
_REQUEST_BYTES: Final = 8192
_REQUEST_TIMEOUT_S: Final = 5.0
_END_OF_HEAD: Final = b"\r\n\r\n"


class MetricsServer:
    """One listening socket; `start`, then `close`."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, port: int) -> int:
        """Listen on `port`, or on any port when it is 0; the port is returned."""
        self._server = await asyncio.start_server(self._serve, _HOST, port, limit=_REQUEST_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        log.info("metrics are shown at http://%s:%d/metrics", _HOST, self.port)
        return self.port

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                head = await reader.readuntil(_END_OF_HEAD)
                writer.write(await self._answer(head))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("a reader of metrics was dropped: %s", error)
        finally:
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != b"/metrics":
            return _response("404 Not Found", "text/plain", b"metrics are at /metrics\n")
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "text/plain", b"only GET\n")
        body = await self._metrics.exposition_in_turns()
        return _response("200 OK", CONTENT_TYPE_PLAIN_0_0_4, body, with_body=method == b"GET")


def _response(status: str, content_type: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + (body if with_body else b"")
