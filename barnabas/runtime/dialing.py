"""TCP connections from this process to others."""

import asyncio
import errno
import socket
from collections.abc import Callable

from barnabas.runtime.tasks import uncancelled
from barnabas.runtime.within_host import choose_unpaced, restore_pacing


async def dial(host: str, port: int, *, prepare: Callable[[socket.socket], None] | None = None) -> socket.socket:
    """A socket, which does not block, connected to the first address of the host that answers.

    `prepare` sets what has to stand before it connects. Raises OSError.
    """
    loop = asyncio.get_running_loop()
    try:
        resolved = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(errno.EINVAL, f"no host can be called {host}: {error}") from error
    failure: OSError | None = None
    for family, kind, protocol, _, address in resolved:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if prepare is not None:
                prepare(sock)
            replaced = choose_unpaced(sock)
            await loop.sock_connect(sock, address)
            restore_pacing(sock, replaced)
        except OSError as error:
            failure = error
            sock.close()
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure or OSError(errno.EADDRNOTAVAIL, f"{host} has no address")


async def hand_over(sock: socket.socket, protocol: asyncio.BaseProtocol) -> None:
    """Have the running loop serve a connected socket, which is the loop's from then on.

    Who is cancelled hears of it when that is done, and closes the connection through its transport: a loop that is
    interrupted in between closes the descriptor under a socket that still names it.
    """
    await uncancelled(asyncio.get_running_loop().create_connection(lambda: protocol, sock=sock))
